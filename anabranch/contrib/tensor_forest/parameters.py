"""Parameters of forests: what users choose, the message that operations hold, and values that follow the depth."""

from __future__ import annotations

import functools
import math
import numbers
import random
import types
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.protos import decision_forest_pb2 as pb

_CLASSIFICATION = types.MappingProxyType(
    {
        "all_dense": (pb.MODEL_DENSE_CLASSIFICATION, pb.STATS_DENSE_GINI),
        "all_sparse": (pb.MODEL_SPARSE_CLASSIFICATION, pb.STATS_SPARSE_GINI),
    }
)
_FINISH = types.MappingProxyType(
    {
        "basic": pb.SPLIT_FINISH_BASIC,
        "hoeffding": pb.SPLIT_FINISH_DOMINATE_HOEFFDING,
        "bootstrap": pb.SPLIT_FINISH_DOMINATE_BOOTSTRAP,
    }
)
_PRUNING = types.MappingProxyType(
    {
        "none": pb.SPLIT_PRUNE_NONE,
        "half": pb.SPLIT_PRUNE_HALF,
        "quarter": pb.SPLIT_PRUNE_QUARTER,
        "10_percent": pb.SPLIT_PRUNE_10_PERCENT,
        "hoeffding": pb.SPLIT_PRUNE_HOEFFDING,
    }
)
_SPLITS = types.MappingProxyType(
    {"less_or_equal": pb.InequalityTest.LESS_OR_EQUAL, "less": pb.InequalityTest.LESS_THAN}
)


def _chosen(table: Any, name: str, what: str) -> Any:
    if name not in table:
        raise ValueError(
            errors.message(f"{what}={name!r}", f"one of {', '.join(table)}", f"{what}={next(iter(table))!r}")
        )
    return table[name]


