"""Ops that run when they are applied: how one op of given attributes runs on tensors that have values.

An :class:`Application` is an op type with its attributes. It is kept, and with it what has been learned about it:
which shapes its shape rule accepts, and programs for those for which it was compiled.

Tiers. Small operands go through the host kernel on NumPy, which takes microseconds. Large ones go through the kernel
compiled for their shapes once that pays: when the modelled price of what was interpreted has come to that of a
compilation. The model counts elements and products, and never looks at a clock, so that a program repeats bit for bit.
On a machine whose default device is not the CPU, large operands and those that lie on the device are compiled at once,
and results stay there.

State. A read pins the version that it reads, so that no program is given its buffer while a tensor shows it. A write
claims its variables, reads them, computes, and publishes all new versions together; a check that fails raises before
that, so that an op that raises changes nothing. Random ops advance their stream when they have run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.contract import faults, inference, kernels
from anabranch.core.contract.opdef import OpDefinition
from anabranch.core.contract.roles import Cost
from anabranch.core.graph.tensor import OpView
from anabranch.core.values import dtypes, shapes
from anabranch.eager.tensor import EagerTensor
from anabranch.ops.shared import unchecked
from anabranch.runtime.host_ops import require_room
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import Claim, RandomCounter, ResourceHandle, Slot
from anabranch.runtime.values import to_host
from anabranch.xla import engine, lowering, single_op

if TYPE_CHECKING:
    from anabranch.runtime.worker import Worker

SMALL = 1 << 13
"""Elements of the largest operand up to which an op is always interpreted on a CPU."""
COMPILATION = 4e7
"""Modelled price of a compilation, in elements that NumPy goes through in the same time."""
_PRICE_OF_PRODUCT = 1 / 16
_MOST_FORMS = 256
_SMALL_VALUE = 64
"""Elements of an operand that a shape rule looks at, up to which the operand's value is part of what is remembered."""
_NOTHING: frozenset[Any] = frozenset()


class _Asking(inference.ShapeContext):
    """A shape context that notes which operands' values the rule asks for."""

    __slots__ = ("asked",)

    runs = True

    def __init__(self, definition: OpDefinition, attrs: dict[str, Any], tensors: Sequence[Any], forms: list[Any]):
        super().__init__(definition, attrs, tensors, forms)
        self.asked: set[int] = set()

    def _partial(self, position: int) -> Any:
        self.asked.add(position)
        return self._tensors[position]._peek()


class EagerContext(kernels.HostContext):
    """What a host kernel gets where its op runs at once: the process's resources."""

    def __init__(self, op: OpView, worker: Worker) -> None:
        super().__init__(op, self._object)
        self._worker = worker
        self._manager = worker.manager

    def _object(self, handle: Any) -> Any:
        if not isinstance(handle, ResourceHandle):
            raise errors.InvalidArgumentError(
                None,
                self.op,
                errors.message(f"{handle!r} as a resource handle", "the handle of a queue or table", "pass its op"),
            )

        def refuse() -> Any:
            raise errors.NotFoundError(
                None, self.op, f"Resource {handle.container}/{handle.name}/{handle.kind} does not exist."
            )

        return self._manager.object(handle, refuse)

    def handle(self, kind: str, container: str, name: str, device: str) -> ResourceHandle:
        return ResourceHandle(kind, container, name, device)

    @property
    def functions(self) -> kernels.Functions:
        return self._worker.functions

    def shared(self, kind: str, create: Callable[[], Any], name: str | None = None) -> Any:
        attrs = self.op._attrs
        name = name or attrs.get("shared_name", "") or self.op.name
        return self._manager.object(ResourceHandle(kind, attrs.get("container", ""), name), create)

    def release(self, handle: Any, ignore_missing: bool) -> None:
        if not self._manager.remove(handle) and not ignore_missing:
            raise errors.NotFoundError(
                None, self.op, f"Resource {handle.container}/{handle.name}/{handle.kind} does not exist."
            )


def slot_of(manager: ResourceManager, tensor: EagerTensor) -> Slot:
    """The variable or table behind a handle."""
    handle, maker = tensor._value, tensor._made_by
    found = manager.find(handle) if isinstance(handle, ResourceHandle) else None
    if found is not None:
        return found
    if maker is None or maker.definition.makes is None:
        raise errors.NotFoundError(
            None,
            None,
            errors.message(
                f"the handle {handle!r}, whose resource is not there",
                "the handle of a variable or table",
                "keep the variable as long as its handle is used",
            ),
        )
    create = maker.definition.create
    if create is not None:  # a table, which is there, empty, before anything fills it
        return manager.slot(handle, dtypes.variant, (), lambda: create(maker._attrs, handle.name))
    return manager.slot(handle, maker._attrs["dtype"], maker._attrs["shape"])


