"""Record what TensorFlow's functions of sparse tensors, and those that parse strings, give.

Run with an interpreter that has TensorFlow: `python tools/golden/input/sparse_parsing.py tests/golden/sparse_parsing.json`.
A case is a program that uses `tf`, `np` and these:
`show(...)`: appends the values of tensors, sparse tensors, dictionaries and lists of them, run in one session, to the
recorded list, with dtypes and static shapes; the class's name of an error that is raised while it runs;
`error(f)`: appends the name of the class of what `f()` raises;
`raw(type, **arguments)`: an op by its type;
`sp(indices, values, shape)`: a sparse tensor;
`example(**features)`, `sequence(context, lists)`: serialised messages; a feature is a list of ints, floats or bytes.
The tests run the same programs.
"""

# ruff: noqa: E501  (lines of the programs)

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

SETUP = """
a = sp([[0, 1], [0, 3], [2, 0], [3, 3]], [1.0, -2.0, 3.0, 4.0], [4, 4])
b = sp([[0, 1], [1, 2], [2, 0], [2, 2]], [10.0, 20.0, -3.0, 40.0], [4, 4])
ints = sp([[0, 0], [1, 2], [1, 4]], np.array([3, 1, 2], np.int64), [3, 5])
words = sp([[0, 0], [2, 1]], ["x", "yz"], [3, 2])
cube = sp([[0, 0, 1], [0, 2, 0], [1, 0, 0], [1, 0, 1], [1, 1, 1]], [1.0, 2.0, 3.0, 4.0, 5.0], [2, 3, 2])
def grads(y, xs):
    show(tf.gradients(y, [x.values if hasattr(x, "values") else x for x in xs]))
weights = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
"""
SPARSE = {
    "order": """
unordered = sp([[2, 0], [0, 1], [1, 1], [0, 0]], [1.0, 2.0, 3.0, 4.0], [3, 2])
found = tf.sparse_reorder(unordered)
show(found)
grads(tf.reduce_sum(found.values * [1.0, 10.0, 100.0, 1000.0]), [unordered])
show(tf.sparse_transpose(a), tf.sparse_transpose(cube, [1, 2, 0]))
""",
    "reshape": """
show(tf.sparse_reshape(a, [2, 8]), tf.sparse_reshape(a, [-1, 2, 2]), tf.sparse_reshape(cube, [-1]))
show(tf.sparse_reshape(sp(np.zeros([0, 2]), [], [0, 3]), [3, 0]))
show(lambda: tf.sparse_reshape(a, tf.placeholder_with_default(np.array([3, 5], np.int64), [2])))
show(lambda: tf.sparse_reshape(a, tf.placeholder_with_default(np.array([-1, -1], np.int64), [2])))
show(lambda: tf.sparse_reshape(a, tf.placeholder_with_default(np.array([-1, 5], np.int64), [2])))
""",
    "concat": """
show(tf.sparse_concat(0, [a, b]), tf.sparse_concat(1, [a, b, a]), tf.sparse_concat(-1, [words, words]))
wide = sp([[0, 0], [2, 4]], [1.0, 9.0], [3, 5])
show(tf.sparse_concat(1, [a, wide], expand_nonconcat_dim=True), tf.sparse_concat(0, [wide, a], expand_nonconcat_dim=True))
show(lambda: tf.sparse_concat(1, [a, wide]))
show(tf.sparse_concat(0, [a]))
""",
    "split and slice": """
show(tf.sparse_split(sp_input=a, num_split=2, axis=1), tf.sparse_split(sp_input=a, num_split=3, axis=0))
show(tf.sparse_split(sp_input=cube, num_split=2, axis=1))
show(lambda: tf.sparse_split(sp_input=a, num_split=9, axis=0))
found = tf.sparse_slice(a, [0, 1], [3, 3])
show(found, tf.sparse_slice(a, [1, 0], [100, 100]), tf.sparse_slice(a, [4, 4], [1, 1]))
grads(tf.reduce_sum(found.values * found.values), [a])
""",
    "dense": """
show(tf.sparse_tensor_to_dense(a), tf.sparse_tensor_to_dense(words), tf.sparse_tensor_to_dense(words, "-"))
show(tf.sparse_tensor_to_dense(ints, -1), tf.sparse_tensor_to_dense(cube, 9.0))
show(tf.sparse_to_dense([1, 3], [5], 2.5), tf.sparse_to_dense(2, [4], 7, -1), tf.sparse_to_dense([[0, 1]], [2, 2], [3]))
show(lambda: tf.sparse_tensor_to_dense(sp([[1, 0], [0, 0]], [1.0, 2.0], [2, 2])))
show(lambda: tf.sparse_tensor_to_dense(sp([[0, 0], [0, 0]], [1.0, 2.0], [2, 2])))
show(lambda: tf.sparse_tensor_to_dense(sp([[0, 0], [5, 0]], [1.0, 2.0], [2, 2])))
show(tf.sparse_tensor_to_dense(sp([[1, 0], [0, 0]], [1.0, 2.0], [2, 2]), validate_indices=False))
default = tf.constant(2.0)
found = tf.sparse_tensor_to_dense(a, default)
grads(tf.reduce_sum(found * weights), [a, default])
show(tf.sparse.from_dense([[0, 3], [4, 0]]), tf.sparse.from_dense(["", "a"]), tf.sparse.eye(2, 3))
""",
    "matmul": """
m = tf.constant(np.arange(12, dtype=np.float32).reshape(4, 3) - 5)
show(tf.sparse_tensor_dense_matmul(a, m), tf.sparse_tensor_dense_matmul(a, m, adjoint_a=True))
show(tf.sparse_tensor_dense_matmul(a, tf.transpose(m), adjoint_b=True))
c = sp([[1, 0], [0, 2], [1, 0]], np.array([1 + 2j, 3j, -1], np.complex64), [2, 3])
z = tf.constant(np.array([[1j, 2], [3, 4 - 1j], [5, 6j]], np.complex64))
show(tf.sparse_tensor_dense_matmul(c, z), tf.sparse_tensor_dense_matmul(c, tf.transpose(z)[:, :2], True, True))
for adjoint_a in (False, True):
    for adjoint_b in (False, True):
        y = tf.sparse_tensor_dense_matmul(a, tf.transpose(m) if adjoint_b else m, adjoint_a, adjoint_b)
        grads(tf.reduce_sum(y * y), [a, m])
show(tf.sparse_tensor_dense_matmul(sp(np.zeros([0, 2]), np.zeros([0], np.float32), [2, 4]), m))
show(lambda: tf.sparse_tensor_dense_matmul(sp([[0, 9]], [1.0], [4, 4]), m))
""",
    "add": """
total = tf.sparse_add(a, b)
show(total, tf.sparse_add(a, b, 0.1), tf.sparse_add(a, b, 12.0), tf.sparse_add(a, weights), tf.sparse_add(weights, b))
grads(tf.reduce_sum(total.values * tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])), [a, b])
w = tf.constant(weights)
grads(tf.reduce_sum(tf.sparse_add(a, w) * weights), [a, w])
show(lambda: tf.sparse_add(a, sp([[0, 0]], [1.0], [4, 5])))
error(lambda: tf.sparse_add(weights, weights))
show(tf.sparse_maximum(a, b), tf.sparse_minimum(a, b))
""",
    "element by element": """
for dense in (weights, weights[1], weights[:, :1], np.float32(3)):
    d = tf.constant(dense)
    show(a * d, a / d, raw("SparseDenseCwiseAdd", sp_indices=a.indices, sp_values=a.values, sp_shape=a.dense_shape, dense=d))
    if np.ndim(dense):  # where it is a scalar, TensorFlow's rule fails
        grads(tf.reduce_sum((a * d).values * [1.0, 2.0, 3.0, 4.0]), [a, d])
        grads(tf.reduce_sum((a / d).values * [1.0, 2.0, 3.0, 4.0]), [a, d])
show(lambda: a * weights[:3], lambda: a * np.zeros([1, 4, 4], np.float32))
""",
    "reductions": """
for axis in (None, 0, [1], [0, 2], -1, [0, 1, 2]):
    for keep in (False, True):
        show(tf.sparse_reduce_sum(cube, axis, keep), tf.sparse_reduce_max(cube, axis, keep))
        show(tf.sparse_reduce_sum_sparse(cube, axis, keep), tf.sparse_reduce_max_sparse(cube, axis, keep))
show(tf.sparse_reduce_max(sp([[0, 0], [0, 1]], [-5.0, -3.0], [2, 2]), 1))
grads(tf.reduce_sum(tf.sparse_reduce_sum(cube, [1]) * [[1.0, 2.0], [3.0, 4.0]]), [cube])
grads(tf.reduce_sum(tf.sparse_reduce_sum(cube, [0, -1], keep_dims=True) * [[[1.0], [2.0], [3.0]]]), [cube])
found = tf.sparse_softmax(cube)
show(found)
grads(tf.reduce_sum(found.values * [1.0, 2.0, 3.0, 4.0, 5.0]), [cube])
""",
    "rows, ids, masks": """
filled, empty = tf.sparse_fill_empty_rows(ints, 9)
show(filled, empty, tf.sparse_fill_empty_rows(words, "none"))
f, _ = tf.sparse_fill_empty_rows(a, 7.0)
default = tf.constant(7.0)
f, _ = tf.sparse_fill_empty_rows(a, default)
grads(tf.reduce_sum(f.values * [1.0, 2.0, 3.0, 4.0, 5.0]), [a, default])
show(tf.sparse_retain(a, [True, False, True, False]), tf.sparse_reset_shape(ints), tf.sparse_reset_shape(a, [5, 6]))
show(tf.sparse_reset_shape(sp(np.zeros([0, 2]), np.zeros([0], np.float32), [3, 3])))
error(lambda: tf.sparse_reset_shape(a, [3, 6]))
show(tf.sparse_to_indicator(ints, 5), tf.sparse_merge(ints, sp([[0, 0], [1, 2], [1, 4]], [0.1, 0.2, 0.3], [3, 5]), 6))
two = sp([[0, 0], [1, 2], [1, 4]], np.array([0, 0, 1], np.int64), [3, 5])
show(tf.sparse_merge([two, ints], sp([[0, 0], [1, 2], [1, 4]], [0.1, 0.2, 0.3], [3, 5]), [2, 6]))
masked = tf.sparse_mask(tf.IndexedSlices(tf.constant([[1.0], [2.0], [3.0]]), tf.constant([4, 9, 7])), [9, 1])
show(masked.values, masked.indices)
""",
    "crosses": """
first, second = sp([[0, 0], [0, 1], [2, 0]], ["a", "bc", "d"], [3, 2]), sp([[0, 0], [1, 0], [2, 1]], np.array([7, -8, 2**62], np.int64), [3, 2])
dense = tf.constant([["x", "y"], ["", "z"], ["w", "a long string of more than sixty-four bytes, which takes another way through the hash"]])
numbers = tf.constant([[1], [2], [3]])
for inputs in ([first, second], [first, dense], [dense, numbers], [first, second, dense, numbers], [first]):
    show(tf.sparse.cross(inputs), tf.sparse.cross_hashed(inputs), tf.sparse.cross_hashed(inputs, 100), tf.sparse.cross_hashed(inputs, 1000, 5))
show(lambda: tf.sparse.cross([first, numbers[:2]]))
""",
    "strings": """
show(tf.serialize_sparse(a), tf.serialize_sparse(words), tf.serialize_many_sparse(ints), tf.serialize_many_sparse(words))
show(raw("DeserializeSparse", serialized_sparse=tf.serialize_sparse(a), dtype=tf.float32))
show(tf.deserialize_many_sparse(tf.serialize_many_sparse(cube), tf.float32, 3))
show(tf.deserialize_many_sparse(tf.stack([tf.serialize_sparse(ints), tf.serialize_sparse(two_by_two)]), tf.int64))
show(raw("DeserializeSparse", serialized_sparse=tf.stack([[tf.serialize_sparse(ints)], [tf.serialize_sparse(two_by_two)]]), dtype=tf.int64))
show(lambda: tf.deserialize_many_sparse(tf.serialize_many_sparse(ints), tf.float32))
show(lambda: tf.deserialize_many_sparse([["x", "y", "z"]], tf.float32))
""".replace("two_by_two", "sp([[1, 1]], np.array([5], np.int64), [2, 2])"),
    "lookups": """
params = tf.constant(np.arange(12, dtype=np.float32).reshape(6, 2))
w = sp([[0, 0], [1, 2], [1, 4]], [0.5, 2.0, -1.0], [3, 5])
filled, _ = tf.sparse_fill_empty_rows(ints, 0)
for combiner in ("sum", "mean", "sqrtn"):
    show(tf.nn.embedding_lookup_sparse(params, filled, None, combiner=combiner))
rows = sp([[0, 0], [1, 2], [1, 4]], np.array([3, 1, 2], np.int64), [2, 5])
for combiner in ("sum", "mean", "sqrtn"):
    show(tf.nn.embedding_lookup_sparse(params, rows, sp([[0, 0], [1, 2], [1, 4]], [0.5, 2.0, -1.0], [2, 5]), combiner=combiner))
ids = sp([[0, 0], [0, 1], [1, 0], [3, 0], [3, 1]], np.array([1, 2, -1, 3, 5], np.int64), [4, 2])
some = sp([[0, 0], [0, 1], [1, 0], [3, 0], [3, 1]], [1.0, 2.0, 1.0, -1.0, 3.0], [4, 2])
for weights_ in (None, some):
    show(tf.nn.safe_embedding_lookup_sparse([params], ids, weights_))
    show(tf.nn.safe_embedding_lookup_sparse([params], ids, weights_, combiner="sum", default_id=4))
cube_ids = sp([[0, 0, 0], [0, 1, 1], [1, 0, 0]], np.array([0, 5, 3], np.int64), [2, 3, 2])
show(tf.nn.safe_embedding_lookup_sparse([params], cube_ids, combiner="sum"))
""",
}
FEATURES = """
one = example(a=[1], b=[1.5, 2.5], c=[b"x"], d=[], s=[3, 4, 5])
two = example(a=[-2], b=[3.5, 4.5], c=[b"yz"], v=[b"p", b"q"], s=[6])
big = example(a=[2**62], b=[-0.0, float("inf")], c=[b""], w=[0.5] * 4)
none = example()
dense = {"a": tf.FixedLenFeature([], tf.int64), "b": tf.FixedLenFeature([2], tf.float32), "c": tf.FixedLenFeature([1], tf.string)}
defaults = {"a": tf.FixedLenFeature([], tf.int64, 7), "b": tf.FixedLenFeature([2], tf.float32, [1, 2]),
            "c": tf.FixedLenFeature([1], tf.string, "n"), "b 2!": tf.FixedLenFeature([1, 2], tf.float32, [[8, 9]])}
sparse = {"s": tf.VarLenFeature(tf.int64), "v": tf.VarLenFeature(tf.string), "w": tf.VarLenFeature(tf.float32)}
padded = {"s": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
          "b": tf.FixedLenSequenceFeature([2], tf.float32, allow_missing=True, default_value=9.0),
          "v": tf.FixedLenSequenceFeature([1], tf.string, allow_missing=True)}
"""
PARSING = {
    "dense features": """
show(tf.parse_example([one, two, big], dense))
show(tf.parse_example([one, none], defaults))
show(lambda: tf.parse_example([one, none], dense))
show(lambda: tf.parse_example([one, none], dense, example_names=["n1", "n2"]))
show(lambda: tf.parse_example([one], {"a": tf.FixedLenFeature([], tf.float32)}))
show(lambda: tf.parse_example([one], {"b": tf.FixedLenFeature([3], tf.float32)}))
show(lambda: tf.parse_example(["\\x0a\\xff"], dense))
show(tf.parse_example(np.zeros([0], object), dense))
show(lambda: tf.parse_example([example(d=[])], {"d": tf.FixedLenFeature([], tf.int64)}))
""",
    "sparse features": """
show(tf.parse_example([one, none, two, big], sparse))
show(tf.parse_example([one, two, big], {**dense, **sparse, **padded, "s": tf.VarLenFeature(tf.int64)}))
show(tf.parse_example([one, none, two], padded))
pairs = example(i=[3, 1], j=[0, 2], x=[0.5, 0.25])
show(tf.parse_example([pairs, none, pairs], {"sp": tf.SparseFeature("i", "x", tf.float32, 5)}))
show(tf.parse_example([pairs], {"sp": tf.SparseFeature(["i", "j"], "x", tf.float32, [5, 3]), "i": tf.VarLenFeature(tf.int64)}))
show(lambda: tf.parse_example([one], {"s": tf.VarLenFeature(tf.float32)}))
""",
    "one example": """
show(tf.parse_single_example(one, {**dense, **sparse}))
show(tf.parse_single_example(none, defaults), tf.parse_single_example(none, padded), tf.parse_single_example(one, padded))
show(tf.parse_single_example(one, dense, example_names="n"))
show(lambda: tf.parse_single_example(none, dense))
error(lambda: tf.parse_single_example([one], dense))
""",
    "features that are wrong": """
error(lambda: tf.parse_example([one], {}))
error(lambda: tf.parse_example([one], {"a": tf.FixedLenFeature(None, tf.int64)}))
error(lambda: tf.parse_example([one], {"a": tf.FixedLenFeature([], None)}))
error(lambda: tf.parse_example([one], {"a": tf.FixedLenFeature([None], tf.int64)}))
error(lambda: tf.parse_example([one], {"a": tf.FixedLenSequenceFeature([], tf.int64)}))
error(lambda: tf.parse_example([one], {"a": 3}))
error(lambda: tf.parse_single_sequence_example(one))
""",
    "packed or not": """
for data in (b"\\x0a\\x0d\\x0a\\x0b\\x0a\\x01a\\x12\\x06\\x1a\\x04\\x08\\x03\\x08\\x04",
             b"\\x0a\\x13\\x0a\\x11\\x0a\\x01f\\x12\\x0c\\x12\\x0a\\x0d\\x00\\x00\\x80\\x3f\\x0d\\x00\\x00\\x00\\x40"):
    show(tf.parse_example([data, one], {"a": tf.VarLenFeature(tf.int64), "f": tf.VarLenFeature(tf.float32)}))
""",
    "sequences": """
first = sequence({"a": [1], "s": [7, 8]}, {"x": [[1.0, 2.0], [3.0, 4.0]], "y": [[b"p"], [], [b"q", b"r"]]})
second = sequence({"a": [2]}, {"x": [[5.0, 6.0]], "z": [[1], [2], [3]]})
context = {"a": tf.FixedLenFeature([], tf.int64), "s": tf.VarLenFeature(tf.int64)}
lists = {"x": tf.FixedLenSequenceFeature([2], tf.float32), "y": tf.VarLenFeature(tf.string)}
more = {"z": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True)}
show(list(tf.parse_single_sequence_example(first, context, lists)))
show(list(tf.parse_single_sequence_example(second, context, {**lists, **more})))
show(list(tf.parse_single_sequence_example(first, None, {**lists, **more})))
show(list(tf.parse_single_sequence_example(first, context)))
show(list(tf.io.parse_sequence_example([first, second], context, {**lists, **more})))
show(lambda: tf.parse_single_sequence_example(first, context, {"z": tf.FixedLenSequenceFeature([], tf.int64)})[1])
show(lambda: tf.parse_single_sequence_example(first, context, {"x": tf.FixedLenSequenceFeature([1], tf.float32)})[1])
show(lambda: tf.io.parse_sequence_example([first, second], context, {"z": tf.FixedLenSequenceFeature([], tf.int64)})[1])
show(lambda: tf.parse_single_sequence_example(none, context, lists)[1], lambda: tf.parse_single_sequence_example("\\x0a\\xff", context, lists)[1])
for scalar in (False, True):
    show(list(raw("ParseSequenceExampleV2", serialized=first if scalar else [first, second], debug_name=np.zeros([0], object) if not scalar else "",
        context_sparse_keys=np.array([], object), context_dense_keys=np.array(["a"], object), context_ragged_keys=np.array(["s"], object),
        feature_list_sparse_keys=np.array([], object), feature_list_dense_keys=np.array(["x"], object),
        feature_list_ragged_keys=np.array(["y"], object), feature_list_dense_missing_assumed_empty=[False],
        context_dense_defaults=[np.zeros([0], np.int64)], context_ragged_value_types=[tf.int64], context_ragged_split_types=[tf.int32],
        context_dense_shapes=[[]], feature_list_dense_types=[tf.float32], feature_list_ragged_value_types=[tf.string],
        feature_list_ragged_split_types=[tf.int64], feature_list_dense_shapes=[[2]], Nfeature_list_dense=1)))
""",
    "ragged": """
for data in ([one, none, two], one):
    show(list(raw("ParseExampleV2", serialized=data, names=np.zeros([0], object) if isinstance(data, list) else "", sparse_keys=np.array(["v"], object), dense_keys=np.array(["a"], object),
        ragged_keys=np.array(["s", "w"], object), dense_defaults=[np.array(5, np.int64)], num_sparse=1, sparse_types=[tf.string],
        ragged_value_types=[tf.int64, tf.float32], ragged_split_types=[tf.int64, tf.int32], dense_shapes=[[]])))
""",
    "raw bytes": """
show(tf.decode_raw(["abcd", "efgh"], tf.uint8), tf.decode_raw("abcd", tf.int16), tf.decode_raw("abcd", tf.int16, False))
for dtype in (tf.half, tf.float32, tf.float64, tf.int32, tf.uint16, tf.int8, tf.int64, tf.complex64, tf.complex128):
    show(tf.decode_raw("\\x01\\x02\\x03\\x04\\x05\\x06\\x07\\x08\\x00\\x01\\x02\\x03\\x04\\x05\\x06\\x07", dtype))
show(tf.decode_raw(["", ""], tf.int32), tf.decode_raw(np.zeros([2, 0], object), tf.int32), tf.decode_raw([["ab"]], tf.uint8))
show(lambda: tf.decode_raw("abc", tf.int16), lambda: tf.decode_raw(["ab", "abc"], tf.uint8))
show(raw("DecodePaddedRaw", input_bytes=["a", "abcdef"], fixed_length=4, out_type=tf.int16))
show(raw("DecodePaddedRaw", input_bytes=["a", "abcdef"], fixed_length=4, out_type=tf.int16, little_endian=False))
""",
    "csv": """
rows = ["1,2.5,x", "-3,,\\"a,\\"\\"b\\"\\"\\"", " 7 ,1e3,", "4,inf,\\"\\""]
show(tf.decode_csv(rows, [[0], [9.0], ["d"]]))
show(tf.decode_csv(rows, [[0], ["d"]], select_cols=[0, 2]), tf.decode_csv("5|NA|q", [tf.constant([], tf.int64), [3], [""]], "|", na_value="NA"))
show(tf.decode_csv(['a"b,c'], [[""], [""]], use_quote_delim=False), tf.decode_csv(["1,", ",2"], [[7], [8]]))
show(tf.decode_csv([["1", "2"]], [[0.5]]), tf.decode_csv(["1.5,2"], [tf.constant([], tf.float64), tf.constant([], tf.float32)]))
for text in ("1,2", "1,2,3,4", "x,1,y", "1,x,y", ",1,y", '1,1,"a', '1,1,"a"b', '1,1,a"b', "99999999999,1,y", "1,1,a\\nb", ""):
    show(lambda: tf.decode_csv(text, [tf.constant([], tf.int32), [1.0], [""]]))
show(lambda: tf.decode_csv("\\n1,\\n2,\\"x\\ny\\"", [[0], [0], [""]]))
error(lambda: tf.decode_csv(rows, [[0], [0]], select_cols=[2, 1]))
error(lambda: tf.decode_csv(rows, [[0], [0]], select_cols=[1]))
""",
    "tensors and compression": """
x = tf.constant([[1.5, 2.5]])
show(tf.parse_tensor(tf.serialize_tensor(x), tf.float32), tf.parse_tensor(tf.serialize_tensor("abc"), tf.string))
show(tf.serialize_tensor(x), tf.serialize_tensor(3), tf.serialize_tensor(["a", ""]), tf.serialize_tensor([True]))
show(lambda: tf.parse_tensor(tf.serialize_tensor(x), tf.int32), lambda: tf.parse_tensor("\\xff", tf.int32))
import zlib, gzip
show(tf.io.decode_compressed([zlib.compress(b"abc" * 50), zlib.compress(b"")], "ZLIB"), tf.io.decode_compressed(["x"]))
show(tf.io.decode_compressed(gzip.compress(b"hello"), "GZIP"))
json_ = '{"features": {"feature": {"a": {"int64List": {"value": [1, 2]}}}}}'
show(tf.parse_example(tf.io.decode_json_example([json_]), {"a": tf.VarLenFeature(tf.int64)}))
show(lambda: tf.io.decode_json_example("{"))
""",
}
CASES = {
    **{name: SETUP + text for name, text in SPARSE.items()},
    **{name: FEATURES + text for name, text in PARSING.items()},
}


