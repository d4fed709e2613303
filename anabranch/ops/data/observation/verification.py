"""Stages that watch a pipeline: assertions, pauses, samples, places that are not saved; lists, and other wrappers.

Rewrites of a graph of datasets are not made here, so that what asserts which follow one another has nothing to check.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import conditions, errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.contract.inference import scalar as scalar_shape
from anabranch.core.contract.opdef import PURE, Bool, Int, List, define
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, NO_GRADIENT, Dataset, Iterator, number, stage
from anabranch.ops.data.random_words import RandomWords
from anabranch.ops.data.settings import Same


# --------------------------------------------------------------------------------------------------- how many there are
class _Numbered(Iterator):
    fields = ("given",)

    def start(self) -> None:
        self.given = 0

    def next(self) -> Element | None:
        element = self.inputs[0].next()
        expected = self.dataset.expected
        self.given += element is not None
        if element is None and self.given < expected:
            self._refuse(f"contained only {_elements(self.given)}")
        if self.given > expected >= 0:
            self._refuse(f"contained at least {_elements(expected + 1)}")
        return element

    def _refuse(self, given: str) -> None:
        expected = self.dataset.expected
        raise errors.FailedPreconditionError(
            None,
            self.dataset.op,
            f"Input dataset was expected to contain {_elements(expected)} but {given}.\n"
            + errors.message(
                f"a dataset that {given}",
                f"the number that was asserted, {expected}",
                f"dataset.apply(tf.data.experimental.assert_cardinality({self.given}))",
            ),
        )


def _elements(count: int) -> str:
    return "an infinite number of elements" if count < 0 else f"{count} element{'s' * (count != 1)}"


@stage("AssertCardinalityDataset", "input_dataset: variant, cardinality: int64", ELEMENTS)
class AssertCardinality(Dataset):
    """The elements of the input, which must be as many as said: a step fails that finds more, or the end too early."""

    iterator = _Numbered

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.expected = number(ctx, operands["cardinality"], "cardinality")

    def cardinality(self) -> int:
        """The number that was said."""
        return self.expected


_NEXT = "input_dataset: variant, transformations: string"


@stage("AssertNextDataset", _NEXT, ELEMENTS)
@stage("ExperimentalAssertNextDataset", _NEXT, ELEMENTS)
@stage("AssertPrevDataset", _NEXT, ELEMENTS)
class AssertNext(Same):
    """The elements of the input. Which stages TensorFlow's rewrites leave next to it has no meaning here."""

    free = Same.free | {"transformations"}


# --------------------------------------------------------------------------------------------------------------- pauses
class _Slept(Iterator):
    def next(self) -> Element | None:
        self._pause(self.context.pipeline.current_token)
        return self.inputs[0].next()

    def _pause(self, token: CancellationToken) -> None:
        end = time.monotonic() + self.dataset.seconds
        condition = conditions.Condition()

        def wake() -> None:
            with condition:
                condition.notify_all()

        with condition, token.on_cancel(wake):
            while (left := end - time.monotonic()) > 0:
                token.raise_if_cancelled(self.dataset.op)
                if token.deadline is not None:
                    left = min(left, max(0.0, token.deadline - time.monotonic()))
                condition.wait(left)


_SLEEP = "input_dataset: variant, sleep_microseconds: int64"


@stage("SleepDataset", _SLEEP, ELEMENTS)
@stage("ExperimentalSleepDataset", _SLEEP, ELEMENTS)
class Sleep(Dataset):
    """The elements of the input, each ``sleep_microseconds`` later."""

    iterator = _Slept
    keeps_number = True

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.seconds = number(ctx, operands["sleep_microseconds"], "sleep_microseconds", 0) / 1e6


# -------------------------------------------------------------------------------------------------------------- samples
class _Sampled(Iterator):
    def start(self) -> None:
        self._words = RandomWords(*self.dataset.seeds)

    def next(self) -> Element | None:
        while (element := self.inputs[0].next()) is not None:
            word = int(self._words.take(1)[0])
            if (word & 0x7FFFFF) / (1 << 23) < self.dataset.rate:  # the 23 bits of a float's mantissa
                return element
        return None

    def save(self) -> dict[str, Any]:
        return {**super().save(), "drawn": self._words.drawn}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._words = RandomWords(*self.dataset.seeds)
        self._words.go_to(state["drawn"])


