"""Calls, conditionals and loops inside a program: traced into XLA's own, with state, random streams and checks.

A body is traced once into a jaxpr (:class:`_Staged`), whatever calls it. Besides the values of its graph it takes the
versions of variables that it begins with and how far its random streams have come, and returns those that it leaves
and which of its checks failed first. A conditional whose predicate is known is its branch. A loop ends when a check in
it fails; its checks are one check of the program, with the order of the program. Only what somebody uses is computed:
outputs of a conditional and variables of a loop that nobody reads cost nothing.

Lists that grow in a loop are arrays of a fixed capacity there, which follows from how often the loop can run:
:mod:`anabranch.xla.loops.trip_counts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.contract.roles import Role
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of, chosen_by_number, passes_through
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey
from anabranch.core.values import dtypes
from anabranch.core.values.list_values import TracedList
from anabranch.xla import (
    capacities,
    engine,
    kernel_context,
    lists,
    padded_arrays,
)
from anabranch.xla.lists import TracedOptional
from anabranch.xla.loops import deferred_products, loop_limits, trip_counts
from anabranch.xla.lowering import (
    BoundNeeded,
    CutNeeded,
    HostNeeded,
    Scope,
    Streams,
    Wiring,
    checked_loops,
    lowerings,
)

OPTIONALS = frozenset((Role.OPTIONAL_NONE, Role.OPTIONAL_WRAP, Role.OPTIONAL_UNWRAP, Role.OPTIONAL_TEST))
"""Roles of the ops without bodies that are traced here."""


# --------------------------------------------------------------------------------------------------------- bodies
class _Result(NamedTuple):
    """What a body leaves, in values of one trace."""

    outputs: list[Any]
    finals: dict[Operation, Any]
    taken: dict[Operation, Any]


class _Staged:
    """A body traced on its own. ``call`` runs it inside any later trace.

    ``known`` outputs are NumPy arrays; the others come out of the jaxpr.
    """

    def __init__(
        self,
        scope: Scope,
        op: Operation,
        body: Body,
        outputs: Sequence[Tensor],
        args: Sequence[Any],
        entry: dict[Operation, Any],
        taken: dict[Operation, Any],
        index_offset: int,
    ) -> None:
        """``args``: a value per argument (None: a handle, or nothing); arrays and lists become inputs."""
        jax = engine.jax()
        assert scope.view is not None
        self.view = scope.view(body, tuple(outputs))
        self.random_ops = [inner for inner in scope.streams.ops if inner in taken]
        self.records: tuple[kernel_context.CheckRecord, ...] = ()
        self.upper: dict[int, int] = {}
        dynamic, rebuild = lists.split([args, [entry[maker] for maker in entry], [taken[op] for op in self.random_ops]])

        def function(shared: tuple[Any, ...], *values: Any) -> Any:
            given_args, given_entry, given_taken = rebuild(values)
            checks: list[kernel_context.Check] = []
            context = kernel_context.TraceContext(
                checks, scope.context.platform, scope.context.precision, scope.context.recorder
            )
            context.places = scope.context.places
            words, *limit = shared
            counts = dict(zip(self.random_ops, given_taken, strict=True))
            streams = Streams(scope.streams.ops, words, counts, *limit)
            env: dict[Any, Any] = {
                arg: value for arg, value in zip(body.args, given_args, strict=True) if value is not None
            }
            env.update((StateKey(maker, 0, 0), value) for maker, value in zip(entry, given_entry, strict=True))
            inner = Scope(
                Wiring(self.view.sources, self.view.writes),
                env,
                context,
                streams,
                view=scope.view,
                used=self.view.used,
                rank_of=self.view.analysis.position,
            )
            inner.room = scope.room
            inner.limits = scope.limits
            inner.in_loop = scope.in_loop or op.role is Role.LOOP
            inner.can_ask = lambda tensor: (
                (outer := _from_outside(op, body, index_offset, tensor)) is not None and scope.can_ask(outer)
            )
            for arg, tensor in zip(body.args, op._inputs[index_offset:], strict=False):
                bound = trip_counts.upper(scope, tensor)
                if bound is not None and (
                    op.role is not Role.LOOP or passes_through(op._attrs["body"], arg.op._attrs["index"])
                ):
                    inner.upper[arg] = bound
                partial = scope.partial.get(tensor)
                if partial is not None and op.role is not Role.LOOP:
                    inner.partial[arg] = partial
            for member in self.view.ops:
                inner.everything(member, None)
            results = [env[key] for key in self.view.keys]
            for i, key in enumerate(self.view.keys):
                if key in inner.upper:
                    self.upper[i] = inner.upper[key]
            finals = {maker: env[key] for maker, key in self.view.final.items()}
            checks.sort(key=lambda check: check.rank)
            self.records = tuple(kernel_context.record_checks(checks))
            flags = kernel_context.pack_checks(checks) if checks else None
            left = [jax.numpy.asarray(streams.taken.get(item, 0), jax.numpy.int64) for item in self.random_ops]
            leaves, self.rebuild = lists.split([results, list(finals.values()), left])
            self.finals = tuple(finals)
            return leaves, flags

        closed, shape = jax.make_jaxpr(function, return_shape=True)(scope.streams.shared, *dynamic)
        self.closed = closed
        self.leaf_shapes, self.leaf_flags = shape
        self._out_tree = jax.tree_util.tree_structure(shape)

    @property
    def payload_size(self) -> int:
        """How many words the payloads of its checks take."""
        return 0 if self.leaf_flags is None else int(self.leaf_flags[1].shape[0])

    def call(
        self, shared: tuple[Any, ...], args: Sequence[Any], entry: Sequence[Any], taken: Sequence[Any]
    ) -> tuple[_Result, Any]:
        """Run it on values of the same structure; returns what it leaves, and flags or None."""
        jax = engine.jax()
        dynamic, _ = lists.split([args, list(entry), list(taken)])
        flat = engine.jaxpr_as_function(self.closed)(*shared, *dynamic)
        leaves, flags = jax.tree_util.tree_unflatten(self._out_tree, flat)
        return self._result(leaves), flags

    def shapes(self) -> _Result:
        """What it leaves, as shapes and dtypes (known outputs as they are)."""
        return self._result(self.leaf_shapes)

    def _result(self, leaves: Sequence[Any]) -> _Result:
        outputs, finals, taken = self.rebuild(leaves)
        return _Result(
            outputs, dict(zip(self.finals, finals, strict=True)), dict(zip(self.random_ops, taken, strict=True))
        )


def _staged(scope: Scope, op: Operation, body: Body, first: int, outputs: Sequence[Tensor], args: Sequence[Any],
            entry: dict[Operation, Any], taken: dict[Operation, Any]) -> _Staged:  # fmt: skip
    """Stages a body; what its ops need from outside becomes a need of ``op``."""
    try:
        return _Staged(scope, op, body, outputs, args, entry, taken, first)
    except CutNeeded as cut:
        raise _outer_cut(scope, op, body, first, cut) from None
    except BoundNeeded as need:
        outer = _from_outside(op, body, first, need.tensor)
        if outer is None:
            raise HostNeeded(op, "an inner loop without a bound") from None
        raise BoundNeeded(outer) from None
    except HostNeeded as need:
        raise HostNeeded(op, str(need)) from None


def _from_outside(op: Operation, body: Body, first: int, tensor: Tensor) -> Tensor | None:
    """What a tensor of ``body`` is outside of ``op``; None if it is computed inside, or changes there."""
    if tensor.op.role is not Role.ARGUMENT or tensor.op.body is not body:
        return None
    index = tensor.op._attrs["index"]
    return None if op.role is Role.LOOP and not passes_through(op._attrs["body"], index) else op._inputs[first + index]


def _outer_cut(scope: Scope, op: Operation, body: Body, first: int, cut: CutNeeded) -> Exception:
    """What ``op`` needs so that ``cut.tensor`` of its body is known."""
    seen: set[Tensor] = set()
    stack = [cut.tensor]
    args: dict[int, None] = {}
    while stack:
        tensor = stack.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        inner = tensor.op
        if inner.role is Role.ARGUMENT:
            args[inner._attrs["index"]] = None
        elif inner.definition.is_stateful or bodies_of(inner):
            return HostNeeded(op, f"{cut.op.name} needs a value that an iteration computes")
        elif not inner.definition.shape_only:
            stack.extend(inner._inputs)
    sources = scope.wiring.sources[op]
    for index in args:
        if op.role is Role.LOOP and not passes_through(op._attrs["body"], index):
            return HostNeeded(op, f"{cut.op.name} needs a value that changes between iterations")
        key = sources[first + index]
        if key is None or isinstance(key, StateKey):
            return HostNeeded(op)
        value = scope.env[key]
        if isinstance(value, TracedOptional) or (isinstance(value, TracedList) and value.known_size is not None):
            return HostNeeded(op, f"the value of {cut.tensor.name} is not known")
        if not isinstance(value, np.ndarray):
            return CutNeeded(op._inputs[first + index], op)
    return HostNeeded(op, f"the value of {cut.tensor.name} is not known")


def _surroundings(scope: Scope, op: Operation) -> tuple[list[Any], dict[Operation, Any], dict[Operation, Any]]:
    """Operands by input, versions that the bodies begin with by maker, and how far their random streams have come."""
    values = scope.operands(op)
    count = len(op._inputs)
    keys = scope.wiring.sources[op][count:]
    entry = {key.maker: value for key, value in zip(keys, values[count:], strict=True) if isinstance(key, StateKey)}
    jnp = engine.jax().numpy
    entry = {maker: jnp.asarray(value) for maker, value in entry.items()}
    drawing = {item for use in bodies_of(op) for item in _drawn(scope, use.body)}
    taken = {
        item: jnp.asarray(scope.streams.taken.get(item, 0), jnp.int64) for item in scope.streams.ops if item in drawing
    }
    return values[:count], entry, taken


def _drawn(scope: Scope, body: Body) -> list[Operation]:
    assert scope.view is not None
    draws = []
    for inner in scope.view(body, tuple(body.outputs)).ops:
        if inner.definition.effect.kind == "random":
            draws.append(inner)
        for use in bodies_of(inner):
            draws += _drawn(scope, use.body)
    return draws


def _entry_of(staged_view: Any, entry: dict[Operation, Any]) -> dict[Operation, Any]:
    return {key.maker: entry[key.maker] for key in staged_view.entry}


def _finish(
    scope: Scope,
    op: Operation,
    live: Sequence[int],
    outputs: Sequence[Any],
    finals: dict[Operation, Any],
    entry: dict[Operation, Any],
    taken: dict[Operation, Any],
    ok: Any,
) -> None:
    """Put what an op with bodies leaves where the rest of the trace finds it."""
    jnp = engine.jax().numpy
    for i, value in zip(live, outputs, strict=True):
        tensor = op._outputs[i]
        if tensor not in scope.wiring.fed:
            scope.env[tensor] = value
    for key in scope.wiring.writes.get(op, ()):
        value = finals.get(key.maker, entry[key.maker])
        if ok is not None and key.maker in scope.donated and key.maker in finals:
            value = jnp.where(ok, value, entry[key.maker])
        scope.env[key] = value
    scope.streams.taken.update(taken)


def _live_outputs(scope: Scope, op: Operation) -> list[int]:
    return [i for i, output in enumerate(op._outputs) if output in scope.used]


def _add_check(
    scope: Scope, op: Operation, failed: Any, payload: Any, records: tuple[kernel_context.CheckRecord, ...]
) -> None:
    if records:
        scope._enter(op)
        scope.context.checks.append(
            kernel_context.Check(
                scope.context.rank, failed < 0, records[0].error, "", (failed, payload), -1, op, records
            )
        )


def _add_own_check(scope: Scope, op: Operation, ok: Any, error: Any, text: str, *payload: Any) -> None:
    """Add a check that is the loop's own, not one of an op inside of it."""
    scope._enter(op)
    scope.context.checks.append(kernel_context.Check(scope.context.rank, ok, error, text, payload, 1, op))
    checked_loops.add(op)


