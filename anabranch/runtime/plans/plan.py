"""A plan: what running certain fetches with certain feeds means, arranged into segments and, inside them, into items.

An item is one op that runs on the host, or a group of ops compiled to one XLA program. Inside a segment, ops are put
into layers: host ops on odd ones, device ops on even ones, each as late as its consumers allow, so that whatever can be
one program is one program, and the last program of the segment holds the writes. An input that XLA must know at
compile time and that is not known then is computed in an earlier layer (its cheap ancestors on the host).
"""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

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
from anabranch.placement.devices import Device
from anabranch.placement.placer import Placement, Placer
from anabranch.rewrite import effects, reach, state
from anabranch.runtime.plans import epilogue, explaining, hosting, layers, policy, shape_families, waves
from anabranch.runtime.state.resources import ResourceHandle
from anabranch.xla import batches, engine, lowering
from anabranch.xla import program as programs

MOST_VIEWS = 4096
"""Views of bodies that a plan keeps: enough for each body that it holds, for some sets of outputs."""
MAX_HOST_SLICE = 4096
"""Elements up to which a value that must be known at compile time is computed on the host."""


@dataclasses.dataclass
class HostItem:
    """One op on the host."""

    op: Operation
    sources: tuple[ValueKey | None, ...]
    writes: tuple[StateKey, ...]
    wave: ClassVar[int] = -1


@dataclasses.dataclass(eq=False)
class ProgramItem:
    """A group of ops as one XLA program. ``static`` are the inputs whose values are part of the program's key."""

    program: programs.Program
    static: tuple[int, ...]
    outputs: tuple[ValueKey, ...]
    writes: tuple[StateKey, ...]
    """Versions that the program makes and that others need."""
    settled: bool = False
    """Whether the shapes of all inputs follow from the plan and the state's layout, so that one executable serves."""
    refused: str = ""
    """Why its ops were interpreted when it ran last, if they were: what tracing met."""
    bug: Any = None
    """The :class:`~anabranch.core.contract.faults.KernelBug` that tracing has met, if it was interpreted for that."""
    bounds: tuple[int, ...] = ()
    """Inputs of whose values a bound is part of the program's key."""
    cached: Any = None
    wave: int = -1
    """Programs of one wave, on several devices, are dispatched before any of them is waited for."""
    goes_last: bool = False
    """Whether it is called only when the checks of the others of its wave have passed."""
    must_not_fail: bool = False
    """Whether others of its wave own buffers: it has no checks, as far as is known."""


