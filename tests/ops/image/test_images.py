"""Image functions against TensorFlow's results, in both tiers; files read and written; what is refused.

Ops: ResizeBilinear, ResizeBilinearGrad, ResizeBicubic, ResizeBicubicGrad, ResizeNearestNeighbor,
ResizeNearestNeighborGrad, ResizeArea, RGBToHSV, HSVToRGB, AdjustContrastv2, AdjustHue, AdjustSaturation, DecodeJpeg,
DecodeAndCropJpeg, ExtractJpegShape, DecodePng, DecodeBmp, DecodeGif, DecodeImage, EncodeJpeg,
EncodeJpegVariableQuality, EncodePng, ReadFile,
WriteFile, MatchingFiles.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.testing import check_gradients

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/images.json").read_text(encoding="utf-8"))
FILES = {name: base64.b64decode(data) for name, data in GOLDEN["files"].items()}


def image(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.RandomState(seed).rand(*shape).astype(np.float32)


def pixels(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, 256, shape).astype(np.uint8)


def smooth(height: int, width: int, channels: int) -> np.ndarray:
    down, right = np.mgrid[:height, :width]
    return np.stack([down * 9 + right * (3 + 2 * c) for c in range(channels)], -1).astype(np.uint8)


def values(dtype: str) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return np.array([0, 0.1, 0.25, 0.5, 0.999, 1.0], kind)
    return np.array([0, 1, 2, 100, np.iinfo(kind).max // 2, np.iinfo(kind).max], kind)


def gradient(function: Callable[[Any], Any], x: Any) -> Any:
    x = tf.constant(x)
    y = function(x)
    weights = tf.reshape(tf.cast(tf.range(tf.size(y)), tf.float32), tf.shape(y)) / 10
    return tf.gradients(y * weights, x)[0]


NAMES = {"tf": tf, "np": np, "image": image, "pixels": pixels, "smooth": smooth, "values": values, "gradient": gradient}


def evaluate(code: str, tier: str = "auto", **more: Any) -> tuple[Any, Any]:
    """The value of an expression, and the static shape of its tensor."""
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        tensor = eval(code, {**NAMES, **more})
        return session.run(tensor), tensor.shape


def compare(found: np.ndarray, case: dict[str, Any], off_by: float = 0) -> None:
    wanted = np.array(case["values"], np.dtype(case["dtype"])).reshape(case["shape"])
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if found.dtype.kind == "f":
        np.testing.assert_allclose(
            found, wanted, rtol=2e-3 if found.dtype.itemsize == 2 else 2e-5, atol=2e-5 + off_by / 255
        )
    else:
        difference = np.abs(found.astype(np.int64) - wanted.astype(np.int64))
        assert difference.max(initial=0) <= off_by


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["code"])
def test_tensorflows_results(case: dict[str, Any]) -> None:
    # A colour that lies between two bytes may fall on the other side.
    off_by = 1 if "pixels" in case["code"] and "adjust" in case["code"] else 0
    found, shape = evaluate(case["code"], "interpreted")
    compare(found, case, off_by)
    assert shape.is_compatible_with(found.shape)


@pytest.mark.parametrize(
    "case",
    [
        c
        for c in GOLDEN["cases"]
        if ("resize_b" in c["code"] and "[7, 5]" in c["code"])
        or "hue" in c["code"]
        or ("area" in c["code"] and "[3, 2]" in c["code"])
    ],
    ids=lambda case: case["code"],
)
def test_compiled_results(case: dict[str, Any]) -> None:
    compare(evaluate(case["code"], "compiled")[0], case, 1 if "pixels" in case["code"] else 0)


@pytest.mark.parametrize("case", GOLDEN["read"], ids=lambda case: f"{case['file']}: {case['code']}")
def test_files_of_tensorflow(case: dict[str, Any]) -> None:
    found, shape = evaluate(case["code"], FILE=FILES[case["file"]])
    # Decoders of JPEG differ by a few steps where colours change abruptly: TensorFlow's takes a faster transform.
    compare(found, case, 8 if case["file"].endswith(".jpg") and "shape" not in case["code"] else 0)
    assert shape.is_compatible_with(found.shape)


@pytest.mark.parametrize(
    "code",
    ["pixels(5, 6, 1)", "pixels(5, 6, 2)", "pixels(5, 6, 3)", "pixels(5, 6, 4)", "np.uint16(pixels(5, 6, 1)) * 250"],
)
def test_png_goes_there_and_back(code: str) -> None:
    dtype = "tf.uint16" if "uint16" in code else "tf.uint8"
    found, _ = evaluate(f"tf.image.decode_png(tf.image.encode_png({code}, compression=9), dtype={dtype})")
    assert (found == eval(code, NAMES)).all()


def test_jpeg_goes_there_and_back() -> None:
    found, _ = evaluate(
        "tf.image.decode_jpeg(tf.image.encode_jpeg(smooth(16, 16, 3), quality=100, chroma_downsampling=False))"
    )
    assert np.abs(found.astype(int) - smooth(16, 16, 3)).max() <= 7


def written(kind: str, **options: Any) -> bytes:
    """A picture as Pillow writes it."""
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.fromarray(pixels(4, 5, 3)).save(file, kind, **options)
    return file.getvalue()


def test_other_formats() -> None:
    from PIL import Image

    assert (evaluate("tf.image.decode_bmp(FILE)", FILE=written("BMP"))[0] == pixels(4, 5, 3)).all()
    more = [Image.fromarray(pixels(4, 5, 3, seed=2))]
    moving = written("GIF", save_all=True, append_images=more)
    assert evaluate("tf.image.decode_gif(FILE)", FILE=moving)[0].shape == (2, 4, 5, 3)
    assert evaluate("tf.image.decode_image(FILE)", FILE=moving)[0].shape == (2, 4, 5, 3)
    assert evaluate("tf.image.decode_image(FILE, expand_animations=False)", FILE=moving)[0].shape == (4, 5, 3)


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        ("tf.image.decode_png(b'no image')", tf.errors.InvalidArgumentError, "an image: JPEG, PNG, GIF"),
        (
            "tf.image.decode_jpeg(FILES['rgb.jpg'][:60])",
            tf.errors.InvalidArgumentError,
            "Expected: (a whole file|an image)",
        ),
        ("tf.image.decode_jpeg(FILES['rgb.jpg'], ratio=3)", tf.errors.InvalidArgumentError, "1, 2, 4 or 8"),
        (
            "tf.image.decode_and_crop_jpeg(FILES['rgb.jpg'], [0, 0, 99, 1])",
            tf.errors.InvalidArgumentError,
            "crop window",
        ),
        ("tf.image.decode_jpeg(b'', channels=7)", ValueError, "channels=7"),
        ("tf.image.encode_jpeg(pixels(2, 2, 4))", tf.errors.InvalidArgumentError, "1 or 3 channels"),
        ("tf.image.resize_images(image(3, 3), [1, 1])", ValueError, "either 3 or 4 dimensions"),
        ("tf.image.resize_images(image(3, 3, 1), [1])", ValueError, "new_height, new_width"),
        ("tf.image.resize_images(image(3, 3, 1), [1, 1], method=9)", ValueError, "Resize method is not implemented"),
        ("tf.image.resize_bilinear(image(1, 3, 3, 1), [0, 1])", ValueError, "output dimensions must be positive"),
        ("tf.image.crop_to_bounding_box(image(3, 3, 1), 1, 1, 3, 1)", ValueError, "height must be >= target"),
        ("tf.image.pad_to_bounding_box(image(3, 3, 1), 1, 1, 3, 9)", ValueError, "height must be <= target - offset"),
        ("tf.image.central_crop(image(3, 3, 1), 1.5)", ValueError, "within .0, 1."),
        ("tf.image.random_hue(image(3, 3, 3), 0.9)", ValueError, "max_delta must be <= 0.5"),
        ("tf.image.random_contrast(image(3, 3, 3), 2, 1)", ValueError, "upper must be > lower"),
        ("tf.image.random_brightness(image(3, 3, 3), -1)", ValueError, "max_delta must be non-negative"),
        ("tf.image.rgb_to_hsv(image(3, 3, 2))", ValueError, "3 channels in the last dimension"),
        ("tf.image.adjust_gamma(image(3, 3, 2), -1)", ValueError, "non-negative real number"),
        ("tf.image.grayscale_to_rgb(image(3, 3, 2))", ValueError, "one channel"),
    ],
)
def test_what_is_refused(code: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        evaluate(code, FILES=FILES)


def test_sizes_known_when_run() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        place = tf.placeholder(tf.float32, [None, None, 3])
        size = tf.placeholder(tf.int32, [2])
        tensors = [
            tf.image.resize_images(place, size),
            tf.image.resize_image_with_crop_or_pad(place, 4, 5),
            tf.image.central_crop(place, 0.5),
            tf.image.random_flip_left_right(place),
            tf.image.crop_to_bounding_box(place, 1, 1, size[0], 1),
        ]
        assert [tensor.shape.as_list() for tensor in tensors] == [
            [None, None, 3],
            [4, 5, 3],
            [None, None, 3],
            [None, None, 3],
            [None, 1, 3],
        ]
        found = session.run(tensors, {place: image(6, 7, 3), size: [3, 2]})
        assert [value.shape for value in found] == [(3, 2, 3), (4, 5, 3), (4, 5, 3), (6, 7, 3), (3, 1, 3)]
        with pytest.raises(tf.errors.InvalidArgumentError, match="height must be >= target"):
            session.run(tensors[4], {place: image(6, 7, 3), size: [9, 2]})


def test_half_of_the_images_are_flipped() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        batch = np.tile(np.arange(2, dtype=np.float32).reshape(1, 1, 2, 1), (400, 1, 1, 1))
        flipped = session.run(tf.image.random_flip_left_right(batch, seed=1))[:, 0, 0, 0]
        single = tf.image.random_flip_left_right(batch[0], seed=2)
        seen = {float(session.run(single)[0, 0, 0]) for _ in range(20)}
    assert 150 < flipped.sum() < 250
    assert seen == {0.0, 1.0}


def test_gradients() -> None:
    check_gradients(lambda x: tf.image.resize_bilinear(x, [3, 5]), image(1, 4, 3, 2))
    check_gradients(lambda x: tf.image.resize_bicubic(x, [3, 5]), image(1, 4, 3, 2), order=1)


def test_whole_files(tmp_path: Path) -> None:
    path = str(tmp_path / "below/file")
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.write_file(path, b"\x00bytes"))
        read = tf.read_file(path)
        assert session.run(read) == b"\x00bytes"
        Path(path).write_text("others")
        assert session.run(read) == b"others"
        Path(path + "2").write_text("")
        names = tf.matching_files([path + "*", str(tmp_path / "none*")])
        assert session.run(names).tolist() == [path.encode(), path.encode() + b"2"]
        with pytest.raises(tf.errors.NotFoundError, match="No such file"):
            session.run(tf.read_file(str(tmp_path / "none")))
        with pytest.raises(tf.errors.FailedPreconditionError, match="below"):
            session.run(tf.write_file(str(tmp_path / "below"), "x"))


def _damaged(kind: str) -> bytes:
    """Files of which Pillow's own parsers raise something other than OSError."""
    data = bytearray(written(kind))
    if kind == "PNG":  # a second header, cut short, behind the pixels
        return bytes(data[:-12]) + b"\0\0\0\x04IHDR\0\0\0\1" + zlib.crc32(b"IHDR\0\0\0\1").to_bytes(4, "big")
    data[18:26] = struct.pack("<ii", 50_000, 40_000)  # BMP: the width and the height
    return bytes(data)


