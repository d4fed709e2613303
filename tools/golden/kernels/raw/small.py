"""Cases of small ops and of sound."""

import numpy as np
from raw_ops import case

RANDOM = np.random.RandomState(13)
F, WHOLE = np.float32, np.int32
X = RANDOM.randn(1, 6, 7, 2).astype(F)
WEIGHTS = RANDOM.randn(3, 2, 2, 3).astype(F)
PADS = WHOLE([[0, 0], [1, 2], [2, 1], [0, 0]])
SOUND = (RANDOM.uniform(-1, 1, (700, 2))).astype(F)
POWER = RANDOM.uniform(0, 5, (2, 6, 129)).astype(F)


def wav(samples, channels=1, rate=8000):
    """A file of 16 bits."""
    data = np.asarray(samples, "<i2").tobytes()
    form = np.array([1, channels], "<u2").tobytes() + np.array([rate, rate * channels * 2], "<u4").tobytes()
    form += np.array([channels * 2, 16], "<u2").tobytes()
    body = b"WAVEfmt " + np.uint32(16).tobytes() + form + b"data" + np.uint32(len(data)).tobytes() + data
    return np.array(b"RIFF" + np.uint32(len(body)).tobytes() + body, object)


MONO, STEREO = wav([0, 100, -32768, 32767, 5]), wav([1, 2, 300, -400, 5, 6], 2, 16000)

CASES = {
    "dimensions": case("DataFormatDimMap", WHOLE([[0, 1, 2, 3], [-1, -2, -3, -4]])),
    "dimensions, back": case("DataFormatDimMap", np.int64([1, 3]), src_format="NCHW", dst_format="NHWC"),
    "sizes": case("DataFormatVecPermute", WHOLE([7, 4, 9, 3])),
    "pairs": case(
        "DataFormatVecPermute", WHOLE([[7, 4], [9, 3], [4, 5], [5, 1]]), src_format="NCHW", dst_format="NHWC"
    ),
    "height and width": case("DataFormatVecPermute", WHOLE([7, 4])),
    "indices": case("UnravelIndex", WHOLE([22, 41, 37]), WHOLE([7, 6])),
    "index": case("UnravelIndex", np.int64(1621), np.int64([6, 7, 8, 9])),
    "element": case("NthElement", X[0, :, :, 0], WHOLE(2)),
    "element, from above": case("NthElement", X[0, :, :, 0], WHOLE(2), reverse=True),
    "padded": case("FusedPadConv2D", X, PADS, WEIGHTS, mode="REFLECT", strides=[1, 1, 1, 1], padding="VALID"),
    "padded, symmetric": case(
        "FusedPadConv2D", X, PADS, WEIGHTS, mode="SYMMETRIC", strides=[1, 2, 2, 1], padding="SAME"
    ),
    "resized and padded": case(
        "FusedResizeAndPadConv2D", X, WHOLE([9, 11]), PADS, WEIGHTS, mode="REFLECT", strides=[1, 2, 2, 1],
        padding="VALID",
    ),
    "resized by corners": case(
        "FusedResizeAndPadConv2D", X, WHOLE([4, 5]), PADS, WEIGHTS, mode="SYMMETRIC", strides=[1, 1, 1, 1],
        padding="SAME", resize_align_corners=True,
    ),
    "file": case("DecodeWav", MONO),
    "file, cut": case("DecodeWav", STEREO, desired_samples=2),
    "file, longer": case("DecodeWav", MONO, desired_channels=2, desired_samples=7),
    "to a file": case("EncodeWav", (SOUND[:9] * 1.2).astype(F), WHOLE(8000)),
    "spectrogram": case("AudioSpectrogram", SOUND, window_size=100, stride=30, tolerance=1e-4),
    "spectrogram, squared": case(
        "AudioSpectrogram", SOUND[:300], window_size=64, stride=64, magnitude_squared=True, tolerance=1e-4
    ),
    "coefficients": case("Mfcc", POWER, WHOLE(8000), upper_frequency_limit=3900.0, tolerance=1e-4),
    "few coefficients": case(
        "Mfcc", POWER[:, :, :65], WHOLE(16000), lower_frequency_limit=300.0, filterbank_channel_count=12,
        dct_coefficient_count=5, tolerance=1e-4,
    ),
}  # fmt: skip
