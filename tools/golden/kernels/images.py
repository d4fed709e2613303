"""Record what TensorFlow's image functions give.

Run with an interpreter that has TensorFlow: `python tools/golden/kernels/images.py tests/golden/images.json`. Cases are
expressions that the tests evaluate, too; `image` and `pixels` make the inputs (see tests/ops/image/test_images.py).
"""

import base64
import json
import sys

import numpy as np
import tensorflow.compat.v1 as tf

CASES = []
for kind in ("bilinear", "nearest_neighbor", "bicubic"):
    for size in ((7, 5), (3, 2), (4, 4), (1, 1), (11, 3)):
        for options in ("", ", align_corners=True", ", half_pixel_centers=True"):
            CASES.append(f"tf.image.resize_{kind}(image(2, 4, 4, 2), {list(size)}{options})")
for size in ((7, 5), (3, 2), (1, 1), (11, 3)):
    for options in ("", ", align_corners=True"):
        CASES.append(f"tf.image.resize_area(image(2, 4, 4, 2), {list(size)}{options})")
CASES += [
    "tf.image.resize_bilinear(pixels(1, 5, 4, 3), [3, 7])",
    "tf.image.resize_nearest_neighbor(pixels(1, 5, 4, 3), [3, 7])",
    "tf.image.resize_images(image(5, 4, 3), [3, 7])",
    "tf.image.resize_images(image(5, 4, 3), [3, 7], method=tf.image.ResizeMethod.AREA)",
    "tf.image.resize_images(image(5, 4, 3), [3, 8], preserve_aspect_ratio=True)",
    "tf.image.resize_images(pixels(5, 4, 3), [5, 4])",
]
for kind in ("bilinear", "bicubic", "nearest_neighbor"):
    for size in ((7, 5), (3, 2)):
        for options in ("", ", align_corners=True", ", half_pixel_centers=True"):
            CASES.append(f"gradient(lambda x: tf.image.resize_{kind}(x, {list(size)}{options}), image(1, 4, 4, 2))")
CASES += [
    "tf.image.rgb_to_hsv(image(4, 4, 3))",
    "tf.image.rgb_to_hsv(np.float32([[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.2], [0.2, 0.5, 0.5], [0.5, 0.2, 0.5]]))",
    "tf.image.hsv_to_rgb(image(4, 4, 3))",
    "tf.image.adjust_hue(image(4, 4, 3), 0.3)",
    "tf.image.adjust_hue(pixels(4, 4, 3), -0.4)",
    "tf.image.adjust_saturation(image(4, 4, 3), 1.7)",
    "tf.image.adjust_saturation(pixels(4, 4, 3), 0.3)",
    "tf.image.adjust_contrast(image(4, 4, 3), 1.5)",
    "tf.image.adjust_contrast(pixels(2, 4, 4, 3), 0.5)",
    "tf.image.adjust_brightness(image(4, 4, 3), 0.2)",
    "tf.image.adjust_brightness(pixels(4, 4, 3), 0.2)",
    "tf.image.adjust_gamma(image(4, 4, 3), 2.0, 0.9)",
    "tf.image.rgb_to_grayscale(image(4, 4, 3))",
    "tf.image.rgb_to_grayscale(pixels(4, 4, 3))",
    "tf.image.grayscale_to_rgb(tf.constant(image(4, 4, 1)))",
    "tf.image.per_image_standardization(image(4, 4, 3))",
    "tf.image.per_image_standardization(pixels(2, 4, 4, 3))",
    "tf.image.per_image_standardization(np.ones((2, 2, 1), np.float32))",
    "tf.image.total_variation(tf.constant(image(2, 4, 4, 3)))",
    "tf.image.total_variation(tf.constant(image(4, 4, 3)))",
    "tf.image.psnr(pixels(4, 4, 3), pixels(4, 4, 3, seed=2), 255)",
    "tf.image.psnr(image(2, 4, 4, 3), image(2, 4, 4, 3, seed=2), 1.0)",
    "tf.image.flip_left_right(image(3, 4, 1))",
    "tf.image.flip_up_down(image(2, 3, 4, 1))",
    "tf.image.transpose_image(image(3, 4, 1))",
    "tf.image.rot90(image(3, 4, 1))",
    "tf.image.rot90(image(2, 3, 4, 1), k=3)",
    "tf.image.rot90(image(3, 4, 1), k=-2)",
    "tf.image.crop_to_bounding_box(image(5, 6, 1), 1, 2, 3, 2)",
    "tf.image.pad_to_bounding_box(image(3, 4, 1), 1, 2, 6, 7)",
    "tf.image.resize_image_with_crop_or_pad(image(5, 6, 1), 3, 9)",
    "tf.image.resize_image_with_crop_or_pad(image(2, 5, 4, 1), 8, 3)",
    "tf.image.central_crop(image(7, 8, 1), 0.5)",
    "tf.image.central_crop(image(2, 7, 8, 1), 0.6)",
    "tf.image.random_flip_left_right(image(3, 4, 1), seed=1)",
    "tf.image.random_flip_left_right(image(3, 4, 1), seed=4)",
    "tf.image.random_flip_up_down(image(3, 4, 1), seed=1)",
    "tf.image.random_brightness(image(3, 4, 3), 0.4, seed=3)",
    "tf.image.random_contrast(image(3, 4, 3), 0.4, 1.5, seed=3)",
    "tf.image.random_saturation(image(3, 4, 3), 0.4, 1.5, seed=3)",
    "tf.image.random_hue(image(3, 4, 3), 0.4, seed=3)",
]
for source in ("uint8", "int16", "uint16", "int32", "float32", "float64"):
    for target in ("uint8", "int16", "uint16", "int32", "float32", "float16"):
        for saturate in (False, True):
            CASES.append(f"tf.image.convert_image_dtype(values('{source}'), tf.{target}, saturate={saturate})")
