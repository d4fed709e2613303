"""Conversion of values, feeds and TensorProtos against a table recorded from TensorFlow, and what is ours alone."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import warnings

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.protos import tensor_pb2
from anabranch.core.values import dtypes
from anabranch.core.values.constants import feed_array, to_array
from anabranch.core.values.dimensions import Dimension
from anabranch.core.values.dtypes import as_dtype
from anabranch.core.values.shapes import TensorShape
from anabranch.core.values.tensor_proto import array_to_proto, make_ndarray, make_tensor_proto

ROOT = pathlib.Path(__file__).parents[3]
TABLE = json.loads((ROOT / "tests" / "golden" / "constants.json").read_text())
_spec = importlib.util.spec_from_file_location(
    "constants_values", ROOT / "tools" / "golden" / "graphs" / "constants_values.py"
)
_values = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_values)
NAMES = _values.namespace()


def outcome(compute):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compute()
    except (TypeError, ValueError, OverflowError) as error:
        parts = [part for part in ("Given: ", "Expected: ", "Instead: ") if part in str(error)]
        kind = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
        return {"error": kind.__name__} if len(parts) == 3 else {"error": "without three parts", "text": str(error)}


def described(array, name):
    if array.dtype == object:
        assert all(type(item) is bytes for item in array.ravel())
        data = [item.hex() for item in array.ravel()]
    else:
        data = array.tobytes().hex()
    return {"dtype": name, "shape": list(array.shape), "data": data}


def stored_name(array, dtype):
    return dtype if dtype else "string" if array.dtype == object else as_dtype(array.dtype).name


# Where we differ from TensorFlow on purpose: (reason, test of a row, its result in TensorFlow, ours).
WRAPS = "TensorFlow wraps integers that are out of range"
DEEPER = "TensorFlow takes no arrays and ranges inside lists; NumPy does"
CONSTANT_DIFFERENCES = [
    (WRAPS, lambda v, d, theirs, ours: ours == {"error": "OverflowError"} and d and "int" in d and "data" in theirs),
    (DEEPER, lambda v, d, theirs, ours: v.startswith(("[np.array(", "range(")) and theirs == {"error": "ValueError"}),
    ("foreign byte order is converted", lambda v, d, theirs, ours: "'>" in v and "data" in ours),
    ("bfloat16 and float8 numbers may stand in lists", lambda v, d, theirs, ours: v.startswith("[ml_dtypes")),
    ("so may NumPy's booleans", lambda v, d, theirs, ours: (v, d) == ("[np.bool_(True)]", "bool")),
    (
        "bfloat16 takes every number that the other floating types take",
        lambda v, d, theirs, ours: d == "bfloat16" and v in ("2**63", "2**64", "Fraction(1, 2)") and "data" in ours,
    ),
    (
        "quantised types are stored as plain integers and take them",
        lambda v, d, theirs, ours: (
            d is not None and as_dtype(d).is_quantized and v in ("1", "[1, 2]") and "data" in ours
        ),
    ),
    (
        "a string for no elements is an empty tensor, as a number is",
        lambda v, d, theirs, ours: (v, d) == ("'a'", "string"),
    ),
    ("a string is not a shape", lambda v, d, theirs, ours: ours == {"error": "TypeError"} and v == "1" and d is None),
]
FEED_DIFFERENCES = [
    ("None is not a value", lambda v, d, theirs, ours: v in ("None", "[None]") and ours == {"error": "TypeError"}),
    ("no imaginary part is dropped", lambda v, d, theirs, ours: v == "1j" and ours == {"error": "TypeError"}),
    (WRAPS, lambda v, d, theirs, ours: v in ("[300]", "[2**40]") and ours == {"error": "OverflowError"}),
    (
        "a feed of numbers for strings is refused before the run",
        lambda v, d, theirs, ours: (
            d == "string" and theirs == {"error": "InternalError"} and ours == {"error": "TypeError"}
        ),
    ),
]
PROTO_DIFFERENCES = [
    (
        "resources and variants",
        lambda v, d, theirs, ours: theirs == {"error": "KeyError"} and ours == {"error": "TypeError"},
    )
]


def check(rows, known):
    """Asserts that rows of (value, dtype, theirs, ours) agree but for known differences, each of which is met."""
    met, unknown = set(), []
    for value, dtype, theirs, ours in rows:
        if theirs != ours:
            reasons = [reason for reason, applies in known if applies(value, dtype, theirs, ours)]
            met.update(reasons)
            if not reasons:
                unknown.append(f"{value} as {dtype}: TensorFlow {theirs}, ours {ours}")
    assert not unknown, "\n".join(unknown)
    assert met == {reason for reason, _ in known}
    assert len(rows) > 25


def converted(value, dtype, shape, verify):
    given, sizes = eval(value, NAMES), eval(shape or "None", NAMES)
    array = to_array(given, dtype, sizes, verify_shape=verify)
    assert not array.flags.writeable
    assert array.flags.c_contiguous
    result = described(array, dtype or ("string" if array.dtype == object else as_dtype(array.dtype).name))
    proto = make_tensor_proto(given, dtype, sizes, verify)
    assert described(make_ndarray(proto), result["dtype"]) == result
    result["proto"] = proto.SerializeToString(deterministic=True).hex()
    return result


def test_constants_and_their_protos_equal_tensorflows():
    rows = [
        (value, dtype, theirs, outcome(lambda row=(value, dtype, shape, verify): converted(*row)))
        for value, dtype, shape, verify, theirs in TABLE["constants"]
    ]
    check(rows, CONSTANT_DIFFERENCES)


def test_feeds_equal_tensorflows():
    rows = [
        (value, dtype, theirs, outcome(lambda v=value, d=dtype: described(feed_array(eval(v, NAMES), as_dtype(d)), d)))
        for value, dtype, theirs in TABLE["feeds"]
    ]
    check(rows, FEED_DIFFERENCES)


def test_protos_read_as_tensorflow_reads_them():
    rows = []
    for data, theirs in TABLE["protos"]:
        proto = tensor_pb2.TensorProto.FromString(bytes.fromhex(data))
        ours = outcome(lambda p=proto: described(make_ndarray(p), as_dtype(p.dtype).name))
        rows.append((data, None, theirs, ours))
    check(rows, PROTO_DIFFERENCES)


# --- what the table cannot hold --------------------------------------------------------------------------------------


def test_an_array_is_copied_and_frozen():
    given = np.arange(3, dtype=np.float32)
    array = to_array(given)
    given[0] = 7
    assert array.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    assert given.flags.writeable
    assert to_array(np.arange(4.0).reshape(2, 2), shape=[4]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("value", "dtype", "expected", "name"),
    [
        (TensorShape([2, 3]), None, [2, 3], "int32"),
        (TensorShape([2**31]), None, [2**31], "int64"),
        (TensorShape([]), None, [], "int32"),
        (TensorShape([2]), "int64", [2], "int64"),
        (Dimension(5), None, 5, "int32"),
        ([Dimension(5), -1], None, [5, -1], "int32"),
        ([Dimension(5), 2], "float32", [5, 2], "float32"),
    ],
)
def test_shapes_are_values(value, dtype, expected, name):
    array = to_array(value, dtype)
    assert array.tolist() == expected
    assert array.dtype.name == name


@pytest.mark.parametrize(
    ("value", "dtype", "error", "text"),
    [
        (TensorShape([2, None]), None, ValueError, r"(?s)partly known shape.*tf\.shape"),
        (TensorShape(None), None, ValueError, "partly known shape"),
        (Dimension(None), None, ValueError, "unknown Dimension"),
        ([Dimension(None), 2], None, ValueError, "unknown Dimension"),
        (TensorShape([2]), "float32", TypeError, r"(?s)tf\.float32.*tf\.int32 or tf\.int64"),
        (TensorShape([2**31]), "int32", ValueError, "dtype=tf.int64"),
        (None, None, ValueError, "None values not supported"),
        ([1.0, [None]], None, TypeError, "None of type 'NoneType'"),
        (
            [1, 2.5],
            "int32",
            TypeError,
            r"(?s)2\.5 of type 'float' for dtype tf\.int32.*Expected: a value that int32 holds",
        ),
        ([[1], [2, 3]], None, ValueError, r"lists of different lengths or depths in \[\[1\], \[2, 3\]\]"),
        ([["a"], "b"], None, ValueError, "lists of different lengths"),
        (["b", ["a"]], None, ValueError, "lists of different lengths"),
        ([1, "a"], None, TypeError, "1 of type 'int' among strings"),
        (3, "string", TypeError, r"(?s)3 of type 'int' for dtype tf\.string.*str\(value\)"),
        ("3", "float32", TypeError, "without quotes"),
        ([1, 300], "uint8", OverflowError, r"(?s)300 for dtype tf\.uint8.*from 0 to 255"),
        ([np.int64(300)], "int8", OverflowError, r"300\) for dtype tf\.int8"),
        ([5, 8], "int4", OverflowError, r"(?s)8 for dtype tf\.int4.*from -8 to 7"),
        (2**70, None, TypeError, "at most 64 bits"),
        (2**70, "int64", OverflowError, "for dtype tf.int64"),
        (dtypes.float32, None, TypeError, "as_datatype_enum"),
        ({"a": 1}, None, TypeError, "one tensor for each item"),
        ({1, 2}, None, TypeError, "sorted"),
        (1, "resource", TypeError, "resources and variants"),
        (np.array([1], "M8[s]"), None, TypeError, "NumPy type datetime64"),
        (np.array([1]), "string", TypeError, "tf.as_string"),
        (np.array([1, "a"], object), None, TypeError, "1 of type 'int' among strings or Python objects"),
    ],
)
def test_refusals_say_what_to_write(value, dtype, error, text):
    with pytest.raises(error, match=text) as caught:
        to_array(value, dtype)
    assert all(part in str(caught.value) for part in ("Given: ", "Expected: ", "Instead: "))


@pytest.mark.parametrize(
    ("value", "shape", "options", "error", "text"),
    [
        ([1, 2, 3], [2], {}, ValueError, "Too many elements provided"),
        ([1, 2], [2, 1], {"verify_shape": True}, TypeError, r"verify_shape=False"),
        ([1, 2], [3], {"allow_broadcast": False}, TypeError, r"allow_broadcast=True"),
        (1, [2, None], {}, TypeError, "the dimension None"),
        (1, [2.5], {}, TypeError, r"the dimension 2\.5"),
        (1, [-1], {}, ValueError, "the dimension -1"),
        (1, 3, {}, TypeError, r"shape=\[3\]"),
        (1, TensorShape([None]), {}, ValueError, "partly known shape"),
    ],
)
def test_shapes_that_do_not_fit(value, shape, options, error, text):
    with pytest.raises(error, match=text):
        to_array(value, shape=shape, **options)


def test_shapes_may_be_given_in_every_spelling():
    for shape in ([2, 2], (2, 2), TensorShape([2, 2]), np.array([2, 2]), [Dimension(2), np.int64(2)], [2.0, 2]):
        assert to_array(7, shape=shape).tolist() == [[7, 7], [7, 7]]
    assert to_array([1, 2], shape=[2, 1], allow_broadcast=False).tolist() == [[1], [2]]


class GraphTensor:
    """What a tensor of a graph looks like from here."""

    op = graph = dtype = shape = None


def test_tensors_of_a_graph_are_no_values():
    for value in (GraphTensor(), [1, GraphTensor()]):
        for dtype in (None, "float32"):
            with pytest.raises(TypeError, match=r"(?s)any non-tensor type.*tf\.stack"):
                to_array(value, dtype)
    with pytest.raises(TypeError, match="The value of a feed cannot be a Tensor object"):
        feed_array(GraphTensor(), dtypes.float32)


def test_a_feed_of_the_right_type_is_not_copied():
    for name in ("float32", "bfloat16", "bool", "qint8"):
        array = np.zeros(3, as_dtype(name).np)
        assert feed_array(array, as_dtype(name)) is array
    strings = np.array([b"a", b"b"], object)
    assert feed_array(strings, dtypes.string) is strings
    mixed = np.array(["a", b"b"], object)
    assert feed_array(mixed, dtypes.string).tolist() == [b"a", b"b"]
    assert mixed.tolist() == ["a", b"b"]


@pytest.mark.parametrize(
    ("value", "dtype", "error", "text"),
    [
        (None, dtypes.int32, TypeError, "None as the value of a feed"),
        ([1.0, [2.0], None], dtypes.float32, ValueError, "lists of different lengths"),
        ([1.0, None], dtypes.float32, TypeError, "leave the tensor out of feed_dict"),
        (300, dtypes.uint8, TypeError, "(?s)300 .*a value from 0 to 255"),
        (2**70, dtypes.int64, OverflowError, "which cannot hold it"),
        (2, dtypes.bool, TypeError, "a value from 0 to 1"),
        ([2**40], dtypes.int32, OverflowError, r"as a feed of tf\.int32"),
        ("a", dtypes.float32, ValueError, "could not convert string to float"),
        (1, dtypes.string, TypeError, "Expected string"),
        (1, dtypes.resource, TypeError, "as the type of a feed"),
    ],
)
def test_feeds_that_are_refused(value, dtype, error, text):
    with pytest.raises(error, match=text):
        feed_array(value, dtype)


def test_none_is_fed_as_nan_with_a_warning():
    with pytest.warns(RuntimeWarning, match="None is fed to a tensor of floats"):
        array = feed_array(None, dtypes.float32)
    assert array.shape == ()
    assert array.dtype == np.float32
    assert np.isnan(array)


def test_none_is_fed_as_false_as_in_tensorflow():
    assert feed_array(None, dtypes.bool).tolist() is False
    assert feed_array([True, None], dtypes.bool).tolist() == [True, False]


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL_DTYPES if d.np is not None], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (0, 2), (2, 3)], ids=str)
def test_protos_round_trip(dtype, shape):
    count = int(np.prod(shape))
    if dtype is dtypes.string:
        array = np.array([b"\x00a%d" % i for i in range(count)] + [b""], object)[:count].reshape(shape)
    else:
        array = (np.arange(count) % 3).astype(dtype.np).reshape(shape)
    proto = tensor_pb2.TensorProto.FromString(array_to_proto(array, dtype).SerializeToString())
    back = make_ndarray(proto)
    assert back.dtype == array.dtype
    assert back.shape == shape
    assert back.tolist() == array.tolist()
    assert proto.dtype == dtype.enum


def proto_of(dtype, dims, **fields):
    shape = tensor_pb2.TensorShapeProto(dim=[tensor_pb2.TensorShapeProto.Dim(size=size) for size in dims])
    return tensor_pb2.TensorProto(dtype=as_dtype(dtype).enum, tensor_shape=shape, **fields)


@pytest.mark.parametrize(
    ("proto", "error", "text"),
    [
        (proto_of("float32", [2**29], float_val=[1]), ValueError, "less than 2147483648 bytes"),
        (proto_of("float32", [2**62, 2**62], float_val=[1]), ValueError, "claims the shape"),
        (proto_of("float32", [0, 2**62]), ValueError, "claims the shape"),
        (proto_of("string", [2**40]), ValueError, "claims the shape"),
        (proto_of("float32", [-1], float_val=[1]), ValueError, "a fully known shape"),
        (proto_of("float32", [1], float_val=[1, 2]), ValueError, "at most 1 values"),
        (proto_of("string", [1], string_val=[b"a", b"b"]), ValueError, "at most 1 values"),
        (proto_of("float32", [3], tensor_content=b"abcd"), ValueError, "12 bytes for shape"),
        (proto_of("int8", [1], int_val=[300]), ValueError, "integers that fit in int8"),
        (proto_of("int4", [1], int_val=[8]), ValueError, "integers that fit in int4"),
        (proto_of("float16", [1], half_val=[70000]), ValueError, "integers that fit in uint16"),
        (proto_of("complex64", [1], scomplex_val=[1]), ValueError, "a real and an imaginary part"),
        (proto_of("resource", []), TypeError, "a checkpoint of the variable or table"),
        (tensor_pb2.TensorProto(dtype=0), TypeError, "dtype number 0"),
        (proto_of("string", [2], tensor_content=b"\x01\x09ab"), ValueError, "the lengths of 2 strings"),
        (proto_of("string", [2], tensor_content=b"\xff\xff\xff\xff\xff"), ValueError, "the lengths of 2 strings"),
    ],
)
def test_protos_are_not_believed(proto, error, text):
    with pytest.raises(error, match=text):
        make_ndarray(proto)


def test_an_unknown_rank_is_no_shape_of_a_value():
    with pytest.raises(ValueError, match="of unknown shape"):
        make_ndarray(tensor_pb2.TensorProto(dtype=1, tensor_shape=tensor_pb2.TensorShapeProto(unknown_rank=True)))


def test_strings_may_stand_in_tensor_content():
    assert make_ndarray(proto_of("string", [2], tensor_content=b"\x01\x02abc")).tolist() == [b"a", b"bc"]


def test_a_proto_is_returned_as_it_is():
    proto = proto_of("float32", [], float_val=[1])
    assert make_tensor_proto(proto) is proto


def test_repeated_values_are_written_once():
    proto = make_tensor_proto(1.5, shape=[1000, 1000])
    assert len(proto.SerializeToString()) < 40
    assert (make_ndarray(proto) == 1.5).all()


def test_what_is_folded_does_not_warn_of_values_that_are_not_finite():
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        sizes = tf.cast(tf.exp(tf.log(tf.constant([0.0, 4.0]))) + 0.5, tf.int32)
        made = tf.zeros(sizes) + tf.log(tf.constant(0.0))
        assert made.shape == [0, 4]
        assert session.run(tf.log(tf.range(2.0)) + tf.reduce_sum(made)).tolist() == [-np.inf, 0]


@pytest.mark.parametrize("shape", [[1 << 70], [1 << 62], [1 << 20, 1 << 20, 1 << 20]], ids=str)
@pytest.mark.parametrize("value", [1.0, "a", 7], ids=repr)
def test_a_constant_that_no_memory_holds(value, shape):
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"a constant of .*EiB|a constant of .*bytes"):
        tf.constant(value, shape=shape)
