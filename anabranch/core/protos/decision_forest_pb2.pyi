from google.protobuf import any_pb2 as _any_pb2
from google.protobuf import wrappers_pb2 as _wrappers_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LeafModelType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODEL_DENSE_CLASSIFICATION: _ClassVar[LeafModelType]
    MODEL_SPARSE_CLASSIFICATION: _ClassVar[LeafModelType]
    MODEL_REGRESSION: _ClassVar[LeafModelType]
    MODEL_SPARSE_OR_DENSE_CLASSIFICATION: _ClassVar[LeafModelType]

class StatsModelType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATS_DENSE_GINI: _ClassVar[StatsModelType]
    STATS_SPARSE_GINI: _ClassVar[StatsModelType]
    STATS_LEAST_SQUARES_REGRESSION: _ClassVar[StatsModelType]
    STATS_SPARSE_THEN_DENSE_GINI: _ClassVar[StatsModelType]
    STATS_FIXED_SIZE_SPARSE_GINI: _ClassVar[StatsModelType]

class SplitCollectionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COLLECTION_BASIC: _ClassVar[SplitCollectionType]
    GRAPH_RUNNER_COLLECTION: _ClassVar[SplitCollectionType]

class SplitPruningStrategyType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SPLIT_PRUNE_NONE: _ClassVar[SplitPruningStrategyType]
    SPLIT_PRUNE_HALF: _ClassVar[SplitPruningStrategyType]
    SPLIT_PRUNE_QUARTER: _ClassVar[SplitPruningStrategyType]
    SPLIT_PRUNE_10_PERCENT: _ClassVar[SplitPruningStrategyType]
    SPLIT_PRUNE_HOEFFDING: _ClassVar[SplitPruningStrategyType]

class SplitFinishStrategyType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SPLIT_FINISH_BASIC: _ClassVar[SplitFinishStrategyType]
    SPLIT_FINISH_DOMINATE_HOEFFDING: _ClassVar[SplitFinishStrategyType]
    SPLIT_FINISH_DOMINATE_BOOTSTRAP: _ClassVar[SplitFinishStrategyType]
MODEL_DENSE_CLASSIFICATION: LeafModelType
MODEL_SPARSE_CLASSIFICATION: LeafModelType
MODEL_REGRESSION: LeafModelType
MODEL_SPARSE_OR_DENSE_CLASSIFICATION: LeafModelType
STATS_DENSE_GINI: StatsModelType
STATS_SPARSE_GINI: StatsModelType
STATS_LEAST_SQUARES_REGRESSION: StatsModelType
STATS_SPARSE_THEN_DENSE_GINI: StatsModelType
STATS_FIXED_SIZE_SPARSE_GINI: StatsModelType
COLLECTION_BASIC: SplitCollectionType
GRAPH_RUNNER_COLLECTION: SplitCollectionType
SPLIT_PRUNE_NONE: SplitPruningStrategyType
SPLIT_PRUNE_HALF: SplitPruningStrategyType
SPLIT_PRUNE_QUARTER: SplitPruningStrategyType
SPLIT_PRUNE_10_PERCENT: SplitPruningStrategyType
SPLIT_PRUNE_HOEFFDING: SplitPruningStrategyType
SPLIT_FINISH_BASIC: SplitFinishStrategyType
SPLIT_FINISH_DOMINATE_HOEFFDING: SplitFinishStrategyType
SPLIT_FINISH_DOMINATE_BOOTSTRAP: SplitFinishStrategyType

class DecisionTreeModel(_message.Message):
    __slots__ = ("decision_tree",)
    DECISION_TREE_FIELD_NUMBER: _ClassVar[int]
    decision_tree: DecisionTree
    def __init__(self, decision_tree: _Optional[_Union[DecisionTree, _Mapping]] = ...) -> None: ...

