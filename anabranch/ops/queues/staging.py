"""Ops on staging areas. What an area does is written in ``staging_objects.py``.

An area has no handle: ops that name the same container and ``shared_name`` mean the same one. All are channel ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.inference import RawShape, ShapeContext
from anabranch.core.contract.opdef import Int, List, NotDifferentiable, String, channel, define
from anabranch.ops.queues.queue_objects import owned
from anabranch.ops.queues.staging_objects import Area, KeyedArea

_NO_GRADIENT = NotDifferentiable("a staging area hands values from one step to another")


def _attrs(dtypes: dict[str, Any]) -> dict[str, Any]:
    bounds = {"capacity": Int(0, minimum=0), "memory_limit": Int(0, minimum=0)}
    return {**bounds, **dtypes, "container": String(""), "shared_name": String("")}


_SOME = _attrs({"dtypes": List("type", minimum=1)})
_ANY = _attrs({"dtypes": List("type")})
_PARTS = _attrs({"dtypes": List("type"), "fake_dtypes": List("type", minimum=1)})


def _values_shape(c: ShapeContext) -> list[RawShape]:
    return [None] * len(c.attrs["dtypes"])


def _peek_shape(c: ShapeContext) -> list[RawShape]:
    c.with_rank("index", 0)
    return _values_shape(c)


def _key_and_values_shape(c: ShapeContext) -> list[RawShape]:
    return [None, *_values_shape(c)]


def _scalar(c: ShapeContext) -> RawShape:
    return ()


# ------------------------------------------------------------------------------------------------ in order of arrival
def _area(ctx: Any, attrs: dict[str, Any]) -> Area:
    return ctx.shared("staging area", lambda: Area(attrs))


def _stage(ctx, inputs, attrs):
    _area(ctx, attrs).put([owned(value) for value in inputs], ctx.cancellation, ctx.op)


def _unstage(ctx, inputs, attrs):
    return _checked(ctx, _area(ctx, attrs).get(ctx.cancellation, ctx.op), attrs)


def _peek(ctx, inputs, attrs):
    index = int(inputs[0])
    ctx.check(index >= 0, errors.InvalidArgumentError, f"index {index} of a staging area is negative")
    return _checked(ctx, _area(ctx, attrs).peek(index, ctx.cancellation, ctx.op), attrs)


def _checked(ctx: Any, values: list[Any], attrs: dict[str, Any]) -> list[Any]:
    """What came out of an area, if it is of the dtypes that the op gives."""
    own = [dtype.np for dtype in attrs["dtypes"]]
    given = [value.dtype for value in values]
    ctx.check(
        own == given,
        errors.InvalidArgumentError,
        f"dtypes {[str(dtype) for dtype in given]} in the staging area, asked for {[str(dtype) for dtype in own]}",
    )
    return values


def _size(ctx, inputs, attrs):
    return np.array(_area(ctx, attrs).size(), np.int32)


def _clear(ctx, inputs, attrs):
    _area(ctx, attrs).clear()


_STAGE_DOC = "Puts a tuple into a staging area; waits while it is full."
_UNSTAGE_DOC = "Takes the first tuple out of a staging area; waits for one."
_STAGE_PEEK_DOC = (
    "Gives the tuple at place ``index`` of a staging area and leaves it there; waits until there are enough."
)
# name, signature, attributes, shape rule, kernel, whether it may wait, what it does
_OPS: tuple[tuple[str, str, dict[str, Any], Any, Any, bool, str], ...] = (
    ("Stage", "values: [dtypes] ->", _SOME, inference.no_outputs, _stage, True, _STAGE_DOC),
    ("Unstage", "-> values: [dtypes]", _SOME, _values_shape, _unstage, True, _UNSTAGE_DOC),
    ("StagePeek", "index: int32 -> values: [dtypes]", _SOME, _peek_shape, _peek, True, _STAGE_PEEK_DOC),
    ("StageSize", "-> size: int32", _ANY, _scalar, _size, False, "How many tuples a staging area holds; a scalar."),
    ("StageClear", "->", _ANY, inference.no_outputs, _clear, False, "Drops all tuples of a staging area."),
)


# ---------------------------------------------------------------------------------------------------------- under keys
def _keyed(ordered: bool) -> dict[str, Any]:
    """The kernels of an area under keys."""

    def area(ctx: Any, attrs: dict[str, Any]) -> KeyedArea:
        kind = "ordered map staging area" if ordered else "map staging area"
        return ctx.shared(kind, lambda: KeyedArea(attrs, len(attrs["dtypes"]), ordered))

    def key_of(ctx: Any, value: Any) -> int:
        ctx.check(np.size(value) == 1, errors.InvalidArgumentError, "key must be an int64 scalar")
        return int(np.reshape(value, ()))

    def positions_of(value: Any) -> list[int]:
        return [int(position) for position in np.ravel(value)]

    def stage(ctx, inputs, attrs):
        positions = positions_of(inputs[1])
        values = [owned(value) for value in inputs[2:]]
        ctx.check(
            len(positions) == len(values),
            errors.InvalidArgumentError,
            f"{len(positions)} indices for {len(values)} values",
        )
        area(ctx, attrs).put(key_of(ctx, inputs[0]), positions, values, ctx.cancellation, ctx.op)

    def unstage(ctx, inputs, attrs):
        return area(ctx, attrs).get(key_of(ctx, inputs[0]), positions_of(inputs[1]), ctx.cancellation, ctx.op)

    def peek(ctx, inputs, attrs):
        return area(ctx, attrs).peek(key_of(ctx, inputs[0]), positions_of(inputs[1]), ctx.cancellation, ctx.op)

    def unstage_no_key(ctx, inputs, attrs):
        key, values = area(ctx, attrs).get_any(positions_of(inputs[0]), ctx.cancellation, ctx.op)
        return [np.array(key, np.int64), *values]

    def size(ctx, inputs, attrs):
        return np.array(area(ctx, attrs).size(), np.int32)

    def incomplete_size(ctx, inputs, attrs):
        return np.array(area(ctx, attrs).incomplete_size(), np.int32)

    def clear(ctx, inputs, attrs):
        area(ctx, attrs).clear()

    kernels = (stage, unstage, peek, unstage_no_key, size, incomplete_size, clear)
    return {kernel.__name__: kernel for kernel in kernels}


_MAP, _ORDERED = _keyed(False), _keyed(True)
_PUT = "key: int64, indices: int32, values: [fake_dtypes] ->"
_TAKE = "key: int64, indices: int32 -> values: [dtypes]"
_TAKE_ANY = "indices: int32 -> key: int64, values: [dtypes]"
_PUT_DOC = "Puts a tuple, or the parts of one at ``indices``, into a staging area under a key; waits while it is full."
_TAKE_DOC = "Takes the parts at ``indices`` of the tuple of a key out of a staging area; waits for the tuple."
_PEEK_DOC = "Gives the parts at ``indices`` of the tuple of a key in a staging area, and leaves them; waits for it."
_ANY_DOC = "Takes the parts at ``indices`` of any tuple out of a staging area, with its key; waits for one."
_FIRST_DOC = "Takes the parts at ``indices`` of the tuple of the smallest key out of a staging area, with the key."
_SIZE_DOC = "How many complete tuples a staging area holds; a scalar."
_INCOMPLETE_DOC = "How many incomplete tuples a staging area holds; a scalar."
_CLEAR_DOC = "Drops all tuples of a staging area."
_OPS += (
    ("MapStage", _PUT, _PARTS, inference.no_outputs, _MAP["stage"], True, _PUT_DOC),
    ("MapUnstage", _TAKE, _SOME, _values_shape, _MAP["unstage"], True, _TAKE_DOC),
    ("MapPeek", _TAKE, _SOME, _values_shape, _MAP["peek"], True, _PEEK_DOC),
    ("MapUnstageNoKey", _TAKE_ANY, _SOME, _key_and_values_shape, _MAP["unstage_no_key"], True, _ANY_DOC),
    ("MapSize", "-> size: int32", _ANY, _scalar, _MAP["size"], False, _SIZE_DOC),
    ("MapIncompleteSize", "-> size: int32", _ANY, _scalar, _MAP["incomplete_size"], False, _INCOMPLETE_DOC),
    ("MapClear", "->", _ANY, inference.no_outputs, _MAP["clear"], False, _CLEAR_DOC),
    ("OrderedMapStage", _PUT, _PARTS, inference.no_outputs, _ORDERED["stage"], True, _PUT_DOC),
    ("OrderedMapUnstage", _TAKE, _SOME, _values_shape, _ORDERED["unstage"], True, _TAKE_DOC),
    ("OrderedMapPeek", _TAKE, _SOME, _values_shape, _ORDERED["peek"], True, _PEEK_DOC),
    ("OrderedMapUnstageNoKey", _TAKE_ANY, _SOME, _key_and_values_shape, _ORDERED["unstage_no_key"], True, _FIRST_DOC),
    ("OrderedMapSize", "-> size: int32", _ANY, _scalar, _ORDERED["size"], False, _SIZE_DOC),
    ("OrderedMapIncompleteSize", "-> size: int32", _ANY, _scalar, _ORDERED["incomplete_size"], False, _INCOMPLETE_DOC),
    ("OrderedMapClear", "->", _ANY, inference.no_outputs, _ORDERED["clear"], False, _CLEAR_DOC),
)

for _name, _signature, _given, _shape, _kernel, _waits, _doc in _OPS:
    define(
        _name,
        _doc,
        signature=_signature,
        attrs=_given,
        effect=channel(),
        shape=_shape,
        host_kernel=_kernel,
        may_block=_waits,
        passable=_waits or _signature.endswith("->"),
        gradient=_NO_GRADIENT,
    )
