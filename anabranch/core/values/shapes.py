"""Shapes, partly known: raw tuples for the system, `TensorShape` for its users.

Policy. Inside the system a shape is *raw*: a tuple of int or None (an unknown dimension), or None (unknown rank). Shape
rules run for each operation that is added to a graph, and tuples cost them nothing; the functions in the first half of
this module are what they need. The class in the second half is TensorFlow 1.x's, made from a raw shape when a user
asks for one; iterating over a `TensorShape` gives :class:`~anabranch.core.values.dimensions.Dimension` objects.

What does not fit raises ValueError with both shapes; a rule adds the operation and the user's line.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator
from typing import Any, Union

import numpy as np

from anabranch.core.errors import InvalidArgumentError, message
from anabranch.core.values import version_two
from anabranch.core.values.dimensions import Dimension, as_raw_dimension

RawShape = Union[tuple[Union[int, None], ...], None]  # noqa: UP007 (an alias that includes None)

_UNSUITABLE = (str, bytes, dict, set, frozenset)


def show(raw: RawShape) -> str:
    """Return a raw shape as messages show it: '[2,?]', '[]', '<unknown>'."""
    if raw is None:
        return "<unknown>"
    return "[" + ",".join("?" if d is None else str(d) for d in raw) + "]"


def as_raw(shape: Any) -> RawShape:
    """Return the raw shape of a TensorShape, a list or tuple of dimensions, one dimension, None or a shape proto."""
    if shape is None:
        return None
    kind = type(shape)
    if kind is TensorShape:
        return shape._raw
    if kind is tuple or kind is list:
        for d in shape:
            if d is not None and (type(d) is not int or d < 0):
                return tuple([as_raw_dimension(d) for d in shape])
        return shape if kind is tuple else tuple(shape)
    if isinstance(shape, TensorShape):
        return shape._raw
    if hasattr(shape, "unknown_rank") and hasattr(shape, "dim"):  # a TensorShapeProto
        return (
            None
            if shape.unknown_rank
            else tuple([None if d.size == -1 else as_raw_dimension(d.size) for d in shape.dim])
        )
    if isinstance(shape, (Dimension, numbers.Real)) or (hasattr(shape, "__index__") and getattr(shape, "ndim", 0) == 0):
        return (as_raw_dimension(shape),)
    if isinstance(shape, Iterable) and not isinstance(shape, _UNSUITABLE):
        return tuple([as_raw_dimension(d) for d in shape])
    raise TypeError(
        message(
            f"{shape!r} as a shape",
            "a list or tuple of integers and None, a TensorShape, or None for an unknown rank",
            "for example [None, 784]",
        )
    )


def is_static(raw: RawShape) -> bool:
    """Return whether rank and all dimensions are known."""
    return raw is not None and None not in raw


def num_elements(raw: RawShape) -> int | None:
    """Return the number of elements, None if it is not known."""
    if raw is None or None in raw:
        return None
    return math.prod(raw)  # type: ignore[arg-type]


def is_compatible(a: RawShape, b: RawShape) -> bool:
    """Return whether some fully known shape fits both."""
    if a is None or b is None or a == b:
        return True
    if len(a) != len(b):
        return False
    return all(x is None or y is None or x == y for x, y in zip(a, b, strict=True))


def merge(a: RawShape, b: RawShape) -> RawShape:
    """Return what is known about a shape of which both `a` and `b` are known; ValueError if they contradict."""
    if a is None or a == b:
        return b
    if b is None:
        return a
    if len(a) == len(b):
        merged = []
        for x, y in zip(a, b, strict=True):
            if x is None:
                x = y
            elif y is not None and x != y:
                break
            merged.append(x)
        else:
            return tuple(merged)
    raise ValueError(
        difference(a, b)
        + message(
            f"the shapes {show(a)} and {show(b)}",
            "two shapes that can be the same: equal ranks, and equal dimensions where both are known",
            "tf.reshape one of them, or give None for a dimension that varies",
        )
    )


def difference(a: RawShape, b: RawShape) -> str:
    """TensorFlow's words for two shapes that contradict: programs match on them."""
    assert a is not None
    assert b is not None
    if len(a) != len(b):
        return f"Shapes must be equal rank, but are {len(a)} and {len(b)}\n"
    pairs = enumerate(zip(a, b, strict=True))
    at, x, y = next((i, x, y) for i, (x, y) in pairs if x is not None and y is not None and x != y)
    shown = f"Shapes are {show(a)} and {show(b)}."
    return f"Dimension {at} in both shapes must be equal, but are {x} and {y}. {shown}\n"


