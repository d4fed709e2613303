"""Small models whose variables, values and gradients `tools/golden/names/library.py` records and the tests make again.

Each case is a function of the two libraries: `tf` (version 1's names) and `layers` (`tf.contrib.layers`, which outlived
it as `tf_slim`). It returns tensors. Variables and inputs have values by rule, so that only results are stored.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

Case = Callable[[Any, Any], Any]
CASES: dict[str, Case] = {}


def value_of(name: str, shape: Any) -> np.ndarray:
    """The value that a variable or input of that name has: from 0.1 to 1."""
    return np.random.RandomState(zlib.crc32(name.encode())).uniform(0.1, 1.0, shape).astype(np.float32)


def given(tf: Any, *shape: int, name: str = "input") -> Any:
    """An input, of both signs."""
    return tf.constant((value_of(name, shape) - 0.5) * 2)


def case(make: Case) -> Case:
    """Registers a case under its function's name."""
    CASES[make.__name__] = make
    return make


def _add(name: str, make: Case) -> None:
    CASES[name] = make


# ------------------------------------------------------------------------------------- layers with argument scopes
IMAGE, SEQUENCE, VOLUME, ROWS = (2, 6, 6, 4), (2, 7, 3), (2, 4, 5, 6, 2), (3, 6)
for _name, _make in {
    "conv1d": lambda tf, c: c.conv1d(given(tf, *SEQUENCE), 4, 3, stride=2),
    "conv1d_rate": lambda tf, c: c.conv1d(given(tf, *SEQUENCE), 4, 3, rate=2, padding="VALID"),
    "conv2d": lambda tf, c: c.conv2d(given(tf, *IMAGE), 3, [3, 2], stride=2, padding="VALID"),
    "conv2d_rate": lambda tf, c: c.conv2d(given(tf, *IMAGE), 3, 3, rate=2, activation_fn=None),
    "conv3d": lambda tf, c: c.conv3d(given(tf, *VOLUME), 3, [2, 3, 3]),
    "convolution": lambda tf, c: c.convolution(given(tf, *IMAGE), 3, 3, biases_initializer=None),
    "conv2d_in_plane": lambda tf, c: c.conv2d_in_plane(given(tf, *IMAGE), 3, stride=2, activation_fn=None),
    "conv2d_transpose": lambda tf, c: c.conv2d_transpose(given(tf, *IMAGE), 3, 3, 2),
    "conv3d_transpose": lambda tf, c: c.conv3d_transpose(given(tf, *VOLUME), 3, 3, 2),
    "separable_conv2d": lambda tf, c: c.separable_conv2d(given(tf, *IMAGE), 3, 3, 2, activation_fn=tf.tanh),
    "separable_conv2d_depthwise": lambda tf, c: c.separable_conv2d(given(tf, *IMAGE), None, 3, 2, stride=2),
    "fully_connected": lambda tf, c: c.fully_connected(given(tf, *ROWS), 5),
    "fully_connected_3": lambda tf, c: c.fully_connected(given(tf, *SEQUENCE), 5, activation_fn=tf.sigmoid),
    "max_pool2d": lambda tf, c: c.max_pool2d(given(tf, *IMAGE), 3),
    "avg_pool2d": lambda tf, c: c.avg_pool2d(given(tf, *IMAGE), [2, 3], stride=1, padding="SAME"),
    "max_pool3d": lambda tf, c: c.max_pool3d(given(tf, *VOLUME), [2, 2, 3]),
    "avg_pool3d": lambda tf, c: c.avg_pool3d(given(tf, *VOLUME), 2, padding="SAME"),
    "pool": lambda tf, c: c.pool(given(tf, *IMAGE), 2, "MAX", dilation_rate=2, padding="VALID"),
    "batch_norm": lambda tf, c: c.batch_norm(given(tf, *IMAGE), 0.9, scale=True, updates_collections=None),
    "batch_norm_inference": lambda tf, c: c.batch_norm(given(tf, *IMAGE), is_training=False, activation_fn=tf.nn.relu),
    "batch_norm_rows": lambda tf, c: c.batch_norm(given(tf, *ROWS), scale=True, decay=0.5),
    "batch_norm_weights": lambda tf, c: c.batch_norm(
        given(tf, *ROWS), 0.5, batch_weights=tf.constant([1.0, 0.0, 2.0]), updates_collections=None
    ),
    "batch_norm_debias": lambda tf, c: c.batch_norm(
        given(tf, *IMAGE), 0.9, zero_debias_moving_mean=True, fused=False, updates_collections=None
    ),
    "layer_norm": lambda tf, c: c.layer_norm(given(tf, *IMAGE)),
    "layer_norm_axes": lambda tf, c: c.layer_norm(
        given(tf, *SEQUENCE), begin_norm_axis=2, begin_params_axis=1, activation_fn=tf.nn.relu
    ),
    "instance_norm": lambda tf, c: c.instance_norm(given(tf, *IMAGE)),
    "group_norm": lambda tf, c: c.group_norm(given(tf, *IMAGE), 2),
    "group_norm_axes": lambda tf, c: c.group_norm(
        given(tf, 2, 4, 3, 3), 2, channels_axis=1, reduction_axes=[2, 3], center=False, mean_close_to_zero=True
    ),
    "unit_norm": lambda tf, c: c.unit_norm(given(tf, *SEQUENCE), 2),
    "maxout": lambda tf, c: c.maxout(given(tf, *IMAGE), 2),
    "maxout_axis": lambda tf, c: c.maxout(given(tf, *IMAGE), 3, axis=1),
    "spatial_softmax": lambda tf, c: c.spatial_softmax(given(tf, *IMAGE)),
    "spatial_softmax_temperature": lambda tf, c: c.spatial_softmax(
        given(tf, 2, 3, 4, 5), 0.3, name="places", trainable=False, data_format="NCHW"
    ),
    "images_to_sequence": lambda tf, c: c.images_to_sequence(given(tf, *IMAGE)),
    "sequence_to_images": lambda tf, c: c.sequence_to_images(given(tf, 5, 6, 2), 3),
    "flatten": lambda tf, c: c.flatten(given(tf, *IMAGE)),
    "bias_add": lambda tf, c: c.bias_add(given(tf, *IMAGE), activation_fn=tf.nn.relu),
    "one_hot_encoding": lambda tf, c: c.one_hot_encoding(tf.constant([2, 0]), 3, on_value=2.0),
    "softmax": lambda tf, c: c.softmax(given(tf, *SEQUENCE)),
    "legacy_fully_connected": lambda tf, c: c.legacy_fully_connected(given(tf, *ROWS), 2, activation_fn=tf.tanh),
    "linear": lambda tf, c: c.linear(given(tf, *ROWS), 2),
    "repeat": lambda tf, c: c.repeat(given(tf, *IMAGE), 2, c.conv2d, 4, 3),
    "repeat_pools": lambda tf, c: c.repeat(given(tf, *IMAGE), 2, c.max_pool2d, 2, stride=1),
    "stack": lambda tf, c: c.stack(given(tf, *ROWS), c.fully_connected, [4, 3], scope="fc"),
    "stack_of_lists": lambda tf, c: c.stack(given(tf, *IMAGE), c.separable_conv2d, [[4, 3, 1], [2, 1, 2]]),
    "scale_gradient": lambda tf, c: tf.gradients(
        tf.square(c.scale_gradient(tf.get_variable("x", [3]) * 1.0, 0.3)), tf.global_variables()
    ),
    "dense_to_sparse": lambda tf, c: [
        getattr(c.dense_to_sparse(tf.constant([[1, 0, 2], [0, 0, 3]])), part)
        for part in ("indices", "values", "dense_shape")
    ],
    "rev_block": lambda tf, c: c.rev_block(
        given(tf, *ROWS),
        given(tf, *ROWS, name="other"),
        lambda x: c.fully_connected(x, 6),
        lambda x: c.fully_connected(x, 6, activation_fn=tf.tanh),
        num_layers=2,
    ),
}.items():
    _add(f"layers.{_name}", _make)


