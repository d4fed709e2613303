"""`tf.train.Checkpoint`: checkpoints by object, which survive renaming of variables.

In a graph, `restore` reads no values: it returns a status, and ``status.initialize_or_restore()`` or
``run_restore_ops()`` matches the objects that exist *then* with those of the file, by the names that lead to them, and
restores all of them in one step. Objects made after `restore` was called are therefore restored, too.

Where ops run at once, `restore` gives the objects that exist their values now: all of them, or none if one does not
fit. Those that come later get theirs when they become a child of another one (:mod:`anabranch.variables.tracking`),
and slots of an optimizer are made with theirs. Such a status lives as long as one of the objects that it has met.
"""

from __future__ import annotations

import itertools
import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.graph.public_scopes import name_scope
from anabranch.eager import recording
from anabranch.eager.mode import EAGER
from anabranch.formats import checkpoints
from anabranch.ops.control.public_dependencies import group
from anabranch.session import get_default_session
from anabranch.train.saving import checkpoint_state, saveable, saver_builder, trackable
from anabranch.train.saving.object_checkpoint import OBJECT_GRAPH_KEY, read_object_graph
from anabranch.variables import tracking
from anabranch.variables.tracking import AutoTrackable, Trackable
from anabranch.variables.variable import Variable, make_variable

_numbers = itertools.count()
_statuses: weakref.WeakSet[_Status] = weakref.WeakSet()
"""What `restore` returned and the program still has."""


def _session(given: Any) -> Any:
    """The session to work in; None where ops run at once."""
    if not current_builder().defers:
        return None
    session = given or get_default_session()
    if session is None:
        raise RuntimeError(
            errors.message(
                "a checkpoint without a session", "a session", "session=, or `with tf.Session() as session:` around it"
            )
        )
    return session


