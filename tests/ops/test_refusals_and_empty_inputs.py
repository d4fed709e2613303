"""What ops refuse while the graph is built and in a step, and what they give for nothing: as TensorFlow 1.8 does."""

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def _sparse():
    return tf.SparseTensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 6])


def _fed(value, dtype=tf.int32, shape=None):
    return tf.placeholder_with_default(np.array(value, dtype.as_numpy_dtype), shape)


_ZEROS = np.zeros([2, 3, 5], np.float32)
_BUILT = {
    "a matrix of shifts": (lambda: tf.manip.roll(_ZEROS, [[1]], 0), "Shape must be at most rank 1 but is rank 2"),
    "a matrix of axes to roll": (lambda: tf.manip.roll(_ZEROS, 1, [[0]]), "Shape must be at most rank 1 but is rank 2"),
    "one shift for two axes": (lambda: tf.manip.roll(_ZEROS, [1], [0, 1]), "but are 1 and 2"),
    "rows of a scalar": (lambda: tf.map_fn(tf.negative, 1.0), "^elems must be a 1\\+ dimensional Tensor, not a scalar"),
    "samples below 0": (lambda: tf.multinomial([[1.0]], -1), "must be non-negative but is -1"),
    "hits of another number": (
        lambda: tf.nn.compute_accidental_hits([[0, 1], [2, 3]], [0, 5], 3),
        "Dimension must be 3 but is 2",
    ),
    "columns of a sparse tensor": (
        lambda: tf.SparseTensor([[0, 1]], [1.0], [2]),
        "^Dimensions 2 and 1 are not compatible",
    ),
    "rank of a sparse tensor": (lambda: tf.SparseTensor([0], [1.0], [2]), r"^Shape \(1,\) must have rank 2"),
    "a smaller dense shape": (
        lambda: tf.sparse_reset_shape(_sparse(), [2, 2]),
        "Requested new_shape should have dimension sizes >= sp_input.shape",
    ),
    "a dense shape of another rank": (
        lambda: tf.sparse_reset_shape(_sparse(), [2, 2, 2]),
        "^Dimensions 3 and 2 are not compatible",
    ),
    "a matrix of axes": (
        lambda: tf.reduce_max(_ZEROS, [[0], [1]]),
        "Shape must be at most rank 1 but is rank 2",
    ),
    "a constant of a dimension below 0": (lambda: tf.constant(1, shape=[-1]), "Needed at most -1, but received 1"),
    "boxes of three numbers": (
        lambda: tf.image.non_max_suppression(np.zeros([1, 3], np.float32), [1.0], 1),
        "Dimension must be 4 but is 3",
    ),
    "sparse_reshape of another size": (
        lambda: tf.sparse_reshape(_sparse(), [5, 3]),
        r"Cannot reshape a tensor with 12 elements to shape \[5, 3\] \(15 elements\)",
    ),
    "sparse_reshape with two -1": (
        lambda: tf.sparse_reshape(_sparse(), [-1, -1]),
        r"At most one dimension can be inferred \(-1\). Found: \[-1, -1\]",
    ),
    "sparse_reshape that cannot be inferred": (
        lambda: tf.sparse_reshape(_sparse(), [5, -1]),
        r"Cannot reshape a tensor with 12 elements to shape \[5, -1\] \(10 elements\)",
    ),
    "pairs of space_to_batch_nd": (
        lambda: tf.space_to_batch_nd(np.zeros([1, 3, 3, 1]), [3, 3], [[0, 0]]),
        r"Dimension 0 in both shapes must be equal, but are 1 and 2. Shapes are \[1,2\] and \[2,2\]",
    ),
    "pairs of batch_to_space_nd": (
        lambda: tf.batch_to_space_nd(np.zeros([4, 3, 3, 1]), [2, 2], [[0, 0], [0, 0], [0, 0]]),
        r"Dimension 0 in both shapes must be equal, but are 3 and 2",
    ),
    "perm out of range": (lambda: tf.transpose(_ZEROS, [0, 1, 3]), "perm dim 3 is out of range of input rank 3"),
    "axis of concat": (lambda: tf.concat([[1], [2]], [0]), "Shape must be rank 0 but is rank 1"),
    "axis of gather": (lambda: tf.gather(_ZEROS, [0], axis=[0]), "Shape must be rank 0 but is rank 1"),
    "indices of gather_nd": (
        lambda: tf.gather_nd(_ZEROS[0], [[0, 1, 2]]),
        r"but saw indices shape: \[1,3\] and params shape: \[3,5\]",
    ),
    "k of top_k": (lambda: tf.nn.top_k(_ZEROS, [1]), "Input must be scalar but has rank 1"),
    "k below 0": (lambda: tf.nn.top_k(_ZEROS, -1), "given by scalar input 1, must be non-negative but is -1"),
    "axis of reduce_join": (
        lambda: tf.reduce_join([["a"]], 2),
        "Invalid reduction dimension 2 for input with 2 dimensions",
    ),
    "a condition of another length": (
        lambda: tf.where([True, False, True], _ZEROS, _ZEROS),
        r"Dimension 0 in both shapes must be equal, but are 3 and 2. Shapes are \[3\] and \[2\]",
    ),
    "contraction axes": (
        lambda: tf.tensordot(_ZEROS, _ZEROS, [[1], [0, 1]]),
        "Different number of contraction axes 'a' and 'b', 1 != 2",
    ),
    "number of axes": (lambda: tf.tensordot(_ZEROS, _ZEROS, -1), "'axes' must be at least 0"),
    "one list of axes": (lambda: tf.tensordot(_ZEROS, _ZEROS, [1]), "'axes' must be an integer or have length 2"),
    "betainc of two shapes": (lambda: tf.betainc([1.0, 2.0], [1.0, 2.0, 3.0], 0.5), "are 2 and 3. Shapes are"),
    "betainc does not broadcast": (lambda: tf.betainc(1.0, [1.0, 2.0, 3.0], [0.5]), "are 3 and 1. Shapes are"),
}


