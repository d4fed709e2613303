"""Operations that a program builds by the name of their type, as TensorFlow's generated modules do."""

import re

import pytest
from google.protobuf import text_format

import anabranch as tf
from anabranch.compat.internal.op_def_library import OpDefLibrary
from anabranch.core.contract import opdef
from anabranch.core.protos import graph_pb2

LIBRARY = OpDefLibrary()


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def _op_def(text):
    return text_format.Parse(text, graph_pb2.OpDef(), descriptor_pool=graph_pb2.OpDef.DESCRIPTOR.file.pool)


def test_text_is_one_line_and_the_rest_is_a_note():
    with pytest.raises(TypeError, match=r"^Expected int for argument 'axis' not 'x'\.") as caught:
        LIBRARY.apply_op("Pack", values=[1, 2], axis="x")
    assert str(caught.value) == "Expected int for argument 'axis' not 'x'."
    assert "Instead: " in caught.value.__notes__[0]


def test_lists_stay_lists_whatever_their_length():
    (only,) = LIBRARY.apply_op("Unpack", value=[[1, 2]], num=1)
    assert only.shape.as_list() == [2]
    assert LIBRARY.apply_op("Unpack", value=tf.zeros([0, 2]), num=0) == []
    values, indices = LIBRARY.apply_op("TopKV2", input=[3.0, 1.0], k=1)
    assert (values.dtype, indices.dtype) == (tf.float32, tf.int32)
    assert isinstance(LIBRARY.apply_op("NoOp"), tf.Operation)
    y = LIBRARY.apply_op("LeakyRelu", "leaky", features=tf.constant([-1.0, 1.0]), alpha=0.5)
    assert tf.Session().run(y).tolist() == [-0.5, 1]
    assert y.op.name == "leaky"


def test_none_stands_for_a_default_and_reserved_names_take_an_underscore():
    assert LIBRARY.apply_op("MatMul", a=[[1.0]], b=[[2.0]], transpose_a=None).op.get_attr("transpose_a") is False
    assert LIBRARY.apply_op("Shape", input_=[1, 2]).op.type == "Shape"
    with pytest.raises(TypeError, match=r"^Expected DataType") as caught:
        LIBRARY.apply_op("Placeholder", dtype=None)
    assert str(caught.value) == "Expected DataType for argument 'dtype' not None."


@pytest.mark.parametrize(
    ("op_type", "arguments", "error", "text"),
    [
        ("Nothing", {}, RuntimeError, "Unrecognized Op name Nothing"),
        ("Neg", {"y": [1.0]}, TypeError, "No argument for input x"),
        ("Neg", {"x": [1.0], "b": 1, "a": 2}, TypeError, "apply_op() got unexpected keyword arguments: a, b"),
        ("Neg", {"x": [1.0], "T": tf.float32}, TypeError, "Should not specify value for inferred attr 'T'."),
        (
            "MatMul",
            {"a": [[1.0]], "b": [[1.0]], "transpose_a": 1},
            TypeError,
            "Expected bool for argument 'transpose_a' not 1.",
        ),
        (
            "AddN",
            {"inputs": []},
            ValueError,
            "List argument 'inputs' to 'AddN' Op with length 0 shorter than minimum length 1.",
        ),
        (
            "AddN",
            {"inputs": [1, "a"]},
            TypeError,
            "Tensors in list passed to 'inputs' of 'AddN' Op have types [int32, string] that don't all match.",
        ),
        (
            "AddN",
            {"inputs": [1.5, None]},
            TypeError,
            "Tensors in list passed to 'inputs' of 'AddN' Op have types [float32, <NOT CONVERTIBLE TO TENSOR>] that "
            "don't all match.",
        ),
        (
            "DynamicStitch",
            {"indices": [[0], ["a"]], "data": [[1.0], [2.0]]},
            TypeError,
            "Tensors in list passed to 'indices' of 'DynamicStitch' Op have types [int32, string] that do not match "
            "expected type int32.",
        ),
    ],
)
def test_words_of_refusals(op_type, arguments, error, text):
    with pytest.raises(error, match=re.escape(text)) as caught:
        LIBRARY.apply_op(op_type, **arguments)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: 'A' input_arg { name: 'a' type_attr: 'T' }", "Inconsistent OpDef for 'A', missing attr 'T'"),
        ("name: 'A' input_arg { name: 'a' }", "Arg 'a' of 'A' must have one type field not 0"),
        (
            "name: 'A' output_arg { name: 'a' type: DT_INT32 type_attr: 'T' } attr { name: 'T' type: 'type' }",
            "Arg 'a' of 'A' must have one type field not 2",
        ),
        (
            "name: 'A' output_arg { name: 'a' type: DT_INT32 number_attr: 'N' } attr { name: 'N' type: 'type' }",
            "Attr 'N' of 'A' used as a number_attr but has type type",
        ),
    ],
)
def test_definitions_are_checked(text, words):
    with pytest.raises(TypeError, match="^" + words + "$"):
        OpDefLibrary().add_op(_op_def(text))


def test_versions_and_second_definitions():
    library = OpDefLibrary()
    library.add_op(_op_def("name: 'NoOp' deprecation { version: 8 explanation: 'For reasons' }"))
    with pytest.raises(NotImplementedError, match=r"It has been removed in version 8\. For rea"):
        library.apply_op("NoOp")
    with pytest.raises(RuntimeError, match=r"^Op name NoOp registered twice"):
        library.add_op(_op_def("name: 'NoOp'"))


def test_an_empty_list_that_would_tell_a_dtype():
    if opdef.find("AnabranchTestTwoLists") is None:
        opdef.define(
            "AnabranchTestTwoLists",
            "Takes two lists of one dtype.",
            signature="a: M * T, b: N * T ->",
            attrs={"T": opdef.Type(), "M": opdef.Int(minimum=0), "N": opdef.Int(minimum=0)},
            effect=opdef.PURE,
            shape=lambda c: [],
            gradient=opdef.NotDifferentiable("a test op"),
            host_kernel=lambda ctx, inputs, attrs: (),
        )
    words = "Don't know how to infer type variable from empty input list passed to input 'a' of "
    for build in (LIBRARY.apply_op, tf.build_op):
        assert len(build("AnabranchTestTwoLists", a=[1], b=[]).inputs) == 1
        with pytest.raises(TypeError, match=r"^Don't know how to infer") as caught:
            build("AnabranchTestTwoLists", a=[], b=[])
        assert str(caught.value).splitlines()[0] == f"{words}'AnabranchTestTwoLists' Op."
    assert len(tf.build_op("AnabranchTestTwoLists", a=[], b=[tf.constant(1), 2]).inputs) == 2
    with pytest.raises(
        TypeError, match=r"have types \[string\] that do not match type int32 inferred from earlier arg"
    ):
        tf.build_op("AnabranchTestTwoLists", a=[1], b=["x"])
