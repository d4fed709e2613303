"""Ops that save and restore tensors. The files themselves are written and read by :mod:`anabranch.formats`.

All have the effect ``io``: they run in the middle of a segment. What a step saves, by however many ops, is therefore
one state between two steps; and a step that restores assigns all of its variables or, if a tensor is missing or
damaged, none.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import hooks, inference
from anabranch.core.contract.kernels import borrows, handed_over
from anabranch.core.contract.opdef import IO, PURE, Bool, Int, List, NotDifferentiable, Op, Type

_NO_GRADIENT = NotDifferentiable("it moves values between a session and files")


def _text(value: Any) -> str:
    """A string scalar as text."""
    text = np.asarray(value, object).reshape(-1)[0]
    return text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else str(text)


def _texts(values: Any) -> list[str]:
    return [_text(value) for value in np.asarray(values, object).ravel().tolist()]


def _scalar(c: Any, name: str) -> None:
    c.with_rank(name, 0)


def _vector(c: Any, name: str, count: int | None) -> None:
    (size,) = c.with_rank(name, 1)
    if count is not None and size is not None and size != count:
        raise ValueError(
            errors.message(
                f"{name} of length {size} for {count} tensors",
                f"a vector of length {count}",
                "give one entry per tensor",
            )
        )


def _one(ctx: Any, value: Any, name: str) -> str:
    ctx.check(
        np.size(value) == 1, errors.InvalidArgumentError, name + " must hold one string, but has {0}", np.size(value)
    )
    return _text(value)


def _many(ctx: Any, value: Any, name: str, count: int) -> list[str]:
    ctx.check(
        np.ndim(value) == 1 and np.size(value) == count,
        errors.InvalidArgumentError,
        name + " must be a vector of {0} strings, but has {1}",
        count,
        np.size(value),
    )
    return _texts(value)


def _save(ctx: Any, version: str, prefix: Any, names: Any, specs: Any, values: Any, types: Any) -> None:
    count = len(types)
    tensor_names = _many(ctx, names, "tensor_names", count)
    parts = [""] * count if specs is None else _many(ctx, specs, "shape_and_slices", count)
    pieces = list(zip(tensor_names, parts, [dtype.base for dtype in types], values, strict=True))
    token = ctx.cancellation
    hooks.write_checkpoint(version, _one(ctx, prefix, "the path"), pieces, lambda: token.raise_if_cancelled(ctx.op))


def slice_shape(spec: str) -> tuple[int, ...] | None:
    """Shape of the slice that a specification such as ``"5 2 0,3:-"`` names; None for the empty one."""
    if not spec:
        return None
    *sizes, parts = spec.split(" ")
    pieces = parts.split(":") if parts else []
    try:
        if len(sizes) != len(pieces):
            raise ValueError
        return tuple(
            int(size) if piece == "-" else int(piece.split(",")[1]) for size, piece in zip(sizes, pieces, strict=True)
        )
    except (ValueError, IndexError):
        raise ValueError(
            errors.message(
                f"shape_and_slice {spec!r}",
                "sizes of the whole tensor, then start,length (or -) per dimension",
                "'5 2 0,3:-', or '' for a whole tensor",
            )
        ) from None


class SaveV2(Op):
    """Write a checkpoint ``prefix`` that holds ``tensors`` under ``tensor_names`` ``[n]``.

    ``shape_and_slices`` ``[n]`` says which slice of which whole a tensor is; empty strings for whole tensors.
    """

    signature = "prefix: string, tensor_names: string, shape_and_slices: string, tensors: [dtypes] ->"
    attrs = {"dtypes": List("type", minimum=1)}
    effect = IO
    gradient = _NO_GRADIENT

    def shape(c):
        _scalar(c, "prefix")
        for name in ("tensor_names", "shape_and_slices"):
            _vector(c, name, len(c.attrs["dtypes"]))
        return []

    @borrows
    def host_kernel(ctx, inputs, attrs):
        _save(ctx, "V2", *inputs[:3], inputs[3:], attrs["dtypes"])


class SaveSlices(Op):
    """Like ``SaveV2``, into one file of the old format V1."""

    signature = "filename: string, tensor_names: string, shapes_and_slices: string, data: [T] ->"
    attrs = {"T": List("type", minimum=1)}
    effect = IO
    gradient = _NO_GRADIENT

    def shape(c):
        _scalar(c, "filename")
        for name in ("tensor_names", "shapes_and_slices"):
            _vector(c, name, len(c.attrs["T"]))
        return []

    @borrows
    def host_kernel(ctx, inputs, attrs):
        _save(ctx, "V1", *inputs[:3], inputs[3:], attrs["T"])


class Save(Op):
    """Write ``data`` under ``tensor_names`` ``[n]`` into one file of the old format V1."""

    signature = "filename: string, tensor_names: string, data: [T] ->"
    attrs = {"T": List("type", minimum=1)}
    effect = IO
    gradient = _NO_GRADIENT

    def shape(c):
        _scalar(c, "filename")
        _vector(c, "tensor_names", len(c.attrs["T"]))
        return []

    @borrows
    def host_kernel(ctx, inputs, attrs):
        _save(ctx, "V1", inputs[0], inputs[1], None, inputs[2:], attrs["T"])


class RestoreV2(Op):
    """Tensors of the checkpoint ``prefix`` (of format V2 or V1), by name, whole or in slices as ``SaveV2`` has them."""

    signature = "prefix: string, tensor_names: string, shape_and_slices: string -> tensors: [dtypes]"
    attrs = {"dtypes": List("type", minimum=1)}
    effect = IO
    gradient = _NO_GRADIENT

    def shape(c):
        count = len(c.attrs["dtypes"])
        _scalar(c, "prefix")
        for name in ("tensor_names", "shape_and_slices"):
            _vector(c, name, count)
        specs = c.value("shape_and_slices")
        if specs is None:
            return [None] * count
        return [slice_shape(_text(spec)) for spec in np.asarray(specs, object).ravel().tolist()]

    def host_kernel(ctx, inputs, attrs):
        types = attrs["dtypes"]
        names = _many(ctx, inputs[1], "tensor_names", len(types))
        specs = _many(ctx, inputs[2], "shape_and_slices", len(types))
        tensors = hooks.read_checkpoint(_one(ctx, inputs[0], "prefix"), list(zip(names, specs, types, strict=True)))
        return [handed_over(array) for array in tensors]


class Restore(Op):
    """The tensor ``tensor_name`` of the checkpoint ``file_pattern``."""

    signature = "file_pattern: string, tensor_name: string -> tensor: dt"
    attrs = {"dt": Type(), "preferred_shard": Int(-1)}
    effect = IO
    gradient = _NO_GRADIENT

    def shape(c):
        return None

    def host_kernel(ctx, inputs, attrs):
        name = _one(ctx, inputs[1], "tensor_name")
        return hooks.read_checkpoint(_one(ctx, inputs[0], "file_pattern"), [(name, "", attrs["dt"])])


class RestoreSlice(Op):
    """The tensor ``tensor_name`` of the checkpoint ``file_pattern``, or the slice ``shape_and_slice`` of it."""

    signature = "file_pattern: string, tensor_name: string, shape_and_slice: string -> tensor: dt"
    attrs = {"dt": Type(), "preferred_shard": Int(-1)}
    effect = IO
    gradient = _NO_GRADIENT

    def shape(c):
        spec = c.value("shape_and_slice")
        return None if spec is None or spec.size != 1 else slice_shape(_text(spec))

    def host_kernel(ctx, inputs, attrs):
        name, spec = _one(ctx, inputs[1], "tensor_name"), _one(ctx, inputs[2], "shape_and_slice")
        return hooks.read_checkpoint(_one(ctx, inputs[0], "file_pattern"), [(name, spec, attrs["dt"])])


class MergeV2Checkpoints(Op):
    """Make one checkpoint ``destination_prefix`` of several, ``checkpoint_prefixes`` ``[n]``, which go away."""

    signature = "checkpoint_prefixes: string, destination_prefix: string ->"
    attrs = {"delete_old_dirs": Bool(True), "allow_missing_files": Bool(False)}
    effect = IO
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("checkpoint_prefixes", 1)
        _scalar(c, "destination_prefix")
        return []

    def host_kernel(ctx, inputs, attrs):
        hooks.merge_checkpoints(
            _texts(inputs[0]),
            _one(ctx, inputs[1], "destination_prefix"),
            attrs["delete_old_dirs"],
            attrs["allow_missing_files"],
        )


# --------------------------------------------------------------------------------------------------------------- names
def _strings(values: list[bytes], shape: tuple[int, ...]) -> np.ndarray:
    strings = np.empty(math.prod(shape), object)
    strings[:] = values
    return strings.reshape(shape)


class ShardedFilename(Op):
    """The path ``basename-SSSSS-of-NNNNN`` of shard ``shard`` of ``num_shards``."""

    signature = "basename: string, shard: int32, num_shards: int32 -> filename: string"
    effect = PURE
    ranks = {"basename": 0, "shard": 0, "num_shards": 0}
    gradient = _NO_GRADIENT
    shape = inference.scalar

    def host_kernel(ctx, inputs, attrs):
        text = f"{_text(inputs[0])}-{int(inputs[1]):05d}-of-{int(inputs[2]):05d}"
        return _strings([text.encode("utf-8", "surrogateescape")], ())


class ShardedFilespec(Op):
    """The pattern ``basename-?????-of-NNNNN`` of the paths of all ``num_shards`` shards."""

    signature = "basename: string, num_shards: int32 -> filename: string"
    effect = PURE
    ranks = {"basename": 0, "num_shards": 0}
    gradient = _NO_GRADIENT
    shape = inference.scalar

    def host_kernel(ctx, inputs, attrs):
        text = f"{_text(inputs[0])}-?????-of-{int(inputs[1]):05d}"
        return _strings([text.encode("utf-8", "surrogateescape")], ())


__all__ = ["slice_shape"]
