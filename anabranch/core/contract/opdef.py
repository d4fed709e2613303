"""The op contract: everything the system knows about one type of operation stands in one block.

An op is a class that derives from :class:`Op`; the class statement checks the block, builds an :class:`OpDefinition`
and registers it. Alike ops are made from short tables with :func:`define`, which is what the class statement calls.
A block that lacks a part, or whose parts contradict each other, is refused when it is defined, since a hole found in
the middle of a step is worth nothing to the user. Nothing about an op is written anywhere else: gradients, placement,
lowering, transactions, folding and serialisation all read these fields.

    class MatMul(Op):
        '''Matrix product of ``[n, k]`` and ``[k, m]``.'''
        signature = "a: T, b: T -> product: T"
        attrs = {"transpose_a": Bool(False), "transpose_b": Bool(False), "T": Type("half float double int32")}
        effect = PURE
        def shape(c): ...            # c: ShapeContext; a raw shape, or a list with one per output
        def kernel(ctx, inputs, attrs): ...   # both tiers: ctx.xp is NumPy on the host and jax.numpy under XLA
        def gradient(op, grad): ...  # builds graph ops; or DERIVED, or NotDifferentiable("why")

Functions of a block take no ``self``: they are stored as they stand. ``docs/notes/0002-op-contract.md`` explains each
field and shows how a user adds an op.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from anabranch.core import errors
from anabranch.core.contract.attrs import (
    REQUIRED,
    ArgSpec,
    Attr,
    Bool,
    Float,
    Func,
    Int,
    List,
    Shape,
    String,
    TensorAttr,
    Type,
    attr_key,
    parse_args,
)
from anabranch.core.contract.meetings import Meeting
from anabranch.core.contract.roles import BODIES, SYMBOLS, Cost, Role
from anabranch.core.values import dtypes

__all__ = [
    "BODY", "DERIVED", "IO", "PURE", "PURE_BODY", "RANDOM", "REQUIRED", "SELECT", "ArgSpec", "AtLeast", "Attr", "Bool",
    "Cost",
    "Effect", "Float", "Func", "Int", "List", "NotDifferentiable", "Op", "OpDefinition", "Predication", "Role",
    "Shape", "String", "TensorAttr", "Type", "all_definitions", "attr_key", "channel", "define", "find", "lookup",
    "pass_gradient", "read", "rows", "set_family_loader", "write",
]  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- effects
@dataclasses.dataclass(frozen=True)
class Effect:
    """What running an op does besides computing its outputs, and to which operands' resources.

    ``kind`` is one of ``pure``, ``read``, ``write``, ``random``, ``channel``, ``io`` and ``body`` (a call or a control
    flow op, which has the effects of the bodies it holds). ``resources`` names the operands that
    hold the resource. ``reads`` (writes only): whether the kernel needs the old value. ``presence`` (reads only): the
    kernel is given whether the variable is initialised instead of its value. ``stateless`` (bodies only): they have
    no effect. ``of`` (reads and writes): what must make the resource, as ``makes`` of its maker says.
    """

    kind: str
    resources: tuple[str, ...] = ()
    reads: bool = True
    presence: bool = False
    stateless: bool = False
    of: str = ""

    @property
    def is_stateful(self) -> bool:
        return self.kind != "pure" and not self.stateless


PURE = Effect("pure")
RANDOM = Effect("random")
IO = Effect("io")
BODY = Effect("body")
PURE_BODY = Effect("body", stateless=True)


def read(*operands: str, presence: bool = False, of: str = "variable") -> Effect:
    """Effect of an op that reads the state behind ``operands``."""
    return Effect("read", operands, presence=presence, of=of)


def write(*operands: str, reads: bool = True, of: str = "variable") -> Effect:
    """Effect of an op that writes the state behind ``operands``; ``reads=False`` if it never looks at the old value."""
    return Effect("write", operands, reads=reads, of=of)


def channel(*operands: str) -> Effect:
    """Effect of an op on something that is not transactional (queue, reader, file, print): it ends a segment."""
    return Effect("channel", operands)


# -------------------------------------------------------------------------------------------------------- predication
@dataclasses.dataclass(frozen=True)
class Predication:
    """How a write is held back when a check of its step fails.

    ``select``: the new value replaces the old one under a condition (fuses into an element-wise update).
    ``rows``: only rows named by the operand ``indices`` change; a failed check turns them into out-of-range indices,
    which the kernel must drop (``.at[indices].op(..., mode="drop")``): the cost follows the rows, not the table.
    ``coordinates``: the last dimension of the indices holds the coordinates of a slice instead of being rows.
    ``by_element`` (select only): an element of the new values is computed from those at its place of the old values and
    of the operands of their shape, and from scalars; so variables may be updated laid end to end.
    """

    kind: str
    indices: str = ""
    coordinates: bool = False
    by_element: bool = False


SELECT = Predication("select")
SELECT_BY_ELEMENT = Predication("select", by_element=True)


def rows(indices: str = "indices", coordinates: bool = False) -> Predication:
    """Predication of a write that touches only the rows of dimension 0 named by the operand ``indices``.

    With ``coordinates`` its last dimension holds the coordinates of a slice.
    """
    return Predication("rows", indices, coordinates)


# -------------------------------------------------------------------------------------------------------------- ranks
@dataclasses.dataclass(frozen=True)
class AtLeast:
    """The least rank of an operand that may have more."""

    rank: int


# ---------------------------------------------------------------------------------------------------------- gradients
@dataclasses.dataclass(frozen=True)
class NotDifferentiable:
    """No gradient flows through the op; ``reason`` says why and appears in errors and the op's page."""

    reason: str


