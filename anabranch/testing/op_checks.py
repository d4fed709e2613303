"""What is checked of each row of :mod:`anabranch.testing.op_cases`.

Forward: every instance of a row is an op of one graph, so that a row costs one compilation; each tier's outputs are
    compared with the reference and with the other tier's, dtypes and static shapes with what came out. What is compiled
    must not have been interpreted for want of a program, also where one operand is known beforehand. Static shapes
    are also inferred with unknown dimensions, unknown ranks and unknown values, and must not contradict what came out.
    Gradients: all cases in one check. Serialisation: the graph comes back from its GraphDef the same.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.contract import opdef
from anabranch.core.graph.build import build, build_operation
from anabranch.core.graph.convert import constant
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graphdef.graph_def import graph_def
from anabranch.core.graphdef.import_graph import import_graph_def
from anabranch.core.values import dtypes, shapes
from anabranch.session import Session, SessionOptions
from anabranch.testing.check_gradients import TIERS, Problem, check_problems
from anabranch.testing.op_cases import Instance, Row, instances

RTOL = {"float64": 1e-11, "float32": 5e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
"""Usual relative tolerance by dtype of a real component."""
_REAL = {"complex64": "float32", "complex128": "float64"}


@dataclasses.dataclass
class Built:
    """An instance in a graph."""

    instance: Instance
    op: Operation
    feeds: dict[Tensor, np.ndarray]
    starts: list[Operation]
    """Ops that give the variables their values before."""
    reads: list[Tensor]
    """The written variables' values, read by a step that follows."""
    continuous: list[Tensor]
    """Fed inputs that gradients are checked for."""

    @property
    def outputs(self) -> list[Tensor]:
        """Outputs that are not references."""
        return [output for output in self.op._outputs if not output.dtype.is_ref]


def _placeholder(array: np.ndarray, dtype: dtypes.DType, known: str) -> Tensor:
    raw = {"all": array.shape, "rank": (None,) * array.ndim, "nothing": None}[known]
    return build("Placeholder", dtype=dtype, shape=raw)


def build_instance(one: Instance, known: str = "all", constant_at: int | None = None) -> Built:
    """Add the instance's op to the default graph; ``known`` says what is known of its inputs: all, rank or nothing.

    Of what is fed otherwise, the array of number ``constant_at`` is a constant.
    """
    definition = one.row.definition
    feeds: dict[Tensor, np.ndarray] = {}
    starts: list[Operation] = []
    reads: list[Tensor] = []
    continuous: list[Tensor] = []
    state = definition.effect.resources if definition.effect.kind in ("read", "write") else ()

    numbers = itertools.count()

    def tensor(array: np.ndarray, dtype: dtypes.DType, static: bool, name: str) -> Tensor:
        if (static and known == "all") or next(numbers) == constant_at:
            return constant(array, dtype)
        fed = _placeholder(array, dtype, known)
        feeds[fed] = array
        looked_at = one.row.wrt is None or name in one.row.wrt
        if (dtype.is_floating or dtype.is_complex) and not static and looked_at:
            continuous.append(fed)
        return fed

    arguments: list[Any] = []
    for spec, value in zip(definition.inputs, one.inputs, strict=True):
        kinds = [kind.base for kind in spec.dtypes(one.attrs)]
        if spec.name in state:
            variable, start, read = _variable(value, spec.is_ref, known, feeds)
            arguments.append(variable)
            starts.append(start)
            if definition.effect.kind == "write":
                reads.append(read)
            continue
        static = spec.name in definition.compile_time
        if spec.is_list:
            arguments.append([tensor(item, kind, static, spec.name) for item, kind in zip(value, kinds, strict=True)])
        else:
            arguments.append(tensor(value, kinds[0], static, spec.name))
    op = build_operation(definition.type_name, arguments, dict(one.attrs), one.name.replace(" ", "_"))
    return Built(one, op, feeds, starts, reads, continuous)


