"""What summary ops and their functions refuse, and the names from before version 1.0."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.protos import summary_pb2
from anabranch.ops.summary import messages as summary_ops
from anabranch.testing.kernels import run_op


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def value_of(tensor):
    with tf.Session() as session:
        (value,) = tf.Summary.FromString(session.run(tensor)).value
    return value


FLOATS = np.zeros((1, 1, 1, 4), np.float32)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "told"),
    [
        ("ScalarSummary", (["a", "b"], [1.0]), {}, r"not the same shape: \[2\] != \[1\]"),
        ("ScalarSummary", ("{x}", [1.0]), {}, r"\[\] != \[1\] \(tag '\{x\}'\)"),
        ("HistogramSummary", ("h", [1.0, np.nan]), {}, "Nan in summary histogram for: HistogramSummary"),
        ("HistogramSummary", ("h", [np.inf]), {}, "Infinity in summary histogram for"),
        ("HistogramSummary", (["h"], [1.0]), {}, "tags must be a scalar"),
        ("ImageSummary", ("i", np.zeros((1, 2, 2, 2), np.float32)), {}, "last dim 1, 3, or 4, not"),
        ("ImageSummary", ("i", np.zeros((1, 0, 2, 3), np.float32)), {}, "images of no pixels"),
        ("ImageSummary", ("i", FLOATS), {"bad_color": np.zeros(3, np.uint8)}, "bad_color must"),
        ("AudioSummary", ("a", np.zeros((1, 2), np.float32)), {"sample_rate": 0.0}, "sample_rate must be > 0"),
        ("AudioSummaryV2", ("a", np.zeros(3, np.float32), np.float32(1)), {}, "must be 3-D or 2-D"),
        ("TensorSummaryV2", ("t", 1.0, b"\x0a\xff"), {}, "Could not parse the summary metadata"),
        ("MergeSummary", (b"\x0a\xff",), {"N": 1}, "Could not parse one of the summary inputs"),
    ],
)
def test_bad_values(op, inputs, attrs, told):
    with pytest.raises(tf.errors.InvalidArgumentError, match=told):
        run_op(op, *inputs, **attrs)


def test_wrong_shapes_while_the_graph_is_built():
    wrong = tf.summary.image("i", tf.zeros([1, 4, 4, 2]))  # a branch that is not taken may hold it
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="last dim 1, 3, or 4, not"):
        sess.run(wrong)
    with pytest.raises(ValueError, match="rank 4"):
        tf.summary.image("i", tf.placeholder(tf.float32, [4, 4, 3]))
    with pytest.raises(ValueError, match="rank 3"):
        tf.summary.audio("a", tf.placeholder(tf.float32, [1, 1, 1, 1]), 1.0)
    with pytest.raises(TypeError, match="complex128"):
        tf.summary.histogram("h", tf.constant(1j))


def test_histogram_of_one_bucket():
    # 1.0 lies in [limit, limit * 1.1); all that is empty below is one bucket, and so is all above.
    value = value_of(tf.summary.histogram("h", [1.0, 1.0])).histo
    assert (value.num, value.sum, value.sum_squares, value.min, value.max) == (2, 2, 2, 1, 1)
    assert list(value.bucket) == [0, 2, 0]
    low, high, last = value.bucket_limit
    assert low <= 1 < high < low * 1.11
    assert last == np.finfo(np.float64).max


def test_names_from_before_version_1():
    summaries = [
        tf.scalar_summary("a b", 1.0),
        tf.scalar_summary(["p", "q"], [1.0, 2.0], name="two"),
        tf.histogram_summary("h", [1.0]),
        tf.image_summary("i", np.zeros((1, 1, 1, 1), np.float32), max_images=1),
        tf.audio_summary("s", np.zeros((1, 4), np.float32), 8000.0),
    ]
    names = ["ScalarSummary", "two", "HistogramSummary", "ImageSummary", "AudioSummary"]
    assert [item.op.name for item in summaries] == names
    merged = tf.merge_all_summaries()
    with tf.Session() as session:
        found = tf.Summary.FromString(session.run(merged))
    assert [value.tag for value in found.value] == ["a b", "p", "q", "h", "i/image", "s/audio/0"]
    assert tf.merge_all_summaries("none") is None
    assert tf.contrib.deprecated.scalar_summary is tf.scalar_summary
    assert tf.merge_summary(summaries[:1], collections=["c"]) is tf.get_collection("c")[0]


def test_the_old_op_of_sound():
    wave = np.array([[0.0, 0.25, -1.0]], np.float32)
    old = tf.build_op("AudioSummary", "a", wave, sample_rate=8000.0)
    assert value_of(old) == value_of(tf.build_op("AudioSummaryV2", "a", wave, 8000.0))


def test_descriptions_and_messages():
    tensor = tf.build_op("TensorSummary", 1.0, description='{"typeHint": "scalar"}', name="t")
    assert tf.summary.get_summary_description(tensor.op.node_def).type_hint == "scalar"
    assert value_of(tensor).node_name == "t"
    with pytest.raises(ValueError, match="Can't get_summary_description on Const"):
        tf.summary.get_summary_description(tf.constant(1).op.node_def)
    assert tf.summary.Summary is tf.Summary
    assert tf.summary.SummaryDescription is tf.SummaryDescription
    assert tf.summary.Event is tf.Event


def test_a_graph_keeps_its_summaries():
    tf.summary.image("i", np.zeros((1, 1, 1, 3), np.float32))
    tf.summary.scalar("s", 1.0)
    given = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default(), tf.Session() as session:
        found = tf.import_graph_def(given, return_elements=["i:0", "s:0"], name="")
        tags = [tf.Summary.FromString(item).value[0].tag for item in session.run(found)]
    assert tags == ["i/image/0", "s"]


def test_places_of_values_among_the_limits():
    limits = summary_ops._LIMITS
    with np.errstate(over="ignore"):
        near = np.concatenate([limits, np.nextafter(limits, np.inf), np.nextafter(limits, -np.inf)])
    bits = np.random.default_rng(0).integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64)
    values = np.concatenate([near, [0.0, -0.0, 5e-324, -5e-324], bits])
    values = values[np.isfinite(values)]
    np.testing.assert_array_equal(summary_ops._places(values), np.searchsorted(limits, values, side="right"))


@pytest.mark.parametrize("count", [1, 5, 32])
def test_few_values_are_counted_as_many_are(count):
    values = np.random.default_rng(count).normal(size=count)
    few, many = summary_pb2.HistogramProto(), summary_pb2.HistogramProto()
    assert summary_ops._count_few(few, values.tolist()) == summary_ops._count_many(many, values)
    assert few == many
    assert few.sum != 0