def merge_dim(x: int | None, y: int | None) -> int | None:
    """Return what is known about a dimension of which both `x` and `y` are known; ValueError if they differ."""
    if x is None or x == y:
        return y
    if y is None:
        return x
    raise ValueError(
        f"Dimensions must be equal, but are {x} and {y}\n"
        + message(
            f"the dimensions {x} and {y}",
            "two equal dimensions",
            "tf.reshape, tf.transpose or tf.slice the tensor to the size wanted",
        )
    )


def broadcast(a: RawShape, b: RawShape) -> RawShape:
    """Return the shape to which `a` and `b` broadcast; ValueError if they do not.

    Where one dimension is unknown, the other decides if it is greater than 1 (a correct program has 1 or the same
    there); beside a 1, a 0 or another unknown the result is unknown.
    """
    if a == b or a is None or b is None:
        return None if a is None or b is None else a
    if len(a) < len(b):
        a, b = b, a
    if not b:
        return a
    lead = len(a) - len(b)
    out = list(a[:lead])
    for x, y in zip(a[lead:], b, strict=True):
        if x == y or y == 1:
            out.append(x)
        elif x == 1:
            out.append(y)
        elif x is None:
            out.append(y if y > 1 else None)  # type: ignore[operator]
        elif y is None:
            out.append(x if x > 1 else None)
        else:
            raise ValueError(
                f"Dimensions must be equal, but are {x} and {y}\n"
                + message(
                    f"the shapes {show(a)} and {show(b)}",
                    "shapes that broadcast: counted from the last, dimensions are equal or one of them is 1",
                    "tf.expand_dims or tf.reshape to put a 1 where a dimension shall repeat",
                )
            )
    return tuple(out)


def concatenate(a: RawShape, b: RawShape) -> RawShape:
    """Return the dimensions of `a` followed by those of `b`; unknown if either rank is."""
    return None if a is None or b is None else a + b


MOST_DIMENSIONS = 254
"""The rank of the largest shape that TensorFlow has."""


def of_rank(rank: int | None) -> RawShape:
    """Return a shape of ``rank`` unknown dimensions; of unknown rank where no tensor has such a one."""
    return None if rank is None or rank > MOST_DIMENSIONS else (None,) * rank


def with_rank(raw: RawShape, rank: int) -> tuple[int | None, ...]:
    """Return the shape with this rank (unknown dimensions if the rank was unknown); ValueError if it has another."""
    if raw is None:
        return (None,) * rank
    if len(raw) != rank:
        raise ValueError(
            f"Shape must be rank {rank} but is rank {len(raw)}\n"
            + message(
                f"the shape {show(raw)} of rank {len(raw)}", f"rank {rank}", "tf.reshape, tf.expand_dims or tf.squeeze"
            )
        )
    return raw


def with_rank_at_least(raw: RawShape, rank: int) -> RawShape:
    """Return the shape unchanged; ValueError if its rank is known and smaller."""
    if raw is not None and len(raw) < rank:
        raise ValueError(
            f"Shape must be at least rank {rank} but is rank {len(raw)}\n"
            + message(
                f"the shape {show(raw)} of rank {len(raw)}", f"rank {rank} or more", "tf.expand_dims or tf.reshape"
            )
        )
    return raw


def with_rank_at_most(raw: RawShape, rank: int) -> RawShape:
    """Return the shape unchanged; ValueError if its rank is known and greater."""
    if raw is not None and len(raw) > rank:
        raise ValueError(
            f"Shape must be at most rank {rank} but is rank {len(raw)}\n"
            + message(f"the shape {show(raw)} of rank {len(raw)}", f"rank {rank} or less", "tf.squeeze or tf.reshape")
        )
    return raw


