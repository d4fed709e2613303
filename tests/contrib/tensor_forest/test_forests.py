"""Forests: they grow as TensorFlow 1.15.5's do, see `tools/golden/contrib/forests.py`, and what is wrong is refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.contrib import tensor_forest
from anabranch.contrib.tensor_forest import statistics, trees
from anabranch.core.protos import decision_forest_pb2 as pb

ROOT = Path(__file__).resolve().parents[3]
GOLDEN: dict[str, Any] = json.loads((ROOT / "tests/golden/forests.json").read_text(encoding="utf-8"))
BATCH, SHOWN = 40, 12
X = np.random.RandomState(0).uniform(size=[480, 1]).astype("f")
CLASSES = (X[:, 0] * 3).astype("i").astype("f")
WAVE = np.sin(6 * X).astype("f")
WEIGHTS = np.random.RandomState(2).uniform(0.2, 2, size=[BATCH]).astype("f")
CASES: dict[str, tuple[dict[str, Any], Any, Any, Any]] = {
    "dense": ({}, X, CLASSES, None),
    "sparse": ({"model_name": "all_sparse"}, X, CLASSES, None),
    "less": ({"split_name": "less"}, np.round(X * 8) / 8, CLASSES, None),
    "weights": ({}, X, CLASSES, WEIGHTS),
    "averages": ({"initialize_average_splits": True}, X, CLASSES, None),
    "half": ({"split_pruning_name": "half", "prune_every_samples": 10}, X, CLASSES, None),
    "hoeffding": ({"split_pruning_name": "hoeffding", "prune_every_samples": 10}, X, CLASSES, None),
    "collated": ({"collate_examples": True}, X, CLASSES, None),
    "paths": ({"inference_tree_paths": True}, X, CLASSES, None),
    "regression": ({"regression": True, "num_classes": 1}, X, WAVE[:, 0], None),
    "two_targets": ({"regression": True, "num_classes": 2}, X, np.concatenate([WAVE, WAVE**2], 1), None),
}


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def parameters(**more: Any) -> Any:
    chosen = {
        "num_classes": 3,
        "num_features": 1,
        "num_trees": 2,
        "max_nodes": 31,
        "split_after_samples": 30,
        "checkpoint_stats": True,
        "num_splits_to_consider": 5,
        **more,
    }
    return tensor_forest.ForestHParams(**chosen).fill()


class Forest:
    """A forest with its graphs."""

    def __init__(self, params: Any, targets: tuple[int, ...] = (), weights: Any = None) -> None:
        self.features = tf.placeholder(tf.float32, [None, params.num_features])
        self.labels = tf.placeholder(tf.float32, [None, *targets])
        self.graphs = tensor_forest.RandomForestGraphs(params)
        given = {} if weights is None else {"input_weights": tf.constant(weights)}
        self.train = self.graphs.training_graph(self.features, self.labels, **given)
        self.loss = self.graphs.training_loss(self.features, self.labels)
        self.said, self.paths, self.variance = self.graphs.inference_graph(self.features)
        self.importances = self.graphs.feature_importances()
        made = [one.create for one in tf.get_collection(tf.GraphKeys.RESOURCES)]
        self.init = tf.group(tf.global_variables_initializer(), *made)

    def batch(self, x: Any, y: Any, step: int = 0) -> dict[Any, Any]:
        """What is fed in a step."""
        rows = slice(step * BATCH % len(x), step * BATCH % len(x) + BATCH)
        return {self.features: x[rows], self.labels: y[rows]}


def messages() -> list[Any]:
    return [one.specs[0].tensor for one in tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS)]


@pytest.mark.parametrize("name", list(CASES))
def test_forests_grow_as_tensorflows(name: str) -> None:
    more, x, y, weights = CASES[name]
    golden = GOLDEN[name]
    forest = Forest(parameters(**more), y.shape[1:], weights)
    with tf.Session() as session:
        session.run(forest.init)
        sizes = []
        for step in range(12):
            session.run(forest.train, forest.batch(x, y, step))
            sizes.append(float(session.run(forest.loss)))
        fetches = [forest.said, forest.variance, forest.importances]
        results = session.run(fetches, {forest.features: x[:SHOWN]})
        paths = session.run(forest.paths, {forest.features: x[:3]})
        saved = session.run(messages())
    assert sizes == golden["sizes"]
    for found, wanted in zip(results, golden["said"], strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-6)
    assert list(paths.shape) == golden["paths"]
    wanted_stats, wanted_tree = (base64.b64decode(message) for message in golden["messages"])
    numbers = same_nodes(pb.DecisionTreeModel.FromString(saved[1]), pb.DecisionTreeModel.FromString(wanted_tree))
    found, wanted = (by_node(pb.FertileStats.FromString(message)) for message in (saved[0], wanted_stats))
    assert {numbers[node] for node in found} == wanted.keys()
    for node, slot in found.items():
        assert [one.split for one in slot.candidates] == [one.split for one in wanted[numbers[node]].candidates]


def by_node(stats: Any) -> dict[int, Any]:
    return {slot.node_id: slot for slot in stats.node_to_slot}


def downward(tree: Any) -> list[int]:
    """The nodes from the root down, each before its children; TensorFlow numbers those of one step in any order."""
    order, open_nodes = [], [0]
    while open_nodes:
        order.append(open_nodes.pop())
        node = tree.decision_tree.nodes[order[-1]]
        if node.HasField("binary_node"):
            open_nodes += [node.binary_node.right_child_id.value, node.binary_node.left_child_id.value]
    return order


def same_nodes(found: Any, wanted: Any) -> dict[int, int]:
    """Compare two trees; gives the numbers of nodes of one by those of the other."""
    pairs = list(zip(downward(found), downward(wanted), strict=True))
    for numbers in pairs:
        one, other = (tree.decision_tree.nodes[number] for tree, number in zip((found, wanted), numbers, strict=True))
        assert one.binary_node.inequality_left_child_test == other.binary_node.inequality_left_child_test
        values = [[value.float_value for value in node.leaf.vector.value] for node in (one, other)]
        np.testing.assert_allclose(*values, rtol=1e-5, atol=1e-6)
        maps = [
            {key: v.float_value for key, v in node.leaf.sparse_vector.sparse_value.items()} for node in (one, other)
        ]
        assert {key: v for key, v in maps[0].items() if v} == {key: v for key, v in maps[1].items() if v}
    return dict(pairs)


@pytest.mark.parametrize("name", ["dense", "sparse", "regression"])
def test_messages_of_tensorflow_are_read_and_written(name: str) -> None:
    params = tensor_forest.build_params_proto(parameters(**CASES[name][0]))
    stats, tree = (base64.b64decode(message) for message in GOLDEN[name]["messages"])
    read = trees.Tree.read(tree, params)
    assert pb.DecisionTreeModel.FromString(read.written()) == pb.DecisionTreeModel.FromString(tree)
    again = statistics.Statistics.read(statistics.Statistics.read(stats, params).written(), params)
    found, wanted = by_node(pb.FertileStats.FromString(again.written())), by_node(pb.FertileStats.FromString(stats))
    assert found.keys() == wanted.keys()
    for node, slot in found.items():
        assert slot.post_init_leaf_stats.weight_sum == wanted[node].post_init_leaf_stats.weight_sum
        assert [one.split for one in slot.candidates] == [one.split for one in wanted[node].candidates]


def test_a_saved_forest_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    path = str(tmp_path / "forest")
    params = parameters(base_random_seed=5, num_features=3)
    x = np.random.RandomState(1).uniform(size=[480, 3]).astype("f")
    forest = Forest(params)
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(forest.init)
        for step in range(4):
            session.run(forest.train, forest.batch(x, CLASSES, step))
        saver.save(session, path, write_meta_graph=False)
        before = session.run([forest.loss, *messages()])
        session.run(forest.train, forest.batch(x, CLASSES, 4))
    with tf.Session() as session:
        saver.restore(session, path)
        after = session.run([forest.loss, *messages()])
    assert [pb.FertileStats.FromString(one) for one in before[1::2]] == [
        pb.FertileStats.FromString(one) for one in after[1::2]
    ]
    assert before[0] == after[0]
    assert before[2::2] == after[2::2]
    names = [name for name, _ in tf.train.list_variables(path) if "device_dummy" not in name]
    assert names == ["stats-0:0", "stats-1:0", "tree-0:0", "tree-1:0"]


def test_a_seed_makes_a_forest_grow_again_as_before() -> None:
    x = np.random.RandomState(1).uniform(size=[480, 3]).astype("f")
    grown = []
    for of_graph, of_forest in ((7, 0), (7, 0), (8, 0), (None, 3), (None, 3)):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(of_graph) if of_graph else None
            forest = Forest(parameters(num_features=3, base_random_seed=of_forest))
            session.run(forest.init)
            for step in range(6):
                session.run(forest.train, forest.batch(x, CLASSES, step))
            grown.append(session.run(forest.said, {forest.features: x[:50]}).tolist())
    assert grown[0] == grown[1]
    assert grown[0] != grown[2]
    assert grown[3] == grown[4]


def test_a_step_that_fails_teaches_nothing() -> None:
    forest = Forest(parameters())
    with tf.control_dependencies([forest.train]):
        fails = tf.gather([1.0], tf.cast(forest.labels[0], tf.int32) + 5)
    with tf.Session() as session:
        session.run(forest.init)
        for step in range(3):
            session.run(forest.train, forest.batch(X, CLASSES, step))
        before = session.run(messages())
        for step in range(3, 6):
            with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
                session.run(fails, forest.batch(X, CLASSES, step))
        assert session.run(messages()) == before
        sizes = []
        for step in range(3, 12):
            session.run(forest.train, forest.batch(X, CLASSES, step))
            sizes.append(float(session.run(forest.loss)))
    assert sizes == GOLDEN["dense"]["sizes"][3:]


def learned(y: Any, make: Any, **more: Any) -> float:
    """How many of the examples a forest that has seen their features calls by their class."""
    params = parameters(**{"base_random_seed": 2, "num_trees": 5, "split_after_samples": 20, **more})
    with tf.Graph().as_default(), tf.Session() as session:
        features = make()
        graphs = tensor_forest.RandomForestGraphs(params)
        train, (said, _, _) = graphs.training_graph(features, tf.constant(y)), graphs.inference_graph(features)
        made = [one.create for one in tf.get_collection(tf.GraphKeys.RESOURCES)]
        session.run([tf.global_variables_initializer(), made])
        for _ in range(8):
            session.run(train)
        return float(np.mean(np.argmax(session.run(said), 1) == y))


RANDOM = np.random.RandomState(3)
Y = RANDOM.randint(0, 3, 200)
NOISE = RANDOM.uniform(size=[200, 4]).astype("f")
DENSE = np.concatenate([NOISE, Y[:, None] + 0.1 * NOISE[:, :1]], 1).astype("f")
CATEGORIES = np.stack([RANDOM.randint(0, 9, 200), (Y + 1) % 3], 1).astype("i4")


def words() -> Any:
    rows, numbers = np.nonzero(np.eye(3)[Y])
    return tf.SparseTensor(np.stack([rows, numbers], 1), np.ones(200, np.int64), [200, 3])


@pytest.mark.parametrize(
    ("make", "more", "least"),
    [
        (lambda: tf.constant(DENSE), {"num_features": 5}, 0.9),
        (lambda: tf.constant(DENSE), {"num_features": 5, "bagging_fraction": 0.7}, 0.9),
        (lambda: tf.constant(DENSE), {"num_features": 5, "feature_bagging_fraction": 0.8}, 0.6),
        (
            lambda: tf.constant(DENSE),
            {"num_features": 5, "split_after_samples": "linear {y_intercept: 20 max_val: 20}"},
            0.9,
        ),
        (lambda: tf.constant(CATEGORIES), {"num_features": 2}, 0.9),
        (lambda: {"a": tf.constant(NOISE), "b": tf.constant(CATEGORIES)}, {"num_features": 6}, 0.9),
        (words, {"num_features": 3}, 0.9),
        (lambda: {"words": words(), "b": tf.constant(NOISE)}, {"num_features": 7}, 0.9),
    ],
    ids=["dense", "bagged", "bagged features", "by depth", "categories", "columns", "sparse", "sparse and dense"],
)
def test_features_of_all_kinds(make: Any, more: dict[str, Any], least: float) -> None:
    assert learned(Y, make, **more) > least


def test_what_is_wrong_is_refused() -> None:
    forest = Forest(parameters())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.FailedPreconditionError, match="of a forest that was not made"):
            session.run(forest.train, forest.batch(X, CLASSES))
        session.run(forest.init)
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"Is params.num_classes set correctly.*num_classes is 3"
        ):
            session.run(forest.train, forest.batch(X, CLASSES + 5))
        with pytest.raises(tf.errors.InvalidArgumentError, match="for 40 examples"):
            session.run(forest.train, {forest.features: X[:40], forest.labels: CLASSES[:39]})
    with pytest.raises(AttributeError, match="ForestHParams without num_classes"):
        tensor_forest.ForestHParams(num_features=3).fill()
    with pytest.raises(ValueError, match="split_name='more'"):
        parameters(split_name="more")
    with pytest.raises(ValueError, match="a known number of features"):
        forest.graphs.training_graph(tf.placeholder(tf.float32, [None, None]), CLASSES)
    with pytest.raises(NotImplementedError, match="features that are strings"):
        forest.graphs.training_graph({"a": tf.constant([["x"]])}, CLASSES)
    sparse = tf.SparseTensor([[0, 0]], [1], [2, 1])
    bagged = tensor_forest.RandomForestGraphs(parameters(bagging_fraction=0.5), variables=forest.graphs.variables)
    with pytest.raises(NotImplementedError, match="Bagging not supported with sparse features"):
        bagged.training_graph(sparse, CLASSES)
    early = parameters(split_finish_name="bootstrap", early_finish_check_every_samples=5)
    with tf.Graph().as_default(), tf.Session() as session:
        forest = Forest(early)
        with pytest.raises(tf.errors.UnimplementedError, match="SPLIT_FINISH_DOMINATE_BOOTSTRAP"):
            session.run(forest.init)
