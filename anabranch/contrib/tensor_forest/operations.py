"""The operations of forests: op types of TensorFlow's, on two resources, a tree and what its leaves count.

Both are state like tables: reading and changing them takes part in a step's transaction. All run on the host.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from anabranch.contrib.tensor_forest.examples import Examples
from anabranch.contrib.tensor_forest.parameters import parsed
from anabranch.contrib.tensor_forest.statistics import Statistics
from anabranch.contrib.tensor_forest.trees import Tree
from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.opdef import PURE, SELECT, Int, NotDifferentiable, String, define, read, write
from anabranch.core.values import shapes

_NO_GRADIENT = NotDifferentiable("a tree splits examples, which is not a smooth function")
_PARAMS = {"params": String()}
_DATA = ", input_data: float, sparse_input_indices: int64, sparse_input_values: float, sparse_input_shape: int64"
_DATA_ATTRS = {"input_spec": String(), **_PARAMS}


def _maker(type_name: str, doc: str, create: Any) -> None:
    define(
        type_name,
        doc,
        signature="-> resource: resource",
        attrs={"container": String(""), "shared_name": String("")},
        effect=PURE,
        makes="table",
        create=create,
        shape=lambda c: (),
        gradient=_NO_GRADIENT,
    )


_maker("DecisionTreeResourceHandleOp", "A tree, which ``CreateTreeVariable`` makes.", lambda attrs, name: Tree())
_maker(
    "FertileStatsResourceHandleOp",
    "What the leaves of a tree count, which ``CreateFertileStatsVariable`` makes.",
    lambda attrs, name: Statistics(None),
)


def _made(ctx: Any, value: Any, kind: type, name: str) -> Any:
    state = value.item()
    ctx.check(isinstance(state, kind), errors.InvalidArgumentError, f"{name} is a {type(state).__name__}")
    ctx.check(state.made, errors.FailedPreconditionError, _not_made(name))
    return state


def _not_made(name: str) -> str:
    return errors.message(
        f"{name} of a forest that was not made",
        "a made one",
        "session.run(resources.initialize_resources(resources.shared_resources())), or a Saver that restores it",
    )


def _tree(ctx: Any, value: Any) -> Tree:
    tree: Tree = _made(ctx, value, Tree, "a tree")
    return tree


def _statistics(ctx: Any, value: Any) -> Statistics:
    statistics: Statistics = _made(ctx, value, Statistics, "statistics")
    return statistics


def _params(attrs: Any) -> Any:
    return parsed(attrs["params"] if isinstance(attrs["params"], bytes) else attrs["params"].encode("latin-1"))


def _examples(ctx: Any, inputs: Any, attrs: Any) -> Examples:
    data, indices, values, shape = inputs
    spec = attrs["input_spec"]
    examples = Examples(spec.decode() if isinstance(spec, bytes) else spec, data, indices, values, shape)
    dense = examples.columns.dense
    if data.ndim == 2:
        ctx.check(
            data.shape[1] == dense,
            errors.InvalidArgumentError,
            f"input_data of shape {shapes.show(data.shape)} for {dense} features",
        )
    return examples


def _read_message(ctx: Any, read_it: Any) -> Any:
    try:
        return read_it()
    except ValueError as error:
        ctx.check(False, errors.InvalidArgumentError, str(error).replace("{", "{{").replace("}", "}}"))


def _config(ctx: Any, value: Any, name: str) -> bytes:
    ctx.check(value.ndim == 0, errors.InvalidArgumentError, f"{name} config must be a scalar.")
    config: bytes = value.item()
    return config


def _create_tree(ctx: Any, inputs: Any, attrs: Any) -> Any:
    before = inputs[0].item()
    return before if before.made else _deserialize_tree(ctx, inputs, attrs)


def _deserialize_tree(ctx: Any, inputs: Any, attrs: Any) -> Any:
    config = _config(ctx, inputs[1], "Tree")
    return _read_message(ctx, lambda: Tree.read(config, _params(attrs)))


def _create_statistics(ctx: Any, inputs: Any, attrs: Any) -> Any:
    before = inputs[0].item()
    return before if before.made else _deserialize_statistics(ctx, inputs, attrs)


def _deserialize_statistics(ctx: Any, inputs: Any, attrs: Any) -> Any:
    config = _config(ctx, inputs[1], "Stats")
    return _read_message(ctx, lambda: Statistics.read(config, _params(attrs)))


def _is_made(ctx: Any, inputs: Any, attrs: Any) -> Any:
    return np.array(inputs[0].item().made)


def _serialize_tree(ctx: Any, inputs: Any, attrs: Any) -> Any:
    tree = _tree(ctx, inputs[0])
    return np.array(tree.written(), object)


def _serialize_statistics(ctx: Any, inputs: Any, attrs: Any) -> Any:
    return np.array(_statistics(ctx, inputs[0]).written(), object)


def _size(ctx: Any, inputs: Any, attrs: Any) -> Any:
    return np.array(_tree(ctx, inputs[0]).size, np.int32)


def _feature_counts(ctx: Any, inputs: Any, attrs: Any) -> Any:
    return _tree(ctx, inputs[0]).feature_counts(_params(attrs).num_features)


def _predictions(ctx: Any, inputs: Any, attrs: Any) -> Any:
    return _tree(ctx, inputs[0]).predictions(_examples(ctx, inputs[1:], attrs), _params(attrs))


def _traverse(ctx: Any, inputs: Any, attrs: Any) -> Any:
    return _tree(ctx, inputs[0]).leaves(_examples(ctx, inputs[1:], attrs))


def _targets(ctx: Any, labels: Any, weights: Any, params: Any, count: int) -> tuple[Any, Any]:
    """Classes ``[n]`` or targets ``[n, outputs]`` of examples, and their weights."""
    if params.is_regression:
        ctx.check(
            labels.size == count * params.num_outputs,
            errors.InvalidArgumentError,
            f"input_labels of shape {shapes.show(labels.shape)} for {count} examples of {params.num_outputs} targets",
        )
        targets = labels.reshape(count, params.num_outputs)
    else:
        ctx.check(
            labels.size == count,
            errors.InvalidArgumentError,
            f"input_labels of shape {shapes.show(labels.shape)} for {count} examples",
        )
        targets = labels.ravel().astype(np.int32)
        ctx.check(
            not targets.size or (targets.min() >= 0 and targets.max() < params.num_outputs),
            errors.InvalidArgumentError,
            f"Got label greater than indicated number of classes. Is params.num_classes set correctly? Labels are in "
            f"[{targets.min(initial=0)}, {targets.max(initial=0)}], num_classes is {params.num_outputs}",
        )
    ones = np.ones(count, np.float32)
    ones[: weights.size] = weights.ravel()[:count]
    return targets, ones


def _update(ctx: Any, inputs: Any, attrs: Any) -> Any:
    tree, params = _tree(ctx, inputs[0]), _params(attrs)
    leaves, labels, weights = inputs[1:]
    if params.is_regression:  # a leaf says the mean of the examples that it had when it was split off
        return tree
    return tree.counted(leaves, *_targets(ctx, labels, weights, params, len(leaves)))


def _process(ctx: Any, inputs: Any, attrs: Any) -> Any:
    tree, statistics, params = _tree(ctx, inputs[0]), _statistics(ctx, inputs[1]), _params(attrs)
    examples = _examples(ctx, inputs[2:6], attrs)
    labels, weights, leaves = inputs[6:]
    targets = _targets(ctx, labels, weights, params, len(leaves))
    known = all(leaf in statistics.slots for leaf in np.unique(leaves).tolist())
    ctx.check(known, errors.InvalidArgumentError, "leaf_ids hold a node that is not a leaf of this tree's statistics")
    seed = attrs["random_seed"] or 1 + secrets.randbits(62)
    after, finished = statistics.fed(examples, *targets, leaves, seed)
    return tree, after, finished


def _grow(ctx: Any, inputs: Any, attrs: Any) -> Any:
    tree, statistics = _tree(ctx, inputs[0]), _statistics(ctx, inputs[1])
    after, splits = statistics.grown(inputs[2].tolist(), tree.size)
    return tree.split([(node, best.test, best.left, best.right) for node, best in splits]), after


def _rows(c: Any) -> Any:
    data = c.shape("input_data")
    return data[0] if data is not None and len(data) == 2 and data[0] else None


def _op(name: str, doc: str, inputs: str, attrs: Any, effect: Any, kernel: Any, shape: Any) -> None:
    define(
        name,
        doc,
        signature=inputs,
        attrs=attrs,
        effect=effect,
        shape=shape,
        host_kernel=kernel,
        gradient=_NO_GRADIENT,
        **({"predication": SELECT} if effect.kind == "write" else {}),
    )


_OF_TREE, _OF_STATISTICS = "tree_handle: resource", "stats_handle: resource"
_READ_TREE, _READ_STATISTICS = read("tree_handle", of="table"), read("stats_handle", of="table")
_WRITE_TREE, _WRITE_STATISTICS = write("tree_handle", of="table"), write("stats_handle", of="table")
_WRITE_BOTH = write("tree_handle", "stats_handle", of="table")

for _name, _doc, _inputs, _attrs, _effect, _kernel, _shape in (
    (
        "TreeIsInitializedOp",
        "Whether a tree was made; a scalar.",
        f"{_OF_TREE} -> is_initialized: bool",
        {},
        _READ_TREE,
        _is_made,
        inference.scalar,
    ),
    (
        "CreateTreeVariable",
        "Make a tree, unless it was, from a message or, if that is empty, as one leaf.",
        f"{_OF_TREE}, tree_config: string ->",
        _PARAMS,
        _WRITE_TREE,
        _create_tree,
        inference.no_outputs,
    ),
    (
        "TreeSerialize",
        "A tree as a message; a scalar.",
        f"{_OF_TREE} -> tree_config: string",
        {},
        _READ_TREE,
        _serialize_tree,
        inference.scalar,
    ),
    (
        "TreeDeserialize",
        "Put a tree in the place of another.",
        f"{_OF_TREE}, tree_config: string ->",
        _PARAMS,
        _WRITE_TREE,
        _deserialize_tree,
        inference.no_outputs,
    ),
    (
        "TreeSize",
        "Number of nodes, leaves included; a scalar.",
        f"{_OF_TREE} -> tree_size: int32",
        {},
        _READ_TREE,
        _size,
        inference.scalar,
    ),
    (
        "FeatureUsageCounts",
        "How many nodes test each feature ``[num_features]``.",
        f"{_OF_TREE} -> feature_counts: int32",
        _PARAMS,
        _READ_TREE,
        _feature_counts,
        lambda c: [(None,)],
    ),
    (
        "TreePredictionsV4",
        "What a tree says of examples ``[n, outputs]``, and the nodes that they pass ``[n]``.",
        f"{_OF_TREE}{_DATA} -> predictions: float, tree_paths: string",
        _DATA_ATTRS,
        _READ_TREE,
        _predictions,
        lambda c: [(_rows(c), None), (None,)],
    ),
    (
        "TraverseTreeV4",
        "The leaf of each example ``[n]``.",
        f"{_OF_TREE}{_DATA} -> leaf_ids: int32",
        _DATA_ATTRS,
        _READ_TREE,
        _traverse,
        lambda c: [(_rows(c),)],
    ),
    (
        "UpdateModelV4",
        "Count the classes of examples in their leaves.",
        f"{_OF_TREE}, leaf_ids: int32, input_labels: float, input_weights: float ->",
        _PARAMS,
        _WRITE_TREE,
        _update,
        inference.no_outputs,
    ),
    (
        "FertileStatsIsInitializedOp",
        "Whether statistics were made; a scalar.",
        f"{_OF_STATISTICS} -> is_initialized: bool",
        {},
        _READ_STATISTICS,
        _is_made,
        inference.scalar,
    ),
    (
        "CreateFertileStatsVariable",
        "Make statistics, unless they were, from a message or, if that is empty, of a root.",
        f"{_OF_STATISTICS}, stats_config: string ->",
        _PARAMS,
        _WRITE_STATISTICS,
        _create_statistics,
        inference.no_outputs,
    ),
    (
        "FertileStatsSerialize",
        "Statistics as a message; a scalar.",
        f"{_OF_STATISTICS} -> stats_config: string",
        _PARAMS,
        _READ_STATISTICS,
        _serialize_statistics,
        inference.scalar,
    ),
    (
        "FertileStatsDeserialize",
        "Put statistics in the place of others.",
        f"{_OF_STATISTICS}, stats_config: string ->",
        _PARAMS,
        _WRITE_STATISTICS,
        _deserialize_statistics,
        inference.no_outputs,
    ),
    (
        "ProcessInputV4",
        "Have leaves take examples; the leaves that are ready for a split.",
        f"{_OF_TREE}, {_OF_STATISTICS}{_DATA}, input_labels: float, input_weights: float, leaf_ids: int32 "
        "-> finished_nodes: int32",
        {"random_seed": Int(), **_DATA_ATTRS},
        _WRITE_BOTH,
        _process,
        lambda c: [(None,)],
    ),
    (
        "GrowTreeV4",
        "Split leaves.",
        f"{_OF_TREE}, {_OF_STATISTICS}, finished_nodes: int32 ->",
        _PARAMS,
        _WRITE_BOTH,
        _grow,
        inference.no_outputs,
    ),
):
    _op(_name, _doc, _inputs, _attrs, _effect, _kernel, _shape)