FILES = {
    "rgb.png": "tf.image.encode_png(pixels(5, 6, 3))",
    "grey.png": "tf.image.encode_png(pixels(5, 6, 1))",
    "alpha.png": "tf.image.encode_png(pixels(5, 6, 4))",
    "deep.png": "tf.image.encode_png(np.uint16(pixels(5, 6, 1)) * 250)",
    "rgb.jpg": "tf.image.encode_jpeg(smooth(16, 24, 3), quality=95)",
    "grey.jpg": "tf.image.encode_jpeg(smooth(16, 24, 1))",
}
READ = [
    ("rgb.png", "tf.image.decode_png(FILE)"),
    ("rgb.png", "tf.image.decode_png(FILE, channels=4)"),
    ("rgb.png", "tf.image.decode_image(FILE)"),
    ("rgb.png", "tf.image.decode_image(FILE, dtype=tf.float32)"),
    ("grey.png", "tf.image.decode_png(FILE)"),
    ("grey.png", "tf.image.decode_png(FILE, channels=3)"),
    ("alpha.png", "tf.image.decode_png(FILE)"),
    ("alpha.png", "tf.image.decode_png(FILE, channels=3)"),
    ("deep.png", "tf.image.decode_png(FILE, dtype=tf.uint16)"),
    ("rgb.jpg", "tf.image.decode_jpeg(FILE)"),
    ("rgb.jpg", "tf.image.decode_jpeg(FILE, ratio=2)"),
    ("rgb.jpg", "tf.image.decode_image(FILE, channels=3)"),
    ("rgb.jpg", "tf.image.extract_jpeg_shape(FILE)"),
    ("rgb.jpg", "tf.image.decode_and_crop_jpeg(FILE, [2, 4, 8, 9])"),
    ("grey.jpg", "tf.image.decode_jpeg(FILE)"),
    ("grey.jpg", "tf.image.decode_jpeg(FILE, channels=3)"),
]


def image(*shape, seed=1):
    """Random numbers in [0, 1)."""
    return np.random.RandomState(seed).rand(*shape).astype(np.float32)


def pixels(*shape, seed=1):
    """Random bytes."""
    return np.random.RandomState(seed).randint(0, 256, shape).astype(np.uint8)


def smooth(height, width, channels):
    """Colours that change evenly."""
    down, right = np.mgrid[:height, :width]
    return np.stack([down * 9 + right * (3 + 2 * c) for c in range(channels)], -1).astype(np.uint8)


def values(dtype):
    """Special values of a dtype."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return np.array([0, 0.1, 0.25, 0.5, 0.999, 1.0], kind)
    return np.array([0, 1, 2, 100, np.iinfo(kind).max // 2, np.iinfo(kind).max], kind)


def gradient(function, x):
    """The gradient of a weighted sum of what a function gives."""
    x = tf.constant(x)
    y = function(x)
    weights = tf.reshape(tf.range(tf.size(y), dtype=tf.float32), tf.shape(y)) / 10
    return tf.gradients(y * weights, x)[0]


def evaluate(code, **more):
    """The value of an expression."""
    with tf.Graph().as_default(), tf.Session() as session:
        names = {"tf": tf, "np": np, "image": image, "pixels": pixels, "smooth": smooth, "values": values}
        return session.run(eval(code, {**names, "gradient": gradient, **more}))


def plain(value):
    """An array as JSON holds it."""
    value = np.asarray(value)
    kind = value.dtype.name
    flat = value.astype(np.float64 if value.dtype.kind == "f" else np.int64).ravel().tolist()
    return {
        "dtype": kind,
        "shape": list(value.shape),
        "values": [float(f"{v:.8g}") if isinstance(v, float) else v for v in flat],
    }


def main():
    """Writes the file."""
    tf.disable_v2_behavior()
    files = {name: evaluate(code) for name, code in FILES.items()}
    found = {
        "cases": [{"code": code, **plain(evaluate(code))} for code in CASES],
        "files": {name: base64.b64encode(data).decode() for name, data in files.items()},
        "read": [{"file": f, "code": code, **plain(evaluate(code, FILE=files[f]))} for f, code in READ],
    }
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        text = json.dumps(found)
        file.write(text.replace('{"code"', '\n{"code"').replace('{"file"', '\n{"file"') + "\n")


main()
