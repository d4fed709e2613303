"""Eager mode: ops run when they are applied, by :class:`EagerBuilder`.

There is one such builder in a process, with one worker, whose resources are the process's state. Threads have their
own scopes and tapes. ``tf.enable_eager_execution()`` puts it below the builders of all threads, in place of the global
graph; ``with tf.Graph().as_default():`` inside it builds a graph as ever, which a session runs.

Random ops follow TensorFlow 1.15. With neither seed an op has a stream of its own from the entropy of the process. With
``tf.set_random_seed`` each op draws its own seed from Python's generator of that seed, and an op seed makes the
stream of all ops of that type, those attributes and seeds.

Resources. A variable is named by what its program calls it and a number that no other has; its state goes when its
handle does. A resource that the program names itself is there until the process ends.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import random
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.cache import Cache
from anabranch.core.contract.api import public
from anabranch.core.contract.inference import HandleData
from anabranch.core.contract.opdef import OpDefinition, attr_key, find
from anabranch.core.graph import build, builder, default_graph
from anabranch.core.graph.builder import Builder, Context, current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.tensor import OpView, Tensor
from anabranch.core.one_time import Once
from anabranch.core.protos import config_pb2
from anabranch.core.values import dtypes
from anabranch.eager import recording
from anabranch.eager.application import Application, Ran
from anabranch.eager.scopes import DeviceScope, NameScope, Scopes
from anabranch.eager.tensor import EagerTensor
from anabranch.placement.devices import LOCAL_TASK
from anabranch.runtime.options import SessionOptions
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import RandomCounter, ResourceHandle
from anabranch.runtime.worker import Worker
from anabranch.variables.variable import Variable

MOST_APPLICATIONS = 4096
"""How many op types with attributes are kept, and streams of random ops."""
_MOST_SEED = 2**31 - 1
_SEEDS = ("seed", "seed2")
_SMALL_OPERAND = 64
"""Elements of an operand that is not a tensor yet, up to which it becomes one on the short way."""
_INT32 = 2**31


_PLAIN = frozenset((int, float, list, tuple, np.ndarray))
"""Types of operands that become tensors on the short way."""
_INDICES = (dtypes.int32, dtypes.int64)
_NUMBERS = (*_INDICES, dtypes.float32, dtypes.float64)


def _kind(value: Any) -> Any:
    """What the short way tells operands that are not tensors apart by; of a list of tensors their dtypes."""
    kind = type(value)
    if _holds_tensors(value):
        return (kind, *[tensor.dtype if type(tensor) is EagerTensor else type(tensor) for tensor in value])
    return kind


def _holds_tensors(value: Any) -> bool:
    return type(value) in (list, tuple) and bool(value) and type(value[0]) is EagerTensor


def _in_a_row(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Inputs with those of lists of tensors in place of the lists."""
    if not any([_holds_tensors(value) for value in inputs]):
        return inputs
    return tuple([item for value in inputs for item in (value if _holds_tensors(value) else (value,))])


def _operands(application: Application, inputs: tuple[Any, ...]) -> tuple[EagerTensor, ...] | None:
    """Inputs as tensors, where sizes, axes and numbers among them are of the plainest kind; else None.

    The op has run with values of these types, whose dtypes their types and the other inputs decide: integers that 32
    bits hold, a float, a list of such integers, a small array that is not to be cast.
    """
    tensors: list[EagerTensor] = []
    for value, dtype in zip(inputs, application.input_dtypes, strict=True):
        kind = type(value)
        if kind is EagerTensor:
            tensors.append(value)
            continue
        if kind is np.ndarray:
            if value.dtype != dtype.np or value.size > _SMALL_OPERAND:
                return None
            array = value.copy()
        elif kind is float:
            if dtype is not dtypes.float32 and dtype is not dtypes.float64:
                return None
            array = np.array(value, dtype.np)
        elif kind is int:
            if dtype not in _NUMBERS or not -_INT32 <= value < _INT32:
                return None
            array = np.array(value, dtype.np)
        else:
            if dtype not in _INDICES or not value or len(value) > _SMALL_OPERAND:
                return None
            for item in value:
                if type(item) is not int or not -_INT32 <= item < _INT32:
                    return None
            array = np.array(value, dtype.np)
        tensors.append(EagerTensor(array, dtype))
    return tuple(tensors)


