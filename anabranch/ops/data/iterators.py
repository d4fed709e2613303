"""Iterators as resources of a session: the channel ops that make them, and take elements out.

An iterator is made by ``MakeIterator`` from a dataset, or, if it is a one-shot iterator, by its own function when it is
first used. ``IteratorGetNext`` ends a segment like a dequeue, so that a step that is fed by a dataset is one program
behind one kernel call. What a pipeline's functions read is what is committed when they are called.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import conditions, errors
from anabranch.core.contract import inference
from anabranch.core.contract.inference import ShapeContext
from anabranch.core.contract.opdef import (
    PURE,
    Func,
    Int,
    List,
    NotDifferentiable,
    Op,
    String,
    channel,
    define,
)
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.optional_values import HostOptional
from anabranch.core.values.stored_variant import StoredVariant, stored
from anabranch.ops.data import fingerprints, measuring, places
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.pipeline import ELEMENTS, Context, Dataset, Iterator, Pipeline
from anabranch.ops.data.resources import stored_pipelines
from anabranch.ops.data.resources.cuts import Cut

_NO_GRADIENT = NotDifferentiable("an iterator hands values from one step to the next")


class IteratorResource:
    """The object behind an iterator's handle."""

    def __init__(self, name: str, attrs: dict[str, Any], factory: Any = None) -> None:
        self.name = name
        self.types: tuple[dtypes.DType, ...] = tuple(attrs["output_types"])
        self.shapes: tuple[shapes.RawShape, ...] = tuple(attrs["output_shapes"])
        self._factory = factory
        """Of a one-shot iterator, the function that makes its dataset."""
        self._iterator: Iterator | None = None
        self._pipeline: Pipeline | None = None
        self._turns = conditions.Turns()
        self._cut: Cut | None = None
        self._watch: measuring.Watch | None = None
        """Who counts what the stages do, once somebody has asked."""
        self._waiting: StoredVariant | None = None
        """A place that was restored before the iterator was made."""
        self._fingerprint: list[tuple[str, str]] | None = None
        self._source: Any = None
        """The tensor of the dataset that it goes through."""
        self._pipeline_graph: tuple[bytes, str] | None = None
        self._built_of: list[Any] | None = None
        """The stored pipeline that it goes through, if the graph has none for it."""
        self._made_by: Any = None
        """The token of the step that made it, if it had not been made before."""

    # ----------------------------------------------------------------------------------------------------------- making
    def make(self, ctx: Any, dataset: Any, source: Any = None) -> None:
        """Begin to go through a dataset, the value of ``source``; what it went through before is dropped."""
        ctx.check(
            isinstance(dataset, Dataset),
            errors.InvalidArgumentError,
            f"a {type(dataset).__name__} in place of a dataset",
        )
        check_elements(ctx, (dataset.types, dataset.shapes), (self.types, self.shapes))
        turn = threading.Lock()
        with turn:
            self._turns.begin(turn, ctx.cancellation)
            self._made_by = ctx.cancellation if self._iterator is None else None
            self._make(ctx, dataset, source)

    def _make(self, ctx: Any, dataset: Dataset, source: Any) -> None:
        self._drop()
        self._cut = Cut.of(ctx)
        self._fingerprint = None
        if self._source is not source or source is None:
            self._source, self._pipeline_graph = source, None
        if source is not None:
            self._built_of = None
        self._pipeline = pipeline = Pipeline(ctx.functions.with_own_streams())
        with pipeline.for_step(ctx.cancellation):
            self._iterator = dataset.iterate(Context(pipeline))
            if self._watch is not None:
                self._watch = measuring.Watch(pipeline, self._iterator)
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                self._go_to(ctx, self._iterator, pipeline, waiting)

    def begin(self, ctx: Any) -> None:
        """Make a one-shot iterator that has not been used yet, or one that waits at a place with its pipeline."""
        if self._iterator is None and self._factory is None and self._waiting is not None:
            graph = places.decoded(self._waiting, ctx.op).get("graph")
            if graph is not None:
                self._built_of = graph
                self.make(ctx, stored_pipelines.dataset_of(ctx, *graph))
                self._pipeline_graph = tuple(graph)
        if self._iterator is None and self._factory is not None:
            factory, self._factory = self._factory, None
            try:
                (dataset,) = ctx.functions.prepare(factory, ())((), ctx.cancellation)
                self.make(ctx, dataset)
            except BaseException:
                self._factory = factory
                raise

    def _drop(self) -> None:
        if self._iterator is not None and self._pipeline is not None:
            self._pipeline.cancel(f"Iterator {self.name!r} began anew.")
            self._pipeline.join()
            self._iterator.close()
        self._iterator = None

    # ------------------------------------------------------------------------------------------------------------ using
    def next(self, ctx: Any) -> Element | None:
        """The next element; None at the end."""
        token = ctx.cancellation
        if self._iterator is None:
            self.begin(ctx)
        if self._cut is not None:
            self._cut.take(token)
        turn = threading.Lock()
        with turn:
            self._turns.begin(turn, token)
            iterator, pipeline = self._made(ctx)
            with pipeline.for_step(token):
                if ctx.pieces is None:
                    return iterator.next()
                with measuring.watched(pipeline, iterator) as watch:
                    element = iterator.next()
                for op, counts in watch.taken().items():
                    ctx.pieces.append((op, counts.began, counts.began + counts.seconds, counts.note()))
                return element

    def stage_counts(self, ctx: Any) -> dict[Any, measuring.Counts]:
        """What the stages have done since this was asked last; nothing at the first time, which begins to count."""
        if self._iterator is None:
            self.begin(ctx)
        turn = threading.Lock()
        with turn:
            self._turns.begin(turn, ctx.cancellation)
            iterator, pipeline = self._made(ctx)
            if self._watch is None:
                self._watch = measuring.Watch(pipeline, iterator)
            return self._watch.taken()

    def _made(self, ctx: Any) -> tuple[Iterator, Pipeline]:
        if self._iterator is None or self._pipeline is None:
            raise errors.FailedPreconditionError(
                None,
                ctx.op,
                "GetNext() failed because the iterator has not been initialized. Ensure that you have run the "
                "initializer operation for this iterator before getting the next element.\n"
                + errors.message(
                    f"an element of iterator {self.name!r}",
                    "an iterator that has been initialised",
                    "session.run(iterator.initializer)",
                ),
            )
        return self._iterator, self._pipeline

    # ---------------------------------------------------------------------------------------------------------- saving
    def save(self, ctx: Any) -> StoredVariant:
        """The place that it has come to, between two steps that take elements."""
        if self._iterator is None:
            self.begin(ctx)
        if self._cut is not None:
            self._cut.save(ctx.cancellation)
        turn = threading.Lock()
        with turn:
            self._turns.begin(turn, ctx.cancellation)
            iterator, pipeline = self._made(ctx)
            with pipeline.for_step(ctx.cancellation), pipeline.paused():
                if self._pipeline_graph is None and self._source is not None:
                    self._pipeline_graph = stored_pipelines.stored(self._source)
                place = {
                    "stages": self._stages(iterator),
                    "iterator": iterator.save(),
                    "pipeline": pipeline.save(),
                    "graph": None if self._pipeline_graph is None else [*self._pipeline_graph],
                }
        return places.encoded(place, ctx.op)

    def restore(self, ctx: Any, variant: StoredVariant) -> None:
        """Go to a saved place of the same pipeline; if the iterator has not been made yet, when it is."""
        if self._iterator is None:
            self.begin(ctx)
        turn = threading.Lock()
        with turn:
            self._turns.begin(turn, ctx.cancellation)
            if self._iterator is None or self._pipeline is None:
                self._waiting = variant
                return
            made_for_this, self._made_by = self._made_by is ctx.cancellation, None
            if made_for_this:
                self._take_saved_pipeline(ctx, self._iterator, variant)
            with self._pipeline.for_step(ctx.cancellation):
                self._go_to(ctx, self._iterator, self._pipeline, variant)

    def _take_saved_pipeline(self, ctx: Any, iterator: Iterator, variant: StoredVariant) -> None:
        """Go through the pipeline that is saved with a place if the graph's, which the program has not begun, differs.

        As in TensorFlow, a place brings its pipeline along. An iterator that the program itself has initialised has one
        already, and keeps it.
        """
        place = places.decoded(variant, ctx.op)
        graph = place.get("graph")
        difference = fingerprints.difference(place["stages"], self._stages(iterator))
        if graph is None or difference is None:
            return
        dataset = stored_pipelines.dataset_of(ctx, *graph)
        check_elements(ctx, (dataset.types, dataset.shapes), (self.types, self.shapes))
        warnings.warn(
            errors.message(
                f"the place of iterator {self.name!r}, which has not been initialised, in another pipeline: "
                f"{difference}. The iterator goes on in the pipeline that was saved, as in TensorFlow",
                "the pipeline as it was when the place was saved",
                "session.run(iterator.initializer) after the restore to begin anew with this pipeline; before it, to "
                "have the place refused",
            ),
            stacklevel=2,
        )
        self._built_of = graph
        self._make(ctx, dataset, None)
        self._pipeline_graph = tuple(graph)

    def _go_to(self, ctx: Any, iterator: Iterator, pipeline: Pipeline, variant: StoredVariant) -> None:
        place = places.decoded(variant, ctx.op)
        if self._built_of is not None and place.get("graph") == self._built_of:
            self._fingerprint = place["stages"]  # of the program that built it, which may name things otherwise
        difference = fingerprints.difference(place["stages"], self._stages(iterator))
        if difference is not None:
            raise errors.InvalidArgumentError(
                None,
                ctx.op,
                errors.message(
                    f"the place of iterator {self.name!r} in another pipeline: {difference}",
                    "the pipeline as it was when the place was saved",
                    "a saver without the iterator, tf.train.Saver(tf.global_variables()), and iterator.initializer to "
                    "begin anew",
                ),
            )
        iterator.restore(place["iterator"])
        pipeline.restore(place["pipeline"])  # last: going to a place has begun passes

    def _stages(self, iterator: Iterator) -> list[tuple[str, str]]:
        if self._fingerprint is None:
            self._fingerprint = fingerprints.of(iterator.dataset)
        return self._fingerprint

    # ---------------------------------------------------------------------------------------------------------- closing
    def shutdown(self) -> None:
        """Cancel what it does; it is not used any more, and :meth:`finish` follows."""
        if self._pipeline is not None:
            self._pipeline.cancel("Session was closed.")

    def finish(self) -> None:
        """Wait until its threads have ended, and let go of what they used."""
        iterator, self._iterator = self._iterator, None
        if iterator is not None and self._pipeline is not None:
            self._pipeline.join()
            iterator.close()


