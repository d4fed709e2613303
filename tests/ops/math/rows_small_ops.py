"""Rows of small ops and of sound; more cases against TensorFlow's kernels in test_raw_golden.py."""

from __future__ import annotations

import struct

import numpy as np
import scipy.fft
import scipy.signal

from anabranch.testing.op_cases import case, elsewhere, real, row, whole


def dim_map(x, src_format="NHWC", dst_format="NCHW"):
    return np.array([dst_format.index(src_format[i]) for i in x.ravel()], x.dtype).reshape(x.shape)


def permute(x, src_format="NHWC", dst_format="NCHW"):
    names = [c for c in src_format if len(x) == len(src_format) or c not in "NC"]
    return np.stack([x[names.index(c)] for c in dst_format if c in names])


def nth(x, n, reverse=False):
    return np.sort(x, -1)[..., -1 - int(n) if reverse else int(n)]


def with_rows(change):
    def reference(x, i, v):
        out = x.copy()
        for place, one in zip(i, v, strict=True):
            out[place] = change(out[place], one)
        return out

    return reference


def convolved(x, paddings, weights, mode, strides, padding):
    x = np.pad(x, paddings, {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}[mode])
    steps, window = strides[1:3], weights.shape[:2]
    if padding == "SAME":
        missing = [max((-(-n // s) - 1) * s + w - n, 0) for n, s, w in zip(x.shape[1:3], steps, window, strict=True)]
        x = np.pad(x, ((0, 0), *((m // 2, m - m // 2) for m in missing), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, window, (1, 2))[:, :: steps[0], :: steps[1]]
    return np.einsum("bhwcij,ijco->bhwo", windows, weights)


def resized(x, size, paddings, weights, mode, strides, padding, resize_align_corners=False):
    for axis in (1, 2):
        old, new = x.shape[axis], int(size[axis - 1])
        scale = (old - 1) / (new - 1) if resize_align_corners else old / new
        place = np.arange(new) * scale
        matrix = np.maximum(1 - np.abs(np.minimum(place, old - 1)[:, None] - np.arange(old)), 0)
        x = np.moveaxis(np.tensordot(x, matrix, ([axis], [1])), -1, axis)
    return convolved(x, paddings, weights, mode, strides, padding)


PADS = [[0, 0], [1, 2], [2, 1], [0, 0]]


def wav(samples, channels=1, rate=8000):
    data = np.asarray(samples, "<i2").tobytes()
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * 2, channels * 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


MONO, STEREO = np.array(wav([0, 100, -32768, 32767]), object), np.array(wav([1, 2, 300, -400], 2, 16000), object)


def decoded(contents, desired_channels=-1, desired_samples=-1):
    data = contents.item()
    channels, rate = struct.unpack("<HI", data[22:28])
    audio = np.frombuffer(data[44:], "<i2").reshape(-1, channels) / 32768
    if desired_channels > channels:
        audio = np.repeat(audio, desired_channels, 1)
    if desired_samples > len(audio):
        audio = np.concatenate([audio, np.zeros((desired_samples - len(audio), audio.shape[1]))])
    return (audio[:desired_samples] if desired_samples >= 0 else audio), np.int32(rate)


def spectrogram(x, window_size, stride, magnitude_squared=False):
    length = 1 << (window_size - 1).bit_length()
    starts = range(0, len(x) - window_size + 1, stride)
    frames = np.stack([x[s : s + window_size].T for s in starts], 1)
    found = np.abs(np.fft.rfft(frames * scipy.signal.get_window("hann", window_size), length))
    return found**2 if magnitude_squared else found


def coefficients(
    power,
    rate,
    upper_frequency_limit=4000.0,
    lower_frequency_limit=20.0,
    filterbank_channel_count=40,
    dct_coefficient_count=13,
):
    """By triangles over the mel scale."""
    low, high, count = lower_frequency_limit, upper_frequency_limit, filterbank_channel_count
    step = float(rate) / 2 / (power.shape[-1] - 1)
    edges = np.linspace(*(1127 * np.log1p(np.array([low, high]) / 700)), count + 2)
    places = 1127 * np.log1p(np.arange(power.shape[-1]) * step / 700)
    weights = np.stack([np.interp(places, edges[i : i + 3], [0, 1, 0]) for i in range(count)], 1)
    bins = np.arange(power.shape[-1])
    weights[(bins < int(1.5 + low / step)) | (bins > int(high / step))] = 0
    bands = np.log(np.maximum(np.sqrt(power) @ weights, 1e-12))
    found = scipy.fft.dct(bands, norm="ortho")[..., :dct_coefficient_count]
    found[..., 0] *= np.sqrt(2)
    return found


def conv(*inputs, **options):
    return case(*inputs, strides=[1, 1, 1, 1], **options)


ROWS = [
    row("DataFormatDimMap", dim_map,
        [case([[0, 1], [2, 3]]), case([-1, -3]), case([1, 4, 2], src_format="NDHWC", dst_format="NCDHW")]),
    row("DataFormatVecPermute", permute,
        [case([7, 4, 9, 3]), case(whole(4, 2), src_format="NCHW", dst_format="NHWC"), case([7, 4]), case(whole(2, 2))]),
    row("UnravelIndex", lambda indices, dims: np.array(np.unravel_index(indices, dims), indices.dtype).reshape(
            len(dims), *indices.shape), [case([22, 41, 37], [7, 6]), case(1621, [6, 7, 8, 9]), case([], [3, 2])]),
    row("NthElement", nth,
        [case(real(3, 5, low=-20, high=20, distinct=True), 2), case(real(3, 5, distinct=True), 1, reverse=True),
         case(real(4, distinct=True), 0)], "float double half int32 uint8"),
    row("InplaceUpdate", with_rows(lambda old, new: new), [case(real(4, 3), [2, 0], real(2, 3))], "float int32 bool"),
    row("InplaceAdd", with_rows(lambda old, new: old + new), [case(real(4, 3), [2, 0, 2], real(3, 3))], "float int32"),
    row("InplaceSub", with_rows(lambda old, new: old - new), [case(real(4, 3), [2, 0, 2], real(3, 3))], "float int32"),
    row("FusedPadConv2D", convolved,
        [conv(real(1, 5, 6, 2), PADS, real(3, 2, 2, 3), mode="REFLECT", padding="VALID"),
         conv(real(1, 5, 6, 2), PADS, real(3, 2, 2, 3), mode="SYMMETRIC", padding="SAME")],
        "float double", tolerance=10),
    row("FusedResizeAndPadConv2D", resized,
        [conv(real(1, 5, 6, 2), [7, 4], PADS, real(3, 2, 2, 3), mode="REFLECT", padding="VALID"),
         conv(real(1, 5, 6, 2), [7, 4], PADS, real(3, 2, 2, 3), mode="SYMMETRIC", padding="SAME",
              resize_align_corners=True)], "float", tolerance=20),
    elsewhere("Timestamp", "tests/ops/test_small.py", "tf.timestamp"),
    row("DecodeWav", decoded,
        [case(MONO), case(STEREO, desired_samples=1), case(MONO, desired_channels=2, desired_samples=6)],
        open_shape="the file tells"),
    elsewhere("EncodeWav", "tools/golden/kernels/raw/small.py"),
    row("AudioSpectrogram", spectrogram,
        [case(real(300, 2), window_size=64, stride=30), case(real(300, 1), window_size=100, stride=100,
                                                             magnitude_squared=True)], tolerance=40),
    row("Mfcc", coefficients,
        [case(real(2, 3, 129, low=0.1), 8000), case(real(1, 4, 257, low=0.1), 16000, filterbank_channel_count=20,
                                                    dct_coefficient_count=20, upper_frequency_limit=7000.0)],
        tolerance=20),
]  # fmt: skip