DERIVED: Any = type(
    "Derived",
    (),
    {
        "__repr__": lambda self: "DERIVED",
        "__doc__": "The gradient is the vector-Jacobian product of the op's own kernel.",
    },
)()


def pass_gradient(op: Any, *grads: Any) -> list[Any]:
    """Rule of an op that passes its operand on: the gradients pass, too."""
    return list(grads)


# -------------------------------------------------------------------------------------------------------- definitions
@dataclasses.dataclass(frozen=True, eq=False)
class OpDefinition:
    """The checked contract of one op type. Fields are documented in ``docs/notes/0002-op-contract.md``."""

    type_name: str
    doc: str
    inputs: tuple[ArgSpec, ...]
    outputs: tuple[ArgSpec, ...]
    attrs: dict[str, Attr]
    effect: Effect
    shape: Callable[..., Any]
    gradient: Any
    ranks: dict[str, int | AtLeast] = dataclasses.field(default_factory=dict)
    kernel: Callable[..., Any] | None = None
    host_kernel: Callable[..., Any] | None = None
    checks: Callable[..., Any] | None = None
    total: Callable[..., bool] | None = None
    value: Callable[..., Any] | None = None
    compile_time: tuple[str, ...] = ()
    traced: Callable[..., tuple[str, ...]] | None = None
    shape_only: bool = False
    stricter_when_run: bool = False
    bound: Callable[..., Any] | None = None
    predication: Predication | None = None
    consumes: Callable[..., int] | None = None
    makes: str | None = None
    create: Callable[..., Any] | None = None
    private: bool = False
    may_block: bool = False
    passable: bool = False
    allows_uninitialized: bool = False
    deterministic: bool = True
    aggregate: bool = False
    commutative: bool = False
    flops: Callable[..., float] | None = None
    passes: str | None = None
    elementwise: bool = False
    moves: bool = False
    symbol: str | None = None
    factors: Callable[..., Any] | None = None
    cost: Cost = Cost.ELEMENTS
    straight: Callable[..., Any] | None = None
    any_size: Callable[..., Any] | None = None
    of_sizes: Callable[..., Any] | None = None
    by_rows: Callable[..., Any] | None = None
    together: Callable[..., Any] | None = None
    role: Role | None = None
    meets: Callable[..., Meeting] | None = None
    version: int = 1
    # Where it is defined, noted by `define`: the module, the line of the class statement or of the table's row, and the
    # class (None for a row).
    module: str = ""
    line: int = 0
    block: type | None = None
    only_passes: bool = dataclasses.field(init=False, default=False)
    passes_gradient: bool = dataclasses.field(init=False, default=False)

    # -- derived once, for the hot path of building -----------------------------------------------------------------
    def __post_init__(self) -> None:
        fixed = not any(spec.is_list for spec in self.inputs)
        put = object.__setattr__
        put(self, "fixed_inputs", fixed)
        put(self, "fixed_outputs", not any(spec.is_list for spec in self.outputs))
        put(self, "positions", {spec.name: i for i, spec in enumerate(self.inputs)} if fixed else None)
        put(
            self,
            "has_host_only_arg",
            any(spec.dtype is not None and spec.dtype.host_only for spec in self.inputs + self.outputs),
        )
        inferred = {spec.type_attr for spec in self.inputs} | {spec.number_attr for spec in self.inputs}
        inferred |= {spec.type_list_attr for spec in self.inputs}
        put(self, "inferred_attrs", frozenset(name for name in inferred if name))
        only = self.passes is not None and self.effect.kind == "pure" and self.checks is None
        put(self, "only_passes", only and self.role in (None, Role.COPY))
        put(self, "passes_gradient", self.only_passes and self.gradient is pass_gradient)

    def __repr__(self) -> str:
        return f"OpDefinition({self.type_name})"

    def __reduce__(self) -> Any:
        return lookup, (self.type_name,)

    @property
    def is_stateful(self) -> bool:
        """Whether running it has an effect, or its outputs are not a function of its inputs and attributes."""
        return self.effect.is_stateful or self.makes is not None

    @property
    def selects(self) -> bool:
        """Whether a write of it is held back by a select between the new value and the old one."""
        return self.predication is not None and self.predication.kind == "select"

    @property
    def host_only(self) -> bool:
        """Whether it never runs under XLA, whatever its dtypes."""
        return self.kernel is None

    @property
    def data_dependent_shape(self) -> bool:
        """Whether the shape of an output depends on the data of an input that is not known at compile time."""
        return self.bound is not None

    def passed_position(self, output: int, attrs: dict[str, Any]) -> int:
        """The flat position of the input that output number ``output`` is; the op must pass an operand."""
        assert self.passes is not None
        bounds = self.input_range(self.passes, attrs)
        return bounds.start + output if bounds.stop - bounds.start > 1 else bounds.start

    def input_range(self, name: str, attrs: dict[str, Any]) -> slice:
        """Positions in the flat input list that the argument ``name`` stands for."""
        if self.positions is not None:  # type: ignore[attr-defined]
            start = self.positions[name]  # type: ignore[attr-defined]
            return slice(start, start + 1)
        start = 0
        for spec in self.inputs:
            count = spec.count(attrs)
            if spec.name == name:
                return slice(start, start + count)
            start += count
        raise KeyError(f"op {self.type_name!r} has no input {name!r}; it has {[spec.name for spec in self.inputs]}")

    def output_dtypes(self, attrs: dict[str, Any]) -> list[dtypes.DType]:
        """Dtype of each output, in order."""
        dtypes_out: list[dtypes.DType] = []
        for spec in self.outputs:
            dtypes_out += spec.dtypes(attrs)
        return dtypes_out

    def input_dtypes(self, attrs: dict[str, Any]) -> list[dtypes.DType]:
        """Dtype of each input, in order."""
        dtypes_in: list[dtypes.DType] = []
        for spec in self.inputs:
            dtypes_in += spec.dtypes(attrs)
        return dtypes_in

    def resource_positions(self, attrs: dict[str, Any]) -> tuple[int, ...]:
        """Flat positions of the inputs whose state the effect is on."""
        return tuple(self.input_range(name, attrs).start for name in self.effect.resources)

    def by_value(self, given: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
        """Of what is given for each flat input, that for inputs taken by value: neither references nor handles."""
        specs = [spec for spec in self.inputs if not spec.is_ref and spec.dtype is not dtypes.resource]
        return [one for spec in specs for one in given[self.input_range(spec.name, attrs)]]


_registry: dict[str, OpDefinition] = {}
_load_families: list[Callable[[], None]] = []  # filled by the package's start-up; see hooks.py


def set_family_loader(load: Callable[[], None]) -> None:
    """Register the function that imports all op families, called when an unknown type is looked up."""
    _load_families[:] = [load]


def lookup(type_name: str) -> OpDefinition:
    """The definition of ``type_name``; NotImplementedError in three parts when there is none."""
    definition = find(type_name)
    if definition is None:
        near = difflib.get_close_matches(type_name, _registry, 3)
        raise NotImplementedError(
            errors.message(
                f"op type {type_name!r}",
                f"one of the {len(_registry)} op types defined" + (f" (near: {', '.join(near)})" if near else ""),
                "define it with `class "
                + (type_name if type_name.isidentifier() else "MyOp")
                + "(anabranch.Op): ...`, or replace it in the graph",
            )
        )
    return definition


def find(type_name: str) -> OpDefinition | None:
    """The definition of ``type_name`` or None."""
    definition = _registry.get(type_name)
    if definition is None:
        for load in _load_families:
            load()
        definition = _registry.get(type_name)
    return definition


def all_definitions() -> dict[str, OpDefinition]:
    """All definitions by type name (families are loaded first)."""
    for load in _load_families:
        load()
    return dict(_registry)


def _refuse(type_name: str, given: str, expected: str, instead: str) -> None:
    raise TypeError(errors.message(f"op {type_name!r}: {given}", expected, instead))


_FIELDS = {field.name for field in dataclasses.fields(OpDefinition) if field.init} - {
    "type_name",
    "doc",
    "inputs",
    "outputs",
    "module",
    "line",
    "block",
}


def calling_statement() -> tuple[str, int]:
    """Module and line of the statement that called into :mod:`anabranch.core.contract`.

    A row of a table often goes through a helper of its family. The row is what a reader looks for, so frames of the
    same package are followed outwards to the one that runs a module's body; without such a frame (a definition inside
    a function) the innermost one stands.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_CONTRACT):
        frame = frame.f_back
    if frame is None:
        return "", 0
    innermost = outer = frame
    package = innermost.f_globals.get("__name__", "").partition(".")[0]
    while outer.f_code.co_name != "<module>":
        if outer.f_back is None or outer.f_back.f_globals.get("__name__", "").partition(".")[0] != package:
            outer = innermost
            break
        outer = outer.f_back
    return outer.f_globals.get("__name__", ""), outer.f_lineno


_CONTRACT = __name__.rpartition(".")[0] + "."


def define(type_name: str, doc: str | None, *, signature: str, **fields: Any) -> OpDefinition:
    """Check a contract and register it; the table form of the class statement.

    Raises:
        TypeError: a part is missing or contradicts another; the message says which and what to write.
    """
    attrs: dict[str, Attr] = dict(fields.pop("attrs", {}))
    unknown = set(fields) - _FIELDS
    if unknown:
        _refuse(type_name, f"unknown field(s) {sorted(unknown)}", f"fields among {sorted(_FIELDS)}", "rename it")
    if not doc or not doc.strip():
        _refuse(type_name, "no docstring", "a docstring with shapes", "write one line that says what it computes")
    left, arrow, right = signature.partition("->")
    if not arrow:
        _refuse(
            type_name, f"signature {signature!r}", "'inputs -> outputs'", "add '->' (with nothing after it if none)"
        )
    type_attrs = {name: attr for name, attr in attrs.items() if attr.kind == "type"}
    inputs = parse_args(left, type_attrs, type_name)
    outputs = parse_args(right, type_attrs, type_name)
    for spec in inputs + outputs:
        for name in (spec.number_attr, spec.type_list_attr):
            if name is not None and name not in attrs:
                _refuse(
                    type_name, f"argument {spec.name!r} uses attribute {name!r}", "an entry in attrs", f"add {name!r}"
                )
    for part in ("effect", "shape", "gradient"):
        if fields.get(part) is None:
            _refuse(
                type_name,
                f"no {part}",
                f"a {part}",
                {
                    "effect": "write effect = PURE, read(...), write(...), RANDOM, channel(...) or IO",
                    "shape": "write def shape(c): ... (raw shape, or a list of them)",
                    "gradient": "write def gradient(op, *grads): ..., DERIVED, or NotDifferentiable('why')",
                }[part],
            )
    effect: Effect = fields["effect"]
    names = {spec.name for spec in inputs}
    for operand in effect.resources:
        if operand not in names:
            _refuse(
                type_name,
                f"effect on {operand!r}",
                f"an input among {sorted(names)}",
                "name the input that holds the resource",
            )
    if (
        effect.kind != "body"
        and not fields.get("makes")
        and fields.get("kernel") is None
        and fields.get("host_kernel") is None
    ):
        _refuse(type_name, "no kernel", "kernel or host_kernel", "write def kernel(ctx, inputs, attrs): ...")
    if effect.kind == "write":
        if not effect.resources:
            _refuse(type_name, "a write without resource", "the operands it writes", "effect = write('ref')")
        if fields.get("predication") is None:
            _refuse(
                type_name,
                "a write without predication",
                "SELECT or rows('indices')",
                "say how a failed check holds it back",
            )
    elif fields.get("predication") is not None:
        _refuse(type_name, f"predication on a {effect.kind} op", "none", "remove it")
    predication = fields.get("predication")
    if predication is not None and predication.kind == "rows" and predication.indices not in names:
        _refuse(
            type_name, f"rows({predication.indices!r})", f"an input among {sorted(names)}", "name the index operand"
        )
    if effect.kind in ("read", "write") and not effect.resources:
        _refuse(type_name, f"a {effect.kind} without resource", "the operands", "effect = read('resource')")
    if (effect.kind == "random") != (fields.get("consumes") is not None):
        _refuse(
            type_name,
            f"effect {effect.kind} with consumes={fields.get('consumes')}",
            "consumes(c) on random ops and only there",
            "write def consumes(c): ... (128-bit blocks that one execution reserves)",
        )
    if fields.get("total") is not None and (effect.kind != "pure" or fields.get("kernel") is not None):
        _refuse(type_name, "total on an op that is not a pure op of the host", "host_kernel and PURE", "remove it")
    if fields.get("may_block") and effect.kind not in ("channel", "io"):
        _refuse(type_name, "may_block on a non-channel op", "effect = channel(...) or IO", "change the effect")
    if effect.kind == "channel" and fields.get("kernel") is not None:
        _refuse(type_name, "a compiled kernel on a channel op", "host_kernel only", "rename kernel to host_kernel")
    if fields.get("meets") is not None and effect.kind != "channel":
        _refuse(type_name, f"meets on a {effect.kind} op", "a channel op", "change the effect, or remove meets")
    if fields.get("makes") and fields["makes"] != "variable" and fields.get("create") is None:
        _refuse(
            type_name,
            f"makes={fields['makes']!r} without create",
            "create(attrs, name)",
            "write def create(attrs, name): ... that builds the object",
        )
    gradient = fields["gradient"]
    if not (callable(gradient) or gradient is DERIVED or isinstance(gradient, NotDifferentiable)):
        _refuse(type_name, f"gradient {gradient!r}", "a rule, DERIVED or NotDifferentiable", "write one of them")
    if gradient is DERIVED and effect.kind != "pure":
        _refuse(type_name, f"a derived gradient of a {effect.kind} op", "a pure op", "write the rule by hand")
    if gradient is DERIVED and fields.get("kernel") is None:
        _refuse(type_name, "a derived gradient of a host-only op", "a kernel", "write the rule by hand")
    for name in fields.get("ranks", ()):
        if name not in names:
            _refuse(type_name, f"the rank of {name!r}", f"inputs among {sorted(names)}", "name an input")
    compile_time = tuple(fields.get("compile_time", ()))
    for name in compile_time:
        if name not in names:
            _refuse(type_name, f"compile_time {name!r}", f"inputs among {sorted(names)}", "name an input")
    fields["compile_time"] = compile_time
    if fields.get("traced") is not None and not compile_time:
        _refuse(type_name, "traced(c) without compile_time", "compile_time inputs to do without", "remove it")
    fields.update(_claims(type_name, inputs, outputs, fields))
    if type_name in _registry:
        _refuse(type_name, "defined twice", "one definition", "remove one of them or choose another type name")
    module, line = calling_statement()
    definition = OpDefinition(
        type_name, doc.strip() if doc else "", inputs, outputs, attrs, module=module, line=line, **fields
    )
    _registry[type_name] = definition
    return definition


_ROLES_OF_LISTS = frozenset(role for role in Role if role.name.startswith(("LIST_", "OPTIONAL_")))


def _claims(
    type_name: str, inputs: tuple[ArgSpec, ...], outputs: tuple[ArgSpec, ...], fields: dict[str, Any]
) -> dict[str, Any]:
    """The fields about what the system may know of an op, derived from others where the block does not give them."""
    effect: Effect = fields["effect"]
    role: Role | None = fields.get("role")
    passes: str | None = fields.get("passes")
    if passes is not None:
        operand = next((spec for spec in inputs if spec.name == passes), None)
        if operand is None or passes in (effect.resources if effect.kind == "write" else ()):
            _refuse(
                type_name,
                f"passes {passes!r}",
                f"an input among {[spec.name for spec in inputs]} that is not what it writes to",
                "name the input that the op hands on",
            )
        elif effect.kind not in ("read", "write") and any(not _same_type(operand, spec) for spec in outputs):
            _refuse(
                type_name,
                f"passes {passes!r} with outputs of other types",
                "outputs of the type of the input that it hands on",
                "remove passes, or give both one type attribute",
            )
    of_values = effect.kind == "pure" and not any(spec.is_ref for spec in outputs)
    hands_on = passes is not None and of_values and role in (None, Role.COPY)
    moves = fields.get("moves", hands_on)
    elementwise = fields.get("elementwise")
    if elementwise is None:
        by_rule = getattr(fields["shape"], "by_element", False) and role is not Role.FLOW and not moves
        elementwise = of_values and (hands_on or by_rule)
    if (moves or elementwise) and effect.kind != "pure":
        _refuse(type_name, f"moves or elementwise on a {effect.kind} op", "a pure op", "remove the field")
    if moves and fields.get("flops") is not None:
        _refuse(type_name, "moves and flops", "one of them: what moves does no arithmetic", "remove one of them")
    predication = fields.get("predication")
    by_index = predication is not None and predication.kind == "rows"
    cost = fields.get("cost", Cost.INDEXED if by_index else Cost.ELEMENTS)
    if elementwise and cost is not Cost.ELEMENTS:
        _refuse(type_name, f"elementwise and {cost}", "an element-wise op of cost ELEMENTS", "remove one of them")
    if fields.get("straight") is not None and effect.kind not in ("pure", "random"):
        _refuse(type_name, f"straight code of a {effect.kind} op", "an op that computes or draws", "remove the field")
    if fields.get("any_size") is not None and effect.kind != "pure":
        _refuse(type_name, f"a form for any size of a {effect.kind} op", "a pure op", "remove the field")
    if fields.get("of_sizes") is not None and effect.kind != "pure":
        _refuse(type_name, f"a form for sizes of a {effect.kind} op", "a pure op", "remove the field")
    if fields.get("by_rows") is not None and (effect.kind != "pure" or elementwise):
        _refuse(
            type_name,
            f"by_rows on {'an elementwise' if elementwise else f'a {effect.kind}'} op",
            "a pure op that does not work by element",
            "remove the field",
        )
    if fields.get("together") is not None and effect.kind != "random":
        _refuse(type_name, f"a form for draws together of a {effect.kind} op", "an op that draws", "remove the field")
    symbol = fields.get("symbol")
    if symbol is not None and symbol not in SYMBOLS:
        _refuse(type_name, f"symbol {symbol!r}", f"a symbol among {sorted(SYMBOLS)}", "remove it")
    if symbol is not None and not elementwise:
        _refuse(type_name, f"symbol {symbol!r} on an op that is not elementwise", "an elementwise op", "remove it")
    if symbol not in (None, "+", "and") and fields.get("commutative"):
        _refuse(
            type_name, f"symbol {symbol!r} on a commutative op", "operands that change places", "remove one of them"
        )
    if role in BODIES and (effect.kind != "body" or not inputs or inputs[-1].type_list_attr is None):
        _refuse(
            type_name,
            f"role {role} with effect {effect.kind} and {len(inputs)} inputs",
            "effect = BODY, and the bodies' arguments as the last input, a list",
            "write signature = 'input: [Tin] -> output: [Tout]', or remove the role",
        )
    variant = any(spec.dtype is dtypes.variant for spec in inputs + outputs)
    if role in _ROLES_OF_LISTS and not variant:
        _refuse(type_name, f"role {role} without a variant", "a variant among inputs or outputs", "remove the role")
    return {"moves": moves, "elementwise": elementwise, "cost": cost}


def _same_type(first: ArgSpec, second: ArgSpec) -> bool:
    """Whether an output can be an operand handed on; a handle may change its form, from resource to reference."""
    if first.dtype is dtypes.resource and second.dtype is not None and second.is_ref:
        return second.dtype.base is dtypes.string
    return (first.dtype, first.type_attr, first.type_list_attr) == (
        second.dtype,
        second.type_attr,
        second.type_list_attr,
    )


class Op:
    """Base of op blocks: ``class MyOp(Op)`` checks and registers the block; see the module's docstring."""

    definition: ClassVar[OpDefinition]

    def __init_subclass__(cls) -> None:
        body = {name: value for name, value in vars(cls).items() if not name.startswith("__")}
        for name, value in body.items():
            if isinstance(value, types.FunctionType):
                setattr(cls, name, staticmethod(value))
        type_name = body.pop("type_name", cls.__name__)
        if "signature" not in body:
            _refuse(type_name, "no signature", "a signature", "write signature = 'x: T -> y: T'")
        for name, value in list(body.items()):
            if name.startswith("_"):
                del body[name]
            elif isinstance(value, staticmethod):
                body[name] = value.__func__
        cls.definition = define(type_name, cls.__doc__, **body)
        object.__setattr__(cls.definition, "block", cls)
