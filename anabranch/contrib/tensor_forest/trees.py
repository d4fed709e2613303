"""A decision tree as state: one version of its nodes, what it predicts, and how it is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.contrib.tensor_forest.examples import Examples, goes_left, read_test, test_message
from anabranch.contrib.tensor_forest.versions import Change, Versioned
from anabranch.core.protos import decision_forest_pb2 as pb

_LEAF = -1


def write_vector(values: np.ndarray, *, sparse: bool, dense: Any, mapping: Any) -> None:
    """Write counts of classes as a list, or by class where they are not zero."""
    if sparse:
        for number in np.flatnonzero(values):
            mapping.sparse_value[int(number)].float_value = float(values[number])
    else:
        for value in values.tolist():
            dense.value.add().float_value = value


def read_vector(dense: Any, mapping: Any, size: int) -> np.ndarray:
    """The counts of classes that `write_vector` has written."""
    values = np.zeros(size, np.float32)
    values[: len(dense.value)] = [value.float_value for value in dense.value]
    for number, value in mapping.sparse_value.items():
        values[number] = value.float_value
    return values


class Tree(Versioned):
    """One version of a tree: for each node its test and children, for leaves the counts or means of their outputs."""

    def __init__(self) -> None:
        super().__init__({})
        self.made = False
        self.sparse = False
        """Whether counts are written by class."""
        self.size = 0
        """Number of nodes, leaves included."""

    def _successor(self) -> Tree:
        new = Tree()
        new.made, new.size, new.sparse = self.made, self.size, self.sparse
        return new

    # ------------------------------------------------------------------------------------------------------ looking at
    def leaves(self, examples: Examples) -> np.ndarray:
        """The leaf of each example, int32."""
        with self.held() as arrays:
            return self._leaves(arrays, examples)

    def _leaves(self, arrays: Any, examples: Examples, path: list[np.ndarray] | None = None) -> np.ndarray:
        at = np.zeros(examples.count, np.int32)
        rows = np.arange(examples.count)
        while True:
            if path is not None:
                path.append(at.copy())
            inner = np.flatnonzero(arrays["feature"][at[rows]] != _LEAF)
            if not len(inner):
                return at
            rows = rows[inner]
            nodes = at[rows]
            values = examples.value(rows, arrays["feature"][nodes])
            left = goes_left(values, arrays["threshold"][nodes], arrays["test"][nodes])
            at[rows] = np.where(left, arrays["left"][nodes], arrays["right"][nodes])

    def predictions(self, examples: Examples, params: Any) -> tuple[np.ndarray, np.ndarray]:
        """What the leaves of examples say ``[n, outputs]``, and the nodes that the examples pass, as messages."""
        path: list[np.ndarray] | None = [] if params.inference_tree_paths else None
        with self.held() as arrays:
            found = arrays["output"][self._leaves(arrays, examples, path)]
            paths = [] if path is None else [self._path(arrays, nodes) for nodes in np.stack(path, 1).tolist()]
        if not params.is_regression:
            total = found.sum(axis=1, keepdims=True)
            found = np.divide(found, total, out=found, where=(total > 0) & (total != 1))
        return found, np.array(paths, object)

    def _path(self, arrays: Any, nodes: list[int]) -> bytes:
        passed = list(dict.fromkeys(nodes))
        return pb.TreePath(nodes_visited=[self._node(arrays, node) for node in passed]).SerializeToString()

    def feature_counts(self, features: int) -> np.ndarray:
        """How many nodes test each feature, int32 ``[features]``."""
        with self.held() as arrays:
            used = arrays["feature"][: self.size]
            return np.bincount(used[used != _LEAF], minlength=features)[:features].astype(np.int32)

    # --------------------------------------------------------------------------------------------------------- changing
    def counted(self, leaves: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> Tree:
        """The version whose leaves have seen these examples: int32 leaves and classes, float32 weights."""
        new = self._successor()
        with self.changed(new) as kept:
            change = Change(*kept)
            output = change.keep("output", np.unique(leaves))
            np.add.at(output, (leaves, labels), weights)
        return new

    def split(self, splits: list[tuple[int, tuple[int, float, int], np.ndarray, np.ndarray]]) -> Tree:
        """The version in which leaves are nodes: each with its test, and what the two new leaves say."""
        new = self._successor()
        with self.changed(new) as kept:
            change = Change(*kept)
            for leaf, test, left, right in splits:
                first = new.size
                new.size += 2
                self._reserve(change, new.size)
                for name, value in zip(
                    ("feature", "threshold", "test", "left", "right"), (*test, first, first + 1), strict=True
                ):
                    change.put(name, leaf, value)
                children = slice(first, first + 2)
                change.put("feature", children, _LEAF)
                change.put("output", children, np.stack([left, right]))
        return new

    @staticmethod
    def _reserve(change: Change, nodes: int) -> None:
        for name in ("feature", "threshold", "test", "left", "right"):
            change.reserve(name, nodes)
        change.reserve("output", nodes, change.arrays["output"].shape[1])

    # --------------------------------------------------------------------------------------------------------- messages
    def _node(self, arrays: Any, number: int) -> Any:
        node = pb.TreeNode()
        if number:
            node.node_id.value = number
        if arrays["feature"][number] == _LEAF:
            node.leaf.SetInParent()
            vector, mapping = node.leaf.vector, node.leaf.sparse_vector
            write_vector(arrays["output"][number], sparse=self.sparse, dense=vector, mapping=mapping)
        else:
            test = (arrays[name][number].item() for name in ("feature", "threshold", "test"))
            node.binary_node.CopyFrom(test_message(*test))
            node.binary_node.left_child_id.value = int(arrays["left"][number])
            node.binary_node.right_child_id.value = int(arrays["right"][number])
        return node

    def written(self) -> bytes:
        """The tree as a message ``DecisionTreeModel``."""
        with self.held() as arrays:
            nodes = [self._node(arrays, number) for number in range(self.size)]
        return pb.DecisionTreeModel(decision_tree=pb.DecisionTree(nodes=nodes)).SerializeToString()

    @classmethod
    def read(cls, message: bytes, params: Any) -> Tree:
        """The tree that `written` wrote; one leaf if the message is empty.

        Raises:
            ValueError: it is no such message, or holds tests that are not here.
        """
        try:
            nodes = list(pb.DecisionTreeModel.FromString(message).decision_tree.nodes) or [pb.TreeNode(leaf=pb.Leaf())]
        except Exception as error:
            raise ValueError("Unable to parse tree config.") from error
        tree = cls()
        tree.made, tree.size = True, len(nodes)
        tree.sparse = params.leaf_type in (pb.MODEL_SPARSE_CLASSIFICATION, pb.MODEL_SPARSE_OR_DENSE_CLASSIFICATION)
        arrays = tree._shared
        for name, dtype in (("feature", "i4"), ("threshold", "f4"), ("test", "i1"), ("left", "i4"), ("right", "i4")):
            arrays[name] = np.zeros(tree.size, dtype)
        arrays["feature"][:] = _LEAF
        arrays["output"] = np.zeros((tree.size, params.num_outputs), np.float32)
        for number, node in enumerate(nodes):
            if node.HasField("leaf"):
                arrays["output"][number] = read_vector(node.leaf.vector, node.leaf.sparse_vector, params.num_outputs)
            else:
                for name, value in zip(("feature", "threshold", "test"), read_test(node.binary_node), strict=True):
                    arrays[name][number] = value
                arrays["left"][number] = node.binary_node.left_child_id.value
                arrays["right"][number] = node.binary_node.right_child_id.value
        return tree
