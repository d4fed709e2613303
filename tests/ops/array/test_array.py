"""Indexing, public array functions, partial values, and what errors of the array families say."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.contract import opdef
from anabranch.core.contract.inference import ShapeContext, partial_value
from anabranch.core.contract.kernels import HostContext
from anabranch.core.graph import indexed_slices
from anabranch.session import SessionOptions

TIERS = ("interpreted", "compiled")
X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def run(fetches, feeds=None, tier="interpreted"):
    with tf.Session(config=SessionOptions(tier=tier)) as session:
        return session.run(fetches, feeds)


def both(fetches, feeds=None):
    """Values that the tiers agree on, bit for bit."""
    first, second = (run(fetches, feeds, tier) for tier in TIERS)
    for a, b in zip(first, second, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)
    return first


# ------------------------------------------------------------------------------------------------------------- indexing
KEYS = [
    np.s_[0],
    np.s_[-1, 2],
    np.s_[1, 2, -3],
    np.s_[...],
    np.s_[:, ::-1],
    np.s_[..., 1:4:2],
    np.s_[None, 1:, ..., None],
    np.s_[:, None, 0, 3:0:-2],
    np.s_[5:, :],
    np.s_[:-5],
    np.s_[2:0:-1, ..., -1],
    np.s_[::2, 1:-1, None, ::-3],
    np.s_[()],
    np.s_[np.int64(1), np.array(2)],
]


def test_get_item_is_numpys():
    known, open_ = tf.constant(X), tf.placeholder(tf.float32, [None, 4, 5])
    tensors = [(key, known[key], open_[key]) for key in KEYS]
    values = both([t for _, *pair in tensors for t in pair], {open_: X})
    for (key, static, dynamic), first, second in zip(tensors, values[::2], values[1::2], strict=True):
        expected = X[key]
        assert tuple(static.shape.as_list()) == expected.shape, key
        assert dynamic.shape.is_compatible_with(expected.shape), key
        np.testing.assert_array_equal(first, expected)
        np.testing.assert_array_equal(second, expected)


def test_get_item_with_tensors_and_their_gradients():
    x = tf.placeholder(tf.float32, [None, 4, 5])
    i, j = tf.placeholder(tf.int32, []), tf.placeholder(tf.int64, [])
    keys = [(i,), (i, slice(1, 3)), (slice(None, i),), (slice(j, None), i), (i, j), (Ellipsis, slice(i, i + 2))]
    shown = [(1,), (1, slice(1, 3)), (slice(None, 1),), (slice(2, None), 1), (1, 2), (Ellipsis, slice(1, 3))]
    ys = [x[key] for key in keys]
    grads = [tf.gradients(y * y, x)[0] for y in ys]
    values = both(ys + grads, {x: X, i: 1, j: 2})
    for key, y, grad in zip(shown, values[: len(ys)], values[len(ys) :], strict=True):
        np.testing.assert_array_equal(y, X[key])
        expected = np.zeros_like(X)
        expected[key] = 2 * X[key]
        np.testing.assert_array_equal(grad, expected)


def test_names_are_tensorflows():
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    i = tf.placeholder(tf.int32, [], name="i")
    assert x[0].name == "strided_slice:0"
    assert x[i].op.inputs[1].name == "strided_slice_1/stack:0"
    assert tf.reshape(x, [tf.shape(x)[0], 3]).op.inputs[1].op.inputs[1].name == "Reshape/shape/1:0"
    assert tf.zeros([2]).name == "zeros:0"
    assert tf.zeros([40, 50]).op.inputs[0].name == "zeros_1/shape_as_tensor:0"
    assert tf.transpose(x).op.inputs[1].name == "transpose/perm:0"
    assert tf.concat([x, x], 0).name == "concat:0"
    assert [part.name for part in tf.split(x, 3, 1)] == ["split:0", "split:1", "split:2"]
    assert tf.range(3).op.inputs[0].name == "range/start:0"
    assert tf.boolean_mask(x, [True, False]).name == "boolean_mask/GatherV2:0"


def test_index_of_the_data_needs_no_cut():
    x, i = tf.zeros([8, 4]), tf.placeholder(tf.int32, [])
    wanted = {
        "single": (x[i], ("begin", "end")),
        "mixed": (x[i, 1:3], ("begin", "end")),
        "range": (x[i : i + 2], ()),
        "slice": (tf.slice(x, [i, 0], [1, 2]), ("begin",)),
        "open": (tf.slice(x, [i, 0], [-1, 2]), ()),
        "gradient": (tf.gradients(x[i], x)[0], ("begin", "end")),
    }
    for label, (tensor, names) in wanted.items():
        op = tensor.op
        c = ShapeContext(op.definition, op._attrs, op._inputs, [source._shape for source in op._inputs])
        assert op.definition.traced(c) == names, label


def test_masks():
    x = tf.placeholder(tf.float32, [None, 4, 5])
    mask = np.array([[True, False, False, True], [False] * 4, [True] * 4])
    fed = tf.placeholder(tf.bool, [None, 4])
    rows = np.array([True, False, True, True])
    ys = [tf.boolean_mask(x, fed), x[fed], x[mask], tf.boolean_mask(x, rows, axis=1), tf.boolean_mask(x, rows, axis=-2)]
    expected = [X[mask]] * 3 + [X[:, rows]] * 2
    for y, value, wanted in zip(ys, both(ys, {x: X, fed: mask}), expected, strict=True):
        np.testing.assert_array_equal(value, wanted)
        assert y.shape.is_compatible_with(wanted.shape)
    with pytest.raises(ValueError, match="mask cannot be scalar"):
        tf.boolean_mask(x, True)
    with pytest.raises(ValueError, match="Number of mask dimensions must be specified"):
        tf.boolean_mask(x, tf.placeholder(tf.bool))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (1.5, "Only integers, slices"),
        ("a", "Only integers, slices"),
        (np.array([0, 1]), "tf.gather"),
        ((0, 0, 0, 0), "input has only 3 dims"),
        (3, "slice index 3 of dimension 0 out of bounds"),
        ((..., ...), "Multiple ellipses"),
        (slice(0, 1, 0), r"strides\[0\] must be non-zero"),
    ],
)
def test_bad_keys(key, text):
    with pytest.raises((TypeError, ValueError), match=text):
        tf.constant(X)[key]


def test_assigned_slices():
    v = tf.get_variable("v", initializer=np.zeros((3, 2), np.float32))
    handle = tf.get_variable("h", initializer=np.zeros((3, 2), np.float32), use_resource=True)
    for tier in TIERS:
        with tf.Session(config=SessionOptions(tier=tier)) as session:
            for variable in (v, handle):
                session.run(tf.global_variables_initializer())
                session.run(variable[1:, 0].assign([5.0, 6.0]))
                session.run(variable[0].assign(7.0))
                np.testing.assert_array_equal(session.run(variable), [[7, 7], [5, 0], [6, 0]])


def test_what_is_repeated_to_a_fed_shape_keeps_its_dimensions():
    with tf.Graph().as_default():
        known, unknown = tf.placeholder(tf.int32, [3]), tf.placeholder(tf.int32, [None])
        assert tf.broadcast_to(tf.zeros([8, 1]), known).shape.as_list() == [None, 8, None]
        assert tf.broadcast_to(tf.zeros([8, 1]), tf.stack([2, 8, known[0]])).shape.as_list() == [2, 8, None]
        assert tf.broadcast_to(tf.placeholder(tf.float32, [None, 4]), known).shape.as_list() == [None, None, 4]
        assert tf.broadcast_to(tf.zeros([8, 1]), unknown).shape.ndims is None
        assert tf.broadcast_to(tf.placeholder(tf.float32), known).shape.as_list() == [None] * 3


# ------------------------------------------------------------------------------------------------------- partial values
def test_shapes_through_shape_arithmetic():
    x = tf.placeholder(tf.float32, [None, 28, 28, 3])
    n = tf.shape(x)[0]
    h = tf.unstack(tf.shape(x))[1]
    assert tf.reshape(x, [n, 28 * 28 * 3]).shape.as_list() == [None, 2352]
    assert tf.reshape(x, [n, h, -1]).shape.as_list() == [None, 28, None]
    assert tf.reshape(x, tf.stack([n, 2352])).shape.as_list() == [None, 2352]
    assert tf.reshape(x, tf.concat([tf.shape(x)[:2], [84]], 0)).shape.as_list() == [None, 28, 84]
    assert tf.zeros(tf.gather(tf.shape(x), [3, 0])).shape.as_list() == [3, None]
    assert tf.fill(tf.slice(tf.shape(x), [1], [2]), 1).shape.as_list() == [28, 28]
    assert tf.fill(tf.shape_n([x, x])[1][::-1], 1).shape.as_list() == [3, 28, 28, None]
    assert tf.range(h).shape.as_list() == [28]
    assert tf.tile(x, [1, h, 1, 2]).shape.as_list() == [None, 784, 28, 6]
    assert tf.broadcast_to(1.0, tf.broadcast_dynamic_shape([1, 28], tf.shape(x)[1:3])).shape.as_list() == [28, 28]
    assert partial_value(tf.rank(x)) == 4
    assert tf.pad(x, [[0, n], [1, 1], [0, 2], [0, 0]]).shape.as_list() == [None, 30, 30, 3]


def test_offsets_of_a_concatenation_are_known_where_sizes_are():
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 4])
    first, second = tf.build_op("ConcatOffset", 1, [tf.shape(x), tf.shape(y)])
    np.testing.assert_array_equal(partial_value(first), [0, 0])
    np.testing.assert_array_equal(partial_value(second), [0, 3])


# ---------------------------------------------------------------------------------------------------- public functions
def test_values_of_public_functions():
    lengths = tf.placeholder(tf.int32, [None])
    cases = [
        (tf.sequence_mask(lengths), np.arange(3) < np.array([[1], [3], [0]])),
        (tf.sequence_mask(lengths, 4, tf.float32), (np.arange(4) < np.array([[1], [3], [0]])).astype(np.float32)),
        *zip(tf.meshgrid([1, 2, 3], [4, 5]), np.meshgrid([1, 2, 3], [4, 5]), strict=True),
        *zip(
            tf.meshgrid([1, 2], [3, 4], [5, 6, 7], indexing="ij"),
            np.meshgrid([1, 2], [3, 4], [5, 6, 7], indexing="ij"),
            strict=True,
        ),
        (tf.repeat([1, 2, 3], 2), np.repeat([1, 2, 3], 2)),
        (tf.repeat(X, [2, 0, 1, 3], axis=1), np.repeat(X, [2, 0, 1, 3], axis=1)),
        (tf.repeat(X, 2, axis=-1), np.repeat(X, 2, axis=-1)),
        (tf.repeat(tf.placeholder_with_default(X, None), 2, axis=1), np.repeat(X, 2, axis=1)),
        (tf.repeat(tf.placeholder_with_default(X, None), 0, axis=-1), np.repeat(X, 0, axis=-1)),
        (tf.repeat(tf.placeholder_with_default(X, None), [2, 0, 1, 3], axis=1), np.repeat(X, [2, 0, 1, 3], axis=1)),
        (
            tf.gather_nd(X, [[[0], [3]], [[1], [1]], [[2], [0]]], batch_dims=1),
            X[np.arange(3)[:, None], [[0, 3], [1, 1], [2, 0]]],
        ),
        (tf.batch_gather(X[:, :, 0], [[0], [3], [1]]), np.take_along_axis(X[:, :, 0], np.array([[0], [3], [1]]), 1)),
        (tf.searchsorted([[1, 3, 3, 5]], [[3, 9]]), [[1, 4]]),
        (tf.searchsorted([1, 3, 3, 5], [3, 0], side="right"), [3, 0]),
        (tf.one_hot([0, 2], 3, on_value=5, off_value=1), [[5, 1, 1], [1, 1, 5]]),
        (tf.concat(1, [[[1]], [[2]]]), [[1, 2]]),
        (tf.concat([[1, 2]], 0), [1, 2]),
        (tf.stack([1, 2, 3]), [1, 2, 3]),
        (tf.matrix_transpose(X), np.swapaxes(X, 1, 2)),
        (tf.transpose(np.array([[1 + 2j]], np.complex64), conjugate=True), [[1 - 2j]]),
        (tf.parallel_stack([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (tf.zeros([2], tf.string), [b"", b""]),
        (tf.ones([30, 40], tf.bool), np.ones((30, 40), bool)),
        (tf.range(0.0, 1.0, 0.25), [0, 0.25, 0.5, 0.75]),
        (tf.reverse_sequence([[1, 2, 3]], [2], seq_dim=1, batch_dim=0), [[2, 1, 3]]),
        (tf.setdiff1d([1, 2, 3], [2]).idx, [0, 2]),
        (tf.unique_with_counts([3, 1, 3]).count, [2, 1]),
        (tf.dynamic_stitch([[0, 2], [1]], [[1, 3], [2]]), [1, 2, 3]),
        (tf.expand_dims([1], dim=0), [[1]]),
        (tf.squeeze([[1]], squeeze_dims=[0]), [1]),
    ]
    for (_, expected), value in zip(cases, both([tensor for tensor, _ in cases], {lengths: [1, 3, 0]}), strict=True):
        np.testing.assert_array_equal(value, expected)


def test_space_to_batch_paddings():
    sizes = tf.placeholder(tf.int32, [2])
    known = tf.required_space_to_batch_paddings([5, 6], [2, 4], [[1, 0], [0, 0]])
    fed = tf.required_space_to_batch_paddings(sizes, [2, 4], [[1, 0], [0, 0]])
    assert known[0].op.type == "Const"
    for value in run([known, fed], {sizes: [5, 6]}):
        np.testing.assert_array_equal(value, [[[1, 0], [0, 2]], [[0, 0], [0, 2]]])


def test_zeros_are_constants_while_they_are_small():
    n = tf.placeholder(tf.int32, [])
    assert [t.op.type for t in (tf.zeros([9, 9]), tf.zeros([40, 40]), tf.ones([n, 2]), tf.zeros(tf.constant([2])))] == [
        "Const",
        "Fill",
        "Fill",
        "Fill",
    ]


# -------------------------------------------------------------------------------------------------------- IndexedSlices
def test_gradients_of_gathers_are_rows():
    table = tf.placeholder(tf.float32, [5, 2])
    ids = tf.placeholder(tf.int32, [None, 2])
    grad = tf.gradients(tf.gather(table, ids), table)[0]
    assert isinstance(grad, tf.IndexedSlices)
    assert grad.shape.as_list() == [5, 2]
    assert grad.dtype == tf.float32
    value = run(grad, {table: np.ones((5, 2)), ids: [[1, 4], [4, 0]]})
    assert isinstance(value, tf.IndexedSlicesValue)
    np.testing.assert_array_equal(value.indices, [1, 4, 4, 0])
    np.testing.assert_array_equal(value.values, np.ones((4, 2)))
    np.testing.assert_array_equal(value.dense_shape, [5, 2])
    dense = run(tf.convert_to_tensor(grad), {table: np.ones((5, 2)), ids: [[1, 4], [4, 0]]})
    np.testing.assert_array_equal(dense, [[1, 1], [1, 1], [0, 0], [0, 0], [2, 2]])


def test_rows_through_concatenation():
    a, b = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [4, 3])
    for axis, parts in ((0, (a, b)), (1, (a, tf.placeholder(tf.float32, [2, 2])))):
        whole = tf.concat(parts, axis)
        grads = tf.gradients(tf.gather(whole, [1, 0, 1] if axis else [5, 0, 1, 5]), parts)
        assert all(isinstance(grad, tf.IndexedSlices) for grad in grads)
        feeds = {part: np.zeros(part.shape.as_list()) for part in parts}
        found = run([tf.convert_to_tensor(grad) for grad in grads], feeds)
        expected = np.zeros(whole.shape.as_list())
        np.add.at(expected, [1, 0, 1] if axis else [5, 0, 1, 5], 1)
        np.testing.assert_array_equal(np.concatenate(found, axis), expected)


def test_large_or_open_rows_warn():
    values, indices = tf.zeros([1, 2]), tf.constant([0])
    with pytest.warns(UserWarning, match="with 200000000 elements"):
        tf.convert_to_tensor(tf.IndexedSlices(values, indices, tf.constant([10**8, 2])))
    with pytest.warns(UserWarning, match="of unknown shape"):
        tf.convert_to_tensor(tf.IndexedSlices(values, indices, tf.placeholder(tf.int32, [2])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        indexed_slices.densify(tf.IndexedSlices(values, indices, tf.constant([10**8, 2])))
        assert tf.convert_to_tensor(-tf.IndexedSlices(values, indices, tf.constant([3, 2]))).shape.as_list() == [3, 2]
    with pytest.raises(ValueError, match="without dense_shape"):
        tf.convert_to_tensor(tf.IndexedSlices(values, indices))
    with pytest.raises(ValueError, match="Tensor conversion requested dtype int32 for IndexedSlices"):
        tf.convert_to_tensor(tf.IndexedSlices(values, indices, tf.constant([3, 2])), tf.int32)


# --------------------------------------------------------------------------------------------------------------- errors
BUILD_ERRORS = [
    (
        lambda: tf.reshape(tf.zeros([2, 3]), [4]),
        r"Cannot reshape a tensor with 6 elements to shape \[4\] \(4 elements\)",
    ),
    (lambda: tf.reshape(tf.zeros([2, 3]), [-1, 4]), "evenly divisible by 4 but is 6"),
    (lambda: tf.reshape(tf.zeros([2, 3]), [-1, -1]), "Only one input size may be -1"),
    (lambda: tf.reshape(tf.zeros([2, 3]), [-2]), "non-negative, not -2"),
    (lambda: tf.expand_dims(tf.zeros([2]), 3), r"dim 3 not in the interval \[-2, 1\]"),
    (lambda: tf.expand_dims(tf.zeros([2]), axis=0, dim=0), "Cannot specify both 'axis' and 'dim'"),
    (lambda: tf.squeeze(tf.zeros([2, 1]), [0]), r"Can not squeeze dim\[0\], expected a dimension of 1, got 2"),
    (lambda: tf.transpose(tf.zeros([2, 3]), [0, 2]), "a permutation of the dimensions"),
    (lambda: tf.transpose(tf.zeros([2, 3]), [0]), "Dimension must be 1 but is 2"),
    (lambda: tf.concat([tf.zeros([2, 3]), tf.zeros([3, 3])], 1), "Dimensions must be equal"),
    (lambda: tf.concat([tf.zeros([2, 3]), tf.zeros([3])], 0), "Ranks of all input tensors should match"),
    (lambda: tf.concat([1, 2], 0), "use tf.stack"),
    (lambda: tf.stack([tf.zeros([2]), tf.zeros([3])]), r"the shapes \[2\] and \[3\]"),
    (lambda: tf.stack([tf.zeros([2])], axis=3), r"axis = 3 not in \[-2, 2\)"),
    (lambda: tf.unstack(tf.placeholder(tf.float32, [None, 2])), "Cannot infer num from shape"),
    (lambda: tf.unstack(tf.zeros([2]), 3), "Dimension must be 3 but is 2"),
    (lambda: tf.split(tf.zeros([5]), 2), "evenly divisible by 2 but is 5"),
    (lambda: tf.split(tf.zeros([5]), [2, 2]), "add up to 5"),
    (lambda: tf.split(tf.zeros([5]), tf.placeholder(tf.int32, [None])), "Cannot infer num from shape"),
    (lambda: tf.slice(tf.zeros([5]), [3], [4]), "begin 3 and size 4 in dimension 0"),
    (lambda: tf.tile(tf.zeros([5]), [2, 2]), "Shape must be rank 2 but is rank 1"),
    (lambda: tf.broadcast_to(tf.zeros([5]), [4]), r"Incompatible shapes: \[5\] vs. \[4\]"),
    (lambda: tf.fill([-1], 0), "must be >= 0"),
    (lambda: tf.range(0, 3, 0), "Requires delta != 0"),
    (lambda: tf.range(3, 0, 1), "Requires start <= limit when delta > 0"),
    (lambda: tf.pad(tf.zeros([5]), [[0, 0], [0, 0]]), r"shape \[1,2\]"),
    (lambda: tf.pad(tf.zeros([5]), [[5, 0]], "REFLECT"), "no greater than the dimension size"),
    (lambda: tf.pad(tf.zeros([5]), [[5, 0]], "WRAP"), "Unknown padding mode: WRAP"),
    (lambda: tf.gather(tf.zeros([5]), [0], axis=1), r"axis = 1"),
    (lambda: tf.gather(tf.zeros([5]), [0], batch_dims=2), "batch_dims"),
    (lambda: tf.gather_nd(tf.zeros([5]), [[0, 0]]), r"indices.shape\[-1\] must be <= params.rank"),
    (lambda: tf.scatter_nd([[0]], [1.0, 2.0], [3]), "updates of shape"),
    (lambda: tf.one_hot([0], -1), "depth must be non-negative, got: -1"),
    (lambda: tf.one_hot([0], 2, on_value=1.0, dtype=tf.int32), "does not match dtype parameter <dtype: 'int32'>"),
    (lambda: tf.reverse(tf.zeros([2, 2]), [0, -2]), "specified more than once"),
    (lambda: tf.space_to_depth(tf.zeros([1, 3, 4, 1]), 2), "evenly divisible by 2 but is 3"),
    (lambda: tf.depth_to_space(tf.zeros([1, 3, 4, 3]), 2), "evenly divisible by 4 but is 3"),
    (lambda: tf.space_to_batch_nd(tf.zeros([1, 3, 1]), [2], [[0, 0]]), "required_space_to_batch_paddings"),
    (lambda: tf.sequence_mask([1], [2]), "maxlen must be scalar"),
    (lambda: tf.meshgrid([1], indexing="yx"), "indexing parameter must be either"),
    (lambda: tf.dynamic_partition(tf.zeros([3]), [0, 1], 2), "must start with partitions.shape"),
    (lambda: tf.searchsorted([1], [1], side="up"), "side must be either"),
    (lambda: tf.batch_gather(tf.zeros([3]), tf.placeholder(tf.int32)), "does not allow indices with unknown shape"),
    (lambda: tf.matrix_transpose(tf.zeros([3])), "rank >= 2"),
]


@pytest.mark.parametrize("number", range(len(BUILD_ERRORS)))
def test_errors_while_the_graph_is_built(number):
    make, text = BUILD_ERRORS[number]
    with pytest.raises((ValueError, TypeError), match=text) as caught:
        make()
    assert all(part in str(caught.value) for part in ("Given: ", "Expected: ", "Instead: "))


def open_like(value):
    """A placeholder of unknown shape and what to feed it."""
    array = np.asarray(value, np.float32 if np.asarray(value).dtype.kind == "f" else np.int32)
    return tf.placeholder(array.dtype), array


RUN_ERRORS = [
    (lambda x, i: tf.gather(x, i), X, [[0, 1], [2, 3]], r"indices\[1,1\] = 3 is not in \[0, 3\)"),
    (lambda x, i: tf.gather(x, i), X, [-1], r"indices\[0\] = -1 is not in \[0, 3\)"),
    (lambda x, i: tf.gather(x, i, axis=2), X, 9, r"indices = 9 is not in \[0, 5\)"),
    (lambda x, i: tf.gather_nd(x, i), X, [[0, 1], [1, 4]], r"indices\[1\] = \[1, 4\] does not index into"),
    (
        lambda x, i: tf.scatter_nd(i, x, [2]),
        [1.0, 2.0],
        [[0], [2]],
        r"indices\[1\] = \[2\] does not index into shape \[2\]",
    ),
    (
        lambda x, i: tf.tensor_scatter_update(x, i, [1.0]),
        [1.0, 2.0],
        [[-1]],
        r"indices\[0\] = \[-1\] does not index into",
    ),
    (lambda x, i: x[i], [1.0, 2.0], 2, "slice index 2 of dimension 0 out of bounds"),
    (lambda x, i: tf.reshape(x, i), X, [7, -1], "requires a multiple of 7"),
    (lambda x, i: tf.reshape(x, i), X, [7], "the requested shape has 7"),
    (lambda x, i: tf.slice(x, i, [2]), [1.0, 2.0], [1], "begin|Expected size"),
    (lambda x, i: tf.invert_permutation(i), [0.0], [0, 0], "is not a permutation"),
    (lambda x, i: tf.reverse_sequence(x, i, 1), [[1.0, 2.0]], [3], "seq_lengths"),
    (lambda x, i: tf.dynamic_partition(x, i, 2), [1.0, 2.0], [0, 2], r"partitions\[1\] = 2 is not in \[0, 2\)"),
    (lambda x, i: tf.ensure_shape(x, [2]), [1.0], 0, "is not compatible with expected shape"),
    (
        lambda x, i: tf.concat([x, tf.placeholder_with_default(X, None)], 0),
        [[1.0]],
        0,
        "Ranks of all input tensors should match",
    ),
    (lambda x, i: tf.broadcast_to(x, i), [1.0, 2.0], [3], r"Incompatible shapes: \[2\] vs. \[3\]"),
    (lambda x, i: tf.broadcast_dynamic_shape(i, [3]), [0.0], [2], "Incompatible shapes"),
    (lambda x, i: tf.tile(x, i), [1.0], [1, 1], "Expected multiples"),
    (lambda x, i: tf.fill(i, 1.0), [1.0], [-2], "must be >= 0"),
    (lambda x, i: tf.range(3, 0, i), [1.0], 1, "Requires start <= limit"),
    (lambda x, i: tf.transpose(x, i), [[1.0]], [0, 0], "1 is missing from"),
    (lambda x, i: tf.squeeze(x, [0]), [1.0, 2.0], 0, "expected a dimension of 1, got 2"),
    (lambda x, i: tf.pad(x, i), [1.0], [[-1, 0]], "Paddings must be non-negative"),
]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("number", range(len(RUN_ERRORS)))
def test_errors_while_a_step_runs(number, tier):
    make, x_value, i_value, text = RUN_ERRORS[number]
    (x, x_fed), (i, i_fed) = open_like(x_value), open_like(i_value)
    y = make(x, i)
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        run(y, {x: x_fed, i: i_fed}, tier)


def test_a_check_of_indices_never_reads_the_table():
    op = opdef.lookup("GatherV2")

    class Table:
        """Shape and dtype, no data: any look at its elements fails."""

        shape, dtype = (1000, 2), np.dtype(np.float32)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 1000"):
        op.kernel(HostContext(), [Table(), np.array([0, 1000]), np.array(0)], {"batch_dims": 0})


# --------------------------------------------------------------------------------------------- offsets of joined shapes
@pytest.mark.parametrize(
    ("dim", "sizes", "text"),
    [
        (3, [[1, 2, 3], [2, 2, 3]], "Concat dim is out of range: 3 vs. 3"),
        (-4, [[1, 2, 3], [2, 2, 3]], "Concat dim is out of range: -4 vs. 3"),
        (1, [[1, 2, 3], [2, 2, 3]], "All dimensions except 1 must match. Input 1 has shape"),
        (0, [[1, 2], [4, 2], [1, 3]], "Input 2 has shape"),
    ],
)
@pytest.mark.parametrize("fed", [False, True])
def test_concat_offset_refuses_shapes_that_do_not_fit(dim, sizes, text, fed):
    with tf.Graph().as_default(), tf.Session() as session:
        vectors = [
            tf.placeholder_with_default(np.int32(size), [len(size)]) if fed else np.int32(size) for size in sizes
        ]
        offsets = tf.build_op("ConcatOffset", dim, vectors)
        with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(text)):
            session.run(offsets)


def test_concat_offset_counts_from_the_back_too():
    with tf.Graph().as_default(), tf.Session() as session:
        offsets = tf.build_op("ConcatOffset", -1, [np.int32([1, 2, 3]), np.int32([1, 2, 5]), np.int32([1, 2, 0])])
        assert [found.tolist() for found in session.run(offsets)] == [[0, 0, 0], [0, 0, 3], [0, 0, 8]]


def test_a_negative_size_in_a_shape_is_a_wrong_value():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="the dimension -1"):
        tf.placeholder(tf.float32, shape=(-1, 10))


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_a_missing_size_beside_zeros_is_computed_from_the_others(tier):
    """As TensorFlow's kernel does: [1, 0, 3] as [0, -1, 5] leaves 3 // 5, [0, 6] as [0, -1] leaves 6."""
    x, shape = tf.placeholder(tf.float32), tf.placeholder(tf.int32)
    result = tf.reshape(x, shape)
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        for given, wanted, found in (((1, 0, 3), [0, -1, 5], (0, 0, 5)), ((0, 6), [0, -1], (0, 6)), ((0,), [-1], (0,))):
            assert session.run(result, {x: np.zeros(given), shape: wanted}).shape == found
        with pytest.raises(tf.errors.InvalidArgumentError, match="with 2 values, but the requested shape has 0"):
            session.run(result, {x: [1.0, 2.0], shape: [0, -1]})


