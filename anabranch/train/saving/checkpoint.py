"""`tf.train.Checkpoint`: checkpoints by object, which survive renaming of variables.

`restore` reads no values: it returns a status, and ``status.initialize_or_restore()`` or ``run_restore_ops()`` matches
the objects that exist *then* with those of the file, by the names that lead to them, and restores all of them in one
step. Objects made after `restore` was called are therefore restored, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.graph.public_scopes import name_scope
from anabranch.formats import checkpoints
from anabranch.ops.control.public_dependencies import group
from anabranch.session import get_default_session
from anabranch.train.saving import checkpoint_state, saveable, saver_builder, trackable
from anabranch.train.saving.object_checkpoint import OBJECT_GRAPH_KEY, read_object_graph
from anabranch.variables.variable import Variable, make_variable


def _session(given: Any) -> Any:
    session = given or get_default_session()
    if session is None:
        raise RuntimeError(
            errors.message(
                "a checkpoint without a session", "a session", "session=, or `with tf.Session() as session:` around it"
            )
        )
    return session


@public("train.Checkpoint")
class Checkpoint:
    """A group of objects that are saved and restored together.

    Args:
        root: an object whose children are this one's, too.
        kwargs: variables, optimizers, mutable tables, other checkpoints, and lists and dicts of them, by name. Further
            ones may be set as attributes.

    Example:
        >>> import anabranch as tf, tempfile
        >>> w = tf.Variable([1.0, 2.0], name="any_name")
        >>> checkpoint = tf.train.Checkpoint(weights=w)
        >>> with tf.Session() as session:
        ...     session.run(w.initializer)
        ...     path = checkpoint.save(tempfile.mkdtemp() + "/model")
        ...     _ = session.run(w.assign([0.0, 0.0]))
        ...     checkpoint.restore(path).assert_consumed().run_restore_ops()
        ...     session.run(w).tolist()
        [1.0, 2.0]
    """

    def __init__(self, root: Any = None, **kwargs: Any) -> None:
        self._tracked: dict[str, Any] = {}
        self._saves: dict[bytes, tuple[Graph, Any, Any]] = {}
        self._save_counter: Any = None
        self._root = root
        if root is not None:
            trackable.check_trackable("root", root)
        for name, item in sorted(kwargs.items()):
            trackable.check_trackable(name, item)
            setattr(self, name, item)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name.startswith("_"):
            return
        if trackable.is_trackable(value):
            self._tracked[name] = value
        else:
            self._tracked.pop(name, None)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._tracked.pop(name, None)

    def _trackable_children(self) -> dict[str, Any]:
        children = {} if self._root is None else trackable.children(self._root)
        children |= self._tracked
        if self._save_counter is not None:
            children["save_counter"] = self._save_counter
        return children

    @property
    def save_counter(self) -> Any:
        """How often :meth:`save` was called; an int64 variable, part of the checkpoint."""
        self._make_counter()
        return self._save_counter

    def _make_counter(self) -> None:
        if self._save_counter is None:
            with self._graph().as_default(), self._graph().control_dependencies(None):
                self._save_counter = make_variable(
                    constant(0, "int64"), trainable=False, name="save_counter", dtype="int64", collections=[]
                )

    def _graph(self) -> Graph:
        for _, item in trackable.ObjectGraph(self).values():
            return item.graph if isinstance(item, Variable) else item.resource_handle.graph
        return get_default_graph()

    # ---------------------------------------------------------------------------------------------------------- saving
    def write(self, file_prefix: Any, session: Any = None) -> str:
        """Write a checkpoint at the path ``file_prefix``, and nothing else; return the path."""
        session = _session(session)
        view = trackable.ObjectGraph(self)
        proto = view.to_proto().SerializeToString(deterministic=True)
        graph = session.graph
        known = self._saves.get(proto)
        if known is None or known[0] is not graph:
            with graph.as_default(), graph.control_dependencies(None), name_scope(None, "save"):
                path = build("PlaceholderWithDefault", "model", shape=(), name="Const")
                spec = saveable.SaveSpec(constant(proto), "", OBJECT_GRAPH_KEY)
                items = [*view.saveables(), saveable.SaveableObject(spec.tensor, [spec], OBJECT_GRAPH_KEY)]
                op = saver_builder.BulkSaverBuilder().save_op(path, items)
            known = (graph, path, op)
            self._saves = {proto: known}
        place = checkpoint_state.as_path(file_prefix)
        session.run(known[2], {known[1]: place})
        return place

    def save(self, file_prefix: Any, session: Any = None) -> str:
        """Count, write a checkpoint ``file_prefix-COUNT``, make it the newest of its folder; return its path."""
        path = self._count_and_write(file_prefix, _session(session))
        checkpoint_state.write_state(os.path.dirname(path), path, [path], save_relative_paths=True)
        return path

    def _count_and_write(self, file_prefix: Any, session: Any) -> str:
        """Like :meth:`save`, but leaves the file alone that names the checkpoints."""
        self._make_counter()
        with session.graph.as_default():
            if not hasattr(self, "_count_op"):
                self._is_counting = build_is_initialized(self._save_counter)
                self._count_op = self._save_counter.assign_add(1)
        if not session.run(self._is_counting):
            session.run(self._save_counter.initializer)
        number = int(session.run(self._count_op))
        return self.write(f"{checkpoint_state.as_path(file_prefix)}-{number}", session)

    # -------------------------------------------------------------------------------------------------------- restoring
    def read(self, save_path: Any) -> Any:
        """What can be restored from a checkpoint that :meth:`write` wrote: a status, as :meth:`restore` returns."""
        if save_path is None:
            return InitializationOnlyStatus(self)
        path = checkpoint_state.as_path(save_path)
        proto = read_object_graph(path)
        return NameBasedStatus(self, path) if proto is None else LoadStatus(self, path, proto)

    def restore(self, save_path: Any) -> Any:
        """What can be restored from a checkpoint; values change when one of the status' methods runs.

        Args:
            save_path: path of a checkpoint by object, or of one that a `tf.train.Saver` wrote; None if there is none
                yet, so that ``initialize_or_restore`` runs initializers.

        Returns:
            An object with ``initialize_or_restore(session)``, ``run_restore_ops(session)``, ``assert_consumed()``,
            ``assert_existing_objects_matched()``, ``assert_nontrivial_match()`` and ``expect_partial()``.

        Raises:
            NotFoundError: there is no checkpoint.
        """
        status = self.read(save_path)
        self._make_counter()
        return status


def build_is_initialized(variable: Any) -> Any:
    """Whether a variable has a value, as a tensor."""
    if variable._is_resource:
        return build("VarIsInitializedOp", variable.handle)
    return build("IsVariableInitialized", variable._ref())


# --------------------------------------------------------------------------------------------------------------- status
class _Status:
    def __init__(self, root: Checkpoint) -> None:
        self._root = root

    def _values(self) -> Iterator[Any]:
        return (item for _, item in trackable.ObjectGraph(self._root).values())

    def _found(self) -> list[tuple[Any, str]]:
        """Objects that exist and have a value in the file, and its key there."""
        raise NotImplementedError

    _path: str

    def expect_partial(self) -> Any:
        """Return the status; say that parts of the checkpoint are not wanted."""
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Restore what exists and is in the checkpoint, all in one step."""
        session = _session(session)
        matches = self._found()
        if not matches:
            return
        graph = session.graph
        with graph.as_default(), graph.control_dependencies(None), name_scope(None, "restore"):
            items = [item for value, key in matches for item in trackable.saveables_of(value, key)]
            path = constant(self._path)
            restore = saver_builder.BulkSaverBuilder()._add_restore_ops(path, items, False, False)
        session.run(restore)

    def initialize_or_restore(self, session: Any = None) -> None:
        """Restore like :meth:`run_restore_ops`, and initialise the variables that the checkpoint lacks."""
        session = _session(session)
        restored = {id(value) for value, _ in self._found()}
        waiting = [item for item in self._values() if isinstance(item, Variable) and id(item) not in restored]
        if waiting:
            with session.graph.as_default():
                op = group(*[item.initializer for item in waiting])
            session.run(op)
        self.run_restore_ops(session)

    def assert_existing_objects_matched(self) -> Any:
        """AssertionError unless every object that exists is in the checkpoint; returns the status."""
        matched_ids = {id(value) for value, _ in self._found()}
        for item in self._values():
            if id(item) not in matched_ids and item is not self._root._save_counter:
                raise AssertionError(
                    f"Object not assigned a value from checkpoint: {item}\n"
                    + errors.message(f"{item.name!r}, which {self._path} lacks", "a value for it", "expect_partial()")
                )
        return self

    def assert_consumed(self) -> Any:
        """AssertionError unless objects and checkpoint match entirely; returns the status."""
        return self.assert_existing_objects_matched()

    def assert_nontrivial_match(self) -> Any:
        """AssertionError unless something matches; returns the status."""
        if not self._found():
            raise AssertionError(
                "Nothing except the root object matched a checkpointed value. Typically this means that the checkpoint "
                "does not match the Python program.\n"
                + errors.message(f"{self._path} for other objects", "common names", "tf.train.list_variables(path)")
            )
        return self


