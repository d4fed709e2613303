"""Ops on the host: where their operands come from, their kernels, and where their results go."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.contract import faults, kernels
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey
from anabranch.core.values import sizes
from anabranch.runtime.attempt import Attempt
from anabranch.runtime.interpreter import body_calls, nested, rows_in_place
from anabranch.runtime.interpreter.python_results import same
from anabranch.runtime.interpreter.shape_refusals import MOST_ACCEPTED, refused_by_shape
from anabranch.runtime.interpreter.straight_builder import only_computes
from anabranch.runtime.plans.items import HostItem
from anabranch.runtime.state.borrowing import lent, may_borrow
from anabranch.runtime.state.slots import ResourceHandle
from anabranch.runtime.step import device_failure
from anabranch.runtime.values import to_host
from anabranch.xla import lowering, single_op

if TYPE_CHECKING:
    from anabranch.runtime.runner import Runner


def run(attempt: Attempt, item: HostItem, in_turn: bool = False) -> None:
    """Run an op of a segment; a Python function that has been called with the same inputs is not called again.

    ``in_turn`` says that the items of the segment run in their order, each once.
    """
    op, env, runner = item.op, attempt.env, attempt.runner
    attempt.step.token.at = op
    short = item.short
    if short is None:
        short = item.short = short_form(runner.plan, item) or False
    if short and runner.bodies.watcher is None and short(env):
        return
    definition = op.definition
    if definition.effect.kind == "body":
        nested.run_item(attempt, item)
        return
    if op in runner.plan.lent_reads:
        env[op._outputs[0]] = env[item.sources[0]]  # type: ignore[index]
        return
    own = rows_in_place.taken(attempt, item) if in_turn and item.writes else None
    if own and runner.bodies.watcher is None:
        update = item.row_update
        if update is None:
            update = item.row_update = _form_of_row_update(runner, item) or False
        if update and update(attempt, own):
            return
    operands = _operands(attempt, item, own or {})
    remembered = attempt.memo.get(op)
    if remembered is not None and same(remembered[0], operands):
        values = remembered[1]
    else:
        if remembered is not None:
            attempt.memo.check(op)
        counter = attempt.state.counters.get(op)
        philox = None
        if counter is not None:
            refused = refused_by_shape(runner.plan, op, operands)
            if refused is not None:
                raise refused
            philox = counter.words()
            assert definition.consumes is not None
            consumed = int(definition.consumes(lowering.TraceShapes(op, operands)))
            require_room(op, operands, consumed)
            attempt.advances.append((counter, consumed))
        overwritten = _Overwritten(own.values(), attempt.transaction.old_rows) if own else None
        values = call(runner, op, operands, attempt.step.token, philox, overwritten=overwritten)
        if definition.effect.kind == "io":
            attempt.memo[op] = (operands, values)
    writes = item.writes
    for key, value in zip(writes, values, strict=False):
        env[key] = stored(value, definition.effect.reads)
    rest = iter(values[len(writes) :])
    for output in op._outputs:
        if not (output.dtype.is_ref and writes):
            value = next(rest)
            if output not in runner.plan.fed:
                env[output] = value


def run_stateless(runner: Runner, item: HostItem, env: dict[Any, Any], token: CancellationToken) -> None:
    """Run an op that touches no state, in an environment of its own."""
    op = item.op
    token.at = op
    short = item.short
    if short is None:
        short = item.short = short_form(runner.plan, item) or False
    if short and short(env):
        return
    take = lent if may_borrow(op.definition) else to_host
    operands = [None if key is None else take(env[key]) for key in item.sources]
    env.update(zip(op._outputs, call(runner, op, operands, token), strict=True))


class _Overwritten(NamedTuple):
    """Arrays that a kernel may write rows of, and where their old rows are to be kept."""

    arrays: Collection[np.ndarray]
    old_rows: list[tuple[np.ndarray, Any, np.ndarray]]


def _operands(attempt: Attempt, item: HostItem, own: dict[int, np.ndarray]) -> list[Any]:
    env, definition = attempt.env, item.op.definition
    take = lent if may_borrow(definition) else to_host
    operands: list[Any] = []
    for position, key in enumerate(item.sources):
        if position in own:
            operands.append(own[position])
        elif definition.effect.presence and isinstance(key, StateKey):
            operands.append(np.bool_(key.index > 0 or attempt.runner.slot(key.maker).version is not None))
        else:
            # A version that is not there is one that the op allows to be absent; see plans/binding.py.
            absent = isinstance(key, StateKey) and definition.allows_uninitialized and key not in env
            operands.append(None if key is None or absent else take(env[key]))
    return operands


def short_form(plan: Any, item: HostItem) -> Callable[[dict[Any, Any]], bool] | None:
    """What runs an op that only computes, in an environment, with no more than its checks and its kernel.

    Most of what a small op costs on the host is the way to its kernel, which is the same at each run. The function says
    whether it has run the op; if anything is in its way, nothing has happened, and the long way says what it is.
    """
    op = item.op
    definition, outputs = op.definition, op._outputs
    if definition.effect.kind == "write":
        return _form_of_update(plan, item)
    if definition.effect.kind != "pure" or not only_computes(op) or item.writes or not plan.fed.isdisjoint(outputs):
        return None
    if any(key is None or key in plan.handles for key in item.sources):
        return None
    fixed = bool(outputs) and all([_is_fixed(plan, key) for key in item.sources])
    if definition.only_passes and len(item.sources) == len(outputs) == 1:
        (source,), (output,) = item.sources, outputs

        def hand_on(env: dict[Any, Any]) -> bool:
            value = env.get(source)
            if type(value) is not np.ndarray:
                return False
            env[output] = value
            return True

        return hand_on
    distinct = _form_of_distinct(plan, item)
    if distinct is not None:
        return distinct
    kernel, checks = definition.host_kernel or definition.kernel, definition.checks
    assert kernel is not None
    take = lent if may_borrow(definition) else to_host
    context, attrs, sources = kernels.HostContext(op), op._attrs, item.sources
    context.precision = plan.options.precision
    most = sizes.host_memory()
    (alone,) = outputs if len(outputs) == 1 else (None,)
    any_shape = len(sources) == 1 and (definition.elementwise or definition.role is Role.SHAPE)
    accepted: set[tuple[Any, ...]] = set()
    """Shapes of operands that the shape rule has accepted."""
    warns = not (definition.moves or definition.shape_only)

    def compute(env: dict[Any, Any]) -> bool:
        try:
            operands = [value if type(value) is np.ndarray else take(value) for value in [env[key] for key in sources]]
            if not any_shape:
                forms = tuple([value.shape for value in operands])
                if forms not in accepted:
                    if refused_by_shape(plan, op, operands) is not None:
                        return False
                    if len(accepted) >= MOST_ACCEPTED:
                        accepted.clear()
                    accepted.add(forms)
            if checks is not None:
                checks(context, operands, attrs)
            if warns:
                with np.errstate(all="ignore"):
                    results = kernel(context, operands, attrs)
            else:
                results = kernel(context, operands, attrs)
        except Exception:
            return False  # the long way meets it, too, and says what it is
        if alone is not None and type(results) is np.ndarray:
            if results.nbytes > most:
                return False
            env[alone] = results
            return True
        values = kernels.outputs_of(definition, attrs, results)
        if any(type(value) is np.ndarray and value.nbytes > most for value in values):
            return False
        env.update(zip(outputs, values, strict=True))
        return True

    return _remembering(compute, outputs) if fixed else compute


MOST_REMEMBERED = 1 << 12
"""Bytes of a result that follows from constants and is computed once."""


def _remembering(compute: Callable[[dict[Any, Any]], bool], outputs: Sequence[Tensor]) -> Callable[[Any], bool]:
    """The same for operands that are the same at each run: what it gives is kept, unless it is large."""
    kept: dict[Tensor, Any] = {}
    large = False

    def hand_out(env: dict[Any, Any]) -> bool:
        nonlocal large
        if kept:
            env.update(kept)
            return True
        if not compute(env):
            return False
        if not large:
            large = sum(getattr(env[output], "nbytes", MOST_REMEMBERED + 1) for output in outputs) > MOST_REMEMBERED
            if not large:
                kept.update((output, env[output]) for output in outputs)
        return True

    return hand_out


def _is_fixed(plan: Any, key: Any) -> bool:
    """Whether a value follows from constants alone; asked of the sources of one op after the other, in their order."""
    if not isinstance(key, Tensor) or key in plan.fed or key in plan.analysis.instead:
        return False
    fixed: bool | None = plan.fixed.get(key)
    if fixed is None:
        op = key.op
        sources = plan.sources(op) if key not in plan.constants and op.definition.effect.kind == "pure" else ()
        fixed = key in plan.constants or (
            bool(sources)
            and op.definition.deterministic
            and op.definition.makes is None
            and all(_is_fixed(plan, source) for source in sources)
        )
        plan.fixed[key] = fixed
    return fixed


def _form_of_update(plan: Any, item: HostItem) -> Callable[[dict[Any, Any]], bool] | None:
    """What runs an op that replaces variables by what it computes: an optimizer has one for each variable of a step."""
    op, writes = item.op, item.writes
    definition = op.definition
    kernel, checks = definition.host_kernel or definition.kernel, definition.checks
    if not definition.selects or kernel is None or kernels.needs_lax(definition):
        return None
    if definition.may_block or not plan.fed.isdisjoint(op._outputs):
        return None
    looks = any(item.sources[place] is not None for place in definition.resource_positions(op._attrs))
    if definition.allows_uninitialized and looks:  # at what may be absent
        return None
    if not writes or not all(output.dtype.is_ref for output in op._outputs):
        return None
    context, attrs, sources = kernels.HostContext(op), op._attrs, item.sources
    context.precision = plan.options.precision
    reads = definition.effect.reads
    most = sizes.host_memory()

    def update(env: dict[Any, Any]) -> bool:
        try:
            operands = [None if key is None else to_host(env[key]) for key in sources]
            if refused_by_shape(plan, op, operands) is not None:
                return False
            if checks is not None:
                checks(context, operands, attrs)
            with np.errstate(all="ignore"):
                values = kernels.outputs_of(definition, attrs, kernel(context, operands, attrs))
        except Exception:
            return False  # the long way meets it, too, and says what it is
        for value in values:
            if type(value) is np.ndarray and value.nbytes > most:
                return False
        for key, value in zip(writes, values, strict=False):
            env[key] = stored(value, reads)
        return True

    return update


def _form_of_row_update(runner: Runner, item: HostItem) -> Callable[[Attempt, dict[int, np.ndarray]], bool] | None:
    """What writes rows of variables where they are: sparse optimizers have one for each table of a step.

    The function takes the variables' arrays by the positions of their operands. If it gives False, all is as before.
    """
    op, writes, plan = item.op, item.writes, runner.plan
    definition = op.definition
    kernel, checks = definition.host_kernel or definition.kernel, definition.checks
    if kernel is None or kernels.needs_lax(definition) or definition.may_block or definition.allows_uninitialized:
        return None
    if not plan.fed.isdisjoint(op._outputs) or not all(output.dtype.is_ref for output in op._outputs):
        return None
    if None in item.sources or definition.effect.presence:
        return None
    take = lent if may_borrow(definition) else to_host
    places = [(place, key) for place, key in enumerate(item.sources) if key is not None]
    assert definition.predication is not None  # it may write rows where they are
    named = definition.input_range(definition.predication.indices, op._attrs).start
    distinct = lowering.writes_distinct_rows(op, plan.sources, plan.fed)
    attrs = op._attrs
    accepted: set[Any] = set()
    """Shapes of operands that the shape rule has accepted, apart from the number of rows."""

    def update(attempt: Attempt, own: dict[int, np.ndarray]) -> bool:
        old_rows = attempt.transaction.old_rows
        before = len(old_rows)
        env = attempt.env
        try:
            operands = [own[place] if place in own else take(env[key]) for place, key in places]
            count = len(operands[named]) if operands[named].ndim == 1 else -1
            forms = tuple(
                [value.shape if i in own else _apart_from(count, value.shape) for i, value in enumerate(operands)]
            )
            if forms not in accepted:
                if refused_by_shape(plan, op, operands) is not None:
                    return False
                if len(accepted) >= MOST_ACCEPTED:
                    accepted.clear()
                accepted.add(forms)
            context = _StepContext(op, runner)
            context.precision = plan.options.precision
            context.overwritten = _Overwritten(own.values(), old_rows)
            context.distinct_rows = distinct
            if checks is not None:
                checks(context, operands, attrs)
            with np.errstate(all="ignore"):
                values = kernels.outputs_of(definition, attrs, kernel(context, operands, attrs))
        except Exception:
            for array, rows, old in reversed(old_rows[before:]):
                array[rows] = old
            del old_rows[before:]
            return False  # the long way meets it, too, and says what it is
        for key, value in zip(writes, values, strict=False):
            env[key] = np.asarray(value)
        return True

    return update


def _apart_from(count: int, shape: tuple[int, ...]) -> tuple[int | None, ...]:
    """A shape with None for its first dimension if that is the number of rows."""
    return (None, *shape[1:]) if shape and shape[0] == count else shape


def stored(value: Any, reads: bool) -> np.ndarray:
    """What an op that writes leaves of a value: a copy, unless it ``reads`` the old one and made another array.

    An assignment hands on its operand, which may be the caller's own feed.
    """
    return np.asarray(value) if reads or isinstance(value, kernels.HandedOver) else np.array(value)


def _form_of_distinct(plan: Any, item: HostItem) -> Callable[[dict[Any, Any]], bool] | None:
    """What runs an op that makes distinct what is so, or adds up the one row of each such element.

    Lookups make their indices distinct, and optimizers do it once more with those of the gradient.
    """

    def holds_distinct(key: Any) -> bool:
        if not isinstance(key, Tensor) or key in plan.fed:  # a variable is no result of an op
            return False
        return lowering.holds_distinct(key) and len(key.op._inputs) == 1

    op, outputs = item.op, item.op._outputs
    if op.role is Role.DISTINCT and len(item.sources) == 1 and len(outputs) == 2 and holds_distinct(item.sources[0]):
        (source,), (elements, numbers), dtype = item.sources, outputs, outputs[1].dtype.np

        def number(env: dict[Any, Any]) -> bool:
            vector = env.get(source)
            if type(vector) is not np.ndarray or vector.ndim != 1:
                return False
            env[elements], env[numbers] = vector, np.arange(len(vector), dtype=dtype)
            return True

        return number
    if op.role is Role.ROW_SUMS and len(item.sources) == 3:
        rows, ids, count = item.sources
        maker = ids.op if isinstance(ids, Tensor) and ids not in plan.fed else None
        if maker is None or maker.role is not Role.DISTINCT or ids is not maker._outputs[1]:
            return None
        if len(maker._outputs) != 2 or len(maker._inputs) != 1 or not holds_distinct(maker._inputs[0]):
            return None

        def hand_on_rows(env: dict[Any, Any]) -> bool:
            data: Any = env.get(rows)
            places: Any = env.get(ids)
            size: Any = env.get(count)
            fits = type(data) is type(places) is np.ndarray and isinstance(size, (np.ndarray, np.generic))
            if not fits or size.ndim or not data.ndim or not len(data) == len(places) == int(size):
                return False
            env[outputs[0]] = data
            return True

        return hand_on_rows
    return None


def interpret(attempt: Attempt, ops: Iterable[Operation]) -> None:
    """Run the ops of a program one by one."""
    plan = attempt.runner.plan
    for op in ops:
        if op.role is not Role.CONSTANT and op.definition.makes is None:
            attempt.step.token.raise_if_cancelled()
            run(attempt, HostItem(op, plan.sources(op), plan.analysis.state_of(op).writes))


def call(
    runner: Runner,
    op: Operation,
    operands: list[Any],
    token: CancellationToken,
    philox: Any = None,
    pieces: list[Any] | None = None,
    overwritten: _Overwritten | None = None,
) -> list[Any]:
    """What the kernel of an op gives; an error names the op. ``pieces`` takes what the kernel notes of its work."""
    definition = op.definition
    precision = runner.plan.options.precision
    beside = token.beside if definition.effect.kind == "channel" else None
    given: list[Any] | None = None if beside is None else beside.begins(op)
    if given is not None:
        return given

    def kernel() -> list[Any]:
        if kernels.needs_lax(definition):
            return list(single_op.run_compiled(definition, operands, op._attrs, op, philox, precision))
        context = _StepContext(op, runner)
        context.cancellation = token
        context.philox = philox
        context.precision = precision
        context.pieces = pieces
        context.overwritten = overwritten
        return kernels.run_on_host(definition, operands, op._attrs, context)

    watcher = runner.bodies.watcher
    if watcher is not None:
        watcher.before(op, operands)
    values: list[Any] = framed(runner, op, operands, kernel)
    if watcher is not None:
        watcher.after(op, operands, values)
    if beside is not None:
        beside.ends(op, values)
    return values


def framed(runner: Runner, op: Operation, operands: list[Any], kernel: Callable[[], Any]) -> Any:
    """What a call of an op's kernel with these operands gives.

    The one frame around host kernels: :mod:`anabranch.core.contract.faults` says what becomes of what they raise.
    """
    refused = refused_by_shape(runner.plan, op, operands)
    if refused is not None and (op.definition.effect.kind in ("channel", "io") or _asks_for_much(op, operands)):
        raise refused
    try:
        results = kernel()
    except errors.OpError as problem:  # also of one that is refused: the kernel may say more
        if problem._op is None:
            problem._op = op
        raise
    except Exception as problem:
        known = refused or device_failure(problem, 1)
        if known is None and isinstance(problem, faults.BUGS):
            known = faults.refusal(op, lowering.TraceShapes(op, operands))
        context_of_shapes = lowering.TraceShapes(op, operands)
        raise known or faults.host_error(op, operands, problem, context_of_shapes) from problem
    if refused is not None:
        raise refused
    for value in results:
        # A view may be of any size: what reads it would take forever.
        if type(value) is np.ndarray and value.nbytes > sizes.host_memory():
            raise faults.too_large(op, [(value.shape, value.dtype)])
    return results


MANY_BLOCKS = 1 << 28
"""Blocks of random numbers whose drawing takes so long that it is asked first whether what is drawn can be held."""


def require_room(op: Operation, operands: Sequence[Any], blocks: int) -> None:
    """Raise if so many random blocks make a result that cannot be held: numbers are drawn part by part.

    Raises:
        ResourceExhaustedError: it cannot.
    """
    specs = faults.results(op, lowering.TraceShapes(op, operands)) if blocks > MANY_BLOCKS else []
    if any(sizes.byte_size(*spec) > sizes.host_memory() for spec in specs):
        raise faults.too_large(op, specs)


def _asks_for_much(op: Operation, operands: Sequence[Any]) -> bool:
    """Whether sizes among the operands are such that a kernel would compute for long before it refuses them."""
    given = zip(op.definition.inputs, operands, strict=False)
    decisive = [value for spec, value in given if spec.name in op.definition.compile_time and np.size(value) <= 16]
    integers = [value.ravel().tolist() for value in decisive if type(value) is np.ndarray and value.dtype.kind in "iu"]
    return any(math.prod(max(size, 0) for size in sizes_given) > MANY_BLOCKS for sizes_given in integers)


class _StepContext(kernels.HostContext):
    """Host context of a step: resolves handles in its resource manager."""

    overwritten: _Overwritten | None = None

    def __init__(self, op: Operation, runner: Runner):
        super().__init__(op, runner.resource)
        self._manager = runner.manager
        self._runner = runner

    def written(self, array: Any, rows: Any, old: Any = None) -> np.ndarray:
        if self.overwritten is None or not any([array is own for own in self.overwritten.arrays]):
            return super().written(array, rows)
        if old is None:  # to index with an array takes much longer
            old = array.take(rows, axis=0) if isinstance(rows, np.ndarray) else array[rows]
        self.overwritten.old_rows.append((array, rows, old))
        return array

    def handle(self, kind: str, container: str, name: str, device: str) -> ResourceHandle:
        return ResourceHandle(kind, container, name, device)

    @property
    def functions(self) -> kernels.Functions:
        runner = self._runner
        return body_calls.BodyCalls(type(runner), runner.bodies.lasting, runner.manager.shared)

    def shared(self, kind: str, create: Callable[[], Any], name: str | None = None) -> Any:
        attrs = self.op._attrs
        name = name or attrs.get("shared_name", "") or self.op.name
        return self._manager.object(ResourceHandle(kind, attrs.get("container", ""), name), create)

    def release(self, handle: Any, ignore_missing: bool) -> None:
        if not self._manager.remove(handle) and not ignore_missing:
            raise errors.NotFoundError(
                None, self.op, f"Resource {handle.container}/{handle.name}/{handle.kind} does not exist."
            )
