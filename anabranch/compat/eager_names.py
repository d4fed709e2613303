"""Eager mode as TensorFlow's internal modules ``python.eager`` and ``python.compat.v2_compat`` name it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.compat.machine import list_local_devices
from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.graph import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.tensor import Tensor
from anabranch.eager import derivatives, mode, recording, scopes, tape
from anabranch.eager.devices import LogicalDevice, PhysicalDevice, VirtualDeviceConfiguration
from anabranch.eager.function import defun, function
from anabranch.eager.mode import EAGER, eager_mode, executing_eagerly, graph_mode
from anabranch.eager.tape import GradientTape, record_operation
from anabranch.eager.tensor import EagerTensor

in_eager_mode = executing_eagerly
stop_recording = recording.stopped
implicit_grad = derivatives.implicit_gradients
implicit_val_and_grad = derivatives.implicit_value_and_gradients
gradients_function = derivatives.gradients_function
val_and_grad_function = derivatives.value_and_gradients_function
make_vjp = derivatives.make_vjp
SYNC, ASYNC = mode.SYNC, mode.ASYNC
DEVICE_PLACEMENT_EXPLICIT = scopes.DEVICE_PLACEMENT_EXPLICIT
DEVICE_PLACEMENT_WARN = scopes.DEVICE_PLACEMENT_WARN
DEVICE_PLACEMENT_SILENT = scopes.DEVICE_PLACEMENT_SILENT
DEVICE_PLACEMENT_SILENT_FOR_INT32 = scopes.DEVICE_PLACEMENT_SILENT_FOR_INT32
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


def ensure_initialized() -> None:
    """Do nothing: what ops need is there when the first one runs."""


def async_wait() -> None:
    """Do nothing: ops are done when they return."""


def is_op_determinism_enabled() -> bool:
    """False: nothing was asked for; what is seeded repeats in any case."""
    return False


def num_gpus() -> int:
    """How many GPUs there are."""
    return sum(device.device_type == "GPU" for device in list_local_devices())


class _NotOkStatusException(Exception):
    """What TensorFlow's C layer raises below its Python classes; errors here have these classes from the start."""


def _attribute(value: Any) -> Any:
    """The value of an attribute as ops here have it."""
    return value.decode() if isinstance(value, bytes) else value


def execute(
    op_name: Any, num_outputs: int, inputs: Sequence[Any], attrs: Any, ctx: Any = None, name: str | None = None
) -> list[Any]:
    """Run an op by its type.

    Args:
        op_name: the type, a string or bytes.
        num_outputs: how many outputs it has.
        inputs: tensors.
        attrs: names and values of attributes, one after the other.
        ctx: has no effect.
        name: name of the op.

    Raises:
        NotFoundError: there is no such op. InvalidArgumentError: inputs or attributes do not fit it.
    """
    if not isinstance(num_outputs, int):
        raise TypeError(f"expected int for num_outputs, got {type(num_outputs).__name__}")
    type_name = op_name.decode() if isinstance(op_name, bytes) else op_name
    definition = opdef.find(type_name)
    if definition is None:
        raise errors.NotFoundError(None, None, f"Op type not registered {type_name!r}")
    flat = list(attrs or ())
    given = {_attribute(key): value for key, value in zip(flat[::2], flat[1::2], strict=True)}
    for key in given:
        if key not in definition.attrs:
            raise errors.InvalidArgumentError(None, None, f"Operation {type_name!r} has no attr named {key!r}.")
    try:
        counts = [spec.count(given) for spec in definition.inputs]
        rest = iter(inputs)
        groups = [
            [next(rest) for _ in range(count)] if spec.is_list else next(rest)
            for spec, count in zip(definition.inputs, counts, strict=True)
        ]
        own = {key: value for key, value in given.items() if key not in definition.inferred_attrs}  # type: ignore[attr-defined]
        op = build.build_operation(type_name, groups, own, name)
    except errors.OpError:
        raise
    except (TypeError, ValueError, KeyError, StopIteration) as problem:
        raise errors.InvalidArgumentError(None, None, str(problem)) from problem
    outputs = list(op._outputs)
    if len(outputs) > num_outputs:
        raise errors.InvalidArgumentError(
            None, None, f"{type_name} has {len(outputs)} outputs, and {num_outputs} are taken"
        )
    return outputs


class Context:
    """What ``eager.context.context()`` gives."""

    _handle = object()
    executing_eagerly = staticmethod(executing_eagerly)
    in_eager_mode = staticmethod(executing_eagerly)
    num_gpus = staticmethod(num_gpus)
    device = staticmethod(device)
    ensure_initialized = staticmethod(ensure_initialized)

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


def args_to_matching_eager(values: Sequence[Any], ctx: Any, default_dtype: Any = None) -> tuple[Any, list[Any]]:
    """The values as tensors of one dtype: that of the first tensor among them, else the default; with the dtype."""
    known = next((value.dtype.base for value in values if isinstance(value, Tensor)), None)
    if known is None:
        tensors = [convert_to_tensor(value, preferred_dtype=default_dtype) for value in values]
        known = tensors[0].dtype.base if tensors else default_dtype
    tensors = [convert_to_tensor(value, known) for value in values]
    return known.as_datatype_enum, tensors


def convert_to_mixed_eager_tensors(values: Sequence[Any], ctx: Any) -> tuple[list[Any], list[Any]]:
    """The values as tensors, each of its own dtype; with the dtypes."""
    tensors = [convert_to_tensor(value) for value in values]
    return [tensor.dtype.as_datatype_enum for tensor in tensors], tensors


def watch_variable(variable: Any) -> None:
    """Follow a variable on all tapes of the thread, if it is trained."""
    if variable.trainable:
        for one in recording.active():
            one.watch_variable(variable)


variable_accessed = watch_variable


def should_record(tensors: Sequence[Any]) -> bool:
    """Whether a tape of the thread follows one of the tensors."""
    return recording.is_recorded(tensors)


def could_possibly_record() -> bool:
    """Whether a tape of the thread records."""
    return bool(recording.active())


_context = Context()


def context() -> Context:
    """The context of the process."""
    return _context


get_default_context = context


def context_safe() -> Context:
    """The context of the process."""
    return _context


global_seed = lambda: EAGER.seed  # noqa: E731
internal_operation_seed = lambda: EAGER._last_id  # noqa: E731

__all__ = [
    "LogicalDevice",
    "PhysicalDevice",
    "VirtualDeviceConfiguration",
    "EagerTensor",
    "GradientTape",
    "context",
    "defun",
    "device",
    "eager_mode",
    "enabled",
    "executing_eagerly",
    "function",
    "graph_mode",
    "in_eager_mode",
    "record_operation",
    "tape",
]
