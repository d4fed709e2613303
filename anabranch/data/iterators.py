"""``tf.data.Iterator``: what goes through a dataset, one element for each step that asks for it."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.roles import Role
from anabranch.core.graph import body_ops, composites
from anabranch.core.graph.body import Body
from anabranch.core.graph.build import build, build_operation
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import colocate_with, name_scope
from anabranch.core.values import dtypes
from anabranch.data import nest, structure
from anabranch.data.iterator_saveable import IteratorSaveable
from anabranch.session import Session, get_default_session

ITERATORS = "iterators"
"""The collection of iterators' handles."""
MANY_CALLS = 32
"""Calls of ``get_next`` from which on a program is warned."""
WARNING_OF_MANY_CALLS = (
    "An unusually high number of `Iterator.get_next()` calls was detected. This often indicates that "
    "`Iterator.get_next()` is being called inside a training loop, which will cause gradual slowdown and "
    "eventual resource exhaustion. If this is the case, restructure your code to call "
    "`next_element = iterator.get_next()` once outside the loop, and use `next_element` as the input to "
    "some computation that is invoked inside the loop."
)


@public("data.Iterator", "contrib.data.Iterator")
class Iterator(structure.OfElements):
    """A place in a dataset. Made by ``make_one_shot_iterator`` and the like, or by ``from_structure``.

    Args:
        iterator_resource: its handle.
        initializer: the operation that sets it to the beginning; None if there is none.
        output_types: the dtype of each component.
        output_shapes: their static shapes.
        output_classes: their classes.
    """

    def __init__(
        self, iterator_resource: Tensor, initializer: Any, output_types: Any, output_shapes: Any, output_classes: Any
    ) -> None:
        if output_types is None or output_shapes is None or output_classes is None:
            raise ValueError(
                "If `structure` is not specified, all of `output_types`, `output_shapes`, and `output_classes` must be "
                "specified.\n"
                + errors.message("None among them", "dtypes, shapes and classes", "Iterator.from_structure(types)")
            )
        self._iterator_resource = iterator_resource
        self._initializer = initializer
        self._spec = structure.from_legacy(output_types, output_shapes, output_classes)
        self._trace_key: Any = None
        self._string_handle = build("IteratorToStringHandle", iterator_resource)
        self._calls = 0
        current_builder().add_to_collection(ITERATORS, iterator_resource)

    def __iter__(self) -> Iterator:
        """Itself, where ops run at once."""
        return self

    def __next__(self) -> Any:
        if current_builder().defers:
            raise RuntimeError(
                "Iterator.__next__() is only supported when eager execution is enabled.\n"
                + errors.message("next() of an iterator of a graph", "a session", "session.run(iterator.get_next())")
            )
        try:
            return self.get_next()
        except errors.OutOfRangeError:
            raise StopIteration from None

    next = __next__

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        """What saves its place in a checkpoint by object."""
        return {"ITERATOR_STATE": lambda name: IteratorSaveable(self._iterator_resource, name)}

    @staticmethod
    def from_structure(
        output_types: Any, output_shapes: Any = None, shared_name: str | None = None, output_classes: Any = None
    ) -> Iterator:
        """An iterator for elements of a structure; ``make_initializer`` sets it to the beginning of a dataset.

        Args:
            output_types: the dtype of each component.
            output_shapes: their static shapes; unknown if None.
            shared_name: name under which sessions share it; its own if None.
            output_classes: their classes; tf.Tensor if None.

        Example:
            >>> import anabranch as tf
            >>> iterator = tf.data.Iterator.from_structure(tf.int64, [])
            >>> begin = iterator.make_initializer(tf.data.Dataset.range(3))
            >>> element = iterator.get_next()
            >>> with tf.Session() as session:
            ...     session.run(begin)
            ...     session.run(element)
            np.int64(0)
        """
        return _of_spec(structure.from_legacy(output_types, output_shapes, output_classes), shared_name)

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> Iterator:
        """The iterator that a string names, which ``iterator.string_handle()`` gave; the string may be fed.

        Args:
            string_handle: a string scalar.
            output_types: the dtype of each component.
            output_shapes: their static shapes; unknown if None.
            output_classes: their classes; tf.Tensor if None.
        """
        spec = structure.from_legacy(output_types, output_shapes, output_classes)
        text = convert_to_tensor(string_handle, dtypes.string)
        handle = build("IteratorFromStringHandleV2", text, **structure.attrs_of(spec))
        return _iterator(handle, None, spec)

    @property
    def initializer(self) -> Any:
        """The operation that sets it to the beginning; ValueError if there is none."""
        if self._initializer is None:
            raise ValueError(
                "Iterator does not have an initializer.\n"
                + errors.message(
                    "the initializer of an iterator that needs none, or that may go through any dataset",
                    "an initializable iterator",
                    "iterator.make_initializer(dataset)",
                )
            )
        return self._initializer

    def make_initializer(self, dataset: Any, name: str | None = None) -> Operation:
        """An operation that sets it to the beginning of ``dataset``, whose elements must be like its own."""
        with name_scope(name, "make_initializer") as scope:
            nest.assert_same_structure(self.output_types, dataset.output_types)
            pairs = list(zip(nest.flatten(self._spec), nest.flatten(dataset._spec), strict=True))
            for what, differs in (
                ("classes", lambda mine, its: mine.legacy_class is not its.legacy_class and not _nested(mine, its)),
                ("types", lambda mine, its: mine.legacy_type != its.legacy_type),
            ):
                if any(differs(mine, its) for mine, its in pairs):
                    raise TypeError(
                        f"Expected output {what} {getattr(self, f'output_{what}')!r} but got dataset with output "
                        f"{what} {getattr(dataset, f'output_{what}')!r}.\n"
                        + errors.message("a dataset of other elements", "one like the iterator", "dataset.map(...)")
                    )
            if not structure.is_compatible(self._spec, dataset._spec):
                raise TypeError(
                    f"Expected output shapes compatible with {self.output_shapes!r} but got dataset with output shapes "
                    f"{dataset.output_shapes!r}.\n"
                    + errors.message(
                        "a dataset of other shapes", "shapes like the iterator's", "Iterator.from_structure"
                    )
                )
            with colocate_with(self._iterator_resource):
                variant = dataset._variant_tensor
                operation: Operation = build("MakeIterator", variant, self._iterator_resource, name=scope)
                return operation

    def get_next(self, name: str | None = None) -> Any:
        """The next element, taken when a step runs it: a structure of tensors.

        Each call adds an operation that takes an element of its own: call it once, before the loop that runs steps.
        A step raises OutOfRangeError at the end of the dataset.
        """
        self._calls += 1
        if self._calls > MANY_CALLS:
            warnings.warn(WARNING_OF_MANY_CALLS, stacklevel=2)
        components = build("IteratorGetNext", self._iterator_resource, name=name, **structure.attrs_of(self._spec))
        return structure.from_tensors(self._spec, components if isinstance(components, list) else [components])

    def string_handle(self, name: str | None = None) -> Tensor:
        """A string that names it, to be fed to what ``from_string_handle`` was made of."""
        if name is None:
            return self._string_handle
        tensor: Tensor = build("IteratorToStringHandle", self._iterator_resource, name=name)
        return tensor

    def stage_summary(self, name: str = "input", collections: Any = None) -> Tensor:
        """A serialised summary of what each stage has done since this was run last, as scalars for TensorBoard.

        Of each stage ``name/<operation>/``: ``us_each``, its own time for an element in microseconds; ``elements``;
        ``part_of_time``, that of the whole pipeline; and, where it makes elements ahead, ``ready`` and ``room`` for how
        many. A stage behind a prefetch works on a thread; the time of the prefetch itself is what it was waited for.
        Counting begins with the first run, and takes about a microsecond for each call of a stage.

        Args:
            name: prefix of the tags.
            collections: keys of the collections that it joins; ``[GraphKeys.SUMMARIES]`` if None.

        Example:
            >>> import anabranch as tf
            >>> iterator = tf.data.Dataset.range(9).map(lambda x: x * x).make_initializable_iterator()
            >>> element, stages = iterator.get_next(), iterator.stage_summary()
            >>> with tf.Session() as session:
            ...     _ = session.run(iterator.initializer), session.run(stages), session.run(element)
            ...     summary = tf.Summary.FromString(session.run(stages))
            >>> [value.tag for value in summary.value if value.tag.endswith("elements")]
            ['input/RangeDataset/elements', 'input/MapDataset/elements']
        """
        summary: Tensor = build("AnabranchStageSummary", self._iterator_resource, name)
        summary.graph.add_to_collections([GraphKeys.SUMMARIES] if collections is None else collections, summary)
        return summary