@pytest.mark.parametrize(
    ("kind", "told"), [("PNG", "ends early or is damaged .*IHDR"), ("BMP", "says 50000 by 40000 pixels from byte 54")]
)
def test_damaged_files_are_refused(kind: str, told: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=told):
        evaluate(f"tf.image.decode_{kind.lower()}(FILE)", FILE=_damaged(kind))


def test_an_animation_that_would_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    more = [image.fromarray(pixels(4, 5, 3, seed=seed)) for seed in (2, 3)]
    moving = written("GIF", save_all=True, append_images=more)
    monkeypatch.setenv("ANABRANCH_MOST_EXPANDED", "260")
    assert evaluate("tf.image.decode_image(FILE, expand_animations=False)", FILE=moving)[0].shape == (4, 5, 3)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="ANABRANCH_MOST_EXPANDED"):
        evaluate("tf.image.decode_gif(FILE)", FILE=moving)


def test_jpeg_files_are_told_by_their_beginning():
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.stack(
            [tf.image.encode_jpeg(np.zeros((2, 2, 3), np.uint8)), tf.constant(b"\x89PNG"), tf.constant(b"")]
        )
        assert session.run(tf.image.is_jpeg(files)).tolist() == [True, False, False]
        assert tf.io.is_jpeg is tf.image.is_jpeg


