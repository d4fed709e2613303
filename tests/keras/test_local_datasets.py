"""Sets of images of Keras' folder of downloads."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.cli import idx

IMAGES = np.arange(3 * 4, dtype=np.uint8).reshape(3, 2, 2)
LABELS = np.array([2, 0, 1], np.uint8)
PROGRAM = """
import sys
import anabranch.compat.tensorflow
import tensorflow as tf
from tensorflow.keras.datasets import mnist
(x, y), (v, w) = mnist.load_data()
print(x.tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]], y.tolist(), v.shape, w.dtype)
(x, y), (v, w) = tf.keras.datasets.fashion_mnist.load_data()
print(x.shape, y.tolist(), v.tolist() == x[:1].tolist(), w.shape, x.dtype)
print("jax" in sys.modules, "keras" in sys.modules)
"""


def test_sets_that_are_there_need_no_keras(tmp_path: Path) -> None:
    folder = tmp_path / "datasets"
    (folder / "fashion-mnist").mkdir(parents=True)
    np.savez(folder / "mnist.npz", x_train=IMAGES, y_train=LABELS, x_test=IMAGES[:1], y_test=LABELS[:1])
    for part, name in idx.FILES.items():
        array = IMAGES if "images" in part else LABELS
        array = array[:1] if "test" in part else array
        header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        with gzip.open(folder / "fashion-mnist" / f"{name}.gz", "wb") as file:
            file.write(header + array.tobytes())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "KERAS_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ("True [2, 0, 1] (1, 2, 2) uint8\n(3, 2, 2) [2, 0, 1] True (1,) uint8\nFalse False\n")


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_files_are_kept_and_unpacked_where_version_1_has_them(tmp_path, kind):
    (tmp_path / "words.txt").write_text("a b")
    archive = tmp_path / f"words.{kind}"
    if kind == "tar":
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(tmp_path / "words.txt", arcname="words/words.txt")
    else:
        with zipfile.ZipFile(archive, "w") as packed:
            packed.write(tmp_path / "words.txt", "words/words.txt")
    get_file, cache = tf.keras.utils.get_file, str(tmp_path / "cache")
    os.makedirs(f"{cache}/datasets/of")
    origin = (tmp_path / "words.txt").as_uri()
    assert get_file(str(tmp_path / "absolute.txt"), origin) == str(tmp_path / "absolute.txt")
    assert get_file("of/words.txt", origin, cache_dir=cache) == f"{cache}/datasets/of/words.txt"
    path = get_file(f"all.{kind}", archive.as_uri(), extract=True, cache_dir=cache)
    assert path == f"{cache}/datasets/all.{kind}"
    assert (tmp_path / "cache/datasets/words/words.txt").read_text() == "a b"
    if kind == "tar":
        path = get_file("words", archive.as_uri(), untar=True, cache_dir=cache, cache_subdir="more")
        assert path == f"{cache}/more/words"
        assert sorted(os.listdir(f"{cache}/more")) == ["words", "words.tar.gz"]