class _Form:
    """What is remembered of operands of certain shapes: what is behind handles among the outputs, and what the kernel
    does for them once its checks have passed (:mod:`anabranch.ops.shared.unchecked`), where there is such a form.
    """

    __slots__ = ("handles", "short")

    def __init__(self, handles: dict[int, Any] | None, short: Callable[..., Any] | None) -> None:
        self.handles = handles
        self.short = short


class Ran(OpView):
    """An op that ran, and how."""

    __slots__ = ("application",)

    def __init__(self, application: Application, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        definition = application.definition
        self.application = application
        self.definition = definition
        self._inputs = inputs
        self._attrs = application.attrs
        self._outputs = outputs
        self.name = definition.type_name


class Application:
    """An op type with its attributes, and how it runs; see the module's docstring.

    Args:
        worker: whose resources it uses.
        definition: the op type.
        attrs: all attributes, in stored form. A random op's seeds are not among them: they choose a stream.
    """

    __slots__ = (
        "_accepted",
        "_asked",
        "_context",
        "_manager",
        "_price",
        "_programs",
        "_run",
        "_spent",
        "_static",
        "_worker",
        "alone",
        "asked_by_rule",
        "attrs",
        "blocks",
        "compilable",
        "definition",
        "draws",
        "dtypes",
        "host",
        "input_dtypes",
        "notes",
        "positions",
        "view",
    )

    def __init__(self, worker: Worker, definition: OpDefinition, attrs: dict[str, Any]) -> None:
        self.definition = definition
        self.attrs = attrs
        self.dtypes = tuple([dtype.base for dtype in definition.output_dtypes(attrs)])
        self.view = OpView(definition, (), attrs, ())
        self.positions = definition.resource_positions(attrs)
        self.alone = definition.fixed_outputs and len(self.dtypes) == 1  # type: ignore[attr-defined]
        """Whether a program is given the one output itself."""
        self.host = not kernels.needs_lax(definition)
        self.input_dtypes = tuple([dtype.base for dtype in definition.input_dtypes(attrs)])
        kinds = [*self.dtypes, *self.input_dtypes]
        self.compilable = definition.kernel is not None and definition.bound is None
        self.compilable &= not any(
            kind.base.host_only for i, kind in enumerate(kinds, -len(self.dtypes)) if i not in self.positions
        )
        self._worker = worker
        self._manager = worker.manager
        self._context = EagerContext(self.view, worker)
        self.notes: Any = None
        """What its gradient rule did (:mod:`anabranch.eager.kept_rules`); False if that is not kept."""
        self.asked_by_rule: tuple[int, ...] = ()
        """Of its inputs, outputs and gradients those whose values the rule looks at."""
        self._accepted: dict[Any, _Form] = {}
        self._asked: tuple[int, ...] = ()
        self._static = single_op.compile_time_positions(definition, attrs)
        self._programs: dict[Any, Any] = {}
        self._spent = 0.0
        self._price = 1.0 if definition.cost in (Cost.ELEMENTS, Cost.WINDOWS) else 20.0
        kind = definition.effect.kind
        self._run = {"read": self._read, "write": self._write}.get(kind, self._compute)
        self.blocks = kind in ("channel", "io")
        self.draws = kind == "random"

    # ---------------------------------------------------------------------------------------------------------- running
    def run(self, inputs: Sequence[EagerTensor], counter: RandomCounter | None = None) -> tuple[EagerTensor, ...]:
        """The outputs for these inputs.

        Raises:
            OpError: the op cannot run on them; nothing has changed.
        """
        form = self._check(inputs)
        if form.short is not None:
            operands = [tensor._value for tensor in inputs]
            for operand in operands:
                if type(operand) is not np.ndarray:
                    break
            else:
                try:
                    with np.errstate(all="ignore"):
                        value = form.short(*operands)
                    return (EagerTensor(value if type(value) is np.ndarray else np.asarray(value), self.dtypes[0]),)
                except (unchecked.Changed, ValueError, MemoryError):  # the kernel says what there is to say
                    pass
        handles = form.handles
        values = self._run(inputs, counter)
        outputs = []
        for value, dtype in zip(values, self.dtypes, strict=True):
            tensor = EagerTensor.__new__(EagerTensor)
            tensor.dtype = dtype
            tensor._handle = tensor._made_by = None
            if type(value) is np.ndarray:
                tensor._value = tensor._host = value
            elif dtype.np is None:
                tensor._value = value.item() if isinstance(value, np.ndarray) and not value.ndim else value
                tensor._host = None
            elif hasattr(value, "devices"):
                tensor._value, tensor._host = value, None
            else:
                tensor._value = tensor._host = np.asarray(value, dtype.np)
            outputs.append(tensor)
        if handles is not None:
            for i, handle in handles.items():
                outputs[i]._handle = handle
        return tuple(outputs)

    def _check(self, inputs: Sequence[EagerTensor]) -> _Form:
        """Ask the shape rule, unless it has accepted such operands before; what is known of operands like these."""
        forms: list[Any] = []
        for tensor in inputs:
            value = tensor._value
            forms.append(value.shape if type(value) is np.ndarray else tensor._handle or getattr(value, "shape", ()))
        for position in self._asked:
            known = inputs[position]._peek()
            if known is None or known.size > _SMALL_VALUE or known.dtype.kind == "O":
                forms.append(object())
            else:
                forms.append(known.tobytes())
        key = tuple(forms)
        try:
            return self._accepted[key]
        except KeyError:
            pass
        context = _Asking(self.definition, self.attrs, inputs, [tensor._shape for tensor in inputs])
        try:
            inference.infer(self.definition, context, len(self.dtypes))
        except errors.OpError:
            raise
        except (ValueError, TypeError) as problem:
            text = f"{self._kernel_words(inputs)}{problem} [Op:{self.definition.type_name}]"
            raise errors.InvalidArgumentError(None, self._view_of(inputs), text) from None
        handles = context.output_handles or None
        if not context.asked.issubset(self._asked):
            self._asked = tuple(sorted({*self._asked, *context.asked}))
            self._accepted.clear()
            return _Form(handles, None)
        if len(self._accepted) >= _MOST_FORMS:
            self._accepted.clear()
        form = self._accepted[key] = _Form(handles, self.short_form(inputs))
        return form

    def _kernel_words(self, inputs: Sequence[EagerTensor]) -> str:
        """What the kernel says, in a line, of operands that the shape rule refuses, as TensorFlow does; or ""."""
        if not self.host or self.definition.effect.kind != "pure":
            return ""
        try:
            operands = [to_host(tensor._value) for tensor in inputs]
            kernels.run_on_host(
                self.definition, operands, self.attrs, EagerContext(self._view_of(inputs), self._worker)
            )
        except errors.OpError as problem:
            return f"{problem.message.partition(chr(10))[0]} [Op:{self.definition.type_name}]\n"
        except Exception:  # it need not stand what the rule refuses
            pass
        return ""

    @property
    def asked(self) -> tuple[int, ...]:
        """Inputs whose values the shape rule looks at."""
        return self._asked

    def short_form(self, inputs: Sequence[EagerTensor]) -> Callable[..., Any] | None:
        """What the kernel does for operands of such shapes, and such values of those that the shape rule asks for, if
        they are small enough to be interpreted always.
        """
        make = self.definition.straight
        if make is None or not self.alone or not self.host or self.definition.effect.kind != "pure":
            return None
        operands = [tensor._value for tensor in inputs]
        if not all([type(operand) is np.ndarray and operand.size <= SMALL for operand in operands]):
            return None
        known = [i in self._asked and operand.size <= _SMALL_VALUE for i, operand in enumerate(operands)]
        if make is unchecked.matmul:
            make = unchecked.matmul_on_threads
        form: Callable[..., Any] | None = make(operands, known, self.attrs)
        return form

    def _view_of(self, inputs: Sequence[EagerTensor]) -> OpView:
        return OpView(self.definition, tuple(inputs), self.attrs, ())

    # ---------------------------------------------------------------------------------------------------------- effects
    def _compute(self, inputs: Sequence[EagerTensor], counter: RandomCounter | None) -> list[Any]:
        return self._call(inputs, [tensor._value for tensor in inputs], counter)

    def _read(self, inputs: Sequence[EagerTensor], counter: RandomCounter | None) -> list[Any]:
        manager, definition = self._manager, self.definition
        slots = [slot_of(manager, inputs[position]) for position in self.positions]
        values = [tensor._value for tensor in inputs]
        if definition.effect.presence:
            for position, slot in zip(self.positions, slots, strict=True):
                values[position] = np.bool_(slot.version is not None)
            return self._call(inputs, values, counter)
        present = [slot for slot in slots if slot.version is not None or not definition.allows_uninitialized]
        pinned = manager.pin(present, self.view)
        rest = iter(pinned)
        for position, slot in zip(self.positions, slots, strict=True):
            values[position] = next(rest).value if slot in present else None
        if definition.passes is not None:  # the output is the version, which nobody may reuse from now on
            return values if len(values) == 1 else self._call(inputs, values, counter)
        try:
            return self._call(inputs, values, counter)
        finally:
            manager.unpin(pinned)

    def _write(self, inputs: Sequence[EagerTensor], counter: RandomCounter | None) -> list[Any]:
        manager, definition = self._manager, self.definition
        slots = [slot_of(manager, inputs[position]) for position in self.positions]
        values = [tensor._value for tensor in inputs]
        claim = Claim(_NOTHING, frozenset(slots))
        reads = definition.effect.reads
        try:
            manager.begin(claim)
            for position, slot in zip(self.positions, slots, strict=True):
                if not reads or (slot.version is None and definition.allows_uninitialized):
                    values[position] = None
                else:
                    values[position] = (slot.version or slot.current(self._view_of(inputs))).value
            results = self._call(inputs, values, counter)
            updates = []
            for slot, value in zip(slots, results, strict=False):
                array = value if hasattr(value, "devices") else np.asarray(value)
                if slot.shape is not None and not shapes.is_compatible(slot.shape, array.shape):
                    raise errors.InvalidArgumentError(
                        None,
                        self._view_of(inputs),
                        errors.message(
                            f"a value of shape {shapes.show(array.shape)} for variable {slot.name!r}",
                            f"shape {shapes.show(slot.shape)}",
                            "reshape the value, or make the variable with validate_shape=False",
                        ),
                    )
                updates.append((slot, array))
            manager.publish(updates)
            if not reads:  # a tensor shows the same array
                for slot in slots:
                    if slot.version is not None:
                        slot.version.pins += 1
        finally:
            manager.end(claim)
        return results[len(slots) :]

    # ------------------------------------------------------------------------------------------------------------ tiers
    def _call(self, inputs: Sequence[EagerTensor], values: list[Any], counter: RandomCounter | None) -> list[Any]:
        philox = counter.words() if counter is not None else None
        if self.compilable:
            largest = 0
            for value in values:
                if value is None:  # a variable that is given its value: there is nothing to compute
                    largest = 0
                    break
                size = getattr(value, "size", 0)
                if size > largest:
                    largest = size
            compiled = not self.host or (largest > SMALL and self._pays(inputs, values, largest))
        else:
            compiled = not self.host
        if compiled:
            results = self._call_compiled(inputs, values, philox)
        else:
            results = self._call_on_host(inputs, values, philox)
        if counter is not None:
            assert self.definition.consumes is not None
            operands = [np.asarray(value) for value in values]
            consumed = int(self.definition.consumes(lowering.TraceShapes(self._view_of(inputs), operands)))  # type: ignore[arg-type]
            counter.position += consumed
        return results

    def _pays(self, inputs: Sequence[EagerTensor], values: Sequence[Any], largest: int) -> bool:
        """Whether an op with large operands is worth a program."""
        if engine.default_platform() != "cpu":
            return True
        if self._spent > COMPILATION:
            return True
        price = self._price * largest
        flops = self.definition.flops
        if flops is not None:
            price += _PRICE_OF_PRODUCT * float(flops(lowering.TraceShapes(self._view_of(inputs), values)))  # type: ignore[arg-type]
        self._spent += price
        return False

    def _call_on_host(self, inputs: Sequence[EagerTensor], values: list[Any], philox: Any) -> list[Any]:
        definition, attrs = self.definition, self.attrs
        operands = [
            value if type(value) is np.ndarray else np.asarray(value) if hasattr(value, "devices") else to_host(value)
            for value in values
        ]
        context = self._context
        if philox is not None or self.blocks:
            context = EagerContext(self._view_of(inputs), self._worker)
            context.philox = philox
            context.cancellation = CancellationToken()
            if philox is not None:
                assert definition.consumes is not None
                shape_context = lowering.TraceShapes(context.op, operands)
                require_room(context.op, operands, int(definition.consumes(shape_context)))
        try:
            return kernels.run_on_host(definition, operands, attrs, context)
        except errors.OpError as problem:
            if problem._op is None:
                problem._op = self._view_of(inputs)
            raise
        except Exception as problem:
            view = self._view_of(inputs)
            raise faults.host_error(view, operands, problem, lowering.TraceShapes(view, operands)) from problem  # type: ignore[arg-type]
        finally:
            if context is not self._context:
                context.cancellation.ended = True  # who waits for steps that hold something waits for no op that ran

    def _call_compiled(self, inputs: Sequence[EagerTensor], values: list[Any], philox: Any) -> list[Any]:
        static = self._static
        arrays = [np.asarray(value) if i in static else value for i, value in enumerate(values)]
        key = tuple([array.tobytes() if i in static else (array.shape, array.dtype) for i, array in enumerate(arrays)])
        program = self._programs.get(key)
        view = self.view
        if program is None:
            view = self._view_of(inputs)
            program = single_op.program(self.definition, arrays, self.attrs, view, philox)
            if len(self._programs) >= _MOST_FORMS:
                self._programs.clear()
            self._programs[key] = program
        dynamic = [array for i, array in enumerate(arrays) if i not in static] if static else arrays
        return list(single_op.call(program, dynamic, view, philox))
