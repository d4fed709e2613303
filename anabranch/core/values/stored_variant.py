"""What a scalar variant tensor is in a checkpoint: the bytes of an object, with the name of its type."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.protos import tensor_pb2


class StoredVariant:
    """The value of a variant tensor that a checkpoint can hold: a ``VariantTensorDataProto``."""

    __slots__ = ("proto",)
    shape = ()
    ndim = 0
    size = 1
    dtype = np.dtype(object)

    def __init__(self, proto: tensor_pb2.VariantTensorDataProto) -> None:
        self.proto = proto

    @classmethod
    def parsed(cls, data: bytes) -> StoredVariant:
        """That of serialised bytes; DecodeError if they are none."""
        return cls(tensor_pb2.VariantTensorDataProto.FromString(data))

    def __repr__(self) -> str:
        return f"<stored {self.proto.type_name or 'variant'}>"


def stored(value: Any) -> StoredVariant | None:
    """The stored variant that a value is, or that a scalar array holds; None for others."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    return value if isinstance(value, StoredVariant) else None
