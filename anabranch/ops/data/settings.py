"""Stages that say how a pipeline is to run: what TensorFlow's options become in a graph.

Elements are those of the input. One rewrite of TensorFlow's changes their order, and so is done where a graph asks for
it: a shuffle that is repeated right away becomes one stage, whose passes draw from one stream.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from anabranch.core.contract.opdef import Int, List, String
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, THREADS, Context, Dataset, Iterator, number, stage
from anabranch.ops.data.selection import Repeat
from anabranch.ops.data.shuffling import Shuffle


class Same(Dataset):
    """A stage whose elements are those of the input."""

    keeps_number = True

    def __init__(self, ctx: Any, attrs: dict[str, Any], operands: dict[str, Any]) -> None:
        super().__init__(ctx, attrs, operands)
        self.table = self.inputs[0].table

    def iterate(self, context: Context) -> Iterator:
        """An iterator of the input."""
        return self.inputs[0].iterate(context.inner(0))


def _optimizations(operands: dict[str, Any]) -> set[bytes]:
    names: set[bytes] = set()
    for key in ("optimizations", "optimizations_enabled", "optimizations_default"):
        names.update(np.ravel(operands.get(key, ())).tolist())
    return names - set(np.ravel(operands.get("optimizations_disabled", ())).tolist())


_CONFIGURED = {**ELEMENTS, "optimization_configs": List("string", ())}


@stage(
    "OptimizeDatasetV2",
    "input_dataset: variant, optimizations_enabled: string, optimizations_disabled: string, "
    "optimizations_default: string",
    _CONFIGURED,
)
@stage("OptimizeDataset", "input_dataset: variant, optimizations: string", _CONFIGURED)
class Optimize(Same):
    """The elements of the input, in the order that it has after rewriting: see the module's docstring."""

    observes = False
    """Whether the latency of each stage is counted, if the pipeline has an aggregator."""

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.observes = b"latency_all_edges" in _optimizations(operands)
        if b"shuffle_and_repeat_fusion" in _optimizations(operands):
            self.inputs = (fused(self.inputs[0], {}),)


def fused(dataset: Dataset, done: dict[int, Dataset]) -> Dataset:
    """A dataset in which each shuffle that is repeated right away draws all passes from one stream."""
    known = done.get(id(dataset))
    if known is not None:
        return known
    inputs = tuple(fused(item, done) for item in dataset.inputs)
    result = dataset
    shuffle = inputs[0] if isinstance(dataset, Repeat) else None
    if type(shuffle) is Shuffle and isinstance(dataset, Repeat) and shuffle.reshuffles and dataset.count:
        result = copy.copy(shuffle)
        result.count = dataset.count
        result.reshuffles = False
    elif any(new is not old for new, old in zip(inputs, dataset.inputs, strict=True)):
        result = copy.copy(dataset)
        result.inputs = inputs
    done[id(dataset)] = result
    return result


@stage(
    "ModelDataset",
    "input_dataset: variant",
    {"algorithm": Int(0), "cpu_budget": Int(0), "ram_budget": Int(0), **ELEMENTS},
)
class Model(Same):
    """The elements of the input, whose stages may be tuned while they run."""


@stage("OptionsDataset", "input_dataset: variant", {"serialized_options": String(), **ELEMENTS, **METADATA})
class WithOptions(Same):
    """The elements of the input."""


_MOST = "input_dataset: variant, max_intra_op_parallelism: int64"


@stage("MaxIntraOpParallelismDataset", _MOST, ELEMENTS)
@stage("ExperimentalMaxIntraOpParallelismDataset", _MOST, ELEMENTS)
class MaxIntraOpParallelism(Same):
    """The elements of the input."""


@stage("PrivateThreadPoolDataset", "input_dataset: variant, num_threads: int64", ELEMENTS)
@stage("ExperimentalPrivateThreadPoolDataset", "input_dataset: variant, num_threads: int64", ELEMENTS)
class PrivateThreadPool(Same):
    """The elements of the input, each stage of which takes as many threads as said at most; 0 leaves it to them."""

    free = Same.free | {"num_threads"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.threads = number(ctx, operands["num_threads"], "num_threads", 0)

    def iterate(self, context: Context) -> Iterator:
        """An iterator of the input."""
        if self.threads:
            context.say(THREADS, self.threads)
        return super().iterate(context)
