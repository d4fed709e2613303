"""What TensorFlow 1.15 gives for the uses of batch normalisation of `batch_statistics.py`.

Run with TensorFlow 1.15's Python: ``python tools/golden/keras/write_batch_statistics.py``.
"""

import json
import os

import batch_statistics
import tensorflow as tf

tf.enable_eager_execution()
golden = {"extensions": batch_statistics.extensions(tf, tf.keras.layers.BatchNormalization)}
with tf.Graph().as_default():
    golden["training"] = batch_statistics.training(tf)
with tf.Graph().as_default():
    golden["adversarial"] = batch_statistics.adversarial(tf)
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tests/golden/keras_batch_statistics.json")
rounded = {
    part: {name: [[round(number, 6) for number in row] for row in rows] for name, rows in results.items()}
    for part, results in golden.items()
}
with open(path, "w") as file:
    json.dump(rounded, file)
    file.write("\n")
