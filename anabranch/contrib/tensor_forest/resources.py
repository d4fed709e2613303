"""The resources of a forest in a graph, with what initialises, saves and restores them."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.ops.state.registered import register_resource
from anabranch.train.saving.saveable import SaveableObject, SaveSpec


class _Saveable(SaveableObject):
    """A resource that is one string of a checkpoint."""

    def __init__(self, handle: Any, create: Any, serialized: Any, restore: Any, name: str) -> None:
        super().__init__(handle, [SaveSpec(serialized, "", name)], name)
        self._create, self._restored = create, restore

    def restore(self, restored_tensors: Any, restored_shapes: Any = None) -> Any:
        """The operation that puts what was saved in place of what is there."""
        with tf.control_dependencies([self._create]):
            return self._restored(restored_tensors[0])


def _variable(
    handle_op: str, forms: tuple[str, str, str, str], params: Any, config: Any, name: str, container: Any, scope: str
) -> Any:
    create_op, initialized_op, serialize_op, deserialize_op = forms
    serialized_params = params.serialized_params_proto
    with tf.name_scope(name, scope) as name:
        handle = build(handle_op, container=container or "", shared_name=name, name=name)
        create = build(create_op, handle, config, params=serialized_params)
        is_initialized = build(initialized_op, handle)
        of_stats = {"params": serialized_params} if serialize_op == "FertileStatsSerialize" else {}
        serialized = build(serialize_op, handle, **of_stats)

        def restore(tensor: Any) -> Any:
            return build(deserialize_op, handle, tensor, params=serialized_params)

        saveable = _Saveable(handle, create, serialized, restore, handle.name)
        tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, saveable)
        register_resource(handle, create, is_initialized)
        return handle


@public("contrib.tensor_forest.tree_variable")
def tree_variable(params: Any, tree_config: Any, stats_handle: Any, name: str, container: str | None = None) -> Any:
    """The handle of a tree.

    Args:
        params: parameters with ``serialized_params_proto``.
        tree_config: a scalar string: a message of a tree, or an empty one for a leaf.
        stats_handle: the handle of its statistics, which it does not need.
        name: of the resource.
        container: of the resource.
    """
    del stats_handle
    forms = ("CreateTreeVariable", "TreeIsInitializedOp", "TreeSerialize", "TreeDeserialize")
    return _variable("DecisionTreeResourceHandleOp", forms, params, tree_config, name, container, "TreeVariable")


@public("contrib.tensor_forest.fertile_stats_variable")
def fertile_stats_variable(params: Any, stats_config: Any, name: str, container: str | None = None) -> Any:
    """The handle of what the leaves of a tree count.

    Args:
        params: parameters with ``serialized_params_proto``.
        stats_config: a scalar string: a message of statistics, or an empty one for a root.
        name: of the resource.
        container: of the resource.
    """
    forms = (
        "CreateFertileStatsVariable",
        "FertileStatsIsInitializedOp",
        "FertileStatsSerialize",
        "FertileStatsDeserialize",
    )
    return _variable(
        "FertileStatsResourceHandleOp", forms, params, stats_config, name, container, "FertileStatsVariable"
    )