@pytest.mark.parametrize("case", _BUILT)
def test_refused_while_the_graph_is_built(case):
    build, words = _BUILT[case]
    with pytest.raises(ValueError, match=words):
        build()


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("name", ["rfft", "irfft"])
def test_shapes_of_real_transforms(name, rank):
    transform = getattr(tf.spectral, name if rank == 1 else f"{name}{rank}d")
    values = np.zeros([4, 4, 4], np.float32 if name == "rfft" else np.complex64)
    with pytest.raises(ValueError, match=rf"^Shape \(\) must have rank at least {rank}"):
        transform(values[0, 0, 0])
    with pytest.raises(ValueError, match=r"^Shape \(1, 1\) must have rank 1"):
        transform(values, [[4]])
    with pytest.raises(ValueError, match=rf"^Dimension must be {rank} but is 4"):
        transform(values, [4, 4, 4, 4])


_RUN = {
    "a condition that is a vector": (
        lambda: tf.Assert(tf.constant([True]), ["x"]),
        r"In\[0\] should be a scalar: \[1\]",
    ),
    "a column out of a sparse matrix": (
        lambda: tf.sparse_tensor_dense_matmul(tf.SparseTensor([[1, 10]], [1.0], [2, 6]), np.ones([6, 2], np.float32)),
        r"^k \(10\) from index\[0,1\] out of bounds \(>=6\)",
    ),
    "a row out of a sparse matrix": (
        lambda: tf.sparse_tensor_dense_matmul(
            tf.SparseTensor([[1, 1], [2, 10]], [1.0, 1.0], [2, 6]), np.ones([2, 2], np.float32), adjoint_a=True
        ),
        r"^k \(2\) from index\[1,0\] out of bounds \(>=2\)",
    ),
    "axis of a sparse sum": (
        lambda: tf.sparse_reduce_sum(_sparse(), 2),
        r"Invalid reduction dimension 2, for input with 2 dimensions\.",
    ),
    "softmax of a sparse vector": (
        lambda: tf.sparse_softmax(tf.SparseTensor([[0]], [1.0], [2])).values,
        "Input should have rank >= 2, but received shape: ",
    ),
    "values for other coordinates": (
        lambda: tf.sparse_to_dense([0, 1], [3], [1.0, 2.0, 3.0]),
        r"sparse_values has incorrect shape \[3\], should be \[\] or \[2\]",
    ),
    "channels of boxes": (
        lambda: tf.image.draw_bounding_boxes(np.zeros([1, 4, 4, 2], np.float32), [[[0.0, 0.0, 1.0, 1.0]]]),
        "Channel depth should be either 1",
    ),
    "boxes of another batch": (
        lambda: tf.image.draw_bounding_boxes(np.zeros([1, 4, 4, 3], np.float32), np.zeros([2, 1, 4], np.float32)),
        "The batch sizes should be the same",
    ),
    "k of top_k": (lambda: tf.nn.top_k(_ZEROS, _fed([1]))[0], r"k must be scalar, got shape \[1\]"),
    "a triangle with a zero": (
        lambda: tf.matrix_triangular_solve([[1.0, 0.0], [1.0, 0.0]], [[1.0], [1.0]]),
        "Input matrix is not invertible",
    ),
    "a dimension twice": (lambda: tf.transpose(_ZEROS, [0, 1, 1]), "2 is missing from {0,1,1}"),
    "batch and sequence in one": (
        lambda: tf.reverse_sequence(_ZEROS, [1, 1], seq_axis=0, batch_axis=0),
        "batch_dim == seq_dim == 0",
    ),
    "boundaries out of order": (
        lambda: tf.build_op("Bucketize", [1, 2], boundaries=[0.0, 8.0, 3.0]),
        "Expected sorted boundaries",
    ),
    "axis of concat": (lambda: tf.concat([[1], [2]], _fed([0])), r"should be a scalar integer, but got shape \[1\]"),
    "axis of split": (lambda: tf.split(np.zeros([4]), 2, axis=_fed([0])), "split_dim must be a scalar but has rank 1"),
    "contraction axes": (
        lambda: tf.tensordot(_fed(_ZEROS[0], tf.float32), _fed(_ZEROS[0], tf.float32), _fed([[0], [7]])),
        "7",
    ),
    "axis of softmax": (lambda: tf.nn.softmax(_ZEROS, _fed(4, shape=[])), "4 is out of range"),
    "axis of softmax from the right": (lambda: tf.nn.log_softmax(_ZEROS, _fed(-4, shape=[])), "out of range"),
    "betainc": (
        lambda: tf.betainc(_fed([1, 2], tf.float32), _fed([1, 2, 3], tf.float32), 0.5),
        "are 2 and 3. Shapes are",
    ),
}


