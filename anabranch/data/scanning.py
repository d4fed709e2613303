"""Transformations whose next element depends on those before: scan, take_while, unique."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes
from anabranch.core.values.shapes import TensorShape
from anabranch.data import function_bodies, structure
from anabranch.data.dataset import Dataset
from anabranch.data.structure import TensorComponent

Transformation = Callable[[Dataset], Dataset]


@public("data.experimental.scan", "contrib.data.scan")
def scan(initial_state: Any, scan_func: Callable[..., Any]) -> Transformation:
    """What ``scan_func`` gives for a state and an element; it gives the next state, too.

    Args:
        initial_state: a structure of tensors.
        scan_func: returns a pair for state and element: the next state, and what stands in the element's place.

    Example:
        >>> import anabranch as tf
        >>> sums = tf.data.experimental.scan(tf.constant(0, tf.int64), lambda total, x: (total + x, total + x))
        >>> element = tf.data.Dataset.range(4).apply(sums).batch(4).make_one_shot_iterator().get_next()
        >>> with tf.Session() as session:
        ...     session.run(element).tolist()
        [0, 1, 3, 6]
    """
    name = "tf.data.experimental.scan()"

    def state_of(returned: Any) -> Any:
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise TypeError(
                "The scan function must return a pair comprising the new state and the output value.\n"
                + errors.message(f"{returned!r}", "a pair", "return state, output")
            )
        return returned[0]

    def apply(dataset: Dataset) -> Dataset:
        with name_scope("normalize_element"):
            state, spec = structure.normalized(initial_state)
            tensors = structure.to_tensors(spec, state)
        traced, spec = function_bodies.trace_state(scan_func, spec, dataset._spec, name, state_of)
        scanned = dataset._stage(
            "ScanDataset",
            tensors,
            traced.captured,
            spec=traced.spec[1],
            f=traced.body,
            preserve_cardinality=True,
        )
        function_bodies.own(scanned._variant_tensor._made_by)
        return scanned

    return apply


@public("data.experimental.take_while")
def take_while(predicate: Callable[..., Any]) -> Transformation:
    """The elements before the first for which ``predicate`` does not give True, a scalar."""

    def apply(dataset: Dataset) -> Dataset:
        traced = function_bodies.trace(predicate, dataset._spec, "tf.data.experimental.take_while()")
        component = traced.spec
        if not (
            isinstance(component, TensorComponent)
            and component.dtype is dtypes.bool_
            and component.shape.is_compatible_with(TensorShape([]))
        ):
            raise ValueError(
                "`predicate` must return a scalar boolean tensor.\n"
                + errors.message(f"{component!r}", "one boolean scalar", "take_while(lambda x: x < 10)")
            )
        return dataset._calling("TakeWhileDataset", traced, "predicate", spec=dataset._spec)

    return apply


@public("data.experimental.unique", "contrib.data.unique")
def unique() -> Transformation:
    """Each element where it comes for the first time: integers (int32, int64) or strings."""

    def apply(dataset: Dataset) -> Dataset:
        component = dataset._spec
        if not isinstance(component, TensorComponent) or component.dtype not in (
            dtypes.int32,
            dtypes.int64,
            dtypes.string,
        ):
            raise TypeError(
                "`tf.data.experimental.unique()` only supports inputs with a single `tf.int32`, `tf.int64`, or "
                "`tf.string` component.\n"
                + errors.message(f"{component!r}", "integers or strings", "dataset.map(lambda x: x['id'])")
            )
        return dataset._stage("UniqueDataset")

    return apply