def _by_position(type_name: str, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs and attributes of an op, all of which were given by name."""
    definition = find(type_name)
    names = () if definition is None else [spec.name for spec in definition.inputs]
    if any([name not in given for name in names]):
        return (), given
    attrs = dict(given)
    return tuple([attrs.pop(name) for name in names]), attrs


def _with_values(definition: OpDefinition | None, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Inputs with the values of variables in place of those; None if there are none, or the op takes one itself."""
    if definition is None or len(inputs) != len(definition.inputs):
        return None
    read: list[Any] = []
    for spec, value in zip(definition.inputs, inputs, strict=True):
        if isinstance(value, Variable):
            if spec.is_list or spec.is_ref or spec.dtype is dtypes.resource:
                return None
            value = convert_to_tensor(value)
        read.append(value)
    return None if all([one is value for one, value in zip(read, inputs, strict=True)]) else tuple(read)


class EagerBuilder(Builder):
    """Run each op when it is applied; see the module's docstring."""

    defers = False
    tensor_type = EagerTensor
    keeps_variables = False

    def __init__(self) -> None:
        self.options = SessionOptions()
        self.config: Any = None
        """The ConfigProto that the program began with."""
        self.device_policy = 2
        """What is done about operands on other devices: one of the numbers of `tf.contrib.eager`."""
        self._worker = Once(lambda: Worker(self.options, self.config), "start-of-eager-mode")
        self._applications: Cache[Any, Application] = Cache("ops that ran at once", MOST_APPLICATIONS)
        self._short: dict[Any, Application] = {}
        self._streams: Cache[Any, RandomCounter] = Cache("streams of random ops", MOST_APPLICATIONS)
        self._numbers = itertools.count(1)
        self._own_names: set[str] = set()
        """Names of resources that belong to the handle that is about to be made."""
        self._scopes = Scopes()
        self._seed: int | None = None
        self._generator = random.Random()
        self.callbacks: list[Callable[..., Any]] = []
        """What is called after each op."""

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """A copy of a collection of the default graph."""
        return default_graph.get_default_graph().get_collection(name, scope)

    def get_collection_ref(self, name: Any) -> list[Any]:
        """The own list of a collection of the default graph."""
        return default_graph.get_default_graph().get_collection_ref(name)

    def configure(self, config: Any) -> None:
        """Take a ConfigProto, or options, before the first op runs.

        Raises:
            ValueError: ops have run, under another configuration.
        """
        options, proto = (config, config.config) if isinstance(config, SessionOptions) else (SessionOptions(), config)
        if (options, proto) == (self.options, self.config):
            return
        if self._worker.is_done:
            raise ValueError(
                "Trying to change the active config of an active eager execution.\n"
                + errors.message(
                    "enable_eager_execution(config=...) after ops have run",
                    "the configuration that they ran with",
                    "call it first, right after the import",
                )
            )
        self.options, self.config = options, proto
        self.callbacks = [callback for callback in self.callbacks if callback is not _log_placement]
        if proto is not None and proto.log_device_placement:
            self.callbacks.append(_log_placement)

    @property
    def worker(self) -> Worker:
        """What owns the state of the process."""
        return self._worker()

    # ------------------------------------------------------------------------------------------------------------ seeds
    @property
    def seed(self) -> int | None:
        """Seed of the process's random ops."""
        return self._seed

    @seed.setter
    def seed(self, value: int | None) -> None:
        self._seed = value
        self._generator = random.Random(value)
        self._streams.clear()

    @property
    def _last_id(self) -> int:
        return self._generator.randint(0, _MOST_SEED)

    def _stream(self, application: Application, attrs: dict[str, Any]) -> RandomCounter:
        seeds = attrs.get("seed", 0) or 0, attrs.get("seed2", 0) or 0
        key = (application, seeds)
        stream = self._streams.get(key)
        if stream is None:
            number = next(self._numbers)
            manager = self.worker.manager
            stream = manager.counter(f"eager/{application.definition.type_name}/{number}", *seeds)
            self._streams.put(key, stream)
        return stream

    # -------------------------------------------------------------------------------------------------------------- ops
    def application(self, definition: OpDefinition, attrs: dict[str, Any]) -> Application:
        """The op type with these attributes."""
        is_random = definition.effect.kind == "random"
        key = (
            definition,
            *[(name, attr_key(value)) for name, value in attrs.items() if not (is_random and name in _SEEDS)],
        )
        found = self._applications.get(key)
        if found is None:
            given = {**attrs, **dict.fromkeys(_SEEDS, 0)} if is_random and "seed" in attrs else dict(attrs)
            found = self._applications.add(key, Application(self.worker, definition, given))
        return found

    def _create(
        self, definition: OpDefinition, inputs: Sequence[Any], attrs: dict[str, Any], name: str | None = None
    ) -> OpView:
        if definition.makes is not None:
            return self._make(definition, inputs, attrs)
        application = self.application(definition, attrs)
        stream = self._stream(application, attrs) if definition.effect.kind == "random" else None
        return self._finished(application, tuple(inputs), application.run(inputs, stream), name)

    def _finished(
        self, application: Application, inputs: tuple[Any, ...], outputs: tuple[Any, ...], name: str | None = None
    ) -> OpView:
        view = Ran(application, inputs, outputs)
        if recording._tapes.active:
            recording.record(view)
        for callback in self.callbacks:
            callback(view, name)
        return view

    def apply(self, type_name: str, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """The results of an op that has run before with operands of these dtypes or types and with these attributes.

        NotImplemented if it cannot go this short way; then nothing has run.
        """
        if not inputs and attrs:
            inputs, attrs = _by_position(type_name, attrs)
        key = (
            type_name,
            *[tensor.dtype if type(tensor) is EagerTensor else _kind(tensor) for tensor in inputs],
            *attrs.items(),
        )
        try:
            application = self._short.get(key)
        except TypeError:  # an attribute that cannot be hashed
            if any([type(value) is list for value in attrs.values()]):
                return self.apply(
                    type_name,
                    inputs,
                    {name: tuple(value) if type(value) is list else value for name, value in attrs.items()},
                )
            return NotImplemented
        if application is None:
            return self._first(key, type_name, inputs, attrs)
        for tensor in inputs:
            if type(tensor) is not EagerTensor:
                operands = _operands(application, _in_a_row(inputs))
                if operands is None:
                    return NotImplemented
                inputs = operands
                break
        stream = self._stream(application, attrs) if application.draws else None
        outputs = application.run(inputs, stream)
        if recording._tapes.active or self.callbacks:
            self._finished(application, inputs, outputs)
        if application.alone:
            return outputs[0]
        return build.results(OpView(application.definition, inputs, application.attrs, outputs))

    def _first(self, key: Any, type_name: str, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Take the long way, and note what will be shorter the next time."""
        definition = find(type_name)
        read = _with_values(definition, inputs)
        if read is not None:
            return self.apply(type_name, read, attrs)
        if (
            definition is None
            or definition.makes is not None
            or definition.effect.kind in ("channel", "io", "body")
            or (definition.effect.kind == "random" and any([attrs.get(name) for name in _SEEDS]))  # of one call, say
            or len(inputs) != len(definition.inputs)
            or not inputs
            or not all(
                spec.is_list and all(type(item) is EagerTensor for item in value)
                if _holds_tensors(value)
                else not spec.is_list and (type(value) is EagerTensor or type(value) in _PLAIN)
                for spec, value in zip(definition.inputs, inputs, strict=True)
            )
        ):
            return NotImplemented
        view = build.build_operation(type_name, inputs, attrs)
        if len(self._short) >= MOST_APPLICATIONS:
            self._short.clear()
        self._short[key] = self.application(definition, view._attrs)
        return build.results(view)

    def _make(self, definition: OpDefinition, inputs: Sequence[Any], attrs: dict[str, Any]) -> OpView:
        """Name a resource, and make it if it is not a variable."""
        manager = self.worker.manager
        name, named = attrs.get("shared_name", ""), True
        if not name or name in self._own_names:
            named = False
            self._own_names.discard(name)
            name = name or f"{definition.type_name}_{next(self._numbers)}"
        attrs = {**attrs, "shared_name": name}
        handle = ResourceHandle(definition.makes or "", attrs.get("container", "") or "", name)
        view = OpView(definition, tuple(inputs), attrs, ())
        data = None
        if definition.makes == "variable":
            data = HandleData(attrs["dtype"], attrs["shape"])
        tensor = EagerTensor(handle, definition.output_dtypes(attrs)[0].base, data, view)
        if definition.makes not in ("variable", "table"):
            create = definition.create
            assert create is not None
            manager.object(handle, lambda: create(attrs, name))
        if not named:
            weakref.finalize(tensor, _drop, manager, handle).atexit = False
            _let_go()
        return OpView(definition, tuple(inputs), attrs, (tensor,))

    @property
    def tells(self) -> bool:
        return bool(recording._tapes.active or self.callbacks)

    def constant(self, array: Any, dtype: Any, name: str | None) -> EagerTensor:
        """A tensor with the value of an array, which nobody else holds."""
        return EagerTensor(array, dtype)

    def among(self, values: Iterable[Any]) -> Builder:
        """This builder, or the graph of symbolic values, such as Keras' inputs are, that is among their tensors."""
        for value in values:
            if type(value) is not EagerTensor and isinstance(value, Tensor):
                graph: Any = getattr(value, "graph", None)
                if getattr(graph, "is_symbolic", False):
                    return graph
        return self

    def adopt(self, tensor: Any) -> Any:
        """Refuse a tensor of a graph, but for symbolic values, whose ops join their graph."""
        if getattr(getattr(tensor, "graph", None), "is_symbolic", False):
            return tensor
        raise TypeError(
            errors.message(
                f"tensor {tensor._label} of a graph, in code that runs its ops at once",
                "a tensor with a value",
                "return the tensor from the function that makes it, run its graph first (session.run(t)), or put the "
                "code under `with graph.as_default():`",
            )
        )

    def lifted(self, value: Any) -> Any:
        """The value itself, which a symbolic tensor does not have."""
        if isinstance(value, Tensor) and type(value) is not EagerTensor:
            super().adopt(value)
        return value

    # ----------------------------------------------------------------------------------------------------------- scopes
    def operand_scope(self, name: str) -> Context[str]:
        return builder._NOTHING if not name else builder._Nothing(name)

    def name_scope(self, name: str | None) -> Context[str]:
        return NameScope(self._scopes, name)

    def get_name_scope(self) -> str:
        return self._scopes.name

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        return f"{self._scopes.name}/{name}" if self._scopes.name else name

    def resource_name(self, name: str) -> str:
        own = f"{name}_{next(self._numbers)}"
        self._own_names.add(own)
        return own

    def record(self, view: OpView) -> None:
        recording.record(view)

    def noted(self) -> Context[list[OpView]]:
        return recording.noted()

    def note_variable(self, variable: Any) -> None:
        for watcher in self._scopes.variable_watchers:
            watcher(variable)
        variable._handle._variable = weakref.ref(variable)
        variable._handle._variable_number = next(self._numbers)

    def note_value(self, variable: Any) -> None:
        for watcher in self._scopes.value_watchers:
            watcher(variable)

    @contextlib.contextmanager
    def telling_of_values(self, watcher: Callable[[Any], None]) -> Iterator[None]:
        """A block in which a function is told of each variable that the thread makes, once it has a value."""
        scopes = self._scopes
        before = scopes.value_watchers
        scopes.value_watchers = (*before, watcher)
        try:
            yield
        finally:
            scopes.value_watchers = before

    @property
    def device_name(self) -> str | None:
        """The device of the block that this is called in, or None."""
        return self._scopes.device

    def device(self, device_name_or_function: Any) -> Context[None]:
        return DeviceScope(self, self._scopes, device_name_or_function)

    def init_scope(self) -> Context[None]:
        return recording.stopped()


_gone: collections.deque[tuple[ResourceManager, ResourceHandle]] = collections.deque()
"""Resources whose handles are gone, and that could not be let go of at that moment."""


def _drop(manager: ResourceManager, handle: ResourceHandle) -> None:
    """Let go of a resource whose handle is gone, now or when the next one is made.

    The garbage collector calls it at any moment, also where this thread holds the lock of the manager or of a queue.
    """
    if not manager.removed_at_once(handle):
        _gone.append((manager, handle))


def _let_go() -> None:
    """Let go of what the garbage collector could not."""
    while _gone:
        manager, handle = _gone.popleft()
        resource: Any = manager._objects.get(handle)
        manager.remove(handle)
        if hasattr(resource, "shutdown"):
            resource.shutdown()


def _log_placement(view: OpView, name: str | None) -> None:
    device = EAGER.device_name or f"{LOCAL_TASK}/device:CPU:0"
    device = device if device.startswith("/job:") else f"{LOCAL_TASK}{device}"
    print(f"Executing op {view.definition.type_name} in device {device}", file=sys.stderr)


EAGER = EagerBuilder()
"""The process's eager mode."""
_enabled = False


# -------------------------------------------------------------------------------------------------------------- public
SYNC, ASYNC = 0, 1


@public("enable_eager_execution", "contrib.eager.enable_eager_execution")
def enable_eager_execution(config: Any = None, device_policy: Any = None, execution_mode: Any = None) -> None:
    """Run ops when they are applied, from now on and in all threads; for the beginning of a program.

    Args:
        config: a ConfigProto, or `tf.SessionOptions`.
        device_policy: what to do about operands on other devices: move them (the default), refuse, or warn;
            with the latter two ops are placed on the CPU alone.
        execution_mode: ``contrib.eager.SYNC`` or ``ASYNC``; ops are done when they return in any case.

    Raises:
        TypeError: ``config`` is something else.
        ValueError: the default graph has been used already, ops have run under another ``config``, or an argument is
            wrong.

    Example:
        >>> import anabranch as tf
        >>> tf.enable_eager_execution()  # doctest: +SKIP
        >>> (tf.constant([1.0, 2.0]) * 2.0).numpy()  # doctest: +SKIP
        array([2., 4.], dtype=float32)
    """
    global _enabled
    if config is not None and not isinstance(config, (config_pb2.ConfigProto, SessionOptions)):
        raise TypeError(
            "config must be a tf.ConfigProto\n"
            + errors.message(f"config={config!r}", "a ConfigProto or tf.SessionOptions", "tf.ConfigProto()")
        )
    if device_policy not in (None, *range(4)):
        raise ValueError(
            "device_policy must be one of None, tf.contrib.eager.DEVICE_PLACEMENT_EXPLICIT, "
            "tf.contrib.eager.DEVICE_PLACEMENT_WARN, tf.contrib.eager.DEVICE_PLACEMENT_SILENT\n"
            + errors.message(f"device_policy={device_policy!r}", "one of the policies", "leave it out")
        )
    if execution_mode not in (None, SYNC, ASYNC):
        raise ValueError(
            "execution_mode must be one of None, tf.contrib.eager.SYNC, tf.contrib.eager.ASYNC\n"
            + errors.message(f"execution_mode={execution_mode!r}", "SYNC or ASYNC", "leave it out")
        )
    if config is not None:
        EAGER.configure(config)
    if device_policy is not None:
        EAGER.device_policy = device_policy
    if _enabled:
        return
    if default_graph.global_graph()._operations:
        raise ValueError(
            "tf.enable_eager_execution must be called at program startup.\n"
            + errors.message(
                f"tf.enable_eager_execution() after {len(default_graph.global_graph()._operations)} operations were "
                "added to the default graph",
                "a program that has built nothing yet",
                "call it right after the import",
            )
        )
    _enabled = True
    builder.set_bottom(lambda: EAGER)


@public("disable_eager_execution")
def disable_eager_execution() -> None:
    """Build graphs, from now on and in all threads."""
    global _enabled
    _enabled = False
    builder.set_bottom(default_graph.global_graph)


@public("executing_eagerly")
def executing_eagerly() -> bool:
    """Whether ops that are applied here run at once."""
    return not current_builder().defers


@public("executing_eagerly_outside_functions")
def executing_eagerly_outside_functions() -> bool:
    """Whether ops run at once here, or would outside the functions that are being traced."""
    stack = builder.current_stack()
    for one in reversed(stack):
        if not getattr(one, "traces", False):
            return not one.defers
    return _enabled


def eager_mode() -> Context[EagerBuilder]:
    """A block whose ops run at once."""
    return EAGER.as_default()


@contextlib.contextmanager
def graph_mode() -> Iterator[None]:
    """A block whose ops are added to the default graph."""
    with default_graph.get_default_graph().as_default():
        yield
