"""Transformations that make batches, take from several datasets at a time, or say what shapes elements have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.shapes import TensorShape
from anabranch.data import function_bodies, nest
from anabranch.data.dataset import Dataset, number, static_size
from anabranch.data.structure import SparseComponent, TensorComponent

Transformation = Callable[[Dataset], Dataset]


# -------------------------------------------------------------------------------------------------------------- batches
@public("data.experimental.map_and_batch", "contrib.data.map_and_batch")
def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: Any,
    num_parallel_batches: Any = None,
    drop_remainder: Any = False,
    num_parallel_calls: Any = None,
) -> Transformation:
    """``map`` and ``batch`` as one stage.

    Args:
        map_func: called with an element; returns a structure of tensors.
        batch_size: how many elements make a batch.
        num_parallel_batches: how many batches may be made at a time.
        drop_remainder: whether a last batch that has fewer elements is left out.
        num_parallel_calls: how many calls may run at a time; one of the two is given at most. See ``map``.
    """
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError(
            "The `num_parallel_batches` and `num_parallel_calls` arguments are mutually exclusive.\n"
            + errors.message("both", "one of them at most", "map_and_batch(f, 32, num_parallel_calls=4)")
        )

    def apply(dataset: Dataset) -> Dataset:
        traced = function_bodies.trace(map_func, dataset._spec, "tf.data.experimental.map_and_batch()")
        size = number(batch_size, "batch_size")
        if num_parallel_calls is not None:
            calls = number(num_parallel_calls, "num_parallel_calls")
        else:
            batches = number(1 if num_parallel_batches is None else num_parallel_batches, "num_parallel_batches")
            calls = build("Mul", size, batches)
        drop = convert_to_tensor(drop_remainder, dtypes.bool_, name="drop_remainder")
        static = static_size(size, drop)
        spec = nest.map_structure(lambda component: component.batched(static), traced.spec)
        operands = size, calls, drop
        return dataset._calling(
            "MapAndBatchDataset", traced, "f", spec=spec, operands=operands, preserve_cardinality=True
        )

    return apply


@public("data.experimental.map_and_batch_with_legacy_function")
def map_and_batch_with_legacy_function(
    map_func: Callable[..., Any],
    batch_size: Any,
    num_parallel_batches: Any = None,
    drop_remainder: Any = False,
    num_parallel_calls: Any = None,
) -> Transformation:
    """``map_and_batch``: there is one kind of functions here."""
    return map_and_batch(map_func, batch_size, num_parallel_batches, drop_remainder, num_parallel_calls)


@public("data.experimental.dense_to_sparse_batch", "contrib.data.dense_to_sparse_batch")
def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> Transformation:
    """Sparse tensors ``[batch, *row_shape]`` that hold elements as rows, which need not have one shape.

    Args:
        batch_size: how many elements make a batch.
        row_shape: the dense shape of a row, None or -1 in it for the largest of the batch.
    """

    def apply(dataset: Dataset) -> Dataset:
        component = dataset._spec
        if not isinstance(component, TensorComponent):
            raise TypeError(
                "DenseToSparseDataset requires an input whose elements have a single component, whereas the input has "
                f"{dataset.output_types!r}.\n"
                + errors.message(f"{component!r}", "one tensor", "dataset.map(lambda a, b: a)")
            )
        sizes = row_shape if isinstance(row_shape, Tensor) else shapes.as_shape(row_shape)
        static = TensorShape(None) if isinstance(sizes, Tensor) else sizes
        vector = sizes
        if not isinstance(sizes, Tensor):
            vector = convert_to_tensor([-1 if size is None else size for size in sizes.as_list()], dtypes.int64)
        spec = SparseComponent(component.dtype, TensorShape([None]).concatenate(static))
        return dataset._stage("DenseToSparseBatchDataset", number(batch_size, "batch_size"), vector, spec=spec)

    return apply


@public("contrib.data.batch_and_drop_remainder")
def batch_and_drop_remainder(batch_size: Any) -> Transformation:
    """Batches of ``batch_size`` elements; a last one that has fewer is left out."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


@public("contrib.data.padded_batch_and_drop_remainder")
def padded_batch_and_drop_remainder(batch_size: Any, padded_shapes: Any, padding_values: Any = None) -> Transformation:
    """Padded batches of ``batch_size`` elements; a last one that has fewer is left out.

    Args:
        batch_size: how many elements make a batch.
        padded_shapes: the shape of each component, as ``padded_batch`` takes it.
        padding_values: what fills each component up.
    """
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


