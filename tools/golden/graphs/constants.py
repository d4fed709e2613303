"""Record how TensorFlow converts Python values to constants, feeds and TensorProtos.

Run with an interpreter that has TensorFlow: `python tools/golden/graphs/constants.py tests/golden/constants.json`.
Each case is a Python expression over `np` and `ml_dtypes`, so that the tests evaluate the very same value.
A result is either `{"error": class}` or `{"dtype", "shape", "data"}` with the data as hexadecimal bytes
(strings as a list of hexadecimal bytes); a proto's result is its serialized bytes.
"""

import json
import sys
import warnings

import numpy as np
import tensorflow.compat.v1 as tf

# expression, dtype name or None, shape expression or None, verify_shape
VALUES = [
    "0",
    "1",
    "-7",
    "2**31-1",
    "2**31",
    "-2**31",
    "-2**31-1",
    "2**63-1",
    "2**63",
    "2**64-1",
    "2**64",
    "-2**63-1",
    "True",
    "False",
    "0.0",
    "0.1",
    "-1.5",
    "float('inf')",
    "1j",
    "1+2j",
    "'a'",
    "'h\\u00e9'",
    "b'\\x00\\xff\\x00'",
    "''",
    "[]",
    "[[]]",
    "[[], []]",
    "()",
    "[1, 2, 3]",
    "(1, 2)",
    "[[1, 2], [3, 4]]",
    "[(1, 2), (3, 4)]",
    "([1], [2])",
    "[1, 2.5]",
    "[1, True]",
    "[True, False]",
    "[True, 2.5]",
    "[1, 1j]",
    "[1.5, 1j]",
    "[1, 2**40]",
    "[1, 2**63]",
    "[2**64, 1]",
    "[-1, 2**63]",
    "[1.0, 2**70]",
    "['a', 'bc']",
    "[b'a\\x00', 'b']",
    "[['a'], ['b']]",
    "['a', 1]",
    "[1, 'a']",
    "[True, 'a']",
    "[1, None]",
    "None",
    "[None]",
    "[[1], [2, 3]]",
    "[1, [2]]",
    "[[1], 2]",
    "[[1, 2], [3]]",
    "[['a'], ['b', 'c']]",
    "np.float64(1.5)",
    "np.float32(1.5)",
    "np.float16(1.5)",
    "np.int64(3)",
    "np.int32(3)",
    "np.int8(-3)",
    "np.uint8(3)",
    "np.uint16(3)",
    "np.uint32(3)",
    "np.uint64(3)",
    "np.bool_(True)",
    "np.complex64(1j)",
    "np.complex128(1j)",
    "np.str_('a')",
    "np.bytes_(b'a')",
    "ml_dtypes.bfloat16(1.5)",
    "[np.float64(1.5)]",
    "[np.float64(1.5), 2]",
    "[np.float32(1.5)]",
    "[np.float16(1.5), np.float16(2)]",
    "[np.int64(3)]",
    "[np.int64(2**40)]",
    "[np.int8(3)]",
    "[np.int8(3), 4]",
    "[np.uint8(3), np.int8(-3)]",
    "[np.float32(1), np.float64(2)]",
    "[np.float32(1), 2.5]",
    "[np.bool_(True)]",
    "[ml_dtypes.bfloat16(1.5)]",
    "[np.uint64(3)]",
    "[np.complex64(1j)]",
    "[np.str_('a')]",
    "np.zeros((2, 3))",
    "np.zeros((0, 3), np.int64)",
    "np.arange(3)",
    "np.arange(4.).reshape(2, 2).T",
    "np.array(5)",
    "np.array(2**40)",
    "np.array([True])",
    "np.array(['a', 'bc'])",
    "np.array([b'a', b'bc'])",
    "np.array(['a', b'b'], object)",
    "np.array(['a', 1], object)",
    "np.array([1, 2], object)",
    "np.array('a')",
    "np.array([1.5], '>f4')",
    "np.array([1, 2], '>i8')",
    "np.array([1, 2], np.longdouble)",
    "np.array(['2020-01-01'], 'M8[D]')",
    "np.array([(1, 2)], 'i4,i4')",
    "np.array([1.5, -2], ml_dtypes.bfloat16)",
    "np.array([1, 2], ml_dtypes.int4)",
    "np.array([1, 2], ml_dtypes.float8_e4m3fn)",
    "np.array([1+2j])",
    "np.array([1, 2], np.uint32)",
    "np.array([1, 2], np.uint16)",
    "np.array([1, 2], np.float16)",
    "[np.array([1, 2]), np.array([3, 4])]",
    "[np.array(1), np.array(2)]",
    "[np.array([1.5]), [2]]",
    "range(3)",
    "{1, 2}",
    "{}",
    "{'a': 1}",
    "bytearray(b'ab')",
    "memoryview(b'ab')",
    "object()",
    "int",
    "Fraction(1, 2)",
    "[Fraction(1, 2)]",
    "Decimal(1)",
    "Colour.RED",
    "[Colour.RED]",
    "Plain.A",
    "Pair(1, 2)",
    "[[[1]], [[2]]]",
    "array('i', [1, 2])",
    "array('d', [1, 2])",
    "float('nan')",
    "iter([1])",
    "...",
    "slice(1)",
]
DTYPED = [
    "1",
    "-1",
    "1.5",
    "2.0",
    "True",
    "1j",
    "'a'",
    "b'a'",
    "[1, 2]",
    "[1, 2.5]",
    "[True]",
    "[1, True]",
    "[1, 'a']",
    "['a']",
    "[]",
    "[[], []]",
    "None",
    "[1, None]",
    "[[1], [2, 3]]",
    "np.array([1.5, 2])",
    "np.array([1, 300])",
    "np.array([1+2j])",
    "np.array([True])",
    "np.array(['a'])",
    "np.float64(1.5)",
    "np.bool_(True)",
    "[np.float32(1.5)]",
    "[np.int64(3)]",
    "[np.bool_(True)]",
    "[np.array([1, 2])]",
    "300",
    "2**31",
    "2**32",
    "2**63",
    "2**64",
    "[-1]",
    "[300]",
    "[70000]",
    "[2**40]",
    "Fraction(1, 2)",
    "Decimal(1)",
    "Colour.RED",
    "[ml_dtypes.bfloat16(1.5)]",
    "np.array([1, 'a'], object)",
    "np.array(['1.5'])",
    "np.array([1.5], ml_dtypes.bfloat16)",
    "range(2)",
    "object()",
]
DTYPES = [
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "complex64",
    "complex128",
    "string",
]
QUANTISED = ["qint8", "quint8", "qint16", "quint16", "qint32"]
QVALUES = [
    "1",
    "(1,)",
    "[1, 2]",
    "[(1,), (2,)]",
    "[[(1,)], [(2,)]]",
    "1.5",
    "[1.5]",
    "'a'",
    "np.array([1, 2], np.int8)",
    "np.array([1, 2])",
    "[(300,)]",
    "[(-1,)]",
]
SHAPED = [
    ("1", None, "[2, 3]"),
    ("1", None, "[]"),
    ("1.5", "float64", "(2,)"),
    ("[1, 2]", None, "[4]"),
    ("[1, 2]", None, "[2, 2]"),
    ("[1, 2, 3, 4]", None, "[2, 2]"),
    ("[1, 2, 3]", None, "[2]"),
    ("[[1, 2], [3, 4]]", None, "[4]"),
    ("[[1, 2], [3, 4]]", None, "[3, 2]"),
    ("[1]", None, "[3]"),
    ("[1]", None, "[]"),
    ("5", None, "[0]"),
    ("5", "int32", "[0]"),
    ("[1, 2]", None, "[0, 3]"),
    ("'a'", None, "[0]"),
    ("'a'", "string", "[0]"),
    ("np.arange(3)", None, "[0]"),
    ("np.arange(3)", None, "[3, 1]"),
    ("np.arange(3)", None, "[5]"),
    ("np.arange(3)", None, "[2]"),
    ("'a'", None, "[2]"),
    ("['a', 'b']", None, "[3]"),
    ("[['a', 'b']]", None, "[2]"),
    ("['a', 'b']", None, "[1]"),
    ("True", None, "[2]"),
    ("1j", None, "[2]"),
    ("[]", None, "[2]"),
    ("[]", "int32", "[2]"),
    ("[]", "string", "[2]"),
    ("[]", "bool", "[2]"),
    ("[]", "complex64", "[2]"),
    ("1", None, "[-1]"),
    ("1", None, "[None]"),
    ("1", None, "5"),
    ("1", None, "[2.0]"),
    ("1", None, "np.array([2, 2])"),
    ("1", None, "[np.int64(2)]"),
    ("np.array(['a', 'b'])", None, "[3]"),
    ("1.5", "bfloat16", "[3]"),
    ("[1.5, 2]", "float16", "[3]"),
    ("1", "uint64", "[3]"),
    ("1", "uint32", "[3]"),
    ("None", None, "[0]"),
    ("None", None, "[2]"),
    ("[[1], [2, 3]]", None, "[0]"),
    ("[[1], [2, 3]]", None, "[3]"),
    ("1", None, "'a'"),
    ("1", None, "[1, 1, 1]"),
]
VERIFIED = [
    ("1", "[]"),
    ("1", "[1]"),
    ("[1, 2]", "[2]"),
    ("[1, 2]", "[3]"),
    ("[1, 2]", "[2, 1]"),
    ("np.zeros((2, 2))", "[4]"),
    ("np.zeros((2, 2))", "[2, 2]"),
    ("[1, 2]", "[1]"),
    ("[1, 2]", "None"),
]
FEEDS = [
    "1",
    "1.5",
    "True",
    "-1",
    "300",
    "70000",
    "16777217",
    "2**31",
    "2**40",
    "2**63",
    "2**64",
    "1j",
    "'a'",
    "b'a'",
    "'h\\u00e9'",
    "[1, 2]",
    "[1, 2.5]",
    "[1.5]",
    "[300]",
    "[2**40]",
    "[True]",
    "['a']",
    "['a', b'b']",
    "[1, 'a']",
    "[]",
    "None",
    "[None]",
    "[[1], [2, 3]]",
    "np.float64(1.5)",
    "np.int64(300)",
    "np.array([1.5, 2])",
    "np.array([1, 300])",
    "np.array([1+2j])",
    "np.array([True])",
    "np.array(['a', 'bc'])",
    "np.array([b'a'])",
    "np.array(['a', b'b'], object)",
    "np.array(['a', 1], object)",
    "np.array([1, 2], object)",
    "np.array([1.5], ml_dtypes.bfloat16)",
    "range(3)",
    "object()",
    "{}",
    "(1, 2)",
    "Fraction(1, 2)",
    "Colour.RED",
    "np.str_('a')",
    "np.array(['1.5'])",
]
FEED_DTYPES = [
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "int32",
    "int64",
    "uint8",
    "uint64",
    "bool",
    "complex64",
    "string",
]
# Constructors of TensorProtos that a reader must take, over TensorProto `P` and TensorShapeProto `S`.
READ = [
    "P(dtype=1, tensor_shape=S([2, 2]), float_val=[1.5])",
    "P(dtype=1, tensor_shape=S([3]), float_val=[1, 2])",
    "P(dtype=1, tensor_shape=S([3]))",
    "P(dtype=2, tensor_shape=S([2]), double_val=[0.1])",
    "P(dtype=3, tensor_shape=S([2]), int_val=[-5])",
    "P(dtype=4, tensor_shape=S([2]), int_val=[255])",
    "P(dtype=5, tensor_shape=S([2]), int_val=[-300, 7])",
    "P(dtype=6, tensor_shape=S([1]), int_val=[-3])",
    "P(dtype=7, tensor_shape=S([3]), string_val=[b'a', b'\\xff'])",
    "P(dtype=8, tensor_shape=S([3]), scomplex_val=[1, 2, 3, 4])",
    "P(dtype=9, tensor_shape=S([2]), int64_val=[2**40])",
    "P(dtype=10, tensor_shape=S([3]), bool_val=[True, False])",
    "P(dtype=18, tensor_shape=S([3]), dcomplex_val=[1, 2])",
    "P(dtype=19, tensor_shape=S([3]), half_val=[15360, 49152])",
    "P(dtype=14, tensor_shape=S([3]), half_val=[16256])",
    "P(dtype=17, tensor_shape=S([2]), int_val=[65535])",
    "P(dtype=22, tensor_shape=S([2]), uint32_val=[2**32-1])",
    "P(dtype=23, tensor_shape=S([2]), uint64_val=[2**64-1])",
    "P(dtype=1, tensor_shape=S([]), float_val=[7])",
    "P(dtype=1, tensor_shape=S([0, 3]))",
    "P(dtype=1, tensor_shape=S([2]), tensor_content=b'\\x00\\x00\\x80\\x3f\\x00\\x00\\x00\\x40')",
    "P(dtype=14, tensor_shape=S([2]), tensor_content=b'\\x80\\x3f\\x00\\x40')",
    "P(dtype=10, tensor_shape=S([2]), tensor_content=b'\\x00\\x01')",
    "P(dtype=1, tensor_shape=S([1]), float_val=[1, 2])",
    "P(dtype=1, tensor_shape=S([3]), tensor_content=b'\\x00\\x00\\x80\\x3f')",
    "P(dtype=20, tensor_shape=S([]))",
    "P(dtype=21, tensor_shape=S([]))",
    "P(dtype=0, tensor_shape=S([]))",
    "P(dtype=24, tensor_shape=S([2]), float8_val=b'\\x38\\x3c')",
    "P(dtype=25, tensor_shape=S([2]), float8_val=b'\\x38')",
]


