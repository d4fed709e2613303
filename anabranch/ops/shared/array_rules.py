"""What the array families share: refusals, checks that shapes decide, small graphs that gradient rules build."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.inference import partial_value
from anabranch.core.contract.kernels import check_text
from anabranch.core.contract.opdef import Type
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.indexed_slices import IndexedSlices, densify
from anabranch.core.values import shapes

INDEX = "int32 int64"
NUMBERS = (
    "float double int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 quint16 uint16 "
    "complex128 half uint32 uint64"
)


def Index(default: Any = "int32") -> Any:
    """A type attribute for shapes and positions."""
    return Type(INDEX, default)


# --------------------------------------------------------------------------------------------------------- shape rules
def refuse(c: Any, given: str, expected: str, instead: str, lead: str = "") -> NoReturn:
    """Raise ValueError in three parts about the op being built; `lead` is TensorFlow's sentence, if it has one."""
    text = errors.message(f"{given} (op type {c.definition.type_name!r})", expected, instead)
    raise ValueError(f"{lead}\n{text}" if lead else text)


def axis_in(c: Any, axis: int, rank: int, what: str = "axis", lead: str = "") -> int:
    """`axis` counted from the front; ValueError, which begins with ``lead``, if the tensor has no such dimension."""
    if not -rank <= axis < rank:
        refuse(
            c,
            f"{what} = {axis} of a tensor of rank {rank}",
            f"{what} in [{-rank}, {rank})",
            "choose a dimension that the tensor has, or tf.expand_dims it",
            lead,
        )
    return axis + rank if axis < 0 else axis


def shape_from(vector: list[int | None] | None) -> shapes.RawShape:
    """A shape given by the partly known value of an integer vector (-1: unknown)."""
    return None if vector is None else tuple([None if item is None or item < 0 else item for item in vector])


def unknown_like(raw: shapes.RawShape) -> shapes.RawShape:
    """A shape of the same rank of which no dimension is known."""
    return None if raw is None else (None,) * len(raw)


def partial_vector(items: Any, dtype: Any) -> Any:
    """A vector's value as value rules return it: an array when all is known, a tuple otherwise."""
    items = tuple(items)
    return items if None in items else np.array(items, dtype.np)


# ------------------------------------------------------------------------------------------------------------- kernels
def require(ctx: Any, ok: bool, text: str, *payload: Any) -> None:
    """A check that shapes or compile-time inputs decide; tuples among the payload are shown as shapes.

    In a trace it raises at once, since no output could be given a shape.
    """
    if not ok:
        known_values = [shapes.show(value) if isinstance(value, tuple) else value for value in payload]
        said = check_text(text, known_values, summarize=_SHOWN)
        ctx.check(False, errors.InvalidArgumentError, said.replace("{", "{{").replace("}", "}}"))
        raise errors.InvalidArgumentError(None, ctx.op, said)


_SHOWN = 16
"""Elements of an array that a check shows."""


def ints(value: Any) -> tuple[int, ...]:
    """A compile-time vector (or scalar) as Python ints."""
    return tuple([int(item) for item in np.asarray(value).ravel()])


def kernel_axis(ctx: Any, axis: int, rank: int, what: str = "axis", text: str = "") -> int:
    """`axis` counted from the front; InvalidArgumentError if the tensor has no such dimension.

    ``text`` says so in TensorFlow's words: of the axis ``{0}``, the least one ``{1}`` and the end ``{2}``.
    """
    if text:
        require(ctx, -rank <= axis < rank, text, axis, -rank, rank)
    else:
        require(ctx, -rank <= axis < rank, "{0} = {1} is not in [{2}, {3})", what, axis, -rank, rank)
    return axis + rank if axis < 0 else axis


# ------------------------------------------------------------------------------------------------------------ gradients
def shape_of(tensor: Any, out_type: Any = "int32") -> Any:
    """The shape of a tensor as a tensor: a constant when it is known."""
    raw = tensor._shape
    if shapes.is_static(raw):
        return convert_to_tensor(np.array(raw, np.int64), out_type, name="Shape")
    return build("Shape", tensor, out_type=out_type)


def rank_of(tensor: Any) -> Any:
    """The rank of a tensor: a Python int when it is known, an int32 tensor otherwise."""
    raw = tensor._shape
    return len(raw) if raw is not None else build("Rank", tensor)


def known(value: Any) -> np.ndarray | None:
    """The value of a tensor if it is known while the graph is built."""
    if isinstance(value, (int, np.ndarray)):
        return np.asarray(value)
    array = partial_value(value)
    return array if isinstance(array, np.ndarray) else None


def like(value: Any, tensor: Any) -> Any:
    """`value` as a tensor of the dtype of `tensor`."""
    return convert_to_tensor(value, tensor.dtype.base)


def dense(grad: Any) -> Any:
    """A gradient as a tensor; IndexedSlices are summed into one, without a warning."""
    if isinstance(grad, IndexedSlices):
        return densify(grad)
    return grad
