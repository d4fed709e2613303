"""Which checkpoints a folder has: the file ``checkpoint`` that names them, and the files that each one consists of.

The state file is replaced as a whole, after the checkpoint that it names is on the disk. So a program that dies at any
moment finds the last complete checkpoint when it starts again.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf import text_format

from anabranch.core import errors, file_errors
from anabranch.core.contract.api import public
from anabranch.core.protos import checkpoint_pb2, training_pb2
from anabranch.formats import bundle, checkpoint_v1, staging
from anabranch.platform import logging
from anabranch.train.graph_files import write_atomically

V1 = training_pb2.SaverDef.V1
V2 = training_pb2.SaverDef.V2
ABANDONED_SECONDS = 3600
"""After so long without a change a folder of shards belongs to no save that goes on."""


def as_path(path: Any) -> str:
    """A path as text, without ``file://``; UnimplementedError for one of another file system."""
    return file_errors.local(path)


def state_file(folder: Any, latest_filename: str | None = None) -> str:
    """Path of the file that names the checkpoints of a folder."""
    return os.path.join(as_path(folder), latest_filename or "checkpoint")


def meta_graph_filename(checkpoint_filename: Any, meta_graph_suffix: str = "meta") -> str:
    """Path of the MetaGraph that stands beside a checkpoint."""
    return re.sub(r"-[\d?]+-of-\d+$", "", as_path(checkpoint_filename)) + "." + meta_graph_suffix


