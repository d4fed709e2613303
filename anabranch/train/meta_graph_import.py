"""`tf.train.import_meta_graph`: a MetaGraph into the default graph, and a saver for its variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.graph import get_default_graph
from anabranch.train import meta_graph
from anabranch.train.saving.saver import Saver


@public("train.import_meta_graph")
def import_meta_graph(
    meta_graph_or_file: Any, clear_devices: bool = False, import_scope: str | None = None, **kwargs: Any
) -> Any:
    """Add a MetaGraph (a ``MetaGraphDef`` or a file) to the default graph and return its saver.

    Args:
        meta_graph_or_file: a MetaGraphDef, or the path of a file such as ``model.ckpt-10.meta``.
        clear_devices: leave out the devices of its nodes.
        import_scope: name scope for its nodes.
        kwargs: ``input_map`` as for `tf.import_graph_def`; ``unbound_inputs_col_name``;
            ``restore_collections_predicate``: which collections to take over, by name.

    Returns:
        The saver that the MetaGraph describes; one for all variables if it describes none; None if there are none.

    Raises:
        OSError: the file is not there or holds no MetaGraphDef. ValueError: something in it does not fit; the graph
        is then as it was.
    """
    meta_graph.require_meta_graph("tf.train.import_meta_graph")
    return import_with_elements(meta_graph_or_file, clear_devices, import_scope, None, **kwargs)[0]


def import_with_elements(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    import_scope: str | None = None,
    return_elements: Sequence[str] | None = None,
    **kwargs: Any,
) -> tuple[Any, list[Any] | None]:
    """Like :func:`import_meta_graph`, and the graph elements called ``return_elements``."""
    meta = meta_graph.read_meta_graph(meta_graph_or_file)
    imported, elements, _ = meta_graph.import_scoped_meta_graph(
        meta, clear_devices=clear_devices, import_scope=import_scope, return_elements=return_elements, **kwargs
    )
    if meta.HasField("saver_def"):
        scope = import_scope
        for name, variable in imported.items():
            scope = variable.name[: -len(name)]
            break
        return Saver(saver_def=meta.saver_def, name=scope), elements
    graph = get_default_graph()
    saveable = [
        *graph.get_collection(GraphKeys.GLOBAL_VARIABLES, import_scope),
        *graph.get_collection(GraphKeys.SAVEABLE_OBJECTS, import_scope),
    ]
    return (Saver() if saveable else None), elements


__all__ = ["import_meta_graph", "import_with_elements"]
