"""``tf.data.experimental``: transformations as functions to ``apply``, and what tells about datasets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.sparse_tensor import SparseTensorSpec
from anabranch.core.values.tensor_spec import TensorSpec
from anabranch.data import structure
from anabranch.data.dataset import AUTOTUNE, Dataset, number, of_variant, seeds
from anabranch.data.structure import of_signature

api.publish_as("data.experimental.AUTOTUNE", AUTOTUNE)
Transformation = Callable[[Dataset], Dataset]


@public("data.experimental.get_single_element", "contrib.data.get_single_element")
def get_single_element(dataset: Dataset) -> Any:
    """The only element of a dataset, as tensors; a step fails if there is none, or more than one.

    Example:
        >>> import anabranch as tf
        >>> element = tf.data.experimental.get_single_element(tf.data.Dataset.from_tensors([1, 2]))
        >>> with tf.Session() as session:
        ...     session.run(element).tolist()
        [1, 2]
    """
    if not isinstance(dataset, Dataset):
        raise TypeError("`dataset` must be a `tf.data.Dataset` object.")
    tensors = build("DatasetToSingleElement", dataset._variant_tensor, **dataset._attrs)
    return structure.from_tensors(dataset._spec, tensors if isinstance(tensors, list) else [tensors])


@public("data.experimental.shuffle_and_repeat", "contrib.data.shuffle_and_repeat")
def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: Any = None) -> Transformation:
    """``shuffle`` and ``repeat`` as one stage, whose buffer takes from the next pass before one has ended.

    Args:
        buffer_size: how many elements are held to draw from.
        count: how many passes; without end if None or -1.
        seed: with it (or a graph's seed) the order is TensorFlow's own.
    """

    def apply(dataset: Dataset) -> Dataset:
        size = number(buffer_size, "buffer_size")
        passes = number(-1 if count is None else count, "count")
        return dataset._stage("ShuffleAndRepeatDataset", size, *seeds(seed), passes)

    return apply


@public("data.experimental.unbatch", "contrib.data.unbatch")
def unbatch() -> Transformation:
    """The rows of elements, one after the other."""
    return lambda dataset: dataset.unbatch()


@public("data.experimental.ignore_errors", "contrib.data.ignore_errors")
def ignore_errors(log_warning: bool = False) -> Transformation:
    """Leaves out elements that cannot be made: each of these, and nothing else.

    Args:
        log_warning: whether each error is written to the log.

    Example:
        >>> import anabranch as tf
        >>> numbers = tf.data.Dataset.from_tensor_slices([1.0, 0.0, 4.0])
        >>> dataset = numbers.map(lambda x: tf.check_numerics(1.0 / x, "division by zero"))
        >>> dataset = dataset.apply(tf.data.experimental.ignore_errors()).batch(3)
        >>> with tf.Session() as session:
        ...     session.run(dataset.make_one_shot_iterator().get_next()).tolist()
        [1.0, 0.25]
    """
    return lambda dataset: dataset._stage("IgnoreErrorsDataset", log_warning=log_warning)


@public("data.experimental.enumerate_dataset", "contrib.data.enumerate_dataset")
def enumerate_dataset(start: Any = 0) -> Transformation:
    """Pairs of a number, from ``start`` on, and an element."""
    return lambda dataset: dataset.enumerate(start)


@public("data.experimental.Counter", "contrib.data.Counter")
def counter(start: Any = 0, step: Any = 1, dtype: Any = None) -> Dataset:
    """The numbers ``start``, ``start + step``, ... without end, of dtype int64 if ``dtype`` is None."""
    wanted = structure.dtypes.int64 if dtype is None else structure.dtypes.as_dtype(dtype)
    ones = Dataset.from_tensors(0).repeat(None)
    first, distance = number(start, "start"), number(step, "step")
    return ones.enumerate().map(lambda place, _: build("Cast", place * distance + first, DstT=wanted))


INFINITE_CARDINALITY, UNKNOWN_CARDINALITY = -1, -2
api.publish_as("data.experimental.INFINITE_CARDINALITY", INFINITE_CARDINALITY)
api.publish_as("data.experimental.UNKNOWN_CARDINALITY", UNKNOWN_CARDINALITY)


@public("data.experimental.cardinality")
def cardinality(dataset: Dataset) -> Any:
    """How many elements a dataset has, as a scalar int64 tensor.

    It is ``INFINITE_CARDINALITY`` (-1) if there is no end, and ``UNKNOWN_CARDINALITY`` (-2) if that is not known
    without going through it: behind a filter, of files.

    Example:
        >>> import anabranch as tf
        >>> with tf.Session() as session:
        ...     session.run(tf.data.experimental.cardinality(tf.data.Dataset.range(10).batch(3)))
        np.int64(4)
    """
    return build("DatasetCardinality", dataset._variant_tensor)


@public("data.experimental.get_structure")
def get_structure(dataset_or_iterator: Any) -> Any:
    """The structure of the elements of a dataset or iterator."""
    try:
        return dataset_or_iterator.element_spec
    except AttributeError:
        raise TypeError(
            f"`dataset_or_iterator` must be a Dataset or Iterator object, but got {type(dataset_or_iterator)}."
        ) from None


@public("data.experimental.to_variant")
def to_variant(dataset: Dataset) -> Any:
    """The scalar variant tensor that is a dataset in a graph."""
    return dataset._as_variant_tensor()


@public("data.experimental.from_variant")
def from_variant(variant: Any, structure: Any) -> Dataset:
    """The dataset of a variant tensor, whose elements have a structure that ``get_structure`` gave of another."""
    return of_variant(variant, of_signature(structure))


@public("data.experimental.TensorStructure")
def tensor_structure(dtype: Any, shape: Any) -> TensorSpec:
    """The structure of tensors of a dtype and a static shape."""
    return TensorSpec(shape, dtype)


@public("data.experimental.SparseTensorStructure")
def sparse_tensor_structure(dtype: Any, shape: Any) -> SparseTensorSpec:
    """The structure of sparse tensors of a dtype and a static dense shape."""
    return SparseTensorSpec(shape, dtype)


__getattr__, __dir__ = api.module_attributes("data.experimental")
