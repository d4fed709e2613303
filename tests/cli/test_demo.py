"""The demo learns: on scikit-learn's digits, and on files of MNIST's format."""

from __future__ import annotations

import glob
import gzip
import importlib.util
import struct

import numpy as np
import pytest

import anabranch as tf
from anabranch.cli import demo, idx


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_learns_digits_in_two_epochs(capsys):
    accuracy = demo.main(["--epochs", "2", "--seed", "1"])
    shown = capsys.readouterr().out
    assert "1,437 training and 360 test images of 8x8 pixels" in shown
    assert f"test accuracy {accuracy:.2%}" in shown
    assert accuracy > 0.75
    assert "tensorboard --logdir out/demo" in shown
    (path,) = glob.glob("out/demo/*/events.out.tfevents.*")
    events = list(tf.train.summary_iterator(path))
    assert [event.WhichOneof("what") for event in events[:2]] == ["file_version", "graph_def"]
    values = {(value.tag, event.step): value for event in events for value in event.summary.value}
    assert values["test_accuracy", 44].simple_value == pytest.approx(accuracy)
    assert values["loss", 40].simple_value < values["loss", 0].simple_value
    assert values["conv1/kernel_1", 20].histo.num == 3 * 3 * 32
    assert values["digits/image/3", 0].image.width == 8


def test_repeats_itself(capsys):
    assert demo.main(["--epochs", "1", "--seed", "1", "--batch", "256", "--logdir", ""]) == demo.main(
        ["--epochs", "1", "--seed", "1", "--batch", "256"]
    )


def write_places(folder, train: int = 384, test: int = 96):
    """Images of 9x7 noisy pixels, gzipped; the label is the column of a bright bar."""
    random = np.random.RandomState(0)
    for part, count in (("train", train), ("test", test)):
        labels = random.randint(0, 7, count).astype(np.uint8)
        images = random.randint(0, 60, (count, 9, 7)).astype(np.uint8)
        images[np.arange(count), :, labels] += 150
        for kind, array in (("images", images), ("labels", labels)):
            header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            (folder / f"{idx.FILES[f'{part}_{kind}']}.gz").write_bytes(gzip.compress(header + array.tobytes()))


def test_learns_from_idx_files(tmp_path, capsys):
    write_places(tmp_path)
    accuracy = demo.main(["--data", str(tmp_path), "--batch", "16"])
    assert "384 training and 96 test images of 9x7 pixels" in capsys.readouterr().out
    assert accuracy > 0.9


def test_untrained_it_only_guesses(tmp_path, capsys):
    write_places(tmp_path)
    assert demo.main(["--data", str(tmp_path), "--epochs", "0"]) < 0.5
    shown = capsys.readouterr().out
    assert "after 0 steps" in shown
    assert "read as" in shown


@pytest.mark.parametrize("wrong", [["--batch", "0"], ["--batch", "1438"], ["--epochs", "-1"]])
def test_refuses_sizes(capsys, wrong):
    with pytest.raises(SystemExit, match="2"):
        demo.main(wrong)
    assert "expected no fewer than 0 epochs, and batches of 1 to 1437 images" in " ".join(
        capsys.readouterr().err.split()
    )


def test_says_where_digits_come_from(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"scikit-learn: pip install 'anabranch\[demo\]'"):
        demo.load(None)