@public("contrib.tensor_forest.ForestHParams")
class ForestHParams:
    """Parameters of a forest of extremely random trees (Geurts et al., 2006) that grow from a stream of examples.

    A leaf collects ``num_splits_to_consider`` candidates, each a feature drawn at random and its value in an example,
    counts the classes on both sides of each, and is split by the best one after ``split_after_samples`` examples.

    Args:
        num_trees: number of trees.
        max_nodes: a tree is not split beyond that number of nodes, leaves included.
        bagging_fraction: the fraction of each batch, drawn anew, that a tree sees.
        num_splits_to_consider: candidates of a leaf; the root of the number of features, from 10 to 1000, if 0.
        feature_bagging_fraction: the fraction of the features, drawn once, that a tree sees.
        max_fertile_nodes: has no effect, as in TensorFlow.
        split_after_samples: examples after which a leaf is split: a number, or a ``DepthDependentParam`` in text form.
        valid_leaf_threshold: has no effect, as in TensorFlow.
        dominate_method: has no effect, as in TensorFlow; see ``split_finish_name``.
        dominate_fraction: how sure ``"hoeffding"`` must be.
        model_name: ``"all_dense"`` or ``"all_sparse"``: how classes are written to checkpoints.
        split_finish_name: ``"basic"``, or ``"hoeffding"``, which splits early where one candidate is ahead.
        split_pruning_name: which candidates are dropped every ``prune_every_samples``: ``"none"``, ``"half"``,
            ``"quarter"``, ``"10_percent"``, or with ``"hoeffding"`` those that are surely behind.
        prune_every_samples: see there; half of ``split_after_samples`` if 0.
        early_finish_check_every_samples: how often ``split_finish_name`` looks; a quarter of ``split_after_samples``
            if 0.
        collate_examples: a leaf that gets its last candidate in a batch passes over its other examples in it.
        checkpoint_stats: whether checkpoints hold what leaves have counted.
        use_running_stats_method: has no effect here: it says how sums are kept.
        initialize_average_splits: a candidate's threshold is the middle between its example and one of another class.
        inference_tree_paths: whether `RandomForestGraphs.inference_graph` gives the nodes that an example passes.
        param_file: a file with a ``TensorForestParams`` in text form, which has the last word.
        split_name: ``"less_or_equal"`` or ``"less"``: which examples go left.
        **kwargs: ``num_classes`` and ``num_features``, which are needed; ``regression`` (False): labels are numbers,
            ``num_classes`` many; ``base_random_seed`` (0): seed of the first tree, the next ones follow; the graph's
            seed if 0.

    Example:
        >>> from anabranch.contrib import tensor_forest
        >>> tensor_forest.ForestHParams(num_classes=10, num_features=784, num_trees=10).fill().num_splits_to_consider
        28
    """

    def __init__(
        self,
        num_trees: int = 100,
        max_nodes: int = 10000,
        bagging_fraction: float = 1.0,
        num_splits_to_consider: int = 0,
        feature_bagging_fraction: float = 1.0,
        max_fertile_nodes: int = 0,
        split_after_samples: Any = 250,
        valid_leaf_threshold: int = 1,
        dominate_method: str = "bootstrap",
        dominate_fraction: float = 0.99,
        model_name: str = "all_dense",
        split_finish_name: str = "basic",
        split_pruning_name: str = "none",
        prune_every_samples: Any = 0,
        early_finish_check_every_samples: Any = 0,
        collate_examples: bool = False,
        checkpoint_stats: bool = False,
        use_running_stats_method: bool = False,
        initialize_average_splits: bool = False,
        inference_tree_paths: bool = False,
        param_file: str | None = None,
        split_name: str = "less_or_equal",
        **kwargs: Any,
    ) -> None:
        given = dict(locals())
        del given["self"], given["kwargs"]
        self.__dict__.update(given, **kwargs)

    def values(self) -> dict[str, Any]:
        """All parameters by name."""
        return self.__dict__

    def fill(self) -> ForestHParams:
        """Work out what was not given.

        Returns:
            The parameters themselves.

        Raises:
            AttributeError: ``num_classes`` or ``num_features`` is missing.
            ValueError: a name is none of those above.
        """
        given: Any = self
        for name in ("num_classes", "num_features"):
            if not hasattr(self, name):
                raise AttributeError(
                    errors.message(f"ForestHParams without {name}", f"{name}, a number", f"ForestHParams({name}=10)"),
                    name=name,
                    obj=self,
                )
        self.bagged_num_features = int(given.feature_bagging_fraction * given.num_features)
        self.bagged_features = None
        if given.feature_bagging_fraction < 1.0:
            self.bagged_features = [
                random.sample(range(given.num_features), self.bagged_num_features) for _ in range(given.num_trees)
            ]
        self.regression = getattr(self, "regression", False)
        self.num_outputs = given.num_classes if self.regression else 1
        self.num_output_columns = given.num_classes + 1
        usual = min(max(10, math.floor(math.sqrt(given.num_features))), 1000)
        self.num_splits_to_consider = given.num_splits_to_consider or usual
        self.base_random_seed = getattr(self, "base_random_seed", 0)
        leaf, stats = (
            (pb.MODEL_REGRESSION, pb.STATS_LEAST_SQUARES_REGRESSION)
            if self.regression
            else _chosen(_CLASSIFICATION, given.model_name, "model_name")
        )
        self.leaf_model_type, self.stats_model_type = leaf, stats
        finish = _chosen(_FINISH, given.split_finish_name, "split_finish_name")
        self.finish_type = pb.SPLIT_FINISH_BASIC if self.regression else finish
        self.pruning_type = _chosen(_PRUNING, given.split_pruning_name, "split_pruning_name")
        self.prune_every_samples = self._every("prune_every_samples", 2, self.pruning_type == pb.SPLIT_PRUNE_NONE)
        self.early_finish_check_every_samples = self._every(
            "early_finish_check_every_samples", 4, self.finish_type == pb.SPLIT_FINISH_BASIC
        )
        self.split_type = _chosen(_SPLITS, given.split_name, "split_name")
        return self

    def _every(self, name: str, part: int, unused: bool) -> Any:
        given, after = self.__dict__[name], self.__dict__["split_after_samples"]
        if unused or given:
            return 0 if unused else given
        if not isinstance(after, numbers.Number) and not str(after).isdigit():
            raise ValueError(
                errors.message(f"split_after_samples={after!r} without {name}", f"{name}, too", f"{name}=100")
            )
        return int(after) / part


