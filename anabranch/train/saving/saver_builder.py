"""The graph of a saver: the ops that save and restore, named as TensorFlow names them.

``save/Const`` takes the path, ``save/SaveV2`` writes, ``save/RestoreV2`` reads, one ``save/Assign`` for each variable
gives it its value, ``save/restore_all`` stands for all of them. A sharded saver writes one checkpoint per device under
a temporary name and merges them. Programs that import the graph find these ops by the names in its ``SaverDef``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.device import canonical_name
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.protos import training_pb2
from anabranch.ops.control.public_dependencies import group, with_dependencies
from anabranch.ops.math.compare import where
from anabranch.train.saving import saveable

V1 = training_pb2.SaverDef.V1
V2 = training_pb2.SaverDef.V2


def _device(device: str | None) -> Any:
    return get_default_graph().device(device) if device else contextlib.nullcontext()


class BaseSaverBuilder:
    """Build a saver's graph; the ``builder`` of `tf.train.Saver`.

    Args:
        write_version: ``tf.train.SaverDef.V1`` or ``V2``: the format of the checkpoints.
    """

    SaveSpec = saveable.SaveSpec
    SaveableObject = saveable.SaveableObject
    VariableSaveable = saveable.ReferenceVariableSaveable
    ResourceVariableSaveable = saveable.ResourceVariableSaveable

    def __init__(self, write_version: Any = V2) -> None:
        self._write_version = write_version

    def save_op(self, filename_tensor: Tensor, saveables: Sequence[Any]) -> Operation:
        """The op that writes the saveables to a file."""
        specs = [spec for item in saveables for spec in item.specs]
        names = [spec.name for spec in specs]
        slices = [spec.slice_spec for spec in specs]
        tensors = [spec.tensor for spec in specs]
        if self._write_version == V2:
            return build("SaveV2", filename_tensor, names, slices, tensors)
        if self._write_version == V1:
            return build("SaveSlices", filename_tensor, names, slices, tensors, name="save")
        raise RuntimeError(f"Unexpected write_version: {self._write_version}")

    def bulk_restore(
        self, filename_tensor: Tensor, saveables: Sequence[Any], preferred_shard: int, restore_sequentially: bool
    ) -> list[Tensor]:
        """The tensors of the saveables as a file has them; one op reads them all."""
        specs = [spec for item in saveables for spec in item.specs]
        with current_builder().device("/device:CPU:0"):
            return build(
                "RestoreV2",
                filename_tensor,
                [spec.name for spec in specs],
                [spec.slice_spec for spec in specs],
                dtypes=[spec.dtype for spec in specs],
            )

    def sharded_filename(self, filename_tensor: Tensor, shard: int, num_shards: Tensor) -> Tensor:
        """The path of one shard."""
        return build("ShardedFilename", filename_tensor, shard, num_shards)

    # ----------------------------------------------------------------------------------------------------------- saving
    def _add_save_ops(self, filename_tensor: Tensor, saveables: Sequence[Any]) -> Tensor:
        return with_dependencies([self.save_op(filename_tensor, saveables)], filename_tensor)

    def _add_sharded_save_ops(self, filename_tensor: Tensor, per_device: list[tuple[str, list[Any]]]) -> Tensor:
        if self._write_version == V2:
            return self._add_sharded_save_ops_for_v2(filename_tensor, per_device)
        graph = get_default_graph()
        count = constant(len(per_device), name="num_shards")
        written = []
        for shard, (device, items) in enumerate(per_device):
            with _device(device):
                written.append(self._add_save_ops(self.sharded_filename(filename_tensor, shard, count), items))
        with graph.control_dependencies([item.op for item in written]):
            return build("ShardedFilespec", filename_tensor, count)

    def _add_sharded_save_ops_for_v2(self, prefix: Tensor, per_device: list[tuple[str, list[Any]]]) -> Tensor:
        # Shards are written under a name that no reader knows and get their places when all are complete.
        graph = get_default_graph()
        with graph.device("/device:CPU:*"):
            remote = build("StaticRegexFullMatch", prefix, pattern="^s3://.*")
            suffix = where(remote, constant(".part"), constant("_temp/part"))
            temporary = build("StringJoin", [prefix, suffix])
        count = constant(len(per_device), name="num_shards")
        prefixes = []
        written = []
        last = ""
        for shard, (device, items) in enumerate(per_device):
            last = saveable.set_cpu0(device)
            with graph.device(last):
                name = self.sharded_filename(temporary, shard, count)
                prefixes.append(name)
                written.append(self._add_save_ops(name, items))
        with graph.control_dependencies([item.op for item in written]), graph.device(last):
            merge = build("MergeV2Checkpoints", prefixes, prefix, delete_old_dirs=True)
            with graph.control_dependencies([merge]):
                return build("Identity", prefix)

    # -------------------------------------------------------------------------------------------------------- restoring
    def _add_restore_ops(
        self,
        filename_tensor: Tensor,
        saveables: Sequence[Any],
        restore_sequentially: bool,
        reshape: bool,
        preferred_shard: int = -1,
        name: str = "restore_all",
    ) -> Operation:
        tensors = self.bulk_restore(filename_tensor, saveables, preferred_shard, restore_sequentially)
        if isinstance(tensors, Tensor):
            tensors = [tensors]
        at = 0
        assigned: list[Any] = []
        for item in saveables:
            shapes = None
            if reshape:
                shapes = [
                    spec.tensor.shape.as_list() if spec.tensor.shape.is_fully_defined() else build("Shape", spec.tensor)
                    for spec in item.specs
                ]
            with _device(item.device):
                assigned.append(item.restore(list(tensors[at : at + len(item.specs)]), shapes))
            at += len(item.specs)
        return group(*assigned, name=name)

    def restore_now(self, path: Any, saveables: Sequence[Any], reshape: bool = False) -> None:
        """Restore where ops run at once: all of the saveables, or none if one does not fit."""
        if not saveables:
            return
        tensors = self.bulk_restore(path, saveables, -1, False)
        rest = iter([tensors] if isinstance(tensors, Tensor) else tensors)
        parts = [[next(rest) for _ in item.specs] for item in saveables]
        if not reshape:
            for item, own in zip(saveables, parts, strict=True):
                check = getattr(item, "check", None)
                if check is not None:
                    check(own)
        for item, own in zip(saveables, parts, strict=True):
            item.restore(own, [spec.tensor.shape.as_list() for spec in item.specs] if reshape else None)

    def _add_sharded_restore_ops(
        self, filename_tensor: Tensor, per_device: Any, restore_sequentially: bool, reshape: bool
    ) -> Operation:
        restored = []
        for shard, (device, items) in enumerate(per_device):
            with _device(device):
                restored.append(
                    self._add_restore_ops(filename_tensor, items, restore_sequentially, reshape, shard, "restore_shard")
                )
        return group(*restored, name="restore_all")

    @staticmethod
    def _group_by_devices(saveables: Sequence[Any]) -> list[tuple[str, list[Any]]]:
        by_device: dict[str, list[Any]] = {}
        for item in saveables:
            devices = {canonical_name(spec.device or "") for spec in item.specs}
            if len(devices) > 1:
                raise ValueError(
                    f"All tensors of a saveable object must be on the same device: {item.name}\n"
                    + errors.message(
                        f"{item.name!r} on {sorted(devices)}", "one device", "tf.device around its tensors"
                    )
                )
            by_device.setdefault(devices.pop(), []).append(item)
        return sorted(by_device.items())

    # ------------------------------------------------------------------------------------------------------------ build
    def build(
        self,
        names_to_saveables: Any,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        filename: Any = "model",
    ) -> Any:
        """Add the ops to the default graph and return the ``SaverDef`` that names them."""
        saveables = saveable.validated(names_to_saveables)
        operands = [item.op if isinstance(item.op, Tensor) else getattr(item.op, "op", None) for item in saveables]
        with name_scope(name, "save", [item for item in operands if isinstance(item, Tensor)]):
            default = build("PlaceholderWithDefault", filename or "model", shape=(), name="filename")
            path = build("PlaceholderWithDefault", default, shape=(), name="Const")
            if sharded:
                per_device = self._group_by_devices(saveables)
                save = self._add_sharded_save_ops(path, per_device)
                restore = self._add_sharded_restore_ops(path, per_device, restore_sequentially, reshape)
            else:
                save = self._add_save_ops(path, saveables)
                restore = self._add_restore_ops(path, saveables, restore_sequentially, reshape)
        return training_pb2.SaverDef(
            filename_tensor_name=path.name,
            save_tensor_name=save.name,
            restore_op_name=restore.name,
            max_to_keep=max_to_keep or 0,
            sharded=sharded,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            version=self._write_version,
        )


class BulkSaverBuilder(BaseSaverBuilder):
    """The builder that savers use: one op reads all tensors of a device."""


__all__ = ["BaseSaverBuilder", "BulkSaverBuilder"]