# ------------------------------------------------------------------------------------------------- conditionals, calls
def conditional(scope: Scope, op: Operation, ok: Any) -> None:
    """If and Case."""
    operands, entry, taken = _surroundings(scope, op)
    uses = bodies_of(op)
    live = _live_outputs(scope, op)
    chosen = operands[0]
    if isinstance(chosen, np.ndarray):
        _call(scope, op, uses[branch_of(op, chosen, len(uses))].body, 1, live, operands, entry, taken, ok)
        return
    jax = engine.jax()
    jnp = jax.numpy
    if chosen_by_number(op):
        index = jnp.where((chosen >= 0) & (chosen < len(uses)), chosen, len(uses) - 1).astype(jnp.int32)
    elif chosen.ndim:
        index = jnp.int32(0 if chosen.size else 1)
    else:
        index = jnp.where(chosen if chosen.dtype == bool else chosen != 0, 0, 1).astype(jnp.int32)
    branches = []
    for use in uses:
        outputs = [use.body.outputs[i] for i in live]
        assert scope.view is not None
        inner_entry = _entry_of(scope.view(use.body, tuple(outputs)), entry)
        branches.append((_staged(scope, op, use.body, 1, outputs, operands[1:], inner_entry, taken), inner_entry))
    shapes = [staged.shapes() for staged, _ in branches]
    common = [lists.common(op, [shape.outputs[i] for shape in shapes]) for i in range(len(live))]
    written = list(dict.fromkeys(maker for shape in shapes for maker in shape.finals))
    size = max(staged.payload_size for staged, _ in branches)
    dynamic, rebuild = lists.split(operands[1:])

    def run(staged: _Staged, inner_entry: dict[Operation, Any], offset: int) -> Callable[..., Any]:
        def branch(given: Any) -> Any:
            shared, args, state, counts = given
            values = dict(zip(entry, state, strict=True))
            result, flags = staged.call(shared, rebuild(args), [values[maker] for maker in inner_entry], counts)
            outputs = [lists.fit(kind, value) for kind, value in zip(common, result.outputs, strict=True)]
            finals = [jnp.asarray(result.finals.get(maker, values[maker])) for maker in written]
            failed, payload = jnp.int32(-1), jnp.zeros((size,), jnp.int64)
            if flags is not None:
                failed = jnp.where(flags[0] < 0, jnp.int32(-1), flags[0] + offset)
                payload = payload.at[: flags[1].shape[0]].set(flags[1])
            return outputs, finals, list(result.taken.values()), failed, payload

        return branch

    offset = 0
    functions = []
    records: list[kernel_context.CheckRecord] = []
    for staged, inner_entry in branches:
        functions.append(run(staged, inner_entry, offset))
        offset += len(staged.records)
        records += staged.records
    given = (
        scope.streams.shared,
        dynamic,
        list(entry.values()),
        list(taken.values()),
    )
    branch_outputs, finals, counts, failed, payload = jax.lax.switch(index, functions, given)
    results: list[Any] = [lists.known(kind, value) for kind, value in zip(common, branch_outputs, strict=True)]
    for use, shape in zip(uses, shapes, strict=True):
        for i in use.body.exposed_outputs:
            # Only this branch of the gradient looks at it: what the others give there does not matter.
            value = shape.outputs[live.index(i)] if i in live else None
            if isinstance(value, np.ndarray):
                results[live.index(i)] = value
    _finish(
        scope,
        op,
        live,
        results,
        dict(zip(written, finals, strict=True)),
        entry,
        dict(zip(taken, counts, strict=True)),
        ok,
    )
    _add_check(scope, op, failed, payload, tuple(records))


