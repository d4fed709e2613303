"""What may be fetched and fed: nested structures to flat lists of tensors and operations, and back."""

from __future__ import annotations

import collections
import collections.abc
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from anabranch.core.graph.operation import GraphTensor, Operation, Tensor
from anabranch.core.graph.sparse_tensor import SparseTensor, SparseTensorValue
from anabranch.core.values import constants, shapes
from anabranch.runtime import session_tensors
from anabranch.runtime.state.slots import ResourceHandle

Contract = Callable[[Any], Any]
_expansions: list[
    tuple[type, Callable[[Any], tuple[Sequence[Any], Contract]], Callable[[Any, Any], Sequence[tuple[Any, Any]]] | None]
] = []
_partial_expansions: dict[type, Callable[[Any], Sequence[Any]]] = {}


@public("register_session_run_conversion_functions")
def register_session_run_conversion_functions(
    tensor_type: type, fetch_function: Any, feed_function: Any = None, feed_function_for_partial_run: Any = None
) -> None:
    """Teaches sessions to fetch and feed instances of a class.

    Args:
        tensor_type: the class.
        fetch_function: ``obj -> (list of tensors, function from their values to the fetched value)``.
        feed_function: ``(obj, value) -> list of (tensor, value)``.
        feed_function_for_partial_run: ``obj -> list of tensors`` that a partial run is fed for it.

    Raises:
        ValueError: the class, or one of its bases, is registered already.
    """
    for known, _, _ in _expansions:
        if issubclass(tensor_type, known):
            raise ValueError(f"{tensor_type} has already been registered so ignore it.")
    _expansions.insert(0, (tensor_type, fetch_function, feed_function))
    if feed_function_for_partial_run is not None:
        _partial_expansions[tensor_type] = feed_function_for_partial_run


def _slices_fetch(slices: IndexedSlices) -> tuple[list[Any], Contract]:
    parts = [slices.values, slices.indices] + ([slices.dense_shape] if slices.dense_shape is not None else [])
    return parts, lambda values: IndexedSlicesValue(*values, *([None] if len(values) == 2 else []))


def _slices_feed(slices: IndexedSlices, value: Any) -> list[tuple[Any, Any]]:
    keys = [slices.values, slices.indices] + ([slices.dense_shape] if slices.dense_shape is not None else [])
    return list(zip(keys, value, strict=False))


def _sparse_fetch(sparse: SparseTensor) -> tuple[list[Any], Contract]:
    return [sparse.indices, sparse.values, sparse.dense_shape], lambda values: SparseTensorValue(*values)


def _sparse_feed(sparse: SparseTensor, value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, (tuple, list)) or len(value) not in (2, 3):
        raise TypeError(
            errors.message(
                f"a {type(value).__name__} fed to the SparseTensor {sparse.name!r}",
                "its indices, values and dense shape",
                "tf.SparseTensorValue(indices, values, dense_shape)",
            )
        )
    return list(zip([sparse.indices, sparse.values, sparse.dense_shape], value, strict=False))  # the shape may be known


_expansions.append((IndexedSlices, _slices_fetch, _slices_feed))
_expansions.append((SparseTensor, _sparse_fetch, _sparse_feed))


class _NoKey(Exception):
    """A structure holds what only its own class can tell apart."""


def key_of(fetches: Any) -> Any:
    """What structures of fetches share that are flattened and built alike; None if that cannot be told.

    It holds the types of lists, tuples and dictionaries, the keys of these with their types, and the tensors,
    operations and names; a variable counts as the tensor that is fetched for it.
    """
    try:
        return _key(fetches)
    except _NoKey:
        return None


def _key(fetch: Any) -> Any:
    kind = type(fetch)
    if kind is GraphTensor or kind is Operation or kind is str:
        return fetch
    if kind is list or kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return (kind, *[item if type(item) is GraphTensor else _key(item) for item in fetch])
    if kind is dict or kind is collections.OrderedDict:
        return (kind, *[(type(name), name, _key(item)) for name, item in fetch.items()])
    if kind is SparseTensor:
        return kind, fetch.indices, fetch.values, fetch.dense_shape
    if not any(isinstance(fetch, expanded) for expanded, _, _ in _expansions):
        convert = getattr(fetch, "_as_graph_element", None)
        element = convert() if callable(convert) else None
        if type(element) is GraphTensor:
            return element
    raise _NoKey


