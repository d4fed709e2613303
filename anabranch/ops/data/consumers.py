"""Ops that go through a whole dataset in a step: the single element, a reduction, a TFRecord file."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import hooks, inference
from anabranch.core.contract.opdef import PURE, Bool, Func, List, NotDifferentiable, Op, String, channel, define
from anabranch.core.values import dtypes
from anabranch.ops.data import measuring
from anabranch.ops.data.files import scalar_of, text
from anabranch.ops.data.iterators import element_shapes
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, Context, Dataset, Function, Iterator, Pipeline

_NO_GRADIENT = NotDifferentiable("nothing flows back into a dataset")


class _Pass:
    """One pass through a dataset in a step, with what it is gone through by."""

    def __init__(self, ctx: Any, dataset: Any) -> None:
        ctx.check(
            isinstance(dataset, Dataset),
            errors.InvalidArgumentError,
            f"a {type(dataset).__name__} in place of a dataset",
        )
        self.pipeline = Pipeline(ctx.functions)
        self.context = Context(self.pipeline)
        self._dataset = dataset
        self._token = ctx.cancellation
        self._within = self.pipeline.for_step(self._token)

    def __enter__(self) -> Iterator:
        self._within.__enter__()
        self._iterator = self._dataset.iterate(self.context)
        return self._iterator

    def __exit__(self, *problem: Any) -> None:
        self.pipeline.cancel("The step is over.")
        self._iterator.close()
        self._within.__exit__(*problem)


class DatasetToSingleElement(Op):
    """The components of a dataset's only element; the step fails if it has none, or more."""

    signature = "dataset: variant -> components: [output_types]"
    attrs = {**ELEMENTS, **METADATA}
    effect = channel()
    may_block = True
    shape = element_shapes
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        with _Pass(ctx, inputs[0]) as iterator:
            element = iterator.next()
            ctx.check(element is not None, errors.InvalidArgumentError, "Dataset was empty.")
            ctx.check(iterator.next() is None, errors.InvalidArgumentError, "Dataset had more than one element.")
        return element


class ReduceDataset(Op):
    """The state after ``f`` of state and element has been called for each element, from ``initial_state`` on."""

    signature = (
        "input_dataset: variant, initial_state: [Tstate], other_arguments: [Targuments] -> components: [output_types]"
    )
    attrs = {
        "f": Func(captures="other_arguments"),
        "Tstate": List("type", minimum=1),
        "Targuments": List("type", minimum=0),
        **ELEMENTS,
        "use_inter_op_parallelism": Bool(True),
        **METADATA,
    }
    effect = channel()
    may_block = True
    shape = element_shapes
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        count = len(attrs["Tstate"])
        state = list(inputs[1 : 1 + count])
        within = _Pass(ctx, inputs[0])
        call = Function(attrs["f"], inputs[1 + count :]).prepare(within.context)
        with within as iterator:
            while (element := iterator.next()) is not None:
                state = call([*state, *element])
        return state


def _cardinality(ctx: Any, inputs: Any, attrs: Any) -> Any:
    ctx.check(
        isinstance(inputs[0], Dataset),
        errors.InvalidArgumentError,
        f"a {type(inputs[0]).__name__} in place of a dataset",
    )
    return np.array(inputs[0].cardinality(), np.int64)


for _type, _attrs in (
    ("DatasetCardinality", {"cardinality_options": String("")}),
    ("ExperimentalDatasetCardinality", {}),
):
    define(
        _type,
        "How many elements a dataset has: -1 if it has no end, -2 if that is not known without going through it.",
        signature="input_dataset: variant -> cardinality: int64",
        attrs=_attrs,
        effect=PURE,
        shape=inference.scalar,
        host_kernel=_cardinality,
        gradient=_NO_GRADIENT,
    )


class AnabranchDatasetReport(Op):
    """A table of what the stages of a dataset do: its elements are gone through up to a number, or for some seconds."""

    signature = "dataset: variant, elements: int64, seconds: double -> report: string"
    effect = channel()
    ranks = {"elements": 0, "seconds": 0}
    may_block = True
    shape = inference.scalar
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        with _Pass(ctx, inputs[0]) as iterator:
            report = measuring.report(iterator, int(inputs[1]), float(inputs[2]), ctx.cancellation)
        return scalar_of(report.encode())


def _write_records(ctx: Any, inputs: Any, attrs: Any) -> Any:
    path, compression = text(ctx, inputs[1], "filename"), text(ctx, inputs[2], "compression_type")
    within = _Pass(ctx, inputs[0])
    ctx.check(
        inputs[0].types == (dtypes.string,),
        errors.InvalidArgumentError,
        "DatasetToTFRecord needs a dataset of string scalars",
    )
    with within as iterator, hooks.record_writer(path, compression) as writer:
        while (element := iterator.next()) is not None:
            writer.write(element[0].item())
    return ()


for _type in ("DatasetToTFRecord", "ExperimentalDatasetToTFRecord"):
    define(
        _type,
        "Write the elements of a dataset, string scalars, to a TFRecord file.",
        signature="input_dataset: variant, filename: string, compression_type: string ->",
        effect=channel(),
        may_block=True,
        shape=inference.no_outputs,
        host_kernel=_write_records,
        gradient=_NO_GRADIENT,
    )