def truth(value: Any) -> bool:
    """A predicate as TensorFlow takes it: a bool, a number (not zero), a string (not empty), any other (not empty)."""
    array = np.asarray(value)
    return array.size > 0 if array.ndim else bool(array.item())


def branch_of(op: Operation, value: Any, count: int) -> int:
    """The branch that a predicate or an index chooses; an index out of range chooses the last one."""
    if chosen_by_number(op):
        index = int(value)
        return index if 0 <= index < count else count - 1
    return 0 if truth(value) else 1


def call(scope: Scope, op: Operation, ok: Any) -> None:
    """A call of a function."""
    operands, entry, taken = _surroundings(scope, op)
    _call(scope, op, bodies_of(op)[0].body, 0, _live_outputs(scope, op), operands, entry, taken, ok)


def _call(scope: Scope, op: Operation, body: Body, first: int, live: list[int], operands: list[Any],
          entry: dict[Operation, Any], taken: dict[Operation, Any], ok: Any) -> None:  # fmt: skip
    outputs = [body.outputs[i] for i in live]
    assert scope.view is not None
    inner_entry = _entry_of(scope.view(body, tuple(outputs)), entry)
    staged = _staged(scope, op, body, first, outputs, operands[first:], inner_entry, taken)
    result, flags = staged.call(
        scope.streams.shared, operands[first:], list(inner_entry.values()), list(taken.values())
    )
    _finish(scope, op, live, result.outputs, result.finals, entry, result.taken, ok)
    for place, bound in staged.upper.items():
        scope.upper[op._outputs[live[place]]] = bound
    if flags is not None:
        _add_check(scope, op, flags[0], flags[1], staged.records)