def generalize(a: RawShape, b: RawShape) -> RawShape:
    """Return the most specific shape that both fit: None where they differ."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple([x if x == y else None for x, y in zip(a, b, strict=True)])


def _after_first_line(problem: Exception) -> str:
    return str(problem).partition("\n")[2]


class TensorShape:
    """The shape of a tensor: fully known, partly known (some dimensions None) or of unknown rank."""

    __slots__ = ("_raw",)

    def __init__(self, dims: Any) -> None:
        """Create a shape from a list of dimensions, one dimension, a TensorShape, a proto, or None (unknown rank)."""
        self._raw = as_raw(dims)

    @property
    def raw(self) -> RawShape:
        """The shape as a tuple of int and None, or None: what the system works with."""
        return self._raw

    @property
    def dims(self) -> list[Dimension] | None:
        """The dimensions, None if the rank is unknown."""
        return None if self._raw is None else [Dimension(d) for d in self._raw]

    @property
    def ndims(self) -> int | None:
        """The number of dimensions, None if unknown."""
        return None if self._raw is None else len(self._raw)

    rank = ndims

    @property
    def _dims(self) -> list[Dimension] | None:
        return self.dims

    def as_list(self) -> list[int | None]:
        """Return the dimensions as a list of int and None; ValueError if the rank is unknown."""
        return list(self._known("as_list()", "as_list() is not defined on an unknown TensorShape."))

    def _known(self, what: str, usual: str) -> tuple[int | None, ...]:
        """The raw shape; an error begins with the usual words for it, TensorFlow's."""
        if self._raw is None:
            raise ValueError(
                f"{usual}\n"
                + message(
                    f"{what} of a TensorShape of unknown rank",
                    "a shape of known rank",
                    "tensor.set_shape([...]) first, or tf.shape(tensor), which is known when the graph runs",
                )
            )
        return self._raw

    def num_elements(self) -> int | None:
        """Return the number of elements, None if it is not known."""
        return num_elements(self._raw)

    def is_fully_defined(self) -> bool:
        """Return whether rank and all dimensions are known."""
        return is_static(self._raw)

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether some fully known shape fits both."""
        return is_compatible(self._raw, as_raw(other))

    def merge_with(self, other: Any) -> TensorShape:
        """Return what is known of a shape of which both are known; ValueError if they contradict."""
        return TensorShape(self._merged(other, "not compatible"))

    def _merged(self, other: Any, contradiction: str) -> RawShape:
        """What is known of both; an error names both as TensorFlow does, whose words programs match on."""
        raw = as_raw(other)
        try:
            return merge(self._raw, raw)
        except ValueError as problem:
            raise ValueError(
                f"Shapes {self} and {TensorShape(raw)} are {contradiction}\n{_after_first_line(problem)}"
            ) from None

    def concatenate(self, other: Any) -> TensorShape:
        """Return the dimensions of this shape followed by those of the other."""
        return TensorShape(concatenate(self._raw, as_raw(other)))

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(concatenate(as_raw(other), self._raw))

    def with_rank(self, rank: int) -> TensorShape:
        """Return this shape with this rank; ValueError if it has another."""
        return TensorShape(self._ranked(with_rank, rank, ""))

    def _ranked(self, check: Any, rank: int, relation: str) -> RawShape:
        """What a check of the rank gives; its error begins as TensorFlow's, which programs' tests look for."""
        try:
            return check(self._raw, rank)
        except ValueError as problem:
            raise ValueError(f"Shape {self} must have rank {relation}{rank}\n{_after_first_line(problem)}") from None

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """Return this shape; ValueError if its rank is known and smaller."""
        return TensorShape(self._ranked(with_rank_at_least, rank, "at least "))

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """Return this shape; ValueError if its rank is known and greater."""
        return TensorShape(self._ranked(with_rank_at_most, rank, "at most "))

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """Return the most specific shape that both fit: None where they differ."""
        return TensorShape(generalize(self._raw, as_raw(other)))

    def assert_same_rank(self, other: Any) -> None:
        """Raise ValueError if both ranks are known and differ."""
        b = as_raw(other)
        if self._raw is not None and b is not None and len(self._raw) != len(b):
            raise ValueError(
                f"Shapes {self} and {TensorShape(b)} must have the same rank\n"
                + message(
                    f"the shapes {show(self._raw)} and {show(b)}",
                    "two shapes of the same rank",
                    "tf.expand_dims, tf.squeeze or tf.reshape one of them",
                )
            )

    def assert_has_rank(self, rank: int) -> None:
        """Raise ValueError if the rank is known to be another."""
        self._ranked(with_rank, rank, "")

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError if no fully known shape fits both."""
        self._merged(other, "incompatible")

    def assert_is_fully_defined(self) -> None:
        """Raise ValueError if a dimension or the rank is unknown."""
        if not is_static(self._raw):
            raise ValueError(
                f"Shape {self} is not fully defined\n"
                + message(
                    f"the shape {show(self._raw)}",
                    "a fully known shape",
                    "a static shape such as [32, 784], or tensor.set_shape([...])",
                )
            )

    def as_proto(self) -> Any:
        """Return this shape as a `TensorShapeProto`."""
        from anabranch.core.protos import tensor_pb2  # shapes must load without protobuf

        proto = tensor_pb2.TensorShapeProto()
        if self._raw is None:
            proto.unknown_rank = True
        else:
            for d in self._raw:
                proto.dim.add(size=-1 if d is None else d)
        return proto

    def __len__(self) -> int:
        return len(self._known("the length", "Cannot take the length of Shape with unknown rank."))

    def __bool__(self) -> bool:
        return self._raw is not None

    def __iter__(self) -> Iterator[Any]:
        dims = self._known("the dimensions", "Cannot iterate over a shape with unknown rank.")
        return iter(dims if version_two.applies() else [Dimension(d) for d in dims])

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, slice):
            dim = None if self._raw is None else self._raw[key]
            return dim if version_two.applies() else Dimension(dim)
        if self._raw is not None:
            return TensorShape(self._raw[key])
        if key.step not in (None, 1):
            raise ValueError(
                message(
                    f"a slice of step {key.step} of a shape of unknown rank",
                    "a slice of step 1",
                    "tensor.set_shape([...]) before you slice its shape",
                )
            )
        start, stop = key.start or 0, key.stop
        if stop is None or start < 0 or stop < 0:
            return TensorShape(None)
        return unknown_shape(max(stop - start, 0))

    def __eq__(self, other: object) -> Any:
        try:
            return self._raw == as_raw(other)
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self._raw)

    def __repr__(self) -> str:
        if self._raw is None:
            return "TensorShape(None)"
        form = "{}" if version_two.is_everywhere() else "Dimension({})"
        return f"TensorShape([{', '.join([form.format(d) for d in self._raw])}])"

    def __str__(self) -> str:
        if self._raw is None:
            return "<unknown>"
        unknown = "None" if version_two.is_everywhere() else "?"
        dims = [unknown if d is None else str(d) for d in self._raw]
        return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorShape, (self._raw,)


