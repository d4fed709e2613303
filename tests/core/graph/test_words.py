"""Words of TensorFlow's errors that programs match on, at the beginning of ours."""

from __future__ import annotations

import re

import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def graph() -> object:
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: tf.build_op("Range", "one", 3, 1, Tidx=tf.int32),
            TypeError,
            "Expected int32 passed to parameter 'start' of op 'Range', got 'one' of type 'str' instead.",
        ),
        (
            lambda: tf.build_op("Add", tf.constant(1), tf.constant(1.0)),
            TypeError,
            "Input 'y' of 'Add' Op has type float32 that does not match type int32 of argument 'x'.",
        ),
        (
            lambda: tf.build_op("Fill", tf.constant([1.0]), 1),
            TypeError,
            "Value passed to parameter 'dims' has DataType float32 not in list of allowed values: int32, int64",
        ),
        (
            lambda: tf.build_op("AddN", []),
            ValueError,
            "List argument 'inputs' to 'AddN' Op with length 0 shorter than minimum length 1.",
        ),
        (
            lambda: tf.build_op("DynamicStitch", [[0], [1]], [[1.0]]),
            ValueError,
            "List argument 'data' to 'DynamicStitch' Op with length 1 must match length 2 of argument 'indices'.",
        ),
        (lambda: tf.build_op("AddN", tf.constant(1)), TypeError, "Expected list for 'inputs' argument to 'AddN' Op"),
        (lambda: tf.build_op("Cast", 1.0), TypeError, "No argument for attr DstT"),
        (lambda: tf.build_op("Cast", DstT=tf.int32), TypeError, "No argument for input x"),
        (lambda: tf.build_op("Neg", 1.0, y=2), TypeError, "apply_op() got unexpected keyword arguments: y"),
        (lambda: tf.build_op("Neg", 1.0, T=3.5), TypeError, "Expected DataType for argument 'T' not 3.5."),
        (lambda: tf.build_op("Pack", [1], axis="x"), TypeError, "Expected int for argument 'axis' not 'x'."),
        (lambda: tf.build_op("Squeeze", [1], squeeze_dims=3), TypeError, "Expected list for attr squeeze_dims"),
        (
            lambda: tf.nn.max_pool(tf.zeros([1, 4, 4, 1]), [1, 2, 2, 1], [1, 1, 1, 1], "FULL"),
            ValueError,
            "Attr 'padding' of 'MaxPool' Op passed string 'FULL' not in: \"SAME\", \"VALID\".",
        ),
        (lambda: tf.matmul([1.0], [[1.0]]), ValueError, "Shape must be rank 2 but is rank 1"),
        (lambda: tf.constant(1.0).op.get_attr("other"), ValueError, "Operation 'Const' has no attr named 'other'."),
        (
            lambda: tf.TensorShape([1]).assert_is_compatible_with([2]),
            ValueError,
            "Shapes (1,) and (2,) are incompatible\nGiven",
        ),
        (lambda: tf.TensorShape([1]).merge_with([2]), ValueError, "Shapes (1,) and (2,) are not compatible\nGiven"),
        (lambda: tf.TensorShape(None).as_list(), ValueError, "as_list() is not defined on an unknown TensorShape."),
        (lambda: len(tf.TensorShape(None)), ValueError, "Cannot take the length of Shape with unknown rank."),
        (lambda: list(tf.TensorShape(None)), ValueError, "Cannot iterate over a shape with unknown rank."),
        (lambda: tf.TensorShape([1]).assert_same_rank([]), ValueError, "Shapes (1,) and () must have the same rank"),
        (lambda: tf.TensorShape([None]).assert_is_fully_defined(), ValueError, "Shape (?,) is not fully defined"),
        (lambda: tf.Dimension(1).merge_with(2), ValueError, "Dimensions 1 and 2 are not compatible\nGiven"),
        (lambda: tf.Dimension(1) / 2, TypeError, "unsupported operand type(s) for /: 'Dimension' and 'int'"),
    ],
)
def test_words(call, kind, words) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        call()


def test_shapes_that_contradict_name_dimension_and_sizes() -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    with pytest.raises(ValueError, match="Dimension 1 in both shapes must be equal, but are 3 and 4"):
        tf.stack([x, tf.zeros([2, 4])])
    with pytest.raises(ValueError, match="Dimensions must be equal, but are 3 and 4"):
        tf.add(x, tf.zeros([2, 4]))
    with pytest.raises(ValueError, match="Shapes must be equal rank, but are 2 and 1"):
        tf.stack([x, tf.zeros([2])])


def test_texts_are_dimensions() -> None:
    assert tf.Dimension(12) == "12"
    assert tf.TensorShape([3, 4]) == ["3", "4"]
    assert tf.Dimension(None).__eq__("12") is None
    assert (tf.Dimension(12) == "_") is False


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        (["b"], "Requested return node 'b' not found in graph def"),
        (["a:1"], "Invalid return output 1 of node 'a', which has 1 output(s)"),
        (["a:b:c"], "Cannot convert 'a:b:c' to a tensor name."),
    ],
)
def test_elements_that_a_graph_does_not_have(elements, words) -> None:
    with tf.Graph().as_default() as other:
        tf.constant(1.0, name="a")
    with pytest.raises(ValueError, match=re.escape(words)):
        tf.import_graph_def(other.as_graph_def(), return_elements=elements)


def test_versions_of_graphs() -> None:
    proto = tf.GraphDef()
    proto.versions.min_consumer = 1 << 30
    with pytest.raises(ValueError, match=r"GraphDef min consumer version 1073741824 above current version \d+ for"):
        tf.import_graph_def(proto)
    proto = tf.GraphDef()
    proto.versions.producer = -1
    with pytest.raises(ValueError, match="GraphDef producer version -1 below min producer 0"):
        tf.import_graph_def(proto)


def test_a_row_beside_numbers_of_unknown_shape_is_known_in_part() -> None:
    row = tf.stack([tf.constant(16), 37, tf.placeholder(tf.int32)])
    assert tf.contrib.util.constant_value_as_shape(row).as_list() == [16, 37, None]