class FetchPlan:
    """A fetch structure, flattened: unique tensors and operations, and how to build the result from their values.

    ``keep_handle`` makes what is given out of the string of a tensor that the session keeps.
    """

    __slots__ = ("__weakref__", "build", "last", "simple", "unique")

    def __init__(self, graph: Graph, fetches: Any, keep_handle: Callable[[Tensor, Any], Any]):
        self.unique: list[Any] = []
        self.last: Any = None
        """The step that ran last for it, as the worker knows it."""
        index: dict[Any, int] = {}

        def add(item: Any) -> int:
            position = index.get(item)
            if position is None:
                position = index[item] = len(self.unique)
                self.unique.append(item)
            return position

        self.build = _structure(graph, fetches, add, keep_handle)
        self.simple = all(isinstance(item, Tensor) for item in self.unique)


def _structure(
    graph: Graph, fetch: Any, add: Callable[[Any], int], keep_handle: Callable[[Tensor, Any], Any]
) -> Callable[[list[Any]], Any]:
    if fetch is None:
        raise TypeError(
            "Fetch argument None has invalid type <class 'NoneType'>\n"
            + errors.message(
                "None among the fetches", "tensors, operations, names, or structures of them", "leave it out"
            )
        )
    if isinstance(fetch, (list, tuple)):
        parts = [_structure(graph, item, add, keep_handle) for item in fetch]
        if hasattr(fetch, "_fields"):
            make = type(fetch)
            return lambda values: make(*[part(values) for part in parts])
        if isinstance(fetch, tuple):
            return lambda values: tuple([part(values) for part in parts])
        return lambda values: [part(values) for part in parts]
    if isinstance(fetch, collections.abc.Mapping):
        kind: Any = type(fetch)
        named = {key: _structure(graph, item, add, keep_handle) for key, item in fetch.items()}
        if kind is dict:
            return lambda values: {key: part(values) for key, part in named.items()}
        return lambda values: kind((key, part(values)) for key, part in named.items())
    if hasattr(type(fetch), "__attrs_attrs__"):
        make = type(fetch)
        fields = [field.name for field in make.__attrs_attrs__]
        parts = [_structure(graph, getattr(fetch, name), add, keep_handle) for name in fields]
        return lambda values: make(*[part(values) for part in parts])
    if not isinstance(fetch, (Tensor, Operation, str, bytes)):
        for kind, expand, _ in _expansions:
            if isinstance(fetch, kind):
                items, contract = expand(fetch)
                positions = [add(_element(graph, item, fetch)) for item in items]
                return lambda values: contract([values[i] for i in positions])
    element = _element(graph, fetch, fetch)
    at = add(element)
    if session_tensors.is_handle(element):
        return lambda values: keep_handle(element, values[at])
    return operator.itemgetter(at)


