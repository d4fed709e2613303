"""Functions of sparse tensors: in both tiers, with shapes that are fed, with old names, refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given
from hypothesis import strategies as st

import anabranch as tf
from anabranch.ops.sparse.rules import in_order, keys, row_major
from anabranch.ops.strings import hashes
from anabranch.testing.kernels import run_op


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def random_sparse(rows, columns, count, seed=0):
    random = np.random.RandomState(seed)
    flat = np.sort(random.choice(rows * columns, count, replace=False))
    indices = np.stack(np.unravel_index(flat, (rows, columns)), axis=1).astype(np.int64)
    return tf.SparseTensorValue(indices, random.randn(count).astype(np.float32), np.array([rows, columns], np.int64))


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("shape", [None, [None, None], [None, 40], [30, 40]])
def test_a_product_with_a_fed_matrix(tier, shape):
    value = random_sparse(30, 40, 200)
    matrix = scipy.sparse.csr_matrix((value.values, value.indices.T), value.dense_shape)
    sparse = tf.sparse_placeholder(tf.float32, shape)
    dense = tf.constant(np.random.RandomState(1).randn(40, 5).astype(np.float32))
    product = tf.sparse_tensor_dense_matmul(sparse, dense)
    gradients = tf.gradients(tf.reduce_sum(product * product), [sparse.values, dense])
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        found, of_values, of_dense, d = session.run([product, *gradients, dense], {sparse: value})
    np.testing.assert_allclose(found, matrix @ d, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(of_dense, 2 * (matrix.T @ (matrix @ d)), rtol=1e-4, atol=1e-4)
    whole = 2 * (matrix @ d) @ d.T
    np.testing.assert_allclose(of_values, whole[tuple(value.indices.T)], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tier", ["host", "xla"])
@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_large_products(tier, order):
    value = random_sparse(300, 500, 20_000)
    indices, values, shape = value
    if order == "shuffled":
        turn = np.random.RandomState(2).permutation(len(values))
        indices, values = indices[turn], values[turn]
    dense = np.random.RandomState(1).randn(500, 200).astype(np.float32)
    found = run_op("SparseTensorDenseMatMul", indices, values, shape, dense, tier=tier)
    matrix = scipy.sparse.coo_matrix((values.astype(np.float64), indices.T), shape)
    np.testing.assert_allclose(found, matrix @ dense, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tier", ["host", "xla"])
@pytest.mark.parametrize(
    ("op", "inputs", "told"),
    [
        (
            "SparseTensorDenseMatMul",
            ([[0, 4]], [1.0], [2, 4], np.ones((4, 1), np.float32)),
            r"k \(4\) from index\[0,1\] out of bounds",
        ),
        (
            "SparseTensorDenseMatMul",
            ([[0, 0]], [1.0], [2, 4], np.ones((3, 1), np.float32)),
            "Did you forget a transpose",
        ),
        ("SparseToDense", ([[0, 0], [2, 0]], [2, 4], [1.0, 2.0], 0.0), "indices.1. = .2,0. is out of bounds"),
        ("SparseToDense", ([[1, 0], [0, 3]], [2, 4], [1.0, 2.0], 0.0), "indices.1. = .0,3. is out of order"),
        ("SparseToDense", ([[1, 0], [1, 0]], [2, 4], [1.0, 2.0], 0.0), "indices.1. = .1,0. is repeated"),
        ("SparseReduceSum", ([[0, -1]], [1.0], [2, 4], [0]), "is out of bounds"),
        ("SparseDenseCwiseMul", ([[0, 0]], [1.0], [2, 4], np.ones((2, 3), np.float32)), "incompatible shapes"),
        ("SparseDenseCwiseDiv", ([[0, 0]], np.array([1]), [2, 4], np.array(0)), "Integer division by zero"),
        ("SparseTensorDenseAdd", ([[0, 0]], [1.0], [2, 4], np.ones((2, 3), np.float32)), "must be equal"),
    ],
)
def test_bad_data(tier, op, inputs, told):
    wide = {"SparseToDense": (0, 1), "SparseTensorDenseAdd": (0, 2), "SparseReduceSum": (0, 2)}.get(op, (0, 2))
    given_ = [np.array(item, np.int64) if i in wide else np.asarray(item) for i, item in enumerate(inputs)]
    given_ = [item.astype(np.float32) if item.dtype == np.float64 else item for item in given_]
    if op == "SparseReduceSum":
        given_[3] = given_[3].astype(np.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=told):
        run_op(op, *given_, tier=tier)


def test_dense_shapes_that_are_too_large():
    huge = np.array([2**40, 2**40], np.int64)
    with pytest.raises(tf.errors.InvalidArgumentError, match="more elements than 64 bits"):
        run_op("SparseToDense", np.array([[0, 0]], np.int64), huge, np.array([1.0]), np.array(0.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="more elements than 64 bits"):
        run_op("SparseReshape", np.array([[0, 0]], np.int64), huge, huge)


PLACES = st.lists(st.tuples(st.integers(-3, 9), st.integers(0, 4), st.integers(-(2**62), 2**62)), max_size=12)


@given(PLACES, PLACES)
@example([(0, 0, -(2**62)), (0, 0, 2**62)], [(0, 0, 0)])
def test_keys_are_in_the_order_of_coordinates(first, second):
    a, b = (np.array(rows, np.int64).reshape(-1, 3) for rows in (first, second))
    of_a, of_b = keys(a, b)
    rows, numbers = first + second, of_a.tolist() + of_b.tolist()
    for row, number in zip(rows, numbers, strict=True):
        for other, its in zip(rows, numbers, strict=True):
            assert (row < other) == (number < its)
    order = row_major(a)
    assert [first[i] for i in order] == sorted(first)
    assert in_order(a) == (first == sorted(first))


@given(st.data())
def test_cut_and_joined_again(data):
    rows, columns = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    count = data.draw(st.integers(0, rows * columns))
    value = random_sparse(rows, columns, count, data.draw(st.integers(0, 99)))
    axis = data.draw(st.sampled_from([0, 1]))
    parts = data.draw(st.integers(1, [rows, columns][axis]))
    found = run_op("SparseSplit", np.int64(axis), *value, num_split=parts)
    pieces = [found[i * parts : (i + 1) * parts] for i in range(3)]
    dense = [run_op("SparseToDense", i, s, v, np.float32(0)) for i, v, s in zip(*pieces, strict=True)]
    whole = scipy.sparse.coo_matrix((value.values, value.indices.T), value.dense_shape).toarray()
    for piece, wanted in zip(dense, np.array_split(whole, parts, axis), strict=True):
        np.testing.assert_array_equal(piece, wanted)
    if parts > 1:
        flat = [item for piece in pieces for item in piece]
        indices, values, shape = run_op("SparseConcat", *flat, N=parts, concat_dim=axis)
        for part, wanted in zip((indices, values, shape), value, strict=True):
            np.testing.assert_array_equal(part, wanted)


def test_values_are_taken_for_sparse_tensors():
    value = tf.SparseTensorValue([[0, 1]], [2.0], [2, 2])
    with tf.Session() as session:
        assert session.run(tf.sparse_tensor_to_dense(value)).tolist() == [[0, 2], [0, 0]]
        assert session.run(tf.sparse_reduce_sum(value, reduction_axes=[0])).tolist() == [0, 2]
        assert session.run(tf.sparse_split(sp_input=value, num_split=2, split_dim=1)[1].values).tolist() == [2]
        assert session.run(tf.sparse_concat(concat_dim=0, sp_inputs=[value, value])).dense_shape.tolist() == [4, 2]
        assert session.run(3.0 * tf.SparseTensor.from_value(value)).values.tolist() == [6]
        tensor = tf.constant([[1.0, 5.0]])
        assert session.run(tensor * tf.SparseTensor.from_value(value)).values.tolist() == [10]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: tf.sparse_reorder(tf.constant([1.0])), "Input must be a SparseTensor"),
        (lambda: tf.sparse_add(tf.constant(1.0), tf.constant(1.0)), "do you mean to use tf.add"),
        (lambda: tf.sparse_split(num_split=2), "sp_input is required"),
        (lambda: tf.sparse_concat(0, []), "no sparse tensors"),
        (lambda: tf.sparse_reduce_sum(SMALL, 0, reduction_axes=0), "Cannot specify both"),
        (lambda: tf.sparse_merge(SMALL, SMALL, [3]), "vocab_size has to be a Tensor or Python int"),
        (lambda: tf.sparse_tensor_to_dense(tf.SparseTensorValue([[0]], ["a"], [1]), 0), "default_value=0 for strings"),
        (lambda: tf.sparse_tensor_dense_matmul(SMALL, tf.constant([[1.0], [2.0], [3.0]])), "adjoint_a=True"),
        (lambda: tf.nn.safe_embedding_lookup_sparse([], SMALL), "Missing embedding_weights"),
        (lambda: tf.sparse.cross(SMALL), "Inputs must be a list"),
        (lambda: tf.sparse.cross([tf.constant([[1.0]])]), "strings or integers"),
        (lambda: tf.sparse.expand_dims(SMALL, 4), "axis 4 of rank 2"),
    ],
)
def test_refusals(call, told):
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=told):
        call()


SMALL = tf.SparseTensorValue([[0, 1]], [2.0], [2, 2])


def test_static_shapes():
    x = tf.sparse_placeholder(tf.float32, [None, 7])
    assert tf.sparse_reorder(x).shape.as_list() == [None, 7]
    assert tf.sparse_tensor_to_dense(x).shape.as_list() == [None, 7]
    assert tf.sparse_retain(x, [True]).shape.as_list() == [None, 7]
    assert tf.sparse_concat(1, [x, x]).shape.as_list() == [None, 14]
    assert tf.sparse_reshape(tf.SparseTensor([[0, 0]], [1.0], [4, 6]), [2, -1]).shape.as_list() == [2, 12]
    assert tf.sparse_tensor_dense_matmul(x, tf.zeros([7, 3])).shape.as_list() == [None, 3]
    assert tf.sparse_softmax(x).shape.as_list() == [None, 7]
    with tf.Session() as session:
        found = session.run(tf.sparse.expand_dims(x, 1), {x: ([[1, 2]], [3.0], [4, 7])})
    assert [part.tolist() for part in found] == [[[1, 0, 2]], [3.0], [4, 1, 7]]


def test_a_logistic_regression_on_sparse_features():
    """Trains to what the same problem gives with dense features."""
    value = random_sparse(50, 20, 300)
    labels = np.random.RandomState(5).randint(0, 2, (50, 1)).astype(np.float32)
    losses = []
    for sparse in (True, False):
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.sparse_placeholder(tf.float32, [50, 20])
            w = tf.Variable(tf.zeros([20, 1]))
            logits = tf.sparse_tensor_dense_matmul(x, w) if sparse else tf.matmul(tf.sparse_tensor_to_dense(x), w)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
            step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
            session.run(tf.global_variables_initializer())
            losses.append([session.run([loss, step], {x: value})[0] for _ in range(20)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    assert losses[0][-1] < 0.8 * losses[0][0]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64, np.int32, np.int8, "bfloat16"])
@pytest.mark.parametrize("width", [1, 3, 200])  # below and above the size from which SciPy multiplies
@pytest.mark.parametrize("adjoint", [False, True])
def test_products_of_entries_that_repeat_and_come_in_any_order(dtype, width, adjoint):
    dtype = tf.as_dtype(dtype).as_numpy_dtype
    random = np.random.RandomState(width)
    indices = random.randint(0, 25, (400, 2))  # 400 of 625 places: many twice
    values = np.asarray(random.randint(-3, 4, 400), dtype)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * np.asarray(random.randint(-3, 4, 400), dtype)
    right = np.asarray(random.randint(-3, 4, (25, width)), dtype)
    matrix = np.zeros((25, 25), np.complex128 if np.dtype(dtype).kind == "c" else np.float64)
    np.add.at(matrix, (indices[:, 0], indices[:, 1]), values.astype(matrix.dtype))
    wanted = (matrix.conj().T if adjoint else matrix) @ right.astype(matrix.dtype)
    for tier in ("interpreted", "compiled"):
        sparse = tf.SparseTensor(indices, tf.constant(values), [25, 25])
        dense = tf.constant(right.conj().T if adjoint else right)
        product = tf.sparse_tensor_dense_matmul(sparse, dense, adjoint_a=adjoint, adjoint_b=adjoint)
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            found = session.run(product)
        assert found.dtype == dtype
        tolerance = 0.01 if dtype == tf.bfloat16.as_numpy_dtype else 0
        np.testing.assert_allclose(found.astype(matrix.dtype), wanted, rtol=tolerance)


def coordinates(kind, random, count, rank):
    """Coordinates of a kind, as many as asked for at most."""
    if kind == "empty":
        return np.zeros((0, rank), np.int64)
    wide = 2**40 if kind == "far apart" else 5
    points = random.randint(0, wide, (count, rank)).astype(np.int64) * (1 if kind != "far apart" else 2**20)
    if kind == "negative":
        points -= 2
    if kind == "twice":
        return points[np.lexsort(points.T[::-1])]
    points = np.unique(points, axis=0)
    return points if kind != "unordered" else random.permutation(points)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["in order", "unordered", "twice", "negative", "far apart", "empty"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64"])
def test_sums_and_gradients_of_sparse_matrices(kind, rank, dtype):
    random = np.random.RandomState(rank)
    a, b = coordinates(kind, random, 12, rank), coordinates("in order", random, 12, rank)
    both = sorted({*map(tuple, a), *map(tuple, b)})
    shape = np.full(rank, 2**62, np.int64)
    values = [random.randint(-2, 3, len(part)).astype(dtype) for part in (a, b)]
    for least in (0, 2):
        expected = {}
        for point in both:
            parts = [own[(part == point).all(1)] for part, own in zip((a, b), values, strict=True)]
            total = sum(part.sum(dtype=dtype) for part in parts)
            if not all(len(part) for part in parts) or abs(total) >= least:
                expected[point] = total
        size = np.array(least, np.int8 if dtype == "int8" else np.float32)
        found, total, _ = run_op("SparseAdd", a, values[0], shape, b, values[1], shape, size, tier="host")
        assert [tuple(point) for point in found] == list(expected)
        assert total.dtype == dtype
        np.testing.assert_array_equal(total, np.array(list(expected.values()), dtype))
        slopes = np.arange(1, len(found) + 1).astype(dtype)
        by_point = dict(zip(map(tuple, found), slopes, strict=True))
        for part, slope in zip((a, b), run_op("SparseAddGrad", slopes, a, b, found, tier="host"), strict=True):
            assert slope.dtype == dtype
            np.testing.assert_array_equal(slope, [by_point.get(tuple(point), 0) for point in part])


@pytest.mark.parametrize("reverse", [False, True])
def test_sums_of_sparse_tensors_have_the_same_bits_in_any_order(reverse):
    a, b = np.array([[0], [2], [5]], np.int64), np.array([[2], [3]], np.int64)
    values = np.array([-0.0, 1.0, np.nan], np.float32), np.array([-1.0, -0.0], np.float32)
    turn = slice(None, None, -1 if reverse else 1)
    shape, least = np.array([6], np.int64), np.float32(0)
    found, total, _ = run_op("SparseAdd", a[turn], values[0][turn], shape, b, values[1], shape, least, tier="host")
    np.testing.assert_array_equal(found[:, 0], [0, 2, 3, 5])
    np.testing.assert_array_equal(np.signbit(total[:3]), [False, False, False])
    np.testing.assert_array_equal(total, np.array([0, 0, 0, np.nan], np.float32))


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
@pytest.mark.parametrize(
    ("indices", "values", "shape"),
    [
        ([[2, 0], [0, 1]], [5.0, 6.0], [3, 4]),
        ([[0, 1], [2, 2]], 5.0, [3, 4]),
        ([3, 1], [5.0, 6.0], [4]),
        (2, 5.0, [4]),
    ],
)
def test_gradients_of_a_dense_tensor_made_of_places_of_any_shape(tier, indices, values, shape):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        places, given, size = tf.placeholder(tf.int32), tf.placeholder(tf.float32), tf.placeholder(tf.int32)
        default = tf.constant(1.0)
        dense = tf.sparse_to_dense(places, size, given, default, validate_indices=False)
        weights = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        by_values, by_default = tf.gradients(dense * tf.constant(weights, tf.float32), [given, default])
        actual = session.run([by_values, by_default], {places: indices, given: values, size: shape})
    at = weights[tuple(np.array(indices).T)] if np.ndim(indices) == 2 else weights[np.array(indices)]
    np.testing.assert_array_equal(actual[0], at if np.ndim(values) else np.sum(at))
    assert actual[1] == weights.sum() - np.sum(at)


def _joined(first, second):
    mask, mul = 2**64 - 1, 0xC6A4A7935BD1E995

    def mixed(value):
        return value * mul & mask ^ (value * mul & mask) >> 47

    both = first ^ mul ^ (mixed(second) * mul & mask)
    return mixed(mixed(both))


@pytest.mark.parametrize("rows", [1, 40])
def test_crosses_are_nested_loops_over_the_values_of_a_row(rows):
    random = np.random.RandomState(rows)
    counts = random.randint(0, 4, rows)
    own = [(row, place) for row in range(rows) for place in range(counts[row])]
    random.shuffle(own)  # the order within a row is that of the values
    words = [b"word%d" % random.randint(50) * random.randint(1, 5) for _ in own]
    texts = tf.SparseTensorValue(np.array(own, np.int64).reshape(-1, 2), np.array(words, object), [rows, 4])
    numbers = random.randint(-9, 9, (rows, 2))
    places, strings, shape = [], [], [rows, 0]
    hashed = []
    for row in range(rows):
        combinations = [
            (word, number)
            for (at, _), word in zip(own, words, strict=True)
            if at == row
            for number in numbers[row].tolist()
        ]
        places += [[row, place] for place in range(len(combinations))]
        strings += [word + b"_X_" + b"%d" % number for word, number in combinations]
        hashed += [
            _joined(_joined(0xDECAFCAFFE, hashes.fingerprint64(word)), number & (2**64 - 1)) % 1000
            for word, number in combinations
        ]
        shape[1] = max(shape[1], len(combinations))
    sparse = tf.SparseTensor(
        tf.constant(texts.indices), tf.constant(texts.values, tf.string, [len(own)]), tf.constant([rows, 4], tf.int64)
    )
    columns = [sparse, tf.constant(numbers, tf.int64)]
    with tf.Session() as session:
        crossed, by_hash = session.run([tf.sparse.cross(columns), tf.sparse.cross_hashed(columns, 1000)])
    assert crossed.indices.tolist() == by_hash.indices.tolist() == places
    assert crossed.values.tolist() == strings
    assert by_hash.values.tolist() == hashed
    assert crossed.dense_shape.tolist() == by_hash.dense_shape.tolist() == shape