@public("train.Checkpoint", "contrib.eager.Checkpoint")
class Checkpoint(AutoTrackable):
    """A group of objects that are saved and restored together.

    Args:
        root: an object whose children are this one's, too.
        kwargs: variables, optimizers, layers, mutable tables, other checkpoints, and lists and dicts of them, by name.
            Further ones may be set as attributes.

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

    _OWN = frozenset({"_save_counter", "_root", "_saves", "_count_op", "_is_counting"})
    """Attributes that are not children."""

    def __init__(self, root: Any = None, **kwargs: Any) -> None:
        self._saves: dict[bytes, tuple[Graph, Any, Any]] = {}
        self._save_counter: Any = None
        self._root = root
        if root is not None:
            trackable.check_trackable("root", root)
        for name, item in sorted(kwargs.items()):
            trackable.check_trackable(name, item)
            setattr(self, name, item)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._OWN:
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        own = {} if self._root is None else trackable.children(self._root)
        own |= self._named_children()
        if self._save_counter is not None:
            own["save_counter"] = self._save_counter
        return own

    @property
    def save_counter(self) -> Any:
        """How often :meth:`save` was called; an int64 variable, part of the checkpoint."""
        self._make_counter()
        return self._save_counter

    def _make_counter(self) -> None:
        if self._save_counter is None:
            builder = self._builder()
            with builder.as_default(), builder.control_dependencies(None), builder.init_scope():
                self._save_counter = make_variable(
                    constant(0, "int64"), trainable=False, name="save_counter", dtype="int64", collections=[]
                )

    def _builder(self) -> Any:
        """What the objects belong to: a graph, or where ops run at once."""
        for _, item in trackable.ObjectGraph(self).values():
            if isinstance(item, Variable):
                return item._builder
            if hasattr(item, "resource_handle"):
                return getattr(item.resource_handle, "graph", EAGER)
        return current_builder() if not current_builder().defers else get_default_graph()

    # ---------------------------------------------------------------------------------------------------------- saving
    def write(self, file_prefix: Any, session: Any = None) -> str:
        """Write a checkpoint at the path ``file_prefix``, and nothing else; return the path."""
        session = _session(session)
        view = trackable.ObjectGraph(self)
        proto = view.to_proto().SerializeToString(deterministic=True)
        place = checkpoint_state.as_path(file_prefix)
        if session is None:
            _save_op(constant(place), view, proto)
            return place
        graph = session.graph
        known = self._saves.get(proto)
        if known is None or known[0] is not graph:
            with graph.as_default(), graph.control_dependencies(None), name_scope(None, "save"):
                path = build("PlaceholderWithDefault", "model", shape=(), name="Const")
                known = (graph, path, _save_op(path, view, proto))
            self._saves = {proto: known}
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
        if session is None:
            number = int(self._save_counter.assign_add(1).numpy())
            return self.write(f"{checkpoint_state.as_path(file_prefix)}-{number}")
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
        status = NameBasedStatus(self, path) if proto is None else LoadStatus(self, path, proto)
        if not current_builder().home.defers:
            status.restore_as_they_come()
        return status

    def restore(self, save_path: Any) -> Any:
        """What can be restored from a checkpoint; in a graph, values change when one of the status' methods runs.

        Where ops run at once, what exists has its value when this returns, and what comes later gets it then.

        Args:
            save_path: path of a checkpoint by object, or of one that a `tf.train.Saver` wrote; None if there is none
                yet, so that ``initialize_or_restore`` runs initializers.

        Returns:
            An object with ``initialize_or_restore(session)``, ``run_restore_ops(session)``, ``assert_consumed()``,
            ``assert_existing_objects_matched()``, ``assert_nontrivial_match()`` and ``expect_partial()``.

        Raises:
            NotFoundError: there is no checkpoint. InvalidArgumentError, ValueError: a shape or dtype differs, where ops
                run at once; nothing has changed then.
        """
        if current_builder().home.defers:
            status = self.read(save_path)
            self._make_counter()
        else:
            self._make_counter()
            status = self.read(save_path)
        return status


def _save_op(path: Any, view: trackable.ObjectGraph, proto: bytes) -> Any:
    """The op that writes the objects and their graph."""
    spec = saveable.SaveSpec(constant(proto), "", OBJECT_GRAPH_KEY)
    items = [*view.saveables(), saveable.SaveableObject(spec.tensor, [spec], OBJECT_GRAPH_KEY)]
    return saver_builder.BulkSaverBuilder().save_op(path, items)


def build_is_initialized(variable: Any) -> Any:
    """Whether a variable has a value, as a tensor."""
    if variable._is_resource:
        return build("VarIsInitializedOp", variable.handle)
    return build("IsVariableInitialized", variable._ref())


# --------------------------------------------------------------------------------------------------------------- status
class _Status:
    def __init__(self, root: Checkpoint) -> None:
        self._root = root
        self.number = next(_numbers)
        """Later restorations have greater numbers, and come last."""
        _statuses.add(self)
        self._restored: set[Any] = set()
        self._settling = False
        self._session: Any = None
        """The session in whose graph objects are restored as they come; None where ops run at once."""

    def _values(self) -> Iterator[Any]:
        return (item for _, item in trackable.ObjectGraph(self._root).values())

    def _found(self) -> list[tuple[Any, Any, str]]:
        """Values that exist and are in the file: the object, its value, and its key there."""
        raise NotImplementedError

    _path: str

    # ----------------------------------------------------------------------------------------------- as objects come
    def restore_as_they_come(self, session: Any = None) -> None:
        """Restore what exists now, and what will exist when it comes; in a graph in a session."""
        self._session = session
        for older in [one for one in tracking.waiting if one._root is self._root]:
            tracking.waiting.discard(older)
        self.settle()
        if not self._is_complete():
            tracking.waiting.add(self)

    def settle(self) -> None:
        """Restore what has come since the last time."""
        if self._settling:
            return
        if self._session is not None:
            self._settle_in_session()
            return
        self._settling = True
        try:
            with EAGER.as_default(), recording.stopped():
                self._make_slots()
                new = [
                    (item, value, key)
                    for item, value, key in self._found()
                    if key not in self._restored and not (isinstance(item, Variable) and item._builder.defers)
                ]
                if new:
                    items = [one for _, value, key in new for one in trackable.saveables_of(value, key)]
                    saver_builder.BulkSaverBuilder().restore_now(constant(self._path), items)
                    self._restored.update([key for _, _, key in new])
                self._hold()
        finally:
            self._settling = False
        if self._is_complete():
            tracking.waiting.discard(self)

    def _settle_in_session(self) -> None:
        if getattr(self._session, "_closed", False):
            tracking.waiting.discard(self)
            return
        self._settling = True
        try:
            graph = self._session.graph
            new = [
                (item, value, key)
                for item, value, key in self._found()
                if key not in self._restored and (not isinstance(item, Variable) or item.graph is graph)
            ]
            if new:
                self._run_restore(self._session, new)
                self._restored.update([key for _, _, key in new])
            self._hold()
        finally:
            self._settling = False
        if self._is_complete():
            tracking.waiting.discard(self)

    def _make_slots(self) -> None:
        """Make the slots that the file has values for."""

    def _hold(self) -> None:
        """Live as long as one of the objects that were met."""

    def _be_held_by(self, objects: Iterable[Any]) -> None:
        for item in (*objects, self._root._root):
            if isinstance(item, Trackable) or (hasattr(item, "__dict__") and hasattr(item, "_trackable_children")):
                item.__dict__["_restoration"] = self

    def _is_complete(self) -> bool:
        """Whether nothing in the file waits for an object."""
        return False

    def _matches_something(self) -> bool:
        return bool(self._found())

    # ---------------------------------------------------------------------------------------------------- in a graph
    def expect_partial(self) -> Any:
        """Return the status; say that parts of the checkpoint are not wanted."""
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Restore what exists and is in the checkpoint, all in one step."""
        session = _session(session)
        if session is None:
            return
        matches = self._found()
        if matches:
            self._run_restore(session, matches)

    def _run_restore(self, session: Any, matches: list[tuple[Any, Any, str]]) -> None:
        graph = session.graph
        with graph.as_default(), graph.control_dependencies(None), name_scope(None, "restore"):
            items = [item for _, value, key in matches for item in trackable.saveables_of(value, key)]
            path = constant(self._path)
            restore = saver_builder.BulkSaverBuilder()._add_restore_ops(path, items, False, False)
        session.run(restore)
        for item, _, _ in matches:
            if isinstance(item, Variable):
                item.__dict__["_restoration_number"] = self.number

    def initialize_or_restore(self, session: Any = None) -> None:
        """Restore like :meth:`run_restore_ops`, and initialise the variables that the checkpoint lacks.

        Variables that a later `restore` is for keep their values.
        """
        session = _session(session)
        if session is None:
            return
        self._initialize(session, {id(item) for item, _, _ in self._found()})
        self.run_restore_ops(session)

    def _initialize(self, session: Any, restored: set[int]) -> None:
        """Initialise the variables that neither this restoration nor a later one restores."""
        kept = {id(item) for one in _statuses if one.number > self.number for item, _, _ in one._found()} | restored
        waiting = [
            item
            for item in self._values()
            if isinstance(item, Variable)
            and id(item) not in kept
            and item.__dict__.get("_restoration_number", -1) < self.number
        ]
        if waiting:
            with session.graph.as_default():
                op = group(*[item.initializer for item in waiting])
            session.run(op)

    def assert_existing_objects_matched(self) -> Any:
        """AssertionError unless every object that exists is in the checkpoint; returns the status."""
        matched_ids = {id(item) for item, _, _ in self._found()}
        for item in self._values():
            if id(item) not in matched_ids and item is not self._root._save_counter:
                raise AssertionError(
                    f"Object not assigned a value from checkpoint: {item}\n"
                    + errors.message(
                        f"{getattr(item, 'name', item)!r}, which {self._path} lacks",
                        "a value for it",
                        "expect_partial()",
                    )
                )
        return self

    def assert_consumed(self) -> Any:
        """AssertionError unless objects and checkpoint match entirely; returns the status."""
        return self.assert_existing_objects_matched()

    def assert_nontrivial_match(self) -> Any:
        """AssertionError unless something matches; returns the status."""
        if not self._matches_something():
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

    def _found(self) -> list[tuple[Any, Any, str]]:
        found = []
        seen = set()
        for number, item in sorted(trackable.Matches(self._root, self._proto).objects.items()):
            if id(item) in seen:
                continue
            seen.add(id(item))
            values = trackable.values_of(item)
            for attribute in self._proto.nodes[number].attributes:
                value = values.get(attribute.name)
                if value is not None:
                    found.append((item, value, attribute.checkpoint_key))
        return found

    def _make_slots(self) -> None:
        for optimizer, variable, name, number in trackable.Matches(self._root, self._proto).slots:
            attributes = self._proto.nodes[number].attributes
            if attributes and not variable._builder.defers:
                with checkpoints.open_checkpoint(self._path) as reader:
                    value = reader.read(attributes[0].checkpoint_key)
                optimizer._restored_slot(variable, name, constant(value))

    def _hold(self) -> None:
        self._be_held_by(trackable.Matches(self._root, self._proto).objects.values())

    def _is_complete(self) -> bool:
        keys = {attribute.checkpoint_key for node in self._proto.nodes for attribute in node.attributes}
        return keys <= self._restored

    def _matches_something(self) -> bool:
        """Whether an object below the root has its place in the file; its variables may be still to come."""
        return len(trackable.Matches(self._root, self._proto).objects) > 1

    def assert_consumed(self) -> Any:
        matches = trackable.Matches(self._root, self._proto)
        for number, node in enumerate(self._proto.nodes):
            if number not in matches.objects and node.attributes:
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
        with checkpoints.open_checkpoint(path) as reader:
            self._names = set(reader.tensors)

    def _found(self) -> list[tuple[Any, Any, str]]:
        return [
            (item, item, item._shared_name)
            for item in self._values()
            if isinstance(item, Variable) and item._shared_name in self._names
        ]

    def _hold(self) -> None:
        self._be_held_by(trackable.ObjectGraph(self._root).objects)

    def _is_complete(self) -> bool:
        return self._names <= self._restored