def described(array):
    """Dtype name, shape and bytes of an array, strings encoded."""
    array = np.asarray(array)
    if array.dtype == object or array.dtype.kind in "SU":
        items = [item.encode() if isinstance(item, str) else item for item in array.ravel().tolist()]
        return {"dtype": "string", "shape": list(array.shape), "data": [item.hex() for item in items]}
    return {
        "dtype": tf.as_dtype(array.dtype).name,
        "shape": list(array.shape),
        "data": np.ascontiguousarray(array).tobytes().hex(),
    }


def outcome(compute, *arguments):
    """The description that `compute` returns for the arguments, or the class of the error that it raises."""
    try:
        return compute(*arguments)
    except Exception as error:  # every class of error is a fact to record
        return {"error": type(error).__name__}


def constant(value, dtype, shape, verify_shape):
    """What a Const node holds, and its proto."""
    with tf.Graph().as_default():
        node = tf.constant(value, None if dtype is None else tf.as_dtype(dtype), shape, verify_shape=verify_shape)
        proto = node.op.get_attr("value")
        result = described(tf.make_ndarray(proto))
        result["dtype"] = node.dtype.name
        proto = tf.make_tensor_proto(value, None if dtype is None else tf.as_dtype(dtype), shape, verify_shape)
        result["proto"] = proto.SerializeToString(deterministic=True).hex()
        return result


