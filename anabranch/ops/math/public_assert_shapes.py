"""``tf.debugging.assert_shapes``: sizes of several tensors that are to agree."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes
from anabranch.ops.control.public_dependencies import group
from anabranch.ops.math.checks import assert_

_OPEN = ("*", Ellipsis)
_ANY = (None, ".")


class _Asked(NamedTuple):
    """The sizes of one tensor, as asked for."""

    tensor: Tensor
    sizes: tuple[Any, ...]
    inner: bool
    """Whether they are those of its last dimensions, and any number stands before them."""

    @property
    def least_rank(self) -> int:
        return 0 if len(self.sizes) <= 1 else len(self.sizes)

    def rank_holds(self, rank: int) -> bool:
        most = rank if self.inner else max(len(self.sizes), 1)
        return self.least_rank <= rank <= most

    def ranks(self) -> str:
        if self.inner:
            return f"have rank at least {len(self.sizes)}"
        return f"have rank {len(self.sizes)}" if self.least_rank else "have rank 0 or 1"

    def numbers(self) -> range:
        """The number of each dimension that a size is of: from the end if they are the last ones."""
        return range(-len(self.sizes), 0) if self.inner else range(len(self.sizes))


class _Size(NamedTuple):
    """What is known of a size: who said it, and how large it is, as a number or a tensor."""

    said: str
    value: Any


def _label(tensor: Tensor) -> str:
    return f"Tensor {tensor.name}" if hasattr(tensor, "op") else f"Tensor of shape {tensor.shape}"


def _explicit(size: Any) -> int | None:
    """The number that a size stands for, or None for a symbol."""
    if isinstance(size, str | int | float | np.generic) or hasattr(size, "__int__"):
        try:
            number = int(size)
        except (TypeError, ValueError):
            return None
        return number
    return None


def _asked(tensor: Any, sizes: Any, prefix: str) -> _Asked:
    tensor = convert_to_tensor(tensor)
    if not (hasattr(sizes, "__iter__") or hasattr(sizes, "__getitem__")):
        raise ValueError(
            f"{prefix}{_label(tensor)}.  Specified shape must be an iterable.  An iterable has the attribute "
            f"`__iter__` or `__getitem__`.  Received specified shape: {sizes}\n"
            + errors.message(f"{sizes!r}", "a tuple with a size for each dimension", "('N', 3)")
        )
    items = tuple(sizes)
    for index, size in enumerate(items[1:], start=1):
        if isinstance(size, str | type(Ellipsis)) and size in _OPEN:
            raise ValueError(
                f"{prefix}{_label(tensor)} specified shape index {index}.  Symbol `...` or `*` for a variable number "
                "of unspecified dimensions is only allowed as the first entry\n"
                + errors.message(f"{items!r}", "`*` or `...` as the first entry, or nowhere", "('*', 'N', 3)")
            )
    inner = bool(items) and isinstance(items[0], str | type(Ellipsis)) and items[0] in _OPEN
    items = items[1:] if inner else items or (1,)
    for size in items:
        if isinstance(size, Tensor) or not isinstance(size, Hashable):
            raise TypeError(errors.message(f"size {size!r}", "a number, a name, None or '.'", "('N', 3)"))
    return _Asked(tensor, items, inner)


class _Check:
    """A way through the tensors in their order, with what is left to check in a step."""

    def __init__(self, prefix: str, data: Any, message: Any, summarize: Any) -> None:
        self.prefix, self.data, self.message, self.summarize = prefix, data, message, summarize
        self.known: dict[Any, _Size] = {}
        self.checks: list[Operation] = []

    def rank(self, asked: _Asked) -> None:
        """Check the rank of a tensor, now or in the step."""
        rank = asked.tensor.shape.ndims
        if rank is not None:
            if not asked.rank_holds(rank):
                raise ValueError(
                    f"{self.prefix}{_label(asked.tensor)} must {asked.ranks()}.  "
                    f"Received rank {rank}, shape {asked.tensor.shape}\n"
                    + errors.message(
                        f"shape {asked.tensor.shape}",
                        f"{len(asked.sizes)} sizes, {asked.sizes}",
                        "a tensor of that rank",
                    )
                )
            return
        found = build("Rank", asked.tensor)
        holds = build("GreaterEqual", found, convert_to_tensor(np.int32(asked.least_rank)))
        if not asked.inner:
            most = convert_to_tensor(np.int32(max(len(asked.sizes), 1)))
            holds = build("LogicalAnd", holds, build("LessEqual", found, most))
        self.require(holds, [f"{_label(asked.tensor)} must {asked.ranks()}"], asked.tensor)

    def sizes(self, asked: _Asked) -> None:
        """Check the sizes of a tensor against what has been said so far."""
        for number, size in zip(asked.numbers(), asked.sizes, strict=True):
            if size is None or (isinstance(size, str) and size == "."):
                continue
            value = _size_of(asked.tensor, number)
            explicit = _explicit(size)
            if explicit is not None:
                wanted = _Size("Specified explicitly", explicit)
            elif size in self.known:
                wanted = self.known[size]
            else:
                said = f"Specified by {_label(asked.tensor).replace('Tensor', 'tensor', 1)} dimension {number}"
                self.known[size] = _Size(said, value)
                continue
            self._compare(asked.tensor, number, value, wanted)

    def _compare(self, tensor: Tensor, number: int, value: Any, wanted: _Size) -> None:
        if isinstance(value, int) and isinstance(wanted.value, int):
            if value != wanted.value:
                raise ValueError(
                    f"{self.prefix}{wanted.said}.  {_label(tensor)} dimension {number} must have size {wanted.value}.  "
                    f"Received size {value}, shape {tensor.shape}\n"
                    + errors.message(
                        f"size {value} in dimension {number}", f"size {wanted.value}", "tensors whose sizes agree"
                    )
                )
            return
        first, second = (convert_to_tensor(size, dtype=dtypes.int32) for size in (value, wanted.value))
        words = [wanted.said, f"{_label(tensor)} dimension", str(number), "must have size", second]
        self.require(build("Equal", first, second), words, tensor)

    def require(self, holds: Any, words: list[Any], tensor: Tensor) -> None:
        """Have the step fail where something does not hold."""
        data = self.data
        if data is None:
            data = [self.message, *words, "Received shape: ", build("Shape", tensor)]
        self.checks.append(assert_(holds, data, summarize=self.summarize))


def _size_of(tensor: Tensor, number: int) -> Any:
    """A size of a tensor, as a number if it is known; a scalar has one dimension of size one."""
    shape = tensor.shape
    if shape.ndims is not None:
        size = shape.as_list()[number] if shape.ndims else 1
        if size is not None:
            return int(size)
    sizes = build("Shape", tensor)
    if shape.ndims is None:
        missing = build("Sub", np.int32(1), build("Minimum", build("Size", sizes), np.int32(1)))
        ones = build("Fill", build("Reshape", missing, np.array([1], np.int32)), np.int32(1))
        sizes = build("ConcatV2", [sizes, ones], np.int32(0))
    return sizes[number]


@public("debugging.assert_shapes")
def assert_shapes(
    shapes: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None
) -> Operation:
    """Check that the sizes of tensors are what is said, and that sizes of one name agree.

    What is known while the graph is built is checked there, the rest when the returned operation runs.

    Args:
        shapes: pairs of a tensor and its shape, or a dictionary of them. A shape is a tuple of sizes: a number, which
            the size must be (also as a string of digits); a name, which stands for one size throughout; None or
            ``"."`` for any size. ``"*"`` or ``...`` as the first entry stands for any number of dimensions. A shape
            that is None is not checked. A scalar counts as one dimension of size one.
        data: list of tensors and strings to show on failure; what failed, and the shape, if None.
        summarize: how many elements to show of each tensor.
        message: what the error's text begins with.
        name: name of the scope of the ops ("assert_shapes").

    Returns:
        The operation to depend on; one without effect where all is known.

    Raises:
        ValueError: a size or rank is known and wrong, a shape cannot be iterated over, or ``"*"`` stands elsewhere than
            first.
        InvalidArgumentError: in the step, where a size or rank is wrong.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default():
        ...     x, w = tf.zeros([2, 3]), tf.zeros([3, 5])
        ...     op = tf.debugging.assert_shapes([(x, ("batch", "n")), (w, ("n", 5))])
    """
    pairs = list(shapes.items() if isinstance(shapes, Mapping) else shapes)
    prefix = f"{message}.  " if message else ""
    with name_scope(name, "assert_shapes", [data]):
        check = _Check(prefix, data, message or "", summarize)
        asked = [_asked(tensor, sizes, prefix) for tensor, sizes in pairs if sizes is not None]
        for one in asked:
            check.rank(one)
        for one in asked:
            check.sizes(one)
        return group(*[one for one in check.checks if one is not None], name="static_checks_determined_all_ok")
