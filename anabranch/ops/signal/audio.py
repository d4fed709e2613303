"""Sound: WAV files, spectrograms, and mel-frequency cepstral coefficients, as graphs of speech models have them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.cache import memoized
from anabranch.core.contract.api import public_op
from anabranch.core.contract.opdef import PURE, Bool, Float, Int, NotDifferentiable, Op

_F = np.float32
_NO_GRADIENT = NotDifferentiable("TensorFlow has no gradient of it")


# ---------------------------------------------------------------------------------------------------------------- files
def _bad(ctx: Any, text: str, given: str, expected: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        None, ctx.op, f"{text}\n" + errors.message(given, expected, "write the file with tf.audio.encode_wav")
    )


def _chunks(ctx: Any, data: bytes) -> dict[bytes, bytes]:
    """The chunks of a WAV file, by name."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise _bad(ctx, "Header mismatch: Expected RIFF and WAVE", f"{data[:12]!r}", "a WAV file")
    chunks: dict[bytes, bytes] = {}
    place = 12
    while place + 8 <= len(data) and b"data" not in chunks:
        name, size = data[place : place + 4], struct.unpack("<I", data[place + 4 : place + 8])[0]
        chunks[name] = data[place + 8 : place + 8 + size]
        place += 8 + size
    return chunks


class DecodeWav(Op):
    """A WAV file of 16 bits as ``audio`` ``[samples, channels]`` from -1 to 1, and its sample rate."""

    signature = "contents: string -> audio: float, sample_rate: int32"
    attrs = {"desired_channels": Int(-1), "desired_samples": Int(-1)}
    effect = PURE
    gradient = NotDifferentiable("the input is a file")

    def shape(c):
        c.with_rank("contents", 0)
        channels, samples = c.attrs["desired_channels"], c.attrs["desired_samples"]
        return [(samples if samples >= 0 else None, channels if channels > 0 else None), ()]

    def bound(c):
        return [None, ()]

    def host_kernel(ctx, inputs, attrs):
        chunks = _chunks(ctx, bytes(np.asarray(inputs[0], object).item()))
        form = chunks.get(b"fmt ", b"")
        if len(form) < 16 or b"data" not in chunks:
            raise _bad(ctx, "No data chunk found in WAV", f"chunks {sorted(chunks)}", "fmt and data")
        kind, channels, rate, _, block, bits = struct.unpack("<HHIIHH", form[:16])
        if kind != 1 or bits != 16:
            raise _bad(
                ctx,
                f"Bad audio format for WAV: Expected 1 (PCM) and 16 bits, but got {kind} and {bits}",
                f"format {kind} of {bits} bits",
                "1, plain numbers, of 16 bits",
            )
        if channels < 1 or block != 2 * channels or rate > np.iinfo(np.int32).max:
            raise _bad(
                ctx,
                "Bad audio format for WAV: frames of another size than the channels, or a rate that no int32 holds",
                f"{channels} channels in frames of {block} bytes, {rate} frames a second",
                "2 bytes for each of at least one channel, and a rate below 2^31",
            )
        count = len(chunks[b"data"]) // block
        audio = np.frombuffer(chunks[b"data"], "<i2", count * channels).astype(_F).reshape(count, channels) / _F(32768)
        wanted = attrs["desired_channels"]
        if wanted > 0 and wanted != channels:
            audio = audio[:, :wanted] if wanted < channels else np.repeat(audio[:, :1], wanted, axis=1)
        samples = attrs["desired_samples"]
        if samples >= 0:
            audio = np.pad(audio[:samples], ((0, max(samples - len(audio), 0)), (0, 0)))
        return audio, np.int32(rate)


class EncodeWav(Op):
    """A WAV file of 16 bits of ``audio`` ``[samples, channels]`` from -1 to 1."""

    signature = "audio: float, sample_rate: int32 -> contents: string"
    effect = PURE
    gradient = NotDifferentiable("the output is a file")

    def shape(c):
        c.with_rank("audio", 2)
        c.with_rank("sample_rate", 0)
        return ()

    def host_kernel(ctx, inputs, attrs):
        audio, rate = inputs
        channels = audio.shape[1]
        ctx.check(
            0 < channels < 1 << 15 and 0 < int(rate) * channels * 2 < 1 << 32,
            errors.InvalidArgumentError,
            f"A WAV file of {channels} channels at {int(rate)} samples a second cannot be written: both must be above "
            "0, with less than 2**32 bytes a second",
        )
        scaled = np.clip(np.trunc(audio * _F(32768) + np.copysign(_F(0.5), audio)), -32768, 32767)
        data = scaled.astype("<i2").tobytes()
        form = struct.pack("<HHIIHH", 1, channels, int(rate), int(rate) * channels * 2, channels * 2, 16)
        body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(data)) + data
        file = np.empty((), object)
        file[()] = b"RIFF" + struct.pack("<I", len(body)) + body
        return file


