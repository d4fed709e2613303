"""`tf.train.Saver`: variables to checkpoints and back.

A saver adds its ops to the graph once (:mod:`anabranch.train.saving.saver_builder`); saving and restoring are runs of
them in a session. Saving happens in this order: the tensors, complete and on the disk; the MetaGraph; the file
``checkpoint`` that names the newest; and last the removal of checkpoints that are no longer kept. So whatever happens
in between, the file names a checkpoint that is whole.
"""

from __future__ import annotations

import numbers
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.collections import GraphKeys, register_proto_function
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.protos import training_pb2
from anabranch.eager import recording
from anabranch.eager.mode import EAGER
from anabranch.platform import logging
from anabranch.runtime.state import spare_buffers
from anabranch.train import meta_graph
from anabranch.train.saving import checkpoint_state, saver_builder
from anabranch.train.saving.async_save import BackgroundSaves
from anabranch.train.saving.object_checkpoint import keys_of_object_checkpoint
from anabranch.train.saving.saveable import all_saveable_objects, validated
from anabranch.variables.save_slice import inside_scope, without_scope

_NO_FOLDER = (errors.FailedPreconditionError, errors.NotFoundError, errors.AlreadyExistsError)
_NAMES = ("filename_tensor_name", "save_tensor_name", "restore_op_name")


def settle(saver: Any) -> None:
    """Wait until what a saver, of this class or another, has begun to write is on the disk."""
    wait = getattr(saver, "wait", None)
    if callable(wait):
        wait()