@pytest.mark.parametrize("case", _RUN)
def test_refused_in_a_step(case):
    build, words = _RUN[case]
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        tf.Session().run(build())


def test_one_hot_takes_values_for_what_they_are():
    with pytest.raises(
        TypeError, match="dtype <dtype: 'float32'> of on_value does not match dtype parameter <dtype: 'f"
    ):
        tf.one_hot([1], 3, on_value=1.0, dtype=tf.float64)
    with pytest.raises(TypeError, match="dtype <dtype: 'int32'> of off_value does not match dtype parameter"):
        tf.one_hot([1], 3, off_value=0, dtype=tf.float32)
    with pytest.raises(TypeError, match="of on_value does not match dtype <dtype: 'int32'> of off_value"):
        tf.one_hot([1], 3, on_value=1.0, off_value=0)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("function", [tf.nn.softmax, tf.nn.log_softmax])
def test_softmax_along_an_axis_that_is_a_tensor(function, axis):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 5
    powers = np.exp(x) / np.exp(x).sum(axis, keepdims=True)
    expected = powers if function is tf.nn.softmax else np.log(powers)
    for tensor in (tf.constant(axis), _fed(axis, shape=[])):
        output = function(x, tensor)
        assert output.shape.as_list() == [2, 3, 4]
        np.testing.assert_allclose(tf.Session().run(output), expected, rtol=1e-5)


