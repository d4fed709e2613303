"""Checkpoints of either format: what the ops that save and restore call, by way of `anabranch.core.contract.hooks`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.values import dtypes, shapes
from anabranch.formats import bundle, slices
from anabranch.formats.bundle_reader import BundleReader
from anabranch.formats.checkpoint_v1 import V1Reader, files_of, write_v1

_ATTEMPTS = 3


def open_checkpoint(prefix: str) -> BundleReader | V1Reader:
    """A reader for a checkpoint of either format.

    Raises:
        NotFoundError: there is none. DataLossError: it is damaged.
    """
    prefix = os.fspath(prefix)
    if not os.path.exists(bundle.index_name(prefix)) and files_of(prefix):
        return V1Reader(prefix)
    for _ in range(_ATTEMPTS):
        reader = BundleReader(prefix)
        if reader.is_complete:
            break
        # Between its index and its data, a new checkpoint of this name may have taken its place: look again.
    return reader


def write_checkpoint(
    version: str,
    prefix: str,
    pieces: Sequence[tuple[str, str, Any, Any]],
    go_on: Callable[[], None] = lambda: None,
) -> None:
    """Write a checkpoint of version ``"V1"`` or ``"V2"``; a piece is (name, slice, dtype, array).

    ``go_on`` raises if nobody waits for it any more: then nothing is written.
    """
    bundle_pieces = [bundle.Piece(*piece) for piece in pieces]
    (write_v1 if version == "V1" else bundle.write_bundle)(prefix, bundle_pieces, go_on=go_on)


def read_checkpoint(
    prefix: str, wanted: Sequence[tuple[str, str, Any]], missing_is_error: bool = True
) -> list[np.ndarray | None]:
    """Tensors of a checkpoint; what is wanted is (name, slice or empty, dtype or None).

    Raises:
        NotFoundError: no such checkpoint or tensor; all missing names are told. InvalidArgumentError: another dtype or
        shape is there. DataLossError: the file is damaged.
    """
    with open_checkpoint(prefix) as reader:
        missing = [name for name, _, _ in wanted if name not in reader.tensors]
        if missing and missing_is_error:
            more = f" (and {len(missing) - 1} more: {', '.join(missing[1:6])}...)" if len(missing) > 1 else ""
            raise errors.NotFoundError(
                None,
                None,
                f"Key {missing[0]} not found in checkpoint{more}\n"
                + errors.message(
                    f"{', '.join(repr(name) for name in missing[:5])} asked of {prefix}",
                    f"names that it has, such as {', '.join(repr(name) for name in sorted(reader.tensors)[:5])}",
                    "tf.train.list_variables(path) lists them; tf.train.Saver({'name in file': variable}) maps names",
                ),
            )
        last: tuple[str, np.ndarray] | None = None
        counts: dict[str, int] = {}
        for name, _, _ in wanted:
            counts[name] = counts.get(name, 0) + 1
        arrays: list[np.ndarray | None] = []
        for name, spec, dtype in wanted:
            if name not in reader.tensors:
                arrays.append(None)
                continue
            facts = reader.facts(name)
            if dtype is not None and dtypes.as_dtype(dtype).base != facts.dtype:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"tensor_name = {name}; expected dtype {dtypes.proto_name(dtype)} does not equal original dtype "
                    f"{dtypes.proto_name(facts.dtype)}\n"
                    + errors.message(
                        f"{dtypes.as_dtype(dtype).base.name} for {name!r} of {prefix}",
                        facts.dtype.name,
                        f"a variable of tf.{facts.dtype.name}, and tf.cast where it is used",
                    ),
                )
            if not spec:
                arrays.append(reader.read(name))
                continue
            shape, part, _ = slices.parse_spec(spec)
            if shape != facts.shape:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"tensor_name = {name}; shape in shape_and_slice spec {shapes.show(shape)} does not match the "
                    f"shape stored in checkpoint: {shapes.show(facts.shape)}\n"
                    + errors.message(
                        f"a slice of a tensor of shape {shapes.show(shape)} for {name!r} of {prefix}",
                        f"a slice of shape {shapes.show(facts.shape)}",
                        "a variable of the shape that was saved",
                    ),
                )
            if not facts.parts and counts[name] > 1:  # many slices of a tensor in one piece: read it once
                if last is None or last[0] != name:
                    last = (name, reader.read(name))
                arrays.append(np.array(last[1][slices.box(part, shape)]))
            else:
                arrays.append(reader.read(name, part))
        return arrays


def checkpoint_facts(prefix: str) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Dtype and shape of each tensor of a checkpoint."""
    with open_checkpoint(prefix) as reader:
        return {name: (facts.dtype, facts.shape) for name, facts in reader.tensors.items()}


hooks.fill("write_checkpoint", write_checkpoint)
hooks.fill("read_checkpoint", read_checkpoint)
hooks.fill("merge_checkpoints", bundle.merge_bundles)
hooks.fill("bundle_writer", bundle.BundleWriter)
hooks.fill("open_bundle", open_checkpoint)