@public("contrib.data.sliding_window_batch")
def sliding_window_batch(
    window_size: Any, stride: Any = None, window_shift: Any = None, window_stride: Any = 1
) -> Transformation:
    """Windows of ``window_size`` elements, each stacked; those that have fewer are left out.

    Args:
        window_size: how many elements a window holds.
        stride: the former name of ``window_shift``.
        window_shift: how far a window begins behind the one before; 1 if None.
        window_stride: which of the elements it takes: each ``window_stride``-th.
    """
    if stride is not None and window_shift is not None:
        raise ValueError(
            "Cannot specify both `stride` and `window_shift`\n"
            + errors.message(
                "stride and window_shift", "stride or window_shift", "sliding_window_batch(3, window_shift=1)"
            )
        )
    shift = stride if window_shift is None else window_shift

    def apply(dataset: Dataset) -> Dataset:
        operands = [
            number(value, name)
            for value, name in (
                (window_size, "window_size"),
                (1 if shift is None else shift, "window_shift"),
                (window_stride, "window_stride"),
            )
        ]
        spec = nest.map_structure(lambda component: component.batched(None), dataset._spec)
        return dataset._stage("SlidingWindowDataset", *operands, spec=spec)

    return apply


# ----------------------------------------------------------------------------------------------------- several datasets
@public("data.experimental.parallel_interleave", "contrib.data.parallel_interleave")
def parallel_interleave(
    map_func: Callable[..., Any],
    cycle_length: Any,
    block_length: Any = 1,
    sloppy: Any = False,
    buffer_output_elements: Any = None,
    prefetch_input_elements: Any = None,
) -> Transformation:
    """Blocks of elements, in turn, of ``cycle_length`` datasets that ``map_func`` makes.

    Args:
        map_func: makes a dataset of an element.
        cycle_length: how many datasets are open at a time.
        block_length: how many elements of one come in a row.
        sloppy: whether another order is allowed where elements come late; for now the order is always the same.
        buffer_output_elements: how many elements of each are made ahead on a thread; twice the block if None.
        prefetch_input_elements: how many datasets may be made ahead; for now none are.
    """

    def apply(dataset: Dataset) -> Dataset:
        name = "tf.data.experimental.parallel_interleave()"
        traced = function_bodies.trace(map_func, dataset._spec, name)
        cycle, block = number(cycle_length, "cycle_length"), number(block_length, "block_length")
        ahead = number(2 * block_length if buffer_output_elements is None else buffer_output_elements, "ahead")
        inputs = number(2 * cycle_length if prefetch_input_elements is None else prefetch_input_elements, "inputs")
        operands = cycle, block, convert_to_tensor(sloppy, dtypes.bool_), ahead, inputs
        return dataset._calling(
            "ParallelInterleaveDataset", traced, "f", spec=function_bodies.inner_spec(traced), operands=operands
        )

    return apply


@public("contrib.data.sloppy_interleave")
def sloppy_interleave(map_func: Callable[..., Any], cycle_length: Any, block_length: Any = 1) -> Transformation:
    """``parallel_interleave`` that may give another order where elements come late."""
    return parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


# --------------------------------------------------------------------------------------------------------------- shapes
@public("contrib.data.assert_element_shape")
def assert_element_shape(expected_shapes: Any) -> Transformation:
    """The same elements, whose shapes are checked, and known from here on.

    Args:
        expected_shapes: the shape of each component; what is unknown in it is not checked.
    """

    def apply(dataset: Dataset) -> Dataset:
        components = nest.flatten(dataset._spec)
        wanted = [shapes.as_shape(shape) for shape in nest.flatten_up_to(dataset._spec, expected_shapes)]
        for component, shape in zip(components, wanted, strict=True):
            if not component.legacy_shape.is_compatible_with(shape):
                raise ValueError(
                    f"Shapes {component.legacy_shape} and {shape} are incompatible\n"
                    + errors.message(f"elements of shape {component.legacy_shape}", f"{shape}", "the shapes they have")
                )

        def check(*element: Any) -> Any:
            whole = element if function_bodies.unpacks(dataset._spec) else element[0]
            leaves = [_of_shape(leaf, shape) for leaf, shape in zip(nest.flatten(whole), wanted, strict=True)]
            return nest.pack_sequence_as(dataset._spec, leaves)

        return dataset.map(check)

    return apply


def _of_shape(leaf: Any, shape: TensorShape) -> Any:
    """A tensor that is checked to have a shape, as far as it is known."""
    if shape.ndims is None:
        return leaf
    if not isinstance(leaf, Tensor):
        raise TypeError(errors.message(f"{leaf!r} of shape {shape}", "a tensor", "TensorShape(None) for others"))
    return build("EnsureShape", leaf, shape=shape)
