"""Weights of a subclassed model as TensorFlow 1.15 saves them by object, what it gives, and how it trains on.

Run with TensorFlow 1.15's Python: ``python tools/golden/keras/write_weights.py``.
"""

import json
import os

import blocks_model
import numpy as np
import tensorflow as tf

FOLDER = os.path.join(os.path.dirname(__file__), "../../../tests/golden/keras_weights")


x = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(6, 2)
y = x[:, :1] * 2.0
model = blocks_model.blocks(tf)
model.compile(tf.keras.optimizers.Adam(0.05), "mse")
for _ in range(3):
    model.train_on_batch(x, y)
model.save_weights(os.path.join(FOLDER, "weights"), save_format="tf")
expected = {"predicted": model.predict(x).ravel().tolist()}
expected["keys"] = sorted(name for name, _ in tf.train.list_variables(os.path.join(FOLDER, "weights")))
model.train_on_batch(x, y)
expected["after another step"] = model.predict(x).ravel().tolist()
with open(os.path.join(FOLDER, "expected.json"), "w") as file:
    json.dump(expected, file, indent=1)