class LoadStatus(_Status):
    """A checkpoint by object that was given to `Checkpoint.restore`."""

    def __init__(self, root: Checkpoint, path: str, proto: Any) -> None:
        super().__init__(root)
        self._path = path
        self._proto = proto

    def _found(self) -> list[tuple[Any, str]]:
        matches = []
        seen = set()
        for number, item in sorted(trackable.matched(self._root, self._proto).items()):
            for attribute in self._proto.nodes[number].attributes:
                if trackable.has_value(item) and id(item) not in seen:
                    seen.add(id(item))
                    matches.append((item, attribute.checkpoint_key))
        return matches

    def assert_consumed(self) -> Any:
        matched = trackable.matched(self._root, self._proto)
        for number, node in enumerate(self._proto.nodes):
            if number not in matched and node.attributes:
                raise AssertionError(
                    f"Unresolved object in checkpoint: {node.attributes[0].checkpoint_key}\n"
                    + errors.message(
                        f"{node.attributes[0].checkpoint_key!r} in {self._path}, which no object wants",
                        "an object for it",
                        "expect_partial() if it is not wanted",
                    )
                )
        return self.assert_existing_objects_matched()


class NameBasedStatus(_Status):
    """A checkpoint that a `tf.train.Saver` wrote: variables are matched by their names."""

    def __init__(self, root: Checkpoint, path: str) -> None:
        super().__init__(root)
        self._path = path

    def _found(self) -> list[tuple[Any, str]]:
        with checkpoints.open_checkpoint(self._path) as reader:
            names = set(reader.tensors)
        return [
            (item, item._shared_name)
            for item in self._values()
            if isinstance(item, Variable) and item._shared_name in names
        ]


