"""Writes `tests/golden/decoded_images.json`: image files of many kinds, and their pixels as TensorFlow reads them.

    python tools/golden/kernels/decoded_images.py files     with Pillow: writes the files
    python tools/golden/kernels/decoded_images.py pixels    with TensorFlow 1.15: reads them and adds the pixels

An answer is the shape and the pixels in hexadecimal digits; one that is not there is an error. Left out is what
TensorFlow does by mistake: opacity of files with less than 8 bits a channel, and files of a palette as grey.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import sys
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).resolve().parents[3] / "tests" / "golden" / "decoded_images.json"
HEIGHT, WIDTH = 9, 11


def write_files():
    """Files of noise: every format with every mode and number of bits that is read."""
    from PIL import Image

    draw = np.random.RandomState(0)
    noise = draw.randint(0, 256, (HEIGHT, WIDTH, 4)).astype(np.uint8)
    grey, colour = Image.fromarray(noise[..., 0]), Image.fromarray(noise[..., :3])
    palette = colour.quantize(16)
    frames = [Image.fromarray(draw.randint(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)) for _ in range(3)]
    deep = Image.fromarray(draw.randint(0, 65536, (HEIGHT, WIDTH)).astype(np.uint16))
    files = {}

    def add(name, image, **options):
        file = io.BytesIO()
        image.save(file, name.rpartition(".")[2].replace("jpg", "jpeg"), **options)
        files[name] = file.getvalue()

    add("444.jpg", colour, subsampling=0, quality=90)
    add("420.jpg", colour, subsampling=2, quality=70)
    add("progressive.jpg", colour, progressive=True)
    add("grey.jpg", grey)
    add("cmyk.jpg", colour.convert("CMYK"))
    add("grey.png", grey)
    add("grey_alpha.png", Image.fromarray(noise[..., :2], "LA"))
    add("colour.png", colour)
    add("alpha.png", Image.fromarray(noise))
    add("palette.png", palette)
    add("palette_alpha.png", palette, transparency=3)
    add("bit.png", Image.fromarray(noise[..., 0] > 127))
    add("deep.png", deep)
    add("one.gif", colour)
    add("three.gif", frames[0], save_all=True, append_images=frames[1:])
    add("colour.bmp", colour)
    add("grey.bmp", grey)
    for name, rows, height in (("up32.bmp", noise[::-1], HEIGHT), ("down32.bmp", noise, -HEIGHT)):
        data = rows[..., [2, 1, 0, 3]].tobytes()
        head = struct.pack("<IHHI", 54 + len(data), 0, 0, 54)
        head += struct.pack("<IiiHHIIiiII", 40, WIDTH, height, 1, 32, 0, len(data), 2835, 2835, 0, 0)
        files[name] = b"BM" + head + data
    files["text.txt"] = b"no image"
    return {name: base64.b64encode(data).decode() for name, data in files.items()}


def calls(tf, data):
    """Name of a call -> function that makes its tensor."""
    image = tf.image
    made = {
        "gif": lambda: image.decode_gif(data),
        "jpeg ratio=2": lambda: image.decode_jpeg(data, ratio=2),
        "jpeg plain": lambda: image.decode_jpeg(data, fancy_upscaling=False),
        "jpeg accurate": lambda: image.decode_jpeg(data, dct_method="INTEGER_ACCURATE"),
        "shape": lambda: image.extract_jpeg_shape(data),
    }
    for channels in (0, 1, 3, 4):
        made[f"jpeg {channels}"] = lambda c=channels: image.decode_jpeg(data, c)
        made[f"png {channels}"] = lambda c=channels: image.decode_png(data, c)
        made[f"deep png {channels}"] = lambda c=channels: image.decode_png(data, c, dtype=tf.uint16)
        made[f"bmp {channels}"] = lambda c=channels: image.decode_bmp(data, c)
        made[f"image {channels}"] = lambda c=channels: image.decode_image(data, c)
    return made


def left_out(name, call):
    """Whether TensorFlow's answer is a mistake of its own."""
    few_bits = name in ("bit.png", "palette.png", "palette_alpha.png")
    return few_bits and (call.endswith("4") or (call.endswith("1") and name != "bit.png"))


def pixels(tf, files):
    """File -> call -> shape and digits."""
    answers = {}
    for name, text in sorted(files.items()):
        answers[name] = {}
        data = base64.b64decode(text)
        for call in sorted(calls(tf, data)):
            if left_out(name, call):
                continue
            with tf.Graph().as_default(), tf.Session() as session:
                try:
                    value = session.run(calls(tf, data)[call]())
                except (tf.errors.InvalidArgumentError, ValueError):
                    continue
            answers[name][call] = [
                list(value.shape),
                value.astype("<u2" if value.dtype != np.uint8 else "u1").tobytes().hex(),
            ]
    return answers


if __name__ == "__main__":
    if sys.argv[1] == "files":
        golden = {"files": write_files()}
    else:
        import tensorflow

        golden = json.loads(GOLDEN.read_text())
        golden["pixels"] = pixels(tensorflow, golden["files"])
    GOLDEN.write_text(json.dumps(golden, indent=0, sort_keys=True) + "\n")