@public("train.Saver")
class Saver:
    """Save variables into checkpoints and restore them.

    Args:
        var_list: variables (whole, partitioned, or parts) and saveable objects, or a dict from names in the checkpoint
            to such; all global variables and saveable objects of the graph if None.
        reshape: restore a tensor into a variable of another shape with as many elements.
        sharded: write one file for each device.
        max_to_keep: how many checkpoints to keep; all if None or 0.
        keep_checkpoint_every_n_hours: keep one for good every so many hours.
        name: name scope of the ops; ``save`` if None.
        restore_sequentially: taken for compatibility; a checkpoint is always read tensor by tensor.
        saver_def: a ``SaverDef`` whose ops are in the graph already, in place of building.
        builder: what builds the ops.
        defer_build: build with :meth:`build` later, when the graph is complete.
        allow_empty: do nothing, instead of raising, if there are no variables.
        write_version: ``tf.train.SaverDef.V2``, or ``V1`` for the old format.
        pad_step_number: write step numbers with 8 digits.
        save_relative_paths: write relative paths into the file ``checkpoint``, so that the folder can be moved.
        filename: path that the ops use when none is fed.
        asynchronous: let :meth:`save` return as soon as the state of one step is held; a thread writes it while
            training goes on. :meth:`wait` waits for it.

    Raises:
        ValueError: there are no variables, or two have one name. TypeError: an item of var_list is not a variable.

    Example:
        >>> import anabranch as tf, tempfile
        >>> v = tf.Variable([1.0, 2.0], name="v")
        >>> saver = tf.train.Saver()
        >>> with tf.Session() as session:
        ...     session.run(v.initializer)
        ...     path = saver.save(session, tempfile.mkdtemp() + "/model")
        ...     _ = session.run(v.assign([0.0, 0.0]))
        ...     saver.restore(session, path)
        ...     session.run(v).tolist()
        [1.0, 2.0]
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: Any = saver_builder.V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: Any = None,
        *,
        asynchronous: bool = False,
    ) -> None:
        if defer_build and var_list:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. "
                "Either set defer_build=False or var_list=None.\n"
                + errors.message("var_list with defer_build=True", "one of the two arguments", "leave defer_build out")
            )
        self._var_list = var_list
        self._reshape = reshape
        self._sharded = sharded
        self._max_to_keep = max_to_keep
        self._keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self._name = name
        self._restore_sequentially = restore_sequentially
        self._builder = builder
        self._allow_empty = allow_empty
        self._write_version = write_version
        self._pad_step_number = pad_step_number
        self._save_relative_paths = save_relative_paths
        self._filename = filename
        self._is_built = False
        self._is_empty = False
        self._last_checkpoints: list[tuple[str, float]] = []
        self._to_delete: list[tuple[str, float]] = []
        self._written: set[str] = set()
        """The checkpoints, of those that are kept, which this saver wrote."""
        self._next_checkpoint_time = 0.0
        self._background = BackgroundSaves() if asynchronous else None
        self._eager: EagerSaver | None = None
        """What saves and restores where ops run at once, in place of a session."""
        self._by_object: dict[tuple[str, ...], Saver] = {}
        """Savers of the same variables for checkpoints that were written by object, by the keys there."""
        self._saving = threading.RLock()
        self.saver_def: Any = None
        if saver_def is not None:
            self.saver_def = training_pb2.SaverDef()
            self.saver_def.ParseFromString(saver_def.SerializeToString())
            self._write_version = self.saver_def.version
        if not defer_build:
            self.build()
        if self.saver_def is not None:
            self._check_saver_def()

    # --------------------------------------------------------------------------------------------------------- building
    def build(self) -> None:
        """Add the ops to the default graph, if that has not been done."""
        if self._is_built:
            return
        self._is_built = True
        if not current_builder().defers:
            self._build_eagerly()
            return
        if self._background is not None:
            spare_buffers.expect(get_default_graph())
        if self.saver_def is not None:
            if self._name:  # the scope into which the graph was imported
                for field in _NAMES:
                    setattr(self.saver_def, field, inside_scope(getattr(self.saver_def, field), self._name))
            self._check_saver_def()
            return
        if self._var_list is None:
            self._var_list = all_saveable_objects()
        if not self._var_list:
            if not self._allow_empty:
                raise ValueError(
                    "No variables to save\n"
                    + errors.message(
                        "a graph without variables", "a graph with variables", "make the saver after the model"
                    )
                )
            self._is_empty = True
            return
        builder = self._builder or saver_builder.BulkSaverBuilder(self._write_version)
        self.saver_def = builder.build(
            self._var_list,
            reshape=self._reshape,
            sharded=self._sharded,
            max_to_keep=self._max_to_keep,
            keep_checkpoint_every_n_hours=self._keep_checkpoint_every_n_hours,
            name=self._name,
            restore_sequentially=self._restore_sequentially,
            filename=self._filename,
        )
        self._check_saver_def()

    def _build_eagerly(self) -> None:
        """Prepare for variables that have values."""
        if self._var_list is None:
            raise RuntimeError(
                "When eager execution is enabled, `var_list` must specify a list or dict of variables to save\n"
                + errors.message("tf.train.Saver() where ops run at once", "the variables", "tf.train.Saver([v, w])")
            )
        if self._background is not None:
            raise errors.UnimplementedError(
                None,
                None,
                errors.message("asynchronous=True where ops run at once", "a saver that waits", "leave it out"),
            )
        if not self._var_list and not self._allow_empty:
            raise ValueError(
                "No variables to save\n" + errors.message("an empty var_list", "variables", "tf.train.Saver([v, w])")
            )
        self._is_empty = not self._var_list
        self._eager = EagerSaver(self._var_list, self._write_version, self._reshape)
        self.saver_def = training_pb2.SaverDef(
            filename_tensor_name="",
            save_tensor_name="",
            restore_op_name="",
            max_to_keep=self._max_to_keep or 0,
            keep_checkpoint_every_n_hours=self._keep_checkpoint_every_n_hours,
            version=self._write_version,
        )
        self._next_checkpoint_time = time.time() + self._keep_checkpoint_every_n_hours * 3600

    def _check_saver_def(self) -> None:
        if self._eager is not None:
            return
        for field, label in zip(_NAMES, ("filename_tensor", "save_tensor", "restore_op"), strict=True):
            if not getattr(self.saver_def, field):
                raise ValueError(
                    f"saver_def must specify the {field}: {self.saver_def}\n"
                    + errors.message(f"a SaverDef without {field}", f"the name of the {label}", "saver.as_saver_def()")
                )
        self._next_checkpoint_time = time.time() + self.saver_def.keep_checkpoint_every_n_hours * 3600

    def as_saver_def(self) -> Any:
        """The ``SaverDef`` that names the saver's ops."""
        return self.saver_def

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The ``SaverDef``, with ``export_scope`` taken off its names; None if they are not in that scope."""
        if export_scope is None:
            return self.saver_def
        if self.saver_def is None or not self.saver_def.filename_tensor_name.startswith(export_scope):
            return None
        proto = training_pb2.SaverDef()
        proto.CopyFrom(self.saver_def)
        for field in _NAMES:
            setattr(proto, field, without_scope(getattr(proto, field), export_scope))
        return proto

    _MetaGraphFilename = staticmethod(checkpoint_state.meta_graph_filename)

    @staticmethod
    def from_proto(saver_def: Any, import_scope: str | None = None) -> Saver:
        """The saver whose ops a ``SaverDef`` names, in ``import_scope``."""
        return Saver(saver_def=saver_def, name=import_scope)

    # ---------------------------------------------------------------------------------------------------- which to keep
    @property
    def last_checkpoints(self) -> list[str]:
        """Paths of the checkpoints that are kept, the newest last."""
        return [path for path, _ in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints: list[str]) -> None:
        """Say which checkpoints there are, the newest last; their age is taken for endless."""
        if not isinstance(last_checkpoints, list):
            raise TypeError(
                errors.message(f"{type(last_checkpoints).__name__}", "a list of paths", "saver.last_checkpoints")
            )
        self._last_checkpoints = [(path, float("inf")) for path in last_checkpoints]

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time: list[tuple[str, float]]) -> None:
        """Say which checkpoints there are, as pairs of path and time, the newest last."""
        if not isinstance(last_checkpoints_with_time, list):
            raise TypeError(
                errors.message(
                    f"{type(last_checkpoints_with_time).__name__}", "a list of (path, seconds)", "[(path, time.time())]"
                )
            )
        self._last_checkpoints = last_checkpoints_with_time

    def recover_last_checkpoints(self, checkpoint_paths: Sequence[str]) -> None:
        """Go on with the checkpoints that an earlier process wrote, those that are still there, the newest last."""
        still_there = []
        for path in checkpoint_paths:
            times = checkpoint_state.get_checkpoint_mtimes([path])
            if times:
                still_there.append((path, times[0]))
        self.set_last_checkpoints_with_time(still_there)

    def _record(self, path: str) -> None:
        if not self.saver_def.max_to_keep:
            return
        self._last_checkpoints = [item for item in self._last_checkpoints if item[0] != path]
        self._to_delete = [item for item in self._to_delete if item[0] != path]
        self._last_checkpoints.append((path, time.time()))
        self._written.add(path)
        while len(self._last_checkpoints) > self.saver_def.max_to_keep:
            self._to_delete.append(self._last_checkpoints.pop(0))

    def _delete_old(self, folder: str, meta_graph_suffix: str) -> None:
        """Remove checkpoints that are no longer kept: those that this saver wrote, and others of ``folder``."""
        while self._to_delete:
            path, written = self._to_delete.pop(0)
            if written > self._next_checkpoint_time:
                self._next_checkpoint_time += self.saver_def.keep_checkpoint_every_n_hours * 3600
                continue
            if path not in self._written and not checkpoint_state.is_in(path, folder):
                continue  # somebody has named it, in a state file perhaps, but this saver did not write it
            self._written.discard(path)
            try:
                checkpoint_state.remove_checkpoint(path, self.saver_def.version, meta_graph_suffix)
            except OSError as problem:
                logging.warning("Ignoring: %s", problem)

    # ----------------------------------------------------------------------------------------------------------- saving
    def save(
        self,
        sess: Any,
        save_path: Any,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Save the variables, as they are between two steps, and return the path of the checkpoint.

        Args:
            sess: session that holds the variables.
            save_path: path; the checkpoint is ``save_path-STEP`` if a step is given.
            global_step: the step: a number, or a variable, tensor or name of one.
            latest_filename: name of the file that names the newest checkpoint; ``checkpoint`` if None.
            meta_graph_suffix: ending of the MetaGraph's file.
            write_meta_graph: write the graph beside it.
            write_state: update that file, and remove old checkpoints.
            strip_default_attrs: leave out attributes that have their default.
            save_debug_info: must be False; sites are not written.

        Returns:
            The path, to be given to :meth:`restore`; None for an empty saver.

        Raises:
            RuntimeError: the saver is not built. TypeError: ``sess`` is not a session.
            ValueError: the path is that of the state file.
            ResourceExhaustedError: the disk is full; checkpoints that were there are as they were.
        """
        if self._eager is not None:
            sess = self._eager
        if not self._is_built:
            raise RuntimeError(
                "`build()` should be called before save if defer_build==True\n"
                + errors.message("a saver that is not built", "a call of build() before", "saver.build()")
            )
        latest_filename = latest_filename or "checkpoint"
        if os.path.split(latest_filename)[0]:
            raise ValueError(
                "'latest_filename' must not contain path components\n"
                + errors.message(f"latest_filename={latest_filename!r}", "a name", "the folder is that of save_path")
            )
        if not (hasattr(sess, "run") and hasattr(sess, "graph")):
            raise TypeError(
                f"'sess' must be a Session; {sess}\n"
                + errors.message(f"a {type(sess).__name__}", "a tf.Session", "saver.save(session, path)")
            )
        with self._saving:  # so that the last to come has the newest state, and is the latest
            return self._save(
                sess,
                checkpoint_state.as_path(save_path),
                global_step,
                latest_filename,
                meta_graph_suffix,
                write_meta_graph,
                write_state,
                (strip_default_attrs, save_debug_info),
            )

    def _save(
        self,
        sess: Any,
        base: str,
        global_step: Any,
        latest_filename: str,
        meta_graph_suffix: str,
        write_meta_graph: bool,
        write_state: bool,
        graph_options: tuple[bool, bool],
    ) -> str | None:
        if self._write_version == saver_builder.V1:
            logging.warning("TensorFlow's V1 checkpoint format has been deprecated: use write_version=SaverDef.V2")
        if global_step is not None:
            step = _step(sess, global_step)
            path = f"{base}-{step:08d}" if self._pad_step_number else f"{base}-{step}"
        else:
            path = base
            if not base:
                raise ValueError(
                    errors.message(f"{base!r} for a checkpoint", "a folder and a name", "save_path + '/model.ckpt'")
                )
            if os.path.basename(base) == latest_filename and not self._sharded:
                raise ValueError(
                    f"'latest_filename' collides with 'save_path': '{latest_filename}' and '{base}'\n"
                    + errors.message(f"{base!r} for a checkpoint", "another name", "save_path + '/model.ckpt'")
                )

        def finish(written: str | None) -> None:
            if written is not None and write_state:
                self._record(written)
                checkpoint_state.write_state(
                    os.path.dirname(base),
                    written,
                    self.last_checkpoints,
                    latest_filename,
                    self._save_relative_paths,
                )
                self._delete_old(os.path.dirname(base), meta_graph_suffix)
                checkpoint_state.remove_leftovers(base)

        graph_file = checkpoint_state.meta_graph_filename(path, meta_graph_suffix)
        if self._background is not None and not self._is_empty:
            self._background.check(sess, self.saver_def)
            self._background.wait()  # an earlier save under this name must not get the newer graph
            late = write_meta_graph and sess.graph.finalized  # it cannot change any more
            if write_meta_graph and not late:
                self._write_graph(sess, graph_file, *graph_options)

            def prepare() -> None:
                if late:
                    self._write_graph(sess, graph_file, *graph_options)

            self._background.start(sess, self.saver_def, path, prepare, finish)
            return path
        # In the foreground: the tensors first, so that a graph or state file never names a checkpoint that is not
        # there.
        written = None
        if not self._is_empty:
            try:
                if self._eager is not None:
                    written = self._eager.save(path)
                else:
                    fed = {self.saver_def.filename_tensor_name: path}
                    written = _text(sess.run(self.saver_def.save_tensor_name, fed))
            except BaseException as problem:
                checkpoint_state.remove_shards(f"{path}_temp")
                missing = isinstance(problem, _NO_FOLDER) and not os.path.isdir(os.path.dirname(path) or ".")
                if not missing:
                    raise
                refused = ValueError(f"Parent directory of {path} doesn't exist, can't save.")
                refused.add_note(
                    errors.message(f"{path!r} for a checkpoint", "a folder before the name", "another folder")
                )
                raise refused from problem
        if write_meta_graph and self._eager is None:
            self._write_graph(sess, graph_file, *graph_options)
        finish(written)
        return written

    def wait(self) -> None:
        """Wait until an asynchronous save is on the disk, and raise what went wrong in it."""
        if self._background is not None:
            self._background.wait()

    def _write_graph(self, sess: Any, path: str, strip_default_attrs: bool, save_debug_info: bool) -> None:
        with sess.graph.as_default():
            self.export_meta_graph(path, strip_default_attrs=strip_default_attrs, save_debug_info=save_debug_info)

    def export_meta_graph(
        self,
        filename: str | None = None,
        collection_list: Any = None,
        as_text: bool = False,
        export_scope: str | None = None,
        clear_devices: bool = False,
        clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> Any:
        """The default graph as a ``MetaGraphDef`` with this saver in it; see `tf.train.export_meta_graph`."""
        return meta_graph.export_meta_graph(
            filename=filename,
            graph=get_default_graph(),
            saver_def=self.saver_def,
            collection_list=collection_list,
            as_text=as_text,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
            save_debug_info=save_debug_info,
        )

    # -------------------------------------------------------------------------------------------------------- restoring
    def restore(self, sess: Any, save_path: Any) -> None:
        """Give the variables the values of a checkpoint: all of them, or none if something does not fit.

        Args:
            sess: session whose variables they are; they need not be initialised.
            save_path: path that :meth:`save` returned, or that `tf.train.latest_checkpoint` finds.

        Raises:
            ValueError: there is no such checkpoint (it is a NotFoundError too). NotFoundError: it lacks a variable.
            InvalidArgumentError: a shape or dtype differs. DataLossError: it is damaged.
        """
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError(
                "Can't load save_path when it is None.\n"
                + errors.message("None", "a path", "tf.train.latest_checkpoint gives None for a folder without one")
            )
        if not self._is_built:
            raise RuntimeError(
                "`build()` should be called before restore if defer_build==True\n"
                + errors.message("a saver that is not built", "a call of build() before", "saver.build()")
            )
        path = checkpoint_state.as_path(save_path)
        if self._eager is not None:
            sess = self._eager
        self.wait()
        if not checkpoint_state.checkpoint_exists(path):
            raise _NoCheckpointError(
                None,
                None,
                f"The passed save_path is not a valid checkpoint: {path}\n"
                f"Failed to find any matching files for {path}\n"
                + errors.message(
                    f"{path!r}, where no checkpoint is",
                    f"a file {path + '.index'!r}",
                    "the path that save returned, or tf.train.latest_checkpoint(folder)",
                ),
            )
        logging.info("Restoring parameters from %s", path)
        try:
            if self._eager is not None:
                self._eager.restore(path)
            else:
                sess.run(self.saver_def.restore_op_name, {self.saver_def.filename_tensor_name: path})
        except errors.NotFoundError as problem:
            keys = keys_of_object_checkpoint(path, self._var_list)
            if keys is None:
                raise _explained(problem, "a Variable name or other graph key that is missing") from problem
            logging.warning("Restoring an object-based checkpoint using a name-based saver.")
            layout = tuple(keys)
            if layout not in self._by_object:  # restored again and again, the graph does not grow
                with sess.graph.as_default():
                    self._by_object[layout] = Saver(var_list=keys)
            self._by_object[layout].restore(sess, path)
        except errors.InvalidArgumentError as problem:
            raise _explained(problem, "a mismatch between the current graph and the graph") from problem


class _NoCheckpointError(errors.NotFoundError, ValueError):
    """There is no checkpoint: the class that programs catch since 1.9, and the one before."""


_NoCheckpointError.__name__ = _NoCheckpointError.__qualname__ = "NotFoundError"  # what messages and tracebacks show


class EagerSaver:
    """What a saver does where ops run at once.

    Args:
        var_list: variables, or names with variables.
        write_version: format of the checkpoints.
        reshape: whether values of another shape are reshaped.
    """

    graph = EAGER

    def __init__(self, var_list: Any, write_version: Any, reshape: bool) -> None:
        self._var_list = var_list
        self._reshape = reshape
        self._builder = saver_builder.BulkSaverBuilder(write_version)
        validated(var_list)

    def run(self, fetch: Any) -> Any:
        """The value of a tensor or variable."""
        tensor: Any = convert_to_tensor(fetch)
        return tensor.numpy()

    def save(self, path: str) -> str:
        """Write a checkpoint."""
        with EAGER.as_default(), recording.stopped():
            self._builder.save_op(constant(path), validated(self._var_list))
        return path

    def restore(self, path: str) -> None:
        """Read a checkpoint."""
        with EAGER.as_default(), recording.stopped():
            self._builder.restore_now(constant(path), validated(self._var_list), self._reshape)


def _explained(problem: Any, what: str) -> Any:
    return type(problem)(
        problem.node_def,
        problem.op,
        f"Restoring from checkpoint failed. This is most likely due to {what} from the checkpoint. Please ensure that "
        f"you have not altered the graph expected based on the checkpoint. Original error:\n\n{problem.message}",
    )


def _step(sess: Any, step: Any) -> int:
    if isinstance(step, numbers.Integral):
        return int(step)
    if isinstance(sess, EagerSaver):
        return int(sess.run(step))
    if isinstance(step, (Tensor, Operation, str)) or hasattr(step, "graph") or hasattr(step, "op"):
        return int(sess.run(step))
    try:
        return int(step)
    except (TypeError, ValueError):
        raise TypeError(
            errors.message(f"global_step={step!r}", "a number, or an integer variable or tensor", "global_step=10")
        ) from None


def _text(value: Any) -> str:
    text = value.item() if hasattr(value, "item") else value
    return text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else str(text)


register_proto_function(GraphKeys.SAVERS, training_pb2.SaverDef, Saver.to_proto, Saver.from_proto)

__all__ = ["Saver"]