class InitializationOnlyStatus(_Status):
    """No checkpoint: `initialize_or_restore` runs the initializers."""

    _path = "no checkpoint"

    def _found(self) -> list[tuple[Any, str]]:
        return []

    def _refuse(self) -> Any:
        raise AssertionError(
            "No checkpoint specified (save_path=None); nothing is being restored.\n"
            + errors.message("restore(None)", "a path", "tf.train.latest_checkpoint(folder), if it is not None")
        )

    def assert_consumed(self) -> Any:
        return self._refuse()

    def assert_existing_objects_matched(self) -> Any:
        return self._refuse()

    def assert_nontrivial_match(self) -> Any:
        return self._refuse()

    def run_restore_ops(self, session: Any = None) -> None:
        if session is not None or get_default_session() is not None:
            self._refuse()

    def initialize_or_restore(self, session: Any = None) -> None:
        session = _session(session)
        variables = [item for item in self._values() if isinstance(item, Variable)]
        if variables:
            with session.graph.as_default():
                op = group(*[item.initializer for item in variables])
            session.run(op)


# -------------------------------------------------------------------------------------------------------------- manager
@public("train.CheckpointManager")
class CheckpointManager:
    """Keep the newest checkpoints of a folder.

    Args:
        checkpoint: the `tf.train.Checkpoint` to save.
        directory: the folder.
        max_to_keep: how many to keep; all if None.
        keep_checkpoint_every_n_hours: keep one for good every so many hours.
        checkpoint_name: name of the checkpoints, before their numbers.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: Any,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
    ) -> None:
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(
                f"Expected a positive integer or `None` for `max_to_keep`, got {max_to_keep}.\n"
                + errors.message(f"max_to_keep={max_to_keep}", "a positive number, or None for all", "max_to_keep=5")
            )
        self._checkpoint = checkpoint
        self._directory = checkpoint_state.as_path(directory)
        self._max_to_keep = max_to_keep
        self._every = keep_checkpoint_every_n_hours
        self._name = checkpoint_name
        state = checkpoint_state.get_checkpoint_state(self._directory)
        now = time.time()
        self._last_preserved = now
        self._kept: dict[str, float] = {}
        if state is not None:
            times = list(state.all_model_checkpoint_timestamps)
            paths = list(state.all_model_checkpoint_paths)
            times = [now] * (len(paths) - len(times)) + times[len(times) - len(paths) :] if paths else []
            self._kept = dict(zip(paths, times, strict=True))
            self._last_preserved = state.last_preserved_timestamp or now

    @property
    def directory(self) -> str:
        """The folder."""
        return self._directory

    @property
    def checkpoints(self) -> list[str]:
        """Paths of the checkpoints that are kept, the newest last."""
        return list(self._kept)

    @property
    def latest_checkpoint(self) -> str | None:
        """Path of the newest checkpoint; None if there is none."""
        return list(self._kept)[-1] if self._kept else None

    def save(self, checkpoint_number: Any = None, session: Any = None) -> str:
        """Save, remove what is no longer kept, and return the path."""
        session = _session(session)
        prefix = os.path.join(self._directory, self._name)
        if checkpoint_number is None:
            path = self._checkpoint._count_and_write(prefix, session)
        else:
            number = checkpoint_number if isinstance(checkpoint_number, int) else int(session.run(checkpoint_number))
            path = self._checkpoint.write(f"{prefix}-{number}", session)
        self._kept.pop(path, None)
        self._kept[path] = time.time()
        dropped = []
        while self._max_to_keep is not None and len(self._kept) > self._max_to_keep:
            old, written = next(iter(self._kept.items()))
            del self._kept[old]
            if self._every is not None and written - self._last_preserved >= self._every * 3600:
                self._last_preserved = written
            else:
                dropped.append(old)
        checkpoint_state.write_state(
            self._directory, path, self.checkpoints, None, True, list(self._kept.values()), self._last_preserved
        )
        for old in dropped:
            if checkpoint_state.is_in(old, self._directory):  # what a state file names elsewhere is not ours
                checkpoint_state.remove_checkpoint(old)
        checkpoint_state.remove_leftovers(prefix)
        return path


__all__ = ["Checkpoint", "CheckpointManager", "LoadStatus"]
