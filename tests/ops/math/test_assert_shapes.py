"""`tf.debugging.assert_shapes`: answers as TensorFlow 1.15.5 gives them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


SHAPES = {"x": (2, 3), "y": (2, 5), "q": (3,), "s": ()}


def tensors():
    """A tensor of each of `SHAPES`."""
    return [tf.constant(np.ones(shape, np.float32), name=name) for name, shape in SHAPES.items()]


@pytest.mark.parametrize(
    "sizes",
    [
        {"x": ("N", "Q"), "y": ("N", "D"), "q": ("Q",), "s": ()},
        {"x": (2, 3)},
        {"x": ("2", "3")},
        {"x": (None, ".")},
        {"x": (..., 3)},
        {"x": ("*", 2, 3)},
        {"x": "NQ", "y": "ND"},
        {"s": (1,)},
        {"s": ("*", 1)},
        {"x": None},
        {"x": np.array([2, 3])},
        {},
    ],
    ids=str,
)
def test_sizes_that_agree(sizes) -> None:
    by_name = dict(zip("xyqs", tensors(), strict=True))
    op = tf.debugging.assert_shapes([(by_name[name], shape) for name, shape in sizes.items()], message="hey")
    assert op.type == "NoOp"


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (
            [("x", ("N", "N"))],
            "hey.  Specified by tensor x:0 dimension 0.  Tensor x:0 dimension 1 must have size 2.  "
            "Received size 3, shape (2, 3)",
        ),
        (
            [("x", ("N", "Q")), ("y", ("Q", "D"))],
            "hey.  Specified by tensor x:0 dimension 1.  Tensor y:0 dimension 0 must have size 3.  Received size 2",
        ),
        ([("x", (2, 4))], "hey.  Specified explicitly.  Tensor x:0 dimension 1 must have size 4.  Received size 3"),
        ([("x", ("*", 1, 2, 3))], "hey.  Tensor x:0 must have rank at least 3.  Received rank 2, shape (2, 3)"),
        ([("x", ("N", ...))], "hey.  Tensor x:0 specified shape index 1.  Symbol `...` or `*` for a variable number"),
        ([("x", 3)], "hey.  Tensor x:0.  Specified shape must be an iterable."),
        ([("x", ("N",))], "hey.  Tensor x:0 must have rank 0 or 1.  Received rank 2"),
        ([("s", ("N",)), ("x", ("N", "Q"))], "Specified by tensor s:0 dimension 0.  Tensor x:0 dimension 0 must have"),
        ([("q", ())], "hey.  Specified explicitly.  Tensor q:0 dimension 0 must have size 1.  Received size 3"),
    ],
)
def test_sizes_that_are_known_to_differ(sizes, words) -> None:
    by_name = dict(zip("xyqs", tensors(), strict=True))
    pairs = [(by_name[name], shape) for name, shape in sizes]
    with pytest.raises(ValueError, match=re.escape(words)):
        tf.debugging.assert_shapes(pairs, message="hey")


def test_a_size_is_no_tensor() -> None:
    with pytest.raises(TypeError, match="Expected: a number, a name"):
        tf.debugging.assert_shapes([(tf.zeros([2]), [tf.constant(2)])])


@pytest.mark.parametrize(
    ("rank", "sizes", "fit", "unfit"),
    [
        (2, ("N", "Q"), [(2, 3)], [(2, 4), (3, 3)]),
        (2, ("*", "Q"), [(5, 3)], [(2, 4)]),
        (None, ("N", "Q"), [(2, 3)], [(2, 4), (3,), (1, 2, 3)]),
        (None, ("*", "Q"), [(2, 3), (3,), (1, 2, 3)], [(4,), ()]),
        (None, (), [(), (1,)], [(2,)]),
        (None, ("*", 1), [(), (1,), (2, 1)], [(2,)]),
    ],
)
def test_what_is_not_known_is_checked_in_the_step(rank, sizes, fit, unfit) -> None:
    x = tensors()[0]
    given = tf.placeholder(tf.float32, None if rank is None else [None] * rank)
    op = tf.debugging.assert_shapes([(given, sizes), (x, ("N", "Q"))], message="hey")
    with tf.Session() as session:
        for shape in fit:
            session.run(op, {given: np.ones(shape)})
        for shape in unfit:
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed: \[hey\] .*must have"):
                session.run(op, {given: np.ones(shape)})


def test_own_data_is_shown() -> None:
    given = tf.placeholder(tf.float32, [None])
    op = tf.debugging.assert_shapes({given: (3,)}, data=["mine", given])
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=r"\[mine\] \[1 1\]"):
        session.run(op, {given: np.ones(2)})
