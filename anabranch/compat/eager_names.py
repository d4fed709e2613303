"""Eager mode as TensorFlow's internal modules ``python.eager`` and ``python.compat.v2_compat`` name it."""

from __future__ import annotations

from typing import Any

from anabranch.compat.machine import list_local_devices
from anabranch.core.graph.builder import current_builder
from anabranch.eager import derivatives, function, mode, recording, tape
from anabranch.eager.mode import EAGER, eager_mode, executing_eagerly, graph_mode
from anabranch.eager.tape import GradientTape, record_operation
from anabranch.eager.tensor import EagerTensor

in_eager_mode = executing_eagerly
defun = function.defun
stop_recording = recording.stopped
implicit_grad = derivatives.implicit_gradients
implicit_val_and_grad = derivatives.implicit_value_and_gradients
gradients_function = derivatives.gradients_function
val_and_grad_function = derivatives.value_and_gradients_function
make_vjp = derivatives.make_vjp
SYNC, ASYNC = mode.SYNC, mode.ASYNC
DEVICE_PLACEMENT_EXPLICIT = mode.DEVICE_PLACEMENT_EXPLICIT
DEVICE_PLACEMENT_WARN = mode.DEVICE_PLACEMENT_WARN
DEVICE_PLACEMENT_SILENT = mode.DEVICE_PLACEMENT_SILENT
DEVICE_PLACEMENT_SILENT_FOR_INT32 = mode.DEVICE_PLACEMENT_SILENT_FOR_INT32
GRAPH_MODE, EAGER_MODE = 0, 1


def in_graph_mode() -> bool:
    """Whether ops are added to a graph here."""
    return not executing_eagerly()


def enabled() -> bool:
    """False: what holds is version 1's behaviour."""
    return False


def device(name: Any) -> Any:
    """A block whose ops run on a device."""
    return current_builder().device(name)


def async_wait() -> None:
    """Do nothing: ops are done when they return."""


def is_op_determinism_enabled() -> bool:
    """False: nothing was asked for; what is seeded repeats in any case."""
    return False


def num_gpus() -> int:
    """How many GPUs there are."""
    return sum(device.device_type == "GPU" for device in list_local_devices())


class Context:
    """What ``eager.context.context()`` gives."""

    executing_eagerly = staticmethod(executing_eagerly)
    in_eager_mode = staticmethod(executing_eagerly)
    num_gpus = staticmethod(num_gpus)
    device = staticmethod(device)

    @property
    def scope_name(self) -> str:
        """The current name scope, with a final '/'."""
        name = current_builder().get_name_scope()
        return f"{name}/" if name else ""

    @property
    def device_name(self) -> str | None:
        """The device of the block that this is called in, or None."""
        return EAGER.device_name

    def add_post_execution_callback(self, callback: Any) -> None:
        """Call a function after each op."""
        EAGER.callbacks.append(callback)

    def clear_post_execution_callbacks(self) -> None:
        """Call none any more."""
        EAGER.callbacks.clear()

    def clear_kernel_cache(self) -> None:
        """Do nothing: what is kept of ops is bounded, and ``anabranch.core.cache`` clears it."""

    def devices(self) -> list[str]:
        """Names of the devices."""
        return EAGER.worker.devices.listed()  # type: ignore[return-value]


_context = Context()


def context() -> Context:
    """The context of the process."""
    return _context


def context_safe() -> Context:
    """The context of the process."""
    return _context


global_seed = lambda: EAGER.seed  # noqa: E731
internal_operation_seed = lambda: EAGER._last_id  # noqa: E731

__all__ = [
    "EagerTensor",
    "GradientTape",
    "context",
    "device",
    "eager_mode",
    "enabled",
    "executing_eagerly",
    "graph_mode",
    "in_eager_mode",
    "record_operation",
    "tape",
]