def _element(graph: Graph, item: Any, fetch: Any) -> Any:
    try:
        element = graph.as_graph_element(item)
    except TypeError as problem:
        raise TypeError(
            f"Fetch argument {fetch!r} has invalid type {type(fetch)!r}, must be a string or Tensor. ({problem})"
        ) from None
    except (ValueError, KeyError) as problem:
        reason = problem.args[0] if problem.args else problem
        raise ValueError(f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({reason})") from None
    if not graph.is_fetchable(element):
        op = element.op if isinstance(element, Tensor) else element
        if not op.body.is_root:
            raise ValueError(
                f"Operation {op.name!r} has been marked as not fetchable.\n"
                + errors.message(
                    f"a fetch of {element.name!r}, which lies inside the nested body {op.body.name!r}",
                    "a tensor outside conditionals and loops",
                    "return it from the branch or loop body and fetch what tf.cond or tf.while_loop returns",
                )
            )
        raise ValueError(f"Operation {op.name!r} has been marked as not fetchable.")
    return element


def flat_feeds(graph: Graph, feed_dict: Any) -> list[tuple[Tensor, Any]]:
    """``feed_dict`` as pairs of tensor and raw value, composite keys expanded.

    Raises:
        TypeError: a key is no tensor. ValueError: it is not of this graph.
    """
    pairs: list[tuple[Tensor, Any]] = []
    for key, value in _flat_items(feed_dict):
        expanded: Sequence[tuple[Any, Any]] = ((key, value),)
        if not isinstance(key, (Tensor, str)):
            for kind, _, feed in _expansions:
                if isinstance(key, kind):
                    if feed is None:
                        raise TypeError(f"a {kind.__name__} cannot be fed")
                    expanded = feed(key, value)
                    break
        for name, part in expanded:
            try:
                tensor = graph.as_graph_element(name, allow_operation=False)
            except Exception as problem:
                reason = problem.args[0] if problem.args else problem
                raise TypeError(f"Cannot interpret feed_dict key as Tensor: {reason}") from None
            pairs.append((tensor, part))
    return pairs


def feed_keys(graph: Graph, feeds: Any) -> list[Tensor]:
    """The tensors that a list of things to feed stands for.

    Raises:
        TypeError: one is not a tensor of this graph. ValueError: one may not be fed.
    """
    keys: list[Tensor] = []
    for feed in feeds or ():
        expanded: Sequence[Any] = (feed,)
        if isinstance(feed, SparseTensor):
            expanded = (feed.indices, feed.values, feed.dense_shape)
        elif isinstance(feed, IndexedSlices):
            expanded = [part for part in (feed.values, feed.indices, feed.dense_shape) if part is not None]
        elif not isinstance(feed, (Tensor, str)) and (listed := _partial_keys(feed)) is not None:
            expanded = listed
        for item in expanded:
            try:
                tensor = graph.as_graph_element(item, allow_operation=False)
            except Exception as problem:
                reason = problem.args[0] if problem.args else problem
                raise TypeError(f"Cannot interpret feed key as Tensor: {reason}") from None
            if not graph.is_feedable(tensor):
                raise ValueError(f"Tensor {tensor} may not be fed.")
            keys.append(tensor)
    return keys


def _partial_keys(feed: Any) -> Sequence[Any] | None:
    """What a registered class says is fed for one of its objects in a partial run."""
    for kind, function in _partial_expansions.items():
        if isinstance(feed, kind):
            return function(feed)
    return None


def _flat_items(feed_dict: Any) -> list[tuple[Any, Any]]:
    items: list[tuple[Any, Any]] = []
    for key, value in feed_dict.items():
        if isinstance(key, (tuple, list)):
            if len(key) == 1 and not isinstance(value, (tuple, list)):
                value = (value,)  # one value is a structure of one
            if not isinstance(value, (tuple, list)) or len(key) != len(value):
                raise ValueError(
                    errors.message(
                        f"feed key {key!r} with value {value!r}",
                        "a structure of the same length",
                        "feed each tensor by itself",
                    )
                )
            items += _flat_items(dict(zip(key, value, strict=True)))
        else:
            items.append((key, value))
    return items


def feed_value(tensor: Tensor, value: Any, graph: Graph) -> Any:
    """The array (or handle) to bind to ``tensor``: converted, checked against its static shape, not copied if it fits.

    Raises:
        TypeError, ValueError, OverflowError: as TensorFlow's sessions do.
    """
    if tensor.dtype.base.np is None:
        if not isinstance(value, tuple | ResourceHandle):
            raise TypeError(
                errors.message(
                    f"{value!r} fed to {tensor.name!r} of dtype {tensor.dtype.name}",
                    "a handle fetched from a session",
                    "fetch the handle first",
                )
            )
        return value
    if isinstance(value, session_tensors.TensorHandle):
        value = value.eval()
    if isinstance(value, (Tensor, Operation)) or (
        hasattr(value, "_as_graph_element") and not isinstance(value, np.ndarray)
    ):
        raise TypeError(
            "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, strings, "
            f"lists, numpy ndarrays, or TensorHandles. For reference, the tensor object was {value!s} which was passed "
            f"to the feed with key {tensor!s}."
        )
    try:
        array = constants.feed_array(value, tensor.dtype.base)
    except (TypeError, OverflowError) as problem:
        if not isinstance(value, int):
            raise
        raise type(problem)(
            f"Type of feed value {value} with type {type(value)} is not compatible with Tensor type "
            f"{tensor.dtype.base}. Try explicitly setting the type of the feed tensor to a larger type "
            f"(e.g. int64).\n{problem}"
        ) from None
    expected = tensor._shape
    if expected is not None and array.shape != expected and not shapes.is_compatible(expected, array.shape):
        raise ValueError(
            f"Cannot feed value of shape {array.shape!r} for Tensor {tensor.name!r}, "
            f"which has shape '{tensor.get_shape()!s}'\n"
            + errors.message(
                f"a value of shape {shapes.show(array.shape)} for {tensor.name!r}",
                shapes.show(expected),
                "reshape the value, or make the placeholder with shape None",
                at=tensor.op.user_site,
            )
        )
    if not graph.is_feedable(tensor):
        raise ValueError(f"Tensor {tensor} may not be fed.")
    return array