@case
def normalized_in_scopes(tf: Any, layers: Any) -> Any:
    """A layer in a layer's place of biases, with regularizers and collections."""
    with layers.arg_scope(
        [layers.conv2d, layers.fully_connected],
        normalizer_fn=layers.batch_norm,
        normalizer_params={"is_training": True, "scale": True},
        weights_regularizer=layers.l2_regularizer(0.1),
        outputs_collections="ends",
    ):
        net = layers.conv2d(given(tf, *IMAGE), 4, 3, scope="first")
        net = layers.conv2d(net, 2, 1, activation_fn=None)
        net = layers.fully_connected(layers.flatten(net), 3)
    return [net, *tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)]


def _stepped(tf: Any, layers: Any, **options: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", [3])
    b = tf.get_variable("b", [])
    loss = tf.reduce_sum(tf.square(w * tf.constant([1.0, 2.0, 3.0]) + b))
    options = {"learning_rate": 0.1, "optimizer": "SGD", **options}
    return layers.optimize_loss(loss, step, **options)


for _name, _options in {
    "sgd": lambda tf, c: {},
    "adam": lambda tf, c: {"optimizer": "Adam", "clip_gradients": 1.5, "name": "train_it"},
    "momentum": lambda tf, c: {"optimizer": "Momentum", "gradient_multipliers": {"w:0": 0.5}},
    "rmsprop": lambda tf, c: {"optimizer": "RMSProp"},
    "ftrl": lambda tf, c: {"optimizer": "Ftrl"},
    "adagrad": lambda tf, c: {"optimizer": "Adagrad", "summaries": c.OPTIMIZER_SUMMARIES},
    "class": lambda tf, c: {"optimizer": tf.train.AdamOptimizer, "increment_global_step": False},
    "function": lambda tf, c: {"optimizer": lambda rate: tf.train.GradientDescentOptimizer(rate / 2)},
    "instance": lambda tf, c: {"optimizer": tf.train.GradientDescentOptimizer(0.2), "learning_rate": None},
    "decay": lambda tf, c: {
        "learning_rate_decay_fn": lambda rate, step: tf.train.exponential_decay(rate, step, 1, 0.5, staircase=True)
    },
    "clipping_function": lambda tf, c: {"clip_gradients": c.adaptive_clipping_fn(decay=0.5, report_summary=True)},
    "adaptive_with_step": lambda tf, c: {
        "clip_gradients": c.adaptive_clipping_fn(
            std_factor=0.1, static_max_norm=2.0, global_step=tf.train.get_global_step()
        )
    },
}.items():
    _add(f"optimize_loss.{_name}", lambda tf, c, options=_options: _stepped(tf, c, **options(tf, c)))


@case
def summaries_of_activations(tf: Any, layers: Any) -> Any:
    """Tags of summaries."""
    x = given(tf, *ROWS)
    for make in (tf.nn.relu, tf.nn.relu6, tf.nn.softplus, tf.sigmoid):
        layers.summarize_activation(make(x))
    layers.summarize_tensor(tf.reduce_sum(x))
    layers.summarize_tensors([x, x])
    return tf.summary.merge_all()


# ---------------------------------------------------------------------------------------------------- nets for images
def _ends(made: tuple[Any, dict[str, Any]], *names: str) -> list[Any]:
    """The output and some end points."""
    output, found = made
    return [output, *(found[name] for name in names)]


def _image(tf: Any, size: int, batch: int = 1) -> Any:
    return given(tf, batch, size, size, 3, name="image")


def _in_scope(nets: Any, scope: Any, make: Callable[[], Any]) -> Any:
    with nets.arg_scope(scope):
        return make()


# Only names and shapes: their weights are too many to run with.
for _name, _make in {
    "alexnet_v2": lambda tf, n: n.alexnet.alexnet_v2(_image(tf, 224)),
    "overfeat": lambda tf, n: n.overfeat.overfeat(_image(tf, 231), 10, spatial_squeeze=False),
    "vgg_a": lambda tf, n: _in_scope(n, n.vgg.vgg_arg_scope(), lambda: n.vgg.vgg_a(_image(tf, 224))),
    "vgg_16": lambda tf, n: n.vgg.vgg_16(_image(tf, 256), 10, False, spatial_squeeze=False),
    "vgg_19": lambda tf, n: n.vgg.vgg_19(_image(tf, 224), 10, False),
    "inception_v1": lambda tf, n: n.inception.inception_v1(_image(tf, 224), 7),
    "inception_v2": lambda tf, n: n.inception.inception_v2(_image(tf, 224), 7),
    "inception_v3": lambda tf, n: n.inception.inception_v3(_image(tf, 299), 7),
    "resnet_v1_101": lambda tf, n: n.resnet_v1.resnet_v1_101(_image(tf, 224)),
    "resnet_v2_152": lambda tf, n: n.resnet_v2.resnet_v2_152(_image(tf, 224), 7),
    "resnet_v2_200": lambda tf, n: n.resnet_v2.resnet_v2_200(_image(tf, 224), 7, global_pool=False, output_stride=8),
}.items():
    _add(f"names:{_name}", lambda tf, n, make=_make: [made := make(tf, n), made[0], *made[1].values()][1:])

for _name, _make in {
    "inception_v1": lambda tf, n: _ends(
        _in_scope(
            n, n.inception.inception_v1_arg_scope(),
            lambda: n.inception.inception_v1_base(_image(tf, 64), "Mixed_4c"),
        ),
        "MaxPool_3a_3x3",
    ),
    "inception_v2": lambda tf, n: _ends(
        _in_scope(
            n, n.inception.inception_v2_arg_scope(),
            lambda: n.inception.inception_v2(_image(tf, 96), 7, False, depth_multiplier=0.25, spatial_squeeze=False),
        ), "Predictions", "Mixed_4a",
    ),
    "inception_v3": lambda tf, n: _ends(
        _in_scope(
            n, n.inception.inception_v3_arg_scope(),
            lambda: n.inception.inception_v3(_image(tf, 139), 7, False, depth_multiplier=0.1, spatial_squeeze=False),
        ), "AuxLogits", "Predictions",
    ),
    "resnet_v1": lambda tf, n: _ends(
        _in_scope(n, n.resnet_utils.resnet_arg_scope(), lambda: n.resnet_v1.resnet_v1(
            _image(tf, 33), [n.resnet_v1.resnet_v1_block(f"block{i}", 4, 2, 2) for i in (1, 2)], 3, False, scope="net",
        )), "net/block1", "predictions",
    ),
    "resnet_v2": lambda tf, n: _ends(
        _in_scope(n, n.resnet_utils.resnet_arg_scope(), lambda: n.resnet_v2.resnet_v2(
            _image(tf, 33), [n.resnet_v2.resnet_v2_block(f"block{i}", 4, 2, 2) for i in (1, 2)], 3, False,
            global_pool=False, output_stride=8, scope="net",
        )), "net/block1/unit_2/bottleneck_v2", "predictions",
    ),
    "resnet_v2_training": lambda tf, n: n.resnet_v2.resnet_v2(
        _image(tf, 33, 2), [n.resnet_v2.resnet_v2_block("block1", 4, 2, 1)], 3, scope="net",
    )[0],
}.items():  # fmt: skip
    _add(f"nets:{_name}", _make)


# -------------------------------------------------------------------------------------------------- metrics and losses
def _scores(tf: Any) -> tuple[Any, Any]:
    """Booleans and probabilities."""
    return tf.constant(value_of("labels", (4, 5)) > 0.6), tf.constant(value_of("scores", (4, 5)))


def _classes(tf: Any) -> tuple[Any, Any]:
    """Three class numbers of six for each of four examples, and logits."""
    order = np.argsort(value_of("classes", (4, 6)))[:, :3]
    return tf.constant(order.astype(np.int64)), tf.constant(value_of("logits", (4, 6)))


def _weight(tf: Any) -> Any:
    return tf.constant([[1.0], [0.0], [2.0], [0.5]])


for _name, _make in {
    "streaming_accuracy": lambda tf, m, y, p: m.streaming_accuracy(tf.to_int32(p > 0.5), tf.to_int32(y), _weight(tf)),
    "streaming_precision": lambda tf, m, y, p: m.streaming_precision(p > 0.5, y),
    "streaming_recall": lambda tf, m, y, p: m.streaming_recall(p > 0.5, y, _weight(tf)),
    "streaming_auc": lambda tf, m, y, p: m.streaming_auc(p, y, curve="PR", num_thresholds=50),
    "streaming_mean": lambda tf, m, y, p: m.streaming_mean(p, _weight(tf)),
    "streaming_mean_tensor": lambda tf, m, y, p: m.streaming_mean_tensor(p),
    "streaming_mean_absolute_error": lambda tf, m, y, p: m.streaming_mean_absolute_error(p, tf.to_float(y)),
    "streaming_mean_squared_error": lambda tf, m, y, p: m.streaming_mean_squared_error(p, tf.to_float(y), _weight(tf)),
    "streaming_root_mean_squared_error": lambda tf, m, y, p: m.streaming_root_mean_squared_error(p, tf.to_float(y)),
    "streaming_mean_relative_error": lambda tf, m, y, p: m.streaming_mean_relative_error(p, tf.to_float(y), p + 1.0),
    "streaming_mean_cosine_distance": lambda tf, m, y, p: m.streaming_mean_cosine_distance(p, tf.to_float(y), 1),
    "streaming_mean_iou": lambda tf, m, y, p: m.streaming_mean_iou(tf.to_int32(p * 3), tf.to_int32(y), 3),
    "streaming_percentage_less": lambda tf, m, y, p: m.streaming_percentage_less(p, 0.4),
    "streaming_true_positives": lambda tf, m, y, p: m.streaming_true_positives(p > 0.5, y),
    "streaming_false_positives_at_thresholds": lambda tf, m, y, p: m.streaming_false_positives_at_thresholds(
        p, y, [0.3, 0.6]
    ),
    "streaming_precision_at_thresholds": lambda tf, m, y, p: m.streaming_precision_at_thresholds(p, y, [0.3, 0.6]),
    "streaming_recall_at_thresholds": lambda tf, m, y, p: m.streaming_recall_at_thresholds(p, y, [0.3], _weight(tf)),
    "streaming_false_positive_rate": lambda tf, m, y, p: m.streaming_false_positive_rate(p > 0.5, y),
    "streaming_false_negative_rate": lambda tf, m, y, p: m.streaming_false_negative_rate(p > 0.5, y, _weight(tf)),
    "streaming_false_positive_rate_at_thresholds": lambda tf, m, y, p: m.streaming_false_positive_rate_at_thresholds(
        p, y, [0.3, 0.6]
    ),
    "streaming_false_negative_rate_at_thresholds": lambda tf, m, y, p: m.streaming_false_negative_rate_at_thresholds(
        p, y, [0.3, 0.6]
    ),
    "streaming_sensitivity_at_specificity": lambda tf, m, y, p: m.streaming_sensitivity_at_specificity(p, y, 0.7),
    "streaming_specificity_at_sensitivity": lambda tf, m, y, p: m.streaming_specificity_at_sensitivity(p, y, 0.7),
    "streaming_covariance": lambda tf, m, y, p: m.streaming_covariance(p, tf.to_float(y)),
    "streaming_covariance_weights": lambda tf, m, y, p: m.streaming_covariance(p, tf.to_float(y), _weight(tf)),
    "streaming_pearson_correlation": lambda tf, m, y, p: m.streaming_pearson_correlation(p, tf.to_float(y)),
    "streaming_concat": lambda tf, m, y, p: m.streaming_concat(p, 0, 6),
    "streaming_curve_points": lambda tf, m, y, p: m.streaming_curve_points(y, p, num_thresholds=10),
    "count": lambda tf, m, y, p: m.count(p, _weight(tf)),
    "cohen_kappa": lambda tf, m, y, p: m.cohen_kappa(
        tf.reshape(tf.to_int64(y), [-1]), tf.reshape(tf.to_int64(p > 0.5), [-1]), 3
    ),
    "f1_score": lambda tf, m, y, p: m.f1_score(y, p),
    "precision_at_recall": lambda tf, m, y, p: m.precision_at_recall(y, p, 0.7),
    "recall_at_precision": lambda tf, m, y, p: m.recall_at_precision(y, p, 0.7),
    "recall_at_precision_strict": lambda tf, m, y, p: m.recall_at_precision(y, p, 0.7, strict_mode=True),
    "tf.sensitivity_at_specificity": lambda tf, m, y, p: tf.metrics.sensitivity_at_specificity(y, p, 0.4),
    "tf.specificity_at_sensitivity": lambda tf, m, y, p: tf.metrics.specificity_at_sensitivity(y, p, 0.4, _weight(tf)),
}.items():
    _add(f"metrics:{_name}", lambda tf, m, make=_make: make(tf, m, *_scores(tf)))
for _name, _make in {
    "streaming_sparse_precision_at_k": lambda tf, m, y, p: m.streaming_sparse_precision_at_k(p, y, 2),
    "streaming_sparse_recall_at_k": lambda tf, m, y, p: m.streaming_sparse_recall_at_k(p, y, 2, class_id=3),
    "streaming_sparse_average_precision_at_k": lambda tf, m, y, p: m.streaming_sparse_average_precision_at_k(p, y, 4),
    "streaming_sparse_precision_at_top_k": lambda tf, m, y, p: m.streaming_sparse_precision_at_top_k(
        tf.nn.top_k(p, 2)[1], y
    ),
    "streaming_sparse_average_precision_at_top_k": lambda tf, m, y, p: m.streaming_sparse_average_precision_at_top_k(
        tf.nn.top_k(p, 4)[1], y
    ),
    "sparse_recall_at_top_k": lambda tf, m, y, p: m.sparse_recall_at_top_k(y, tf.nn.top_k(p, 2)[1]),
    "streaming_recall_at_k": lambda tf, m, y, p: m.streaming_recall_at_k(p, y[:, 0], 3),
    "tf.average_precision_at_k": lambda tf, m, y, p: tf.metrics.average_precision_at_k(y, p, 3, [1.0, 0.0, 2.0, 0.5]),
    "tf.average_precision_of_sparse": lambda tf, m, y, p: tf.metrics.average_precision_at_k(
        tf.SparseTensor([[0, 0], [1, 0], [1, 1], [2, 0], [3, 0]], tf.constant([1, 2, 3, 4, 0], tf.int64), [4, 2]), p, 3
    ),
    "tf.recall_of_sparse": lambda tf, m, y, p: tf.metrics.recall_at_k(
        tf.SparseTensor([[0, 0], [1, 0], [1, 1], [2, 0], [3, 0]], tf.constant([1, 2, 3, 4, 0], tf.int64), [4, 2]), p, 2
    ),
    "tf.precision_at_top_k": lambda tf, m, y, p: tf.metrics.precision_at_top_k(
        y, tf.to_int64(tf.nn.top_k(p, 2)[1]), class_id=2
    ),
    "tf.recall_at_top_k": lambda tf, m, y, p: tf.metrics.recall_at_top_k(y, tf.to_int64(tf.nn.top_k(p, 2)[1]), 2),
}.items():
    _add(f"metrics:{_name}", lambda tf, m, make=_make: make(tf, m, *_classes(tf)))
_add(
    "metrics:accuracy",
    lambda tf, m: [m.accuracy(tf.constant([1, 2, 3]), tf.constant([1, 0, 3]), w) for w in (None, [1.0, 2.0, 0.5])],
)
_add(
    "metrics:equal_thresholds",
    lambda tf, m: list(m.precision_recall_at_equal_thresholds(*_scores(tf), num_thresholds=6)[0]),
)

for _name, _make in {
    "absolute_difference": lambda tf, c, y, p: c.absolute_difference(p, y, _weight(tf)),
    "mean_squared_error": lambda tf, c, y, p: c.mean_squared_error(p, y),
    "log_loss": lambda tf, c, y, p: c.log_loss(p, y, 2.0),
    "hinge_loss": lambda tf, c, y, p: c.hinge_loss(p, y),
    "sigmoid_cross_entropy": lambda tf, c, y, p: c.sigmoid_cross_entropy(p, y, _weight(tf), 0.1),
    "softmax_cross_entropy": lambda tf, c, y, p: c.softmax_cross_entropy(p, tf.nn.softmax(y), [1.0, 0.0, 2.0, 1.0]),
    "sparse_softmax_cross_entropy": lambda tf, c, y, p: c.sparse_softmax_cross_entropy(p, tf.constant([0, 2, 1, 4])),
    "cosine_distance": lambda tf, c, y, p: c.cosine_distance(p, y, 1, _weight(tf)),
    "mean_pairwise_squared_error": lambda tf, c, y, p: c.mean_pairwise_squared_error(p, y),
    "mean_pairwise_squared_error_weights": lambda tf, c, y, p: c.mean_pairwise_squared_error(
        p, y, tf.constant([1.0, 0.0, 2.0, 0.5])
    ),
    "contrastive_loss": lambda tf, c, y, p: c.metric_learning.contrastive_loss(tf.constant([1, 0, 0, 1]), p, y),
    "triplet_semihard_loss": lambda tf, c, y, p: c.metric_learning.triplet_semihard_loss(
        tf.constant([1, 0, 1, 0]), tf.nn.l2_normalize(p, 1)
    ),
    "npairs_loss": lambda tf, c, y, p: c.metric_learning.npairs_loss(tf.constant([1, 0, 1, 0]), p, p + 0.1 * y),
    "lifted_struct_loss": lambda tf, c, y, p: c.metric_learning.lifted_struct_loss(tf.constant([1, 0, 1, 0]), p),
}.items():
    _add(
        f"losses:{_name}",
        lambda tf, c, make=_make: make(tf, c, *(tf.to_float(each) for each in _scores(tf))),
    )


# ----------------------------------------------------------------- layers, cells and optimizers of TensorFlow proper
def _layers(tf: Any) -> dict[str, Callable[[], Any]]:
    image, sequence, volume, rows = (given(tf, *shape) for shape in (IMAGE, SEQUENCE, VOLUME, ROWS))
    layers = tf.layers
    return {
        "dense": lambda: layers.dense(rows, 3, tf.nn.relu),
        "dense_3": lambda: layers.dense(sequence, 4, use_bias=False, name="mine"),
        "conv1d": lambda: layers.conv1d(sequence, 4, 3, strides=2, padding="same"),
        "conv2d": lambda: layers.conv2d(image, 3, [3, 2], dilation_rate=2),
        "conv3d": lambda: layers.conv3d(volume, 2, 2),
        "conv2d_transpose": lambda: layers.conv2d_transpose(image, 3, 3, 2),
        "conv3d_transpose": lambda: layers.conv3d_transpose(volume, 2, 2, 2, "same"),
        "separable_conv1d": lambda: layers.separable_conv1d(sequence, 4, 3, depth_multiplier=2),
        "separable_conv2d": lambda: layers.separable_conv2d(image, 3, 3, padding="same"),
        "batch_normalization": lambda: layers.batch_normalization(image, training=True),
        "batch_normalization_rows": lambda: layers.batch_normalization(rows, momentum=0.9, scale=False),
        "max_pooling1d": lambda: layers.max_pooling1d(sequence, 2, 2),
        "max_pooling2d": lambda: layers.max_pooling2d(image, 2, 1, "same"),
        "max_pooling3d": lambda: layers.max_pooling3d(volume, 2, 2),
        "average_pooling1d": lambda: layers.average_pooling1d(sequence, 2, 2),
        "average_pooling2d": lambda: layers.average_pooling2d(image, 2, 2),
        "average_pooling3d": lambda: layers.average_pooling3d(volume, 2, 2),
        "flatten": lambda: layers.flatten(image),
        "dropout": lambda: layers.dropout(rows, 0.3, training=False),
        "two_of_a_kind": lambda: layers.dense(layers.dense(rows, 3), 2),
        "object_called_twice": lambda: [dense(rows) for dense in [layers.Dense(3)] for _ in range(2)],
    }


_LAYER_NAMES = (
    "dense", "dense_3", "conv1d", "conv2d", "conv3d", "conv2d_transpose", "conv3d_transpose", "separable_conv1d",
    "separable_conv2d", "batch_normalization", "batch_normalization_rows",
    "max_pooling1d", "max_pooling2d", "max_pooling3d", "average_pooling1d", "average_pooling2d", "average_pooling3d",
    "flatten", "dropout", "two_of_a_kind", "object_called_twice",
)  # fmt: skip
for _name in _LAYER_NAMES:
    _add(f"tf.layers.{_name}", lambda tf, _, name=_name: _layers(tf)[name]())


@case
def layers_in_scopes(tf: Any, layers: Any) -> Any:
    """Names of layers within scopes, and of layers that are used again."""
    x = given(tf, *ROWS)
    with tf.variable_scope("outer"):
        x = tf.layers.dense(x, 4)
        with tf.variable_scope("inner"):
            x = tf.layers.dense(x, 4, name="named")
        x = tf.layers.batch_normalization(x, training=True)
    with tf.variable_scope("outer", reuse=True):
        x = tf.layers.dense(x[:, :4] * tf.ones([1, 4]), 4, name="inner/named")
    with tf.name_scope("names_do_not_matter"):
        x = tf.layers.dense(x, 2)
    return x


def _looped(tf: Any, make: Callable[[Any], Any], loop: str = "dynamic") -> Any:
    x = given(tf, *SEQUENCE)
    cell = make(tf.nn.rnn_cell)
    if loop == "static":
        outputs, state = tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)
        return [outputs[-1], *tf.nest.flatten(state)]
    outputs, state = tf.nn.dynamic_rnn(cell, x, tf.constant([7, 4]), dtype=tf.float32)
    return [outputs, *tf.nest.flatten(state)]


