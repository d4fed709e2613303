"""Internal names that libraries of TensorFlow 1.x's last years import: what they do."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import hook
from anabranch.compat.internal import conditions, convolutions, training_internals, variable_scopes
from anabranch.keras.v1 import internal_names


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_convolution_is_that_of_its_settings(session):
    x, w = tf.random_normal([2, 9, 9, 3], seed=1), tf.random_normal([3, 3, 3, 4], seed=2)
    layer = convolutions.Convolution(x.shape, w.shape, "SAME", dilation_rate=[2, 2], data_format="NHWC")
    first, second = session.run([layer(x, w), tf.nn.convolution(x, w, "SAME", dilation_rate=[2, 2])])
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("shapes", "match"),
    [
        (([None, None], [3, 3, 3, 4]), "must have rank 2"),
        (([None, 9, 9, 2], [3, 3, 3, 4]), "number of input channels does not match"),
        ((None, None), "rank of input or filter must be known"),
    ],
)
def test_convolution_refuses_shapes_that_do_not_fit(shapes, match):
    with pytest.raises(ValueError, match=match):
        convolutions.Convolution(*shapes, "SAME")


def _case(values, default=lambda: tf.constant(9), **options):
    pairs = [(value, lambda number=number: tf.constant(number)) for number, value in enumerate(values)]
    return conditions._case_helper(tf.cond, pairs, default, name="case", **{"exclusive": False, **options})


def test_case_helper_takes_the_first_that_holds(session):
    at = tf.constant
    cases = [_case([at(False), at(True), at(True)]), _case([at(False)]), _case([at(False), at(False)], None)]
    assert session.run(cases[:2]) == [1, 9]
    with pytest.raises(tf.errors.InvalidArgumentError, match="None of the conditions hold"):
        session.run(cases[2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than 1 conditions hold"):
        session.run(_case([at(True), at(True)], exclusive=True))
    with pytest.raises(TypeError, match="pred must be Tensor of type bool"):
        _case([True])


def test_a_pure_scope_opens_no_scope_of_names(session):
    with variable_scopes._pure_variable_scope("a", initializer=tf.ones_initializer()) as scope:
        v = tf.get_variable("v", [2])
        assert (scope.name, tf.zeros([]).op.name) == ("a", "zeros")
    with variable_scopes._pure_variable_scope(scope, reuse=True):
        assert tf.get_variable("v", [2]) is v
    session.run(v.initializer)
    assert session.run(v).tolist() == [1, 1]


def test_constants_are_evaluated_through_the_c_interface(session):
    evaluate = training_internals.TF_TryEvaluateConstant_wrapper
    known, fed = tf.equal(tf.constant(2), 2), tf.placeholder(tf.bool, [])
    assert evaluate(known.graph._c_graph, known._as_tf_output()) == np.True_
    assert evaluate(fed.graph._c_graph, fed._as_tf_output()) is None


def test_functions_are_written_as_bytecode_and_read_again():
    factor = 3
    written = internal_names.func_dump(lambda x, more=1: x * factor + more)
    assert internal_names.func_load(written)(2) == 7
    assert internal_names.func_load(written[0], (5,), written[2])(2) == 11
    with pytest.raises(ValueError, match="another version of Python"):
        internal_names.func_load("AAAA", None, None)


def test_an_attribute_that_a_property_gives_may_be_set_to_what_it_is():
    class Holder(tf.Module):
        shape = property(lambda self: tf.TensorShape([2]))
        rank = property(lambda self: 1.5)

        def __init__(self):
            super().__init__()
            self.kept = self._no_dependency([tf.TensorShape([1])])

    holder = Holder()
    holder.shape = tf.TensorShape([2])
    assert type(holder.kept) is list
    with pytest.raises(AttributeError, match="no setter"):
        holder.shape = tf.TensorShape([3])
    with pytest.raises(AttributeError, match="no setter"):
        holder.rank = 2.5


def test_layers_give_instances_of_a_registered_class(session):
    class Pair:
        def __init__(self, tensor):
            self.tensor, self.shape, self.dtype = tensor, tensor.shape, tensor.dtype

    tf.register_tensor_conversion_function(Pair, lambda value, *args, **kwargs: value.tensor)
    internal_names.register_symbolic_tensor_type(Pair)
    internal_names.register_symbolic_tensor_type(Pair)
    assert internal_names.is_symbolic_tensor(Pair(tf.zeros([2])))
    assert not internal_names.is_symbolic_tensor(np.zeros(2))
    inputs = tf.keras.Input([3])
    made = tf.keras.layers.Lambda(Pair)(inputs)
    assert isinstance(made, Pair)
    assert made._keras_history[0].name == "lambda"


def test_modules_of_autograph_can_be_imported_and_say_that_they_are_not_there():
    hook.install(replace=True)
    try:
        from tensorflow.python.autograph.pyct import transformer

        derived = type("Derived", (transformer.Base,), {})
        with pytest.raises(NotImplementedError, match="of a library that is not here"):
            derived(None)
    finally:
        hook.uninstall()
