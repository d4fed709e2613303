"""What programs of TensorFlow 1's time ask of NumPy, and a NumPy of today refuses."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import old_numpy

PERCENT = "%d %g"


@pytest.fixture
def old():
    """NumPy as `anabranch run` shows it, untyped: half of its names are not there."""
    old_numpy.provide()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)  # of versions that only announce what 2.4 refuses
            yield vars(np)
    finally:
        old_numpy.withdraw()


def test_an_array_of_one_element_is_a_number(old):
    assert float(np.array([1.5])) == 1.5
    assert int(np.array([[2]])) == 2
    assert complex(np.array([1j])) == 1j
    assert math.sqrt(np.array([4.0])) == 2.0
    assert PERCENT % (np.array([3]), np.array([[2.5]])) == "3 2.5"
    assert float(np.array(["7"])) == 7.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        assert float(np.matrix([[2.0]])) == 2.0
    row = np.zeros(3)
    row[1] = np.array([[7.0]])
    np.testing.assert_array_equal(row, [0, 7, 0])
    with tf.Graph().as_default(), tf.Session() as session:
        assert PERCENT % (session.run(tf.constant([1])), 1.5) == "1 1.5"


def test_other_arrays_are_no_numbers(old):
    assert float(np.array(1.5)) == 1.5
    with pytest.raises(TypeError, match="arrays can be converted to Python scalars"):
        float(np.array([1.0, 2.0]))
    with pytest.raises(TypeError, match="arrays can be converted to Python scalars"):
        int(np.array([]))
    with pytest.raises(ValueError, match="could not convert string"):
        float(np.array(["x"]))


def test_an_empty_array_is_false(old):
    assert not np.array([])
    assert np.array([3])
    with pytest.raises(ValueError, match="ambiguous"):
        bool(np.array([1, 2]))


def test_methods_that_arrays_had(old):
    pixels = np.array([[1, 5], [7, 2]], np.uint8)
    assert pixels.tostring() == b"\x01\x05\x07\x02"
    assert pixels.tostring("F") == b"\x01\x07\x05\x02"
    assert np.float32(1).tostring() == b"\x00\x00\x80?"
    assert pixels.ptp() == 6
    np.testing.assert_array_equal(pixels.ptp(axis=0), [6, 3])
    assert np.array([1], "<i2").newbyteorder()[0] == 256
    assert np.array([1], "<i2").newbyteorder("<")[0] == 1
    pixels.itemset(3, 9)
    pixels.itemset((0, 1), 8)
    pixels.itemset(1, 0, 6)
    np.testing.assert_array_equal(pixels, [[1, 8], [6, 9]])


def test_arrays_of_what_numpy_refuses(old):
    rows = np.array([[1, 2], [3]])
    assert rows.dtype == object
    assert rows.tolist() == [[1, 2], [3]]
    assert np.asarray([[1], [], [2, 3]]).shape == (3,)
    assert np.array([300, -1], dtype=np.uint8).tolist() == [44, 255]
    assert np.array([1, 2], copy=False).tolist() == [1, 2]
    with pytest.raises(ValueError, match="inhomogeneous"):
        np.array([[1, 2], [3]], dtype=np.float32)
    with pytest.raises(OverflowError, match="out of bounds"):
        np.uint8(300)


def test_libraries_keep_the_errors(old):
    code = compile("np.array([[1], [2, 3]])", "/usr/lib/python3/dist-packages/library.py", "eval")
    with pytest.raises(ValueError, match="inhomogeneous"):
        eval(code, {"np": np})
    with pytest.raises(ValueError, match="Argument must be a dense tensor"), tf.Graph().as_default():
        tf.constant([[1], [2, 3]])


def test_functions_that_took_more(old):
    data = np.array([1, 2], np.int16).tobytes()
    numbers = old["fromstring"](data, np.int16)
    numbers[0] = 5  # a copy
    assert numbers.tolist() == [5, 2]
    assert old["fromstring"](data, dtype=np.int16, count=1).tolist() == [1]
    assert old["fromstring"]("1 2", sep=" ").tolist() == [1.0, 2.0]
    assert old["vstack"](map(np.array, [[1], [2]])).tolist() == [[1], [2]]
    assert old["sum"](x for x in [1, 2]) == 3
    assert old["reshape"]([1, 2], newshape=[2, 1]).shape == (2, 1)
    assert old["meshgrid"]([1, 2], [3])[0].tolist() == [[1, 2]]
    assert isinstance(old["meshgrid"]([1], [2]), list)
    np.testing.assert_allclose(old["histogram"]([1, 2, 3, 4], bins=2, normed=True)[0], [1 / 3, 1 / 3])


def test_a_kind_is_warned_of_once():
    old_numpy.provide()
    try:
        with warnings.catch_warnings(record=True) as record:
            warnings.simplefilter("always")
            for _ in range(2):
                np.array([[1], [2, 3]])
        (warning,) = record
        assert "Given: np.array of rows of different lengths" in str(warning.message)
        assert "Instead: np.array(x, dtype=object)" in str(warning.message)
        assert warning.filename == __file__
    finally:
        old_numpy.withdraw()


def test_withdrawn_numpy_is_as_before():
    def shown():
        methods = [getattr(np.ndarray, name, None) for name in ("tostring", "ptp", "__float__", "__int__", "__bool__")]
        return [np.array, np.sum, *methods]

    before = shown()
    for _ in range(2):
        old_numpy.provide()
        old_numpy.provide()
        old_numpy.withdraw()
    assert shown() == before
    with pytest.raises(ValueError, match="inhomogeneous"):
        np.array([[1], [2, 3]])
    with pytest.raises(TypeError, match="arrays can be converted to Python scalars"):
        float(np.array([1.0, 2.0]))