def _set_parameter(message: Any, value: Any) -> None:
    if isinstance(value, numbers.Number) or str(value).isdigit():
        message.constant_value = float(value)
    else:
        text_format.Parse(value, message)


@public("contrib.tensor_forest.build_params_proto")
def build_params_proto(params: Any) -> Any:
    """The message that the operations of a forest hold, made of filled `ForestHParams`."""
    message = pb.TensorForestParams(
        num_trees=params.num_trees,
        max_nodes=params.max_nodes,
        is_regression=params.regression,
        num_outputs=params.num_classes,
        num_features=params.num_features,
        leaf_type=params.leaf_model_type,
        stats_type=params.stats_model_type,
        collection_type=pb.COLLECTION_BASIC,
        inequality_test_type=params.split_type,
        collate_examples=params.collate_examples,
        checkpoint_stats=params.checkpoint_stats,
        use_running_stats_method=params.use_running_stats_method,
        initialize_average_splits=params.initialize_average_splits,
        inference_tree_paths=params.inference_tree_paths,
    )
    message.pruning_type.type = params.pruning_type
    message.finish_type.type = params.finish_type
    _set_parameter(message.pruning_type.prune_every_samples, params.prune_every_samples)
    _set_parameter(message.finish_type.check_every_steps, params.early_finish_check_every_samples)
    _set_parameter(message.split_after_samples, params.split_after_samples)
    _set_parameter(message.num_splits_to_consider, params.num_splits_to_consider)
    message.dominate_fraction.constant_value = params.dominate_fraction
    if params.param_file:
        text_format.Merge(Path(params.param_file).read_text(), message)
    return message


@functools.lru_cache(64)
def parsed(serialized: bytes) -> Any:
    """The message in an attribute ``params``.

    Raises:
        InvalidArgumentError: it is none, or asks for what is not here.
    """
    try:
        params = pb.TensorForestParams.FromString(serialized)
    except Exception as error:
        raise errors.InvalidArgumentError(None, None, f"params is not a TensorForestParams: {error}") from error
    if params.finish_type.type == pb.SPLIT_FINISH_DOMINATE_BOOTSTRAP or params.stats_type in (
        pb.STATS_SPARSE_THEN_DENSE_GINI,
        pb.STATS_FIXED_SIZE_SPARSE_GINI,
    ):
        finish = pb.SplitFinishStrategyType.Name(params.finish_type.type)
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                f"a forest with {finish}, {pb.StatsModelType.Name(params.stats_type)}",
                "SPLIT_FINISH_BASIC or SPLIT_FINISH_DOMINATE_HOEFFDING, and counts of all classes",
                "ForestHParams(split_finish_name='hoeffding', model_name='all_dense')",
            ),
        )
    return params


def at_depth(parameter: Any, depth: int) -> float:
    """The value of a ``DepthDependentParam`` for nodes of a depth, 0 at the root."""
    kind = parameter.WhichOneof("ParamType")
    if kind == "linear":
        linear = parameter.linear
        return min(max(depth * linear.slope + linear.y_intercept, linear.min_val), linear.max_val)
    if kind == "exponential":
        growth = parameter.exponential
        return growth.bias + growth.multiplier * growth.base ** (growth.depth_multiplier * depth)
    if kind == "threshold":
        step = parameter.threshold
        return step.on_value if depth >= step.threshold else step.off_value
    return float(parameter.constant_value)