def _with_handle(iterator: Iterator, tensors: Any) -> Iterator:
    """The iterator as a function sees it, to which its handle is an argument."""
    inner = copy.copy(iterator)
    (inner._iterator_resource,) = tensors
    return inner


def _trace_key(iterator: Iterator) -> Any:
    """What an iterator is to a traced function, which asks at each call."""
    if iterator._trace_key is None:
        iterator._trace_key = Iterator, structure.key_of(iterator._spec)
    return iterator._trace_key


composites.register(
    Iterator,
    lambda iterator: [iterator._iterator_resource],
    _with_handle,
    key=_trace_key,
)


def _nested(mine: Any, its: Any) -> bool:
    """Whether both components are datasets, whose classes are themselves."""
    return type(mine) is type(its) and mine.legacy_class is mine


def _iterator(handle: Tensor, initializer: Any, spec: Any) -> Iterator:
    legacy = [
        nest.map_structure(lambda component, key=key: getattr(component, f"legacy_{key}"), spec)
        for key in ("type", "shape", "class")
    ]
    return Iterator(handle, initializer, *legacy)


def _of_spec(spec: Any, shared_name: str | None) -> Iterator:
    attrs = structure.attrs_of(spec)
    return _iterator(build("IteratorV2", container="", shared_name=shared_name or "", **attrs), None, spec)


