"""The programs in ``examples/`` run as they stand; on real text, which is not part of the project, they learn."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
import warm_python

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXTS = os.environ.get("ANABRANCH_TEXTS", "")
"""A folder with ``tinyshakespeare.txt``, ``rt-polarity.pos`` and ``rt-polarity.neg``."""
real_text = pytest.mark.skipif(not TEXTS, reason="ANABRANCH_TEXTS names no folder of texts")


def _run(program: str, *arguments: str) -> str:
    done = warm_python.run(EXAMPLES / program, arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _numbers(pattern: str, text: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text)]


@pytest.fixture
def verse(tmp_path):
    path = tmp_path / "verse.txt"
    path.write_text("the cat sat on the mat.\nthe dog lay on the log.\n" * 40)
    return path


@pytest.fixture
def reviews(tmp_path):
    """Sentences that one word tells apart."""
    rng = np.random.RandomState(0)
    paths = []
    for name, word in (("good", "wonderful"), ("bad", "dreadful")):
        lines = []
        for _ in range(60):
            words = [f"w{i}" for i in rng.randint(0, 30, rng.randint(2, 20))]
            words.insert(rng.randint(len(words) + 1), word)
            lines.append(" ".join(words))
        paths.append(tmp_path / name)
        paths[-1].write_text("\n".join(lines), encoding="latin-1")
    return paths


@pytest.mark.multiprocess
def test_char_rnn_runs_and_goes_on_where_it_stopped(verse, tmp_path):
    options = ["--data", str(verse), "--width=16", "--batch=4", "--length=10", "--sample=20", "--report=4"]
    options.append(f"--train_dir={tmp_path / 'model'}")
    first = _run("char_rnn.py", *options, "--steps=8")
    assert re.search(r"step 8: loss [\d.]+, held out [\d.]+", first)
    sample = first.split("|")[-1].rstrip("\n")
    assert set(sample) <= set(verse.read_text())
    second = _run("char_rnn.py", *options, "--steps=12", "--layers=1")
    assert "goes on from" in second
    assert "step 4:" not in second
    assert _numbers(r"loss ([\d.]+)", second)[-1] < _numbers(r"loss ([\d.]+)", first)[0]


@pytest.mark.multiprocess
def test_sentiment_learns_a_word(reviews):
    good, bad = map(str, reviews)
    options = ["--positive", good, "--negative", bad, "--embedding=16", "--width=8", "--batch=20", "--rate=0.02"]
    text = _run("sentiment.py", *options, "--epochs=8", "--keep=1.0")
    assert _numbers(r"accuracy held out ([\d.]+)", text)[-1] >= 0.9
    assert _run("sentiment.py", *options, "--max_steps=2").count("epoch") == 1


@real_text
@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.timeout(1800)
def test_char_rnn_learns_from_a_real_text():
    text = _run("char_rnn.py", "--data", str(Path(TEXTS) / "tinyshakespeare.txt"), "--steps=600", "--report=300")
    losses = _numbers(r"held out ([\d.]+)", text)
    assert losses[-1] < min(losses[0], 2.0)


@real_text
@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.timeout(1800)
def test_sentiment_beats_chance_by_far_on_real_reviews():
    good, bad = (str(Path(TEXTS) / f"rt-polarity.{end}") for end in ("pos", "neg"))
    text = _run("sentiment.py", "--positive", good, "--negative", bad, "--epochs=2")
    assert _numbers(r"accuracy held out ([\d.]+)", text)[-1] > 0.7
