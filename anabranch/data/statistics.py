"""What a pipeline counts while it runs (latencies, bytes), and how many threads it may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes
from anabranch.data.dataset import Dataset, number

Transformation = Callable[[Dataset], Dataset]


@public("data.experimental.StatsAggregator", "contrib.data.StatsAggregator")
class StatsAggregator:
    """What pipelines count, by tag: given to one by ``options.experimental_stats.aggregator``.

    Example:
        >>> import anabranch as tf
        >>> aggregator = tf.data.experimental.StatsAggregator()
        >>> dataset = tf.data.Dataset.range(5).apply(tf.data.experimental.bytes_produced_stats("bytes"))
        >>> options = tf.data.Options()
        >>> options.experimental_stats.aggregator = aggregator
        >>> iterator = dataset.with_options(options).make_initializable_iterator()
        >>> element = iterator.get_next()
        >>> with tf.Session() as session:
        ...     session.run(iterator.initializer)
        ...     for _ in range(5):
        ...         _ = session.run(element)
        ...     summary = tf.Summary.FromString(session.run(aggregator.get_summary()))
        >>> summary.value[0].tag, summary.value[0].histo.sum
        ('bytes', 40.0)
    """

    def __init__(self) -> None:
        self._resource: Tensor = build("StatsAggregatorHandle")

    def get_summary(self) -> Tensor:
        """What has been counted by the time that a step runs it, as a serialised summary with histograms."""
        summary: Tensor = build("StatsAggregatorSummary", self._resource)
        return summary


@public("contrib.data.set_stats_aggregator")
def set_stats_aggregator(
    stats_aggregator: StatsAggregator, prefix: str = "", counter_prefix: str = ""
) -> Transformation:
    """The same elements, of which an aggregator counts what the stages before tell it, under ``prefix``."""

    def apply(dataset: Dataset) -> Dataset:
        texts = [convert_to_tensor(text, dtypes.string) for text in (prefix, counter_prefix)]
        return dataset._stage("SetStatsAggregatorDataset", stats_aggregator._resource, *texts)

    return apply


def _counting(type_name: str, tag: Any) -> Transformation:
    return lambda dataset: dataset._stage(type_name, convert_to_tensor(tag, dtypes.string, name="tag"))


@public("data.experimental.bytes_produced_stats", "contrib.data.bytes_produced_stats")
def bytes_produced_stats(tag: Any) -> Transformation:
    """The same elements, whose bytes are counted under ``tag`` by the aggregator of the pipeline, if it has one."""
    return _counting("BytesProducedStatsDataset", tag)


@public("data.experimental.latency_stats", "contrib.data.latency_stats")
def latency_stats(tag: Any) -> Transformation:
    """The same elements; the microseconds that each takes are counted under ``tag`` by the pipeline's aggregator."""
    return _counting("LatencyStatsDataset", tag)


@public("data.experimental.assert_cardinality")
def assert_cardinality(expected_cardinality: Any) -> Transformation:
    """The same elements, which must be as many as said: a step fails that finds more, or the end too early.

    Example:
        >>> import anabranch as tf
        >>> dataset = tf.data.Dataset.range(9).filter(lambda x: x % 3 > 0)
        >>> dataset = dataset.apply(tf.data.experimental.assert_cardinality(6))
        >>> with tf.Session() as session:
        ...     session.run(tf.data.experimental.cardinality(dataset))
        np.int64(6)
    """
    return lambda dataset: dataset._stage("AssertCardinalityDataset", number(expected_cardinality, "cardinality"))


@public("contrib.data.PrivateThreadPool")
class PrivateThreadPool:
    """A pool of threads: the stages of a dataset take as many at most (see ``override_threadpool``).

    Args:
        num_threads: how many.
        display_name: a name for a person.
        max_intra_op_parallelism: how many threads an operation takes; here that is the session's affair.
    """

    def __init__(self, num_threads: int, display_name: str | None = None, max_intra_op_parallelism: int = 1) -> None:
        self._resource = build(
            "ThreadPoolHandle",
            num_threads=num_threads,
            max_intra_op_parallelism=max_intra_op_parallelism,
            display_name=display_name or "",
        )


@public("contrib.data.override_threadpool")
def override_threadpool(dataset: Dataset, thread_pool: PrivateThreadPool) -> Dataset:
    """The same dataset, whose stages take as many threads as a pool has at most."""
    return dataset._stage("ThreadPoolDataset", thread_pool._resource)