# -------------------------------------------------------------------------------------------------------------- spectra
class AudioSpectrogram(Op):
    """Magnitudes of the transforms of windows (Hann's) of ``input`` ``[samples, channels]``.

    ``[channels, windows, bins]``, squared if ``magnitude_squared``; transforms have the next power of two as length.
    """

    signature = "input: float -> spectrogram: float"
    attrs = {"window_size": Int(), "stride": Int(), "magnitude_squared": Bool(False)}
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        samples, channels = c.with_rank("input", 2)
        size, stride = c.attrs["window_size"], c.attrs["stride"]
        if size < 2 or stride < 1:
            raise ValueError(
                errors.message(f"window_size={size}, stride={stride}", "at least 2, and at least 1", "window_size=256")
            )
        count = None if samples is None else max((samples - size) // stride + 1, 0)
        return (channels, count, _length(size) // 2 + 1)

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        x = inputs[0]
        size, stride = attrs["window_size"], attrs["stride"]
        count = max((x.shape[0] - size) // stride + 1, 0)
        bins = _length(size) // 2 + 1
        if not count or not x.shape[1]:
            return xp.zeros((x.shape[1], count, bins), _F)
        places = np.arange(count)[:, None] * stride + np.arange(size)
        window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)).astype(_F)
        spectrum = xp.fft.rfft(x.T[:, places] * window, _length(size), axis=-1)
        squared = spectrum.real**2 + spectrum.imag**2
        return (squared if attrs["magnitude_squared"] else xp.sqrt(squared)).astype(_F)


def _length(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length()


def _mel(frequency: Any) -> Any:
    return 1127.0 * np.log1p(frequency / 700.0)


@memoized("mel bands", 16)
def _bands(bins: int, rate: int, low: float, high: float, count: int) -> np.ndarray:
    """Weights ``[bins, count]`` of triangular bands on the mel scale; the mean of the signal belongs to none."""
    start = _mel(low)
    centres = start + (_mel(high) - start) / (count + 1) * np.arange(1, count + 2)
    step = 0.5 * rate / (bins - 1)
    first, last = int(1.5 + low / step), int(high / step)
    weights = np.zeros((bins, count))
    for i in range(first, min(last, bins - 1) + 1):
        place = _mel(i * step)
        above = int(np.searchsorted(centres[:count], place, side="left"))  # the first centre that is not below
        under = start if above == 0 else centres[above - 1]
        part = (centres[above] - place) / (centres[above] - under)
        if above > 0:
            weights[i, above - 1] += part
        if above < count:
            weights[i, above] += 1 - part
    return weights


class Mfcc(Op):
    """Mel-frequency cepstral coefficients ``[channels, windows, coefficients]`` of squared spectrograms."""

    signature = "spectrogram: float, sample_rate: int32 -> output: float"
    attrs = {
        "upper_frequency_limit": Float(4000.0),
        "lower_frequency_limit": Float(20.0),
        "filterbank_channel_count": Int(40),
        "dct_coefficient_count": Int(13),
    }
    effect = PURE
    compile_time = ("sample_rate",)
    gradient = _NO_GRADIENT

    def shape(c):
        spectrogram = c.with_rank("spectrogram", 3)
        c.with_rank("sample_rate", 0)
        low, high = c.attrs["lower_frequency_limit"], c.attrs["upper_frequency_limit"]
        bands, coefficients = c.attrs["filterbank_channel_count"], c.attrs["dct_coefficient_count"]
        if not 0 <= low < high or not 1 <= coefficients <= bands:
            raise ValueError(
                errors.message(
                    f"frequencies {low} to {high}, {coefficients} coefficients of {bands} bands",
                    "0 <= lower < upper, and at most as many coefficients as bands",
                    "filterbank_channel_count=40",
                )
            )
        return (*spectrogram[:2], coefficients)

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        spectrogram, rate = inputs
        bins = spectrogram.shape[2]
        ctx.check(
            int(rate) > 0 and bins > 1,
            errors.InvalidArgumentError,
            f"Mfcc needs a positive sample rate and several bins, got {int(rate)} and {bins}",
        )
        limits = attrs["lower_frequency_limit"], attrs["upper_frequency_limit"]
        count = attrs["filterbank_channel_count"]
        weights = _bands(max(bins, 2), max(int(rate), 1), *limits, count)[:bins]
        bands = xp.sqrt(spectrogram.astype(np.float64)) @ xp.asarray(weights)
        logs = xp.log(xp.maximum(bands, 1e-12))
        angle = np.pi / count * np.outer(np.arange(count) + 0.5, np.arange(attrs["dct_coefficient_count"]))
        return (logs @ xp.asarray(np.sqrt(2.0 / count) * np.cos(angle))).astype(_F)


public_op("DecodeWav", "audio.decode_wav")
public_op("EncodeWav", "audio.encode_wav")
public_op("AudioSpectrogram", "audio.spectrogram")
public_op("Mfcc", "audio.mfcc")
