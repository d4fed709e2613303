"""Elements put together by a key: windows of groups, reductions of groups, buckets of sequences of like length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import control_dependencies, name_scope
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.shapes import TensorShape
from anabranch.data import function_bodies, nest
from anabranch.data.dataset import Dataset, of_variant
from anabranch.data.structure import DatasetComponent, TensorComponent

Transformation = Callable[[Dataset], Dataset]
KEY = TensorComponent(dtypes.int64, TensorShape([]))
"""What functions get that are called with a key."""


def _require_integer(traced: function_bodies.Traced, name: str) -> None:
    component = traced.spec
    if not (
        isinstance(component, TensorComponent)
        and component.dtype is dtypes.int64
        and component.shape.is_compatible_with(TensorShape([]))
    ):
        raise ValueError(
            f"`{name}` must return a single tf.int64 tensor. Got {component!r}\n"
            + errors.message(f"{component!r}", "a scalar tf.int64 tensor", "tf.cast(x, tf.int64)")
        )


@public("data.experimental.group_by_window", "contrib.data.group_by_window")
def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[..., Any],
    window_size: Any = None,
    window_size_func: Callable[..., Any] | None = None,
) -> Transformation:
    """Group elements by a key, and make a dataset of each window of a group.

    A window ends when it has as many elements as asked for; what is left at the end comes in the order of the keys.

    Args:
        key_func: gives the int64 key of an element.
        reduce_func: makes a dataset of a key and a dataset of the elements of a window.
        window_size: how many elements make a window.
        window_size_func: the same as a function of the key; one of the two is given.

    Example:
        >>> import anabranch as tf
        >>> parity = tf.data.experimental.group_by_window(lambda x: x % 2, lambda key, window: window.batch(3), 3)
        >>> element = tf.data.Dataset.range(7).apply(parity).make_one_shot_iterator().get_next()
        >>> with tf.Session() as session:
        ...     print(session.run(element), session.run(element))
        [0 2 4] [1 3 5]
    """
    if (window_size is None) == (window_size_func is None):
        raise ValueError(
            "Must pass either window_size or window_size_func.\n"
            + errors.message(
                "both or none",
                "window_size or window_size_func",
                "group_by_window(key_func, reduce_func, window_size=10)",
            )
        )
    size_of = window_size_func or (lambda key: window_size)
    name = "tf.data.experimental.group_by_window()"

    def apply(dataset: Dataset) -> Dataset:
        spec = dataset._spec
        key = function_bodies.trace(lambda *args: convert_to_tensor(key_func(*args), dtypes.int64), spec, name)
        _require_integer(key, "key_func")
        arguments = KEY, DatasetComponent(spec, of_variant)
        reduce = function_bodies.trace_arguments(reduce_func, arguments, name)
        inner = function_bodies.inner_spec(reduce, "reduce_func")
        size = function_bodies.trace_arguments(lambda k: convert_to_tensor(size_of(k), dtypes.int64), (KEY,), name)
        _require_integer(size, "window_size_func")
        functions = {"key_func": key, "reduce_func": reduce, "window_size_func": size}
        return dataset._calling_several("GroupByWindowDataset", functions, inner)

    return apply


@public("data.experimental.Reducer", "contrib.data.Reducer")
class Reducer:
    """Three functions that reduce a sequence: where a state begins, how it goes on, what comes of it.

    Args:
        init_func: gives the first state for a key.
        reduce_func: gives the next state for a state and an element.
        finalize_func: gives the result for the last state.
    """

    def __init__(
        self, init_func: Callable[..., Any], reduce_func: Callable[..., Any], finalize_func: Callable[..., Any]
    ) -> None:
        self._init_func = init_func
        self._reduce_func = reduce_func
        self._finalize_func = finalize_func

    @property
    def init_func(self) -> Callable[..., Any]:
        """The function that gives the first state for a key."""
        return self._init_func

    @property
    def reduce_func(self) -> Callable[..., Any]:
        """The function that gives the next state for a state and an element."""
        return self._reduce_func

    @property
    def finalize_func(self) -> Callable[..., Any]:
        """The function that gives the result for the last state."""
        return self._finalize_func


@public("data.experimental.group_by_reducer", "contrib.data.group_by_reducer")
def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> Transformation:
    """Reduce the elements with each key; the results come at the end, in the order of the keys.

    Args:
        key_func: gives the int64 key of an element.
        reducer: the functions that reduce.
    """
    name = "tf.data.experimental.group_by_reducer()"

    def apply(dataset: Dataset) -> Dataset:
        key = function_bodies.trace(key_func, dataset._spec, name)
        _require_integer(key, "key_func")
        begin = function_bodies.trace_arguments(reducer.init_func, (KEY,), name)
        reduce, state = function_bodies.trace_state(reducer.reduce_func, begin.spec, dataset._spec, name)
        finish = function_bodies.trace(reducer.finalize_func, state, name)
        functions = {"key_func": key, "init_func": begin, "reduce_func": reduce, "finalize_func": finish}
        return dataset._calling_several("ExperimentalGroupByReducerDataset", functions, finish.spec)

    return apply


@public("contrib.data.reduce_dataset")
def reduce_dataset(dataset: Dataset, reducer: Reducer) -> Any:
    """What a reducer makes of all elements of a dataset, as tensors."""
    if not isinstance(dataset, Dataset):
        raise TypeError(
            "`dataset` must be a `tf.data.Dataset` object.\n"
            + errors.message(type(dataset).__name__, "a dataset", "reduce_dataset(dataset, reducer)")
        )
    state = dataset.reduce(reducer.init_func(np.int64(0)), reducer.reduce_func)
    result = reducer.finalize_func(*(state if function_bodies.unpacks(state) else (state,)))
    return nest.map_structure(convert_to_tensor, result)


@public("data.experimental.bucket_by_sequence_length", "contrib.data.bucket_by_sequence_length")
def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Any,
    bucket_batch_sizes: Any,
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: Any = False,
) -> Transformation:
    """Batches of elements of like length, padded to one shape.

    Args:
        element_length_func: gives the int32 length of an element.
        bucket_boundaries: lengths at which buckets end, exclusively, in order.
        bucket_batch_sizes: the batch size of each bucket: one more than there are boundaries.
        padded_shapes: shapes as ``padded_batch`` takes them; the elements' static shapes if None.
        padding_values: what fills elements up, as ``padded_batch`` takes it.
        pad_to_bucket_boundary: whether unknown sizes become the bucket's boundary minus 1, not the batch's largest.
        no_padding: whether elements are batched as they are.
        drop_remainder: whether batches that have fewer elements at the end are left out.
    """
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError(
            "len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1\n"
            + errors.message(
                f"{len(bucket_batch_sizes)} sizes for {len(bucket_boundaries)} boundaries",
                f"{len(bucket_boundaries) + 1} sizes",
                "bucket_by_sequence_length(length, [10, 20], [32, 16, 8])",
            )
        )
    with name_scope("bucket_by_seq_length"):
        sizes = constant(bucket_batch_sizes, dtypes.int64)

    def bucket_of(*args: Any) -> Any:
        length = element_length_func(*args)
        ends = np.array([*bucket_boundaries, np.iinfo(np.int32).max], length.dtype.np)
        starts = np.array([np.iinfo(np.int32).min, *bucket_boundaries], length.dtype.np)
        within = build("LogicalAnd", build("LessEqual", starts, length), build("Less", length, ends))
        return build("Min", build("Where", within), np.array([0, 1], np.int32))

    def size_of(bucket: Tensor) -> Tensor:
        tensor: Tensor = build("GatherV2", sizes, bucket, np.int32(0))
        return tensor

    def batch(bucket: Tensor, group: Dataset) -> Dataset:
        if no_padding:
            return group.batch(size_of(bucket), drop_remainder=drop_remainder)
        filler = _last_length(bucket, bucket_boundaries) if pad_to_bucket_boundary else None
        given = nest.flatten_up_to(group.output_shapes, group.output_shapes if padded_shapes is None else padded_shapes)
        padded = nest.pack_sequence_as(group.output_shapes, [_filled(shape, filler) for shape in given])
        return group.padded_batch(size_of(bucket), padded, padding_values, drop_remainder=drop_remainder)

    return lambda dataset: dataset.apply(group_by_window(bucket_of, batch, window_size_func=size_of))


def _last_length(bucket: Tensor, boundaries: Any) -> Tensor:
    """The largest length in a bucket, which is not the last one."""
    text = "When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries)."
    ends = constant(boundaries, dtypes.int64)
    inside = build("Less", bucket, np.int64(len(boundaries)))
    with control_dependencies([build("Assert", inside, [text])]):
        tensor: Tensor = build("Sub", build("GatherV2", ends, bucket, np.int32(0)), np.int64(1))
        return tensor


def _filled(shape: Any, filler: Tensor | None) -> Any:
    """A padded shape whose unknown sizes are ``filler``, if there is one."""
    sizes = shapes.as_shape(shape)
    dims = sizes.as_list()
    if filler is None or None not in dims:
        return sizes
    parts = [filler if size is None else constant(size, dtypes.int64) for size in dims]
    return build("Pack", parts, axis=0)