def test_a_multiple_of_minus_1_is_unknown_until_it_runs():
    with tf.Graph().as_default(), tf.Session() as session:
        tiled = tf.tile(tf.zeros([2, 0, 3]), [-1, -1, 2])
        assert tiled.shape.as_list() == [None, 0, 6]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Expected multiples\[0\] >= 0, but got -1"):
            session.run(tiled)
        with pytest.raises(ValueError, match="multiples of 0 and more"):
            tf.tile(tf.zeros([2]), [-2])


@pytest.mark.parametrize(
    ("start", "limit", "delta", "size"),
    [(0.1, 1.1, 0.1, 10), (0.0, 0.3, 0.1, 3), (1.0, 0.0, -0.1, 10), (0.1, 0.9, 0.2, 4), (0.0, 100.0, 0.1, 1000)],
)
def test_a_range_is_as_long_as_in_tensorflow(start, limit, delta, size):
    """Sizes as TensorFlow 1.15 gave them, in float32 and in float64."""
    for dtype in (tf.float32, tf.float64):
        with tf.Graph().as_default(), tf.Session() as session:
            place = tf.placeholder(dtype, ())
            known, found = tf.range(start, limit, delta, dtype=dtype), tf.range(place, limit, delta, dtype=dtype)
            assert (known.shape.as_list(), session.run(found, {place: start}).shape) == ([size], (size,))