# ---------------------------------------------------------------------------------------------------------------- loops
def loop(scope: Scope, op: Operation, ok: Any) -> None:
    """While."""
    operands, entry, taken = _surroundings(scope, op)
    condition: Body = op._attrs["cond"]
    body: Body = op._attrs["body"]
    assert scope.view is not None
    invariant = [passes_through(body, i) for i in range(len(body.args))]
    carried = carried_by(scope.view, op, _live_outputs(scope, op))
    bound = trip_counts.bound(scope, op, operands)
    growing = trip_counts.growing(op, carried, operands)
    # What only takes elements does not change how the loop goes on: it runs to its end and counts.
    runs_on = all(trip_counts.unread(op, i) for i in (*growing.by_trips, *growing.inside))
    guess = more = None
    if bound is None and growing.by_trips:
        bound = guess = trip_counts.guess(scope, op, operands)
    if growing.inside and runs_on:
        more = guess = scope.room.guess(op)
    late = deferred_products.find(op, carried, bound, operands)
    carried = [i for i in carried if i not in late]
    jax = engine.jax()
    jnp = jax.numpy
    written = [maker for maker in entry if maker in scope.view(body, tuple(body.outputs)).final]
    written += [maker for maker in scope.view(condition, tuple(condition.outputs)).final if maker not in written]
    initial = [trip_counts.variable(op, i, operands[i], bound, more, operands) for i in carried]

    def arguments(values: Sequence[Any]) -> list[Any]:
        arguments_of_body = [value if invariant[i] else None for i, value in enumerate(operands)]
        for i, value in zip(carried, values, strict=True):
            arguments_of_body[i] = value
        return arguments_of_body

    def state(values: Sequence[Any]) -> dict[Operation, Any]:
        return {**entry, **dict(zip(written, values, strict=True))}

    outputs = [body.outputs[i] for i in carried] + [part for item in late.values() for part in item]
    counts = taken
    variables = [entry[maker] for maker in written]
    views = (scope.view(condition, tuple(condition.outputs)), scope.view(body, tuple(outputs)))

    def stage(part: Body, view: Any, wanted: Sequence[Tensor]) -> _Staged:
        return _staged(scope, op, part, 0, wanted, arguments(initial), _entry_of(view, state(variables)), counts)

    for _ in range(4):  # an unmaterialised list takes its elements' shape from what the body puts in
        staged = stage(body, views[1], outputs)
        first_outputs = staged.shapes().outputs
        fitted = [lists.fit_variable(op, old, new) for old, new in zip(initial, first_outputs, strict=False)]
        if all(old is new for old, new in zip(initial, fitted, strict=True)):
            break
        initial = fitted
    else:
        raise HostNeeded(op, "the shape of a loop variable changes")
    roomy = [i for i in (*growing.by_trips, *growing.inside) if i in carried]
    scope.room.take(sum(lists.nbytes(initial[carried.index(i)]) for i in roomy))
    test = stage(condition, views[0], condition.outputs)
    # A condition that does more than compare runs once for each decision: its result is carried.
    rotated = bool(test.finals or test.records or _drawn(scope, condition))
    size = max(part.payload_size for part in (staged, test))
    limit = scope.streams.limit
    if limit is not None:
        iteration = loop_limits.price(staged.closed.jaxpr) + loop_limits.price(test.closed.jaxpr)
        if bound is not None and guess is None and bound * iteration < loop_limits.SHORT:
            limit = None
        else:
            scope.limits.add(iteration, scope.in_loop)

    class Carry(NamedTuple):
        values: Any
        variables: Any
        counts: Any
        failed: Any
        payload: Any
        go: Any
        factors: Any
        done: Any

    def execute(part: _Staged, view: Any, carry: Carry, offset: int) -> tuple[_Result, Carry]:
        current = dict(zip(written, carry.variables, strict=True))
        result, flags = part.call(
            scope.streams.shared,
            arguments(carry.values),
            list(_entry_of(view, {**entry, **current}).values()),
            carry.counts,
        )
        failed, payload = carry.failed, carry.payload
        if flags is not None:
            failed = jnp.where(flags[0] < 0, failed, flags[0] + offset)
            payload = payload.at[: flags[1].shape[0]].set(flags[1])
        left = [jnp.asarray(result.finals.get(maker, current[maker])) for maker in written]
        return result, carry._replace(
            variables=left, counts=[result.taken[item] for item in counts], failed=failed, payload=payload
        )

    def predicate(carry: Carry) -> tuple[Any, Carry]:
        result, after = execute(test, views[0], carry, len(staged.records))
        value = jnp.asarray(result.outputs[0])
        go = (jnp.asarray(value.size > 0) if value.ndim else value != 0) & (after.failed < 0)
        return (go if ok is None or not written else go & ok), after

    def iterate(carry: Carry) -> Carry:
        result, after = execute(staged, views[1], carry, 0)
        values = [lists.fit(lists.kind_of(old), new) for old, new in zip(carry.values, result.outputs, strict=False)]
        rows = result.outputs[len(carried) :]
        factors = [whole.at[carry.done].set(row) for whole, row in zip(carry.factors, rows, strict=True)]
        after = after._replace(values=values, factors=factors, done=carry.done + 1)
        if rotated:
            go, after = predicate(after)
            after = after._replace(go=go & (after.failed < 0))
        return after

    def within(carry: Carry) -> Any:
        return True if guess is None or runs_on else carry.done < guess

    def permitted(carry: Carry) -> Any:
        return True if limit is None else loop_limits.permits(limit, carry.done)

    start = Carry(
        initial,
        variables,
        list(counts.values()),
        jnp.int32(-1),
        jnp.zeros((size,), jnp.int64),
        jnp.asarray(True),
        [jnp.zeros((bound, *row.shape), row.dtype) for row in first_outputs[len(carried) :]],
        jnp.int32(0),
    )
    if rotated:
        go, start = predicate(start)
        start = start._replace(go=go)
        end = jax.lax.while_loop(lambda carry: carry.go & within(carry) & permitted(carry), iterate, start)
    else:
        end = jax.lax.while_loop(lambda carry: predicate(carry)[0] & within(carry) & permitted(carry), iterate, start)
    goes_on: Any = None
    if limit is not None or (guess is not None and not runs_on):  # asked before lists carry out the writes that wait
        goes_on = end.go if rotated else predicate(end)[0]
    live = _live_outputs(scope, op)
    by_index = {
        i: value.released() if isinstance(value, TracedList) and not operands[i].reserved else value
        for i, value in zip(carried, end.values, strict=True)
    }
    for place, i in enumerate(late):
        by_index[i] = deferred_products.finish(scope, operands[i], *end.factors[2 * place : 2 * place + 2])
    results = [operands[i] if invariant[i] else by_index[i] for i in live]
    _finish(scope, op, live, results, dict(zip(written, end.variables, strict=True)), entry,
            dict(zip(counts, end.counts, strict=True)), None)  # fmt: skip
    trip_counts.learn(scope, op, operands, bound)
    if limit is not None:
        # What ended it was the limit if, but for that, it would go on.
        _add_own_check(scope, op, ~(goes_on & within(end)), loop_limits.Stopped, "the loop was stopped")
    if guess is not None:
        if runs_on:
            needed = end.done if more is None or bound == guess else jnp.int32(0)
            for i in growing.inside:
                place = carried.index(i)
                needed = jnp.maximum(needed, end.values[place].size - initial[place].size)
            enough = needed <= guess
        else:
            enough, needed = ~goes_on, jnp.int32(guess * capacities.MOST_WASTE)
        _add_own_check(scope, op, enough, capacities.Exceeded, "{0}", needed)
    _add_check(scope, op, end.failed, end.payload, (*staged.records, *test.records))