# --------------------------------------------------------------------------------------------------------------- state
@public("train.generate_checkpoint_state_proto")
def generate_checkpoint_state_proto(
    save_dir: Any,
    model_checkpoint_path: Any,
    all_model_checkpoint_paths: Sequence[Any] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> Any:
    """The ``CheckpointState`` that names the checkpoints of a folder.

    Args:
        save_dir: the folder. If it is a relative path, relative paths of checkpoints are written relative to it.
        model_checkpoint_path: the newest checkpoint.
        all_model_checkpoint_paths: all that are kept, the newest last.
        all_model_checkpoint_timestamps: when each was written, in seconds since the epoch.
        last_preserved_timestamp: when the last checkpoint was written that is kept for good.

    Raises:
        ValueError: there is not one timestamp for each path.
    """
    folder = as_path(save_dir)
    newest = as_path(model_checkpoint_path)
    paths = [as_path(path) for path in all_model_checkpoint_paths or ()]
    if not paths or paths[-1] != newest:
        paths.append(newest)
    times = list(all_model_checkpoint_timestamps or ())
    if times and len(times) != len(paths):
        raise ValueError(
            "Checkpoint timestamps, if provided, must match checkpoint paths "
            f"(got paths {paths} and timestamps {times})\n"
            + errors.message(f"{len(times)} timestamps for {len(paths)} paths", "one for each", "leave them out")
        )
    if not os.path.isabs(folder):
        newest, *paths = (
            path if os.path.isabs(path) else os.path.relpath(path, folder or ".") for path in (newest, *paths)
        )
    return checkpoint_pb2.CheckpointState(
        model_checkpoint_path=newest,
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=times,
        last_preserved_timestamp=last_preserved_timestamp or 0.0,
    )


@public("train.update_checkpoint_state")
def update_checkpoint_state(
    save_dir: Any,
    model_checkpoint_path: Any,
    all_model_checkpoint_paths: Sequence[Any] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Write the file that names the checkpoints of a folder; arguments as `generate_checkpoint_state_proto` has them.

    Raises:
        RuntimeError: the checkpoint and that file have the same path.
    """
    write_state(
        save_dir,
        model_checkpoint_path,
        all_model_checkpoint_paths,
        latest_filename,
        False,
        all_model_checkpoint_timestamps,
        last_preserved_timestamp,
    )


def write_state(
    save_dir: Any,
    model_checkpoint_path: Any,
    all_model_checkpoint_paths: Sequence[Any] | None = None,
    latest_filename: str | None = None,
    save_relative_paths: bool = False,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Like :func:`update_checkpoint_state`; ``save_relative_paths`` makes absolute paths relative to the folder."""
    folder = as_path(save_dir)
    newest = as_path(model_checkpoint_path)
    paths = [as_path(path) for path in all_model_checkpoint_paths or ()]
    if save_relative_paths:
        newest, *paths = (os.path.relpath(path, folder) if os.path.isabs(path) else path for path in (newest, *paths))
    state = generate_checkpoint_state_proto(
        folder, newest, paths, all_model_checkpoint_timestamps, last_preserved_timestamp
    )
    path = state_file(folder, latest_filename)
    if path == state.model_checkpoint_path:
        raise RuntimeError(
            f"Save path '{model_checkpoint_path}' conflicts with path used for checkpoint state.  "
            "Please use a different save path.\n"
            + errors.message(f"the path {path!r} for both", "two paths", "save under another name, or latest_filename=")
        )
    write_atomically(path, text_format.MessageToString(state).encode())


@public("train.get_checkpoint_state")
def get_checkpoint_state(checkpoint_dir: Any, latest_filename: str | None = None) -> Any:
    """The ``CheckpointState`` of a folder with paths that lead there from here; None if there is none.

    Args:
        checkpoint_dir: the folder.
        latest_filename: name of the file; ``checkpoint`` if None.

    Raises:
        ValueError: the file names no checkpoint. OpError: there is such a file and it cannot be opened; a program that
        took this for 'no checkpoint' would begin its training anew.
    """
    folder = as_path(checkpoint_dir)
    path = state_file(folder, latest_filename)
    try:
        with file_errors.open_to_read(path) as stream:
            text = stream.read().decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise file_errors.error_of(problem, path) from problem
    except UnicodeDecodeError as problem:
        logging.warning("%s: Checkpoint ignored", problem)
        return None
    state = checkpoint_pb2.CheckpointState()
    try:
        text_format.Parse(text, state, allow_unknown_field=True)
    except text_format.ParseError as problem:
        logging.warning("%s: Checkpoint ignored: %s", path, problem)
        return None
    if not state.model_checkpoint_path:
        raise ValueError(
            f"Invalid checkpoint state loaded from {folder}\n"
            + errors.message(f"{path!r} without model_checkpoint_path", "the path of a checkpoint", "delete the file")
        )
    state.model_checkpoint_path = _found(folder, state.model_checkpoint_path)
    for position, item in enumerate(state.all_model_checkpoint_paths):
        state.all_model_checkpoint_paths[position] = _found(folder, item)
    return state


def _found(folder: str, path: str) -> str:
    """Where a checkpoint is of which the state file says ``path``: there, or beside a file that moved with it."""
    if not os.path.isabs(path):
        return os.path.join(folder, path)
    beside = os.path.join(folder, os.path.basename(path))
    return beside if first_file(path) is None and first_file(beside) is not None else path


# --------------------------------------------------------------------------------------------------------------- files
def first_file(checkpoint_prefix: Any) -> str | None:
    """The file that makes a checkpoint count: the index of V2, or the (first) file of V1; None if there is none."""
    prefix = as_path(checkpoint_prefix)
    files = [bundle.index_name(prefix)] if os.path.exists(bundle.index_name(prefix)) else checkpoint_v1.files_of(prefix)
    return files[0] if files else None


@public("train.checkpoint_exists")
def checkpoint_exists(checkpoint_prefix: Any) -> bool:
    """Whether there is a checkpoint, of either format, at a path such as `Saver.save` returns."""
    return first_file(checkpoint_prefix) is not None


@public("train.latest_checkpoint")
def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """Path of the newest checkpoint of a folder, for `Saver.restore`; None if there is none.

    Args:
        checkpoint_dir: the folder.
        latest_filename: name of the file that names the checkpoints; ``checkpoint`` if None.

    Example:
        >>> import anabranch as tf, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> step = tf.Variable(7, name="step")
        >>> saver = tf.train.Saver()
        >>> with tf.Session() as session:
        ...     session.run(step.initializer)
        ...     path = saver.save(session, folder + "/model", global_step=step)
        >>> tf.train.latest_checkpoint(folder) == path == folder + "/model-7"
        True
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None or not state.model_checkpoint_path:
        return None
    if checkpoint_exists(state.model_checkpoint_path):
        return state.model_checkpoint_path
    logging.error("Couldn't match files for checkpoint %s", state.model_checkpoint_path)
    return None


@public("train.get_checkpoint_mtimes")
def get_checkpoint_mtimes(checkpoint_prefixes: Sequence[Any]) -> list[float]:
    """When each of the checkpoints was written, in seconds since the epoch; those that are not there are left out."""
    mtimes = []
    for prefix in checkpoint_prefixes:
        path = first_file(prefix)
        if path is not None:
            mtimes.append(os.stat(path).st_mtime)
    return mtimes


@public("train.remove_checkpoint")
def remove_checkpoint(
    checkpoint_prefix: Any, checkpoint_format_version: Any = V2, meta_graph_suffix: str = "meta"
) -> None:
    """Remove the files of a checkpoint and of its MetaGraph, those that are there.

    Args:
        checkpoint_prefix: path of the checkpoint.
        checkpoint_format_version: ``SaverDef.V1`` or ``SaverDef.V2``.
        meta_graph_suffix: ending of the MetaGraph's file.
    """
    prefix = as_path(checkpoint_prefix)
    paths = [meta_graph_filename(prefix, meta_graph_suffix)]
    if checkpoint_format_version == V2:
        bundle.remove_bundle(prefix)
    else:
        paths += checkpoint_v1.files_of(prefix)
    for path in paths:
        if os.path.isfile(path):
            os.remove(path)


def is_in(checkpoint_prefix: Any, folder: Any) -> bool:
    """Whether a checkpoint stands in a folder itself, wherever links lead."""
    there = os.path.realpath(os.path.dirname(as_path(checkpoint_prefix)) or ".")
    return there == os.path.realpath(as_path(folder) or ".")


def remove_leftovers(checkpoint_prefix: Any) -> None:
    """Remove what died processes have left of saves under ``prefix``, whatever their steps were.

    Files that are being written name their process. A folder of shards (``PREFIX-STEP_temp``) is left over if no such
    file of a living process is in it, and nothing in it has changed for an hour.
    """
    prefix = as_path(checkpoint_prefix)
    staging.remove_leftovers(prefix, others=True)
    for folder in staging.paths_from(prefix):
        if folder.endswith("_temp"):
            staging.remove_leftovers(os.path.join(folder, ""), others=True)
            remove_shards(folder, ABANDONED_SECONDS)


_SHARD = re.compile(r"part-\d+-of-\d+\.(index|data-\d+-of-\d+)")


def remove_shards(folder: str, idle_seconds: float = 0.0) -> None:
    """Remove a folder of shards if it holds nothing else and nothing in it has changed for so long."""
    try:
        paths = [os.path.join(folder, name) for name in os.listdir(folder)]
        newest = max(os.stat(path).st_mtime for path in (folder, *paths))
        if time.time() - newest < idle_seconds or not all(_SHARD.fullmatch(os.path.basename(path)) for path in paths):
            return
        for path in paths:
            os.unlink(path)
        os.rmdir(folder)
    except OSError:  # it is not there, or somebody else is at it
        return


@public("train.checkpoints_iterator", "contrib.training.checkpoints_iterator")
def checkpoints_iterator(
    checkpoint_dir: Any,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Any = None,
) -> Iterator[str]:
    """Paths of checkpoints as they appear in a folder.

    Args:
        checkpoint_dir: the folder.
        min_interval_secs: least time between two.
        timeout: how many seconds to wait for the next; forever if None.
        timeout_fn: called after ``timeout`` seconds without one; the iteration ends if it returns true (or is None).
    """
    path: str | None = None
    while True:
        started = time.monotonic()
        newest = _wait_for_new(checkpoint_dir, path, timeout)
        if newest is None:
            if timeout_fn is None or timeout_fn():
                return
            continue
        path = newest
        yield path
        time.sleep(max(0.0, started + min_interval_secs - time.monotonic()))


def _wait_for_new(folder: Any, last: str | None, timeout: float | None, interval: float = 0.2) -> str | None:
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        newest = latest_checkpoint(folder)
        if newest is not None and newest != last:
            return newest
        if until is not None and time.monotonic() + interval > until:
            return None
        time.sleep(interval)


__all__ = [
    "as_path",
    "checkpoint_exists",
    "checkpoints_iterator",
    "first_file",
    "generate_checkpoint_state_proto",
    "get_checkpoint_mtimes",
    "get_checkpoint_state",
    "is_in",
    "latest_checkpoint",
    "meta_graph_filename",
    "remove_checkpoint",
    "remove_leftovers",
    "remove_shards",
    "state_file",
    "update_checkpoint_state",
    "write_state",
]
