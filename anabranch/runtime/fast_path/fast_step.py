"""The fast path: steps of which everything that does not change from run to run is decided once.

A plan that is compiled, or has nothing that could be, and has run leaves for each of its segments a *form*: the
programs with the executables that served, where each argument, each result and each fetch is, which variables are
read, owned, written. A later run of the plan keeps its values in one list, in which each has a fixed place, and goes
through the stages of :mod:`anabranch.runtime.step` for each segment, and through the channel ops between them (a
dequeue is one kernel call, whose outputs are bound like feeds). Host ops that only compute (summaries at the end of a
step) are kernel calls, too.

What may still differ is asked for: whether the layout of the variables holds; whether what other segments or host ops
give has the shapes that the executables are for. There are forms for several such shapes; where none fits the step goes
on by the executor, from the segment that it has come to, and leaves a form. Nothing else does: a plan with a Python
function, with ops with bodies on the host, or with values that must be known when a program is compiled runs by the
executor alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.cache import Cache
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.state_key import ValueKey
from anabranch.core.values import dtypes
from anabranch.runtime import computed_segments
from anabranch.runtime.attempt import Attempt
from anabranch.runtime.fast_path.form import Form, Unfit
from anabranch.runtime.fast_path.items import Empty, HostOp, sources_of, stored_outputs
from anabranch.runtime.plans import program_groups
from anabranch.runtime.plans.items import HostItem, ProgramItem, Segment
from anabranch.runtime.runner import Runner
from anabranch.runtime.step import Step

MAX_FORMS = 8
"""Forms of a segment that are kept, for values of different shapes."""
MAX_FORMS_MADE = 64
"""After this many a segment makes no more: its shapes hardly come back."""
MOST_OVERRUNS = 3
"""After a step ran so often twice, since its loops took long, it runs on a thread of its own."""
JUDGED_EVERY = 16
"""Runs after which it is asked whether the forms of segments that only compute are worth it."""
MAX_REFUSALS = 4
"""After a segment went so often in a way that has no form, it is taken to go on like that."""


class FastStep:
    """A plan on the fast path; :func:`of` makes it."""

    def __init__(self, runner: Runner) -> None:
        plan = runner.plan
        self.runner = runner
        self.arrangement = plan.arrangements
        needed: set[ValueKey | None] = set(plan.fetch_keys)
        for segment in plan.segments:
            for item in segment.items:
                needed.update(item.program.inputs if isinstance(item, ProgramItem) else item.sources)
            if segment.channel is not None:
                needed.update(plan.sources(segment.channel))
        self.places: dict[ValueKey, int] = {}
        self.given: list[Any] = []
        """Constants and handles."""
        for tensor in plan.feeds:
            self.places[tensor] = len(self.places)
        for key, value in (*plan.constants.items(), *plan.handles.items()):
            if key in needed and key not in self.places:
                self.places[key] = len(self.places)
                self.given.append(value)
        self._count = len(self.places)
        self.stages: list[_Stage] = []
        self.limited = False
        """Whether programs of it have loops that may last, see :mod:`anabranch.xla.loops.loop_limits`."""
        self.apart = plan.acts_outside
        """Whether it is to run on a thread of its own in any case."""
        self._overran = 0
        self.computed: list[computed_segments.ComputedSegment] = []
        """The forms of the segments, if they only compute and draw between channel ops."""
        self._unjudged = 0
        """Runs before these are next asked whether they are worth it."""
        computes = computed_segments.serve(plan)
        for segment in plan.segments:
            inputs = [
                key
                for item in segment.items
                if isinstance(item, ProgramItem)
                for i, key in enumerate(item.program.inputs)
                if isinstance(key, Tensor) and key in self.places and self.places[key] >= self._given_until
                if i not in item.program.batch_axes
            ]
            form = None
            if computes:
                form = computed_segments.ComputedSegment(runner, segment, self.places)
                form.places = [self.places[key] for key in form.inputs]
                self._give_places(form.outputs)
                self.computed.append(form)
            for item in segment.items if form is None else ():
                self._give_places(
                    (*item.program.outputs, *item.program.donated.values())
                    if isinstance(item, ProgramItem)
                    else stored_outputs(plan, item.op)
                )
            channel = None
            if segment.channel is not None:
                channel = HostOp(runner, segment.channel, sources_of(self.places, plan.sources(segment.channel), {}))
                self._give_places(stored_outputs(plan, segment.channel))
            self.stages.append(_Stage(segment, [self.places[key] for key in dict.fromkeys(inputs)], channel, form))
        if self.computed:
            self.computed[-1].fetches = [None if key is None else self.places[key] for key in plan.fetch_keys]
        for version, feed in plan.analysis.instead.items():
            self.places[version] = self.places[feed]

    @property
    def _given_until(self) -> int:
        return len(self.runner.plan.feeds) + len(self.given)

    def _give_places(self, keys: Sequence[ValueKey]) -> None:
        for key in keys:
            self.places[key] = self._count
            self._count += 1

    # ------------------------------------------------------------------------------------------------------------- runs
    def run(
        self, feeds: Sequence[Any], token: CancellationToken, read_committed: bool, shared: bool = False
    ) -> list[Any] | None:
        """The step's results; None if it must go by the executor.

        Args:
            feeds: a value per feed.
            token: the step's.
            read_committed: whether what is only read is not claimed.
            shared: whether results may stay on their device: the caller writes to none of them.
        """
        values = [*feeds, *self.given]
        stages = self.stages
        if len(stages) == 1:
            form = stages[0].form(values)
            return None if form is None else form.run(values, token, read_committed, shared)
        fetched: list[Any] | None = None
        for stage in stages:
            channel_done = False
            token.reached = stage.segment, False
            try:
                if stage.index:
                    token.raise_if_cancelled()
                form = stage.form(values)
                fetched = form.run(values, token, read_committed, shared) if form is not None else None
                if fetched is None:
                    break
                if stage.channel is not None:
                    channel_done = True
                    token.reached = stage.segment, True
                    token.raise_if_cancelled()
                    stage.channel.run(values, (), token)
            except errors.OpError as problem:
                self.runner.tell_what_stands(problem, stage.segment, channel_done)
                raise
        if self.computed:
            self._unjudged -= 1
            if fetched is None or self._unjudged < 0:
                self._judge()
        if fetched is not None or not stage.index:
            return fetched
        env = self.runner.plan.start(feeds)
        for key, place in self.places.items():
            if isinstance(key, Tensor) and place < len(values):
                env[key] = values[place]
        return self.runner.run_from(stage.index, env, Step(self.runner.manager, token, read_committed))

    def _judge(self) -> None:
        """Leave the choice of a tier to the policy again if what its segments compute is not worth their forms."""
        self._unjudged = JUDGED_EVERY
        if not all(form.is_worth_it for form in self.computed):
            self.runner.plan.only_feeds_channels, self.arrangement = False, -1

    @property
    def in_one(self) -> Form | None:
        """The form of a step that is one program, whatever comes."""
        if len(self.stages) > 1 or self.stages[0].guards:
            return None
        form = self.stages[0].form(())
        if form is None or len(form.items) != 1 or form.padded:
            return None
        return form if form.items[0] is form.last else None

    @property
    def caches(self) -> list[Cache[Any, Form]]:
        """The caches that it owns."""
        return [stage.forms for stage in self.stages if stage.guards]

    @property
    def has_forms(self) -> bool:
        """Whether a step that goes this way comes beyond its first segment."""
        return self.stages[0].fixed or self.stages[0].forms_made > 0

    def learn(self, attempts: Sequence[Attempt]) -> None:
        """Make the forms that are missing from how segments went by the executor."""
        for attempt in attempts:
            stage = self.stages[attempt.segment.index]
            if not stage.learns or not attempt.state.layout.holds:
                continue
            signature = stage.signature_of([attempt.env.get(key) for key in self._keys(stage.guards)])
            if signature is None or any(
                isinstance(item, ProgramItem) and item not in attempt.used for item in attempt.segment.items
            ):
                continue
            try:
                form = Form(self.places, attempt)
            except Unfit:
                stage.refused += 1
                continue
            stage.keep(signature, form)
            for budget in form.budgets:
                self.limited = True
                self.apart |= (
                    not budget or len(self.stages) > 1
                )  # a step in its caller's thread may have to be repeated

    def overran(self) -> None:
        """Notes that loops had not enough with what they may take in the thread of a caller."""
        self._overran += 1
        self.apart |= self._overran >= MOST_OVERRUNS

    def _keys(self, places: Sequence[int]) -> list[ValueKey]:
        wanted = set(places)
        by_place = {place: key for key, place in self.places.items() if place in wanted and isinstance(key, Tensor)}
        return [by_place[place] for place in places]


class _Stage:
    """A segment and the channel op behind it."""

    def __init__(self, segment: Segment, guards: list[int], channel: HostOp | None, form: Any = None) -> None:
        self.segment = segment
        self.index = segment.index
        self.guards = guards
        """Places of values from other stages that programs of this one take."""
        self.channel = channel
        if form is None and not segment.items and not segment.written and channel is not None:
            form = Empty()
        self.fixed = form is not None
        """Whether its form is there from the beginning."""
        self.forms_made = 0
        self.refused = 0
        """How often it went in a way that has no form."""
        self._only: Any = form
        self.forms: Cache[Any, Form] = Cache("forms of segments", MAX_FORMS)
        """Where there are guards, the form for each signature."""

    @property
    def learns(self) -> bool:
        """Whether a form more may be worth its making."""
        return not self.fixed and self.refused < MAX_REFUSALS and (not self.guards or self.forms_made < MAX_FORMS_MADE)

    def form(self, values: Sequence[Any]) -> Any:
        """The form for the values that there are; None if there is none."""
        if not self.guards:
            return self._only
        return self.forms.get(self.signature_of([values[place] for place in self.guards]))

    @staticmethod
    def signature_of(values: Sequence[Any]) -> Any:
        """What forms are told apart by; None if they are not for such values."""
        try:
            return tuple([value.shape for value in values])
        except AttributeError:
            return None

    def keep(self, signature: Any, form: Form) -> None:
        """Keep a form for values like those that it was made from."""
        self.forms_made += 1
        known = self.forms.get(signature) if self.guards else self._only
        if known is not None:
            form.adopt(known)
        if not self.guards:
            self._only = form
            return
        self.forms.put(signature, form)


def of(runner: Runner) -> FastStep | None:
    """The plan of ``runner`` on the fast path, or None if it has something that does not go there."""
    plan = runner.plan
    computes = computed_segments.serve(plan)
    if plan.nested or plan.dynamic_on_host or plan.analysis.carried or runner.shared:
        return None
    if plan.varying.open and not computes and (not plan.varying.batch or plan.varying.looks_again):
        return None
    for segment in plan.segments:
        if segment.calls_python or not program_groups.shapes_certain(plan, segment):
            return None
        channel = segment.channel
        if channel is not None and (
            channel.definition.effect.kind == "body"
            or plan.analysis.state_of(channel).reads
            or any(key is not None and not isinstance(key, Tensor) for key in plan.sources(channel))
        ):
            return None
        for item in segment.items if not computes else ():
            fits = _host_op_fits(item) if isinstance(item, HostItem) else _program_fits(item)
            if not fits:
                return None
    return FastStep(runner)


def _host_op_fits(item: HostItem) -> bool:
    definition = item.op.definition
    return (
        definition.effect.kind in ("pure", "read")
        and not definition.effect.presence
        and not definition.allows_uninitialized
        and not item.writes
    )


def _program_fits(item: ProgramItem) -> bool:
    program = item.program
    return not item.bounds and not any(
        isinstance(key, Tensor) and key.dtype.base is dtypes.variant for key in program.inputs
    )