def check_elements(ctx: Any, given: tuple[Any, Any], wanted: tuple[Any, Any]) -> None:
    """Refuse elements of other types or shapes than an iterator's."""
    (types, sizes), (wanted_types, wanted_sizes) = given, wanted
    ctx.check(
        len(types) == len(wanted_types),
        errors.InvalidArgumentError,
        f"Number of components does not match: expected {len(wanted_types)} types but got {len(types)}.",
    )
    for i, (mine, other) in enumerate(zip(types, wanted_types, strict=True)):
        ctx.check(
            mine == other,
            errors.InvalidArgumentError,
            f"Data type mismatch at component {i}: expected {_c_name(other)} but got {_c_name(mine)}.",
        )
    for i, (mine, other) in enumerate(zip(sizes, wanted_sizes, strict=False)):
        ctx.check(
            shapes.is_compatible(mine, other),
            errors.InvalidArgumentError,
            f"Incompatible shapes at component {i}: expected {shapes.show(other)} but got {shapes.show(mine)}.",
        )


_C_NAMES = {"float32": "float", "float64": "double", "float16": "half"}


def _c_name(dtype: dtypes.DType) -> str:
    return _C_NAMES.get(dtype.name, dtype.name)


# -------------------------------------------------------------------------------------------------------------- the ops
def _create(attrs: dict[str, Any], name: str) -> IteratorResource:
    return IteratorResource(attrs["shared_name"] or name, attrs)