@dataclasses.dataclass
class Segment:
    """Everything between two channel ops: atomic."""

    index: int
    ops: list[Operation]
    base_reads: list[Operation]
    """Makers of the variables whose committed version the segment needs."""
    written: dict[Operation, StateKey]
    """Maker -> the version to commit."""
    calls_python: bool
    random_ops: list[Operation]
    channel: Operation | None
    carried: tuple[StateKey, ...] = ()
    """Committed versions whose values its channel op, or later segments, see."""
    items: list[Any] = dataclasses.field(default_factory=list)


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
        self._fetched = frozenset(fetches)
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
        self.required_static: set[Tensor] = set()
        self.required_bounds: set[Tensor] = set()
        """Integers that bound how often a loop runs: known, rounded up, when the loop is compiled."""
        self._views: Cache[Any, state.BodyView] = Cache("views of bodies", MOST_VIEWS)
        self.live: dict[Operation, tuple[int, ...]] = {}
        self.accepted: dict[Operation, tuple[Any, ...]] = {}
        """Shapes of operands that the op's shape rule has accepted when the op last ran on the host."""
        """The outputs of ops with bodies that somebody uses; see ``nested.live_outputs``."""
        self.surprised = False
        """Whether a program has turned out to make checks that were not known of."""
        self.unsure = False
        """Whether that was so although all its ops had been traced: then any program may."""
        self.dynamic_on_host = False
        """Whether ops with shapes that are known only in a run stay on the host, so that programs serve all runs."""
        self.on_host: set[Operation] = set()
        """Ops that turned out not to be compilable with the shapes of this plan."""
        self.constants: dict[Tensor, np.ndarray] = {
            op._outputs[0]: op._attrs["value"]
            for op in self.analysis.order
            if op.role is Role.CONSTANT and op._outputs[0] not in self.fed
        }
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
                maker = reach.maker_of(tensor)
                self.makers.setdefault(handle_of(maker), maker)
        self._sources = {op: self.analysis.sources(op) for op in self.analysis.order}
        self._writer: dict[StateKey, Operation] = {
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
        """Seconds that interpreted runs have taken."""
        self.observed: dict[ValueKey, Any] | None = None
        """What the values of an interpreted run look like."""
        self.ahead: Any = None
        """Its programs, while they are compiled beside its interpreted runs; see ``plans/ahead.py``."""
        self.awaits_ahead = False
        """Whether the next run is to wait for them."""
        self.looked = False
        """Whether it has been asked if its programs are there already."""
        self.only_stored = False
        """Whether it runs compiled only if they are."""
        self.straight: Any = None
        """Of a nested plan, the code that runs it faster than op by op; see ``nested.BodyPlans``."""
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
            return self._writer.get(key)
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

    @functools.cached_property
    def cost(self) -> policy.Cost:
        """What interpreting it costs, and compiling it."""
        return policy.estimate(self)

    @property
    def graph(self) -> Any:
        """The graph of its ops."""
        return self.analysis.order[0].graph

    # ---------------------------------------------------------------------------------------------------- arrangement
    def arrange(self, tier: str) -> None:
        """Fill the segments' items for a tier. Steps that run meanwhile go on with the items that they began with."""
        with self._arranging:
            pads = bool(self.varying.batch)
            arranged: list[list[Any]] = [
                self._arrange_segment(segment) if tier == "compiled" else self.host_items(segment.ops)
                for segment in self.segments
            ]
            if pads and not self.varying.batch:  # what would have to be padded cannot be
                self._forget_apart()
                self.arrange(tier)
                return
            for segment, items in zip(self.segments, arranged, strict=True):
                segment.items = items
            self.arrangements += 1
            self.took = math.inf if tier == "compiled" or self.cost.start else self.cost.run * 1e-6
            self.tier = tier  # last: who sees it finds the items

    def require(self, need: Exception, segment: Segment, items: list[Any]) -> None:
        """Arranges anew for what tracing, or a run, of ``items`` found out. (More room needs no new arrangement.)"""
        if isinstance(need, lowering.CutNeeded):
            self.require_static(need.tensor, segment, items)
        elif isinstance(need, lowering.BoundNeeded):
            self.require_bound(need.tensor, segment, items)
        elif isinstance(need, lowering.HostNeeded):
            self.require_host(need.op, segment, items)
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

    def require_static(self, tensor: Tensor, segment: Segment, items: list[Any]) -> None:
        """Notes that ``tensor`` must be known before its consumer is compiled, and arranges anew.

        ``items`` are those of ``segment`` that asked for it; another step may have had them replaced already.
        """
        with self._arranging:
            if segment.items is not items:
                return
            if tensor in self.required_static:
                raise errors.InternalError(
                    None, tensor.op, f"{tensor.name!r} is still not known at compile time after the step was cut there"
                )
            self.required_static.add(tensor)
            self.arrange(self.tier)

    def _known_before(self, op: Operation, position: int) -> bool:
        """Whether an input must be there before the program of ``op`` is compiled."""
        if position >= len(op._inputs):
            return False
        tensor = op._inputs[position]
        return tensor in self.required_static or (
            tensor in self.required_bounds and op.definition.effect.kind == "body"
        )

    def runs_on_host(self, op: Operation) -> bool:
        """Whether an op cannot be part of a program."""
        if op in self._host_slices or op in self.on_host or op in self._host_lists:
            return True
        if op in self.apart:
            return True
        varies = self.dynamic_on_host and any(_may_vary(tensor) for tensor in (*op._inputs, *op._outputs))
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

    def batch_size(self, env: dict[ValueKey, Any]) -> int:
        """How many rows the batch of a step has."""
        for tensor, axes in self.varying.batch.items():
            return int(env[tensor].shape[axes[0]])
        return 0

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
    def _host_lists(self) -> frozenset[Operation]:
        """Ops on lists that come from, or go to, another execution of a body: there they stay lists of the host."""
        if not self.nested:
            return frozenset()
        variants = {tensor for tensor in (*self.feeds, *self._fetched) if isinstance(tensor, Tensor)}
        stack = [tensor for tensor in variants if tensor.dtype.base is dtypes.variant]
        seen: set[Tensor] = set(stack)
        on_lists: set[Operation] = set()
        inside = set(self.analysis.order)
        while stack:
            tensor = stack.pop()
            for op in (tensor.op, *tensor._consumers):
                if op not in inside:
                    continue
                on_lists.add(op)
                for other in (*op._inputs, *op._outputs):
                    if other.dtype.base is dtypes.variant and other not in seen:
                        seen.add(other)
                        stack.append(other)
        return frozenset(on_lists)

    _host_slices: frozenset[Operation] = frozenset()

    def _find_host_slices(self, segment: Segment) -> frozenset[Operation]:
        """Cheap ops before a value that must be known: they run on the host instead of in a program of their own."""
        slices: set[Operation] = set()
        self._host_slices = frozenset()
        inside = set(segment.ops)
        needed = (*self.required_static, *self.required_bounds)
        stack = [tensor.op for tensor in needed if self.producer(tensor) is not None]
        while stack:
            op = stack.pop()
            definition = op.definition
            if (
                op in slices
                or op not in inside
                or definition.is_stateful
                or kernels.needs_lax(definition)
                or self.runs_on_host(op)
            ):
                continue
            sizes = [shapes.num_elements(output._shape) for output in op._outputs]
            if any(
                (size is None and output._shape is not None and len(output._shape) > 1) or (size or 0) > MAX_HOST_SLICE
                for size, output in zip(sizes, op._outputs, strict=True)
            ):
                continue
            makers = [self.producer(key) for key in self.sources(op)]
            if definition.shape_only and any(maker is not None for maker in makers):
                continue  # known while its input's program is traced; the input itself need not come to the host
            if any((shapes.num_elements(tensor._shape) or 0) > MAX_HOST_SLICE for tensor in op._inputs):
                continue
            slices.add(op)
            stack.extend(maker for maker in makers if maker is not None)
        return frozenset(slices)

    def _arrange_segment(self, segment: Segment) -> list[Any]:
        several = self.several_devices
        self._host_slices = self._find_host_slices(segment)
        ops = [op for op in segment.ops if op.role is not Role.ORDERING]  # whose control edges are followed
        inside = set(ops)
        on_host = {op: self.runs_on_host(op) for op in ops}
        parents: dict[Operation, list[tuple[Operation, bool]]] = {}
        children: dict[Operation, list[tuple[Operation, bool]]] = {op: [] for op in ops}
        last_io: Operation | None = None
        before: dict[Operation, tuple[Operation, ...]] = {}
        for op in segment.ops:
            firsts = [(first,) if first in inside else before.get(first, ()) for first in op._control_inputs]
            before[op] = tuple(dict.fromkeys(first for group in firsts for first in group))
        for op in ops:
            links: dict[Operation, bool] = {}
            for position, key in enumerate(self.sources(op)):
                maker = self.producer(key)
                if maker in inside and maker is not None:
                    links[maker] = links.get(maker, False) or self._known_before(op, position)
            for first in before[op]:
                if on_host[first] or on_host[op] or self.device[first] == self.device[op]:
                    links.setdefault(first, False)  # else all effects of both commit together, in any order
            if self.analysis.kind[op] == "io" or self.calls_python(op):
                if last_io is not None:
                    links.setdefault(last_io, False)
                last_io = op
            parents[op] = list(links.items())
            for maker, static in parents[op]:
                children[maker].append((op, static))

        def apart(maker: Operation, child: Operation, static: bool) -> bool:
            """Whether two device ops must be in different programs."""
            return static or self.device[maker] != self.device[child]

        def early(op: Operation) -> bool:
            return self.analysis.kind[op] == "pure" and not self.calls_python(op)

        order = layers.Ordering(parents, children, on_host, apart, early)
        if several:
            return waves.arrange(self, segment, waves.without_unused(self, ops, order), order)
        waiting = epilogue.find(self, ops, on_host, parents, children)
        later = frozenset(waiting)
        rows = layers.of_one_device([op for op in ops if op not in later], order)
        items: list[Any] = []
        for row in rows:
            if row.on_host:
                items += self.host_items(row.ops)
            else:
                final = row is rows[-1]
                device = self.device[row.ops[0]]
                items.append(self.make_program(segment, row.ops, device, final, waiting if final else ()))
        return [*items, *(HostItem(op, self.sources(op), ()) for op in waiting)]

    def host_items(self, ops: Iterable[Operation]) -> list[HostItem]:
        """The items of ops that run on the host."""
        return [HostItem(op, self.sources(op), self.analysis.state_of(op).writes) for op in ops]

    def may_donate(self, segment: Segment) -> bool:
        """Whether the last programs of a segment may own the buffers of variables."""
        return not segment.calls_python and not self.options.recoverable and self.shapes_certain(segment)

    def is_fetched(self, op: Operation) -> bool:
        """Whether a run returns a value of an op, or has it run for itself."""
        return op in self._fetched or any(output in self._fetched for output in op._outputs)

    def take_from(self, op: Operation, sources: tuple[ValueKey | None, ...]) -> None:
        """Say where the inputs of an op come from."""
        self._sources[op] = sources
        self.__dict__.pop("consumers", None)

    def make_program(
        self, segment: Segment, group: list[Operation], device: Device, final: bool, waiting: Sequence[Operation] = ()
    ) -> ProgramItem:
        """A program; one after which nothing can fail is *final*, and given the ops that wait for it, whose checks it
        makes.
        """
        inside = set(group)
        constants = {
            key.op
            for op in group
            for key in self.sources(op)
            if not isinstance(key, StateKey) and key in self.constants
        }
        group = sorted(constants, key=lambda op: op._id) + group
        values: list[ValueKey] = []
        for op in group:
            values += [*op._outputs, *self.analysis.state_of(op).writes]
        consumers_outside = {
            key for key in values if key in self._fetched or not inside.issuperset(self.consumers.get(key, ()))
        }
        sources = {op: self._sources[op] for op in group}
        writes = {op: self.analysis.state_of(op).writes for op in group}
        outputs: list[ValueKey] = [
            output
            for op in group
            if op not in constants
            for output in op._outputs
            if output in consumers_outside and output not in self.fed and not (output.dtype.is_ref and writes[op])
        ]
        group_outputs = [key for op in group for key in writes[op]]
        donated: dict[StateKey, StateKey] = {}
        kept: list[StateKey] = []
        may_donate = final and self.may_donate(segment)
        for key in group_outputs:
            is_final = segment.written[key.maker] == key
            base = StateKey(key.maker, segment.index, 0)
            whole_chain = all(
                self._writer[StateKey(key.maker, segment.index, i)] in inside for i in range(1, key.index + 1)
            )
            first = self._writer[StateKey(key.maker, segment.index, 1)]
            if is_final and may_donate and whole_chain and first.definition.effect.reads:
                donated[base] = key
            elif is_final or key in consumers_outside:
                kept.append(key)
        for key in group_outputs:
            if key in consumers_outside and key not in kept and key not in donated.values():
                kept.append(key)
        checked = tuple(op for op in waiting if op.definition.checks is not None)
        for op in checked:
            sources[op] = tuple(
                key if isinstance(key, Tensor) and not key.dtype.base.host_only else None for key in self.sources(op)
            )
        program = programs.Program(
            programs.ProgramOps(
                tuple(group),
                sources,
                writes,
                self.analysis.position,
                self.fed,
                self._view,
                tuple(dict.fromkeys(inner for op in group for inner in effects.random_ops_of(op))),
                frozenset(self.analysis.awaited.intersection(output for op in group for output in op._outputs)),
                checked,
            ),
            [*outputs, *kept],
            donated,
            device.platform,
            device=None if engine.is_default(device) else device,
            precision=self.options.precision,
            sizes_change=self.nested or self.dynamic_on_host or bool(self.varying.open),
        )
        if not self.varying.batch:
            program.open_axes.update(shape_families.open_axes(self, program.inputs))
        if self.dynamic_on_host:
            program.open_axes = {
                i: tuple(axis for axis, size in enumerate(key._shape) if size is None)
                for i, key in enumerate(program.inputs)
                if isinstance(key, Tensor) and key._shape is not None and _may_vary(key)
            }
        bounds = tuple(i for i, key in enumerate(program.inputs) if key in self.required_bounds)
        static = tuple(
            i
            for i, key in enumerate(program.inputs)
            if key in self.required_static
            or (
                not isinstance(key, StateKey)
                and (key in self.handles or (key.dtype.base.host_only and key.dtype.base is not dtypes.variant))
            )
        )
        if self.varying.batch:
            needed = [i for i in (*static, *bounds) if program.inputs[i] not in self.handles]
            axes = shape_families.batch_axes(self, program.inputs, needed)
            program.batch_axes = {i: batch for i, batch in axes.items() if i not in program.open_axes}
        settled = (
            not static
            and not bounds
            and not self.nested
            and all(
                self.producer(key) is None
                and key not in self.varying.open
                and not (isinstance(key, StateKey) and key.segment != segment.index)
                for key in program.inputs
            )
        )
        return ProgramItem(program, static, tuple(outputs), tuple(kept), settled, bounds=bounds)

    def _view(self, body: Body, outputs: tuple[Tensor, ...]) -> state.BodyView:
        """What runs of a nested body for some of its outputs."""
        key = (body, outputs)
        return self._views.get_or_make(key, lambda: state.BodyView(body, self.analysis.variables, outputs))

    def shapes_certain(self, segment: Segment) -> bool:
        """Whether no value that replaces a variable can turn out to have a wrong shape once buffers are given away."""
        for maker, key in segment.written.items():
            writer = self._writer[key]
            if writer.definition.effect.reads:
                continue
            value = writer._inputs[-1]
            if not shapes.is_static(value._shape) or not shapes.is_compatible(value._shape, maker._attrs["shape"]):
                return False
        return True

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


def _may_vary(tensor: Tensor) -> bool:
    """Whether the shape of an array is not fully known before the step runs."""
    return tensor.dtype.base.np is not None and not tensor.dtype.is_ref and not shapes.is_static(tensor._shape)


def tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among fetches."""
    return [value for value in values if isinstance(value, Tensor)]
