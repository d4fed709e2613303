"""Image files of every kind against the pixels that TensorFlow reads in them."""

from __future__ import annotations

import base64
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf

pytest.importorskip("PIL")
pytest.importorskip("simplejpeg")
ROOT = Path(__file__).parents[3]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "decoded_images.json").read_text())
_spec = importlib.util.spec_from_file_location(
    "decoded_images", ROOT / "tools" / "golden" / "kernels" / "decoded_images.py"
)
recorder = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorder)


@pytest.mark.parametrize("name", sorted(GOLDEN["files"]))
def test_pixels(name):
    own = recorder.pixels(tf, {name: GOLDEN["files"][name]})[name]
    expected = GOLDEN["pixels"][name]
    assert sorted(own) == sorted(expected)
    assert [call for call in expected if own[call] != expected[call]] == []


def test_a_file_that_is_cut_off():
    data = base64.b64decode(GOLDEN["files"]["444.jpg"])[:-80]
    whole, cut = tf.image.decode_jpeg(data), tf.image.decode_jpeg(data, try_recover_truncated=True)
    with tf.Session() as session:
        assert session.run(cut).shape == (recorder.HEIGHT, recorder.WIDTH, 3)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Premature end of JPEG file"):
            session.run(whole)
        part = tf.image.decode_jpeg(data, acceptable_fraction=0.5)
        with pytest.raises(tf.errors.InvalidArgumentError, match="acceptable_fraction counts no rows"):
            session.run(part)


@pytest.mark.parametrize(
    ("call", "name", "match"),
    [
        (lambda x: tf.image.decode_jpeg(x, channels=4), "444.jpg", "channels must be 0, 1, or 3 for JPEG, got 4"),
        (lambda x: tf.image.decode_png(x, channels=2), "grey.png", r"0 or one of \(1, 3, 4\)"),
        (tf.image.decode_jpeg, "three.gif", "a GIF file of 3 frames"),
        (lambda x: tf.image.decode_bmp(x, channels=3), "up32.bmp", "channels attribute 3"),
        (lambda x: tf.image.decode_bmp(x[:-40]), "up32.bmp", "pixels from byte 54"),
        (tf.image.decode_jpeg, "up32.bmp", r"decode_bmp\(x\)"),
        (lambda x: tf.image.decode_and_crop_jpeg(x, [0, 0, 1, 1]), "grey.png", r"decode_png\(x\)"),
        (lambda x: tf.image.decode_png(x, dtype=tf.uint16), "grey.jpg", "which alone has 16 bits"),
        (tf.image.decode_image, "text.txt", "no image"),
    ],
)
def test_what_cannot_be_read(call, name, match):
    data = base64.b64decode(GOLDEN["files"][name])

    def run():
        with tf.Session() as session:
            return session.run(call(data))

    with pytest.raises((ValueError, tf.errors.InvalidArgumentError, tf.errors.UnimplementedError), match=match):
        run()


def test_a_part_of_a_file_is_that_part_of_its_pixels():
    data = base64.b64decode(GOLDEN["files"]["420.jpg"])
    with tf.Session() as session:
        whole, part = session.run([tf.image.decode_jpeg(data), tf.image.decode_and_crop_jpeg(data, [2, 3, 4, 5])])
    np.testing.assert_array_equal(part, whole[2:6, 3:8])
