"""Operators of tensors and the public functions of element-wise ops: names, dtypes, conversions, refusals."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.contract import inference


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def tensors():
    """A float matrix, an int vector, a bool vector, by the letters used below."""
    return (
        tf.placeholder(tf.float32, [None, 2], "a"),
        tf.placeholder(tf.int32, [2], "i"),
        tf.placeholder(tf.bool, [2], "b"),
    )


def made(graph, function, *args):
    """The ops that a call adds, as ``name:type``."""
    before = len(graph.get_operations())
    function(*args)
    return [f"{op.name}:{op.type}" for op in graph.get_operations()[before:]]


XOR = ["LogicalOr:LogicalOr", "LogicalAnd:LogicalAnd", "LogicalNot:LogicalNot"]
MADE = [
    (lambda a, i, b: a + 1, "add/y:Const add:AddV2"),
    (lambda a, i, b: 1 - a, "sub/x:Const sub:Sub"),
    (lambda a, i, b: a * a, "mul:Mul"),
    (lambda a, i, b: i / 2, "truediv/y:Const truediv/Cast:Cast truediv/Cast_1:Cast truediv:RealDiv"),
    (lambda a, i, b: 2 / i, "truediv/x:Const truediv/Cast:Cast truediv/Cast_1:Cast truediv:RealDiv"),
    (lambda a, i, b: a / a, "truediv:RealDiv"),
    (lambda a, i, b: a // 2, "floordiv/y:Const floordiv:FloorDiv"),
    (lambda a, i, b: i % 2, "mod/y:Const mod:FloorMod"),
    (lambda a, i, b: 2**i, "pow/x:Const pow:Pow"),
    (lambda a, i, b: b & True, "and/y:Const and:LogicalAnd"),
    (lambda a, i, b: False | b, "or/x:Const or:LogicalOr"),
    (lambda a, i, b: b ^ b, " ".join("xor/" + name for name in XOR) + " xor:LogicalAnd"),
    (lambda a, i, b: i & 3, "and/y:Const and:BitwiseAnd"),
    (lambda a, i, b: i ^ i, "xor:BitwiseXor"),
    (lambda a, i, b: ~b, "LogicalNot:LogicalNot"),
    (lambda a, i, b: ~i, "Invert:Invert"),
    (lambda a, i, b: -a, "Neg:Neg"),
    (lambda a, i, b: abs(a), "Abs:Abs"),
    (lambda a, i, b: a < 1, "Less/y:Const Less:Less"),
    (lambda a, i, b: a > 1, "Greater/y:Const Greater:Greater"),
    (lambda a, i, b: a >= a, "GreaterEqual:GreaterEqual"),
    (lambda a, i, b: a <= a, "LessEqual:LessEqual"),
    (lambda a, i, b: np.ones(2) + a, "add/x:Const add:AddV2"),
    (lambda a, i, b: np.float32(2) * i, "mul/x:Const mul:Mul"),
    (lambda a, i, b: a @ [[1.0], [2.0]], "matmul/y:Const matmul:MatMul"),
    (lambda a, i, b: a == 1, ""),
    (lambda a, i, b: tf.add(a, 1), "Add/y:Const Add:Add"),
    (lambda a, i, b: tf.add(a, 1, name="n"), "n/y:Const n:Add"),
    (lambda a, i, b: tf.multiply(2.0, a), "Mul/x:Const Mul:Mul"),
    (lambda a, i, b: tf.divide(i, 2, name="q"), "q/y:Const q/Cast:Cast q/Cast_1:Cast q:RealDiv"),
    (lambda a, i, b: tf.div(i, 2), "div/y:Const div:FloorDiv"),
    (lambda a, i, b: tf.div(a, 2), "div/y:Const div:RealDiv"),
    (lambda a, i, b: tf.truediv(i, i), "truediv/Cast:Cast truediv/Cast_1:Cast truediv:RealDiv"),
    (lambda a, i, b: tf.floordiv(7, i), "floordiv/x:Const floordiv:FloorDiv"),
    (lambda a, i, b: tf.mod(i, 2), "FloorMod/y:Const FloorMod:FloorMod"),
    (lambda a, i, b: tf.pow(a, 2), "Pow/y:Const Pow:Pow"),
    (lambda a, i, b: tf.div_no_nan(a, 0.0), "div_no_nan/y:Const div_no_nan:DivNoNan"),
    (lambda a, i, b: tf.cast(i, tf.float32), "Cast:Cast"),
    (lambda a, i, b: tf.cast(a, tf.float32), ""),
    (lambda a, i, b: tf.cast(1.5, tf.int32), "Cast/x:Const Cast:Cast"),
    (lambda a, i, b: tf.to_float(i), "ToFloat:Cast"),
    (lambda a, i, b: tf.to_int64(i), "ToInt64:Cast"),
    (lambda a, i, b: tf.to_bfloat16(a), "ToBFloat16:Cast"),
    (lambda a, i, b: tf.abs(-1.0), "Abs/x:Const Abs:Abs"),
    (lambda a, i, b: tf.round(i), ""),
    (lambda a, i, b: tf.sigmoid(a), "Sigmoid:Sigmoid"),
    (lambda a, i, b: tf.logical_xor(b, b), " ".join(XOR) + " LogicalXor:LogicalAnd"),
    (
        lambda a, i, b: tf.clip_by_value(a, 0, 1),
        "clip_by_value/Minimum/y:Const clip_by_value/Minimum:Minimum clip_by_value/y:Const clip_by_value:Maximum",
    ),
    (lambda a, i, b: tf.where(b, i, i), "Select:Select"),
    (lambda a, i, b: tf.where(b), "Where:Where"),
    (lambda a, i, b: tf.where_v2(b, i, 0), "SelectV2/e:Const SelectV2:SelectV2"),
    (lambda a, i, b: tf.zeros_like(i), "zeros_like:Const"),
    (lambda a, i, b: tf.zeros_like(a), "zeros_like:ZerosLike"),
    (lambda a, i, b: tf.zeros_like(i, optimize=False), "zeros_like:ZerosLike"),
    (lambda a, i, b: tf.ones_like(a, tf.int32), "ones_like/Shape:Shape ones_like/Const:Const ones_like:Fill"),
    (
        lambda a, i, b: tf.ones_like(tf.placeholder(tf.int8, [2000], "p")),
        "p:Placeholder ones_like/Const:Const ones_like/dims:Const ones_like:Fill",
    ),
    (lambda a, i, b: tf.scalar_mul(2.0, a), "scalar:Const Mul:Mul"),
    (lambda a, i, b: tf.add_n([a, a]), "AddN:AddN"),
    (lambda a, i, b: tf.add_n([a], name="z"), "z:Identity"),
    (lambda a, i, b: tf.add_n([a]), ""),
    (lambda a, i, b: tf.accumulate_n([i, i]), "AccumulateNV2:AccumulateNV2"),
    (lambda a, i, b: tf.complex(a, a), "Complex:Complex"),
    (lambda a, i, b: tf.real(a), ""),
    (lambda a, i, b: tf.imag(i), "Imag:Const"),
    (lambda a, i, b: tf.conj(a), ""),
]


@pytest.mark.parametrize(
    ("function", "wanted"), MADE, ids=[wanted.split()[-1] if wanted else "none" for _, wanted in MADE]
)
def test_ops_and_their_names(graph, tensors, function, wanted: str) -> None:
    assert made(graph, function, *tensors) == wanted.split()


def test_quotients_of_integers_are_floats() -> None:
    for name, wanted in {
        "uint8": "float32", "int8": "float32", "uint16": "float32", "int16": "float32", "int32": "float64",
        "int64": "float64", "uint32": "float64", "uint64": "float64", "float16": "float16", "bfloat16": "bfloat16",
        "complex64": "complex64",
    }.items():  # fmt: skip
        x = tf.placeholder(name)
        assert (x / x).dtype.name == wanted
        assert (x // x).dtype.name == name
        assert (1 / x).dtype.name == wanted


def test_equality_is_identity(tensors) -> None:
    a, i, _ = tensors
    assert a == a
    assert a != i
    assert len({a, i, a}) == 2


REFUSED = [
    (lambda a, i, b: a + i, TypeError, "'y' of 'AddV2' Op has type int32 that does not match type float32"),
    (lambda a, i, b: i + 1.5, TypeError, "'y' of 'AddV2' Op has type float32 that does not match type int32"),
    (lambda a, i, b: a + "x", TypeError, "'y' of 'AddV2' Op has type string that does not match type float32"),
    (lambda a, i, b: a / i, TypeError, "x and y must have the same dtype, got tf.float32 != tf.int32"),
    (lambda a, i, b: b / b, TypeError, "Invalid dtype tf.bool in __truediv__"),
    (lambda a, i, b: b + b, TypeError, "DataType bool not in list of allowed values"),
    (lambda a, i, b: tf.where(b, x=i), ValueError, "x and y must both be non-None or both be None"),
    (lambda a, i, b: tf.clip_by_value(i, [[1], [2]], 3), ValueError, r"Given: the shapes \[2\] and \[2,2\]"),
    (lambda a, i, b: tf.add_n([]), ValueError, "list of at least one Tensor/IndexedSlices with the same"),
    (lambda a, i, b: tf.add_n(a), ValueError, "list of at least one Tensor/IndexedSlices"),
    (lambda a, i, b: tf.add_n([a, i]), TypeError, r"'AddN' Op have types \[float32, int32\] that don't all match"),
    (lambda a, i, b: tf.add_n([i, tf.zeros([3], tf.int32)]), ValueError, r"the shapes \[2\] and \[3\]"),
    (lambda a, i, b: tf.accumulate_n([i, i], tensor_dtype=tf.int64), TypeError, "tensor_dtype=tf.int64 for tensors"),
    (lambda a, i, b: tf.accumulate_n([i, i], shape=[3]), ValueError, r"the shapes \[3\] and \[2\]"),
    (lambda a, i, b: tf.scalar_mul([1, 2], i), ValueError, r"Only scalar multiply works, got shape \(2,\)"),
    (lambda a, i, b: tf.complex(a, tf.cast(a, tf.float64)), TypeError, "incorrect types: float32 float64"),
    (lambda a, i, b: tf.conj(b), TypeError, "Expected numeric or variant tensor, got dtype tf.bool"),
    (lambda a, i, b: tf.saturate_cast(b, tf.uint8), TypeError, "which has a smallest and a greatest value"),
    (lambda a, i, b: tf.ones_like(["x"]), TypeError, "ones_like of string"),
    (lambda a, i, b: tf.bitwise.invert(a), TypeError, "DataType float32 not in list of allowed values: int8"),
    (lambda a, i, b: tf.logical_and(i, b), TypeError, "int32 that does not match expected type of bool"),
]


@pytest.mark.parametrize(("function", "kind", "text"), REFUSED)
def test_refusals(tensors, function, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        function(*tensors)


def test_a_class_with_the_reflected_operator_has_its_turn(tensors) -> None:
    class Own:
        def __radd__(self, other):
            return "mine"

    assert tensors[0] + Own() == "mine"
    with pytest.raises(TypeError, match="Own"):
        tensors[0] * Own()


def test_operators_to_overload_are_listed() -> None:
    assert {"__add__", "__radd__", "__getitem__", "__matmul__", "__invert__", "__abs__", "__div__"} <= (
        tf.Tensor.OVERLOADABLE_OPERATORS
    )
    assert all(hasattr(tf.Tensor, name) for name in tf.Tensor.OVERLOADABLE_OPERATORS)


def test_tensors_have_operators_whatever_is_asked_for_first() -> None:
    program = "import anabranch as tf; print(len(tf.Tensor.OVERLOADABLE_OPERATORS), tf.Tensor.__add__.__name__)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == f"{len(tf.Tensor.OVERLOADABLE_OPERATORS)} __add__\n"


def test_an_object_that_hands_operators_on_to_its_tensor_stays_equal_to_itself_alone() -> None:
    class Wrapped:
        def __init__(self, tensor):
            self.tensor = tensor

    def forward(name):
        return lambda self, *args: getattr(tf.Tensor, name)(self.tensor, *args)

    for name in tf.Tensor.OVERLOADABLE_OPERATORS:
        setattr(Wrapped, name, forward(name))
    one, other = Wrapped(tf.constant(1.0)), Wrapped(tf.constant(1.0))
    assert one == one
    assert one != other
    assert len({one, other, one}) == 2
    assert inference.partial_value(one + 2.0) == 3.0


def test_an_earlier_date_brings_the_operation_of_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tf.constant(1.0)
    with tf.compat.forward_compatibility_horizon(2019, 6, 25):
        assert ((x + 1).op.type, (1 + x).op.type) == ("Add", "Add")
        assert not tf.compat.forward_compatible(2019, 6, 25)
        assert tf.compat.forward_compatible(2019, 6, 24)
    assert (x + 1).op.type == "AddV2"
    assert tf.compat.forward_compatible(2030, 1, 1)
    monkeypatch.setenv("TF_FORWARD_COMPATIBILITY_DELTA_DAYS", "-365")
    with tf.compat.forward_compatibility_horizon(2019, 6, 26):
        assert (x + 1).op.type == "AddV2"
    assert (x + 1).op.type == "Add"
    assert not tf.compat.forward_compatible(2018, 8, 21)
    monkeypatch.setenv("TF_FORWARD_COMPATIBILITY_DELTA_DAYS", "soon")
    with (
        pytest.raises(ValueError, match="a whole number of days"),
        tf.compat.forward_compatibility_horizon(2019, 6, 26),
    ):
        pass
    monkeypatch.delenv("TF_FORWARD_COMPATIBILITY_DELTA_DAYS")
    with tf.compat.forward_compatibility_horizon(2019, 6, 26):
        pass
    assert (x + 1).op.type == "AddV2"


def test_strings_are_joined() -> None:
    joined = tf.constant(["a", "b"]) + "-"
    assert joined.op.type == "Add"
    assert inference.partial_value(joined).tolist() == [b"a-", b"b-"]


def test_rows_of_indexed_slices_are_cast_scaled_and_clipped() -> None:
    rows = tf.IndexedSlices(tf.constant([[1.0, 4.0]]), tf.constant([3]), tf.constant([5, 2]))
    for found, wanted in (
        (tf.cast(rows, tf.int32), [[1, 4]]),
        (tf.scalar_mul(2, rows), [[2, 8]]),
        (tf.clip_by_value(rows, 0.0, 2.0), [[1, 2]]),
    ):
        assert isinstance(found, tf.IndexedSlices)
        assert found.indices is rows.indices
        assert inference.partial_value(found.values).tolist() == wanted


def test_functions_that_keep_zero_act_on_the_values_of_sparse_tensors() -> None:
    class Sparse:
        def __init__(self, indices, values, dense_shape):
            self.indices, self.values, self.dense_shape = indices, values, dense_shape
            self.dtype = values.dtype

    x = Sparse([[0, 1]], tf.constant([-4.0]), [2, 2])
    for function, wanted in ((tf.square, 16), (tf.abs, 4), (tf.negative, 4), (lambda s: tf.cast(s, tf.int32), -4)):
        found = function(x)
        assert type(found) is Sparse
        assert inference.partial_value(found.values).tolist() == [wanted]


def test_angle_of_real_numbers() -> None:
    assert inference.partial_value(tf.angle(tf.constant([-2.0, 3.0]))).tolist() == [np.float32(np.pi), 0]
    assert inference.partial_value(tf.abs(tf.constant([3 + 4j]))).tolist() == [5]


@pytest.mark.parametrize(
    "names",
    [
        "abs add subtract multiply divide truediv floordiv floor_div mod floormod truncatediv truncatemod realdiv pow",
        "sqrt rsqrt square exp expm1 log log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf",
        "negative sign reciprocal floor ceil round rint is_nan is_inf is_finite",
        "maximum minimum squared_difference atan2",
        "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_not logical_xor",
        "where where_v2",
        "lgamma digamma igamma igammac zeta polygamma betainc erfc add_n accumulate_n scalar_mul clip_by_value bitcast",
        "cast saturate_cast to_float to_double to_int32 to_int64 to_bfloat16 complex real imag angle conj mul sub neg",
        "math.xlogy math.xdivy math.divide_no_nan math.erfinv math.ndtri math.nextafter",
        "math.bessel_i0e math.multiply_no_nan",
        "bitwise.bitwise_and bitwise.bitwise_or bitwise.bitwise_xor bitwise.invert",
        "bitwise.left_shift bitwise.right_shift",
        "nn.sigmoid nn.tanh dtypes.cast dtypes.saturate_cast debugging.is_finite zeros_like ones_like div div_no_nan",
    ],
)
def test_public_names(names: str) -> None:
    for name in names.split():
        found = tf
        for part in name.split("."):
            found = getattr(found, part)
        assert callable(found)
        assert found.__doc__, name