for _name, _make in {
    "BasicRNNCell": lambda c: c.BasicRNNCell(3),
    "GRUCell": lambda c: c.GRUCell(3),
    "BasicLSTMCell": lambda c: c.BasicLSTMCell(3, forget_bias=0.5),
    "LSTMCell": lambda c: c.LSTMCell(3, use_peepholes=True, cell_clip=0.5, num_proj=2, proj_clip=0.4),
    "LSTMCell_plain": lambda c: c.LSTMCell(3, name="mine"),
    "MultiRNNCell": lambda c: c.MultiRNNCell([c.GRUCell(3), c.BasicLSTMCell(2)]),
    "ResidualWrapper": lambda c: c.ResidualWrapper(c.GRUCell(3)),
    "DropoutWrapper": lambda c: c.DropoutWrapper(c.GRUCell(3), 1.0, 1.0),
    "DeviceWrapper": lambda c: c.DeviceWrapper(c.BasicRNNCell(3), "/cpu:0"),
}.items():
    _add(f"cells.{_name}", lambda tf, _, make=_make: _looped(tf, make))
_add("cells.static", lambda tf, _: _looped(tf, lambda c: c.MultiRNNCell([c.LSTMCell(3), c.GRUCell(2)]), "static"))
_add(
    "cells.bidirectional",
    lambda tf, _: list(
        tf.nn.bidirectional_dynamic_rnn(
            tf.nn.rnn_cell.GRUCell(2), tf.nn.rnn_cell.BasicLSTMCell(3), given(tf, *SEQUENCE), dtype=tf.float32
        )[0]
    ),
)


