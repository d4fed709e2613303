"""Helpers that libraries import from TensorFlow's internal modules."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat.internal import distribution, layer_names, ops, private_names, python_utilities
from anabranch.ops.array import public_inplace


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


# ------------------------------------------------------------------------------------------------------ framework.ops
def test_what_is_like_a_tensor():
    x = tf.constant([1.0])
    sparse = tf.SparseTensor([[0]], [1.0], [2])
    v = tf.Variable(1.0)
    assert isinstance(x, ops._TensorLike)
    assert isinstance(sparse, ops._TensorLike)
    assert not isinstance(1.0, ops._TensorLike)
    assert ops.is_dense_tensor_like(x)
    assert ops.is_dense_tensor_like(v)
    assert not ops.is_dense_tensor_like(sparse)
    assert not isinstance(x, ops.EagerTensor)

    class Mine:
        name = property(lambda self: "mine")
        dtype = property(lambda self: tf.float32)

    assert not ops.is_dense_tensor_like(Mine())
    ops.register_dense_tensor_like_type(Mine)
    assert ops.is_dense_tensor_like(Mine())
    with pytest.raises(TypeError, match="does not define a `name` property"):
        ops.register_dense_tensor_like_type(int)


def test_conversions(session):
    v = tf.Variable(1.0)
    assert ops.internal_convert_to_tensor(v, as_ref=True) is v._ref()
    assert ops.internal_convert_to_tensor([1, 2], preferred_dtype=tf.float32).dtype is tf.float32
    slices = tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]))
    assert tf.convert_to_tensor_or_indexed_slices(slices) is slices
    assert tf.convert_to_tensor_or_indexed_slices([1.0]).dtype is tf.float32
    with pytest.raises(ValueError, match="requested dtype int32 for Tensor with dtype float32"):
        tf.convert_to_tensor_or_indexed_slices(slices, tf.int32)
    made = tf.convert_to_tensor_or_indexed_slices(tf.IndexedSlicesValue(np.ones([1, 2]), np.array([3]), None))
    assert session.run(made).indices.tolist() == [3]
    assert ops.convert_to_tensor_or_composite(tf.SparseTensorValue([[0]], [1], [2])).dtype is tf.int32
    assert ops.internal_convert_n_to_tensor_or_indexed_slices([None, 1.0])[0] is None


def test_names_and_graphs():
    assert ops.name_from_scope_name("a/b/") == "a/b"
    assert ops.prepend_name_scope("x", "a/") == "a/x"
    assert ops.prepend_name_scope("x", None) == "x"
    assert ops.strip_name_scope("a/x", "a") == "x"
    x = tf.constant(1.0)
    assert ops._get_graph_from_inputs([x, 2.0]) is x.graph
    with pytest.raises(ValueError, match="is not from the passed-in graph"):
        ops._get_graph_from_inputs([x], tf.Graph())
    assert ops._default_graph_stack.get_default() is x.graph
    assert not ops._default_graph_stack.is_cleared()
    assert ops._default_graph_stack.stack[-1] is x.graph
    assert ops.uid() != ops.uid()
    assert not ops.inside_function()
    tf.cond(
        tf.constant(True), lambda: x if ops.inside_function() else tf.zeros([2]), lambda: x
    ).shape.assert_is_compatible_with([])
    tf.add_to_collection("mine", 1)
    assert "mine" in ops.get_all_collection_keys()


def test_gradients_are_looked_up_by_name():
    name = "GuidedOfTestHelpers"
    registry = ops._gradient_registry
    assert name not in registry._registry
    assert "Relu" in registry._registry
    tf.RegisterGradient(name)(lambda op, grad: 2 * grad)
    assert name in registry._registry
    assert name in registry.list()
    x = tf.constant(1.0)
    assert registry.lookup(name)(None, x).op.type == "Mul"
    assert callable(registry.lookup("Relu"))
    assert registry.lookup("Shape") is None
    with pytest.raises(LookupError, match="no entry for: NoSuch"):
        registry.lookup("NoSuch")
    registry._registry.pop(name)
    assert name not in registry._registry


def test_statistics():
    @ops.RegisterStatistics("MatMul", "flops_of_test_helpers")
    def flops(graph, node):
        return ops.OpStats("flops_of_test_helpers", 7)

    node = tf.matmul(tf.zeros([2, 2]), tf.zeros([2, 2])).op.node_def
    total = ops.OpStats("flops_of_test_helpers")
    total += ops.get_stats_for_node_def(None, node, "flops_of_test_helpers")
    total += ops.get_stats_for_node_def(None, node, "flops_of_test_helpers")
    assert total.value == 14
    assert ops.get_stats_for_node_def(None, node, "other").value is None
    with pytest.raises(KeyError, match="a second function for"):
        ops.RegisterStatistics("MatMul", "flops_of_test_helpers")(flops)
    with pytest.raises(ValueError, match="Can't add an OpStat"):
        total += ops.OpStats("other", 1)


# ------------------------------------------------------------------------------------------------------------- arrays
def test_shapes_are_operations_if_asked(session):
    x = tf.zeros([2, 3])
    for function, kind, value in (
        (private_names.shape_internal, "Shape", [2, 3]),
        (private_names.size_internal, "Size", 6),
        (private_names.rank_internal, "Rank", 2),
    ):
        assert function(x).op.type == "Const"
        assert function(x, optimize=False).op.type == kind
        assert session.run(function(x, optimize=False)).tolist() == value
    assert session.run(private_names.reduced_shape([2, 3, 5], [-1, 0])).tolist() == [1, 3, 1]
    assert session.run(private_names._ReductionDims(x, None)).tolist() == [0, 1]
    assert private_names.argmax_v2(x).shape.as_list() == [3]


def test_rows_in_place(session):
    x = tf.constant([[1, 2], [3, 4], [5, 6]])
    results = [
        public_inplace.inplace_update(x, [1], [[7, 8]]),
        public_inplace.inplace_add(x, 1, [1, 1]),
        public_inplace.alias_inplace_sub(x, None, x),
        public_inplace.alias_inplace_add(x, tf.constant([2, 2], tf.int64), [[1, 1], [2, 2]]),
        public_inplace.empty_like(x, init=True),
        public_inplace.empty([2], tf.float32, init=True),
    ]
    assert [value.tolist() for value in session.run(results)] == [
        [[1, 2], [7, 8], [5, 6]],
        [[1, 2], [4, 5], [5, 6]],
        [[0, 0]] * 3,
        [[1, 2], [3, 4], [8, 9]],
        [[0, 0]] * 3,
        [0, 0],
    ]
    assert session.run(x).tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("labels", "predictions"), [([4], [4, 1]), ([4, 1], [4]), ([4, 1], [4, 1])])
def test_squeezable_dimensions(session, known, labels, predictions):
    arrays = np.ones(labels), np.ones(predictions)
    given = [tf.placeholder(tf.float64, a.shape if known else None) for a in arrays]
    pair = private_names.remove_squeezable_dimensions(*given)
    feeds = dict(zip(given, arrays, strict=True))
    wanted = [4] if labels != predictions else [4, 1]
    assert [list(value.shape) for value in session.run(pair, feeds)] == [wanted, wanted]
    first, second, weights = private_names._remove_squeezable_dimensions(given[1], given[0], tf.ones([4, 1]))
    assert [list(value.shape) for value in session.run((first, second), feeds)] == [wanted, wanted]
    assert list(session.run(weights, feeds).shape) == wanted
    assert private_names._remove_squeezable_dimensions(given[1], None, None)[1:] == (None, None)


def test_broadcasting():
    shape = tf.TensorShape
    assert private_names.broadcast_shape(shape([2, 1]), shape([3])).as_list() == [2, 3]
    assert private_names.is_broadcast_compatible(shape([2, 1]), shape([3]))
    assert not private_names.is_broadcast_compatible(shape([2]), shape([3]))
    assert private_names.broadcast_shape(shape(None), shape([3])).ndims is None


# -------------------------------------------------------------------------------------------------- layers and training
def test_linear_layers(session):
    x = [tf.ones([2, 3]), tf.ones([2, 1])]
    one = tf.ones_initializer()
    with tf.variable_scope("a", initializer=one):
        layer = private_names._Linear(x, 5, True, bias_initializer=one)
        y, again = layer(x), layer(x)
    with tf.variable_scope("b", initializer=one):
        z = layer_names._linear(x, 5, False)
    session.run(tf.global_variables_initializer())
    assert [value.tolist() for value in session.run([y, again, z])] == [[[5.0] * 5] * 2] * 2 + [[[4.0] * 5] * 2]
    assert [v.name for v in tf.global_variables()] == ["a/kernel:0", "a/bias:0", "b/kernel:0"]
    with pytest.raises(ValueError, match="linear is expecting 2D arguments"):
        private_names._Linear(tf.ones([3]), 5, True)
    assert layer_names.Convolution2D is tf.layers.Conv2D
    state = private_names._default_dropout_state_filter_visitor(tf.nn.rnn_cell.LSTMStateTuple(1, 2))
    assert (state.c, state.h) == (False, True)


def test_linear_layers_with_the_arguments_of_version_1_0(session):
    x = [tf.ones([2, 3])]
    with tf.variable_scope("c", initializer=tf.ones_initializer()):
        y = layer_names._linear(x, 1, True, bias_start=2.0, scope="d")
        z = layer_names._linear(x, 1, True, 3.0)
    session.run(tf.global_variables_initializer())
    assert [value.tolist() for value in session.run([y, z])] == [[[5.0]] * 2, [[6.0]] * 2]
    assert [v.name for v in tf.global_variables()] == ["c/d/kernel:0", "c/d/bias:0", "c/kernel:0", "c/bias:0"]


def test_variables_by_creators(session):
    def doubled(next_creator, **kwargs):
        kwargs["initial_value"] *= 2
        return next_creator(**kwargs)

    with tf.variable_creator_scope(doubled):
        v = private_names.variable(3.0)
    w = private_names.default_variable_creator(None, initial_value=5.0, use_resource=True)
    session.run([v.initializer, w.initializer])
    assert session.run([v, w]) == [6, 5]
    assert [private_names.is_resource_variable(one) for one in (v, w)] == [False, True]
    session.run(private_names.init_variable(v, tf.ones_initializer()))
    assert session.run(v) == 1
    step = tf.train.create_global_step()
    session.run(step.initializer)
    assert session.run(private_names._increment_global_step(3)) == 3
    assert session.run(private_names._get_or_create_global_step_read()) == 3


def test_hessians_times_vectors(session):
    x = tf.constant([1.0, 2.0])
    y = tf.reduce_sum(x**3) + x[0] * x[1]
    product = private_names._hessian_vector_product(y, [x], [tf.constant([1.0, 10.0])])[0]
    np.testing.assert_allclose(session.run(product), [6 * 1 + 10, 1 + 12 * 10])
    with pytest.raises(ValueError, match="must have the same length"):
        private_names._hessian_vector_product(y, [x], [])


# -------------------------------------------------------------------------------------------------------------- Python
def test_identities():
    first, second = [1], [1]
    known = python_utilities.ObjectIdentitySet([first])
    assert first in known
    assert second not in known
    known.add(second)
    assert len(known) == 2
    known.discard(first)
    assert list(known) == [second]
    table = python_utilities.ObjectIdentityDictionary()
    table[first] = "a"
    table[second] = "b"
    assert [table[first], table[second], len(table)] == ["a", "b", 2]
    assert python_utilities.Reference(first) == python_utilities.Reference(first)
    assert python_utilities.Reference(first) != python_utilities.Reference(second)
    assert python_utilities.Reference(first).deref() is first

    class Thing:
        pass

    weak, thing = python_utilities.ObjectIdentityWeakKeyDictionary(), Thing()
    weak[thing] = 1
    assert list(weak) == [thing]
    del thing
    gc.collect()
    assert len(weak) == 0


def test_modules_that_load_when_used():
    names = {}
    module = python_utilities.LazyLoader("json", names, "json")
    assert names == {}
    assert module.loads("[1]") == [1]
    assert names["json"].dumps([1]) == "[1]"
    assert "dumps" in dir(module)
    assert python_utilities.extract_stack(limit=1)[0][2] == "test_modules_that_load_when_used"


def test_one_replica():
    assert not distribution.has_strategy()
    context = distribution.get_replica_context()
    assert context.merge_call(lambda strategy, x: (strategy.num_replicas_in_sync, x), (5,)) == (1, 5)
    with distribution.get_strategy().scope():
        assert distribution.get_strategy().extended.update(2, lambda v, d: v + d, (3,)) == 5


@pytest.mark.parametrize("parts", [1, 3])
def test_rows_of_a_table_are_changed_on_the_way(session, parts):
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    ids = np.array([[5, 0, 2], [1, 5, 4]])
    pieces = [tf.constant(table[i::parts]) for i in range(parts)]
    found = layer_names._embedding_lookup_and_transform(
        pieces, ids, max_norm=3.0, transform_fn=lambda rows: 2 * tf.reduce_sum(rows, 1, keepdims=True)
    )
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    short = table * np.minimum(1, 3 / np.maximum(norms, 1e-9))
    np.testing.assert_allclose(session.run(found), 2 * short[ids].sum(-1, keepdims=True), rtol=1e-6)
    plain = layer_names._embedding_lookup_and_transform(pieces, ids)
    np.testing.assert_array_equal(session.run(plain), table[ids])
