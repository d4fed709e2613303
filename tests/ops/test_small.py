"""tf.timestamp, tf.lbeta, tf.audio by name, errors of small ops; values are in the rows and in test_raw_golden.py."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.special

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.session import SessionOptions


def run(make: object, tier: str = "auto") -> object:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        return session.run(make())  # type: ignore[operator]


def test_the_clock_goes() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        now = tf.timestamp()
        first = session.run(now)
        assert abs(first - time.time()) < 60
        time.sleep(0.001)
        assert session.run(now) > first


def test_functions_by_name() -> None:
    x = np.array([[0.5, 2.0, 3.0], [1.0, 1.0, 4.0]])
    found = run(lambda: [tf.lbeta(x), tf.unravel_index([5, 3], [2, 3]), tf.contrib.nn.nth_element(x, 1)])
    np.testing.assert_allclose(found[0], scipy.special.gammaln(x).sum(1) - scipy.special.gammaln(x.sum(1)))
    assert found[1].tolist() == [[1, 1], [2, 0]]
    assert found[2].tolist() == [2.0, 1.0]


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_sound_there_and_back(tier: str) -> None:
    sound = np.sin(np.arange(800) * 0.3).astype(np.float32)[:, None] * np.float32([0.5, 0.25])

    def make() -> list[tf.Tensor]:
        decoded = tf.audio.decode_wav(tf.audio.encode_wav(sound, 16000), desired_samples=800)
        spectrum = build("AudioSpectrogram", decoded.audio, window_size=400, stride=100, magnitude_squared=True)
        return [decoded.audio, decoded.sample_rate, build("Mfcc", spectrum, 16000)]

    audio, rate, coefficients = run(make, tier)
    np.testing.assert_allclose(audio, sound, atol=2e-5)
    assert rate == 16000
    assert coefficients.shape == (2, 5, 13)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_errors(tier: str) -> None:
    def failing(make: object, text: str) -> None:
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            run(make, tier)

    failing(lambda: tf.audio.decode_wav(b"RIFX").audio, "Header mismatch: Expected RIFF and WAVE")
    failing(lambda: tf.audio.decode_wav(b"RIFF\0\0\0\0WAVE").audio, "No data chunk found in WAV")
    failing(lambda: build("UnravelIndex", [9], [2, 3]), "index is out of bound as with dims")
    failing(lambda: build("DataFormatDimMap", [4]), r"Source dimensions must be in \[-4, 4\)")
    failing(lambda: build("DataFormatVecPermute", [1, 2, 3]), "1D input must be of size 4 or 2")
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="permutations of each other"):
            build("DataFormatDimMap", [1], dst_format="NCHX")
        with pytest.raises(ValueError, match="Input must have last dimension > n = 3 but is 3"):
            tf.contrib.nn.nth_element([1.0, 2.0, 3.0], 3)
        with pytest.raises(ValueError, match="1 for batch and channels"):
            build("FusedPadConv2D", np.ones((1, 4, 4, 1), np.float32), [[0, 0]] * 4, np.ones((1, 1, 1, 1), np.float32),
                  mode="REFLECT", strides=[1, 1, 1, 2], padding="SAME")  # fmt: skip