def _optimized(tf: Any, make: Callable[[Any], Any]) -> Any:
    w, table = tf.get_variable("w", [3]), tf.get_variable("layer/table", [4, 2])
    loss = tf.reduce_sum(tf.square(w * [1.0, -2.0, 3.0])) + tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 3, 1]) ** 2)
    step = make(tf.train).minimize(loss, global_step=tf.train.get_or_create_global_step())
    with tf.control_dependencies([step]):
        return tf.constant(1.0)


for _name, _make in {
    "GradientDescentOptimizer": lambda t: t.GradientDescentOptimizer(0.1),
    "MomentumOptimizer": lambda t: t.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "AdamOptimizer": lambda t: t.AdamOptimizer(0.1),
    "AdagradOptimizer": lambda t: t.AdagradOptimizer(0.1),
    "AdadeltaOptimizer": lambda t: t.AdadeltaOptimizer(0.1),
    "RMSPropOptimizer": lambda t: t.RMSPropOptimizer(0.1),
    "RMSPropOptimizer_centered": lambda t: t.RMSPropOptimizer(0.1, momentum=0.5, centered=True, name="Mine"),
    "FtrlOptimizer": lambda t: t.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "ProximalAdagradOptimizer": lambda t: t.ProximalAdagradOptimizer(0.1, l2_regularization_strength=0.01),
    "ProximalGradientDescentOptimizer": lambda t: t.ProximalGradientDescentOptimizer(0.1),
}.items():
    _add(f"optimizers.{_name}", lambda tf, _, make=_make: _optimized(tf, make))


@case
def moving_averages(tf: Any, _: Any) -> Any:
    """Names of averages, and what they follow."""
    w = tf.get_variable("w", [3])
    step = tf.train.get_or_create_global_step()
    average = tf.train.ExponentialMovingAverage(0.9, step, zero_debias=True)
    update = average.apply([w, tf.identity(w * 2.0, name="twice")])
    with tf.control_dependencies([update]):
        return average.average(w) + 0.0