_NAMED = {"shared_name": String(), "container": String(), **ELEMENTS}

for _type in ("Iterator", "IteratorV2"):
    define(
        _type,
        "An iterator, which ``MakeIterator`` sets to the beginning of a dataset.",
        signature="-> handle: resource",
        attrs=_NAMED,
        effect=PURE,
        makes="iterator",
        private=True,
        create=_create,
        shape=inference.scalar,
        gradient=_NO_GRADIENT,
    )


class OneShotIterator(Op):
    """An iterator over the dataset that ``dataset_factory`` makes when the iterator is first used; it goes once."""

    signature = "-> handle: resource"
    attrs = {
        "dataset_factory": Func(captures=""),
        **ELEMENTS,
        "container": String(""),
        "shared_name": String(""),
    }
    effect = PURE
    makes = "iterator"
    private = True
    shape = inference.scalar
    gradient = _NO_GRADIENT

    def create(attrs, name):
        return IteratorResource(attrs["shared_name"] or name, attrs, attrs["dataset_factory"])


class MakeIterator(Op):
    """Set an iterator to the beginning of a dataset."""

    signature = "dataset: variant, iterator: resource ->"
    effect = channel("iterator")
    may_block = True
    shape = inference.no_outputs
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        iterator_of(ctx, inputs[1]).make(ctx, inputs[0], ctx.op._inputs[0])


def iterator_of(ctx: Any, handle: Any) -> IteratorResource:
    """The iterator behind a handle."""
    resource = ctx.resource(handle)
    ctx.check(
        isinstance(resource, IteratorResource),
        errors.InvalidArgumentError,
        f"Handle {getattr(handle, 'name', handle)!r} is of a {type(resource).__name__}, not of an iterator",
    )
    return resource  # type: ignore[no-any-return]


def makers_of(handle: Tensor) -> list[Operation]:
    """The operations that set an iterator to the beginning of a dataset."""
    return [op for op in handle.consumers() if op.definition is MakeIterator.definition]


