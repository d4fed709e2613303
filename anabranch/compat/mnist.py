"""``tensorflow.examples.tutorials.mnist``: data sets in MNIST's format from a local folder, and the tutorial's network.

Nothing is downloaded: the folder must hold the four IDX files, gzipped or plain (MNIST, Fashion-MNIST).
"""

from __future__ import annotations

import collections
import math
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.cli import idx
from anabranch.core import errors

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE
Datasets = collections.namedtuple("Datasets", ["train", "validation", "test"])
DEFAULT_SOURCE_URL = ""


def dense_to_one_hot(labels_dense: np.ndarray, num_classes: int) -> np.ndarray:
    """Class numbers ``[n]`` as rows ``[n, num_classes]`` with a one."""
    return np.eye(num_classes)[labels_dense]


class DataSet:
    """Images and labels, given out in batches, shuffled anew for each epoch.

    Args:
        images: ``[n, height, width, 1]`` of unsigned bytes.
        labels: ``[n]``, or ``[n, classes]``.
        fake_data: not available: NotImplementedError.
        one_hot: without effect: labels are as they are given.
        dtype: ``tf.float32`` scales bytes to [0, 1]; ``tf.uint8`` leaves them.
        reshape: images as rows ``[n, height * width]``.
        seed: of the shuffling; the default graph's by default. As in TensorFlow NumPy's global generator shuffles, and
            is seeded here; without either seed it goes on where it stands.
    """

    def __init__(
        self,
        images: Any,
        labels: Any,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = tf.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        if fake_data:
            raise NotImplementedError(
                errors.message("fake_data=True", "the data set's files", "read_data_sets(folder)")
            )
        kind = tf.as_dtype(dtype).base_dtype
        if kind not in (tf.float32, tf.uint8):
            raise TypeError(errors.message(f"dtype {kind.name}", "tf.float32 or tf.uint8", "dtype=tf.float32"))
        if len(images) != len(labels):
            raise ValueError(
                errors.message(
                    f"{len(images)} images, {len(labels)} labels",
                    "one label for each image",
                    "read_data_sets(folder) on files of one data set",
                )
            )
        if reshape:
            images = images.reshape(len(images), math.prod(images.shape[1:]))
        self._images = images.astype(np.float32) * np.float32(1 / 255) if kind == tf.float32 else images
        self._labels = labels
        of_graph, of_data = tf.get_seed(seed)
        start = of_graph if seed is None else of_data
        if start is not None:
            np.random.seed(start)
        self._epochs, self._position = 0, 0

    @property
    def images(self) -> np.ndarray:
        """All images."""
        return self._images

    @property
    def labels(self) -> np.ndarray:
        """All labels."""
        return self._labels

    @property
    def num_examples(self) -> int:
        """How many there are."""
        return len(self._images)

    @property
    def epochs_completed(self) -> int:
        """How often all have been given out."""
        return self._epochs

    def _shuffle(self) -> None:
        order = np.arange(self.num_examples)
        np.random.shuffle(order)
        self._images, self._labels = self._images[order], self._labels[order]

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """The next images with their labels; at the end of an epoch those left and the first of the next one."""
        if fake_data:
            raise NotImplementedError(errors.message("fake_data=True", "the data of the files", "leave it out"))
        if batch_size > self.num_examples:
            raise ValueError(
                errors.message(f"a batch of {batch_size}", f"at most {self.num_examples} examples", "a smaller batch")
            )
        start = self._position
        if self._epochs == 0 and start == 0 and shuffle:
            self._shuffle()
        if start + batch_size <= self.num_examples:
            self._position = start + batch_size
            return self._images[start : self._position], self._labels[start : self._position]
        self._epochs += 1
        rest_images, rest_labels = self._images[start:], self._labels[start:]
        if shuffle:
            self._shuffle()
        self._position = batch_size - len(rest_images)
        return (
            np.concatenate([rest_images, self._images[: self._position]]),
            np.concatenate([rest_labels, self._labels[: self._position]]),
        )


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = tf.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = DEFAULT_SOURCE_URL,
) -> Datasets:
    """Training, validation and test set from a folder of IDX files.

    Args:
        train_dir: the folder.
        fake_data: not available: NotImplementedError.
        one_hot: labels as rows with a one.
        dtype: see :class:`DataSet`.
        reshape: see :class:`DataSet`.
        validation_size: how many training images make the validation set.
        seed: see :class:`DataSet`.
        source_url: without effect: nothing is downloaded.

    Raises:
        FileNotFoundError: the folder lacks a file; the text lists all four.
    """
    if fake_data:
        raise NotImplementedError(errors.message("fake_data=True", "the data set's files", "read_data_sets(folder)"))
    data = idx.read_folder(train_dir)

    def labels(name: str) -> np.ndarray:
        return dense_to_one_hot(data[name], NUM_CLASSES) if one_hot else data[name]

    images = data["train_images"][..., None]
    if not 0 <= validation_size <= len(images):
        raise ValueError(
            f"Validation size should be between 0 and {len(images)}. Received: {validation_size}.\n"
            + errors.message(
                f"validation_size={validation_size}", f"a number from 0 to {len(images)}", "validation_size=0"
            )
        )
    known = labels("train_labels")
    options = {"dtype": dtype, "reshape": reshape, "seed": seed}
    return Datasets(
        train=DataSet(images[validation_size:], known[validation_size:], **options),
        validation=DataSet(images[:validation_size], known[:validation_size], **options),
        test=DataSet(data["test_images"][..., None], labels("test_labels"), **options),
    )


def load_mnist(train_dir: str = "MNIST-data") -> Datasets:
    """:func:`read_data_sets` of a folder."""
    return read_data_sets(train_dir)


# -------------------------------------------------------------------------------------------- the tutorial's network
def inference(images: Any, hidden1_units: int, hidden2_units: int) -> Any:
    """Logits of two layers with rectifiers and a linear one."""
    hidden, width = images, IMAGE_PIXELS
    for name, units in (("hidden1", hidden1_units), ("hidden2", hidden2_units), ("softmax_linear", NUM_CLASSES)):
        with tf.name_scope(name):
            weights = tf.Variable(tf.truncated_normal([width, units], stddev=1 / math.sqrt(width)), name="weights")
            hidden = tf.matmul(hidden, weights) + tf.Variable(tf.zeros([units]), name="biases")
            if name != "softmax_linear":
                hidden = tf.nn.relu(hidden)
        width = units
    return hidden


def loss(logits: Any, labels: Any) -> Any:
    """The mean cross entropy."""
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.cast(labels, tf.int64), logits=logits, name="xentropy"
        ),
        name="xentropy_mean",
    )


def training(loss: Any, learning_rate: float) -> Any:
    """A step of gradient descent, with the loss as a summary."""
    tf.summary.scalar("loss", loss)
    step = tf.Variable(0, name="global_step", trainable=False)
    return tf.train.GradientDescentOptimizer(learning_rate).minimize(loss, global_step=step)


def evaluation(logits: Any, labels: Any) -> Any:
    """How many labels are the largest logit."""
    return tf.reduce_sum(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.int32))
