"""Write ``tests/golden/keras.json`` with TensorFlow 1.15: ``python tools/golden/keras/write.py`` in its environment.

Beside it, ``tests/golden/keras_model.h5`` is a whole model that it saved.
"""

from __future__ import annotations

import json
import pathlib

import cases
import numpy as np
import tensorflow as tf

GOLDEN = pathlib.Path(__file__).resolve().parents[3] / "tests/golden"


def model():
    """The model that is saved: one step of training after it was filled."""
    layers = tf.keras.layers
    made = tf.keras.Sequential(
        [layers.Embedding(6, 3, input_length=4), layers.LSTM(3), layers.Dense(3, activation="softmax")]
    )
    cases.filled(made)
    made.compile(tf.keras.optimizers.Adam(lr=0.02), "categorical_crossentropy", metrics=["acc"])
    made.train_on_batch(np.arange(12).reshape(3, 4) % 6, np.eye(3))
    return made


if __name__ == "__main__":
    results = cases.run(tf)
    saved = model()
    saved.save(str(GOLDEN / "keras_model.h5"))
    words = np.arange(12).reshape(3, 4) % 6
    results["saved"] = {"predicted": cases.summary(saved.predict(words))}
    results["saved"]["next loss"] = float(saved.train_on_batch(words, np.eye(3))[0])
    (GOLDEN / "keras.json").write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
