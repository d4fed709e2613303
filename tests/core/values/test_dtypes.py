"""Element types: numbers, names and predicates as TensorFlow has them, and every way to spell one."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from anabranch.core.values import dtypes
from anabranch.core.values.dtypes import DType, as_dtype

# name: number, name in op definitions, NumPy class, kind, bytes
TYPES = {
    "float32": (1, "float", np.float32, "floating", 4),
    "float64": (2, "double", np.float64, "floating", 8),
    "int32": (3, "int32", np.int32, "integer", 4),
    "uint8": (4, "uint8", np.uint8, "integer", 1),
    "int16": (5, "int16", np.int16, "integer", 2),
    "int8": (6, "int8", np.int8, "integer", 1),
    "string": (7, "string", object, None, 8),
    "complex64": (8, "complex64", np.complex64, "complex", 8),
    "int64": (9, "int64", np.int64, "integer", 8),
    "bool": (10, "bool", np.bool_, "bool", 1),
    "qint8": (11, "qint8", np.dtype([("qint8", "i1")]), "quantized", 1),
    "quint8": (12, "quint8", np.dtype([("quint8", "u1")]), "quantized", 1),
    "qint32": (13, "qint32", np.dtype([("qint32", "i4")]), "quantized", 4),
    "bfloat16": (14, "bfloat16", ml_dtypes.bfloat16, "floating", 2),
    "qint16": (15, "qint16", np.dtype([("qint16", "i2")]), "quantized", 2),
    "quint16": (16, "quint16", np.dtype([("quint16", "u2")]), "quantized", 2),
    "uint16": (17, "uint16", np.uint16, "integer", 2),
    "complex128": (18, "complex128", np.complex128, "complex", 16),
    "float16": (19, "half", np.float16, "floating", 2),
    "resource": (20, "resource", np.dtype([("resource", "u1")]), None, 1),
    "variant": (21, "variant", None, None, 1),
    "uint32": (22, "uint32", np.uint32, "integer", 4),
    "uint64": (23, "uint64", np.uint64, "integer", 8),
    "float8_e5m2": (24, "float8_e5m2", ml_dtypes.float8_e5m2, "floating", 1),
    "float8_e4m3fn": (25, "float8_e4m3fn", ml_dtypes.float8_e4m3fn, "floating", 1),
    "int4": (29, "int4", ml_dtypes.int4, "integer", 1),
    "uint4": (30, "uint4", ml_dtypes.uint4, "integer", 1),
}
LIMITS = {
    "uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767),
    "int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1),
    "int4": (-8, 7), "uint4": (0, 15), "float16": (-65504.0, 65504.0), "float32": (-(2 - 2**-23) * 2.0**127,
    (2 - 2**-23) * 2.0**127),
    "bfloat16": (float.fromhex("-0x1.FEp127"), float.fromhex("0x1.FEp127")), "float8_e5m2": (-57344.0, 57344.0),
    "float8_e4m3fn": (-448.0, 448.0),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_properties(name):
    number, proto, shown, kind, size = TYPES[name]
    dtype = getattr(dtypes, name)
    assert dtype.name == name
    assert dtype.as_datatype_enum == dtype.enum == int(dtype) == hash(dtype) == number
    assert dtype.as_numpy_dtype == shown
    assert dtype.size == size
    assert [k for k in ("floating", "integer", "complex", "bool", "quantized") if getattr(dtype, f"is_{k}")] == [
        kind
    ] * (kind is not None)
    assert dtype.is_unsigned == name.startswith("uint")
    assert dtype.host_only == (name in ("string", "resource", "variant"))
    assert dtype.is_numpy_compatible == (name not in ("resource", "variant")) == (dtype.np is not None)
    assert repr(dtype) == f"tf.{name}"
    assert str(dtype) == f"<dtype: '{name}'>"
    assert dtypes.proto_name(dtype) == proto
    assert dtypes.from_op_def_name(proto) is dtype
    for spelling in (dtype, name, proto, number, np.int64(number)):
        assert as_dtype(spelling) is dtype
    if kind:
        assert as_dtype(shown) is dtype
        assert as_dtype(np.dtype(shown)) is dtype
    if kind and kind != "quantized":
        assert dtype.np == np.dtype(shown)


@pytest.mark.parametrize("name", TYPES)
def test_reference_type(name):
    base = as_dtype(name)
    ref = as_dtype(f"{name}_ref")
    assert ref is base._as_ref is ref._as_ref is DType(base.enum + 100)
    assert ref.base_dtype is ref.base is base is base.base_dtype
    assert (ref.is_ref, ref._is_ref_dtype, base.is_ref, base._is_ref_dtype) == (True, True, False, False)
    assert ref != base
    assert (ref.np, ref.size, ref.is_floating) == (base.np, base.size, base.is_floating)
    assert base.is_compatible_with(ref)
    assert not ref.is_compatible_with(base)
    assert base.is_compatible_with(base)
    assert dtypes.from_op_def_name(dtypes.proto_name(ref)) is ref


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        (float, "float32"), (int, "int32"), (bool, "bool"), (complex, "complex128"), (str, "string"), (bytes, "string"),
        (object, "string"), ("float_ref", "float32_ref"), ("half_ref", "float16_ref"), ("f4", "float32"),
        (">f8", "float64"),
        (np.dtype(">i2"), "int16"), (np.dtype("S7"), "string"), (np.dtype("U3"), "string"),
        (np.dtype(object), "string"),
        (np.str_, "string"), (np.longlong, "int64"), (np.zeros(2, np.int8), "int8"), (np.float64(1), "float64"),
    ],
)  # fmt: skip
def test_spellings(spelling, name):
    assert as_dtype(spelling).name == name


@pytest.mark.parametrize(
    ("number", "name"),
    [(1.0, "float32"), (True, "float32"), (np.int64(3), "int32"), (107.0, "string_ref"), (1 + 0j, "float32")],
)
def test_numbers_of_any_type_stand_for_types(number, name):
    assert as_dtype(number).name == name


@pytest.mark.parametrize(
    "bad", [None, False, 1.5, 0, 26, 999, "foo", "2f4", list, dict, np.dtype("M8[s]"), [], {}, ["float32"]]
)
def test_what_is_no_type_is_refused_in_three_parts(bad):
    with pytest.raises(
        TypeError, match=r"(?s)Given: .* as an element type\nExpected: a tf.DType.*\nInstead: one of tf.float32"
    ):
        as_dtype(bad)


def test_unknown_op_definition_name():
    with pytest.raises(TypeError, match=r"the op definition type 'float32'"):
        dtypes.from_op_def_name("float32")


def test_equality():
    assert dtypes.float32 == np.float32
    assert dtypes.float32 == "float32"
    assert np.dtype("f4") == dtypes.float32 or dtypes.float32 == np.dtype("f4")
    assert dtypes.float32 != np.float64
    assert dtypes.float32 != None  # noqa: E711 (the operator is what is tested)
    assert dtypes.float32 != "nonsense"
    assert dtypes.float32 != object()
    assert (dtypes.half, dtypes.float, dtypes.double) == (dtypes.float16, dtypes.float32, dtypes.float64)
    assert len({*dtypes.ALL_DTYPES}) == len(TYPES)
    assert all(d.is_quantized for d in dtypes.QUANTIZED_DTYPES)


@pytest.mark.parametrize("name", LIMITS)
def test_range(name):
    dtype = as_dtype(name)
    assert (float(dtype.min), float(dtype.max)) == tuple(map(float, LIMITS[name]))
    if dtype.is_integer:
        assert (dtype.min, dtype.max) == LIMITS[name]
    assert dtype.limits == (0, LIMITS[name][1] if dtype.is_integer else 1)


@pytest.mark.parametrize("name", ["bool", "string", "complex64", "resource", "variant", "qint8"])
def test_types_without_range(name):
    with pytest.raises(TypeError, match=rf"tf\.{name}\.min\nExpected: an integer or floating type"):
        as_dtype(name).min
    if name != "bool":
        with pytest.raises(ValueError, match=rf"tf\.{name}\.limits"):
            as_dtype(name).limits
    else:
        assert dtypes.bool.limits == (0, True)


def test_real_dtype():
    assert dtypes.complex64.real_dtype is dtypes.float32
    assert dtypes.complex128._as_ref.real_dtype is dtypes.float64
    assert dtypes.int8.real_dtype is dtypes.int8


def test_one_immutable_object_per_type():
    for dtype in (dtypes.float32, dtypes.qint8, dtypes.variant._as_ref):
        assert (
            pickle.loads(pickle.dumps(dtype)) is copy.deepcopy(dtype) is copy.copy(dtype) is DType(dtype.enum) is dtype
        )
    with pytest.raises(AttributeError, match=r"assignment to tf\.float32\.name"):
        dtypes.float32.name = "x"


def test_stored_type_of_quantised_is_its_integer():
    assert dtypes.qint8.np == np.int8
    assert dtypes.quint16.np == np.uint16
