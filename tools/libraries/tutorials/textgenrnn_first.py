"""The first steps of textgenrnn's own page: generate, train on texts, save and load, train a model from nothing.

What is compared is what both sides must agree on: texts at temperature 0 follow from the weights that the library
brings. Runs on Python 3.7, too.
"""

import random

import numpy as np
import pytest
from textgenrnn import textgenrnn

TEXTS = ["The quick brown fox jumps over the lazy dog", "Pack my box with five dozen liquor jugs"] * 8
# At temperature 0 of the weights that come with the library, as TensorFlow 1.15.5 writes them.
GREEDY = {
    "": "[Specific] Can someone please remove the state of the state",
    "The ": "The state of the state of the state of the state of the sta",
    "Why ": "Why do we have a stranger and the state of the state of the",
}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    """A folder for what is written, and seeds."""
    monkeypatch.chdir(tmp_path)
    random.seed(1)
    np.random.seed(1)


@pytest.fixture(scope="module")
def textgen():
    """Make the library's own model."""
    return textgenrnn()


@pytest.mark.parametrize("prefix", sorted(GREEDY))
def test_what_is_generated_at_temperature_0(textgen, prefix):
    """Compare texts with TensorFlow's."""
    (text,) = textgen.generate(1, prefix=prefix or None, temperature=0.0, max_gen_length=60, return_as_list=True)
    assert text == GREEDY[prefix]


def test_samples(textgen, capsys):
    """Print samples at two temperatures."""
    textgen.generate_samples(n=1, temperatures=[0.2, 1.0], max_gen_length=30)
    assert capsys.readouterr().out.count("Temperature") == 2


def test_training_saving_and_loading():
    """Train, and find the same weights in a file."""
    textgen = textgenrnn(name="trained")
    before = textgen.model.get_weights()
    textgen.train_on_texts(TEXTS, num_epochs=2, gen_epochs=0, batch_size=64, verbose=0)
    after = textgen.model.get_weights()
    assert all(np.isfinite(array).all() for array in after)
    assert any(not np.array_equal(one, other) for one, other in zip(before, after))  # noqa: B905 - Python 3.7 has no strict
    textgen.save("own.hdf5")
    again = textgenrnn("own.hdf5")
    for one, other in zip(after, again.model.get_weights()):  # noqa: B905 - Python 3.7 has no strict
        np.testing.assert_array_equal(one, other)
    options = {"temperature": 0.0, "max_gen_length": 40, "return_as_list": True}
    assert again.generate(1, **options) == textgen.generate(1, **options)


@pytest.mark.parametrize("word_level", [False, True])
def test_a_new_model(word_level):
    """Train a model from nothing, and load it again."""
    textgen = textgenrnn(name="new")
    textgen.train_on_texts(
        list(TEXTS),
        new_model=True,
        num_epochs=2,
        gen_epochs=0,
        batch_size=32,
        rnn_size=16,
        rnn_layers=1,
        dim_embeddings=8,
        max_length=10,
        rnn_bidirectional=True,
        word_level=word_level,
        train_size=0.8,
        verbose=0,
    )
    (text,) = textgen.generate(1, max_gen_length=12, return_as_list=True)
    assert isinstance(text, str)
    loaded = textgenrnn("new_weights.hdf5", vocab_path="new_vocab.json", config_path="new_config.json")
    for one, other in zip(textgen.model.get_weights(), loaded.model.get_weights()):  # noqa: B905 - Python 3.7 has no strict
        np.testing.assert_array_equal(one, other)


def test_labels_of_context():
    """Train with a label beside each text."""
    textgen = textgenrnn(name="labelled")
    labels = ["animals", "boxes"] * 8
    textgen.train_on_texts(TEXTS, context_labels=labels, num_epochs=1, gen_epochs=0, batch_size=64, verbose=0)
    assert len(textgen.model.inputs) == 1


def test_training_from_a_file(tmp_path):
    """Train on the lines of a file."""
    path = tmp_path / "texts.txt"
    path.write_text("header\n" + "\n".join(TEXTS))
    textgen = textgenrnn(name="file")
    textgen.train_from_file(str(path), num_epochs=1, gen_epochs=0, batch_size=64, verbose=0)
    (text,) = textgen.generate(1, temperature=0.5, max_gen_length=20, return_as_list=True)
    assert isinstance(text, str)
