"""The graph's side of :mod:`anabranch.ops.io.record_input`, as TensorFlow's ``data_flow_ops.RecordInput``."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract import hooks
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope


class RecordInput:
    """Batches of records of TFRecord files, in random order, epoch after epoch.

    Args:
        file_pattern: pattern of the names of TFRecord files.
        batch_size: records of a batch.
        buffer_size: records among which each new one goes to a random place.
        parallelism: how many files are read in turn.
        shift_ratio: by which share of their number the files of an epoch are turned.
        seed: seed of the order.
        name: name of the op.
        batches: None for one batch; a number for a list of as many batches.
        compression_type: a compression's name or number, None for none.
    """

    def __init__(
        self,
        file_pattern: str,
        batch_size: int = 1,
        buffer_size: int = 1,
        parallelism: int = 1,
        shift_ratio: float = 0,
        seed: int = 0,
        name: str | None = None,
        batches: int | None = None,
        compression_type: Any = None,
    ) -> None:
        self._batches = batches
        self._name = name
        self._attrs = {
            "file_pattern": file_pattern,
            "batch_size": batch_size * (1 if batches is None else batches),
            "file_buffer_size": buffer_size,
            "file_parallelism": parallelism,
            "file_shuffle_shift_ratio": float(shift_ratio),
            "file_random_seed": seed,
            "compression_type": hooks.compression_name(compression_type),
        }

    def get_yield_op(self) -> Any:
        """A batch of records ``[batch_size]``; with ``batches``, a list of lists of string scalars."""
        records: Tensor = build("RecordInput", name=self._name, **self._attrs)
        if self._batches is None:
            return records
        with name_scope(self._name):
            single = build("Unpack", records, num=self._attrs["batch_size"])
            return [list(single[i :: self._batches]) for i in range(self._batches)]
