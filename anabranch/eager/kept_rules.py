"""Gradient rules that are not run again: the ops that a rule applied, kept for the next op of the same form.

A rule is Python: it looks at shapes, converts numbers, opens scopes and builds ops, which takes several times as long
as its ops do where they are small. What it builds is decided by the op with its attributes, by the shapes of inputs,
outputs and gradients, by which outputs a gradient reaches, and by the few values that it looks at (axes, say). So a
tape runs a rule once for each such key, notes the ops, and afterwards runs these alone, which gives the same bits.

A note is a straight list over registers: the op's inputs and outputs, the gradients, constants, and what each op
made. What shapes alone decide is a constant of it. What is needed only for gradients that the walk does not ask for
is left out.

Run each time, as they are: rules of the program's own (they may do anything), rules that apply ops with other effects
than reading, that look at large values or at values of what they computed, or that hide ops from tapes; ops that
take one tensor twice; and gradients known to be zero, of which a rule may leave terms out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.autodiff import input_gradients as rules
from anabranch.autodiff import registry
from anabranch.core.contract import inference, opdef
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.tensor import OpView
from anabranch.core.values import shapes
from anabranch.eager import recording
from anabranch.eager.application import Application, Ran
from anabranch.eager.mode import EAGER
from anabranch.eager.tensor import EagerTensor, readers
from anabranch.ops.shared import unchecked

_MOST_FORMS = 128
"""How many notes an op with its attributes has."""
_SMALL = 64
"""Elements of a value that may be part of a note or of its key."""


class _Trace:
    """A recorder of all ops that a rule applies."""

    def __init__(self) -> None:
        self.views: list[OpView] = []
        self.is_whole = True
        self.record = self.views.append

    def wants(self, inputs: Sequence[Any]) -> bool:
        return True

    def calls(self, graph: Any) -> None:
        """A function ran, whose ops are not seen one by one."""
        self.is_whole = False

    def hides(self) -> None:
        """Ops follow that no tape is told of."""
        self.is_whole = False


class _Note:
    """What a rule did.

    Args:
        constants: tensors that follow the op's own in the registers.
        steps: the ops in order: application, registers of its inputs, its form that needs no checks, or None.
        results: for each input of the op a register, three of them for `IndexedSlices`, or None.
        kinds: the dtype of each register.
    """

    __slots__ = ("constants", "kinds", "results", "steps")

    def __init__(self, constants: list[Any], steps: list[Any], results: list[Any], kinds: list[Any]) -> None:
        self.constants = constants
        self.steps = steps
        self.results = results
        self.kinds = kinds

    def run(self, given: list[Any]) -> list[Any]:
        """The gradients of the inputs.

        Args:
            given: inputs, outputs and gradients of the op, None in the places of those that are not there.
        """
        registers = [*given, *self.constants]
        telling = bool(recording._tapes.active)
        kinds = self.kinds
        with np.errstate(all="ignore"):
            for application, sources, short in self.steps:
                if short is not None and not telling:
                    values = [registers[i]._value for i in sources]
                    for value in values:
                        if type(value) is not np.ndarray:
                            break
                    else:
                        try:
                            value = short(*values)
                            array = value if type(value) is np.ndarray else np.asarray(value)
                            registers.append(EagerTensor(array, kinds[len(registers)]))
                            continue
                        except (unchecked.Changed, ValueError, MemoryError):
                            pass  # the kernel says what there is to say
                inputs = tuple([registers[i] for i in sources])
                outputs = application.run(inputs)
                if telling:
                    EAGER._finished(application, inputs, outputs)
                registers.extend(outputs)
        return [
            None
            if place is None
            else registers[place]
            if type(place) is int
            else IndexedSlices(*[None if i is None else registers[i] for i in place])
            for place in self.results
        ]


def input_gradients(view: OpView, grads: list[Any], wanted: tuple[bool, ...]) -> list[Any]:
    """The gradients of the inputs of an op that ran, as :func:`anabranch.autodiff.input_gradients.input_gradients`.

    Args:
        view: the op.
        grads: for each output its gradient, or None.
        wanted: which inputs' gradients the walk asks for; others may be None.
    """
    if type(view) is not Ran or EAGER.callbacks:
        return _by_rule(view, grads)
    application: Application = view.application
    notes = application.notes
    if notes is None:
        if not _may_keep(view):
            application.notes = False
            return _by_rule(view, grads)
        notes = application.notes = {}
    elif notes is False:
        return _by_rule(view, grads)
    given = [*view._inputs, *view._outputs, *grads]
    forms: list[Any] = [wanted]
    different = set()
    for tensor in given:
        if tensor is None:
            forms.append(None)
            different.add(len(forms))
            continue
        different.add(id(tensor))
        if type(tensor) is EagerTensor and not tensor._is_zeros:
            value = tensor._value
            forms.append(value.shape if type(value) is np.ndarray else tensor._handle or getattr(value, "shape", None))
        else:
            return _by_rule(view, grads)
    for place in application.asked_by_rule:
        forms.append(_small(given[place]))
    key = tuple(forms)
    note = notes.get(key, _NONE)
    if note is _NONE:
        return _first(application, view, grads, given, wanted, key)
    if note is None or len(different) < len(given):
        return _by_rule(view, grads)
    found: list[Any] = note.run(given)
    return found


_NONE = object()


def _by_rule(view: OpView, grads: Sequence[Any]) -> list[Any]:
    """Run the rule; it can see of an output that no gradient reaches that its gradient is zero."""
    if not view.accepts_none and any([grad is None for grad in grads]):
        grads = rules.with_zeros(view, grads, _zeros_like)
    return rules.input_gradients(view, grads)


def _zeros_like(output: Any) -> Any:
    zeros = rules.zeros_like(output)
    zeros._is_zeros = True
    return zeros


def _may_keep(view: OpView) -> bool:
    definition = view.definition
    rule = definition.gradient
    if rule is opdef.DERIVED or isinstance(rule, opdef.NotDifferentiable) or registry.OVERRIDE in view._attrs:
        return False
    return str(getattr(rule, "__module__", "")).startswith("anabranch.") and not registry.rule_of(view).of_user


def _small(tensor: Any) -> Any:
    """A value as part of a key; an object that equals nothing if it is not small."""
    value = None if tensor is None else tensor._peek()
    if value is None or value.size > _SMALL or value.dtype.kind == "O":
        return object()
    return value.tobytes()


def _first(
    application: Application, view: OpView, grads: list[Any], given: list[Any], wanted: tuple[bool, ...], key: Any
) -> list[Any]:
    """Run the rule, and note what it does."""
    trace = _Trace()
    read: list[Any] = []
    recording.push(trace)
    readers.append(read)
    try:
        found = _by_rule(view, grads)
    finally:
        readers[:] = [one for one in readers if one is not read]
        recording.pop(trace)
    notes = application.notes
    if notes is False or notes is None:
        return found
    maker = _Maker(given, trace, read)
    note = maker.note(found, wanted)
    if maker.asked.issubset(application.asked_by_rule):
        if len(notes) >= _MOST_FORMS:
            notes.clear()
        notes[key] = note
    elif note is not None:  # the key lacks what the rule looks at
        application.asked_by_rule = tuple(sorted({*application.asked_by_rule, *maker.asked}))
        notes.clear()
    return found


class _Maker:
    """A note in the making of the ops that a rule applied."""

    def __init__(self, given: list[Any], trace: _Trace, read: list[Any]) -> None:
        self._given = given
        self._trace = trace
        self._read = read
        self.asked: set[int] = set()
        """Registers of the op's own whose values the rule looked at."""

    def note(self, found: Sequence[Any], wanted: tuple[bool, ...]) -> _Note | None:
        """The note, or None if the rule is to be run each time."""
        given, trace = self._given, self._trace
        own = {id(tensor): i for i, tensor in enumerate(given) if tensor is not None}
        if not trace.is_whole or len(own) < sum([tensor is not None for tensor in given]):
            return None
        applied: list[Any] = []
        makers: dict[int, int] = {}
        for view in trace.views:
            if type(view) is not Ran or view.definition.effect.kind not in ("pure", "read"):
                return None
            if not view.definition.deterministic or not view._outputs:
                return None
            makers.update({id(output): len(applied) for output in view._outputs})
            applied.append(view)
        decided = self._decided_by_shapes(own, applied)
        for tensor in self._read:
            if id(tensor) in own:
                self.asked.add(own[id(tensor)])
            elif id(tensor) in makers and id(tensor) not in decided:
                return None
        if any(type(_small(given[place])) is object for place in self.asked):
            return None
        # What the wanted gradients need, from the end.
        parts = [
            None
            if gradient is None or not is_wanted
            else (gradient.values, gradient.indices, gradient.dense_shape)
            if isinstance(gradient, IndexedSlices)
            else (gradient,)
            for gradient, is_wanted in zip(found, wanted, strict=True)
        ]
        constants: dict[int, Any] = {}
        needed: set[int] = set()
        waiting = [tensor for part in parts if part is not None for tensor in part if tensor is not None]
        while waiting:
            tensor = waiting.pop()
            if id(tensor) in own:
                continue
            if type(tensor) is not EagerTensor:
                return None
            maker = makers.get(id(tensor))
            if maker is None or (id(tensor) in decided and type(_small(tensor)) is not object):
                if type(_small(tensor)) is object:
                    return None
                constants[id(tensor)] = tensor
            elif maker not in needed:
                needed.add(maker)
                waiting.extend(applied[maker]._inputs)
        places = {**own, **dict(zip(constants, itertools.count(len(given)), strict=False))}
        kinds = [getattr(tensor, "dtype", None) for tensor in (*given, *constants.values())]
        is_fixed = [True] * len(kinds)
        is_known = [place in self.asked for place in range(len(given))] + [True] * len(constants)
        steps = []
        for number in sorted(needed):
            view = applied[number]
            sources = tuple([places[id(tensor)] for tensor in view._inputs])
            short, fixed = self._form(view, [is_fixed[i] for i in sources], [is_known[i] for i in sources])
            steps.append((view.application, sources, short))
            for output in view._outputs:
                places.setdefault(id(output), len(kinds))
                kinds.append(output.dtype)
                is_fixed.append(fixed)
                is_known.append(id(output) in decided)
        results = [
            None
            if part is None
            else places[id(part[0])]
            if len(part) == 1
            else tuple([None if tensor is None else places[id(tensor)] for tensor in part])
            for part in parts
        ]
        return _Note(list(constants.values()), steps, results, kinds)

    @staticmethod
    def _decided_by_shapes(own: dict[int, int], applied: Sequence[Any]) -> set[int]:
        """What of the ops' outputs is the same for all that has these shapes; by id."""
        decided: set[int] = set()
        made: set[int] = set()
        for view in applied:
            if view.definition.effect.kind == "pure" and all(
                [
                    id(x) in decided or (view.definition.shape_only if id(x) in own else id(x) not in made)
                    for x in view._inputs
                ]
            ):
                decided.update([id(output) for output in view._outputs])
            made.update([id(output) for output in view._outputs])
        return decided

    @staticmethod
    def _form(view: Ran, is_fixed: list[bool], is_known: list[bool]) -> tuple[Any, bool]:
        """The form of an op that needs no checks, if all operands that this note meets have the shapes of these; and
        whether its outputs have, too.
        """
        application = view.application
        if not all(is_fixed) or any(x._handle is not None for x in view._inputs):
            return None, False
        context = inference.ShapeContext(view.definition, view._attrs, view._inputs, [x._shape for x in view._inputs])
        inferred = inference.infer(view.definition, context, len(view._outputs))
        fixed = all([shapes.is_static(shape) for shape in inferred])
        if not all([is_known[place] for place in application.asked]):
            return None, False
        return application.short_form(view._inputs), fixed


def follows_rules() -> bool:
    """Whether ops run at once here, so that notes apply."""
    return current_builder() is EAGER