def test_hexadecimal_numbers():
    for dtype in (tf.float32, tf.float64):
        numbers = tf.Session().run(tf.string_to_number(["0xF", "-0X1f", "+0x0"], dtype))
        assert numbers.tolist() == [15.0, -31.0, 0.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="could not correctly convert string: 0xG"):
        tf.Session().run(tf.string_to_number(["0xG"]))


def test_convolution_gradients_of_an_empty_batch():
    filters, g = np.ones([2, 2, 1, 1], np.float32), np.ones([0, 1, 2, 1], np.float32)
    slope = tf.nn.conv2d_backprop_input([0, 2, 3, 1], filters, g, [1, 1, 1, 1], "VALID")
    assert tf.Session().run(slope).shape == (0, 2, 3, 1)
    deep = tf.build_op(
        "Conv3DBackpropInputV2",
        [0, 2, 2, 3, 1],
        filters[None],
        np.ones([0, 2, 1, 2, 1], np.float32),
        strides=[1] * 5,
        padding="VALID",
    )
    assert tf.Session().run(deep).shape == (0, 2, 2, 3, 1)


def test_scatter_without_indices_into_nothing():
    nothing = np.zeros([0], np.int32)
    assert tf.Session().run(tf.scatter_nd(nothing, nothing, [0])).shape == (0,)
    assert tf.Session().run(tf.tensor_scatter_add(nothing, nothing, nothing)).shape == (0,)


def test_old_spelling_of_strides():
    x, filters = np.ones([1, 2, 1], np.float32), np.ones([3, 1, 1], np.float32)
    old = tf.nn.conv1d_transpose(x, filters, [1, 4, 1], stride=2)
    new = tf.nn.conv1d_transpose(x, filters, [1, 4, 1], 2)
    assert np.array_equal(*tf.Session().run([old, new]))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'strides'"):
        tf.nn.conv1d_transpose(x, filters, [1, 4, 1])


def test_a_bitmap_is_read_whatever_its_first_bytes_are():
    header = [0x3D, 0, 0, 0, 0, 0, 0, 0, 0x36, 0, 0, 0, 0x28, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 24, *[0] * 25]
    image = tf.image.decode_bmp(b"B@" + bytes(header) + bytes([1, 2, 3, 0]))
    assert tf.Session().run(image).tolist() == [[[3, 2, 1]]]


def test_reduce_join_keeps_the_rank_of_axes_that_are_not_known():
    axes = tf.placeholder(tf.int32, [None])
    assert tf.reduce_join([["a", "b"]], axes, keep_dims=True).shape.as_list() == [None, None]
    assert tf.reduce_join([["a", "b"]], axes).shape.ndims is None


def test_labels_beyond_the_time_have_no_loss():
    x = tf.constant(np.arange(24, dtype=np.float32).reshape(3, 2, 4) / 10)
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [0, 1, 2], [2, 2])
    loss = tf.nn.ctc_loss(labels, x, [1, 3], ignore_longer_outputs_than_inputs=True)
    losses, slope = tf.Session().run([loss, tf.gradients(loss, x)[0]])
    np.testing.assert_allclose(losses, [0.0, 2.0997806], rtol=1e-5)
    np.testing.assert_allclose(np.abs(slope).sum((0, 2)), [0.0, 2.7009964], rtol=1e-5)


def test_wrong_types_are_named():
    ids = tf.SparseTensor([[0, 0]], np.array([1], np.int64), [1, 1])
    with pytest.raises(TypeError, match=r"^vocab_size has to be a Tensor or Python int. Found <class 'list'>"):
        tf.sparse_merge(ids, ids, [3])
    with pytest.raises(TypeError, match=r"^vocab_size has to be a list of Tensors or Python ints. Found <class 'int'>"):
        tf.sparse_merge([ids], ids, 3)
    with pytest.raises(TypeError, match="use either  SparseTensor"):
        tf.map_fn(tf.negative, ids)
    for normal in (tf.random_normal, tf.truncated_normal):
        with pytest.raises(TypeError, match=r"^Expected int32, got 0.0 of type 'float' instead"):
            normal([2], dtype=tf.int32)
    with pytest.raises(TypeError, match="Expected string"):
        tf.ones([2], tf.string)
    with pytest.raises(TypeError, match=r"^List of Tensors when single Tensor expected"):
        tf.constant(tf.zeros([]))


