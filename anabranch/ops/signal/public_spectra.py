"""``tf.signal``: short-time Fourier transforms, mel-frequency weights and cepstral coefficients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes
from anabranch.ops.signal.public_transforms import dct, frame, hann_window, irfft, overlap_and_add, rfft


def _enclosing_power_of_two(value: Any) -> Any:
    if isinstance(value, Tensor):
        number = partial_value(value)
        if not isinstance(number, np.ndarray):
            wide = build("Cast", value, DstT=dtypes.float32)
            power = build("Ceil", build("RealDiv", build("Log", wide), np.float32(np.log(2.0))))
            return build("Cast", build("Pow", np.float32(2), power), DstT=dtypes.int32)
        value = int(number)
    return 1 << max(int(value) - 1, 0).bit_length()


@public("signal.stft", "contrib.signal.stft")
def stft(
    signals: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Callable[..., Any] | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """The short-time Fourier transform.

    Args:
        signals: float32 or float64 ``[..., samples]``.
        frame_length: samples in a window.
        frame_step: samples from one window to the next.
        fft_length: size of the transforms; the next power of two by default.
        window_fn: ``window_fn(frame_length, dtype=dtype)``, or None.
        pad_end: whether windows begin up to the end of the signal, which is padded with zeros.
        name: of the ops.

    Returns:
        complex64 or complex128 ``[..., frames, fft_length // 2 + 1]``.
    """
    with name_scope(name, "stft", [signals, frame_length, frame_step]):
        signals = convert_to_tensor(signals, name="signals", preferred_dtype=dtypes.float32)
        length = _enclosing_power_of_two(frame_length) if fft_length is None else fft_length
        framed = frame(signals, frame_length, frame_step, pad_end=pad_end)
        if window_fn is not None:
            framed = build("Mul", framed, window_fn(frame_length, dtype=framed.dtype.base))
        return rfft(framed, [length])


@public("signal.inverse_stft", "contrib.signal.inverse_stft")
def inverse_stft(
    stfts: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Callable[..., Any] | None = hann_window,
    name: str | None = None,
) -> Tensor:
    """The signal of a short-time Fourier transform.

    Args:
        stfts: complex64 or complex128 ``[..., frames, fft_length // 2 + 1]``.
        frame_length: samples in a window.
        frame_step: samples from one window to the next.
        fft_length: size of the transforms; the next power of two by default.
        window_fn: the window of synthesis: ``tf.signal.inverse_stft_window_fn(frame_step)`` gives back the signal.
        name: of the ops.

    Returns:
        ``[..., samples]``.
    """
    with name_scope(name, "inverse_stft", [stfts]):
        stfts = convert_to_tensor(stfts, name="stfts")
        length = _enclosing_power_of_two(frame_length) if fft_length is None else fft_length
        real = irfft(stfts, [length])
        known = [
            int(item)
            if isinstance(item := (partial_value(n) if isinstance(n, Tensor) else np.asarray(n)), np.ndarray)
            else None
            for n in (frame_length, length)
        ]
        real = real[..., :frame_length]
        if None in known or known[0] > known[1]:  # type: ignore[operator]
            # Windows longer than the transforms: the rest of each is silence.
            missing = build(
                "Maximum", build("Sub", convert_to_tensor(frame_length, dtypes.int32), build("Shape", real)[-1]), 0
            )
            rank = real.shape.ndims
            if rank is None:
                raise ValueError(
                    errors.message(
                        "stfts of unknown rank", "stfts of known rank", "stfts.set_shape([None, None, None])"
                    )
                )
            before = np.zeros((2 * rank - 1,), np.int32)
            paddings = build("Reshape", build("ConcatV2", [before, build("ExpandDims", missing, 0)], 0), [rank, 2])
            real = build("Pad", real, paddings)
        if window_fn is not None:
            real = build("Mul", real, window_fn(frame_length, dtype=real.dtype.base))
        return overlap_and_add(real, frame_step)


@public("signal.inverse_stft_window_fn", "contrib.signal.inverse_stft_window_fn")
def inverse_stft_window_fn(
    frame_step: Any, forward_window_fn: Callable[..., Any] = hann_window, name: str | None = None
) -> Callable[..., Tensor]:
    """A window of synthesis that undoes ``forward_window_fn`` at this step.

    Returns:
        A function ``(frame_length, dtype)`` for ``tf.signal.inverse_stft``.
    """

    def window(frame_length: Any, dtype: Any) -> Tensor:
        with name_scope(name, "inverse_stft_window_fn"):
            length = convert_to_tensor(frame_length, dtypes.int32)
            forward = forward_window_fn(frame_length, dtype=dtype)
            square = build("Square", forward)
            overlaps = build("FloorDiv", build("Sub", build("AddV2", length, frame_step), 1), frame_step)
            missing = build("Sub", build("Mul", overlaps, frame_step), length)
            padded = build("Pad", square, build("Reshape", build("Pack", [0, missing], axis=0), [1, 2]))
            folded = build("Reshape", padded, build("Pack", [overlaps, frame_step], axis=0))
            total = build("Sum", folded, [0], keep_dims=True)
            spread = build("Reshape", build("Tile", total, build("Pack", [overlaps, 1], axis=0)), [-1])
            return build("RealDiv", forward, spread[:length])

    return window


def _mel(frequencies: Any) -> Any:
    """The mel of frequencies in hertz, on the scale of the Hidden Markov Toolkit."""
    ratio = build("RealDiv", frequencies, convert_to_tensor(700.0, frequencies.dtype.base))
    return build("Mul", build("Log", build("AddV2", ratio, 1.0)), 1127.0)


@public("signal.linear_to_mel_weight_matrix", "contrib.signal.linear_to_mel_weight_matrix")
def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: Any = 129,
    sample_rate: Any = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Triangular weights ``[num_spectrogram_bins, num_mel_bins]`` that turn linear spectra into mel-scaled ones.

    Args:
        num_mel_bins: bands of the result.
        num_spectrogram_bins: bins of the spectra, from 0 to half of the sample rate.
        sample_rate: in hertz.
        lower_edge_hertz: where the first band begins.
        upper_edge_hertz: where the last band ends.
        dtype: of the result.
        name: of the ops.
    """
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError(
            f"dtype must be a floating point type. Got: {dtype}\n"
            + errors.message(f"dtype={dtype.name}", "floats", "dtype=tf.float32")
        )
    given = {"num_mel_bins": num_mel_bins, "sample_rate": sample_rate, "upper_edge_hertz": upper_edge_hertz}
    for key, value in given.items():
        if not isinstance(value, Tensor) and value <= 0:
            raise ValueError(
                f"{key} must be positive. Got: {value}\n"
                + errors.message(f"{key}={value}", "a positive number", f"{key}=8000")
            )
    if lower_edge_hertz < 0 or lower_edge_hertz >= upper_edge_hertz:
        raise ValueError(
            f"lower_edge_hertz {lower_edge_hertz} >= upper_edge_hertz {upper_edge_hertz}\n"
            + errors.message(
                f"a band from {lower_edge_hertz} to {upper_edge_hertz} Hz",
                "0 <= lower < upper",
                "lower_edge_hertz=125.0",
            )
        )
    if not isinstance(sample_rate, Tensor) and upper_edge_hertz > sample_rate / 2:
        raise ValueError(
            f"upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / 2). Got {upper_edge_hertz} "
            f"for sample_rate: {sample_rate}\n"
            + errors.message(f"{upper_edge_hertz} Hz", f"at most {sample_rate / 2} Hz", "a higher sample_rate")
        )
    with name_scope(name, "linear_to_mel_weight_matrix", [sample_rate]):
        zero = convert_to_tensor(0.0, dtype)
        rate = convert_to_tensor(sample_rate) if isinstance(sample_rate, Tensor) else np.array(sample_rate, dtype.np)
        rate = build("Cast", rate, DstT=dtype) if isinstance(rate, Tensor) else rate
        nyquist = build("RealDiv", convert_to_tensor(rate, dtype), convert_to_tensor(2.0, dtype))
        # The first bin, the mean of the signal, belongs to no band.
        linear = build("LinSpace", zero, nyquist, convert_to_tensor(num_spectrogram_bins, dtypes.int32))[1:]
        bins = build("ExpandDims", _mel(linear), 1)
        low, high = (_mel(convert_to_tensor(edge, dtype)) for edge in (lower_edge_hertz, upper_edge_hertz))
        edges = build("LinSpace", low, high, num_mel_bins + 2)
        lower, centre, upper = edges[:-2], edges[1:-1], edges[2:]
        rising = build("RealDiv", build("Sub", bins, lower), build("Sub", centre, lower))
        falling = build("RealDiv", build("Sub", upper, bins), build("Sub", upper, centre))
        weights = build("Maximum", zero, build("Minimum", rising, falling))
        return build("Pad", weights, [[1, 0], [0, 0]])


@public("signal.mfccs_from_log_mel_spectrograms", "contrib.signal.mfccs_from_log_mel_spectrograms")
def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Tensor:
    """Mel-frequency cepstral coefficients ``[..., bands]`` of logarithmic mel spectra ``[..., bands]``."""
    with name_scope(name, "mfccs_from_log_mel_spectrograms", [log_mel_spectrograms]):
        spectra = convert_to_tensor(log_mel_spectrograms)
        bands = None if spectra.shape.raw is None else spectra.shape.raw[-1]
        if bands == 0:
            raise ValueError(
                "num_mel_bins must be positive. Got: 0\n"
                + errors.message("spectra of no bands", "spectra of one band or more", "num_mel_bins=20")
            )
        kind = spectra.dtype.base
        count = np.array(bands, kind.np) if bands is not None else build("Cast", build("Shape", spectra)[-1], DstT=kind)
        return build("Mul", dct(spectra, type=2), build("Rsqrt", build("Mul", count, 2.0)))
