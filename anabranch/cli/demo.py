"""The demo: a small convolutional network, written with the public API, learns real handwritten digits.

python -m anabranch.cli.demo                 # scikit-learn's 1,797 digits of 8x8 pixels
python -m anabranch.cli.demo --data FOLDER   # MNIST-format IDX files (MNIST, Fashion-MNIST)
tensorboard --logdir out/demo                # its losses, weights, images and graph (pip install tensorboard)
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import anabranch as tf
from anabranch.cli import idx


def read_digits() -> np.ndarray:
    """Scikit-learn's digits, ``[n, 65]``: 8x8 pixels from 0 to 16, then the digit.

    Read from its file: importing scikit-learn takes longer than training.
    """
    package = importlib.util.find_spec("sklearn")
    path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz" if package and package.origin else None
    if path is None or not path.exists():
        raise SystemExit("The demo's digits come with scikit-learn: pip install 'anabranch[demo]'")
    return np.loadtxt(path, delimiter=",")


def load(folder: str | None) -> dict[str, np.ndarray]:
    """Images in [0, 1], ``[n, height, width, 1]``, and labels, split into ``train_*`` and ``test_*``."""
    if folder is not None:
        data = idx.read_folder(folder)
        scale = 255.0
    else:
        digits = read_digits()
        images, labels = digits[:, :-1].reshape(-1, 8, 8), digits[:, -1].astype(np.int64)
        order = np.random.RandomState(0).permutation(len(labels))
        test, train = order[:360], order[360:]
        data = {
            "train_images": images[train],
            "train_labels": labels[train],
            "test_images": images[test],
            "test_labels": labels[test],
        }
        scale = 16.0
    return {
        name: (value / scale).astype(np.float32)[..., None] if name.endswith("images") else value.astype(np.int64)
        for name, value in data.items()
    }


def weights(shape: Sequence[int], name: str) -> Any:
    """A variable drawn for layers with rectifiers (He et al., 2015)."""
    fan_in = int(np.prod(shape[:-1]))
    return tf.Variable(tf.truncated_normal(list(shape), stddev=(2.0 / fan_in) ** 0.5), name=name)


def network(images: Any, keep: Any, classes: int) -> Any:
    """Logits ``[batch, classes]`` of images ``[batch, height, width, 1]``."""
    hidden = images
    channels = 1
    for i, width in enumerate((32, 64)):
        with tf.name_scope(f"conv{i + 1}"):
            kernel = weights([3, 3, channels, width], "kernel")
            bias = tf.Variable(tf.zeros([width]), name="bias")
            hidden = tf.nn.relu(tf.nn.conv2d(hidden, kernel, [1, 1, 1, 1], "SAME") + bias)
            hidden = tf.nn.max_pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        channels = width
    features = int(np.prod(hidden.get_shape().as_list()[1:]))
    flat = tf.reshape(hidden, [-1, features])
    with tf.name_scope("dense"):
        hidden = tf.nn.relu(tf.matmul(flat, weights([features, 128], "kernel")) + tf.Variable(tf.zeros([128])))
        hidden = tf.nn.dropout(hidden, keep)
    with tf.name_scope("logits"):
        return tf.matmul(hidden, weights([128, classes], "kernel")) + tf.Variable(tf.zeros([classes]))


def summaries(loss: Any, rate: Any, images: Any) -> Any:
    """What TensorBoard shows of a training step: loss, learning rate, weights, a few images."""
    tf.summary.scalar("loss", loss)
    tf.summary.scalar("learning_rate", rate)
    for variable in tf.trainable_variables():
        tf.summary.histogram(variable.op.name, variable)
    tf.summary.image("digits", images, max_outputs=4)
    return tf.summary.merge_all()


def picture(image: np.ndarray) -> str:
    """An image as text, two characters a pixel."""
    shades = " .:-=+*#%@"
    rows = image[..., 0]
    return "\n".join("  " + "".join(shades[min(9, int(value * 9.99))] * 2 for value in row) for row in rows)


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, report, and return the accuracy on the test images."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--data", metavar="FOLDER", help="MNIST-format IDX files; scikit-learn's digits if left out")
    parser.add_argument("--epochs", type=int, help="passes over the training images (default: 25, with --data 3)")
    parser.add_argument("--batch", type=int, default=64, help="images a step (default: 64)")
    parser.add_argument(
        "--logdir",
        default="out/demo",
        help="where to write event files for TensorBoard (default: out/demo; '' for none)",
    )
    parser.add_argument("--seed", type=int, help="repeat bit for bit from these weights (default: others each time)")
    options = parser.parse_args(arguments)
    epochs = options.epochs if options.epochs is not None else (25 if options.data is None else 3)
    console = Console()

    data = load(options.data)
    train, test = data["train_images"], data["test_images"]
    height, width = train.shape[1:3]
    classes = 1 + int(max(data["train_labels"].max(), data["test_labels"].max()))
    if epochs < 0 or not 1 <= options.batch <= len(train):
        parser.error(
            f"--epochs {epochs} --batch {options.batch}: expected no fewer than 0 epochs, and batches of 1 to "
            f"{len(train)} images; give smaller batches, or leave the options out"
        )
    console.print(f"{len(train):,} training and {len(test):,} test images of {height}x{width} pixels")

    with tf.Graph().as_default():
        if options.seed is not None:
            tf.set_random_seed(options.seed)
        images = tf.placeholder(tf.float32, [None, height, width, 1], name="images")
        labels = tf.placeholder(tf.int64, [None], name="labels")
        keep = tf.placeholder_with_default(1.0, [], name="keep")
        logits = network(images, keep, classes)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        step = tf.Variable(0, trainable=False, name="global_step")
        steps = epochs * (len(train) // options.batch)
        rate = tf.train.polynomial_decay(2e-3, step, max(steps, 1), 1e-5)
        training = tf.train.AdamOptimizer(rate).minimize(loss, global_step=step)
        predicted = tf.argmax(logits, 1)
        merged = summaries(loss, rate, images)
        tested = tf.placeholder(tf.float32, [], name="tested")
        accuracy_summary = tf.summary.scalar("test_accuracy", tested, collections=[])

        started = time.perf_counter()
        with tf.Session() as session, contextlib.ExitStack() as stack:
            writer = None
            if options.logdir:
                run = os.path.join(options.logdir, time.strftime("%Y-%m-%d_%H-%M-%S"))
                writer = stack.enter_context(tf.summary.FileWriter(run, session.graph))
            session.run(tf.global_variables_initializer())
            shuffle = np.random.RandomState(2)
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("loss {task.fields[loss]:.4f}"),
            )
            with Progress(*columns, console=console) as progress:
                bar = progress.add_task("training", total=steps, loss=float("nan"))
                done = 0
                for _ in range(epochs):
                    order = shuffle.permutation(len(train))
                    for start in range(0, len(train) - options.batch + 1, options.batch):
                        rows = order[start : start + options.batch]
                        feeds = {images: train[rows], labels: data["train_labels"][rows], keep: 0.6}
                        if writer is not None and done % 20 == 0:
                            value, shown, _ = session.run([loss, merged, training], feeds)
                            writer.add_summary(shown, done)
                        else:
                            value, _ = session.run([loss, training], feeds)
                        done += 1
                        progress.update(bar, advance=1, loss=float(value))
            seconds = time.perf_counter() - started
            answers = np.concatenate(
                [session.run(predicted, {images: test[start : start + 500]}) for start in range(0, len(test), 500)]
            )

            wrong = np.flatnonzero(answers != data["test_labels"])
            accuracy = 1.0 - len(wrong) / len(test)
            if writer is not None:
                writer.add_summary(session.run(accuracy_summary, {tested: accuracy}), steps)

    console.print(f"test accuracy {accuracy:.2%} ({len(wrong)} wrong) after {steps} steps in {seconds:.1f} s")
    for i in wrong[:2]:
        console.print(f"\nread as {answers[i]}, is a {data['test_labels'][i]}:")
        console.print(picture(test[i]), markup=False, highlight=False)
    if options.logdir:
        console.print(
            f"\nTo see losses, weights, images and the graph in TensorBoard: pip install tensorboard, then\n"
            f"  tensorboard --logdir {options.logdir}",
            highlight=False,
        )
    console.print(
        "\nWhat next: read anabranch/cli/demo.py, which is this program; try --epochs 40; get Fashion-MNIST "
        "(Debian: apt-get install dataset-fashion-mnist) and run with --data on its folder; then docs/tour.md."
    )
    return accuracy


if __name__ == "__main__":
    sys.exit(0 if main() > 0.5 else 1)