def _variable(
    value: np.ndarray, is_ref: bool, known: str, feeds: dict[Tensor, np.ndarray]
) -> tuple[Tensor, Operation, Tensor]:
    dtype = dtypes.as_dtype(value.dtype)
    shape = value.shape if known == "all" else (None,) * value.ndim if known == "rank" else None
    fed = _placeholder(value, dtype, known)
    feeds[fed] = value
    if is_ref:
        ref = build("VariableV2", dtype=dtype, shape=shape)
        return ref, build("Assign", ref, fed, validate_shape=known == "all").op, build("Identity", ref)
    handle = build("VarHandleOp", dtype=dtype, shape=shape)
    return handle, build("AssignVariableOp", handle, fed), build("ReadVariableOp", handle, dtype=dtype)


# ------------------------------------------------------------------------------------------------------------- forward
def run_forward(built: Sequence[Built], graph: Graph, tier: str) -> list[list[np.ndarray]]:
    """Run all instances in one step: for each, the new values of written variables, then the outputs."""
    feeds = {fed: array for one in built for fed, array in one.feeds.items()}
    with Session(graph=graph, config=SessionOptions(tier=tier, seed=0)) as session:
        starts = [start for one in built for start in one.starts]
        if starts:
            session.run(starts, feeds)
        needed = {fed: array for one in built for fed, array in one.feeds.items() if fed.op._outputs[0]._consumers}
        fetches = [(one.outputs, one.op) for one in built]
        outputs = session.run(fetches, needed)
        explanation = session.explain(fetches, needed)
        assert "interpreted: " not in explanation, (
            f"a program could not be compiled, and its ops were interpreted:\n{explanation}"
        )
        finals = session.run([one.reads for one in built]) if starts else [[] for _ in built]
    return [
        [np.asarray(value) for value in (*final, *actual)] for final, (actual, _) in zip(finals, outputs, strict=True)
    ]


def check_known(row: Row, most: int = 3) -> list[str]:
    """Texts of what is wrong in programs that know one operand of the op, each in turn, in ``most`` of its cases."""
    problems: list[str] = []
    for one in itertools.islice(instances(row), most):
        with Graph().as_default() as graph:
            plain = build_instance(one)
        expected = run_forward([plain], graph, "compiled")
        drawn = row.definition.effect.kind == "random"
        for known in range(sum(fed in plain.op._inputs for fed in plain.feeds)):
            with Graph().as_default() as graph:
                built = build_instance(one, constant_at=known)
            values = run_forward([built], graph, "compiled")
            for position, (first, second) in enumerate(zip(expected[0], values[0], strict=True)):
                difference_text = "" if drawn else difference(first, second, 2 * row.tolerance)
                if difference_text:
                    problems.append(f"{one.name}, input {known} known: value {position} differs: {difference_text}")
    return problems


def check_forward(row: Row) -> list[str]:
    """Texts of what is wrong: tiers against the reference and against each other, dtypes, static shapes."""
    problems: list[str] = []
    with Graph().as_default() as graph:
        built = [build_instance(one) for one in instances(row)]
    actual = {tier: run_forward(built, graph, tier) for tier in TIERS}
    for index, one in enumerate(built):
        by_tier = {tier: actual[tier][index] for tier in TIERS}
        tensors = [*one.reads, *one.outputs]
        for tier, values in by_tier.items():
            for position, (tensor, value) in enumerate(zip(tensors, values, strict=True)):
                if value.dtype != tensor.dtype.base.np:
                    problems.append(
                        f"{one.instance.name}, {tier}: value {position} is {value.dtype}, not {tensor.dtype.name}"
                    )
            problems += _check_values(one, tier, tensors, values)
        for position, (first, second) in enumerate(zip(*by_tier.values(), strict=True)):
            difference_text = difference(first, second, 2 * row.tolerance)
            if difference_text:
                problems.append(f"{one.instance.name}: value {position} differs between the tiers: {difference_text}")
    return problems


