"""Properties against NumPy: broadcasting, slicing with all masks, reductions. Cases of one example share a step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import anabranch as tf

TIERS = pytest.mark.parametrize(("tier", "examples"), [("interpreted", 60), ("compiled", 6)])
BATCH = 8


def check(tier, examples, case):
    """Runs ``examples`` steps of ``BATCH`` cases; ``case(draw)`` gives a tensor (fed) and what NumPy makes of it."""

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],  # an example is a compilation
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def run(data):
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            feeds = {}
            cases = [case(data.draw, feeds) for _ in range(BATCH)]
            got = session.run([tensor for tensor, _ in cases], feeds)
            for (tensor, expected), value in zip(cases, got, strict=True):
                assert tensor.shape.is_compatible_with(np.shape(expected))
                assert np.shape(value) == np.shape(expected)
                np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)

    run()


def array(draw, shape, dtype=np.float32):
    values = draw(st.lists(st.integers(-5, 5), min_size=7, max_size=7))
    return np.resize(np.array(values, dtype), shape)


def fed(draw, feeds, value):
    """A placeholder for ``value`` that knows its shape, some dimensions of it, its rank, or nothing."""
    known = [dim if draw(st.booleans()) else None for dim in value.shape]
    shape = draw(st.sampled_from([value.shape, known, known, None]))
    found = tf.placeholder(value.dtype, shape)
    feeds[found] = value
    return found


def dims(max_rank=4, smallest=0):
    return st.lists(st.integers(smallest, 4), max_size=max_rank).map(tuple)


@TIERS
def test_broadcasting(tier, examples):
    functions = [
        (tf.add, np.add),
        (tf.multiply, np.multiply),
        (tf.maximum, np.maximum),
        (tf.less, np.less),
        (tf.subtract, np.subtract),
        (tf.equal, np.equal),
    ]

    def case(draw, feeds):
        full = draw(dims())
        shapes = []
        for _ in range(2):
            kept = full[draw(st.integers(0, len(full))) :]
            shapes.append(tuple(1 if draw(st.booleans()) else dim for dim in kept))
        ours, theirs = draw(st.sampled_from(functions))
        x, y = (array(draw, shape) for shape in shapes)
        return ours(fed(draw, feeds, x), fed(draw, feeds, y)), theirs(x, y)

    check(tier, examples, case)


@TIERS
def test_strided_slices(tier, examples):
    def case(draw, feeds):
        shape = draw(dims())
        x = array(draw, shape, np.int32)
        index = []
        used = 0
        ellipsis = False
        while used < len(shape) and draw(st.integers(0, 4)):
            kind = draw(st.sampled_from(["slice", "slice", "slice", "index", "new", "rest"]))
            size = shape[used]
            if kind == "new":
                index.append(None)
            elif kind == "rest" and not ellipsis:
                ellipsis = True
                index.append(Ellipsis)
                used += draw(st.integers(0, len(shape) - used))
            elif kind == "index" and size and not ellipsis:
                index.append(draw(st.integers(-size, size - 1)))
                used += 1
            else:
                bound = st.none() | st.integers(-6, 6)
                stride = draw(st.sampled_from([None, 1, 2, 3, -1, -2]))
                index.append(slice(draw(bound), draw(bound), stride))
                used += 1
        index = tuple(index)
        tensor = fed(draw, feeds, x)
        if any(item is None for item in index) and tensor.shape.ndims is None and draw(st.booleans()):
            tensor.set_shape([None] * x.ndim)
        return tensor[index], x[index]

    check(tier, examples, case)


@TIERS
def test_reductions(tier, examples):
    functions = [
        (tf.reduce_sum, np.sum),
        (tf.reduce_prod, np.prod),
        (tf.reduce_max, np.max),
        (tf.reduce_min, np.min),
        (tf.reduce_mean, np.mean),
    ]

    def case(draw, feeds):
        ours, theirs = draw(st.sampled_from(functions))
        shape = draw(dims(smallest=0 if theirs in (np.sum, np.prod) else 1))
        x = array(draw, shape)
        axes = None
        if draw(st.booleans()):
            chosen = draw(st.lists(st.sampled_from(range(len(shape))), unique=True)) if shape else []
            axes = [axis - len(shape) if draw(st.booleans()) else axis for axis in chosen]
        keep = draw(st.booleans())
        expected = theirs(x, axis=None if axes is None else tuple(axes), keepdims=keep)
        return ours(fed(draw, feeds, x), axes, keepdims=keep), expected

    check(tier, examples, case)
