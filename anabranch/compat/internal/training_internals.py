"""Evaluation, event files and gradients under names that TensorFlow's modules keep to themselves."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import anabranch as tf
from anabranch.compat.v2 import gradients
from anabranch.contrib.training import evaluation
from anabranch.core.protos import event_pb2

_StopAfterNEvalsHook = evaluation.StopAfterNEvalsHook
_evaluate_once = evaluation.evaluate_once
_get_or_create_eval_step = evaluation.get_or_create_eval_step
gradients_v2 = gradients


class EventsWriter:
    """A file of events: ``PREFIX.out.tfevents.SECONDS.HOST``, made at the first event.

    Args:
        file_prefix: path and beginning of the file's name, text or bytes.
    """

    def __init__(self, file_prefix: str | bytes) -> None:
        self._prefix = os.fsdecode(file_prefix)
        self._suffix = ""
        self._path = ""
        self._writer: Any = None

    def InitWithSuffix(self, suffix: str | bytes) -> None:
        """Give the file's name an end."""
        self._suffix = os.fsdecode(suffix)

    def _open(self) -> Any:
        if self._writer is None:
            seconds = time.time()
            self._path = f"{self._prefix}.out.tfevents.{int(seconds):010d}.{socket.gethostname()}{self._suffix}"
            self._writer = tf.python_io.TFRecordWriter(self._path)
            first = event_pb2.Event(wall_time=seconds, file_version="brain.Event:2")
            self._writer.write(first.SerializeToString())
        return self._writer

    def FileName(self) -> bytes:
        """The path of the file, which is made if it is not there."""
        self._open()
        return os.fsencode(self._path)

    def WriteEvent(self, event: Any) -> None:
        """Append an event."""
        self._open().write(event.SerializeToString())

    def Flush(self) -> bool:
        """Hand what was written to the operating system."""
        if self._writer is not None:
            self._writer.flush()
        return True

    def Close(self) -> bool:
        """Close the file; another event opens a new one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        return True


def TF_TryEvaluateConstant_wrapper(graph: Any, tensor: Any) -> Any:
    """The value of a tensor of a graph as an array, if it is known while the graph is built, or None.

    Args:
        graph: ``tf.Graph._c_graph``.
        tensor: what ``tensor._as_tf_output()`` gives.
    """
    del graph  # the tensor knows it
    return tf.get_static_value(tensor)