class InitializationOnlyStatus(_Status):
    """No checkpoint: `initialize_or_restore` runs the initializers."""

    _path = "no checkpoint"

    def _found(self) -> list[tuple[Any, Any, str]]:
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
        self._refuse()

    def initialize_or_restore(self, session: Any = None) -> None:
        session = _session(session)
        if session is None:
            return
        self._initialize(session, set())


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
        init_fn: called by :meth:`restore_or_initialize` if there is no checkpoint.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: Any,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        init_fn: Callable[[], Any] | None = None,
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
        self._init_fn = init_fn
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
    def checkpoint(self) -> Checkpoint:
        """What is saved."""
        return self._checkpoint

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
            number = _number(checkpoint_number, session)
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

    def restore_or_initialize(self) -> str | None:
        """Restore the newest checkpoint and return its path; without one, call ``init_fn`` and return None."""
        if self.latest_checkpoint is not None:
            self._checkpoint.restore(self.latest_checkpoint)
            return self.latest_checkpoint
        if self._init_fn is not None:
            self._init_fn()
        return None


def _number(given: Any, session: Any) -> int:
    """The number of a checkpoint, which may be a tensor or a variable."""
    if isinstance(given, int) or session is None:
        return int(given)
    return int(session.run(given))


__all__ = ["Checkpoint", "CheckpointManager", "LoadStatus"]
