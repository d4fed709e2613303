"""Devices, the eager mode and the op registry, as TensorFlow's internal modules name them."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple, NoReturn

import anabranch as tf
from anabranch.core import errors
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


# --------------------------------------------------------------------------------------------------------- eager mode
def executing_eagerly() -> bool:
    """False: programs build graphs."""
    return False


in_eager_mode = executing_eagerly


def in_graph_mode() -> bool:
    """True: programs build graphs."""
    return True


def enabled() -> bool:
    """False: what holds is version 1's behaviour."""
    return False


class _Context:
    """What ``eager.context.context()`` gives."""

    executing_eagerly = staticmethod(executing_eagerly)
    in_eager_mode = staticmethod(executing_eagerly)

    @staticmethod
    def num_gpus() -> int:
        """How many GPUs there are."""
        return sum(device.device_type == "GPU" for device in list_local_devices())


def context() -> _Context:
    """The context of the process: graphs only."""
    return _Context()


def graph_mode() -> Any:
    """A block in which programs build graphs, as they do anyway."""
    return contextlib.nullcontext()


def eager_mode() -> NoReturn:
    """Not available: NotImplementedError."""
    raise NotImplementedError(
        errors.message("eager mode", "graphs and sessions", "with tf.Session() as session: session.run(x)")
    )


# ------------------------------------------------------------------------------------------------------------ registry
def get_registered_ops() -> dict[str, Any]:
    """Op types with their OpDefs."""
    return {name: hooks.op_def(definition) for name, definition in opdef.all_definitions().items()}


def get(name: str) -> Any:
    """The OpDef of an op type, or None."""
    definition = opdef.all_definitions().get(name)
    return None if definition is None else hooks.op_def(definition)
