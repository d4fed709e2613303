"""Ops of models for serving: what is refused, shapes, gradients, generators; values are in test_raw_golden.py."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build, build_operation
from anabranch.testing import check_gradients

ROWS, VALUES = np.int64([0, 2, 2, 5]), np.float32([1, 2, 3, 4, 5])


def run(type_name, *inputs, tier="auto", **attrs):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        op = build_operation(type_name, list(inputs), attrs, None)
        found = session.run(list(op.outputs))
        for output, value in zip(op.outputs, found, strict=True):
            assert output.shape.is_compatible_with(np.shape(value))
        return found


# ------------------------------------------------------------------------------------------------------------- unicode
DECODE = {"input_encoding": "UTF-8"}


@pytest.mark.parametrize(
    ("type_name", "inputs", "attrs", "told"),
    [
        ("UnicodeDecode", [[b"\xff"]], {**DECODE, "errors": "strict"}, "Invalid formatting on input string"),
        ("UnicodeDecodeWithOffsets", [[b"a"]], {"input_encoding": "nonsense"}, "input encoding: nonsense"),
        ("UnicodeDecode", [[b"a"]], {"input_encoding": "rot13"}, "input encoding: rot13"),
        ("UnicodeDecode", [[b"a"]], {"input_encoding": "unicode_escape"}, "input encoding: unicode_escape"),
        ("UnicodeDecode", [[b"a"]], {"input_encoding": "a\0b"}, "Could not create converter"),
        ("UnicodeDecode", [[b"a"]], {**DECODE, "replacement_char": 0x110000}, "replacement_char out of unicode"),
        ("UnicodeTranscode", [[b"\xff"]], {**DECODE, "output_encoding": "UTF-8", "errors": "strict"}, "Invalid format"),
        ("UnicodeEncode", [[-1], [0, 1]], {"output_encoding": "UTF-8", "errors": "strict"}, "or is a surrogate"),
        ("UnicodeEncode", [[1, 2], [1, 2]], {"output_encoding": "UTF-8"}, "must be zero"),
        ("UnicodeEncode", [[1, 2], [0, 2, 1, 2]], {"output_encoding": "UTF-8"}, "ascending order"),
        ("UnicodeEncode", [[1, 2], [0, 3]], {"output_encoding": "UTF-8"}, "equal to length"),
        ("UnicodeEncode", [[1, 2], []], {"output_encoding": "UTF-8"}, "should contain elements"),
    ],
)
def test_texts_that_are_refused(type_name, inputs, attrs, told) -> None:
    given = [inputs[0], np.int64(inputs[1])] if len(inputs) == 2 else inputs
    with pytest.raises(tf.errors.InvalidArgumentError, match=told):
        run(type_name, *given, **attrs)


def test_marks_of_the_byte_order() -> None:
    texts = ["aé".encode("utf-16-le"), "aé".encode("utf-16-be")]
    marked = [b"\xff\xfe" + texts[0], b"\xfe\xff" + texts[1], texts[1]]
    splits, codes, starts = run("UnicodeDecodeWithOffsets", marked, input_encoding="UTF-16")
    assert codes.tolist() == [97, 233] * 3
    assert starts.tolist() == [2, 4, 2, 4, 0, 2]
    assert splits.tolist() == [0, 2, 4, 6]


def test_transcoding_by_the_public_name() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        found = tf.strings.unicode_transcode([b"caf\xe9"], "ISO-8859-1", "UTF-8")
        assert found.shape == [1]
        assert session.run(found).tolist() == ["café".encode()]


# -------------------------------------------------------------------------------------------------------------- images
@pytest.mark.parametrize("kernel_type", ["lanczos3", "triangle", "mitchellcubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_gradients_of_scaled_images(kernel_type, antialias) -> None:
    attrs = {"kernel_type": kernel_type, "antialias": antialias}
    check_gradients(
        lambda images: build("ScaleAndTranslate", images, [4, 7], [0.7, 1.3], [0.2, -0.4], **attrs),
        [np.random.RandomState(0).randn(2, 5, 6, 2).astype(np.float32)],
        order=1,
    )


def test_scaling_by_what_is_fed_is_one_program() -> None:
    image = np.arange(2 * 4 * 4, dtype=np.float32).reshape(1, 4, 4, 2)
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        scale = tf.placeholder(tf.float32, [2])
        found = build("ScaleAndTranslate", image, [4, 4], scale, [0.0, 0.0], kernel_type="triangle")
        assert found.shape == [1, 4, 4, 2]
        np.testing.assert_allclose(session.run(found, {scale: [1, 1]}), image, rtol=1e-6)
        half = session.run(found, {scale: [0.5, 0.5]})
        assert not half[0, 2:].any()  # outside
        with pytest.raises(tf.errors.InvalidArgumentError, match="scale must be greater than zero"):
            session.run(found, {scale: [0, 1]})


@pytest.mark.parametrize(
    ("attrs", "scale", "size", "told"),
    [
        ({"kernel_type": "sinc"}, [1.0, 1.0], [2, 2], "kernel_type='sinc'"),
        ({}, [1.0], [2, 2], "scale of 1 elements"),
        ({}, [1.0, 1.0], [2, 2, 2], "size of 3 elements"),
    ],
)
def test_scaling_that_is_refused(attrs, scale, size, told) -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match=told):
        build("ScaleAndTranslate", np.zeros([1, 2, 2, 1], np.float32), size, scale, [0.0, 0.0], **attrs)


def test_the_gradient_op_has_the_shape_of_the_image() -> None:
    (found,) = run(
        "ScaleAndTranslateGrad",
        np.ones([1, 2, 2, 1], np.float32),
        np.zeros([1, 4, 4, 1], np.float32),
        np.float32([0.5, 0.5]),
        np.float32([0, 0]),
        kernel_type="box",
    )
    np.testing.assert_allclose(found, np.full([1, 4, 4, 1], 0.25))


# --------------------------------------------------------------------------------------------------------- ragged rows
@pytest.mark.parametrize(
    ("type_name", "inputs", "attrs", "told"),
    [
        ("RaggedRange", [np.int32([0, 1]), np.int32([3, 4]), np.int32([1, 0])], {}, "delta != 0"),
        ("RaggedRange", [np.int32([0, 1]), np.int32([3, 4, 5]), np.int32(1)], {}, "must have the same shape"),
        ("RaggedRange", [np.float32(0), np.float32(np.inf), np.float32(1)], {"T": tf.float32}, "at most 2147483647"),
        ("RaggedGather", [[ROWS], VALUES, np.int32([3])], {"OUTPUT_RAGGED_RANK": 1}, r"is not in \[0, 3\)"),
        ("RaggedGather", [[ROWS], VALUES[:4], np.int32([1])], {"OUTPUT_RAGGED_RANK": 1}, "must end with the number"),
        ("RaggedTensorToSparse", [[np.int64([0, 3, 2, 5])], VALUES], {}, "must start with 0 and not fall"),
        ("UnsortedSegmentJoin", [[b"a", b"b"], np.int32([0, 2]), np.int32(2)], {}, r"is not in \[0, 2\)"),
        ("UnsortedSegmentJoin", [[b"a"], np.int32([0]), np.int32(-1)], {}, "num_segments must be at least 0"),
        ("UnsortedSegmentJoin", [[b"a", b"b"], np.int32([0]), np.int32(2)], {}, "must be a prefix"),
    ],
)
def test_rows_that_are_refused(type_name, inputs, attrs, told) -> None:
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=told):
        run(type_name, *inputs, **attrs)


def test_a_rank_that_does_not_fit_the_indices() -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="OUTPUT_RAGGED_RANK=2 for indices"):
        build("RaggedGather", [ROWS], VALUES, np.int32([0]), OUTPUT_RAGGED_RANK=2)


@pytest.mark.parametrize(
    ("type_name", "rest", "attrs", "output"),
    [("RaggedGather", [np.int32([2, 0, 2])], {"OUTPUT_RAGGED_RANK": 1}, -1), ("RaggedTensorToSparse", [], {}, 1)],
)
def test_gradients_of_ragged_values(type_name, rest, attrs, output) -> None:
    def squares(values):
        op = build_operation(type_name, [[ROWS], values, *rest], attrs, None)
        return tf.square(op.outputs[output])

    check_gradients(squares, [VALUES.astype(np.float64)])


# ---------------------------------------------------------------------------------------------------------- generators
# What TensorFlow draws from a generator of seed 7, one after another, and its counter after each.
DRAWS = [
    ("StatefulStandardNormalV2", [], {}, [-1.3240396, 0.28785667, -0.8757901], 775),
    ("StatefulUniform", [], {}, [0.46447873, 0.76275814, 0.315513], 1543),
    ("StatefulUniformInt", [np.int64(0), np.int64(10)], {}, [9, 3, 1], 2311),
    ("StatefulUniformFullInt", [], {"dtype": tf.uint32}, [3491739164, 3612597591, 3924873333], 3079),
    ("StatefulTruncatedNormal", [], {}, [0.5261569, -0.3341134, -1.4255022], 3847),
]


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_generators_draw_what_tensorflow_draws(tier) -> None:
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        state = tf.get_variable("state", initializer=np.int64([7, 0, 0]), use_resource=True)
        made = [build(name, state.handle, np.int64(1), [3], *rest, **attrs) for name, rest, attrs, _, _ in DRAWS]
        session.run(state.initializer)
        for drawn, (_, _, _, wanted, counter) in zip(made, DRAWS, strict=True):
            np.testing.assert_allclose(session.run(drawn), wanted, rtol=1e-6)
            assert session.run(state).tolist() == [counter, 0, 0]


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_skipping_and_its_carry(tier) -> None:
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        state = tf.get_variable("state", initializer=np.int64([7, 0, 9]), use_resource=True)
        read = build("RngReadAndSkip", state.handle, np.int32(3), np.uint64(3))
        skip = build_operation("RngSkip", [state.handle, np.int64(1), np.int64(2)], {}, None)
        session.run(state.initializer)
        assert session.run(read).tolist() == [7, 0, 9]
        session.run(skip)
        assert session.run(state).tolist() == [7 + 5 * 256, 0, 9]
        state.load(np.int64([-1, 4, 9]), session)
        session.run(skip)
        assert session.run(state).tolist() == [511, 5, 9]


def test_generators_that_are_refused() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        state = tf.get_variable("state", initializer=np.int64([7, 0, 9]), use_resource=True)
        short = tf.get_variable("short", initializer=np.int64([7, 0]), use_resource=True)
        session.run(tf.global_variables_initializer())
        with pytest.raises(ValueError, match="a generator's state of 2 numbers"):
            build("RngReadAndSkip", short.handle, np.int32(1), np.uint64(3))
        with pytest.raises(tf.errors.InvalidArgumentError, match="Unsupported algorithm id: 2"):
            session.run(build("StatefulUniform", state.handle, np.int64(2), [3]))
        assert session.run(state).tolist() == [7, 0, 9]


# -------------------------------------------------------------------------------------------------------- in functions
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_parts_of_functions(tier) -> None:
    assert run("DeviceIndex", tier=tier, device_names=["CPU", "GPU"]) == [0]
    assert run("DeviceIndex", tier=tier, device_names=["GPU", "CPU"]) == [1]
    assert run("DeviceIndex", tier=tier, device_names=["GPU", "TPU"]) == [2]
    (zeros,) = run("FakeParam", tier=tier, dtype=tf.int32, shape=[2, 3])
    assert zeros.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert run("FakeParam", tier=tier, dtype=tf.string, shape=[None, 2])[0].shape == (0, 2)
    assert run("Empty", [2], tier=tier, dtype=tf.string)[0].tolist() == [b"", b""]
    with tf.Graph().as_default(), pytest.raises(NotImplementedError, match="a FakeParam of variant"):
        build("FakeParam", dtype=tf.variant, shape=[])


def test_a_branch_for_another_device_is_not_taken() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        index = build("DeviceIndex", device_names=["GPU", "CPU"])
        assert session.run(tf.switch_case(index, [lambda: 1, lambda: 2])) == 2


def test_scripts_of_characters() -> None:
    """UnicodeScript: numbers of TensorFlow 1.15.5."""
    codes = [[0x61, 0x8A9E, 0x21], [0x430, 0x3B1, 0xD800], [-5, 0x110000, 0x10FFFF]]
    with tf.Graph().as_default(), tf.Session() as session:
        scripts = tf.strings.unicode_script(tf.placeholder_with_default(np.int32(codes), [None, 3]))
        assert scripts.shape.as_list() == [None, 3]
        assert session.run(scripts).tolist() == [[25, 17, 0], [8, 14, 103], [-1, -1, 103]]
