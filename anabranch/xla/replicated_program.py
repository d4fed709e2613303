"""One SPMD program over several devices, for ops that each of them has alike.

From outside it is a program like any other: its inputs and outputs are those of all replicas. Inside, the first
replica's ops are traced once, under ``jax.shard_map`` over a mesh of the devices; what takes a value from each replica
is a collective: a sum of all is one all-reduce, anything else an all-gather and the op on what it gives.

*Values.* What each replica has of its own is one array over the mesh, joined along the first axis (a scalar as a vector
with one element for each); nothing is copied for that where the parts stand on their devices. What the program gives is
taken apart again, and joined without work when it comes back unchanged, as variables do in the next step. What all
share is replicated.

*Checks.* All replicas hear which of their checks failed first in the order of effects, and agree on it by two small
reductions.

*What it does not do.* Arguments that differ between replicas in shape, or in what must be known when the program is
compiled, have no such program: the ops run one by one then. It owns no buffers of variables, so new values are in new
memory.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.contract import faults, opdef
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values.list_values import TracedList
from anabranch.xla import engine, kernel_context, lapack_threads, lowering, memory, stored_programs
from anabranch.xla.executables import Executable, Facts, Means, NotStored
from anabranch.xla.loops.units import Unit
from anabranch.xla.padding import sizes
from anabranch.xla.program import UNTRACEABLE, Program
from anabranch.xla.program_function import ProgramFunction, ProgramOps

AXIS = "replica"
"""The name of the mesh's axis."""
_turn = threading.Lock()
"""Programs over devices begin one after the other, in the same order on all of them, or each might wait for the other.
On CPUs, where they share threads, one ends before the next begins."""


class Unlike(NotImplementedError):
    """Arguments for which the replicas are not one program."""


class Replication(NamedTuple):
    """Which ops and values of replicas stand for each other."""

    mesh: Any
    """Its ``devices``, one for each replica."""
    members: Mapping[Operation, tuple[Operation, ...]]
    """By the first replica's op those of all."""
    first: Mapping[Operation, Operation]
    twins: Mapping[ValueKey, tuple[ValueKey, ...]]
    """By a value of the first replica those of all."""
    meetings: Mapping[Operation, tuple[int, ...]]
    """The first replica's ops that take a value from each, and at which positions."""
    random_ops: Callable[[Operation], Sequence[Operation]]
    """The ops that draw random numbers when an op runs."""


