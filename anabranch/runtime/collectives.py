"""Steps with collective ops, with what the members of a collective compute together in their place.

Policy. Members of a meeting (:mod:`anabranch.core.contract.meetings`) are found in the whole graph, not only among what
a step needs: any of them may be fetched without the others. The step's part of the graph, with all members, is built
again in a graph of its own, as if it had travelled (:mod:`anabranch.runtime.portable_plan`: the same names, order of
effects and lines of the program). There each member is replaced by the op that takes the values of all. Members bring
their values in the order of their devices, as TensorFlow ranks them, and of their creation where these are the same. A
graph that was imported twice has twice as many members of a key: they meet in the order of their creation.

What members on several devices then compute is the same op on the same inputs, which is one collective to the compiled
tier. Members that are not in the graph are in those of other tasks of a cluster: what the members here have is brought
to the first worker, and what comes back is for all of them (:mod:`anabranch.cluster.company`). Members in the bodies of
functions are not found, and refused by name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from anabranch.core import device as device_names
from anabranch.core import errors
from anabranch.core.contract.meetings import Meeting
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.regions import needed
from anabranch.runtime import portable_plan


class Expansion(NamedTuple):
    """A step without collective ops, and which op of the user's graph each new one stands for."""

    graph: Graph
    fetches: tuple[Tensor | Operation, ...]
    feeds: tuple[Tensor, ...]
    members: dict[Operation, Operation]
    user_graph: Graph

    def user_op(self, op: Any) -> Any:
        """The op of the user's graph behind one of the expansion."""
        member = self.members.get(op)
        if member is not None:
            return member
        if not isinstance(op, Operation) or op.graph is not self.graph or not op.body.is_root:
            return op
        return self.user_graph._by_name.get(op.name, op)


def expanded(fetches: Sequence[Any], feeds: Sequence[Tensor]) -> Expansion | None:
    """The step with its collective ops replaced; None if it needs none."""
    fed = frozenset(feeds)
    roots = [fetch.op if isinstance(fetch, Tensor) else fetch for fetch in fetches if fetch not in fed]
    members = _members(needed(roots, fed))
    if not members:
        return None
    user_graph = members[0].graph
    groups = _groups(user_graph)
    companies: dict[Operation, list[Operation]] = {}
    waiting = list(members)
    while waiting:  # what a member brings may need other collectives
        op = waiting.pop()
        if op in companies:
            continue
        company = _company(op, groups[_meeting(op).key])
        companies.update(dict.fromkeys(company, company))
        waiting += _members(needed(company, fed))
    ops = sorted(companies, key=lambda op: op._id)
    plan = portable_plan.unpack(portable_plan.pack([*fetches, *ops], feeds))
    copies: dict[Operation, Any] = dict(zip(ops, plan.fetches[len(fetches) :], strict=True))
    results: dict[Any, Tensor] = {}
    exchanges: dict[Operation, Tensor] = {}
    for op in ops:
        results[copies[op]] = _replaced(
            plan.graph, copies[op], [copies[other] for other in companies[op]], exchanges, plan.feeds
        )
    new: list[Any] = []
    for fetch in plan.fetches[: len(fetches)]:
        if isinstance(fetch, Tensor):
            new.append(results[fetch.op] if fetch.op in results and fetch not in plan.feeds else fetch)
        else:
            new.append(results[fetch].op if fetch in results else fetch)
    stand_for = {results[copies[op]].op: op for op in ops}
    stand_for |= {exchange.op: op for op in ops if (exchange := exchanges.get(copies[op])) is not None}
    return Expansion(plan.graph, tuple(new), plan.feeds, stand_for, user_graph)


def _exchanged(
    meeting: Meeting, company: Sequence[Operation], values: Sequence[Tensor], feeds: Sequence[Tensor]
) -> Tensor:
    """What becomes of the values of members here and in other tasks."""
    dtype = company[0]._outputs[0].dtype
    if not values:
        own = [convert.constant(dtype.as_numpy_dtype(0), dtype)]
    elif len(values) == 1 and meeting.vectors is not None and values[0] not in feeds:
        own = list(meeting.vectors(values[0]))
    else:
        own = [meeting.combine(values)]
    result: Tensor = build(
        "AnabranchExchange",
        own,
        name=f"{company[0].name}_with_others",
        key=repr(meeting.key),
        how=meeting.how,
        size=meeting.size,
        mine=len(company),
        sends=bool(values),
    )
    return result


def _members(ops: Sequence[Operation]) -> list[Operation]:
    return [op for op in ops if op.definition.meets is not None and op.body.is_root]


def _meeting(op: Operation) -> Meeting:
    assert op.definition.meets is not None
    return op.definition.meets(op)


def _groups(graph: Graph) -> dict[tuple[Any, ...], list[Operation]]:
    """The members of each key, in the order of their creation."""
    groups: dict[tuple[Any, ...], list[Operation]] = {}
    for op in _members(graph.root.operations):
        with contextlib.suppress(errors.UnimplementedError):  # one whose keys nobody knows meets nobody
            groups.setdefault(_meeting(op).key, []).append(op)
    return groups


def _company(op: Operation, alike: Sequence[Operation]) -> list[Operation]:
    """The members that an op meets, itself among them, in the order in which they bring their values."""
    size = _meeting(op).size
    if size < 1:
        raise errors.InvalidArgumentError(
            None,
            op,
            errors.message(
                f"{op.type} {op.name!r} of {size} members", "at least one member", "group_size=, the number of devices"
            ),
        )
    first = alike.index(op) // size * size
    company = list(alike[first : first + size])
    return sorted(company, key=lambda member: (_place(member), member._id))


def _place(op: Operation) -> tuple[Any, ...]:
    fields = device_names.parse(op.device)
    return (fields.job or "", fields.replica or 0, fields.task or 0, fields.device_type or "", fields.device_index or 0)


def _replaced(
    graph: Graph,
    member: Operation,
    company: Sequence[Operation],
    exchanges: dict[Operation, Tensor],
    feeds: Sequence[Tensor],
) -> Tensor:
    """What a member gives, built in its place; whoever took the member's takes it."""
    meeting = _meeting(member)
    operands = [(other, _meeting(other).operand) for other in company]
    values = [other._inputs[at] for other, at in operands if at is not None]
    with graph.as_default(), graph.shared_site(), graph.device(None):
        exchanged = exchanges.get(company[0])
        if len(company) < meeting.size and exchanged is None:
            with graph.device(company[0].device):
                exchanged = exchanges[company[0]] = _exchanged(meeting, company, values, feeds)
                exchanged.op.user_site, exchanged.op.original = member.user_site, member.original
        with graph.device(member.device), graph.control_dependencies(list(member._control_inputs)):
            with graph.name_scope(f"{member.name}_of_all/"):
                result: Tensor = meeting.combine(values) if exchanged is None else build("Identity", exchanged)
                if meeting.finish is not None:
                    result = meeting.finish(result)
    result.op.user_site, result.op.original = member.user_site, member.original
    (output,) = member._outputs
    for user in output.consumers():
        for position, tensor in enumerate(user._inputs):
            if tensor is output:
                graph._update_input(user, position, result)
    for user in list(member._control_outputs):
        controls = [result.op if control is member else control for control in user._control_inputs]
        graph._remove_all_control_inputs(user)
        graph._add_control_inputs(user, controls)
    return result
