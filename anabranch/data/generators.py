"""Datasets of Python generators: three functions of the graph around what lives in Python.

Each pass calls the program's function anew. What it returns is gone through by ``tf.py_func``, on the thread that asks
for the element; its values are converted to the dtypes that were declared, and their shapes checked.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.public_scopes import control_dependencies
from anabranch.core.values import dtypes, shapes
from anabranch.data import function_bodies, nest, structure
from anabranch.data.structure import Component, TensorComponent
from anabranch.ops.control.bodies import told
from anabranch.ops.control.python_functions import py_func


class _Passes:
    """The passes through a generator that are going on, by their numbers."""

    def __init__(self, generator: Any, spec: Any) -> None:
        self._generator = generator
        self._spec = spec
        self._components: list[Component] = nest.flatten(spec)
        self._alone = isinstance(spec, Component)
        """Whether elements are bare values, so that there is nothing to take apart."""
        self._numbers = itertools.count()
        self._going_on: dict[int, Iterator[Any]] = {}
        self._lock = threading.Lock()

    def begin(self, *arguments: Any) -> np.ndarray:
        """Call the generator's function; the number of the pass."""
        values = iter(self._generator(*arguments))
        with self._lock:
            number = next(self._numbers)
            self._going_on[number] = values
        return np.array(number, np.int64)

    def next(self, number: Any) -> list[np.ndarray]:
        """The components of the next element; StopIteration at the end."""
        value = next(self._going_on[int(number)])
        try:
            parts = [value] if self._alone else nest.flatten_up_to(self._spec, value)
        except (TypeError, ValueError) as problem:
            raise TypeError(
                "`generator` yielded an element that did not match the expected structure. The expected structure was "
                f"{nest.map_structure(lambda c: c.legacy_type, self._spec)}, but the yielded element was {value}.\n"
                + errors.message(f"{value!r} from {told(self._generator)}", "elements as declared", "yield a tuple")
            ) from problem
        arrays: list[np.ndarray] = []
        for part, component in zip(parts, self._components, strict=True):
            arrays += self._converted(part, component)
        return arrays

    def _converted(self, value: Any, component: Component) -> list[np.ndarray]:
        try:
            parts = component.parts_of(value)
            arrays = [
                _strings(part) if dtype is dtypes.string else _numbers(part, dtype)
                for part, dtype in zip(parts, component.part_types, strict=True)
            ]
        except (TypeError, ValueError) as problem:
            named = _named(component)
            raise TypeError(
                "`generator` yielded an element that could not be converted to the expected type. The expected type "
                f"was {named}, but the yielded element was {value} ({problem}).\n"
                + errors.message(
                    f"{value!r} from {told(self._generator)}", f"{named} values", f"np.asarray(value, np.{named})"
                )
            ) from problem
        given, shape = component.shape_of(arrays), component.legacy_shape
        if given is not None and not shape.is_compatible_with(given):
            raise ValueError(
                f"`generator` yielded an element of shape {given} where an element of shape {shape} "
                "was expected.\n"
                + errors.message(
                    f"shape {shapes.show(given)} from {told(self._generator)}",
                    shapes.show(shape.raw),
                    "output_shapes that fit, or None",
                )
            )
        return arrays

    def end(self, number: Any) -> np.ndarray:
        """Let go of a pass."""
        with self._lock:
            values = self._going_on.pop(int(number), None)
        close = getattr(values, "close", None)
        if close is not None:
            close()
        return np.array(0, np.int64)


def _named(component: Component) -> str:
    """What messages call the dtype of a component's values."""
    return str(getattr(component.legacy_type, "name", component.legacy_type))


def _strings(value: Any) -> np.ndarray:
    array = np.asarray(value, object) if isinstance(value, str | bytes) else np.asarray(value)
    if array.dtype.kind not in "OSU" or not all(isinstance(item, str | bytes) for item in array.astype(object).flat):
        raise TypeError(f"{value!r} is not made of strings")
    return array


def _numbers(value: Any, dtype: dtypes.DType) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype != dtype.np:
        if array.dtype.kind in "OSU":
            np.asarray(value, dtype.np)  # says what NumPy misses, if it does
            raise TypeError(f"{value!r} is not made of numbers")
        array = np.asarray(value, dtype.np)
    return array


def dataset_of(kind: Any, generator: Any, spec: Any, args: Any) -> Any:
    """The dataset, of the class ``kind``, of what a generator gives: values of a structure of components."""
    if not callable(generator):
        raise TypeError(
            "`generator` must be callable.\n"
            + errors.message(
                f"{type(generator).__name__} as generator",
                "a function that returns something to iterate over",
                "Dataset.from_generator(lambda: values, tf.int64)",
            )
        )
    passes = _Passes(generator, spec)
    arguments = () if args is None else tuple(convert_to_tensor(item, name="args") for item in args)
    number = TensorComponent(dtypes.int64, shapes.TensorShape([]))
    parts = nest.flatten(spec)
    types = [dtype for component in parts for dtype in component.part_types]

    def begin(*values: Any) -> Any:
        tensor = py_func(passes.begin, list(values), dtypes.int64)
        tensor.set_shape([])
        return tensor

    def go_on(pass_number: Any) -> Any:
        tensors = py_func(passes.next, [pass_number], types)
        rest = iter(tensors if types else [])
        with control_dependencies([] if types else [tensors]):
            values = [
                component.of_parts(list(itertools.islice(rest, len(component.part_types)))) for component in parts
            ]
        return nest.pack_sequence_as(spec, values)

    def end(pass_number: Any) -> Any:
        return py_func(passes.end, [pass_number], dtypes.int64)

    def one_pass(*values: Any) -> Any:
        specs = tuple(structure.component_of(value) for value in values)
        first = function_bodies.trace_arguments(begin, specs, "Dataset.from_generator()")
        others = [function_bodies.trace_arguments(item, (number,), "Dataset.from_generator()") for item in (go_on, end)]
        variant = build(
            "GeneratorDataset",
            [*values, *first.captured],
            others[0].captured,
            others[1].captured,
            init_func=first.body,
            next_func=others[0].body,
            finalize_func=others[1].body,
            **structure.attrs_of(spec),
        )
        function_bodies.own(variant._made_by)
        return kind(variant, spec)

    source = kind.from_tensors(arguments if arguments else (constant(0, dtypes.int64),))
    return source.flat_map(lambda *values: one_pass(*(values if arguments else ())))
