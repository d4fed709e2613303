"""Steps in parts: values are fed and fetched piece by piece, and each operation runs once.

Policy. A partial run works on a copy of the graph, so that it may cut it. Each part runs, as one ordinary step of the
worker, every operation that the feeds so far allow and that has not run; what later parts need of them is kept, fed to
these, and control edges from what has run are taken off the copy. So a part sees variables as they are when it runs,
as in TensorFlow, and each part is a transaction of its own. Operations that make handles run in each part that
uses them, since they do nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graphdef.import_graph import import_graph_def
from anabranch.rewrite import reach
from anabranch.runtime.registered_step import LocalStep
from anabranch.runtime.worker import Worker

_numbers = itertools.count(1)


def _refused(given: str, expected: str, instead: str, text: str) -> errors.InvalidArgumentError:
    """An error whose text ends as TensorFlow's does, which programs match to the end."""
    return errors.InvalidArgumentError(None, None, f"{errors.message(given, expected, instead)}\n{text}")


def _is_handle(tensor: Tensor) -> bool:
    return tensor.dtype.is_ref or tensor.dtype.base.np is None


class PartialRun:
    """A step that runs in parts.

    Args:
        worker: runs the parts.
        graph: the graph, of which a copy is made.
        fetches: all that will be fetched.
        feeds: all that will be fed.
    """

    def __init__(
        self, worker: Worker, graph: Graph, fetches: Sequence[Tensor | Operation], feeds: Sequence[Tensor]
    ) -> None:
        if not fetches:
            raise _refused(
                "no fetches", "a tensor or an operation", "fetches=[y]", "Must specify at least one target to fetch or "
                "execute."
            )  # fmt: skip
        self.handle = f"partial_run;{next(_numbers)}"
        self._worker = worker
        self._graph = Graph()
        with self._graph.as_default():
            import_graph_def(graph.as_graph_def(), name="")
        self._feeds = {feed.name: self._own(feed) for feed in feeds}
        self._fetches = {fetch.name: self._own(fetch) for fetch in fetches}
        self._unfed, self._unfetched = set(self._feeds), set(self._fetches)
        roots = [item.op if isinstance(item, Tensor) else item for item in self._fetches.values()]
        self._fed = frozenset(self._feeds.values())
        self._order = self._needed(roots)
        self._ran: set[Operation] = set()
        self._values: dict[Tensor, Any] = {}

    def _needed(self, roots: Sequence[Operation]) -> list[Operation]:
        """What must run for some operations, given what will be fed, each after what it needs."""
        order: list[Operation] = []
        seen: set[Operation] = set()
        stack: list[tuple[Operation, bool]] = [(op, False) for op in reversed(roots)]
        while stack:
            op, complete = stack.pop()
            if complete:
                order.append(op)
            elif op not in seen:
                seen.add(op)
                stack.append((op, True))
                before = [tensor.op for tensor in op._inputs if tensor not in self._fed] + op._control_inputs
                stack.extend((one, False) for one in before)
        return order

    def _own(self, element: Any) -> Any:
        return self._graph.as_graph_element(element.name)

    @property
    def is_over(self) -> bool:
        """Whether all has been fed and fetched."""
        return not self._unfed and not self._unfetched

    def run(
        self, fetches: Sequence[Tensor | Operation], feeds: Sequence[tuple[Tensor, Any]], timeout: float | None = None
    ) -> list[Any]:
        """Run what the feeds so far allow, and give the values of ``fetches``.

        Raises:
            InvalidArgumentError: something was not named when the run was set up, or was fed or fetched before, or
                cannot be computed yet.
        """
        for verb, done, names, pending, items in (
            ("feed", "fed", self._feeds, self._unfed, [tensor for tensor, _ in feeds]),
            ("fetch", "fetched", self._fetches, self._unfetched, fetches),
        ):
            for item in items:
                if item.name not in names:
                    raise _refused(
                        f"a {verb} of {item.name!r}",
                        f"one of {sorted(names)}",
                        "name it in partial_run_setup",
                        f"The {verb} {item.name} was not specified in partial_run_setup.",
                    )
                if item.name not in pending:
                    raise _refused(
                        f"a second {verb} of {item.name!r}",
                        f"each is {done} once",
                        "keep its value",
                        f"The {verb} {item.name} has already been {done}.",
                    )
        values = {**self._values, **{self._feeds[tensor.name]: value for tensor, value in feeds}}
        available = self._available(values)
        wanted = [self._fetches[item.name] for item in fetches]
        for item in wanted:
            if item not in values and (item.op if isinstance(item, Tensor) else item) not in available:
                raise _refused(
                    f"a fetch of {item.name!r}",
                    f"something that does not need what is not fed: {sorted(self._unfed)}",
                    "feed it first, or with it",
                    f"Fetch {item.name} can't be computed from the feeds that have been fed so far.",
                )
        self._run_part(available, values, timeout)
        self._unfed.difference_update(tensor.name for tensor, _ in feeds)
        self._unfetched.difference_update(item.name for item in fetches)
        return [None if isinstance(item, Operation) else self._values[item] for item in wanted]

    def _available(self, values: dict[Tensor, Any]) -> set[Operation]:
        """The operations that have run, or can run with these values."""
        available: set[Operation] = set()
        for op in self._order:
            ready = all(
                tensor in values or (tensor not in self._fed and tensor.op in available) for tensor in op._inputs
            )
            if ready and all(control in available or control in self._ran for control in op._control_inputs):
                available.add(op)
        return available

    def _run_part(self, available: set[Operation], values: dict[Tensor, Any], timeout: float | None) -> None:
        """Run what is available and has not run, and keep what later parts and fetches need of it."""
        fresh = [op for op in self._order if op in available and op not in self._ran]
        handles = {op for op in fresh if op.definition.makes is not None}
        kept = {
            tensor
            for op in self._order
            if op not in available
            for tensor in op._inputs
            if tensor not in self._fed and not _is_handle(tensor) and tensor.op in available and tensor not in values
        }
        fetched = [item for item in self._fetches.values() if isinstance(item, Tensor) and item.op in available]
        kept.update(item for item in fetched if item not in values)
        tensors = [tensor for tensor in kept if tensor.op in available]
        operations = [op for op in fresh if op not in handles]
        used = {tensor for op in fresh for tensor in op._inputs if tensor in values}
        feeds = tuple(tensor for tensor in values if tensor in used)
        if operations or tensors:
            step = self._worker.register(LocalStep(self._graph, (*tensors, *operations), feeds))
            results = self._worker.run(step, [values[tensor] for tensor in feeds], timeout)
            values.update(zip(tensors, results[: len(tensors)], strict=True))
        self._values = values
        self._ran.update(operations)
        self._cut()

    def _cut(self) -> None:
        """Take what has run off the inputs of what has not."""
        for op in self._order:
            if op in self._ran:
                continue
            waiting = [control for control in op._control_inputs if control not in self._ran]
            if len(waiting) < len(op._control_inputs):
                op._remove_all_control_inputs()
                op._add_control_inputs(waiting)
            for index, tensor in enumerate(op._inputs):
                if tensor.dtype.is_ref and tensor.op in self._ran:  # what an assignment hands on is the variable
                    op._update_input(index, reach.maker_of(tensor)._outputs[0])