# ------------------------------------------------------------------------------------------------ iterators of datasets
def initializable(dataset: Any, shared_name: str | None = None) -> Iterator:
    """An iterator that begins when its initializer runs."""
    if not current_builder().defers:
        raise RuntimeError(
            "dataset.make_initializable_iterator is not supported when eager execution is enabled.\n"
            + errors.message("an initializer, where ops run at once", "a loop", "for element in dataset: ...")
        )
    complete = dataset._with_options_applied()
    attrs = structure.attrs_of(dataset._spec)
    handle = build("IteratorV2", container="", shared_name=shared_name or "", **attrs)
    with colocate_with(handle):
        initializer = build("MakeIterator", complete._variant_tensor, handle)
    return _iterator(handle, initializer, dataset._spec)


def one_shot(dataset: Any) -> Iterator:
    """An iterator that goes through a dataset once: a function makes the dataset when it is first used."""
    if not current_builder().defers:
        attrs = structure.attrs_of(dataset._spec)
        handle = build("IteratorV2", container="", shared_name="", **attrs)
        build("MakeIterator", dataset._with_options_applied()._variant_tensor, handle)
        return _iterator(handle, None, dataset._spec)
    graph = get_default_graph()
    factory = Body(graph, graph.unique_name("make_dataset"), graph.current_body)
    factory.called = factory
    with graph.name_scope(f"{factory.name}/"), graph.control_dependencies(None), graph.bare_scopes():
        with graph.building(factory):
            inside = _copied(dataset, factory)
            factory.outputs = [inside._with_options_applied()._variant_tensor]
    attrs = structure.attrs_of(dataset._spec)
    op = build_operation("OneShotIterator", (), {"dataset_factory": factory, **attrs})
    body_ops.own(op)
    return _iterator(op._outputs[0], None, dataset._spec)


def _copied(dataset: Any, factory: Body) -> Any:
    """The dataset with all that makes it copied into a function: a one-shot iterator has nothing else."""
    copies: dict[Operation, Operation] = {}
    waiting = [dataset._variant_tensor.op]
    while waiting:
        op = waiting[-1]
        if op in copies:
            waiting.pop()
            continue
        _refuse_state(op)
        sources = [source for source in (*(t.op for t in op._inputs), *op._control_inputs) if source not in copies]
        if sources:
            waiting += sources
            continue
        inputs = [copies[tensor.op]._outputs[tensor.value_index] for tensor in op._inputs]
        copies[op] = body_ops.copy_op(op, inputs, factory)
        copies[op].user_site = op.user_site
        waiting.pop()
    inside = copy.copy(dataset)
    inside._variant_tensor = copies[dataset._variant_tensor.op]._outputs[dataset._variant_tensor.value_index]
    return inside


def _refuse_state(op: Operation) -> None:
    """What a function that has nothing from outside cannot hold: variables, tables, what is fed, random draws."""
    fed = op.role is Role.PLACEHOLDER and op.definition.effect.kind == "feed"
    if fed:
        problem = f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value."
    elif op.definition.is_stateful or op.role is Role.ARGUMENT:
        problem = f"Cannot capture a stateful node (name:{op.name}, type:{op.type}) by value."
    else:
        return
    raise ValueError(
        "Failed to create a one-shot iterator for a dataset. `Dataset.make_one_shot_iterator()` does not support "
        "datasets that capture stateful objects, such as a `Variable` or `LookupTable`. In these cases, consider using "
        f"`Dataset.make_initializable_iterator()`. (Original error: {problem})\n"
        + errors.message(
            f"{op.type} {op.name!r} in a one-shot iterator",
            "a dataset made of constants",
            "dataset.make_initializable_iterator(), and session.run(iterator.initializer)",
            at=op.user_site,
        )
    )


@public("data.make_one_shot_iterator")
def make_one_shot_iterator(dataset: Any) -> Iterator:
    """An iterator that goes through a dataset once, and needs no initialisation."""
    iterator: Iterator = dataset.make_one_shot_iterator()
    return iterator


@public("data.make_initializable_iterator")
def make_initializable_iterator(dataset: Any, shared_name: str | None = None) -> Iterator:
    """An iterator over a dataset that begins when ``iterator.initializer`` runs.

    Args:
        dataset: the dataset.
        shared_name: name under which sessions share it; its own if None.
    """
    iterator: Iterator = dataset.make_initializable_iterator(shared_name)
    return iterator


def report(variant: Tensor, elements: int, seconds: float, session: Any = None) -> str:
    """What the stages of a dataset do on an iterator of their own, as a table; see ``Dataset.explain``."""
    with variant.graph.as_default():
        table = build("AnabranchDatasetReport", variant, np.int64(elements), np.float64(seconds))
        runs = session or get_default_session()
        if runs is None:
            with Session() as own:
                text: bytes = own.run(table)
        else:
            text = runs.run(table)
    return text.decode()