def feed(value, dtype):
    """What a session reads from a placeholder fed with the value."""
    with tf.Graph().as_default():
        placeholder = tf.placeholder(tf.as_dtype(dtype))
        with tf.Session() as session:
            result = described(session.run(tf.identity(placeholder), {placeholder: value}))
            result["dtype"] = dtype
            return result


def read(proto):
    """What TensorFlow reads from a proto."""
    return described(tf.make_ndarray(proto))


def main(path):
    """Compute every case and write the table."""
    sys.path.insert(0, __file__.rsplit("/", 1)[0])
    from constants_values import namespace

    warnings.simplefilter("ignore")
    names = namespace()
    cases = [(value, None, None, False) for value in VALUES]
    cases += [(value, dtype, None, False) for dtype in DTYPES for value in DTYPED]
    cases += [(value, dtype, None, False) for dtype in QUANTISED for value in QVALUES]
    cases += [(value, dtype, shape, False) for value, dtype, shape in SHAPED]
    cases += [(value, None, shape, True) for value, shape in VERIFIED]
    table = {"constants": [], "feeds": [], "protos": []}
    for value, dtype, shape, verify in cases:
        result = outcome(constant, eval(value, names), dtype, eval(shape or "None", names), verify)
        table["constants"].append([value, dtype, shape, verify, result])
    for dtype in FEED_DTYPES:
        for value in FEEDS:
            table["feeds"].append([value, dtype, outcome(feed, eval(value, names), dtype)])

    def shape_proto(sizes):
        return tf.TensorShape(sizes).as_proto()

    from tensorflow.core.framework import tensor_pb2

    names.update(P=tensor_pb2.TensorProto, S=shape_proto)
    for source in READ:
        proto = eval(source, names)
        result = outcome(read, proto)
        table["protos"].append([proto.SerializeToString(deterministic=True).hex(), result])
    with open(path, "w") as file:
        lines = ",\n".join(
            f'"{key}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]" for key, rows in table.items()
        )
        file.write(f'{{"tensorflow": "{tf.__version__}", "numpy": "{np.__version__}",\n{lines}\n}}\n')


if __name__ == "__main__":
    main(sys.argv[1])
