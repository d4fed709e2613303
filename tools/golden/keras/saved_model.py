"""Write `tests/golden/keras_saved_model` with TensorFlow 1.15: a trained network as `model.save(path, "tf")` writes it.

The graph is taken out of its description: what Keras reads are the objects and the checkpoint.

    python tools/golden/keras/saved_model.py tests/golden/keras_saved_model
"""

import json
import os
import shutil
import sys

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

folder = sys.argv[1]
shutil.rmtree(folder, ignore_errors=True)
x, y = np.linspace(0, 1, 24).reshape(6, 4).astype("f"), np.linspace(1, 0, 12).reshape(6, 2).astype("f")
model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(4,)), tf.keras.layers.BatchNormalization()])
random = np.random.RandomState(3)
model.set_weights([random.uniform(0.1, 0.5, w.shape).astype(w.dtype) for w in model.get_weights()])
model.compile(tf.keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
model.fit(x, y, batch_size=3, epochs=2, shuffle=False, verbose=0)
model.save(folder, save_format="tf")
told = {"predict": model.predict(x).tolist(), "evaluate": [float(v) for v in model.evaluate(x, y, verbose=0)]}
told["loss"] = float(model.fit(x, y, batch_size=3, epochs=1, shuffle=False, verbose=0).history["loss"][0])
with open(os.path.join(folder, "told.json"), "w") as file:
    json.dump(told, file)
path = os.path.join(folder, "saved_model.pb")
description = saved_model_pb2.SavedModel()
with open(path, "rb") as file:
    description.ParseFromString(file.read())
for meta in description.meta_graphs:
    meta.ClearField("graph_def")
    meta.ClearField("signature_def")
    meta.object_graph_def.ClearField("concrete_functions")
with open(path, "wb") as file:
    file.write(description.SerializeToString(deterministic=True))
shutil.rmtree(os.path.join(folder, "assets"), ignore_errors=True)