def as_shape(shape: Any) -> TensorShape:
    """Return a TensorShape for anything that describes a shape."""
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def dimension_at_index(shape: TensorShape, index: int) -> Dimension:
    """Return one dimension of a shape, an unknown one if the rank is unknown."""
    return shape[index]


def unknown_shape(ndims: int | None = None, *, rank: int | None = None) -> TensorShape:
    """Return a shape of unknown dimensions, of unknown rank if none is given."""
    ndims = rank if ndims is None else ndims
    return TensorShape(None if ndims is None else (None,) * ndims)


def scalar() -> TensorShape:
    """Return the shape of a scalar."""
    return TensorShape(())


def vector(length: Any) -> TensorShape:
    """Return the shape of a vector."""
    return TensorShape([length])


def matrix(rows: Any, cols: Any) -> TensorShape:
    """Return the shape of a matrix."""
    return TensorShape([rows, cols])


def as_array(sizes: Iterable[int | None] | int, dtype: Any) -> np.ndarray:
    """Sizes, or a number of elements, as an array of integers; -1 for what is not known.

    Raises:
        InvalidArgumentError: the dtype has no room for one.
    """
    values = sizes if isinstance(sizes, int) else [-1 if size is None else size for size in sizes]
    try:
        return np.array(values, dtype)
    except OverflowError:
        bits = np.dtype(dtype).itemsize * 8
        raise InvalidArgumentError(
            None,
            None,
            f"Shape output type is {bits}-bit but a dimension or a number of elements is larger\n"
            + message(f"sizes {values}", f"sizes that {bits} bits hold", "out_type=tf.int64"),
        ) from None
