"""``model.fit`` of five Keras models: time of each epoch, on our backend beside Keras on JAX, TensorFlow and PyTorch.

Run with `python benchmarks/keras_fit.py BACKEND MODEL [BATCHES]`: prints seconds of processor time and elapsed of three
epochs. With `--beside anabranch=PYTHON jax=PYTHON tensorflow=PYTHON torch=PYTHON`, each backend is run by a Python
that has it; the backends take turns, and a table has the medians of the turns. `--batches N` shortens an epoch,
`--turns N` says how often, `--models mlp,cnn` which models.

The first epoch holds what a backend traces and compiles. Batches come from arrays in memory, without shuffling, so that
all backends see the same numbers.
"""

from __future__ import annotations

import argparse
import collections
import os
import statistics
import subprocess
import time
from typing import Any

import numpy as np

EPOCHS = 3
BATCHES = 1000
BATCH = 32


def mlp(keras: Any) -> Any:
    """Two hidden layers on 64 features."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((64,)),
            layers.Dense(128, activation="relu"),
            layers.Dense(128, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ]
    )


def cnn(keras: Any) -> Any:
    """Two convolutions on images of 16 by 16."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((16, 16, 1)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Flatten(),
            layers.Dropout(0.25),
            layers.Dense(10, activation="softmax"),
        ]
    )


def lstm(keras: Any) -> Any:
    """An LSTM over 20 embedded words."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((20,), dtype="int32"),
            layers.Embedding(1000, 32),
            layers.LSTM(32),
            layers.Dense(10, activation="softmax"),
        ]
    )


def transformer(keras: Any) -> Any:
    """One block of attention over 20 embedded words."""
    layers = keras.layers
    words = keras.Input((20,), dtype="int32")
    x = layers.Embedding(1000, 32)(words)
    attended = layers.MultiHeadAttention(2, 16)(x, x)
    x = layers.LayerNormalization()(layers.Add()([x, attended]))
    inner = layers.Dense(32)(layers.Dense(64, activation="relu")(x))
    x = layers.LayerNormalization()(layers.Add()([x, inner]))
    return keras.Model(words, layers.Dense(10, activation="softmax")(layers.GlobalAveragePooling1D()(x)))


def resnet(keras: Any) -> Any:
    """Three residual blocks with batch normalization on images of 16 by 16."""
    layers = keras.layers
    image = keras.Input((16, 16, 3))
    x = layers.Conv2D(16, 3, padding="same")(image)
    for stride, width in ((1, 16), (2, 32), (2, 64)):
        inner = layers.Conv2D(width, 3, strides=stride, padding="same", use_bias=False)(x)
        inner = layers.Activation("relu")(layers.BatchNormalization()(inner))
        inner = layers.Conv2D(width, 3, padding="same", use_bias=False)(inner)
        inner = layers.BatchNormalization()(inner)
        if stride > 1:
            x = layers.Conv2D(width, 1, strides=stride)(x)
        x = layers.Activation("relu")(layers.Add()([x, inner]))
    return keras.Model(image, layers.Dense(10, activation="softmax")(layers.GlobalAveragePooling2D()(x)))


MODELS = {"mlp": mlp, "cnn": cnn, "lstm": lstm, "transformer": transformer, "resnet": resnet}


def run(backend: str, name: str, batches: int) -> None:
    """Fit a model, and print a line for each epoch: seconds of processor time, seconds elapsed, and the loss."""
    os.environ["KERAS_BACKEND"] = backend
    if backend == "anabranch":
        import anabranch.keras  # noqa: F401
    import keras

    keras.utils.set_random_seed(1)
    model = MODELS[name](keras)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    random = np.random.default_rng(0)
    shape = (batches * BATCH, *model.inputs[0].shape[1:])
    if model.inputs[0].dtype == "int32":
        x = random.integers(0, 1000, shape).astype(np.int32)
    else:
        x = random.standard_normal(shape).astype(np.float32)
    y = random.integers(0, 10, batches * BATCH).astype(np.int32)

    class Clock(keras.callbacks.Callback):  # type: ignore[misc]
        """Prints what each epoch took."""

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.began = time.process_time(), time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            busy, elapsed = time.process_time() - self.began[0], time.perf_counter() - self.began[1]
            print(f"{epoch + 1} {busy:.3f} {elapsed:.3f} {logs['loss']:.5f}", flush=True)

    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=[Clock()])


def beside(peers: dict[str, str], models: list[str], batches: int, turns: int) -> None:
    """Print a table: a row for each model and epoch, and for each peer processor time and elapsed."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    print(f"{'model':12} epoch" + "".join(f"{peer:>20}" for peer in peers), flush=True)
    for model in models:
        times: dict[tuple[int, str], list[tuple[float, float]]] = collections.defaultdict(list)
        for _ in range(turns):
            for peer, python in peers.items():
                command = [python, __file__, peer, model, str(batches)]
                output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
                for line in output.splitlines()[-EPOCHS:]:
                    epoch, busy, elapsed, _ = line.split()
                    times[int(epoch), peer].append((float(busy), float(elapsed)))
        for epoch in range(1, EPOCHS + 1):
            cells = []
            for peer in peers:
                busy, elapsed = (statistics.median(column) for column in zip(*times[epoch, peer], strict=True))
                cells.append(f"{busy:10.2f} {elapsed:9.2f}")
            print(f"{model:12} {epoch:5}" + "".join(cells), flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("one", nargs="*", help="BACKEND MODEL [BATCHES]")
    parser.add_argument("--beside", nargs="+", metavar="BACKEND=PYTHON")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--batches", type=int, default=BATCHES)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.beside:
        peers = dict(peer.split("=", 1) for peer in arguments.beside)
        beside(peers, arguments.models.split(","), arguments.batches, arguments.turns)
    else:
        backend, model, *batches = arguments.one
        run(backend, model, int(*batches or [BATCHES]))


if __name__ == "__main__":
    main()