def test_strings_joined_over_nothing_and_of_nothing():
    with tf.Session() as session:
        for shape, axis, keep, expected in (
            ((2, 0), 0, False, np.zeros(0, object)),
            ((2, 0), 1, False, np.array([b"", b""], object)),
            ((0, 2), 0, True, np.array([[b"", b""]], object)),
            ((0, 2), [0, 1], False, np.array(b"", object)),
            ((0, 0), 1, True, np.zeros((0, 1), object)),
        ):
            joined = tf.reduce_join(tf.zeros(shape, tf.string), axis, keep_dims=keep, separator="-")
            np.testing.assert_array_equal(session.run(joined), expected)


@pytest.mark.parametrize("dtype", [tf.complex64, tf.complex128])
def test_the_mean_of_no_complex_numbers(dtype):
    for tier in ("interpreted", "compiled"):
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            np.testing.assert_array_equal(session.run(tf.reduce_mean(tf.zeros([2, 0], dtype), 1)), [0, 0])
            assert np.isnan(session.run(tf.reduce_mean(tf.zeros([2, 0]), 1))).all()


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [("int8", "float32"), ("uint16", "float32"), ("int32", "float64"), ("int64", "float64"), ("float16", "float16")],
)
def test_quotients_of_integers_are_not_rounded(dtype, wide):
    seven, two = np.array([7], dtype), np.array([[1, 2], [3, 4]], dtype)
    quotient = tf.SparseTensor([[0, 1]], seven, [2, 2]) / two
    mean = tf.unsorted_segment_mean(np.array([1, 2, 3], dtype), [0, 0, 2], 4)
    assert (quotient.dtype, mean.dtype) == (tf.as_dtype(wide), tf.as_dtype(wide))
    with tf.Session() as session:
        values = session.run([quotient.values, mean])
    np.testing.assert_array_equal(values[0], [3.5])
    np.testing.assert_array_equal(values[1], [1.5, 0, 3, 0])


def test_ids_of_sparse_merge_are_made_integers():
    ids = tf.SparseTensor([[0, 0], [1, 0]], [2.0, 1.0], [2, 1])
    merged = tf.sparse_merge(ids, tf.SparseTensor([[0, 0], [1, 0]], [0.5, 4.0], [2, 1]), 5)
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(merged).indices, [[0, 2], [1, 1]])


def test_a_shared_padding_queue_is_one_for_shapes_that_are_compatible():
    first = tf.PaddingFIFOQueue(3, tf.float32, [[None]], shared_name="q")
    second = tf.PaddingFIFOQueue(3, tf.float32, [[2]], shared_name="q")
    with tf.Session() as session:
        session.run(first.enqueue([[1.0, 2.0]]))
        assert session.run(second.size()) == 1


def test_the_error_of_a_python_function_ends_with_what_it_said():
    def inner():
        raise ValueError("blah")

    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)ValueError: blah.*in inner.*ValueError: blah"),
    ):
        session.run(tf.py_func(inner, [], tf.float32))


@pytest.mark.parametrize("resource", [False, True])
def test_what_is_read_before_it_has_a_value_is_told_as_what_it_is(resource):
    v = tf.get_variable("scope/v", [2], use_resource=resource)
    reads = {"a read": v + 1, "a branch": tf.cond(_fed(True, tf.bool), lambda: v + 1, lambda: tf.zeros([2]))}
    with tf.Session() as session:
        for read in reads.values():
            with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value scope/v") as caught:
                session.run(read)
            told = "Error while reading resource variable scope/v from Container: localhost. This could mean"
            assert (told in str(caught.value)) == resource
            assert ("Resource localhost/scope/v/N10tensorflow3VarE does not exist" in str(caught.value)) == resource
