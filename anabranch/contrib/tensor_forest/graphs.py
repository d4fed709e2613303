"""Graphs that train forests and ask them: ``RandomForestGraphs`` and what it is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.contrib.framework.variables import VariableDeviceChooser
from anabranch.contrib.tensor_forest import operations as _operations  # noqa: F401 - defines the op types
from anabranch.contrib.tensor_forest import resources
from anabranch.contrib.tensor_forest.inputs import ParseDataTensorOrDict, ParseLabelTensorOrDict, TensorForestDataSpec
from anabranch.contrib.tensor_forest.parameters import build_params_proto
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.protos import decision_forest_pb2 as pb
from anabranch.platform import logging


@public("contrib.tensor_forest.TreeTrainingVariables")
class TreeTrainingVariables:
    """The resources of a tree.

    Args:
        params: filled parameters of the forest.
        tree_num: the tree's number.
        training: whether it is trained, and counts.
    """

    def __init__(self, params: Any, tree_num: int, training: bool) -> None:
        if not isinstance(getattr(params, "params_proto", None), pb.TensorForestParams):
            params.params_proto = build_params_proto(params)
        params.serialized_params_proto = params.params_proto.SerializeToString()
        self.stats = None
        if training:
            self.stats = resources.fertile_stats_variable(params, "", self.get_tree_name("stats", tree_num))
        self.tree = resources.tree_variable(params, "", self.stats, self.get_tree_name("tree", tree_num))

    def get_tree_name(self, name: str, num: int) -> str:
        """The name of a resource."""
        return f"{name}-{num}"


@public("contrib.tensor_forest.ForestTrainingVariables")
class ForestTrainingVariables:
    """The resources of a forest, by number of the tree.

    Args:
        params: filled parameters of the forest.
        device_assigner: a device function: where each tree is.
        training: whether the forest is trained.
        tree_variables_class: what a tree's resources are, called with the parameters, its number and ``training``.
    """

    def __init__(
        self,
        params: Any,
        device_assigner: Any,
        training: bool = True,
        tree_variables_class: Callable[..., Any] = TreeTrainingVariables,
    ) -> None:
        with tf.device(device_assigner):
            self.device_dummies = [
                tf.get_variable(name=f"device_dummy_{number}", shape=0) for number in range(params.num_trees)
            ]
        self.variables = []
        for number, dummy in enumerate(self.device_dummies):
            with tf.device(dummy.device):
                self.variables.append(tree_variables_class(params, number, training))

    def __setitem__(self, t: int, val: Any) -> None:
        self.variables[t] = val

    def __getitem__(self, t: int) -> Any:
        return self.variables[t]


def _sparse_parts(features: Any) -> list[Any]:
    if features is None:
        return [
            tf.constant([], tf.int64),
            tf.constant([], tf.float32),
            tf.constant([], tf.int64),
        ]
    return [features.indices, features.values, features.dense_shape]


@public("contrib.tensor_forest.RandomTreeGraphs")
class RandomTreeGraphs:
    """Graphs that train a tree and ask it.

    Args:
        variables: its resources.
        params: filled parameters of the forest.
        tree_num: its number.
    """

    def __init__(self, variables: Any, params: Any, tree_num: int) -> None:
        self.variables, self.params, self.tree_num = variables, params, tree_num

    def _data(self, input_data: Any, sparse_features: Any, data_spec: Any) -> tuple[list[Any], dict[str, Any]]:
        dense = tf.constant([], tf.float32) if input_data is None else input_data
        attrs = {"input_spec": data_spec.SerializeToString(), "params": self.params.serialized_params_proto}
        return [dense, *_sparse_parts(sparse_features)], attrs

    def training_graph(
        self,
        input_data: Any,
        input_labels: Any,
        random_seed: int,
        data_spec: Any,
        sparse_features: Any = None,
        input_weights: Any = None,
    ) -> Any:
        """The operation that has the tree learn from a batch.

        Args:
            input_data: float32 ``[examples, features]``, or None.
            input_labels: float32 classes ``[examples]``, or targets ``[examples, outputs]``.
            random_seed: of the features that candidates are of; drawn if 0.
            data_spec: what is known of the columns of the features.
            sparse_features: a SparseTensor of further features, or None.
            input_weights: float32 ``[examples]``, or None for ones.
        """
        params = self.params.serialized_params_proto
        data, attrs = self._data(input_data, sparse_features, data_spec)
        weights = tf.constant([], tf.float32) if input_weights is None else input_weights
        tree, stats = self.variables.tree, self.variables.stats
        leaves = build("TraverseTreeV4", tree, *data, **attrs)
        update = build("UpdateModelV4", tree, leaves, input_labels, weights, params=params)
        finished = build(
            "ProcessInputV4", tree, stats, *data, input_labels, weights, leaves, random_seed=random_seed, **attrs
        )
        with tf.control_dependencies([update]):
            return build("GrowTreeV4", tree, stats, finished, params=params)

    def inference_graph(self, input_data: Any, data_spec: Any, sparse_features: Any = None) -> tuple[Any, Any]:
        """What the tree says of examples ``[examples, outputs]``, and the nodes that they pass ``[examples]``."""
        data, attrs = self._data(input_data, sparse_features, data_spec)
        predictions, paths = build("TreePredictionsV4", self.variables.tree, *data, **attrs)
        return predictions, paths

    def size(self) -> Any:
        """The number of nodes; a scalar."""
        return build("TreeSize", self.variables.tree)

    def feature_usage_counts(self) -> Any:
        """How many nodes test each feature ``[features]``."""
        return build("FeatureUsageCounts", self.variables.tree, params=self.params.serialized_params_proto)


@public("contrib.tensor_forest.RandomForestGraphs")
class RandomForestGraphs:
    """Graphs that train a random forest from a stream of batches, and ask it.

    Args:
        params: `ForestHParams`, filled.
        device_assigner: a device function: where each tree is.
        variables: the resources; made if None.
        tree_variables_class: what a tree's resources are.
        tree_graphs: what makes a tree's graphs; `RandomTreeGraphs` if None.
        training: whether it is trained, and counts.

    Example:
        >>> import numpy as np
        >>> import anabranch as tf
        >>> from anabranch.contrib import tensor_forest
        >>> hparams = tensor_forest.ForestHParams(
        ...     num_classes=2, num_features=3, num_trees=5, max_nodes=50, split_after_samples=20, base_random_seed=1
        ... ).fill()
        >>> x = np.random.RandomState(0).uniform(size=[200, 3]).astype("f")
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     forest = tensor_forest.RandomForestGraphs(hparams)
        ...     train = forest.training_graph(x, x[:, 0] > 0.5)
        ...     probabilities, _, _ = forest.inference_graph(x)
        ...     resources = tf.get_collection(tf.GraphKeys.RESOURCES)
        ...     session.run([tf.global_variables_initializer(), [one.create for one in resources]])
        ...     for _ in range(5):
        ...         session.run(train)
        ...     float(np.mean((session.run(probabilities)[:, 1] > 0.5) == (x[:, 0] > 0.5))) > 0.9
        True
    """

    def __init__(
        self,
        params: Any,
        device_assigner: Any = None,
        variables: Any = None,
        tree_variables_class: Callable[..., Any] = TreeTrainingVariables,
        tree_graphs: Callable[..., Any] | None = None,
        training: bool = True,
    ) -> None:
        self.params = params
        self.device_assigner = device_assigner or VariableDeviceChooser()
        logging.info("Constructing forest with params = ")
        logging.info(self.params.__dict__)
        self.variables = variables or ForestTrainingVariables(
            params, self.device_assigner, training=training, tree_variables_class=tree_variables_class
        )
        make = tree_graphs or RandomTreeGraphs
        self.trees = [make(self.variables[number], params, number) for number in range(params.num_trees)]

    def _features_of(self, number: int, data: Any) -> Any:
        """The features that a tree sees."""
        return tf.gather(data, self.params.bagged_features[number], axis=1)

    def _spec_of_tree(self, spec: Any) -> Any:
        """What is known of the columns that a tree sees, which are of one type."""
        if not self.params.bagged_features:
            return spec
        kinds = {column.original_type for column in spec.dense.cols}
        if len(kinds) > 1:
            raise NotImplementedError(
                errors.message(
                    "feature_bagging_fraction below 1 with columns of floats and of categories",
                    "columns of one kind",
                    "feature_bagging_fraction=1.0",
                )
            )
        seen = TensorForestDataSpec()
        column = seen.dense.add()
        column.name, column.original_type = "dense_features", kinds.pop()
        column.size = seen.dense_features_size = self.params.bagged_num_features
        return seen

    def _refuse_bags_of_sparse(self, sparse: Any, what: str, bagged: Any) -> None:
        if sparse is not None and bagged:
            raise NotImplementedError(
                f"{what} not supported with sparse features.\n"
                + errors.message(
                    "sparse features", "dense features where a tree sees a part of them", "fractions of 1.0"
                )
            )

    def get_all_resource_handles(self) -> list[Any]:
        """The handles of all trees, then those of what their leaves count."""
        trees = range(len(self.trees))
        return [*(self.variables[number].tree for number in trees), *(self.variables[number].stats for number in trees)]

    def training_graph(
        self, input_data: Any, input_labels: Any, num_trainers: int = 1, trainer_id: int = 0, **tree_kwargs: Any
    ) -> Any:
        """The operation that has the trees learn from a batch.

        Args:
            input_data: features: a tensor or SparseTensor ``[examples, features]``, or a dictionary of them.
            input_labels: classes ``[examples]``, or targets ``[examples, outputs]``.
            num_trainers: among how many trainers the trees are shared out.
            trainer_id: which of them this is.
            **tree_kwargs: for `RandomTreeGraphs.training_graph`, as ``input_weights``.

        Raises:
            NotImplementedError: fractions of examples or features below 1 with sparse features.
        """
        dense, sparse, spec = ParseDataTensorOrDict(input_data)
        labels = ParseLabelTensorOrDict(input_labels)
        of_tree = self._spec_of_tree(spec)
        share = self.params.num_trees / num_trainers
        trained = []
        for number in range(int(trainer_id * share), int((trainer_id + 1) * share)):
            with tf.device(self.variables.device_dummies[number].device):
                seed = self.params.base_random_seed + number if self.params.base_random_seed else 0
                data, targets = dense, labels
                self._refuse_bags_of_sparse(sparse, "Bagging", self.params.bagging_fraction < 1.0)
                if self.params.bagging_fraction < 1.0:
                    drawn = tf.random_uniform(tf.shape(dense)[:1], seed=seed or None)
                    kept = tf.squeeze(tf.where(drawn < self.params.bagging_fraction), axis=[1])
                    data, targets = tf.gather(dense, kept), tf.gather(labels, kept)
                self._refuse_bags_of_sparse(sparse, "Feature bagging", self.params.bagged_features)
                if self.params.bagged_features:
                    data = self._features_of(number, data)
                seed = seed or _seed_of_graph(number)
                one = self.trees[number]
                trained.append(
                    one.training_graph(data, targets, seed, data_spec=of_tree, sparse_features=sparse, **tree_kwargs)
                )
        return tf.group(*trained, name="train")

    def inference_graph(self, input_data: Any, **inference_args: Any) -> tuple[Any, Any, Any]:
        """What the trees say of examples.

        Args:
            input_data: features like those of `training_graph`.
            **inference_args: for `RandomTreeGraphs.inference_graph`.

        Returns:
            The mean over the trees ``[examples, outputs]``: probabilities of classes, or values; the nodes that
            examples pass, as strings that hold a message ``TreePath``, ``[examples, trees]``, or nothing unless the
            parameters ask for them; and the variance over the trees ``[examples, outputs]``.
        """
        dense, sparse, spec = ParseDataTensorOrDict(input_data)
        self._refuse_bags_of_sparse(sparse, "Feature bagging", self.params.bagged_features)
        of_tree = self._spec_of_tree(spec)
        said, paths = [], []
        for number, one in enumerate(self.trees):
            with tf.device(self.variables.device_dummies[number].device):
                data = self._features_of(number, dense) if self.params.bagged_features else dense
                probabilities, path = one.inference_graph(data, of_tree, sparse_features=sparse, **inference_args)
                said.append(probabilities)
                paths.append(path)
        with tf.device(self.variables.device_dummies[0].device):
            all_said = tf.stack(said, axis=1)
            average = tf.div(tf.reduce_sum(all_said, 1), self.params.num_trees, name="probabilities")
            squares = tf.div(tf.reduce_sum(all_said * all_said, 1), self.params.num_trees)
            return average, tf.stack(paths, axis=1), tf.maximum(0.0, squares - average * average)

    def average_size(self) -> Any:
        """The mean number of nodes of a tree; a scalar."""
        return tf.reduce_mean(tf.to_float(tf.stack([one.size() for one in self.trees])))

    def training_loss(self, features: Any, labels: Any, name: str = "training_loss") -> Any:
        """The mean number of nodes of a tree, negative: a forest that learns grows."""
        return tf.negative(self.average_size(), name=name)

    def validation_loss(self, features: Any, labels: Any) -> Any:
        """Like `training_loss`."""
        return tf.negative(self.average_size())

    def feature_importances(self) -> Any:
        """The fraction of nodes that test each feature ``[features]``."""
        counts = tf.reduce_sum(tf.stack([one.feature_usage_counts() for one in self.trees], 0), 0)
        return counts / tf.reduce_sum(counts)


def _seed_of_graph(number: int) -> int:
    """A seed that follows the graph's, or 0 if it has none."""
    of_graph, of_op = tf.get_seed(None)
    return (
        0
        if of_graph is None or tf.get_default_graph().seed is None
        else 1 + (of_graph * 65599 + of_op + number) % (2**62)
    )