class _Replica(ProgramFunction):
    """The ops of the first replica, in which what takes a value from each is a collective."""

    def __init__(self, meetings: Mapping[Operation, tuple[int, ...]], count: int, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._meetings, self._count = meetings, count
        strange = {
            key for op in self.group.ops for key in self._met(op)[1:] if key is not None
        }  # values of other replicas, which a collective brings
        self.inputs = tuple(key for key in self.inputs if key not in strange)
        self.limits_loops = False

    def _met(self, op: Operation) -> tuple[ValueKey | None, ...]:
        """The values of all replicas that an op takes."""
        sources = self.group.sources[op]
        return tuple([sources[i] for i in self._meetings.get(op, ())])

    def _units(self, late: set[Operation]) -> list[Unit]:
        return [op for op in self.group.ops if op not in late]

    def _compute(self, run: lowering.Scope, op: Operation, ok: Any = None, skip_checks: bool = False) -> None:
        met = self._met(op)
        if not met:
            super()._compute(run, op, ok, skip_checks)
            return
        assert met[0] is not None
        own = run.env[met[0]]
        lax = engine.jax().lax
        known = isinstance(own, np.ndarray)
        if not known and op.definition.aggregate and len(met) == len(self.group.sources[op]):
            run.env[op._outputs[0]] = lax.psum(own, AXIS)
            return
        rows = [own] * self._count if known else lax.all_gather(own, AXIS)
        for i, key in enumerate(met):
            assert key is not None
            run.env[key] = rows[i]
        super()._compute(run, op, ok, skip_checks)
        for key in met[1:]:
            del run.env[key]  # type: ignore[arg-type]
        run.env[met[0]] = own


class ReplicatedProgram(Program):
    """A program over several devices; arguments as for :class:`Program`, with the ops of all replicas."""

    def __init__(self, replication: Replication, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.replication = replication
        self.devices = replication.mesh.devices
        self.unlike = 0
        """In how many runs replicas were given what makes them different programs."""
        group = self.group
        count = len(self.devices)
        firsts = [op for op in group.ops if replication.first.get(op) is op]
        sources = {op: group.sources[op] for op in firsts}
        needed = {key for keys in sources.values() for key in keys}
        constants = [op for op in group.ops if op not in replication.first and op._outputs[0] in needed]
        place: dict[ValueKey, tuple[ValueKey, int]] = {}
        for op in firsts:
            own_keys: tuple[ValueKey, ...] = (*op._outputs, *group.writes.get(op, ()))
            for own in own_keys:
                place.update({key: (own, i) for i, key in enumerate(replication.twins[own])})
        wanted = dict.fromkeys(place[key][0] for key in self.outputs)
        self._one = _Replica(
            replication.meetings,
            count,
            ProgramOps(
                tuple(sorted([*constants, *firsts], key=lambda op: group.ops.index(op))),
                {**{op: () for op in constants}, **sources},
                {op: group.writes[op] for op in firsts if op in group.writes},
                group.ranks,
                group.fed,
                group.view,
                tuple(dict.fromkeys(inner for op in firsts for inner in replication.random_ops(op))),
                group.awaited.intersection(output for op in firsts for output in op._outputs),
            ),
            list(wanted),
            {},
            self.platform,
            device=self.device,
            precision=self.precision,
            sizes_change=self.sizes_change,
        )
        at = {key: i for i, key in enumerate(self.inputs)}
        self._parts = [
            tuple([at[key] for key in replication.twins.get(own, (own,) * count)]) for own in self._one.inputs
        ]
        """Of each of the first replica's inputs, where those of all are among the program's."""
        self.devices_of_inputs = [None] * len(self.inputs)
        for parts in self._parts:
            if len(set(parts)) == len(parts):
                for i, device in zip(parts, self.devices, strict=True):
                    self.devices_of_inputs[i] = device
        made = {key: i for i, key in enumerate(self._one.outputs)}
        self._results = [(made[place[key][0]], place[key][1]) for key in self.outputs]
        """Of each output, which of the first replica's outputs it is like, and whose it is."""
        rows = {op: i for i, op in enumerate(self.random_ops)}
        streams: list[list[int]] = [[] for _ in range(count)]
        for op in firsts:
            for i, member in enumerate(replication.members[op]):
                streams[i] += [rows[inner] for inner in replication.random_ops(member)]
        self._streams = np.array(streams, np.int64).reshape(count, len(self._one.random_ops))
        self._written = {key.maker for op in group.ops for key in group.writes.get(op, ())}

    def ready(self, inputs: list[Any], static: Sequence[int]) -> None:
        """Nothing has a capacity here: sizes are as they are."""

    def device_constants(self) -> tuple[Any, ...]:
        """Large constants, on all devices."""
        if self._device_constants is None:
            with engine.x64():
                self._device_constants = tuple(
                    [engine.jax().device_put(value, self._sharding()) for value in self._one.constants.values()]
                )
        return self._device_constants

    @functools.cached_property
    def _mesh(self) -> Any:
        devices = np.array([engine.jax_device(device) for device in self.devices])
        return engine.jax().sharding.Mesh(devices, (AXIS,))

    def _sharding(self, *axes: str) -> Any:
        sharding = engine.jax().sharding
        return sharding.NamedSharding(self._mesh, sharding.PartitionSpec(*axes))

    def keeping(self, *args: Any) -> Executable:
        """Refuse: it owns no buffers."""
        raise Unlike

    # -- compilation --------------------------------------------------------------------------------------------------
    def executable(
        self,
        donated: Sequence[Any],
        inputs: Sequence[Any],
        static: dict[int, np.ndarray],
        rng: np.ndarray,
        limit: int | None = None,
        bounds: dict[int, int] | None = None,
        gated: bool = False,
        batch: sizes.Size = (),
        means: Means = Means.HERE,
    ) -> Executable | None:
        """The compiled variant for these arguments, as for other programs.

        Raises:
            Unlike: replicas differ in what they are given.
        """
        if bounds or batch or gated:
            raise Unlike("a loop or batch whose size is not known when it is compiled")
        known = {}
        for i, parts in enumerate(self._parts):
            values = [inputs[part] for part in parts]
            if any(isinstance(value, TracedList) for value in values):
                raise Unlike("lists of tensors")
            if parts[0] in static:
                keys = {opdef.attr_key(static.get(part, np.asarray(inputs[part]))) for part in parts}
                if len(keys) > 1:
                    raise Unlike("values that must be known when the program is compiled, and differ between replicas")
                known[i] = static[parts[0]]
            elif len({(value.shape, np.dtype(value.dtype)) for value in values}) > 1:
                raise Unlike("shapes that differ between replicas")
        firsts = [inputs[parts[0]] for parts in self._parts]
        key = (
            tuple([None if i in known else (value.shape, value.dtype) for i, value in enumerate(firsts)]),
            tuple([(i, opdef.attr_key(value)) for i, value in known.items()]),
            tuple(sorted(static)),
        )
        executable = self._variants.get(key)
        if executable is None:
            with self._lock:
                executable = self._variants.peek(key)
                if executable is None:
                    if limit is not None and len(self._variants) >= limit:
                        return None
                    refusal = self._refused.get(key)
                    if refusal is not None:
                        raise refusal.with_traceback(None)
                    try:
                        executable = self._made(firsts, known, sorted(static), self._stored_name(key), means)
                    except UNTRACEABLE as problem:
                        self._refused.put(key, problem)
                        raise
                    except faults.FAULTS as problem:
                        bug = faults.KernelBug(None, problem)
                        self._refused.put(key, bug)
                        raise bug from problem
                    self._variants.put(key, executable)
        return executable

    def _stored_name(self, key: Any) -> str | None:
        """Under which name the variant for such arguments is kept on disk."""
        place = {op: i for i, op in enumerate(self.group.ops)}
        members = [
            (place[op], tuple([place[member] for member in row]), self.replication.meetings.get(op, ()))
            for op, row in self.replication.members.items()
            if op in place
        ]
        devices = tuple([device.number for device in self.devices]), len(engine.devices(self.platform))
        structure = ("replicas", self._structure(), tuple(sorted(members)), devices, key)
        return stored_programs.key(structure, stored_programs.definitions(self.flat_ops), self.platform)

    def _made(
        self,
        firsts: Sequence[Any],
        known: dict[int, np.ndarray],
        static: Sequence[int],
        stored: str | None,
        means: Means,
    ) -> Executable:
        """The variant for these arguments, as it is on disk, or compiled."""
        one, jax, count = self._one, engine.jax(), len(self.devices)
        facts = Facts()
        dynamic = [i for i in range(len(firsts)) if i not in known]
        shared = [len(set(self._parts[i])) == 1 for i in dynamic]
        state = [isinstance(key, StateKey) for key in one.outputs]
        ranks: list[int] = []
        """Of the results, in order."""
        vectors: list[int] = []
        """Scalars among the results that are joined to vectors, too, for when they come back."""

        def anabranch_replica(arguments: Any, constants: Any, rng: Any) -> Any:
            values = [
                value if same or firsts[i].shape else value.reshape(())
                for i, same, value in zip(dynamic, shared, arguments, strict=True)
            ]
            results, _, flags = one.settled(facts, (), tuple(values), constants, rng[0], known, {})
            if facts.dynamic or facts.guessed or facts.budget is not None:
                raise Unlike("a loop, or random numbers, of an amount that is not known when the program is compiled")
            ranks[:] = [value.ndim for value in results]
            places = zip(facts.traced_outputs, ranks, strict=True)
            vectors[:] = [i for i, (place, rank) in enumerate(places) if state[place] and not rank]
            joined = tuple([results[i].reshape((1,)) for i in vectors])
            return tuple(results), joined, None if flags is None else self._agreed(facts, *flags)

        part = jax.sharding.PartitionSpec

        def over_devices(results: Any) -> Any:
            given = tuple([part() if same else part(AXIS) for same in shared])
            return jax.shard_map(
                anabranch_replica,
                mesh=self._mesh,
                in_specs=(given, part(), part(AXIS)),
                out_specs=(results, part(AXIS), part()),
                check_vma=False,
            )

        def aval(value: Any, same: bool) -> Any:
            shape = tuple(value.shape) if same else joined_shape(value.shape, count)
            return jax.ShapeDtypeStruct(shape, value.dtype, sharding=self._sharding(*(() if same else (AXIS,))))

        arguments = tuple([aval(firsts[i], same) for i, same in zip(dynamic, shared, strict=True)])
        rng = aval(np.empty((1, len(one.random_ops), 6), np.uint32), False)
        loaded = None
        if stored_programs.has(stored):
            with self._around():
                devices = tuple([engine.jax_device(device) for device in self.devices])
                loaded = stored_programs.load(stored, (arguments, self.device_constants(), rng), devices)
        if loaded is not None:
            found_out, compiled = loaded
            facts = Facts.read(found_out["facts"])
            return self._spread(compiled, facts, dynamic, shared, static, found_out["vectors"])
        if means is Means.STORED:
            raise NotStored
        with self._around():
            jax.eval_shape(over_devices(part()), arguments, self.device_constants(), rng)
            # A scalar has no axis to be joined along: each device gives its own, as if it were one for all.
            results = tuple([part(AXIS) if rank else part() for rank in ranks])
            traced = jax.jit(over_devices(results)).trace(arguments, self.device_constants(), rng)
            compiled, code = engine.compiled(traced.lower(), engine.compiler_options(self.platform))
        memory.require_memory(compiled, engine.jax_device(self.device), one.flat_ops)
        facts.factorisation = lapack_threads.largest(traced.jaxpr)
        with contextlib.suppress(stored_programs.NotStorable):
            stored_programs.save(stored, {"facts": facts.plain(), "vectors": vectors}, compiled, code)
        return self._spread(compiled, facts, dynamic, shared, static, vectors)

    def _spread(
        self,
        compiled: Any,
        facts: Facts,
        dynamic: Sequence[int],
        shared: Sequence[bool],
        static: Sequence[int],
        vectors: Sequence[int],
    ) -> Executable:
        """A compiled variant as one that takes the values of all replicas one by one."""
        makes = [[j for j, (made, _) in enumerate(self._results) if made == place] for place in facts.traced_outputs]
        spread = _Spread(self, compiled, dynamic, shared, static, makes, vectors)
        return Executable(lapack_threads.limited(spread, facts.factorisation, self.platform), self._facts(facts))

    def _agreed(self, facts: Facts, failed: Any, payload: Any) -> tuple[Any, Any]:
        """The flags of the replica whose check comes first in the order of effects, on all of them."""
        jax, jnp = engine.jax(), engine.jax().numpy
        ranks = np.array(
            [[self._rank(row[record.op]) for record in facts.records] for row in self._flat_by_replica], np.int32
        )
        mine = jax.lax.axis_index(AXIS)
        fails = failed >= 0
        rank = jnp.where(fails, jnp.asarray(ranks)[mine, jnp.maximum(failed, 0)], np.int32(np.iinfo(np.int32).max))
        is_first = fails & (rank == jax.lax.pmin(rank, AXIS))
        number = jnp.where(is_first, mine.astype(jnp.int32) * len(facts.records) + failed, kernel_context.PASSED)
        shown = jax.lax.psum(jnp.where(is_first, payload, jnp.zeros_like(payload)), AXIS)
        return jax.lax.pmax(number.astype(jnp.int32), AXIS), shown

    @functools.cached_property
    def _flat_by_replica(self) -> list[list[Operation]]:
        """For each replica the ops that stand for the first one's, those of bodies included."""
        members = self.replication.members
        return [
            list(self._flattened([members[op][i] if op in members else op for op in self._one.group.ops]))
            for i in range(len(self.devices))
        ]

    def _rank(self, op: Operation) -> int:
        while op not in self.group.ranks:
            assert op.body is not None
            owner = op.body.owner
            assert owner is not None
            op = owner
        return self.group.ranks[op]

    def _facts(self, one: Facts) -> Facts:
        """What is known of the program, of what is known of one replica's."""
        facts = Facts()
        for i, (made, _) in enumerate(self._results):
            if made in one.known_outputs:
                facts.known_outputs[i] = one.known_outputs[made]
            else:
                facts.traced_outputs.append(i)
                facts.specs.append(one.specs[one.traced_outputs.index(made)])
        place = {op: i for i, op in enumerate(self.flat_ops)}
        for row in self._flat_by_replica:
            places = [place[op] for op in row]
            facts.records += [record.at(places) for record in one.records]
        facts.consumed = [0] * len(self.random_ops)
        for streams in self._streams:
            for row, amount in zip(streams, one.consumed, strict=True):
                facts.consumed[row] = amount
        facts.loops, facts.library_calls = one.loops, one.library_calls
        return facts


def joined_shape(shape: Sequence[int], count: int) -> tuple[int, ...]:
    """The shape of what replicas have of their own as one array."""
    return (count * shape[0], *shape[1:]) if shape else (count,)


class _Joined(NamedTuple):
    """What replicas have, and the array over the mesh that it is."""

    parts: tuple[Any, ...]
    whole: Any


class _Spread:
    """A compiled program over a mesh as a function of what a program takes: the values of all replicas, one by one."""

    def __init__(
        self,
        program: ReplicatedProgram,
        compiled: Any,
        dynamic: Sequence[int],
        shared: Sequence[bool],
        static: Sequence[int],
        makes: Sequence[Sequence[int]],
        vectors: Sequence[int],
    ) -> None:
        self._compiled = compiled
        self.in_avals = compiled.in_avals
        self._sharding, self._shared = program._sharding(AXIS), program._sharding()
        self._devices = [engine.jax_device(device) for device in program.devices]
        self._waits = program.platform == "cpu"
        self._numbers = range(len(self._devices))
        inputs = [i for i in range(len(program.inputs)) if i not in static]
        place = {i: j for j, i in enumerate(inputs)}
        self._takes = [tuple([place[part] for part in program._parts[i]]) for i in dynamic]
        """Of each argument, where the values of all replicas are."""
        self._is_shared = shared
        self._changes = [_is_changed(program, i) for i in dynamic]
        self._makes = [[(j, program._results[j][1]) for j in places] for places in makes]
        """Of each result, which outputs it is, and whose."""
        self._is_state = [any(isinstance(program.outputs[j], StateKey) for j, _ in places) for places in self._makes]
        self._order = sorted(j for places in makes for j in places)
        self._vectors = {i: at for at, i in enumerate(vectors)}
        self._streams = program._streams
        self._known: dict[int, _Joined] = {}
        """By the identity of their first part, values that are likely to come again."""

    def __call__(self, donated: Any, arguments: Sequence[Any], constants: Any, rng: np.ndarray) -> Any:
        known: dict[int, _Joined] = {}
        whole = []
        for places, shared, changes in zip(self._takes, self._is_shared, self._changes, strict=True):
            parts = tuple([arguments[place] for place in places])
            joined = self._known.get(id(parts[0]))
            if joined is None or any(a is not b for a, b in zip(joined.parts, parts, strict=True)):
                joined = _Joined(parts, self._share(parts[0]) if shared else self._join(parts))
            if not changes:
                known[id(parts[0])] = joined
            whole.append(joined.whole)
        words = engine.jax().device_put(rng[self._streams], self._sharding)
        with _turn:
            results, vectors, flags = self._compiled(tuple(whole), constants, words)
            if self._waits:
                engine.wait_for((results, flags))
        outputs: dict[int, Any] = {}
        for i, (result, outputs_of) in enumerate(zip(results, self._makes, strict=True)):
            # (`addressable_data` of a scalar, which is one for all by name, would be that of the first device.)
            parts = (
                tuple([result.addressable_data(k) for k in self._numbers])
                if result.ndim
                else tuple([shard.data for shard in result.addressable_shards])
            )
            if self._is_state[i]:
                at = self._vectors.get(i)
                known[id(parts[0])] = _Joined(parts, result if at is None else vectors[at])
            outputs.update({j: parts[k] for j, k in outputs_of})
        self._known = known
        return [outputs[j] for j in self._order], (), flags

    def _share(self, value: Any) -> Any:
        return engine.jax().device_put(value, self._shared)

    def _join(self, parts: Sequence[Any]) -> Any:
        jax = engine.jax()
        shape = tuple(parts[0].shape)
        if not shape:
            return jax.device_put(np.stack([np.asarray(part) for part in parts]), self._sharding)
        own = [
            part if hasattr(part, "devices") and part.devices() == {device} else jax.device_put(part, device)
            for part, device in zip(parts, self._devices, strict=True)
        ]
        return jax.make_array_from_single_device_arrays(joined_shape(shape, len(own)), self._sharding, own)


def _is_changed(program: ReplicatedProgram, i: int) -> bool:
    """Whether an input of the first replica is another value in each step: all but variables that are only read."""
    key = program._one.inputs[i]
    return not isinstance(key, StateKey) or any(
        part.maker in program._written
        for part in program.replication.twins.get(key, (key,))
        if isinstance(part, StateKey)
    )
