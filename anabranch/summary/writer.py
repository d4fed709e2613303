"""``tf.summary.FileWriter``, its cache, and ``tf.train.summary_iterator``, which reads event files back."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import require_graph
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.protos import event_pb2, graph_pb2, saved_model_pb2
from anabranch.formats.records import read_records
from anabranch.summary import plugin_asset
from anabranch.summary.event_file import EventFileWriter
from anabranch.summary.session_events import SessionEventWriter
from anabranch.train.meta_graph import scoped_meta_graph


@public("summary.FileWriter", "train.SummaryWriter")
class FileWriter:
    """Write summaries, graphs and what a session did to an event file, for TensorBoard.

    Events are queued, and written by a thread; a process that is killed loses only what still waits, and
    :meth:`flush` waits until nothing does. A context manager that closes it.

    Args:
        logdir: the folder, made if it does not exist; each writer makes a new file in it.
        graph: a graph to write at once, e.g. ``session.graph``.
        max_queue: how many events may wait; adding another one waits for room.
        flush_secs: kept for its name: an event does not stay in a buffer.
        graph_def: the old form of ``graph``.
        filename_suffix: end of the file's name.
        session: a session that writes the events, each in a step of its own, to a file that all writers to ``logdir``
            in this session share, those of ``tf.contrib.summary.create_file_writer(logdir)`` too.

    Example:
        >>> import tempfile
        >>> import anabranch as tf
        >>> logdir = tempfile.mkdtemp()
        >>> tf.summary.scalar("loss", tf.placeholder(tf.float32, [], name="value"))  # doctest: +ELLIPSIS
        <tf.Tensor 'loss:0' ...
        >>> merged = tf.summary.merge_all()
        >>> with tf.Session() as session, tf.summary.FileWriter(logdir, session.graph) as writer:
        ...     for step in range(3):
        ...         writer.add_summary(session.run(merged, {"value:0": 1.0 / (step + 1)}), step)
    """

    def __init__(
        self,
        logdir: Any,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        require_graph(
            "tf.summary.FileWriter is not compatible with eager execution. Use tf.contrib.summary instead.",
            "tf.summary.FileWriter",
            "tf.contrib.summary.create_file_writer(logdir)",
        )
        self.event_writer: EventFileWriter | SessionEventWriter
        if session is None:
            self.event_writer = EventFileWriter(logdir, max_queue, flush_secs, filename_suffix)
        else:
            self.event_writer = SessionEventWriter(session, logdir, max_queue, flush_secs, filename_suffix)
        self._seen_tags: set[str] = set()
        self._run_tags: set[str] = set()
        if graph is not None or graph_def is not None:
            self.add_graph(graph=graph, graph_def=graph_def)
            given = graph if graph is not None else graph_def
            definition = given.as_graph_def(add_shapes=True) if isinstance(given, Graph) else given
            self.add_meta_graph(scoped_meta_graph(get_default_graph(), graph_def=definition, for_display=True))

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def get_logdir(self) -> str:
        """The folder of the event files."""
        return self.event_writer.get_logdir()

    def _add(self, event: event_pb2.Event, step: Any) -> None:
        event.wall_time = time.time()
        if step is not None:
            event.step = int(step)
        self.add_event(event)

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Write a ``tf.Summary``, or its serialised form, which running ``tf.summary.merge_all()`` gives.

        Metadata of a tag is written with its first value only.
        """
        event = event_pb2.Event()
        if isinstance(summary, (bytes, str)):
            event.summary.MergeFromString(summary.encode("latin-1") if isinstance(summary, str) else summary)
        else:
            event.summary.CopyFrom(summary)
        for value in event.summary.value:
            if not value.HasField("metadata"):
                continue
            if value.tag in self._seen_tags:
                value.ClearField("metadata")
            else:
                self._seen_tags.add(value.tag)
        self._add(event, global_step)

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Write a ``tf.SessionLog``: that training starts, stops, or wrote a checkpoint."""
        self._add(event_pb2.Event(session_log=session_log), global_step)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Write a graph, with the shapes that are known, for TensorBoard's graph page.

        Args:
            graph: a ``tf.Graph`` (or, in old programs, a ``GraphDef``).
            global_step: the step.
            graph_def: the old form of ``graph``.

        Raises:
            ValueError: both are given. TypeError: neither is a graph.
        """
        if graph is not None and graph_def is not None:
            raise ValueError(
                "Please pass only graph, or graph_def (deprecated), but not both.\n"
                + errors.message("graph and graph_def", "one of the two arguments", "writer.add_graph(session.graph)")
            )
        graph_given = graph if graph is not None else graph_def
        if isinstance(graph_given, Graph):
            plugin_asset.write(graph_given, self.get_logdir())
            graph_given = graph_given.as_graph_def(add_shapes=True)
        elif isinstance(graph_given, graph_pb2.GraphDef):
            warnings.warn("Passing a `GraphDef` to the SummaryWriter is deprecated. Pass a `Graph` object instead.")
        else:
            raise TypeError(
                "The passed graph must be an instance of `Graph` or the deprecated `GraphDef`\n"
                + errors.message(f"a {type(graph_given).__name__}", "a tf.Graph", "writer.add_graph(session.graph)")
            )
        self._add(event_pb2.Event(graph_def=graph_given.SerializeToString()), global_step)

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        """Write a ``MetaGraphDef``.

        Raises:
            TypeError: it is none.
        """
        if not isinstance(meta_graph_def, saved_model_pb2.MetaGraphDef):
            raise TypeError(
                f"meta_graph_def must be type MetaGraphDef, saw type: {type(meta_graph_def)}\n"
                + errors.message(f"a {type(meta_graph_def).__name__}", "a MetaGraphDef", "tf.train.export_meta_graph()")
            )
        self._add(event_pb2.Event(meta_graph_def=meta_graph_def.SerializeToString()), global_step)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Write what a step did (``session.run(..., run_metadata=)``), for TensorBoard's graph page.

        Args:
            run_metadata: a ``tf.RunMetadata``.
            tag: name of the step; each may be used once.
            global_step: the step.

        Raises:
            ValueError: the tag was used.
        """
        if tag in self._run_tags:
            raise ValueError(
                "The provided tag was already used for this event type\n"
                + errors.message(f"tag {tag!r} once more", "a new tag for each step", "tag=f'step{step}'")
            )
        self._run_tags.add(tag)
        event = event_pb2.Event()
        event.tagged_run_metadata.tag = tag
        event.tagged_run_metadata.run_metadata = run_metadata.SerializeToString()
        self._add(event, global_step)

    def add_event(self, event: Any) -> None:
        """Write a ``tf.Event`` as it is; after :meth:`close` it only warns."""
        self._warn_if_closed()
        self.event_writer.add_event(event)

    def flush(self) -> None:
        """Wait until all events are in the file."""
        self._warn_if_closed()
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """After :meth:`close`, opens a new file in the same folder; without effect on an open writer."""
        self.event_writer.reopen()

    def _warn_if_closed(self) -> None:
        if self.event_writer.closed:
            warnings.warn(
                "Attempting to use a closed FileWriter. The operation will be a noop unless the FileWriter is "
                "explicitly reopened."
            )


@public("summary.FileWriterCache")
class FileWriterCache:
    """One writer per folder, for parts of a program that do not know of each other."""

    _cache: ClassVar[dict[str, FileWriter]] = {}
    _lock: ClassVar[threading.RLock] = threading.RLock()

    @staticmethod
    def get(logdir: Any) -> FileWriter:
        """The writer of a folder, made with the default graph when it is asked for first."""
        key = os.fspath(logdir)
        with FileWriterCache._lock:
            writer = FileWriterCache._cache.get(key)
            if writer is None:
                writer = FileWriterCache._cache[key] = FileWriter(key, graph=get_default_graph())
            return writer

    @staticmethod
    def clear() -> None:
        """Close and forget all writers."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._cache.values():
                writer.close()
            FileWriterCache._cache.clear()


@public("train.summary_iterator")
def summary_iterator(path: Any) -> Iterator[Any]:
    """The events of an event file, in order, to the last whole one: a record may be half written.

    Args:
        path: the file.

    Returns:
        An iterator of ``tf.Event``.

    Raises:
        NotFoundError: no such file. DataLossError (when it comes there): the file is damaged.

    Example:
        >>> import glob, tempfile
        >>> import anabranch as tf
        >>> logdir = tempfile.mkdtemp()
        >>> with tf.summary.FileWriter(logdir) as writer:
        ...     writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=0.5)]), 7)
        >>> (path,) = glob.glob(logdir + "/*")
        >>> [(event.step, value.tag) for event in tf.train.summary_iterator(path) for value in event.summary.value]
        [(7, 'loss')]
    """
    records = read_records(path.decode() if isinstance(path, bytes) else path, torn_end=True)

    def events() -> Iterator[Any]:
        for record in records:
            try:
                yield event_pb2.Event.FromString(record)
            except Exception as problem:
                raise errors.DataLossError(None, None, f"{path}: a record is not an event ({problem})") from None

    return events()