def test_jpeg_quality_may_be_computed():
    pixels = (np.random.RandomState(1).rand(12, 10, 3) * 255).astype(np.uint8)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        quality = tf.placeholder(tf.int32, [])
        floats = tf.image.convert_image_dtype(pixels, tf.float32)
        worse = tf.image.adjust_jpeg_quality(pixels, quality)
        scaled = tf.image.adjust_jpeg_quality(floats, 50)
        found, as_floats = session.run([worse, scaled], {quality: 50})
        assert found.ravel()[:6].tolist() == [125, 151, 140, 29, 53, 40]  # TensorFlow 1.15's
        np.testing.assert_allclose(as_floats * 255, found, atol=1e-3)
        file = tf.image.encode_jpeg(pixels, quality=7)
        np.testing.assert_array_equal(session.run(worse, {quality: 7}), session.run(tf.image.decode_jpeg(file)))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"quality must be in \[0,100\], got 101"):
            session.run(worse, {quality: 101})
        drawn = tf.image.random_jpeg_quality(pixels, 20, 90, seed=1)
        first = session.run(drawn)
        assert any(not np.array_equal(first, session.run(drawn)) for _ in range(5))
    for ends, text in (((-1, 5), "between 0 and 100"), ((5, 101), "between 0 and 100"), ((5, 5), "must be less than")):
        with pytest.raises(ValueError, match=text):
            tf.image.random_jpeg_quality(pixels, *ends)