def _check_values(one: Built, tier: str, tensors: list[Tensor], values: list[np.ndarray]) -> list[str]:
    row = one.instance.row
    if row.check is not None:
        try:
            row.check(values, one.instance.inputs, one.instance.attrs)
        except AssertionError as problem:
            return [f"{one.instance.name}, {tier}: {problem or 'the row refuses the outputs'}"]
        return []
    expected = one.instance.expected()
    if len(expected) != len(values):
        return [f"{one.instance.name}: the reference gives {len(expected)} values, the op {len(values)}"]
    problems = []
    for position, (wanted, value) in enumerate(zip(expected, values, strict=True)):
        difference_text = difference(wanted, value, row.tolerance)
        if difference_text:
            problems.append(
                f"{one.instance.name}, {tier}: value {position} ({tensors[position].name}): {difference_text}"
            )
    return problems


def difference(expected: np.ndarray, actual: np.ndarray, factor: float = 1.0) -> str:
    """How ``found`` differs from ``expected``, which may be wider; '' if it does not within the tolerance of its
    dtype.
    """
    if expected.shape != actual.shape:
        return f"shape {list(actual.shape)}, expected {list(expected.shape)}"
    dtype = dtypes.as_dtype(actual.dtype)
    if not (dtype.is_floating or dtype.is_complex):
        if np.array_equal(expected, actual):
            return ""
        where = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(expected != actual)))
        given, wanted = np.atleast_1d(actual)[where], np.atleast_1d(expected)[where]
        return f"{given!r} at {list(where)}, expected {wanted!r}"
    wide = np.complex128 if dtype.is_complex else np.float64
    with np.errstate(all="ignore"):
        wanted, given = expected.astype(actual.dtype).astype(wide), actual.astype(wide)
    if dtype.is_complex:
        return difference_of_floats(wanted.real, given.real, dtype, factor) or difference_of_floats(
            wanted.imag, given.imag, dtype, factor
        )
    return difference_of_floats(wanted, given, dtype, factor)


def difference_of_floats(expected: np.ndarray, actual: np.ndarray, dtype: dtypes.DType, factor: float) -> str:
    """Compare float64 arrays that hold values of ``dtype``: special values exactly, others relative to themselves and
    the largest.
    """
    finite = np.isfinite(expected)
    special = ~finite & ~((expected == actual) | (np.isnan(expected) & np.isnan(actual)))
    scale = np.max(np.abs(expected), initial=0.0, where=finite)
    rtol = RTOL[_REAL.get(dtype.name, dtype.name)] * factor
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(actual - np.where(finite, expected, 0.0)), 0.0)
    wrong = special | (finite & ~(error <= rtol * (np.abs(np.where(finite, expected, 0.0)) + 0.1 * scale)))
    if not np.any(wrong):
        return ""
    where = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
    given, wanted = np.atleast_1d(actual)[where], np.atleast_1d(expected)[where]
    return f"{given!r} at {list(where)}, expected {wanted!r} (relative tolerance {rtol:.2g}); {int(wrong.sum())} wrong"


# --------------------------------------------------------------------------------------------------------------- shapes
def check_shapes(row: Row) -> list[str]:
    """Texts of where static shapes and the shapes that come out contradict each other, or where they could be
    complete.
    """
    problems: list[str] = []
    first = [one for i, one in enumerate(instances(row)) if i == 0 or one.case is not row.cases[0]]
    with Graph().as_default() as graph:
        built = [build_instance(one) for one in first]
    shown = [
        [value.shape for value in values[len(one.reads) :]]
        for one, values in zip(built, run_forward(built, graph, "interpreted"), strict=True)
    ]
    for known in ("all", "rank", "nothing"):
        with Graph().as_default():
            again = [build_instance(one, known) for one in first]
        for one, wanted in zip(again, shown, strict=True):
            for tensor, shape in zip(one.outputs, wanted, strict=True):
                static = tensor._shape
                open_ = known == "all" and not shapes.is_static(static) and not row.open_shape
                if open_ or not _agrees(static, shape):
                    problems.append(
                        f"{one.instance.name}: with {known} known of the inputs, {tensor.name} has static shape "
                        f"{shapes.show(static)}; it came out as {list(shape)}"
                    )
    return problems


