"""Sparse and ragged operands of version 2's functions: products, rows, lookups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import v2
from anabranch.compat.internal import sparse_names
from anabranch.eager.mode import eager_mode


@pytest.fixture(autouse=True)
def _at_once() -> Any:
    with eager_mode():
        yield


def _sparse(shape: tuple[int, ...], seed: int, dtype: Any = np.float32, share: float = 0.4) -> tuple[Any, np.ndarray]:
    """A sparse tensor, and the same as an array."""
    random = np.random.RandomState(seed)
    array = np.where(random.uniform(size=shape) < share, random.randint(1, 9, shape), 0).astype(dtype)
    if np.issubdtype(dtype, np.complexfloating):
        array = array * (1 - 2j)
    indices = np.argwhere(array)
    return tf.SparseTensor(indices, array[tuple(indices.T)], np.array(shape, np.int64)), array


def _turned(array: np.ndarray, adjoint: bool) -> np.ndarray:
    return np.conj(np.swapaxes(array, -1, -2)) if adjoint else array


@pytest.mark.parametrize("adjoint_a", [False, True])
@pytest.mark.parametrize("adjoint_b", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.complex64])
def test_a_dense_matrix_times_a_sparse_one(adjoint_a: bool, adjoint_b: bool, dtype: Any) -> None:
    sparse, array = _sparse((5, 4) if adjoint_b else (4, 5), 1, dtype)
    dense = np.arange(12).reshape((4, 3) if adjoint_a else (3, 4)).astype(dtype)
    expected = _turned(dense, adjoint_a) @ _turned(array, adjoint_b)
    result = v2.sparse.sparse_dense_matmul(dense, sparse, adjoint_a=adjoint_a, adjoint_b=adjoint_b)
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("traced", [False, True])
def test_a_function_of_sparse_rows(traced: bool) -> None:
    sparse, array = _sparse((3, 4, 5), 2)
    dense = np.arange(30, dtype=np.float32).reshape(3, 5, 2)

    def products(dense: Any) -> Any:
        return v2.map_fn(
            lambda row: v2.sparse.sparse_dense_matmul(*row), elems=(sparse, dense), fn_output_signature=tf.float32
        )

    result = (tf.function(products) if traced else products)(tf.constant(dense))
    np.testing.assert_array_equal(result.numpy(), array @ dense)
    with pytest.raises(ValueError, match="fn_output_signature"):
        v2.map_fn(tf.sparse.reduce_sum, sparse)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("turn", ["", "transpose_a", "transpose_b", "adjoint_a", "adjoint_b"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6])
def test_products_of_sparse_matrices(batch: tuple[int, ...], turn: str, share: float) -> None:
    dtype = np.complex64 if "adjoint" in turn else np.float32
    a, left = _sparse((*batch, *((6, 4) if turn.endswith("_a") else (4, 6))), 3, dtype, share)
    b, right = _sparse((*batch, *((5, 6) if turn.endswith("_b") else (6, 5))), 4, dtype)
    matrices = [
        sparse_names.sparse_tensor_to_csr_sparse_matrix(one.indices, one.values, one.dense_shape) for one in (a, b)
    ]
    product = sparse_names.sparse_matrix_sparse_mat_mul(*matrices, dtype, **{turn: True} if turn else {})
    parts = sparse_names.csr_sparse_matrix_to_sparse_tensor(product, dtype)
    if turn.endswith("_a"):
        left = np.swapaxes(left, -1, -2).conj() if "adjoint" in turn else np.swapaxes(left, -1, -2)
    if turn.endswith("_b"):
        right = np.swapaxes(right, -1, -2).conj() if "adjoint" in turn else np.swapaxes(right, -1, -2)
    result = tf.sparse.to_dense(tf.SparseTensor(parts.indices, parts.values, parts.dense_shape))
    np.testing.assert_allclose(result.numpy(), left @ right, rtol=1e-6)


def test_rows_at_ragged_places() -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    ids = tf.ragged.constant([[2], [0, 3, 1], []])
    rows = v2.nn.embedding_lookup(table, ids)
    assert rows.to_list() == [[table[2].tolist()], table[[0, 3, 1]].tolist(), []]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int8", "bool"])
def test_the_steepness_of_kaisers_window_has_any_dtype(dtype: str) -> None:
    result = tf.signal.kaiser_window(5, tf.cast(tf.constant(1), dtype))
    np.testing.assert_allclose(result.numpy(), np.kaiser(5, 1.0), rtol=1e-6)


def test_a_scalar_is_a_shape_of_one_dimension() -> None:
    x = np.arange(6)
    for size in (-1, 6):
        np.testing.assert_array_equal(tf.reshape(tf.constant(x.reshape(2, 3)), tf.constant(size)).numpy(), x)


@pytest.mark.parametrize("traced", [False, True])
def test_a_function_of_ragged_rows(traced: bool) -> None:
    ragged = tf.ragged.constant([[3, 3, 1], [], [2, 2]])

    def distinct(scale: Any) -> Any:
        rows = v2.map_fn(lambda row: tf.unique(row)[0] * scale, ragged)
        return rows.flat_values, rows.row_splits, v2.map_fn(tf.reduce_sum, ragged, fn_output_signature=tf.int32)

    flat, splits, sums = (tf.function(distinct) if traced else distinct)(tf.constant(2))
    assert [flat.numpy().tolist(), splits.numpy().tolist()] == [[6, 2, 4], [0, 2, 2, 3]]
    assert sums.numpy().tolist() == [7, 0, 4]


def test_the_shape_of_a_ragged_tensor_has_its_uniform_dimensions() -> None:
    ragged = tf.ragged.constant([[[1.0, 2.0]], [], [[3.0, 4.0], [5.0, 6.0]]], ragged_rank=1)
    shape = v2.shape(ragged)
    assert (int(shape[0]), int(shape[2]), int(shape[-1]), shape.rank) == (3, 2, 2, 3)
    for axis in (1, -2):
        with pytest.raises(ValueError, match="ragged dimension 1"):
            shape[axis]


def test_ragged_constants_of_arrays() -> None:
    arrays = [np.ones((2, 3, 2)), np.zeros((1, 2, 2))]
    whole = tf.ragged.constant(arrays)
    assert (whole.ragged_rank, whole.dtype) == (3, tf.float64)
    inner = tf.ragged.constant(arrays, inner_shape=(2,))
    assert (inner.ragged_rank, inner.flat_values.shape.as_list()) == (2, [8, 2])
    assert inner.to_list() == whole.to_list() == [array.tolist() for array in arrays]


def test_slices_whose_dense_shape_is_a_tensor_shape() -> None:
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), tf.constant(0.0, shape=[3, 2]).shape)
    np.testing.assert_array_equal(tf.convert_to_tensor(slices).numpy(), [[0, 0], [1, 1], [0, 0]])


def test_numbers_at_equal_distances_between_integers() -> None:
    for start, stop, count in ((0, 10, 5), ([0, 1], [10, 12], 3)):
        result = v2.linspace(start, stop, count).numpy()
        assert result.dtype == np.float64
        np.testing.assert_allclose(result, np.linspace(start, stop, count))


@pytest.mark.parametrize("options", [{}, {"minlength": 6}, {"maxlength": 3}, {"binary_output": True}])
@pytest.mark.parametrize("weighted", [False, True])
def test_counts_of_the_rows_of_a_ragged_tensor(options: dict[str, Any], weighted: bool) -> None:
    rows, amounts = [[1, 1, 4], [], [0, 3, 3, 3]], [[2.0, 3.0, 4.0], [], [1.0, 0.5, 0.5, 7.0]]
    if weighted and "binary_output" in options:
        return
    size = min(max(5, options.get("minlength", 0)), options.get("maxlength", 99))
    expected = np.zeros((3, size))
    for place, row in enumerate(rows):
        for number, amount in zip(row, amounts[place], strict=True):
            if number < size:
                expected[place, number] += amount if weighted else 1
    if "binary_output" in options:
        expected = np.minimum(expected, 1)
    weights = tf.ragged.constant(amounts) if weighted else None
    result = v2.math.bincount(tf.ragged.constant(rows), weights, axis=-1, **options)
    np.testing.assert_array_equal(result.numpy(), expected)
    sparse = v2.sparse.bincount(tf.ragged.constant(rows), weights, axis=-1, **options)
    np.testing.assert_array_equal(tf.sparse.to_dense(sparse).numpy(), expected)
    together = v2.math.bincount(tf.ragged.constant(rows), weights)
    flat = [number for row in rows for number in row]
    of_flat = [amount for row in amounts for amount in row] if weighted else None
    np.testing.assert_array_equal(together.numpy(), np.bincount(flat, of_flat))


def test_dimensions_of_a_ragged_tensor_become_one() -> None:
    nested = [[[[1, 2], [3, 4]], [[5, 6]]], [], [[], [[7, 8]]]]
    x = tf.ragged.constant(nested, inner_shape=(2,))
    assert x.ragged_rank == 2

    def merged(value: Any, first: int, last: int) -> Any:
        if first:
            return [merged(part, first - 1, last - 1) for part in value]
        for _ in range(last):
            value = [one for part in value for one in part]
        return value

    for first in range(4):
        for last in range(first, 4):
            result = x.merge_dims(first, last - 4)
            listed = result.to_list() if isinstance(result, tf.RaggedTensor) else result.numpy().tolist()
            assert listed == merged(nested, first, last - first + first), (first, last)
    with pytest.raises(ValueError, match="outer one first"):
        x.merge_dims(2, 1)
