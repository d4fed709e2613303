"""Logs of training for TensorBoard."""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import state
from anabranch.keras.v1.fitting.callbacks import Callback


class TensorBoard(Callback):
    """Write logs for TensorBoard: losses and metrics of epochs, the graph, and histograms.

    In a graph, histograms of weights and of layers' outputs are summaries of it, which each step of validation computes
    together with all other summaries that the program has made, as in TensorFlow 1.15; without validation there are
    none. Where ops run at once, those of weights are written after an epoch.

    Args:
        log_dir: directory of the event file.
        histogram_freq: number of epochs between histograms; 0 for none.
        batch_size: without effect.
        write_graph: write the graph.
        write_grads: histograms of the gradients of the loss, without weights of samples, beside those of weights; in a
            graph only.
        write_images: weights as images beside their histograms; in a graph only.
        embeddings_freq: must be 0.
        update_freq: ``'epoch'``, ``'batch'``, or a number of samples between two values.
        profile_batch: which batch TensorFlow traces; no trace is written here (see ``docs/debugging.md``).

    Raises:
        UnimplementedError: embeddings are asked for, or histograms of a model on several replicas.
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
        self.log_dir, self.histogram_freq, self.write_graph = log_dir, histogram_freq, write_graph
        self.batch_size, self.write_grads, self.write_images = batch_size, write_grads, write_images
        self.update_freq = 1 if update_freq == "batch" else update_freq
        self.writer: Any = None
        self.merged: Any = None
        """In a graph, all its summaries."""
        self._samples = self._since = self._tests = self._batches = 0

    def set_model(self, model: Any) -> None:
        """Learn which model it is, open the file, and add summaries to its graph."""
        self.model = model
        if state.is_eager():
            with tf.Graph().as_default():  # a FileWriter of a program refuses where ops run at once
                self.writer = tf.summary.FileWriter(self.log_dir)
            return
        if self.histogram_freq and self.merged is None:
            if not hasattr(model._steps, "beside_tests"):
                raise errors.UnimplementedError(
                    None,
                    None,
                    errors.message(
                        "TensorBoard(histogram_freq=...) for a model on several replicas",
                        "a model on one device",
                        "histogram_freq=0",
                    ),
                )
            self._add_summaries()
        self.merged = tf.summary.merge_all()
        graph = state.get_session().graph if self.write_graph else None
        self.writer = tf.summary.FileWriter(self.log_dir, graph)

    def _add_summaries(self) -> None:
        for layer in self.model.layers:
            for weight in layer.weights:
                name = weight.name.replace(":", "_")
                tf.summary.histogram(name, weight)
                image = _as_images(weight) if self.write_images else None
                if image is not None:
                    tf.summary.image(name, image)
            for weight in layer.trainable_weights if self.write_grads else ():
                gradients_of = getattr(self.model.optimizer, "get_gradients", tf.gradients)
                gradients = gradients_of(self.model.total_loss, [weight])
                values = [tf.convert_to_tensor(getattr(gradient, "values", gradient)) for gradient in gradients]
                tf.summary.histogram(f"{weight.name.replace(':', '_')}_grad", values)
            try:
                output = layer.output
            except AttributeError:  # it has been called on nothing yet, or more than once
                continue
            several = isinstance(output, list)
            for i, one in enumerate(output if several else [output]):
                tf.summary.histogram(f"{layer.name}_out_{i}" if several else f"{layer.name}_out", one)

    def _take(self, summary: Any) -> None:
        self.writer.add_summary(summary, self._tests)
        self._tests += 1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Before an epoch: have its validation compute summaries if it is due."""
        if self.histogram_freq and self.merged is not None and epoch % self.histogram_freq == 0:
            self.model._steps.beside_tests = self.merged, self._take

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
            self._write(values, self._batches)
            self._since = 0
        self._batches += 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch."""
        values = {f"epoch_{name}": v for name, v in (logs or {}).items() if name not in ("batch", "size")}
        self._write(values, epoch if self.update_freq == "epoch" else self._samples)
        if self.histogram_freq and self.merged is not None:
            self.model._steps.beside_tests = None
        elif self.histogram_freq and state.is_eager() and epoch % self.histogram_freq == 0:
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


def _as_images(weight: Any) -> Any:
    """A weight as images, ``[number, height, width, 1 or 3 or 4]``; None if it has too many dimensions for that."""
    image = tf.squeeze(weight)
    shape = image.shape.as_list()
    if len(shape) == 1:
        return tf.reshape(image, [1, shape[0], 1, 1])
    if len(shape) == 2:
        image = tf.transpose(image) if shape[0] > shape[1] else image
        return image[tf.newaxis, :, :, tf.newaxis]
    if len(shape) == 3:
        image = tf.transpose(image, [2, 0, 1])
        return tf.expand_dims(image, -1)
    return None
