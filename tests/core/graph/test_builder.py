"""The stack of builders: who gets an op, and what crosses from one mode into the other."""

from __future__ import annotations

import pytest

import anabranch as tf
from anabranch.core.graph.builder import Builder, builder_of, current_builder
from anabranch.core.graph.default_graph import get_default_graph
from anabranch.core.graph.tensor import OpView, Tensor
from anabranch.core.values import dtypes


class _Value(Tensor):
    """A tensor without a graph."""

    dtype = dtypes.float32
    _shape = (2,)


class _AtOnce(Builder):
    """Runs nothing: what is asked of the stack needs no values."""

    tensor_type = _Value

    def _create(self, definition, inputs, attrs, name=None):
        return OpView(definition, tuple(inputs), attrs, (_Value(),) * len(definition.output_dtypes(attrs)))


def test_the_innermost_builder_gets_the_op() -> None:
    graph, other = tf.Graph(), _AtOnce()
    with other.as_default():
        assert current_builder() is other
        assert isinstance(tf.constant(1.0), _Value)
        with graph.as_default():
            assert current_builder() is graph
            assert tf.constant(1.0).graph is graph
        assert current_builder() is other
        assert get_default_graph() is not graph
    with graph.as_default(), other.as_default():
        assert get_default_graph() is graph, "the default graph is the innermost graph"
        assert current_builder() is other


def test_tensors_of_a_graph_take_their_op_there() -> None:
    x = tf.placeholder(tf.float32)
    with tf.Graph().as_default():
        assert builder_of([1, x]) is x.graph


def test_without_a_graph_scopes_and_collections_mean_nothing() -> None:
    with _AtOnce().as_default() as builder:
        with tf.name_scope("a") as scope, tf.device("/cpu:0"), tf.control_dependencies([]):
            assert scope == "a/"
        tf.add_to_collection("losses", 1)
        assert tf.get_collection("losses") == []
        assert builder.library_state("k", list) is builder.library_state("k", list)


def test_a_graph_tensor_where_ops_run_at_once_is_refused() -> None:
    x = tf.placeholder(tf.float32, name="fed")
    with _AtOnce().as_default():
        with pytest.raises(TypeError, match=r"tensor 'fed:0' of a graph, in code that runs its ops at once"):
            tf.identity(x)


def test_a_value_in_a_graph_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"Attempting to capture an EagerTensor"):
        tf.add(tf.constant([1.0, 2.0]), _Value())
    with pytest.raises(RuntimeError, match=r"tensor <float32 of shape \[2\]>, a value that was computed already"):
        tf.convert_to_tensor(_Value())


@pytest.mark.parametrize("attribute", ["op", "graph", "name", "value_index"])
def test_what_belongs_to_a_graph_is_no_attribute_elsewhere(attribute: str) -> None:
    value = _Value()
    assert not hasattr(value, attribute)
    with pytest.raises(AttributeError, match=f"Tensor.{attribute} is meaningless when eager execution is enabled"):
        getattr(value, attribute)


def test_an_op_view_tells_attributes_as_an_operation_does() -> None:
    op = tf.reduce_sum(tf.ones([2, 3]), 1).op
    view = OpView(op.definition, op._inputs, op._attrs, op._outputs)
    for asked in (op, view):
        assert (asked.type, asked.get_attr("T"), asked.get_attr("keep_dims")) == ("Sum", tf.float32, False)
        assert asked.inputs[0] is op._inputs[0]
        assert asked.outputs == [op._outputs[0]]
    with pytest.raises(ValueError, match="attribute 'axis' of op 'Sum'"):
        view.get_attr("axis")


def test_a_tensor_whose_shape_is_known_keeps_it() -> None:
    value = _Value()
    value.set_shape([None])
    assert value.shape.as_list() == [2]
    with pytest.raises(ValueError, match="3"):
        value.set_shape([3])