def carried_by(view: Callable[[Body, tuple[Tensor, ...]], Any], op: Operation, outputs: Iterable[int]) -> list[int]:
    """The variables of a loop that change and that are used: by the condition, an effect, an output, or one another."""
    condition: Body = op._attrs["cond"]
    body: Body = op._attrs["body"]
    changes = [not passes_through(body, i) for i in range(len(body.args))]
    live = {i for i in outputs if changes[i]}

    def used(part: Body, outputs: Sequence[Tensor]) -> set[int]:
        used_keys = view(part, tuple(outputs)).used
        return {i for i, arg in enumerate(part.args) if arg in used_keys and changes[i]}

    live |= used(condition, condition.outputs)
    while True:
        ordered = sorted(live)
        more = used(body, [body.outputs[i] for i in ordered]) - live
        if not more:
            return ordered
        live |= more


# ------------------------------------------------------------------------------------------------------------ optionals
def optional(scope: Scope, op: Operation, ok: Any) -> None:
    """Optionals: a value that one branch of a conditional has and the other has not."""
    operands = scope.operands(op)
    role = op.role
    if role is Role.OPTIONAL_NONE:
        scope.env[op._outputs[0]] = TracedOptional(None)
    elif role is Role.OPTIONAL_WRAP:
        scope.env[op._outputs[0]] = TracedOptional(tuple(operands))
    elif role is Role.OPTIONAL_TEST:
        raise HostNeeded(op, "whether an optional has a value")
    else:
        values = operands[0].values
        if values is None:
            raise HostNeeded(op, "an optional without value")
        for output, value in zip(op._outputs, values, strict=True):
            scope.env[output] = value


lowerings.update({Role.CONDITIONAL: conditional, Role.CALL: call, Role.LOOP: loop})
lowerings.update(dict.fromkeys(OPTIONALS, optional))
assert dtypes.variant  # lists and optionals are of this dtype
assert padded_arrays  # its ops are known by now