@stage("SamplingDataset", "input_dataset: variant, rate: float, seed: int64, seed2: int64", ELEMENTS)
class Sampling(Dataset):
    """Elements of the input, each with the probability ``rate``; which ones is TensorFlow's choice for the seeds."""

    iterator = _Sampled

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        ctx.check(np.ndim(operands["rate"]) == 0, errors.InvalidArgumentError, "rate must be a scalar")
        self.rate = float(operands["rate"])
        self.seeds = tuple(number(ctx, operands[name], name) for name in ("seed", "seed2"))


# --------------------------------------------------------------------------------------------------------------- places
class _Unsaved(Iterator):
    def next(self) -> Element | None:
        return self.inputs[0].next()

    def take(self, count: int, before: list[Element] | None = None) -> Sequence[Any] | None:
        return self.inputs[0].take(count, before)

    def gather(self, count: int, into: list[Element] | None = None) -> list[Element]:
        return self.inputs[0].gather(count, into)

    def save(self) -> dict[str, Any]:
        raise errors.UnimplementedError(
            None,
            self.dataset.op,
            errors.message(
                "the place of an iterator behind a stage that says that it has none (NonSerializableDataset)",
                "a pipeline without this stage",
                "a saver without the iterator, tf.train.Saver(tf.global_variables())",
            ),
        )


@stage("NonSerializableDataset", "input_dataset: variant", ELEMENTS)
@stage("ExperimentalNonSerializableDataset", "input_dataset: variant", ELEMENTS)
class NonSerializable(Dataset):
    """The elements of the input; an iterator over them has no place that can be saved."""

    iterator = _Unsaved
    keeps_number = True


# ------------------------------------------------------------------------------------------------------ lists, wrappers
class _Listed(Iterator):
    fields = ("position",)

    def start(self) -> None:
        self.position = 0

    def next(self) -> Element | None:
        elements: list[Element] = self.dataset.elements
        if self.position == len(elements):
            return None
        self.position += 1
        return elements[self.position - 1]


@stage(
    "ListDataset",
    "tensors: [Tinput_types]",
    {"Tinput_types": List("type", minimum=1), **ELEMENTS, **METADATA},
)
class Listed(Dataset):
    """The elements whose components are given, one after the other, in ``tensors``."""

    iterator = _Listed

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        tensors, width = operands["tensors"], len(self.types)
        ctx.check(
            len(tensors) % width == 0,
            errors.InvalidArgumentError,
            f"{len(tensors)} tensors do not make elements of {width} components",
        )
        self.elements = [tuple(tensors[first : first + width]) for first in range(0, len(tensors), width)]

    def cardinality(self) -> int:
        """How many elements the tensors make."""
        return len(self.elements)


for _type in ("WrapDatasetVariant", "UnwrapDatasetVariant"):
    define(
        _type,
        "The same dataset.",
        signature="input_handle: variant -> output_handle: variant",
        effect=PURE,
        shape=scalar_shape,
        host_kernel=lambda ctx, inputs, attrs: [inputs[0]],
        gradient=NO_GRADIENT,
    )


@stage(
    "ChooseFastestDataset",
    "input_datasets: N * variant",
    {"N": Int(minimum=2), "num_experiments": Int(), **ELEMENTS},
)
@stage(
    "ExperimentalChooseFastestDataset",
    "input_datasets: N * variant",
    {"N": Int(minimum=2), "num_experiments": Int(), **ELEMENTS},
)
class ChooseFastest(Same):
    """The elements of the first input; those of the others are the same, made in another way."""


@stage("FinalizeDataset", "input_dataset: variant", {"has_captured_ref": Bool(False), **ELEMENTS})
@stage("RewriteDataset", "input_dataset: variant, rewrite_name: string", ELEMENTS)
class Finalize(Same):
    """The elements of the input."""
