"""Where the ops on images and files are tested: against TensorFlow's results."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

FILE = "tests/ops/image/test_images.py"
OPS = (
    "ResizeBilinear", "ResizeBilinearGrad", "ResizeBicubic", "ResizeBicubicGrad", "ResizeNearestNeighbor",
    "ResizeNearestNeighborGrad", "ResizeArea", "RGBToHSV", "HSVToRGB", "AdjustContrastv2", "AdjustHue",
    "AdjustSaturation", "DecodeJpeg", "DecodeAndCropJpeg", "ExtractJpegShape", "DecodePng", "DecodeBmp", "DecodeGif",
    "DecodeImage", "EncodeJpeg", "EncodeJpegVariableQuality", "EncodePng", "ReadFile", "WriteFile", "MatchingFiles",
)  # fmt: skip

ROWS = [elsewhere(name, FILE, name) for name in OPS]