def test_slices_whose_dense_shape_is_a_tuple():
    with tf.Graph().as_default(), tf.Session() as session:
        slices = tf.IndexedSlices(tf.constant([[1.0, 2.0]]), tf.constant([1]), dense_shape=(3, 2))
        assert session.run(tf.convert_to_tensor(slices)).tolist() == [[0, 0], [1, 2], [0, 0]]


class Holder:
    """An object of a class of a program's own, with a registered conversion."""

    def __init__(self, value):
        self.value = tf.convert_to_tensor(value)
        self.dtype, self.shape = self.value.dtype, self.value.shape


tf.register_tensor_conversion_function(Holder, lambda holder, *args, **kwargs: holder.value)


def test_indices_are_objects_with_a_registered_conversion():
    place = Holder(tf.placeholder(tf.int32, ()))
    values = both([tf.range(9)[place], tf.range(9)[place : Holder(7)], tf.range(9)[:: Holder(4)]], {place.value: 5})
    assert [value.tolist() for value in values] == [5, [5, 6], [0, 4, 8]]
    with pytest.raises(TypeError, match="are valid indices"):
        tf.range(9)[Holder([1, 2])]
    with pytest.raises(TypeError, match="are valid indices"):
        tf.range(9)[Holder(1.0)]


def test_paddings_of_which_some_are_fed_leave_the_other_sizes_known():
    """Static shapes as TensorFlow 1.15 gave them."""
    n, x = tf.placeholder(tf.int32, ()), tf.placeholder(tf.float32, [None, 5, 2])
    for paddings in ([[0, n], [0, 0], [1, 1]], tf.stack([[0, n], [0, 0], [1, 1]])):
        assert tf.pad(x, paddings).shape.as_list() == [None, 5, 4]
    assert tf.pad(x, [[0, 0], [n, 0], tf.constant([1, 2])], "SYMMETRIC").shape.as_list() == [None, None, 5]
    padded = tf.pad(x, tf.stack([[0, n], tf.stack([1, n]), [1, 0]]), constant_values=2.0)
    assert padded.shape.as_list() == [None, None, 3]
    assert both(padded, {n: 2, x: np.zeros([1, 5, 2])}).shape == (3, 8, 3)


def test_false_as_the_dtype_of_zeros_and_ones_is_that_of_the_tensor():
    for like in (tf.zeros_like, tf.ones_like):
        assert like(tf.constant([1.5, 2.5]), False).dtype is tf.float32