def plain(value):
    """A value of a session as JSON: dtype and nested lists, strings as latin-1, floats by their text."""
    import numpy as np

    array = np.asarray(value)
    flat = [
        item.decode("latin-1")
        if isinstance(item, bytes)
        else repr(item)
        if isinstance(item, (float, complex))
        else item
        for item in array.ravel().tolist()
    ]
    return [str(array.dtype), list(array.shape), flat]


def run_case(tf, np, program, raw):
    """What a program shows, and the types of the ops that it makes."""
    out = []
    graph = tf.Graph()

    def flatten(value):
        if isinstance(value, dict):
            return [item for key in sorted(value) for item in flatten(value[key])]
        if hasattr(value, "dense_shape"):
            return [value.indices, value.values, value.dense_shape]
        if isinstance(value, (list, tuple)):
            return [item for part in value for item in flatten(part)]
        return [value]

    def one(value):
        try:
            tensors = flatten(value() if callable(value) else value)
            kept = [tensor for tensor in tensors if tensor is not None]
            with tf.Session(graph=graph) as session:
                values = iter(session.run(kept))
        except (tf.errors.OpError, ValueError, TypeError) as problem:
            out.append(type(problem).__name__)
            return
        for tensor in tensors:
            if tensor is None:
                out.append(None)
                continue
            shape = tensor.shape.as_list() if tensor.shape.ndims is not None else None
            out.append([*plain(next(values)), shape])

    def show(*values):
        for value in values:
            one(value)

    def error(function):
        try:
            function()
            out.append("no error")
        except Exception as problem:
            out.append(type(problem).__name__)

    def g_run(tensor):
        with tf.Session(graph=graph) as session:
            return session.run(tensor)

    def feature(values):
        kind = type(values[0]) if values else int
        if kind is bytes:
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if kind is float:
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    def features(given):
        return tf.train.Features(feature={key: feature(values) for key, values in given.items()})

    def example(**given):
        return tf.train.Example(features=features(given)).SerializeToString()

    def sequence(context, lists):
        made = {key: tf.train.FeatureList(feature=[feature(step) for step in steps]) for key, steps in lists.items()}
        found = tf.train.SequenceExample(
            context=features(context), feature_lists=tf.train.FeatureLists(feature_list=made)
        )
        return found.SerializeToString()

    def sp(indices, values, shape):
        if len(indices) == 0:
            indices = np.zeros([0, len(shape)], np.int64)
        if len(values) == 0:
            values = np.zeros([0], np.float32)
        return tf.SparseTensor(indices, values, shape)

    with graph.as_default():
        exec(program, {
            "tf": tf, "np": np, "show": show, "error": error, "g_run": g_run, "raw": raw, "sp": sp,
            "example": example, "sequence": sequence,
        })  # fmt: skip
    return out, {op.type for op in graph.get_operations()}


def main():
    """Runs all cases and writes the file."""
    import numpy as np
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)

    def raw(op, **arguments):
        return getattr(tf.raw_ops, op)(**arguments)

    found, failed = {}, []
    for name, program in CASES.items():
        try:
            found[name], _ = run_case(tf, np, program, raw)
        except Exception as problem:
            import traceback

            lines = [
                frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == "<string>"
            ]
            print(
                "CASE",
                name,
                repr(program.splitlines()[lines[0] - 1] if lines else ""),
                str(problem)[:300].replace("\n", " "),
            )
            failed.append(name)
    if failed:
        raise SystemExit(f"cases that fail: {failed}")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(found, file, separators=(",", ":"), sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