def _agrees(static: Any, shape: tuple[int, ...]) -> bool:
    return static is None or (
        len(static) == len(shape) and all(a is None or a == b for a, b in zip(static, shape, strict=True))
    )


# ------------------------------------------------------------------------------------------------------------ gradients
def check_order(row: Row, order: int) -> list[str]:
    """Texts of the cases whose gradients are wrong, up to ``order``."""
    names = gradient_dtypes(row)
    if not names or not differentiable(row):
        return []
    problems = []
    with Graph().as_default():
        for one in instances(row, names):
            if not one.case.grad or not one.flat or not all(_is_finite(array) for array in one.flat):
                continue
            built = build_instance(one)
            ys = [
                y
                for y in built.outputs
                if (y.dtype.is_floating or y.dtype.is_complex) and (row.outputs is None or y.value_index in row.outputs)
            ]
            if row.invariant is not None:
                ys = [y for y in row.invariant(*built.outputs) if y.dtype.is_floating or y.dtype.is_complex]
            if ys and built.continuous:
                xs = built.continuous
                problems.append((Problem(one.name, ys, xs, [built.feeds[x] for x in xs]), built.feeds))
    feeds = {fed: array for _, others in problems for fed, array in others.items()}
    return check_problems([problem for problem, _ in problems], order=order, feed_dict=feeds)


def _is_finite(array: np.ndarray) -> bool:
    dtype = dtypes.as_dtype(array.dtype)
    return not (dtype.is_floating or dtype.is_complex) or bool(np.all(np.isfinite(array)))


def differentiable(row: Row) -> bool:
    """Whether gradients of the row's op are checked here: it is pure and its contract does not say that there is
    none.
    """
    definition = row.definition
    gradient = definition.gradient
    return definition.effect.kind == "pure" and not isinstance(gradient, opdef.NotDifferentiable) and row.order > 0


def gradient_dtypes(row: Row) -> list[str | None]:
    """Dtypes of the gradient checks: double (or float where there is no double), and complex128."""
    if row.varied is None:
        return [None]
    real = [name for name in ("double", "float") if name in row.names][:1]
    return [*real, *(name for name in ("complex128",) if name in row.names)]


# -------------------------------------------------------------------------------------------------------- serialisation
def check_serialisation(row: Row) -> list[str]:
    """Texts of what does not come back from a GraphDef as it was."""
    with Graph().as_default() as graph:
        built = [build_instance(one) for one in instances(row)]
        before = graph_def(graph, add_shapes=True)
    with Graph().as_default() as again:
        import_graph_def(before, name="")
        after = graph_def(again, add_shapes=True)
    problems = []
    nodes = {node.name: node for node in after.node}
    for one in built:
        name = one.op.name
        old = next(node for node in before.node if node.name == name)
        if nodes.get(name) != old:
            problems.append(f"{one.instance.name}: the node was\n{old}and came back as\n{nodes.get(name)}")
        elif not _same_attrs(again.get_operation_by_name(name), one.op):
            problems.append(f"{one.instance.name}: attributes {one.op._attrs} came back otherwise")
    return problems


def _same_attrs(first: Operation, second: Operation) -> bool:
    keys = first.definition.attrs
    return all(
        opdef.attr_key(_float32(first._attrs.get(key))) == opdef.attr_key(_float32(second._attrs.get(key)))
        for key in keys
    )


def _float32(value: Any) -> Any:
    """Floats as a GraphDef holds them."""
    if isinstance(value, float):
        return float(np.float32(value))
    return tuple(_float32(item) for item in value) if isinstance(value, tuple) else value
