"""Names of variables in protos: scopes put before or taken off, and which part of a larger variable one holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.protos import variable_pb2


def inside_scope(name: str, import_scope: str | None) -> str:
    """``name`` (of an op, a tensor, a control input ``^op`` or a group ``loc:@op``) inside ``import_scope``."""
    if not import_scope:
        return name
    return re.sub(r"^(\^|loc:@)?", lambda found: f"{found[0]}{import_scope.rstrip('/')}/", name, count=1)


def without_scope(name: str, export_scope: str | None) -> str:
    """``name`` without the prefix ``export_scope``."""
    if not export_scope:
        return name
    return re.sub(rf"^(\^|loc:@)?{re.escape(export_scope.rstrip('/'))}/+", r"\1", name, count=1)


class SaveSliceInfo:
    """Which part of a larger variable a variable holds, for savers.

    Args:
        full_name: name of the whole variable.
        full_shape: its shape.
        var_offset: position of the part in each dimension.
        var_shape: shape of the part.
        save_slice_info_def: a ``SaveSliceInfoDef`` in place of the above.
        import_scope: name scope to put before the name of the proto.
    """

    def __init__(
        self,
        full_name: str | None = None,
        full_shape: Sequence[int] | None = None,
        var_offset: Sequence[int] | None = None,
        var_shape: Sequence[int] | None = None,
        save_slice_info_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        if save_slice_info_def is not None:
            if not isinstance(save_slice_info_def, variable_pb2.SaveSliceInfoDef):
                raise TypeError(
                    errors.message(
                        f"save_slice_info_def of type {type(save_slice_info_def).__name__}",
                        "a SaveSliceInfoDef",
                        "save_slice_info_def=part.to_proto()",
                    )
                )
            self.full_name: str | None = inside_scope(save_slice_info_def.full_name, import_scope)
            self.full_shape: list[int] | None = list(save_slice_info_def.full_shape)
            self.var_offset: list[int] | None = list(save_slice_info_def.var_offset)
            self.var_shape: list[int] | None = list(save_slice_info_def.var_shape)
        else:
            self.full_name = full_name
            self.full_shape = None if full_shape is None else list(full_shape)
            self.var_offset = None if var_offset is None else list(var_offset)
            self.var_shape = None if var_shape is None else list(var_shape)

    @property
    def spec(self) -> str:
        """The slice as checkpoints write it: ``"4 5 0,2:0,5"``."""
        whole = " ".join(str(size) for size in self.full_shape or ())
        parts = zip(self.var_offset or (), self.var_shape or (), strict=True)
        return f"{whole} " + ":".join(f"{offset},{size}" for offset, size in parts)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The slice as a ``SaveSliceInfoDef``; None if it is outside ``export_scope``."""
        name = self.full_name or ""
        if export_scope is not None and not name.startswith(export_scope):
            return None
        return variable_pb2.SaveSliceInfoDef(
            full_name=without_scope(name, export_scope),
            full_shape=self.full_shape,
            var_offset=self.var_offset,
            var_shape=self.var_shape,
        )