class DecisionTree(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[TreeNode]
    def __init__(self, nodes: _Optional[_Iterable[_Union[TreeNode, _Mapping]]] = ...) -> None: ...

class TreeNode(_message.Message):
    __slots__ = ("node_id", "depth", "subtree_size", "binary_node", "leaf")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    SUBTREE_SIZE_FIELD_NUMBER: _ClassVar[int]
    BINARY_NODE_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    node_id: _wrappers_pb2.Int32Value
    depth: _wrappers_pb2.Int32Value
    subtree_size: _wrappers_pb2.Int32Value
    binary_node: BinaryNode
    leaf: Leaf
    def __init__(self, node_id: _Optional[_Union[_wrappers_pb2.Int32Value, _Mapping]] = ..., depth: _Optional[_Union[_wrappers_pb2.Int32Value, _Mapping]] = ..., subtree_size: _Optional[_Union[_wrappers_pb2.Int32Value, _Mapping]] = ..., binary_node: _Optional[_Union[BinaryNode, _Mapping]] = ..., leaf: _Optional[_Union[Leaf, _Mapping]] = ...) -> None: ...

class BinaryNode(_message.Message):
    __slots__ = ("left_child_id", "right_child_id", "default_direction", "inequality_left_child_test", "custom_left_child_test")
    class Direction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LEFT: _ClassVar[BinaryNode.Direction]
        RIGHT: _ClassVar[BinaryNode.Direction]
    LEFT: BinaryNode.Direction
    RIGHT: BinaryNode.Direction
    LEFT_CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    RIGHT_CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_DIRECTION_FIELD_NUMBER: _ClassVar[int]
    INEQUALITY_LEFT_CHILD_TEST_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_LEFT_CHILD_TEST_FIELD_NUMBER: _ClassVar[int]
    left_child_id: _wrappers_pb2.Int32Value
    right_child_id: _wrappers_pb2.Int32Value
    default_direction: BinaryNode.Direction
    inequality_left_child_test: InequalityTest
    custom_left_child_test: _any_pb2.Any
    def __init__(self, left_child_id: _Optional[_Union[_wrappers_pb2.Int32Value, _Mapping]] = ..., right_child_id: _Optional[_Union[_wrappers_pb2.Int32Value, _Mapping]] = ..., default_direction: _Optional[_Union[BinaryNode.Direction, str]] = ..., inequality_left_child_test: _Optional[_Union[InequalityTest, _Mapping]] = ..., custom_left_child_test: _Optional[_Union[_any_pb2.Any, _Mapping]] = ...) -> None: ...

class InequalityTest(_message.Message):
    __slots__ = ("feature_id", "type", "threshold")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LESS_OR_EQUAL: _ClassVar[InequalityTest.Type]
        LESS_THAN: _ClassVar[InequalityTest.Type]
        GREATER_OR_EQUAL: _ClassVar[InequalityTest.Type]
        GREATER_THAN: _ClassVar[InequalityTest.Type]
    LESS_OR_EQUAL: InequalityTest.Type
    LESS_THAN: InequalityTest.Type
    GREATER_OR_EQUAL: InequalityTest.Type
    GREATER_THAN: InequalityTest.Type
    FEATURE_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    feature_id: FeatureId
    type: InequalityTest.Type
    threshold: TreeValue
    def __init__(self, feature_id: _Optional[_Union[FeatureId, _Mapping]] = ..., type: _Optional[_Union[InequalityTest.Type, str]] = ..., threshold: _Optional[_Union[TreeValue, _Mapping]] = ...) -> None: ...

class MatchingValuesTest(_message.Message):
    __slots__ = ("feature_id", "value", "inverse")
    FEATURE_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    INVERSE_FIELD_NUMBER: _ClassVar[int]
    feature_id: FeatureId
    value: _containers.RepeatedCompositeFieldContainer[TreeValue]
    inverse: bool
    def __init__(self, feature_id: _Optional[_Union[FeatureId, _Mapping]] = ..., value: _Optional[_Iterable[_Union[TreeValue, _Mapping]]] = ..., inverse: _Optional[bool] = ...) -> None: ...

class FeatureId(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: _wrappers_pb2.StringValue
    def __init__(self, id: _Optional[_Union[_wrappers_pb2.StringValue, _Mapping]] = ...) -> None: ...

class Leaf(_message.Message):
    __slots__ = ("vector", "sparse_vector")
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    SPARSE_VECTOR_FIELD_NUMBER: _ClassVar[int]
    vector: TreeVector
    sparse_vector: SparseTreeVector
    def __init__(self, vector: _Optional[_Union[TreeVector, _Mapping]] = ..., sparse_vector: _Optional[_Union[SparseTreeVector, _Mapping]] = ...) -> None: ...

class TreeVector(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: _containers.RepeatedCompositeFieldContainer[TreeValue]
    def __init__(self, value: _Optional[_Iterable[_Union[TreeValue, _Mapping]]] = ...) -> None: ...

class SparseTreeVector(_message.Message):
    __slots__ = ("sparse_value",)
    class SparseValueEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: TreeValue
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[TreeValue, _Mapping]] = ...) -> None: ...
    SPARSE_VALUE_FIELD_NUMBER: _ClassVar[int]
    sparse_value: _containers.MessageMap[int, TreeValue]
    def __init__(self, sparse_value: _Optional[_Mapping[int, TreeValue]] = ...) -> None: ...

class TreeValue(_message.Message):
    __slots__ = ("float_value", "double_value", "int32_value", "int64_value")
    FLOAT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT32_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT64_VALUE_FIELD_NUMBER: _ClassVar[int]
    float_value: float
    double_value: float
    int32_value: int
    int64_value: int
    def __init__(self, float_value: _Optional[float] = ..., double_value: _Optional[float] = ..., int32_value: _Optional[int] = ..., int64_value: _Optional[int] = ...) -> None: ...

class TreePath(_message.Message):
    __slots__ = ("nodes_visited",)
    NODES_VISITED_FIELD_NUMBER: _ClassVar[int]
    nodes_visited: _containers.RepeatedCompositeFieldContainer[TreeNode]
    def __init__(self, nodes_visited: _Optional[_Iterable[_Union[TreeNode, _Mapping]]] = ...) -> None: ...

class FertileStats(_message.Message):
    __slots__ = ("node_to_slot",)
    NODE_TO_SLOT_FIELD_NUMBER: _ClassVar[int]
    node_to_slot: _containers.RepeatedCompositeFieldContainer[FertileSlot]
    def __init__(self, node_to_slot: _Optional[_Iterable[_Union[FertileSlot, _Mapping]]] = ...) -> None: ...

class FertileSlot(_message.Message):
    __slots__ = ("candidates", "leaf_stats", "node_id", "post_init_leaf_stats", "depth")
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    LEAF_STATS_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    POST_INIT_LEAF_STATS_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    candidates: _containers.RepeatedCompositeFieldContainer[SplitCandidate]
    leaf_stats: LeafStat
    node_id: int
    post_init_leaf_stats: LeafStat
    depth: int
    def __init__(self, candidates: _Optional[_Iterable[_Union[SplitCandidate, _Mapping]]] = ..., leaf_stats: _Optional[_Union[LeafStat, _Mapping]] = ..., node_id: _Optional[int] = ..., post_init_leaf_stats: _Optional[_Union[LeafStat, _Mapping]] = ..., depth: _Optional[int] = ...) -> None: ...

class SplitCandidate(_message.Message):
    __slots__ = ("split", "left_stats", "right_stats", "unique_id")
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    LEFT_STATS_FIELD_NUMBER: _ClassVar[int]
    RIGHT_STATS_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    split: BinaryNode
    left_stats: LeafStat
    right_stats: LeafStat
    unique_id: str
    def __init__(self, split: _Optional[_Union[BinaryNode, _Mapping]] = ..., left_stats: _Optional[_Union[LeafStat, _Mapping]] = ..., right_stats: _Optional[_Union[LeafStat, _Mapping]] = ..., unique_id: _Optional[str] = ...) -> None: ...

class LeafStat(_message.Message):
    __slots__ = ("classification", "regression", "weight_sum")
    class GiniImpurityClassificationStats(_message.Message):
        __slots__ = ("dense_counts", "sparse_counts")
        DENSE_COUNTS_FIELD_NUMBER: _ClassVar[int]
        SPARSE_COUNTS_FIELD_NUMBER: _ClassVar[int]
        dense_counts: TreeVector
        sparse_counts: SparseTreeVector
        def __init__(self, dense_counts: _Optional[_Union[TreeVector, _Mapping]] = ..., sparse_counts: _Optional[_Union[SparseTreeVector, _Mapping]] = ...) -> None: ...
    class LeastSquaresRegressionStats(_message.Message):
        __slots__ = ("mean_output", "mean_output_squares")
        MEAN_OUTPUT_FIELD_NUMBER: _ClassVar[int]
        MEAN_OUTPUT_SQUARES_FIELD_NUMBER: _ClassVar[int]
        mean_output: TreeVector
        mean_output_squares: TreeVector
        def __init__(self, mean_output: _Optional[_Union[TreeVector, _Mapping]] = ..., mean_output_squares: _Optional[_Union[TreeVector, _Mapping]] = ...) -> None: ...
    CLASSIFICATION_FIELD_NUMBER: _ClassVar[int]
    REGRESSION_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_SUM_FIELD_NUMBER: _ClassVar[int]
    classification: LeafStat.GiniImpurityClassificationStats
    regression: LeafStat.LeastSquaresRegressionStats
    weight_sum: float
    def __init__(self, classification: _Optional[_Union[LeafStat.GiniImpurityClassificationStats, _Mapping]] = ..., regression: _Optional[_Union[LeafStat.LeastSquaresRegressionStats, _Mapping]] = ..., weight_sum: _Optional[float] = ...) -> None: ...

class LinearParam(_message.Message):
    __slots__ = ("slope", "y_intercept", "min_val", "max_val")
    SLOPE_FIELD_NUMBER: _ClassVar[int]
    Y_INTERCEPT_FIELD_NUMBER: _ClassVar[int]
    MIN_VAL_FIELD_NUMBER: _ClassVar[int]
    MAX_VAL_FIELD_NUMBER: _ClassVar[int]
    slope: float
    y_intercept: float
    min_val: float
    max_val: float
    def __init__(self, slope: _Optional[float] = ..., y_intercept: _Optional[float] = ..., min_val: _Optional[float] = ..., max_val: _Optional[float] = ...) -> None: ...

class ExponentialParam(_message.Message):
    __slots__ = ("bias", "base", "multiplier", "depth_multiplier")
    BIAS_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    DEPTH_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    bias: float
    base: float
    multiplier: float
    depth_multiplier: float
    def __init__(self, bias: _Optional[float] = ..., base: _Optional[float] = ..., multiplier: _Optional[float] = ..., depth_multiplier: _Optional[float] = ...) -> None: ...

class ThresholdParam(_message.Message):
    __slots__ = ("on_value", "off_value", "threshold")
    ON_VALUE_FIELD_NUMBER: _ClassVar[int]
    OFF_VALUE_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    on_value: float
    off_value: float
    threshold: float
    def __init__(self, on_value: _Optional[float] = ..., off_value: _Optional[float] = ..., threshold: _Optional[float] = ...) -> None: ...

class DepthDependentParam(_message.Message):
    __slots__ = ("constant_value", "linear", "exponential", "threshold")
    CONSTANT_VALUE_FIELD_NUMBER: _ClassVar[int]
    LINEAR_FIELD_NUMBER: _ClassVar[int]
    EXPONENTIAL_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    constant_value: float
    linear: LinearParam
    exponential: ExponentialParam
    threshold: ThresholdParam
    def __init__(self, constant_value: _Optional[float] = ..., linear: _Optional[_Union[LinearParam, _Mapping]] = ..., exponential: _Optional[_Union[ExponentialParam, _Mapping]] = ..., threshold: _Optional[_Union[ThresholdParam, _Mapping]] = ...) -> None: ...

class SplitPruningConfig(_message.Message):
    __slots__ = ("prune_every_samples", "type")
    PRUNE_EVERY_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    prune_every_samples: DepthDependentParam
    type: SplitPruningStrategyType
    def __init__(self, prune_every_samples: _Optional[_Union[DepthDependentParam, _Mapping]] = ..., type: _Optional[_Union[SplitPruningStrategyType, str]] = ...) -> None: ...

class SplitFinishConfig(_message.Message):
    __slots__ = ("check_every_steps", "type")
    CHECK_EVERY_STEPS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    check_every_steps: DepthDependentParam
    type: SplitFinishStrategyType
    def __init__(self, check_every_steps: _Optional[_Union[DepthDependentParam, _Mapping]] = ..., type: _Optional[_Union[SplitFinishStrategyType, str]] = ...) -> None: ...

class TensorForestParams(_message.Message):
    __slots__ = ("leaf_type", "stats_type", "collection_type", "pruning_type", "finish_type", "num_trees", "max_nodes", "is_regression", "drop_final_class", "collate_examples", "checkpoint_stats", "num_outputs", "num_splits_to_consider", "split_after_samples", "dominate_fraction", "graph_dir", "num_select_features", "min_split_samples", "inequality_test_type", "use_running_stats_method", "num_features", "initialize_average_splits", "inference_tree_paths", "num_classes_to_track")
    LEAF_TYPE_FIELD_NUMBER: _ClassVar[int]
    STATS_TYPE_FIELD_NUMBER: _ClassVar[int]
    COLLECTION_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRUNING_TYPE_FIELD_NUMBER: _ClassVar[int]
    FINISH_TYPE_FIELD_NUMBER: _ClassVar[int]
    NUM_TREES_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    IS_REGRESSION_FIELD_NUMBER: _ClassVar[int]
    DROP_FINAL_CLASS_FIELD_NUMBER: _ClassVar[int]
    COLLATE_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_STATS_FIELD_NUMBER: _ClassVar[int]
    NUM_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    NUM_SPLITS_TO_CONSIDER_FIELD_NUMBER: _ClassVar[int]
    SPLIT_AFTER_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    DOMINATE_FRACTION_FIELD_NUMBER: _ClassVar[int]
    GRAPH_DIR_FIELD_NUMBER: _ClassVar[int]
    NUM_SELECT_FEATURES_FIELD_NUMBER: _ClassVar[int]
    MIN_SPLIT_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    INEQUALITY_TEST_TYPE_FIELD_NUMBER: _ClassVar[int]
    USE_RUNNING_STATS_METHOD_FIELD_NUMBER: _ClassVar[int]
    NUM_FEATURES_FIELD_NUMBER: _ClassVar[int]
    INITIALIZE_AVERAGE_SPLITS_FIELD_NUMBER: _ClassVar[int]
    INFERENCE_TREE_PATHS_FIELD_NUMBER: _ClassVar[int]
    NUM_CLASSES_TO_TRACK_FIELD_NUMBER: _ClassVar[int]
    leaf_type: LeafModelType
    stats_type: StatsModelType
    collection_type: SplitCollectionType
    pruning_type: SplitPruningConfig
    finish_type: SplitFinishConfig
    num_trees: int
    max_nodes: int
    is_regression: bool
    drop_final_class: bool
    collate_examples: bool
    checkpoint_stats: bool
    num_outputs: int
    num_splits_to_consider: DepthDependentParam
    split_after_samples: DepthDependentParam
    dominate_fraction: DepthDependentParam
    graph_dir: str
    num_select_features: int
    min_split_samples: DepthDependentParam
    inequality_test_type: InequalityTest.Type
    use_running_stats_method: bool
    num_features: int
    initialize_average_splits: bool
    inference_tree_paths: bool
    num_classes_to_track: int
    def __init__(self, leaf_type: _Optional[_Union[LeafModelType, str]] = ..., stats_type: _Optional[_Union[StatsModelType, str]] = ..., collection_type: _Optional[_Union[SplitCollectionType, str]] = ..., pruning_type: _Optional[_Union[SplitPruningConfig, _Mapping]] = ..., finish_type: _Optional[_Union[SplitFinishConfig, _Mapping]] = ..., num_trees: _Optional[int] = ..., max_nodes: _Optional[int] = ..., is_regression: _Optional[bool] = ..., drop_final_class: _Optional[bool] = ..., collate_examples: _Optional[bool] = ..., checkpoint_stats: _Optional[bool] = ..., num_outputs: _Optional[int] = ..., num_splits_to_consider: _Optional[_Union[DepthDependentParam, _Mapping]] = ..., split_after_samples: _Optional[_Union[DepthDependentParam, _Mapping]] = ..., dominate_fraction: _Optional[_Union[DepthDependentParam, _Mapping]] = ..., graph_dir: _Optional[str] = ..., num_select_features: _Optional[int] = ..., min_split_samples: _Optional[_Union[DepthDependentParam, _Mapping]] = ..., inequality_test_type: _Optional[_Union[InequalityTest.Type, str]] = ..., use_running_stats_method: _Optional[bool] = ..., num_features: _Optional[int] = ..., initialize_average_splits: _Optional[bool] = ..., inference_tree_paths: _Optional[bool] = ..., num_classes_to_track: _Optional[int] = ...) -> None: ...
