"""A plan: what running certain fetches with certain feeds means, arranged into segments and, inside them, into items.

An item is one op that runs on the host, or a group of ops compiled to one XLA program. Inside a segment, ops are put
into layers: host ops on odd ones, device ops on even ones, each as late as its consumers allow, so that whatever can be
one program is one program, and the last program of the segment holds the writes. An input that XLA must know at
compile time and that is not known then is computed in an earlier layer (its cheap ancestors on the host).
"""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.cache import Cache, Listed
from anabranch.core.contract import kernels
from anabranch.core.contract.roles import Role
from anabranch.core.graph import shared_bodies
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values import dtypes, shapes
from anabranch.placement.placer import Placement, Placer
from anabranch.rewrite import effects, reach, state
from anabranch.runtime.plans import (
    arrangement,
    explaining,
    hosting,
    policy,
    program_groups,
    replicas,
    shape_families,
    waves,
)
from anabranch.runtime.plans.items import HostItem, ProgramItem, Segment
from anabranch.runtime.state.slots import ResourceHandle
from anabranch.xla import lowering
from anabranch.xla.padding import batches, sizes

MOST_VIEWS = 4096
"""Views of bodies that a plan keeps: enough for each body that it holds, for some sets of outputs."""


class Plan:
    """What a step runs. ``tier`` is ``interpreted`` or ``compiled``; see :meth:`arrange`."""

    def __init__(
        self,
        fetches: Sequence[Any],
        feeds: Sequence[Tensor],
        handle_of: Any,
        placer: Placer,
        options: Any,
        feed_shapes: Sequence[shapes.RawShape],
        nested: bool = False,
    ):
        self.feeds = tuple(feeds)
        self.fed = frozenset(feeds)
        self.fetches = tuple(fetches)
        self.nested = nested
        """Whether it runs a nested body, with feeds of any shape and results for another plan."""
        self.handle_of = handle_of
        self.options = options
        self.feed_shapes = tuple(feed_shapes)
        self.fetched = frozenset(fetches)
        self.seeded_outside = policy.SEED in os.environ
        ops = []
        for fetch in fetches:
            op = fetch.op if isinstance(fetch, Tensor) else fetch
            if isinstance(fetch, Tensor) and (
                fetch in self.fed
                or (fetch.dtype.is_ref and (op.definition.makes == "variable" or op.role is Role.ARGUMENT))
            ):
                continue
            ops.append(op)
        awaited = [fetch for fetch in fetches if not isinstance(fetch, Tensor)]
        self.analysis = state.analyse(ops, self.fed, state.Variables(handle_of), awaited)
        self._refuse_unfed()
        if not nested:
            shared_bodies.require_executable(self.analysis.order)
        self.final_reads: dict[Tensor, Operation] = {
            fetch: self.analysis.variable(fetch)
            for fetch in self.fetches
            if isinstance(fetch, Tensor)
            and fetch not in self.fed
            and fetch.dtype.is_ref
            and reach.maker_of(fetch).definition.makes == "variable"
        }
        self.required_static: set[ValueKey] = set()
        self.required_bounds: set[Tensor] = set()
        """Integers that bound how often a loop runs: known, rounded up, when the loop is compiled."""
        self._views: Cache[Any, state.BodyView] = Cache("views of bodies", MOST_VIEWS)
        self.live: dict[Operation, tuple[int, ...]] = {}
        """The outputs of ops with bodies that somebody uses; see ``inner_code.live_outputs``."""
        self.accepted: dict[Operation, set[tuple[Any, ...]]] = {}
        """Shapes of operands that the op's shape rule has accepted when the op ran on the host."""
        self.surprised = False
        """Whether a program has turned out to make checks that were not known of."""
        self.unsure = False
        """Whether that was so although all its ops had been traced: then any program may."""
        self.dynamic_on_host = False
        """Whether ops with shapes that are known only in a run stay on the host, so that programs serve all runs."""
        self.replicas_apart = False
        """Whether replicas that are given different shapes again and again stay programs of their own."""
        self.on_host: set[Operation] = set()
        """Ops that turned out not to be compilable with the shapes of this plan."""
        self.constants: dict[Tensor, np.ndarray] = {
            op._outputs[0]: op._attrs["value"]
            for op in self.analysis.order
            if op.role is Role.CONSTANT and op._outputs[0] not in self.fed
        }
        self.fixed: dict[Tensor, bool] = {}
        """Whether values follow from constants alone, as far as somebody has asked."""
        self.handles: dict[Tensor, ResourceHandle] = {}
        self.makers: dict[ResourceHandle, Operation] = {}
        """What makes each resource that the step may have to make."""
        for op in self.analysis.order:
            if op.definition.makes is not None:
                for output in op._outputs:
                    self.handles[output] = handle_of(op)
                self.makers.setdefault(handle_of(op), op)
            for tensor in op._inputs:
                if tensor.op.role is Role.ARGUMENT and tensor.dtype.is_ref:
                    maker = reach.maker_of(tensor)
                    if maker.definition.makes != "variable":
                        self.handles[tensor] = handle_of(maker)
                        self.makers.setdefault(handle_of(maker), maker)
            within = effects.summary(op)
            for maker in within.makers if within is not None else ():
                self.makers.setdefault(handle_of(maker), maker)
        for tensor in self.feeds:
            if tensor.op.role is Role.ARGUMENT and tensor.dtype.base is dtypes.resource:
                known = reach.known_maker_of(tensor)
                if known is not None:
                    self.makers.setdefault(handle_of(known), known)
        self._sources = {op: self.analysis.sources(op) for op in self.analysis.order}
        self.writers: dict[StateKey, Operation] = {
            key: op for op, used in self.analysis.state.items() for key in used.writes
        }
        self.placer = placer
        placer.check(self.analysis.order)
        if placer.logs:
            placer.log(self.device)
        self.segments = self._make_segments()
        self.varying = shape_families.Varying()
        self.small_integers: set[ValueKey] = set()
        """Small integers that were known when a program was traced, and so are when one that takes them is."""
        self.runs = 0
        self.spent = 0.0
        """Modelled microseconds that nested bodies have taken in interpreted runs."""
        self.paid = 0.0
        """Seconds of CPU time that interpreted runs have taken."""
        self.observed: dict[ValueKey, Any] | None = None
        """What the values of an interpreted run look like."""
        self.further: dict[Any, Any] = {}
        """By program, the capacity that is compiled for it beside its runs."""
        self.ahead: Any = None
        """Its programs, while they are compiled beside its interpreted runs; see ``plans/ahead.py``."""
        self.misfits = 0
        """How often they were compiled for other shapes than turned out to change."""
        self.awaits_ahead = False
        """Whether the next run is to wait for them."""
        self.looked: bool | None = None
        """Whether its sizes had settled when it was last asked if its programs are there already; None before that."""
        self.only_stored = False
        """Whether it runs compiled only if they are."""
        self.comparison: Any = None
        """How long its runs took, while it is to be found out whether the compiled ones are slower, and if it goes by
        the clock; see ``plans/comparison.py``."""
        self.kept_interpreted = ""
        """Why it stays interpreted, if its compiled form was found to be slower."""
        self.only_feeds_channels: bool | None = None
        """Whether each of its segments runs as one function, see ``computed_segments.py``; None if nobody has asked."""
        self.straight: Any = None
        """Of a nested plan, the code that runs it faster than op by op; see ``body_plans.BodyPlans``."""
        self.held_bodies = tuple([use.body for op in self.analysis.order for use in bodies_of(op)])
        self.tier = ""
        self.why = ""
        self.arrangements = 0
        """How often its items have been arranged."""
        self.took = math.inf
        """Seconds that its last run took; before the first in its tier what is known of that."""
        self.acts_outside = any(segment.calls_python for segment in self.segments) or any(
            op.definition.kernel is None and not op.definition.deterministic and op.definition.effect.kind == "pure"
            for op in self.analysis.order
        )
        """Whether it calls Python functions, or the like: nobody knows how long these take."""
        self._arranging = threading.RLock()

    # ------------------------------------------------------------------------------------------------------ structure
    def _refuse_unfed(self) -> None:
        for op in self.analysis.order:
            sources = [op] if self.nested else [op, *(tensor.op for tensor in op._inputs if tensor not in self.fed)]
            for source in sources:
                if source.definition.effect.kind != "feed" or self.fed.issuperset(source._outputs):
                    continue
                if source.role is not Role.ARGUMENT or not self.nested:
                    assert source.definition.host_kernel is not None
                    source.definition.host_kernel(kernels.HostContext(source), (), source._attrs)

    @functools.cached_property
    def consumers(self) -> dict[ValueKey, list[Operation]]:
        """Who uses each value of the step."""
        consumers: dict[ValueKey, list[Operation]] = {}
        for op in self.analysis.order:
            for key in self.sources(op):
                if key is not None:
                    consumers.setdefault(key, []).append(op)
        return consumers

    @functools.cached_property
    def lent_reads(self) -> frozenset[Operation]:
        """Reads of variables that need no copy."""
        return hosting.lent_reads(self)

    @functools.cached_property
    def fetch_keys(self) -> tuple[ValueKey | None, ...]:
        """The value of each fetch; None for an operation."""
        last = self.segments[-1]
        keys: list[ValueKey | None] = []
        for fetch in self.fetches:
            maker = self.final_reads.get(fetch) if isinstance(fetch, Tensor) else None
            if maker is not None:
                keys.append(last.written.get(maker) or StateKey(maker, last.index, 0))
            else:
                keys.append(fetch if isinstance(fetch, Tensor) else None)
        return tuple(keys)

    def sources(self, op: Operation) -> tuple[ValueKey | None, ...]:
        """Where each input of ``op`` comes from; None for a resource whose old value it does not read."""
        return self._sources[op]

    def start(self, feeds: Sequence[Any]) -> dict[ValueKey, Any]:
        """The values that are there before anything runs: constants, handles and feeds."""
        env: dict[ValueKey, Any] = {}
        env.update(self.constants.items())
        env.update(self.handles.items())
        env.update(zip(self.feeds, feeds, strict=True))
        for key, feed in self.analysis.instead.items():
            env[key] = env[feed]
        return env

    def producer(self, key: ValueKey | None) -> Operation | None:
        """The op of this step that makes a value; None for feeds, constants, handles and committed versions."""
        if key is None:
            return None
        if isinstance(key, StateKey):
            return self.writers.get(key)
        if key in self.fed or key in self.constants or key in self.handles:
            return None
        return key.op

    def rank(self, problem: errors.OpError) -> float:
        """The place of an error's op in the order of effects; that of the op whose body holds it."""
        op = problem._op
        while op is not None and op not in self.analysis.position:
            op = op.body.owner if op.body is not None else None
        return math.inf if op is None else self.analysis.position[op]

    def _make_segments(self) -> list[Segment]:
        analysis = self.analysis
        segments = []
        for index in range(analysis.segments):
            channel = analysis.channels[index] if index < len(analysis.channels) else None
            ops = [
                op
                for op in analysis.order
                if analysis.segment[op] == index
                and op is not channel
                and op.definition.makes is None
                and op.role is not Role.CONSTANT
                and op not in analysis.channels
                and op.definition.effect.kind != "feed"
            ]
            base: dict[Operation, None] = {}
            written: dict[Operation, StateKey] = {}
            for op in [*ops, *([channel] if channel is not None else [])]:
                used = analysis.state_of(op)
                for key in used.seen():
                    if key.index == 0 and key.segment == index:
                        base[key.maker] = None
                for key in used.writes:
                    written[key.maker] = key
            if index == analysis.segments - 1:
                for maker in self.final_reads.values():
                    if maker not in written:
                        base[maker] = None
            segments.append(
                Segment(
                    index,
                    ops,
                    list(base),
                    written,
                    calls_python=any(self.calls_python(op) for op in ops),
                    random_ops=[inner for op in ops for inner in effects.random_ops_of(op)],
                    channel=channel,
                    carried=tuple(key for key in analysis.carried if key.segment == index),
                )
            )
        return segments

    @staticmethod
    def calls_python(op: Operation) -> bool:
        """Whether an op, or one of its bodies, calls Python functions, or may block."""
        within = effects.summary(op)
        if within is not None:
            return within.io or within.may_block
        return op.definition.effect.kind == "io" or op.definition.may_block

    @functools.cached_property
    def device(self) -> Placement:
        """The device of each op; found when something is compiled, since asking for devices starts their runtime."""
        return self.placer.place(self.analysis.order, self._owner, self._used_by)

    def _owner(self, op: Operation) -> Operation | None:
        """What makes the variable that an op takes the handle or reference of."""
        used = self.analysis.state_of(op)
        if used.writes:
            return used.writes[0].maker
        if op.definition.effect.kind == "read":
            return next((key.maker for key in used.seen()), None)
        return None

    def _used_by(self, op: Operation) -> Iterator[Operation]:
        """What makes the values that an op uses: ops, and makers of variables."""
        for key in self.sources(op):
            maker = key.maker if isinstance(key, StateKey) else self.producer(key)
            if maker is not None:
                yield maker

    @functools.cached_property
    def several_devices(self) -> bool:
        """Whether programs run on several devices; then reads stand where their users are."""
        several = waves.are_needed(self)
        if several:
            waves.read_where_used(self)
        return several

    @property
    def sizes_settled(self) -> bool:
        """Whether interpreted runs have shown which sizes change, so that it will not be arranged anew for them."""
        return shape_families.settled(self)

    @functools.cached_property
    def cost(self) -> policy.Cost:
        """What interpreting it costs, and compiling it."""
        return policy.estimate(self)

    @property
    def graph(self) -> Any:
        """The graph of its ops."""
        return (self.analysis.order or self.fetches)[0].graph  # what is fed alone needs no op

    # ---------------------------------------------------------------------------------------------------- arrangement
    def arrange(self, tier: str) -> None:
        """Fill the segments' items for a tier. Steps that run meanwhile go on with the items that they began with."""
        with self._arranging:
            pads = bool(self.varying.batch)
            arranged: list[list[Any]] = [
                arrangement.arrange_segment(self, segment) if tier == "compiled" else self.host_items(segment.ops)
                for segment in self.segments
            ]
            if pads and self.varying.batch and not self._knows_sizes(arranged):
                self.varying.stop_padding("a size is known only behind a program that it would pad")
            if pads and not self.varying.batch:  # what would have to be padded cannot be
                self._forget_apart()
                self.arrange(tier)
                return
            for segment, items in zip(self.segments, arranged, strict=True):
                segment.items = items
            self.arrangements += 1
            self.took = math.inf if tier == "compiled" or self.cost.start else self.cost.run * 1e-6
            self.tier = tier  # last: who sees it finds the items

    def _knows_sizes(self, arranged: Sequence[Sequence[Any]]) -> bool:
        """Whether the sizes that are padded are known before the first program that pads them."""
        missing = {tensor for tensor, _ in self.gives_sizes}.difference(self.feeds)
        for segment, items in zip(self.segments, arranged, strict=True):
            for item in items:
                if not isinstance(item, ProgramItem):
                    missing.difference_update(item.op._outputs)
                elif missing and item.program.batch_axes:
                    return False
                else:
                    missing.difference_update(item.program.outputs)
            if segment.channel is not None:
                missing.difference_update(segment.channel._outputs)
        return True

    def require(self, need: Exception, segment: Segment, items: list[Any]) -> None:
        """Arranges anew for what tracing, or a run, of ``items`` found out. (More room needs no new arrangement.)"""
        if isinstance(need, lowering.CutNeeded):
            self.require_static(need, segment, items)
        elif isinstance(need, lowering.BoundNeeded):
            self.require_bound(need.tensor, segment, items)
        elif isinstance(need, lowering.HostNeeded):
            self.require_host(need.op, segment, items)
        elif isinstance(need, replicas.KeptApart):
            with self._arranging:
                if not self.replicas_apart:
                    self.replicas_apart = True
                    self.arrange(self.tier)
        elif isinstance(need, batches.NotPadded):
            with self._arranging:
                self.varying.stop_padding(need.text)
                self.open_shapes()

    def expect_checks(self, segment: Segment, items: list[Any]) -> None:
        """Arranges anew after a program has made checks that nobody had known of.

        Which ops make them is known once they are traced; if it is not, any program may.
        """
        with self._arranging:
            if segment.items is items:
                if self.unsure:
                    raise errors.InternalError(None, None, "programs whose checks were expected were not to fail")
                self.unsure = self.surprised
                self.surprised = True
                self.arrange(self.tier)

    def require_host(self, op: Operation, segment: Segment, items: list[Any]) -> None:
        """Notes that ``op`` cannot be compiled, and arranges anew; ``items`` are those that met it."""
        with self._arranging:
            if segment.items is items:
                if op in self.on_host:
                    raise errors.InternalError(None, op, f"{op.name!r} was to run on the host and was compiled")
                self.on_host.add(op)
                self.arrange(self.tier)

    def keep_dynamic_on_host(self) -> None:
        """Arranges a nested body anew, with programs that do not depend on shapes that keep changing."""
        with self._arranging:
            if not self.dynamic_on_host:
                self.dynamic_on_host = True
                self.arrange(self.tier)

    def require_bound(self, tensor: Tensor, segment: Segment, items: list[Any]) -> None:
        """Notes that a loop can be compiled once a bound of ``tensor`` is known, and arranges anew."""
        with self._arranging:
            if segment.items is items:
                if tensor in self.required_bounds:
                    raise errors.InternalError(None, tensor.op, f"the bound {tensor.name!r} is still not known")
                self.required_bounds.add(tensor)
                self.arrange(self.tier)

    def require_static(self, need: lowering.CutNeeded, segment: Segment, items: list[Any]) -> None:
        """Notes that a value must be known before its consumer is compiled, and arranges anew.

        ``items`` are those of ``segment`` that asked for it; another step may have had them replaced already. What is
        noted is where the consumer takes the value from: of a variable that is a reference, one of its versions.
        """
        keys: set[ValueKey] = {need.tensor}
        if need.op in self._sources:
            # What bodies of the op read of references comes after its inputs.
            pairs = zip(need.op._inputs, self.sources(need.op), strict=False)
            keys = {key for tensor, key in pairs if tensor is need.tensor and key is not None}
        with self._arranging:
            if segment.items is not items:
                return
            if keys <= self.required_static:
                raise errors.InternalError(
                    None,
                    need.tensor.op,
                    f"{need.tensor.name!r} is still not known at compile time after the step was cut there",
                )
            self.required_static |= keys
            self.arrange(self.tier)

    def runs_on_host(self, op: Operation) -> bool:
        """Whether an op cannot be part of a program."""
        if op in self.host_slices or op in self.on_host or op in self.host_lists:
            return True
        if op in self.apart:
            return True
        varies = self.dynamic_on_host and any(program_groups.may_vary(tensor) for tensor in (*op._inputs, *op._outputs))
        if varies and op.definition.effect.kind != "body":
            return True
        return self.needs_host(op)

    def needs_host(self, op: Operation) -> bool:
        """Whether an op cannot be part of a program for what it is."""
        return hosting.needs_host(op, self.sources(op), self.fed, self.constants)

    @functools.cached_property
    def apart(self) -> frozenset[Operation]:
        """Ops that shapes reach which change from run to run; see :mod:`anabranch.runtime.plans.shape_families`."""
        return shape_families.reached(self)

    @functools.cached_property
    def apart_cost(self) -> policy.Cost:
        """What interpreting these ops costs, and compiling them."""
        return policy.estimate(self, self.apart)

    def note_known(self, key: ValueKey, value: Any) -> None:
        """A value that a program gives was known when it was traced."""
        if value.size <= shape_families.MOST_VALUES and value.dtype.kind in "iu":
            self.small_integers.add(key)

    def compile_time_inputs(self, item: ProgramItem) -> Sequence[int]:
        """Positions of a program's inputs whose values are part of what it is compiled for."""
        integers = self.small_integers
        if not integers:
            return item.static
        return *item.static, *[i for i, key in enumerate(item.program.inputs) if key in integers]

    @property
    def gives_sizes(self) -> list[tuple[Tensor, int]]:
        """For each of the sizes that are padded a value, and its dimension, of that size."""
        found: dict[int, tuple[Tensor, int]] = {}
        for tensor, axes in self.varying.batch.items():
            for axis, which in axes.items():
                found.setdefault(which, (tensor, axis))
        return [found[which] for which in range(len(found))]

    def batch_size(self, env: dict[ValueKey, Any]) -> sizes.Size:
        """How many rows the batch of a step has, or the two sizes that change in it; empty if none is padded, or what
        says so is not there yet.
        """
        giving = self.gives_sizes
        if not all(tensor in env for tensor, _ in giving):
            return ()
        return tuple([int(env[tensor].shape[axis]) for tensor, axis in giving])

    @property
    def looks_anew(self) -> bool:
        """Whether the next interpreted run is to show all values once more: what was compiled no longer fits."""
        return bool(self.misfits) and self.observed is None and self.ahead is None and self.tier == "interpreted"

    @property
    def compiles_further(self) -> bool:
        """Whether a program is compiled for one more capacity: until then its ops and bodies are interpreted."""
        return bool(self.further) and not all(further.done for further in self.further.values())

    def _forget_apart(self) -> None:
        for name in ("apart", "apart_cost"):
            self.__dict__.pop(name, None)

    def open_shapes(self) -> None:
        """Arranges anew for shapes that have been found to change."""
        with self._arranging:
            self._forget_apart()
            if self.tier == "compiled":
                self.arrange(self.tier)

    @functools.cached_property
    def host_lists(self) -> frozenset[Operation]:
        """Ops on lists that stay on the host."""
        return hosting.host_lists(self)

    host_slices: frozenset[Operation] = frozenset()
    """Ops of the segment that is being arranged which run on the host for a value that must be known."""

    def host_items(self, ops: Iterable[Operation]) -> list[HostItem]:
        """The items of ops that run on the host."""
        return [HostItem(op, self.sources(op), self.analysis.state_of(op).writes) for op in ops]

    def is_fetched(self, op: Operation) -> bool:
        """Whether a run returns a value of an op, or has it run for itself."""
        return op in self.fetched or any(output in self.fetched for output in op._outputs)

    def take_from(self, op: Operation, sources: tuple[ValueKey | None, ...]) -> None:
        """Say where the inputs of an op come from."""
        self._sources[op] = sources
        self.__dict__.pop("consumers", None)

    def view(self, body: Body, outputs: tuple[Tensor, ...]) -> state.BodyView:
        """What runs of a nested body for some of its outputs."""
        key = (body, outputs)
        return self._views.get_or_make(key, lambda: state.BodyView(body, self.analysis.variables, outputs))

    # -------------------------------------------------------------------------------------------------------- reporting
    @property
    def caches(self) -> list[Listed]:
        """The caches that it owns, and those of its programs."""
        programs = [
            item.program for segment in self.segments for item in segment.items if isinstance(item, ProgramItem)
        ]
        return [self._views, *(cache for program in programs for cache in program.caches)]

    def explain(self) -> str:
        """A text that says what the plan does: segments, programs, host ops, tier and why."""
        return explaining.explain(self)


def tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among fetches."""
    return [value for value in values if isinstance(value, Tensor)]
