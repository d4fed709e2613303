"""Functions whose argument lists are version 2's in ``tf.compat.v2``: the lists, and what reaches ours."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import inspection
from anabranch.compat.v2 import argument_lists

tf2 = tf.compat.v2
ROWS = [[part.strip() for part in row.split(" | ")] for row in argument_lists.ROWS]


def _named(root: Any, name: str) -> Any:
    for part in name.split("."):
        root = getattr(root, part)
    return root


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_is_what_version_2_has_and_ours_takes_its_arguments(row: list[str]) -> None:
    names, arguments = row[0].split(), [one.split("=")[0].strip() for one in row[1].split(",")]
    arguments = [one for one in arguments if one.isidentifier()]
    changed = dict(item.split("=") for item in (row[2].split() if len(row) > 2 else []) if "=" in item)
    ours = inspect.signature(_named(tf, names[0])).parameters
    assert [changed.get(one, one) for one in arguments if changed.get(one, one) not in ours] == []
    for name in names:
        function = _named(tf2, name)
        spec = inspection.getfullargspec(function)
        assert spec.args == arguments, name
        assert (spec.varargs, spec.varkw, spec.annotations) == (None, None, {})
        with pytest.raises(TypeError, match="too many positional arguments"):
            function(*range(20))


def test_values_by_place() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        counts = tf2.math.confusion_matrix([0, 1, 1], [0, 1, 0], 2, [1, 2, 4])
        joined = tf2.concat([[1], [2]], 0, "joined")
        assert joined.op.name == "joined"
        drawn = tf2.random.poisson([500], [1.0, 100.0], seed=1)
        text = tf2.strings.substr(["héllo"], 1, 2, "UTF8_CHAR")
        image = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
        parts = tf2.split(tf.constant([1, 2, 3]), [1, 2])
        crop = tf2.image.crop_and_resize(image, [[0, 0, 1, 1]], [0], [2, 2])
        near = tf2.debugging.assert_near(1.0, 1.5, 0.0, 0.25, "too far")
        rows = tf2.sparse.segment_sum([[1.0], [2.0]], [0, 1], [0, 2], 4)
        values = session.run([counts, joined, drawn, text, *parts, crop, rows])
        assert values[0].tolist() == [[1, 0], [4, 2]]
        assert values[1].tolist() == [1, 2]
        assert values[2].shape == (500, 2)
        np.testing.assert_allclose(values[2].mean(0), [1, 100], rtol=0.15)
        assert values[3].tolist() == ["él".encode()]
        assert [part.tolist() for part in values[4:6]] == [[1], [2, 3]]
        assert values[6].ravel().tolist() == [0, 3, 12, 15]
        assert values[7].ravel().tolist() == [1, 0, 2, 0]
        with pytest.raises(tf.errors.InvalidArgumentError, match="too far"):
            session.run(near)


def test_transposed_convolutions_and_losses() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, filters = np.ones([1, 2, 2, 1], np.float32), np.ones([3, 3, 1, 1], np.float32)
        wide = tf2.nn.conv2d_transpose(x, filters, [1, 4, 4, 1], 2)
        assert session.run(wide).shape == (1, 4, 4, 1)
        weighed = tf2.nn.weighted_cross_entropy_with_logits([1.0], [0.0], 3.0)
        np.testing.assert_allclose(session.run(weighed), [3 * np.log(2)], 1e-6)
        weights, biases = tf.ones([10, 4]), tf.zeros([10])
        loss = tf2.nn.sampled_softmax_loss(weights, biases, [[1], [2]], tf.ones([2, 4]), 3, 10, seed=3)
        assert session.run(loss).shape == (2,)
        assert session.run(tf2.nn.crelu([-1.0, 2.0])).tolist() == [0, 2, 1, 0]


def test_only_functions_of_the_package_show_no_annotations() -> None:
    def own(x: int, y: str = "") -> float:
        return 0.0

    assert inspection.getfullargspec(tf.cast).annotations == {}
    assert inspection.getfullargspec(tf.log).annotations == {}
    assert inspection.getargspec(tf.nn.relu).args == ["features", "name"]
    assert inspection.getargspec(tf.greater).args == ["x", "y", "name"]
    assert inspection.getfullargspec(own).annotations == {"x": "int", "y": "str", "return": "float"}
