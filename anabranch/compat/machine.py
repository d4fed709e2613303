"""Devices and the op registry, as TensorFlow's internal modules name them."""

from __future__ import annotations

from typing import Any, NamedTuple

import anabranch as tf
from anabranch.core.contract import hooks, opdef


class DeviceAttributes(NamedTuple):
    """A device as ``device_lib.list_local_devices`` shows it."""

    name: str
    device_type: str
    memory_limit: int
    incarnation: int
    physical_device_desc: str


def list_local_devices(session_config: Any = None) -> list[DeviceAttributes]:
    """The devices of this machine."""
    with tf.Session(graph=tf.Graph(), config=session_config) as session:
        return [
            DeviceAttributes(
                device.name.partition("/task:0")[2],
                device.device_type,
                device.memory_limit_bytes,
                device.incarnation,
                f"device: {device.device_type}",
            )
            for device in session.list_devices()
        ]


def IsGoogleCudaEnabled() -> bool:
    """Whether CUDA devices can be used."""
    return tf.test.is_built_with_cuda()


def __getattr__(name: str) -> Any:
    if name == "is_cuda_build":  # asks for the devices, which start when they are asked for
        return IsGoogleCudaEnabled()
    raise AttributeError(name)


def TF_bfloat16_type() -> type:
    """The type of bfloat16's elements in NumPy."""
    return tf.bfloat16.as_numpy_dtype


# ------------------------------------------------------------------------------------------------------------ registry
def get_registered_ops() -> dict[str, Any]:
    """Op types with their OpDefs."""
    return {name: hooks.op_def(definition) for name, definition in opdef.all_definitions().items()}


def get(name: str) -> Any:
    """The OpDef of an op type, or None."""
    definition = opdef.all_definitions().get(name)
    return None if definition is None else hooks.op_def(definition)
