"""``tf.contrib.eager.Iterator``: a dataset's elements, where ops run at once."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.data import iterators


@public("contrib.eager.Iterator")
class Iterator(iterators.Iterator):
    """A place in a dataset, for where ops run at once.

    Args:
        dataset: a `tf.data.Dataset`.

    Raises:
        RuntimeError: a graph is being built. TypeError: it is not a dataset.

    Example:
        >>> import anabranch as tf
        >>> from anabranch.eager import mode
        >>> with mode.eager_mode():
        ...     [int(x) for x in tf.contrib.eager.Iterator(tf.data.Dataset.range(3))]
        [0, 1, 2]
    """

    def __init__(self, dataset: Any) -> None:
        if current_builder().defers:
            raise RuntimeError(
                "tf.contrib.eager.Iterator objects can only be used when eager execution is enabled, use "
                "tf.data.Dataset.make_initializable_iterator or tf.data.Dataset.make_one_shot_iterator for graph "
                "construction\n"
                + errors.message("an iterator of eager mode", "eager mode", "dataset.make_one_shot_iterator()")
            )
        if not hasattr(dataset, "make_one_shot_iterator"):
            raise TypeError(
                f"`dataset` must be a `tf.data.Dataset`, but got {dataset}.\n"
                + errors.message(f"a {type(dataset).__name__}", "a dataset", "tf.data.Dataset.from_tensor_slices(x)")
            )
        self.__dict__.update(dataset.make_one_shot_iterator().__dict__)


__all__ = ["Iterator"]
