# ruff: noqa: B023  (what is built in a loop runs in the same turn)
"""tf.signal against SciPy: transforms, cosine transforms, windows, frames, short-time transforms, mel weights."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
import scipy.fftpack
import scipy.signal

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.session import SessionOptions
from anabranch.testing.check_gradients import check_gradients

RANDOM = np.random.default_rng(5)
TIERS = pytest.mark.parametrize("tier", ["interpreted", "compiled"])
KINDS = pytest.mark.parametrize("kind", [np.float32, np.float64])


def run(make: object, tier: str = "auto") -> np.ndarray:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        return session.run(make())  # type: ignore[operator]


def near(found: np.ndarray, wanted: np.ndarray, kind: type = np.float64) -> None:
    assert found.dtype in (kind, np.result_type(kind, np.complex64)), found.dtype
    scale = np.max(np.abs(wanted), initial=1e-9)
    np.testing.assert_allclose(found, wanted, atol=(2e-6 if kind == np.float32 else 1e-12) * scale, rtol=0)


@TIERS
@KINDS
def test_transforms_by_name(kind: type, tier: str) -> None:
    x = RANDOM.normal(size=(2, 4, 6, 5)).astype(kind)
    z = (x + 1j * RANDOM.normal(size=x.shape)).astype(np.result_type(kind, np.complex64))
    names = {"": (-1,), "2d": (-2, -1), "3d": (-3, -2, -1)}
    for suffix, axes in names.items():
        for space in (tf, tf.signal, tf.spectral):
            near(run(lambda: getattr(space, "fft" + suffix)(tf.constant(z)), tier), np.fft.fftn(z, axes=axes), kind)
            near(run(lambda: getattr(space, "ifft" + suffix)(tf.constant(z)), tier), np.fft.ifftn(z, axes=axes), kind)
        near(run(lambda: getattr(tf.signal, "rfft" + suffix)(tf.constant(x)), tier), np.fft.rfftn(x, axes=axes), kind)
        near(
            run(lambda: getattr(tf.spectral, "irfft" + suffix)(tf.constant(z)), tier), np.fft.irfftn(z, axes=axes), kind
        )
        for size in (3, 8):
            sizes = [size] * len(axes)
            wanted = np.fft.rfftn(x, sizes, axes)
            near(run(lambda: getattr(tf.signal, "rfft" + suffix)(tf.constant(x), sizes), tier), wanted, kind)
            wanted = np.fft.irfftn(z, sizes, axes)
            near(run(lambda: getattr(tf.signal, "irfft" + suffix)(tf.constant(z), sizes), tier), wanted, kind)


@TIERS
def test_sizes_that_are_not_known(tier: str) -> None:
    x = RANDOM.normal(size=(2, 10))
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        signal, size = tf.placeholder(tf.float64, [None, None]), tf.placeholder(tf.int32, [])
        y = tf.signal.rfft(signal)
        back = tf.signal.irfft(tf.signal.rfft(signal, [size]), [size])
        frames = tf.signal.frame(signal, size - 3, 2, pad_end=True, pad_value=7.0)
        whole = tf.signal.frame(signal, size - 3, 2)
        added = tf.signal.overlap_and_add(whole, 2)
        shifted = tf.signal.ifftshift(tf.signal.fftshift(signal, axes=[-1]), axes=-1)
        cosines = tf.signal.dct(signal, norm="ortho")
        spectrum = tf.signal.stft(signal, 4, 2)
        fetches = [y, back, frames, whole, added, shifted, cosines, spectrum, tf.gradients(tf.real(y), signal)[0]]
        found = session.run(fetches, {signal: x, size: 7})
    near(found[0], np.fft.rfft(x))
    near(found[1], x[:, :7])
    padded = np.pad(x, ((0, 0), (0, 9)), constant_values=7.0)
    near(found[2], np.stack([padded[:, 2 * i : 2 * i + 4] for i in range(5)], 1))
    near(found[3], np.stack([x[:, 2 * i : 2 * i + 4] for i in range(4)], 1))
    near(found[4], x * np.array([1, 1, 2, 2, 2, 2, 2, 2, 1, 1]))
    near(found[5], x)
    near(found[6], scipy.fft.dct(x, norm="ortho"))
    assert found[7].shape == (2, 4, 3)


@KINDS
@pytest.mark.parametrize("norm", [None, "ortho"])
@pytest.mark.parametrize("type_", [1, 2, 3])
def test_cosine_transforms(type_: int, norm: str | None, kind: type) -> None:
    if type_ == 1 and norm is not None:
        with tf.Graph().as_default(), pytest.raises(ValueError, match="Normalization is not supported for the Type-I"):
            tf.signal.dct([1.0, 2.0], 1, norm=norm)
        return
    for size in (2, 5, 8):
        x = RANDOM.normal(size=(3, size)).astype(kind)
        near(
            run(lambda: tf.signal.dct(tf.constant(x), type_, norm=norm)),
            scipy.fft.dct(x.astype(float), type_, norm=norm),
            kind,
        )
        near(
            run(lambda: tf.spectral.idct(tf.constant(x), type_, norm=norm)),
            scipy.fftpack.idct(x.astype(float), type_, norm=norm),
            kind,
        )
        scale = 1 if norm else 2 * (size - 1 if type_ == 1 else size)
        both = run(lambda: tf.signal.idct(tf.signal.dct(tf.constant(x), type_, norm=norm), type_, norm=norm))
        near(both / scale, x, kind)
    for n in (3, 11):
        wanted = scipy.fftpack.idct(x.astype(float), type_, n=n, norm=norm)
        near(run(lambda: tf.signal.idct(tf.constant(x), type_, n=n, norm=norm)), wanted, kind)
        wanted = scipy.fft.dct(x.astype(float), type_, n=n, norm=norm)
        near(run(lambda: tf.signal.dct(tf.constant(x), type_, n=n, norm=norm)), wanted, kind)


@pytest.mark.parametrize("name", ["hann", "hamming"])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows(name: str, periodic: bool) -> None:
    make = getattr(tf.signal, f"{name}_window")
    for size in (1, 2, 8, 9, 16):
        # TensorFlow's periodic windows of odd size are the symmetric ones.
        wanted = scipy.signal.get_window(name, size, fftbins=periodic and size % 2 == 0)
        near(run(lambda: make(size, periodic)), wanted, np.float32)
        near(run(lambda: make(tf.constant(size), periodic, tf.float64)), wanted)


def test_frames() -> None:
    x = RANDOM.normal(size=(3, 11, 2))
    for length, step in ((4, 2), (3, 5), (5, 1), (11, 3), (12, 3)):
        starts = range(0, 11 - length + 1, step)
        wanted = np.stack([x[:, s : s + length] for s in starts], 1) if len(starts) else np.zeros((3, 0, length, 2))
        near(run(lambda: tf.signal.frame(x, length, step, axis=1)), wanted)
        padded = np.pad(x, ((0, 0), (0, length + 11), (0, 0)), constant_values=-1)
        wanted = np.stack([padded[:, s : s + length] for s in range(0, 11, step)], 1)
        near(run(lambda: tf.signal.frame(x, length, step, pad_end=True, pad_value=-1, axis=-2)), wanted)
    with tf.Graph().as_default():
        assert tf.signal.frame(tf.zeros([2, 100]), 10, 5).shape.as_list() == [2, 19, 10]
        for pad_end in (True, False):  # of a signal whose length is known when it runs, as TensorFlow 1.15 gave them
            signal = tf.placeholder(tf.float32, [3, None, 5])
            frames = tf.signal.frame(signal, 16, 8, pad_end=pad_end, axis=1)
            assert frames.shape.as_list() == [3, None, 16, 5]
        assert tf.contrib.signal.overlap_and_add(tf.zeros([2, 19, 10]), 5).shape.as_list() == [2, 100]


def test_overlapping_sums() -> None:
    for frames, length, step in ((4, 6, 2), (5, 7, 3), (1, 4, 4), (3, 5, 5), (4, 3, 2)):
        x = RANDOM.normal(size=(2, frames, length))
        wanted = np.zeros((2, (frames - 1) * step + length))
        for i in range(frames):
            wanted[:, i * step : i * step + length] += x[:, i]
        near(run(lambda: tf.signal.overlap_and_add(x, step)), wanted)


@KINDS
def test_short_time_transforms(kind: type) -> None:
    x = RANDOM.normal(size=(2, 64)).astype(kind)
    window = scipy.signal.get_window("hann", 16)
    frames = np.stack([x[:, 8 * i : 8 * i + 16] * window for i in range(7)], 1)
    near(run(lambda: tf.signal.stft(tf.constant(x), 16, 8)), np.fft.rfft(frames), kind)
    near(run(lambda: tf.contrib.signal.stft(tf.constant(x), 16, 8, fft_length=32)), np.fft.rfft(frames, 32), kind)
    near(
        run(lambda: tf.signal.stft(tf.constant(x), 10, 8, window_fn=None, pad_end=True)).shape[1] * np.ones(1),
        8 * np.ones(1),
    )

    def there_and_back() -> tf.Tensor:
        spectra = tf.signal.stft(tf.constant(x), 16, 4)
        return tf.signal.inverse_stft(spectra, 16, 4, window_fn=tf.signal.inverse_stft_window_fn(4))

    near(run(there_and_back)[:, 16:-16], x[:, 16:-16], kind)
    spectra = np.fft.rfft(RANDOM.normal(size=(3, 8))).astype(np.result_type(kind, np.complex64))
    raw = np.fft.irfft(spectra)
    wanted = np.zeros(3 * 12)
    for i in range(3):
        wanted[12 * i : 12 * i + 8] += raw[i]
    near(run(lambda: tf.signal.inverse_stft(tf.constant(spectra), 12, 12, fft_length=8, window_fn=None)), wanted, kind)


def test_mel_scale() -> None:
    edges = np.linspace(*(1127 * np.log1p(np.array([125.0, 3800.0]) / 700)), 22)
    bins = 1127 * np.log1p(np.linspace(0, 4000, 129) / 700)[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    wanted = np.maximum(0, np.minimum(rising, (edges[2:] - bins) / (edges[2:] - edges[1:-1])))
    near(run(lambda: tf.signal.linear_to_mel_weight_matrix(dtype=tf.float64)), wanted)
    found = run(lambda: tf.contrib.signal.linear_to_mel_weight_matrix(20, tf.constant(129), tf.constant(8000.0)))
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    spectra = RANDOM.normal(size=(2, 3, 20))
    wanted = scipy.fft.dct(spectra) / np.sqrt(40)
    near(run(lambda: tf.signal.mfccs_from_log_mel_spectrograms(spectra)), wanted)


def test_gradients_of_what_is_built() -> None:
    x = RANDOM.normal(size=(2, 32))
    with tf.Graph().as_default():
        signal = tf.placeholder(tf.float64, x.shape)
        spectra = tf.signal.stft(signal, 8, 4)
        power = tf.real(spectra * tf.conj(spectra))
        mel = tf.signal.linear_to_mel_weight_matrix(6, 5, dtype=tf.float64)
        y = tf.signal.mfccs_from_log_mel_spectrograms(tf.log(tf.tensordot(power, mel, 1) + 1.0))
        check_gradients(y, [signal], [x], order=1)
        back = tf.signal.inverse_stft(spectra, 8, 4)
        check_gradients([back, tf.signal.dct(signal, 3, norm="ortho")], [signal], [x], order=2)


@TIERS
def test_errors(tier: str) -> None:
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"Input dimension 0 must have length of at least 8 but got: 4"
    ):
        run(lambda: build("RFFT", np.zeros(4, np.float32), [8]), tier)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Input dimension 0 must have length of at least 5 but got"
    ):
        run(lambda: build("IRFFT", np.zeros(4, np.complex64), [8]), tier)
    with tf.Graph().as_default():
        for make, text in (
            (lambda: tf.signal.rfft2d(tf.zeros([4])), "rank at least 2"),
            (lambda: build("RFFT", tf.zeros([4]), [8, 8]), "fft_length of 2 elements"),
            (lambda: tf.signal.dct([1.0], 5), "Only Types I, II and III"),
            (lambda: tf.signal.dct([1.0], 1), "Type-I DCT requires the dimension to be greater than one"),
            (lambda: tf.signal.dct([1.0], norm="none"), "Unknown normalization"),
            (lambda: tf.signal.hann_window(4, dtype=tf.int32), "a floating dtype"),
            (lambda: tf.signal.overlap_and_add([1.0], 1), "at least rank 2"),
            (lambda: tf.signal.linear_to_mel_weight_matrix(upper_edge_hertz=5000.0), "Nyquist frequency"),
            (
                lambda: tf.signal.linear_to_mel_weight_matrix(lower_edge_hertz=4000.0),
                "lower_edge_hertz 4000.0 >= upper",
            ),
            (lambda: tf.signal.linear_to_mel_weight_matrix(0), "num_mel_bins must be positive"),
            (lambda: tf.signal.frame([1.0], 1, 1, axis=3), "axis=3 of rank 1"),
        ):
            with pytest.raises(ValueError, match=text):
                make()
        with pytest.raises(NotImplementedError, match="axis must be -1"):
            tf.signal.dct([[1.0]], axis=0)


@pytest.mark.parametrize("pad_end", [False, True])
def test_signals_of_unknown_rank(pad_end) -> None:
    """They are taken along their last dimensions."""
    signal = np.random.RandomState(0).randn(2, 3, 32).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        hidden = tf.placeholder_with_default(signal, None)
        pairs = []
        for function in (
            lambda x: tf.signal.frame(x, 5, 3, pad_end=pad_end),
            lambda x: tf.signal.stft(x, 7, 3, fft_length=16, pad_end=pad_end),
            lambda x: tf.signal.overlap_and_add(x, 2),
            lambda x: tf.signal.inverse_stft(tf.signal.stft(x, 8, 4, pad_end=pad_end), 8, 4),
        ):
            unknown = function(hidden)
            assert unknown.shape.ndims is None
            pairs.append((unknown, function(tf.constant(signal))))
        for unknown, known in session.run(pairs):
            np.testing.assert_allclose(unknown, known, atol=1e-5)
        single = tf.signal.frame(tf.placeholder_with_default(signal[0, 0], None), 5, 3)
        np.testing.assert_array_equal(session.run(single)[1], signal[0, 0, 3:8])
        with pytest.raises(ValueError, match="axis=0 of unknown rank"):
            tf.signal.frame(hidden, 5, 3, axis=0)
        with pytest.raises(ValueError, match="dtype must be a floating point type"):
            tf.signal.linear_to_mel_weight_matrix(dtype=tf.int32)