def element_shapes(c: ShapeContext) -> list[Any]:
    """Shape rule of ops that give out the components of an element."""
    return list(c.attrs["output_shapes"])


def _get_next(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Sequence[Any]:
    element = iterator_of(ctx, inputs[0]).next(ctx)
    if element is None:
        raise errors.OutOfRangeError(None, ctx.op, "End of sequence")
    return element


for _type in ("IteratorGetNext", "IteratorGetNextSync"):
    define(
        _type,
        "The components of an iterator's next element; OutOfRangeError at the end.",
        signature="iterator: resource -> components: [output_types]",
        attrs=ELEMENTS,
        effect=channel("iterator"),
        may_block=True,
        shape=element_shapes,
        host_kernel=_get_next,
        gradient=_NO_GRADIENT,
    )


class IteratorGetNextAsOptional(Op):
    """An iterator's next element as an optional, which has no value at the end."""

    signature = "iterator: resource -> optional: variant"
    attrs = ELEMENTS
    effect = channel("iterator")
    may_block = True
    shape = inference.scalar
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return HostOptional(iterator_of(ctx, inputs[0]).next(ctx))


class SerializeIterator(Op):
    """The place that an iterator has come to, as a variant that a checkpoint can hold.

    Steps that take elements are over, or begin when this one is: variables that it saves, too, are those of the place.
    """

    signature = "resource_handle: resource -> serialized: variant"
    attrs = {"external_state_policy": Int(0)}
    effect = channel("resource_handle")
    may_block = True
    shape = inference.scalar
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return iterator_of(ctx, inputs[0]).save(ctx)


class DeserializeIterator(Op):
    """Set an iterator to a saved place of the same pipeline; one that has not been made goes there when it is."""

    signature = "resource_handle: resource, serialized: variant ->"
    effect = channel("resource_handle")
    may_block = True
    shape = inference.no_outputs
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        variant = stored(inputs[1])
        ctx.check(
            variant is not None,
            errors.InvalidArgumentError,
            f"a {type(inputs[1]).__name__} in place of a saved place of an iterator",
        )
        iterator_of(ctx, inputs[0]).restore(ctx, variant)


# ------------------------------------------------------------------------------------------------------- string handles
HANDLE_PARTS = ("kind", "container", "name", "device")
"""What a string handle says about a resource, in order."""


class IteratorToStringHandle(Op):
    """A string that names an iterator, to be fed to what ``IteratorFromStringHandle`` reads."""

    signature = "resource_handle: resource -> string_handle: string"
    effect = channel("resource_handle")
    shape = inference.scalar
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        iterator_of(ctx, inputs[0])
        return named(inputs[0])


def named(handle: Any) -> np.ndarray:
    """The string that names a resource."""
    return np.array("\x1f".join(getattr(handle, key) for key in HANDLE_PARTS).encode(), object)


def handle_of(ctx: Any, name: Any) -> Any:
    """The handle of the resource that a string names."""
    text = np.asarray(name, object)
    ctx.check(text.ndim == 0, errors.InvalidArgumentError, "string_handle must be a scalar")
    parts = text.item().decode("utf-8", "replace").split("\x1f")
    ctx.check(
        len(parts) == len(HANDLE_PARTS),
        errors.InvalidArgumentError,
        "Could not parse string_handle as a valid ResourceHandle",
    )
    return ctx.handle(*parts)


def _device_of(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    iterator_of(ctx, inputs[0])
    return np.array(inputs[0].device.encode(), object)


for _type in ("IteratorGetDevice", "ExperimentalIteratorGetDevice"):
    define(
        _type,
        "The name of the device of an iterator.",
        signature="resource: resource -> device: string",
        effect=channel("resource"),
        shape=inference.scalar,
        host_kernel=_device_of,
        gradient=_NO_GRADIENT,
    )


def _from_string(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    handle = handle_of(ctx, inputs[0])
    resource = iterator_of(ctx, handle)
    if attrs["output_types"]:
        check_elements(
            ctx, (resource.types, resource.shapes), (attrs["output_types"], attrs["output_shapes"] or resource.shapes)
        )
    return [handle]


for _type in ("IteratorFromStringHandle", "IteratorFromStringHandleV2"):
    define(
        _type,
        "The handle of the iterator that a string names, whose elements must have the given types and shapes.",
        signature="string_handle: string -> resource_handle: resource",
        attrs={"output_types": List("type", (), minimum=0), "output_shapes": List("shape", (), minimum=0)},
        effect=PURE,
        shape=inference.scalar,
        host_kernel=_from_string,
        gradient=_NO_GRADIENT,
    )

__all__ = ["IteratorResource", "check_elements", "element_shapes", "iterator_of"]
