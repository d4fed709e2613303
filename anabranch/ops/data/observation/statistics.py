"""Statistics of pipelines: what an aggregator counts, and the stages that count.

An aggregator is a resource. ``SetStatsAggregatorDataset`` hands it to all stages before it; a stage that counts
(latency, bytes) looks for the nearest one behind it when its iterator begins, and costs nothing if there is none.
``StatsAggregatorSummary`` gives what has been counted as a summary, with a histogram for each tag.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from anabranch.core.contract import inference
from anabranch.core.contract.kernels import of_kind
from anabranch.core.contract.opdef import PURE, NotDifferentiable, String, channel, define
from anabranch.core.protos import summary_pb2
from anabranch.ops.data import measuring
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.files import scalar_of, text
from anabranch.ops.data.pipeline import ELEMENTS, Context, Dataset, Iterator, stage
from anabranch.ops.data.settings import Optimize, Same
from anabranch.ops.summary.messages import histogram_of

_NO_GRADIENT = NotDifferentiable("what is counted does not depend on values")
_DELIMITER = "::"
"""Between the tag of ``SetStatsAggregatorDataset`` and that of a stage, as TensorFlow writes it."""
MOST_KEPT = 1 << 16
"""Values of a tag that are kept; of more, each second one is dropped again and again, and stands for two."""


class _Values:
    """The values of a tag: their number, and of many a sample that is spread over all."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.number = 0
        self.total = 0.0
        self.stride = 1

    def add(self, value: float) -> None:
        """Count a value."""
        if self.number % self.stride == 0:
            if len(self.values) == MOST_KEPT:
                del self.values[1::2]
                self.stride *= 2
            if self.number % self.stride == 0:
                self.values.append(value)
        self.number += 1
        self.total += value


class StatsAggregator:
    """What pipelines have counted, by tag."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, _Values] = {}

    def add(self, tag: str, value: float) -> None:
        """Count a value."""
        with self._lock:
            self._values.setdefault(tag, _Values()).add(value)

    def summary(self) -> bytes:
        """A serialised summary with a histogram for each tag."""
        message = summary_pb2.Summary()
        with self._lock:
            for tag, values in self._values.items():
                histogram = histogram_of(np.array(values.values))
                if values.stride > 1:
                    scale = values.number / len(values.values)
                    histogram.num, histogram.sum = values.number, values.total
                    histogram.sum_squares *= scale
                    for place, count in enumerate(histogram.bucket):
                        histogram.bucket[place] = count * scale
                message.value.add(tag=tag, histo=histogram)
        return message.SerializeToString()


_NAMED = {"container": String(""), "shared_name": String("")}

for _type in ("StatsAggregatorHandle", "StatsAggregatorHandleV2", "ExperimentalStatsAggregatorHandle"):
    define(
        _type,
        "An aggregator, which counts what pipelines tell it.",
        signature="-> handle: resource",
        attrs=_NAMED,
        effect=PURE,
        makes="stats_aggregator",
        create=lambda attrs, name: StatsAggregator(),
        shape=inference.scalar,
        gradient=_NO_GRADIENT,
    )


def _aggregator(ctx: Any, handle: Any) -> StatsAggregator:
    aggregator: StatsAggregator = of_kind(ctx, ctx.resource(handle), StatsAggregator, "an aggregator of statistics")
    return aggregator


def _summary(ctx: Any, inputs: Any, attrs: Any) -> Any:
    return scalar_of(_aggregator(ctx, inputs[0]).summary())


for _type in ("StatsAggregatorSummary", "ExperimentalStatsAggregatorSummary"):
    define(
        _type,
        "What an aggregator has counted, as a serialised summary with a histogram for each tag.",
        signature="iterator: resource -> summary: string",
        effect=channel("iterator"),
        shape=inference.scalar,
        host_kernel=_summary,
        gradient=_NO_GRADIENT,
    )


_AGGREGATOR = "aggregator"


@stage(
    "SetStatsAggregatorDataset",
    "input_dataset: variant, stats_aggregator: resource, tag: string, counter_prefix: string",
    ELEMENTS,
)
@stage(
    "ExperimentalSetStatsAggregatorDataset",
    "input_dataset: variant, stats_aggregator: resource, tag: string, counter_prefix: string",
    ELEMENTS,
)
class SetStatsAggregator(Same):
    """The elements of the input, whose stages are counted by an aggregator, under ``tag`` if that is not empty."""

    free = Same.free | {"stats_aggregator", "tag", "counter_prefix"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.aggregator = _aggregator(ctx, operands["stats_aggregator"])
        tag = text(ctx, operands["tag"], "tag")
        text(ctx, operands["counter_prefix"], "counter_prefix")
        self.prefix = tag + _DELIMITER if tag else ""

    def iterate(self, context: Context) -> Iterator:
        """An iterator of the input."""
        context.say(_AGGREGATOR, self)
        iterator = super().iterate(context)
        if self._observes:
            measuring.observe(iterator, self._count)
        return iterator

    @property
    def _observes(self) -> bool:
        """Whether one of the stages that only say how to run asks for the latency of each stage."""
        dataset: Dataset = self.inputs[0]
        while isinstance(dataset, Same):
            if isinstance(dataset, Optimize) and dataset.observes:
                return True
            dataset = dataset.inputs[0]
        return False

    def _count(self, stage: str, seconds: float) -> None:
        self.aggregator.add(f"{self.prefix}record_latency{_DELIMITER}{stage}", seconds * 1e6)


class _Counted(Iterator):
    def start(self) -> None:
        self._aggregator: SetStatsAggregator | None = self.context.said_behind(_AGGREGATOR)

    def next(self) -> Element | None:
        aggregator = self._aggregator
        if aggregator is None:
            return self.inputs[0].next()
        started = time.perf_counter()
        element = self.inputs[0].next()
        if element is not None:
            value = self.dataset.measure(element, time.perf_counter() - started)
            aggregator.aggregator.add(aggregator.prefix + self.dataset.tag, value)
        return element


class _Counting(Dataset):
    iterator = _Counted
    keeps_number = True
    free = Dataset.free | {"tag"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.tag = text(ctx, operands["tag"], "tag")

    def measure(self, element: Element, seconds: float) -> float:
        """What is counted of an element that took ``seconds`` to make."""
        raise NotImplementedError


_TAGGED = "input_dataset: variant, tag: string"


@stage("LatencyStatsDataset", _TAGGED, ELEMENTS)
@stage("ExperimentalLatencyStatsDataset", _TAGGED, ELEMENTS)
class LatencyStats(_Counting):
    """The elements of the input; the aggregator counts the microseconds that each takes, under ``tag``."""

    def measure(self, element: Element, seconds: float) -> float:
        """Microseconds."""
        return seconds * 1e6


@stage("BytesProducedStatsDataset", _TAGGED, ELEMENTS)
@stage("ExperimentalBytesProducedStatsDataset", _TAGGED, ELEMENTS)
class BytesProducedStats(_Counting):
    """The elements of the input; the aggregator counts the bytes of each, under ``tag``."""

    def measure(self, element: Element, seconds: float) -> float:
        """Bytes; a string counts as those that it has."""
        return float(sum(_bytes_of(part) for part in element))


def _bytes_of(part: Any) -> int:
    if not isinstance(part, np.ndarray | np.generic):
        return 0
    if part.dtype != object:
        return part.nbytes
    return sum(len(item) if isinstance(item, bytes) else _bytes_of(item) for item in part.ravel().tolist())
