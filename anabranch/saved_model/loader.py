"""Reading SavedModels into a session: `tf.saved_model.loader.load`.

Policy. The MetaGraph with the given tags is added to the session's graph, all or nothing; then its saver restores the
variables, and its init operation runs with the paths of the assets fed. For callables with named inputs, without a
graph and a session of one's own, see :mod:`anabranch.saved_model.loaded`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation
from anabranch.saved_model import constants, files, signature_def_utils
from anabranch.saved_model.files import maybe_saved_model_directory
from anabranch.train.meta_graph_import import import_with_elements
from anabranch.variables.save_slice import inside_scope


class SavedModelLoader:
    """Load a SavedModel in steps: graph, variables, init operations.

    Args:
        export_dir: the model's folder.

    Raises:
        OSError: it holds no SavedModel.
    """

    def __init__(self, export_dir: Any) -> None:
        self._export_dir = export_dir
        self._saved_model = files.read_saved_model(export_dir)

    @property
    def export_dir(self) -> Any:
        """The model's folder."""
        return self._export_dir

    @property
    def saved_model(self) -> Any:
        """The ``SavedModel`` message."""
        return self._saved_model

    @property
    def variables_path(self) -> str:
        """Prefix of the checkpoint with the variables."""
        return files.variables_prefix(self._export_dir)

    def get_meta_graph_def_from_tags(self, tags: Iterable[str]) -> Any:
        """The MetaGraphDef that has exactly these tags; RuntimeError if there is none."""
        return files.choose_meta_graph(self._saved_model, tags, str(self._export_dir))

    def load_graph(
        self, graph: Graph, tags: Iterable[str], import_scope: str | None = None, **saver_kwargs: Any
    ) -> tuple[Any, list[Any] | None]:
        """Add the nodes to ``graph``; return the saver, and the elements asked for by ``return_elements=``."""
        meta = self.get_meta_graph_def_from_tags(tags)
        with graph.as_default():
            return import_with_elements(meta, import_scope=import_scope, **saver_kwargs)

    def restore_variables(self, sess: Any, saver: Any, import_scope: str | None = None) -> None:
        """Restore the variables, if the model holds any."""
        with sess.graph.as_default():
            if saver is not None and files.has_variables(self._export_dir):
                saver.restore(sess, self.variables_path)

    def run_init_ops(self, sess: Any, tags: Iterable[str], import_scope: str | None = None) -> None:
        """Run the model's init operation with the paths of its assets."""
        meta = self.get_meta_graph_def_from_tags(tags)
        with sess.graph.as_default():
            fed = files.assets(self._export_dir, meta, import_scope)
            op = init_op(meta, sess.graph, import_scope)
            if op is not None:
                sess.run(op, feed_dict=fed)

    def load(self, sess: Any, tags: Iterable[str], import_scope: str | None = None, **saver_kwargs: Any) -> Any:
        """Graph, variables and init operations; returns the MetaGraphDef."""
        if isinstance(tags, (str, bytes)):
            tags = [tags.decode() if isinstance(tags, bytes) else tags]
        tags = list(tags)
        # Names that lead out of the folder are refused before anything is built.
        files.assets(self._export_dir, self.get_meta_graph_def_from_tags(tags), import_scope)
        saver, _ = self.load_graph(sess.graph, tags, import_scope, **saver_kwargs)
        self.restore_variables(sess, saver, import_scope)
        self.run_init_ops(sess, tags, import_scope)
        return self.get_meta_graph_def_from_tags(tags)


def init_op(meta: Any, graph: Graph, import_scope: str | None = None) -> Any:
    """The operation that initialises a loaded model, or None; RuntimeError if the file names several."""
    if constants.INIT_OP_SIGNATURE_KEY in meta.signature_def:
        return signature_def_utils.load_op_from_signature_def(
            meta.signature_def[constants.INIT_OP_SIGNATURE_KEY], constants.INIT_OP_SIGNATURE_KEY, import_scope
        )
    for key in (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY):
        if key not in meta.collection_def:
            continue
        names = meta.collection_def[key].node_list.value
        if len(names) != 1:
            raise RuntimeError(f"Expected exactly one SavedModel init op in collection {key!r}. Found: {list(names)}")
        element = graph.as_graph_element(inside_scope(names[0], import_scope))
        return element if isinstance(element, Operation) else element.op
    return None


@public("saved_model.loader.load")
def load(sess: Any, tags: Iterable[str], export_dir: Any, import_scope: str | None = None, **saver_kwargs: Any) -> Any:
    """Load a SavedModel into the graph of ``sess`` and restore its variables there.

    Args:
        sess: session.
        tags: tags of the MetaGraph, all of them.
        export_dir: the model's folder.
        import_scope: name scope for the nodes.
        saver_kwargs: further arguments of `tf.train.import_meta_graph`.

    Returns:
        The MetaGraphDef, whose ``signature_def`` names inputs and outputs.

    Raises:
        OSError: the folder holds no SavedModel. RuntimeError: no MetaGraph has these tags.
    """
    return SavedModelLoader(export_dir).load(sess, tags, import_scope, **saver_kwargs)


__all__ = ["SavedModelLoader", "init_op", "load", "maybe_saved_model_directory"]
