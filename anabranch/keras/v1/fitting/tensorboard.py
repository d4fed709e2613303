"""Logs of training for TensorBoard."""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import state
from anabranch.keras.v1.fitting.callbacks import Callback


class TensorBoard(Callback):
    """Write logs for TensorBoard: losses and metrics of epochs, the graph, and histograms of weights.

    Args:
        log_dir: directory of the event file.
        histogram_freq: number of epochs between histograms of weights; 0 for none.
        batch_size: without effect.
        write_graph: write the graph.
        write_grads, write_images: must be False where histograms are written; elsewhere they mean nothing, as in
            TensorFlow.
        embeddings_freq: must be 0.
        update_freq: ``'epoch'``, ``'batch'``, or a number of samples between two values.
        profile_batch: which batch TensorFlow traces; no trace is written here (see ``docs/debugging.md``).

    Raises:
        UnimplementedError: embeddings, or gradients or images of weights beside histograms, are asked for.
    """

    def __init__(
        self,
        log_dir: str = "./logs",
        histogram_freq: int = 0,
        batch_size: int = 32,
        write_graph: bool = True,
        write_grads: bool = False,
        write_images: bool = False,
        embeddings_freq: int = 0,
        embeddings_layer_names: Any = None,
        embeddings_metadata: Any = None,
        embeddings_data: Any = None,
        update_freq: Any = "epoch",
        profile_batch: int = 2,
    ) -> None:
        super().__init__()
        if embeddings_freq:
            raise errors.UnimplementedError(
                None,
                None,
                errors.message("TensorBoard(embeddings_freq=...)", "0", "tf.contrib.tensorboard.plugins.projector"),
            )
        if histogram_freq and (write_grads or write_images):
            raise errors.UnimplementedError(
                None,
                None,
                errors.message(
                    f"TensorBoard(histogram_freq={histogram_freq}, write_grads={write_grads}, "
                    f"write_images={write_images})",
                    "histograms of weights alone",
                    "tf.summary.histogram of tf.gradients, or tf.summary.image, in a training loop",
                ),
            )
        self.log_dir, self.histogram_freq, self.write_graph = log_dir, histogram_freq, write_graph
        self.batch_size, self.write_grads, self.write_images = batch_size, write_grads, write_images
        self.update_freq = 1 if update_freq == "batch" else update_freq
        self.writer: Any = None
        self._samples = self._since = 0

    def set_model(self, model: Any) -> None:
        """Learn which model it is, and open the file."""
        self.model = model
        if state.is_eager():
            with tf.Graph().as_default():  # a FileWriter of a program refuses where ops run at once
                self.writer = tf.summary.FileWriter(self.log_dir)
            return
        graph = state.get_session().graph if self.write_graph else None
        self.writer = tf.summary.FileWriter(self.log_dir, graph)

    def _write(self, values: dict[str, Any], step: int) -> None:
        summary = tf.Summary()
        for name, value in values.items():
            summary.value.add(tag=name, simple_value=float(value))
        self.writer.add_summary(summary, step)
        self.writer.flush()

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a step of training."""
        if self.update_freq == "epoch":
            return
        size = (logs or {}).get("size", 1)
        self._samples += size
        self._since += size
        if self._since >= self.update_freq:
            values = {f"batch_{name}": v for name, v in (logs or {}).items() if name not in ("batch", "size")}
            self._write(values, self._samples)
            self._since = 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch."""
        values = {f"epoch_{name}": v for name, v in (logs or {}).items() if name not in ("batch", "size")}
        self._write(values, epoch if self.update_freq == "epoch" else self._samples)
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            for variable in self.model.weights:
                summary = tf.Summary()
                array = np.asarray(state.get_value(variable), np.float64).ravel()
                counts, edges = np.histogram(array, bins=30)
                proto = summary.value.add(tag=variable.name.replace(":", "_")).histo
                proto.min, proto.max, proto.num = float(array.min()), float(array.max()), float(array.size)
                proto.sum, proto.sum_squares = float(array.sum()), float((array**2).sum())
                proto.bucket_limit.extend(edges[1:].tolist())
                proto.bucket.extend(counts.astype(float).tolist())
                self.writer.add_summary(summary, epoch)
            self.writer.flush()

    def on_train_end(self, logs: Any = None) -> None:
        """After training."""
        self.writer.close()
