"""Calls of public functions by name, which run with TensorFlow 1.15 and here."""

import numpy as np

SHAPES = {
    "image": [12, 10, 3],
    "any size": [None, None, 3],
    "any image": [None, None, None],
    "batch": [4, 12, 10, 3],
    "any batch": [None, 12, 10, 3],
    "any batch of any size": [None, None, None, 3],
}


def images(tf):
    """Functions of an image, or a batch."""
    image = tf.image
    return {
        "flip_left_right": image.flip_left_right,
        "flip_up_down": image.flip_up_down,
        "random_flip_left_right": image.random_flip_left_right,
        "random_flip_up_down": lambda x: image.random_flip_up_down(x, seed=3),
        "transpose": image.transpose_image,
        "rot90": image.rot90,
        "rot90 of a tensor": lambda x: image.rot90(x, tf.placeholder(tf.int32, [])),
        "central_crop of all": lambda x: image.central_crop(x, 1.0),
        "central_crop": lambda x: image.central_crop(x, 0.5),
        "pad": lambda x: image.pad_to_bounding_box(x, 1, 2, 20, 22),
        "crop": lambda x: image.crop_to_bounding_box(x, 1, 2, 5, 4),
        "pad from a place": lambda x: image.pad_to_bounding_box(x, 1, tf.placeholder(tf.int32, []), 20, 22),
        "pad to a size": lambda x: image.pad_to_bounding_box(x, 1, 2, *(tf.placeholder(tf.int32, []) for _ in "hw")),
        "pad by tensors": lambda x: image.pad_to_bounding_box(x, *(tf.placeholder(tf.int32, []) for _ in range(4))),
        "crop from a place": lambda x: image.crop_to_bounding_box(
            x, *(tf.placeholder(tf.int32, []) for _ in "yx"), 5, 4
        ),
        "crop to a height": lambda x: image.crop_to_bounding_box(x, 1, 2, tf.placeholder(tf.int32, []), 4),
        "crop by tensors": lambda x: image.crop_to_bounding_box(x, *(tf.placeholder(tf.int32, []) for _ in range(4))),
        "crop or pad": lambda x: image.resize_image_with_crop_or_pad(x, 16, 6),
        "resize": lambda x: image.resize_images(x, [6, 7]),
        "nearest": lambda x: image.resize_images(x, [6, 7], image.ResizeMethod.NEAREST_NEIGHBOR),
        "standardization": image.per_image_standardization,
        "random_brightness": lambda x: image.random_brightness(x, 0.2),
        "random_contrast": lambda x: image.random_contrast(x, 0.5, 1.5),
        "random_hue": lambda x: image.random_hue(x, 0.1),
        "random_saturation": lambda x: image.random_saturation(x, 0.5, 1.5),
        "random_jpeg_quality": lambda x: image.random_jpeg_quality(x, 20, 90),
        "adjust_gamma": lambda x: image.adjust_gamma(x, tf.placeholder(tf.float32, [])),
        "to float32": lambda x: image.convert_image_dtype(x, tf.float32),
        "to uint8": lambda x: image.convert_image_dtype(x, tf.uint8, True),
        "grayscale": image.rgb_to_grayscale,
        "three channels": lambda x: image.grayscale_to_rgb(x[..., :1]),
        "random_crop": lambda x: tf.random_crop(x, [2, 3, 3, 3][4 - x.shape.ndims :]),
        "flip in a branch": lambda x: tf.cond(
            tf.placeholder(tf.bool, []), lambda: image.random_flip_left_right(x), lambda: x
        ),
    }


def calls(tf):
    """Functions without arguments, of all kinds."""
    feed, real = tf.placeholder, tf.float32
    layers, nn, losses = tf.layers, tf.nn, tf.losses
    cells = nn.rnn_cell
    drawn = tf.random_uniform

    def nested(x):
        return tf.cond(
            feed(tf.bool, []), lambda: tf.cond(x > 0, lambda: x * drawn([]), lambda: x), lambda: x + drawn([])
        )

    def pairs(*shape):
        return feed(tf.int32, shape), feed(tf.int32, shape)

    found = {
        "softmax of steps": lambda: nn.softmax(feed(real, [None, 5, 1]), axis=1),
        "softmax of any steps": lambda: nn.softmax(feed(real, [None, None, 4]), dim=1),
        "log_softmax of rows": lambda: nn.log_softmax(feed(real, [2, 3]), axis=0),
        "maxout": lambda: tf.contrib.layers.maxout(feed(real, [None, 6]), 3),
        "sequence_loss": lambda: tf.contrib.seq2seq.sequence_loss(
            feed(real, [None, None, 4]), feed(tf.int32, [None, None]), feed(real, [None, None])
        ),
        "sequence_loss by steps": lambda: tf.contrib.seq2seq.sequence_loss(
            feed(real, [2, 3, 4]), feed(tf.int32, [2, 3]), feed(real, [2, 3]), average_across_timesteps=False
        ),
        "confusion_matrix": lambda: tf.confusion_matrix(*pairs(None)),
        "confusion_matrix of a number": lambda: tf.confusion_matrix(*pairs(None), num_classes=3),
        "confusion_matrix with weights": lambda: tf.confusion_matrix(
            *pairs(2), num_classes=3, weights=tf.constant([0.5, 1.0])
        ),
        "mean_iou": lambda: tf.metrics.mean_iou(*pairs(None), num_classes=5),
        "mean_iou of images": lambda: tf.metrics.mean_iou(*pairs(None, 4, 4), num_classes=5),
        "mean_per_class_accuracy": lambda: tf.metrics.mean_per_class_accuracy(*pairs(None), num_classes=3),
        "auc": lambda: tf.metrics.auc(feed(tf.bool, [None, 2]), feed(real, [None, 2])),
        "auc with weights": lambda: tf.metrics.auc(
            feed(tf.bool, [None]), feed(real, [None]), weights=feed(real, [None]), curve="PR"
        ),
        "auc of known size": lambda: tf.metrics.auc(feed(tf.bool, [3]), feed(real, [3])),
        "precision_at_thresholds": lambda: tf.metrics.precision_at_thresholds(
            feed(tf.bool, [None]), feed(real, [None]), [0.5, 0.6]
        ),
        "recall_at_k": lambda: tf.metrics.recall_at_k(feed(tf.int64, [None, 1]), feed(real, [None, 4]), 2),
        "precision_at_k": lambda: tf.metrics.precision_at_k(feed(tf.int64, [None, 1]), feed(real, [None, 4]), 2),
        "cond": lambda: tf.cond(feed(tf.bool, []), lambda: drawn([]), lambda: drawn([]) + 1.0),
        "cond in cond": lambda: nested(feed(real, [])),
        "cond of operations": lambda: tf.cond(feed(tf.bool, []), tf.no_op, tf.no_op),
        "while_loop": lambda: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + drawn([])), [0, 0.0]),
        "while_loop with a limit": lambda: tf.while_loop(
            lambda a: a < 3.0, lambda a: a + drawn([]), [0.0], maximum_iterations=5
        ),
        "while_loop that captures": lambda: (
            lambda x: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, x])
        )(feed(real, [3])),
        "lstm": lambda: nn.dynamic_rnn(cells.LSTMCell(4), feed(real, [2, 5, 3]), dtype=real),
        "gru": lambda: nn.dynamic_rnn(cells.GRUCell(4), feed(real, [None, 5, 3]), dtype=real),
        "lstm of any steps": lambda: nn.dynamic_rnn(cells.LSTMCell(4), feed(real, [None, None, 3]), dtype=real),
        "gru of any steps of a known batch": lambda: nn.dynamic_rnn(
            cells.GRUCell(4), feed(real, [2, None, 3]), dtype=real
        ),
        "dropout of any steps, lengths": lambda: nn.dynamic_rnn(
            cells.DropoutWrapper(cells.BasicRNNCell(4), output_keep_prob=0.5),
            feed(real, [None, None, 3]),
            feed(tf.int32, [None]),
            dtype=real,
        ),
        "both directions of any steps": lambda: nn.bidirectional_dynamic_rnn(
            cells.GRUCell(4), cells.GRUCell(4), feed(real, [None, None, 3]), feed(tf.int32, [None]), dtype=real
        ),
        "time-major lstm": lambda: nn.dynamic_rnn(
            cells.LSTMCell(4), feed(real, [5, None, 3]), dtype=real, time_major=True
        ),
        "bidirectional": lambda: nn.bidirectional_dynamic_rnn(
            cells.GRUCell(4), cells.GRUCell(4), feed(real, [None, 5, 3]), dtype=real
        ),
        "decode_image": lambda: tf.image.decode_image(feed(tf.string, []), 3, tf.float32),
        "conv3d": lambda: layers.conv3d(feed(real, [None, 8, 8, 8, 3]), 3, 3),
        "conv3d_transpose": lambda: layers.conv3d_transpose(feed(real, [2, 8, 8, 8, 3]), 3, 3, 2),
        "conv1d": lambda: layers.conv1d(feed(real, [None, 8, 3]), 3, 3),
        "separable_conv1d": lambda: layers.separable_conv1d(feed(real, [None, 8, 3]), 3, 3),
        "dense of sequences": lambda: layers.dense(feed(real, [None, 8, 3]), 3),
        "dense with a loss of activities": lambda: layers.dense(
            feed(real, [4, 6]), 3, nn.softmax, activity_regularizer=tf.reduce_sum
        ),
        "fused_batch_norm": lambda: nn.fused_batch_norm(feed(real, [4, 8, 8, 3]), feed(real, [3]), feed(real, [3])),
    }
    phases = {
        "training": lambda: True,
        "inference": lambda: False,
        "fed": lambda: tf.placeholder_with_default(True, []),
    }
    for kind, size in {"": 4, "any ": None}.items():

        def table(size=size):
            return feed(real, [size, 6])

        def pictures(size=size):
            return feed(real, [size, 8, 8, 3])

        found.update(
            {
                kind + "dense": lambda x=table: layers.dense(x(), 3, nn.relu),
                kind + "flatten": lambda x=pictures: layers.flatten(x()),
                kind + "conv2d": lambda x=pictures: layers.conv2d(x(), 3, 3, activation=nn.relu),
                kind + "dilated conv2d": lambda x=pictures: layers.conv2d(x(), 3, 3, dilation_rate=2),
                kind + "conv2d_transpose": lambda x=pictures: layers.conv2d_transpose(x(), 3, 3, 2, padding="same"),
                kind + "separable_conv2d": lambda x=pictures: layers.separable_conv2d(x(), 3, 3),
                kind + "dense of pictures": lambda x=pictures: layers.dense(x(), 2),
                kind + "nn.dropout": lambda x=table: nn.dropout(x(), 0.5),
                kind + "nn.dropout by a rate": lambda x=table: nn.dropout(x(), rate=0.3),
                kind + "nn.dropout by a tensor": lambda x=table: nn.dropout(x(), feed(real, [])),
                kind + "nn.dropout of rows": lambda x=table: nn.dropout(x(), 0.5, noise_shape=[1, 6]),
                kind + "cross entropy": lambda x=table: nn.softmax_cross_entropy_with_logits(labels=x(), logits=x()),
                kind + "atrous_conv2d": lambda x=pictures: nn.atrous_conv2d(x(), feed(real, [3, 3, 3, 4]), 2, "SAME"),
                kind + "depthwise_conv2d": lambda x=pictures: nn.depthwise_conv2d(
                    x(), feed(real, [3, 3, 3, 2]), [1, 1, 1, 1], "SAME"
                ),
                kind + "absolute_difference": lambda x=table: losses.absolute_difference(x(), x()),
                kind + "hinge_loss": lambda x=table: losses.hinge_loss(x(), x()),
                kind + "huber_loss": lambda x=table: losses.huber_loss(x(), x()),
                kind + "log_loss": lambda x=table: losses.log_loss(x(), x()),
                kind + "pairwise error": lambda x=table: losses.mean_pairwise_squared_error(x(), x()),
                kind + "sigmoid_cross_entropy": lambda x=table: losses.sigmoid_cross_entropy(
                    x(), x(), label_smoothing=0.1
                ),
                kind + "softmax_cross_entropy": lambda x=table: losses.softmax_cross_entropy(x(), x()),
                kind + "sparse cross entropy": lambda x=table: losses.sparse_softmax_cross_entropy(
                    tf.argmax(x(), 1), x()
                ),
            }
        )
        for reduction in losses.Reduction.all():
            found[kind + "error " + reduction] = lambda x=table, r=reduction: losses.mean_squared_error(
                x(), x(), reduction=r
            )
        for phase, training in phases.items():
            found.update(
                {
                    kind + "dropout " + phase: lambda x=table, t=training: layers.dropout(x(), 0.4, training=t()),
                    kind + "norm " + phase: lambda x=table, t=training: layers.batch_normalization(x(), training=t()),
                    kind + "fused norm " + phase: lambda x=pictures, t=training: layers.batch_normalization(
                        x(), training=t()
                    ),
                }
            )
    return found


def loops(tf):
    """Gradients through loops and conditionals, and arrays in loops."""
    feed, real, cells = tf.placeholder, tf.float32, tf.nn.rnn_cell

    def variable():
        return tf.get_variable("v", [3])

    def through(step, size=2):
        """The gradient of a loop of `step`."""
        x = feed(real, [size, 3])
        return tf.gradients(tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, step(a)), [0, x])[1], x)

    def with_variable(step):
        x, v = feed(real, [3]), variable()
        return tf.gradients(tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, step(a, v)), [0, x])[1], [x, v])

    def arrays(differentiate):
        x = feed(real, [5, 3])
        read, written = tf.TensorArray(real, 5).unstack(x), tf.TensorArray(real, 5)
        _, written = tf.while_loop(
            lambda i, a: i < 5, lambda i, a: (i + 1, a.write(i, read.read(i) * 2.0)), [0, written]
        )
        stacked = written.stack()
        return tf.gradients(stacked, x) if differentiate else stacked

    def network(kind, size=2, lengths=False, final=False):
        x = feed(real, [size, 5, 3])
        outputs, state = tf.nn.dynamic_rnn(
            kind(4), x, dtype=real, sequence_length=feed(tf.int32, [size]) if lengths else None
        )
        return tf.gradients(state if final else outputs, tf.trainable_variables())

    def chosen(first, second):
        x, v = feed(real, [3]), variable()
        return tf.gradients(tf.cond(feed(tf.bool, []), lambda: first(x, v), lambda: second(x, v)), [x, v])

    def normalized(*shape):
        layer = tf.layers.batch_normalization(feed(real, shape), training=feed(tf.bool, []))
        return tf.gradients(layer, tf.trainable_variables())

    def folded(function):
        x = feed(real, [5, 3])
        return tf.gradients(function(x), x)

    steps = {
        "mul": lambda a: a * 2.0,
        "square": tf.square,
        "product": lambda a: a * a,
        "sigmoid": tf.sigmoid,
        "softmax": tf.nn.softmax,
        "concat": lambda a: tf.concat([a[:, 1:], a[:, :1]], 1),
        "where": lambda a: tf.where(a > 0, a, a * 2),
        "gather": lambda a: tf.gather(a, [2, 1, 0], axis=1),
        "reshape": lambda a: tf.reshape(tf.reshape(a, [-1]), tf.shape(a)),
        "maximum": lambda a: tf.maximum(a, 0.0),
        "quotient": lambda a: a / 2.0,
        "transpose": lambda a: tf.transpose(tf.transpose(a)),
        "split": lambda a: tf.concat(tf.split(a, 3, 1), 1),
        "pad": lambda a: tf.pad(a[:, :2], [[0, 0], [0, 1]]),
        "tile": lambda a: tf.tile(a[:, :1], [1, 3]),
        "squeeze": lambda a: tf.squeeze(tf.expand_dims(a, 0), 0),
        "branch": lambda a: tf.cond(a[0, 0] < 2, lambda: a * 2.0, lambda: a),
        "inner loop": lambda a: tf.while_loop(lambda j, b: j < 3, lambda j, b: (j + 1, b * 2.0), [0, a])[1],
    }

    def held():
        return tf.TensorArray(real, 2)

    def product(first, second, axes):
        return tf.tensordot(feed(real, first), feed(real, second), axes)

    found = {
        "tensordot": lambda: product([2, 5, 3], [3, 4], 1),
        "tensordot of the first dimensions": lambda: product([3, 2], [3, 4], [[0], [0]]),
        "tensordot of two dimensions": lambda: product([2, 3, 4], [4, 3, 5], [[1, 2], [1, 0]]),
        "one_hot": lambda: tf.one_hot(feed(tf.int32, [4]), 4),
        "one_hot of a value": lambda: tf.one_hot(feed(tf.int32, [4]), 4, 2.0),
        "one_hot of values": lambda: tf.one_hot(feed(tf.int32, [4]), 4, 1.0, 0.0),
        "gathered array": lambda: held().write(0, 1.0).gather([0]),
        "joined array": lambda: held().write(0, [1.0]).concat(),
        "split array": lambda: held().split(feed(real, [4, 3]), [1, 3]),
        "arrays in a loop": lambda: arrays(False),
        "gradient of arrays in a loop": lambda: arrays(True),
        "gradient of a loop, variable": lambda: with_variable(lambda a, v: a * v),
        "gradient of a loop, bias": lambda: with_variable(lambda a, v: tf.tanh(a) + v),
        "gradient of cond": lambda: chosen(lambda x, v: x * v, lambda x, v: x),
        "gradient of cond, variable": lambda: chosen(lambda x, v: x * v, lambda x, v: v),
        "gradient of cond, norm": lambda: normalized(2, 3),
        "gradient of cond, fused norm": lambda: normalized(2, 4, 4, 3),
        "gradient of map_fn": lambda: folded(lambda x: tf.map_fn(lambda row: row * 2.0, x)),
        "gradient of scan": lambda: folded(lambda x: tf.scan(lambda a, row: a * row, x)),
        "gradient of foldl": lambda: folded(lambda x: tf.foldl(lambda a, row: a * row, x)),
    }
    for name, step in steps.items():
        found["gradient of a loop, " + name] = lambda f=step: through(f)
        if name not in ("branch", "inner loop"):
            found["gradient of a loop, any " + name] = lambda f=step: through(f, None)
    for kind in (cells.LSTMCell, cells.GRUCell, cells.BasicRNNCell):
        for size in (2, None):
            for lengths in (False, True):
                name = f"gradient of {kind.__name__}, {size or 'any'}{', lengths' * lengths}"
                found[name] = lambda k=kind, s=size, n=lengths: network(k, s, n)
    found["gradient of a final state"] = lambda: network(cells.LSTMCell, final=True)
    return found


def reductions(tf):
    """Functions that reduce, or take rows of, what is not a tensor yet."""
    values = {
        "a variable": lambda: tf.get_variable("v", [3, 2]),
        "a resource": lambda: tf.get_variable("v", [3, 2], use_resource=True),
        "a list": lambda: [[1.0, 2.0], [3.0, 4.0]],
        "a list of tensors": lambda: [tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])],
        "an array": lambda: np.ones([3, 2], np.float32),
        "a number": lambda: 3.0,
        "a tensor": lambda: tf.placeholder(tf.float32, [3, 2]),
        "any tensor": lambda: tf.placeholder(tf.float32, None),
    }
    functions = {
        "reduce_sum": tf.reduce_sum,
        "reduce_mean": tf.reduce_mean,
        "reduce_max, kept": lambda x: tf.reduce_max(x, keepdims=True),
        "reduce_sum of an axis": lambda x: tf.reduce_sum(x, -1),
        "reduce_logsumexp": tf.reduce_logsumexp,
        "count_nonzero": tf.count_nonzero,
        "reduce_euclidean_norm": tf.math.reduce_euclidean_norm,
        "reduce_variance": tf.math.reduce_variance,
        "reduce_std": tf.math.reduce_std,
        "norm": tf.norm,
        "norm of order 1": lambda x: tf.norm(x, 1),
    }
    size = lambda: tf.placeholder(tf.int32, [])  # noqa: E731
    sizes = {
        "one": lambda: [size()],
        "a tensor and numbers": lambda: [size(), 3, 4],
        "numbers and a tensor": lambda: (3, 4, size()),
        "two tensors": lambda: [size(), size()],
        "a vector": lambda: tf.stack([size(), 3]),
    }
    found = {
        f"{name} of {kind}": lambda f=function, v=value: f(v())
        for name, function in functions.items()
        for kind, value in values.items()
        if not ("an axis" in name and kind == "a number")
    }
    for kind, given in sizes.items():
        found[f"zeros of sizes: {kind}"] = lambda g=given: tf.zeros(g())
        found[f"ones of sizes: {kind}"] = lambda g=given: tf.ones(g())
    for kind in ("a variable", "a resource", "a tensor"):
        found[f"gather of {kind}"] = lambda v=values[kind]: tf.gather(v(), [0, 1])
        found[f"embedding_lookup of {kind}"] = lambda v=values[kind]: tf.nn.embedding_lookup(v(), [0, 1])
    return found


def cells(tf):
    """Recurrent layers of cells that make variables and draw inside of a loop."""
    core, rnn = tf.nn.rnn_cell, tf.contrib.rnn
    made = {
        "UGRNNCell": lambda: rnn.UGRNNCell(3),
        "LayerNormBasicLSTMCell": lambda: rnn.LayerNormBasicLSTMCell(3),
        "LayerNormBasicLSTMCell with dropout": lambda: rnn.LayerNormBasicLSTMCell(3, dropout_keep_prob=0.5),
        "AttentionCellWrapper of a GRU": lambda: rnn.AttentionCellWrapper(core.GRUCell(3), 2),
        "AttentionCellWrapper of an LSTM": lambda: rnn.AttentionCellWrapper(core.LSTMCell(3), 2),
        "variational dropout": lambda: core.DropoutWrapper(
            core.GRUCell(3), 0.5, 0.6, 0.7, variational_recurrent=True, dtype=tf.float32, input_size=4
        ),
        "variational dropout of an LSTM's output": lambda: core.DropoutWrapper(
            core.LSTMCell(3), output_keep_prob=0.7, variational_recurrent=True, dtype=tf.float32
        ),
    }

    def layer(make, batch):
        return lambda: tf.nn.dynamic_rnn(make(), tf.placeholder(tf.float32, [batch, 3, 4]), dtype=tf.float32)

    def embedded(batch):
        ids = tf.placeholder(tf.int32, [batch, 3, 1])
        return tf.nn.dynamic_rnn(rnn.EmbeddingWrapper(core.GRUCell(3), 5, 4), ids, dtype=tf.float32)

    found = {}
    for batch in (2, None):
        for name, make in made.items():
            found[f"{name}, {batch or 'any'}"] = layer(make, batch)
        found[f"EmbeddingWrapper, {batch or 'any'}"] = lambda b=batch: embedded(b)
    return found


def decoders(tf):
    """Decoders with and without attention, of a known batch and of any."""
    seq2seq = tf.contrib.seq2seq

    def run(helper, attention, batch, time, state=None):
        with tf.variable_scope("model"):
            inputs = tf.placeholder(tf.float32, [batch, time, 4])
            lengths, wanted = tf.placeholder(tf.int32, [batch]), tf.placeholder(tf.int32, [batch])
            table = tf.get_variable("table", [6, 4])
            cell = tf.nn.rnn_cell.GRUCell(4)
            rows = batch or tf.shape(inputs)[0]
            if attention is not None:
                cell = seq2seq.AttentionWrapper(cell, attention(inputs, lengths), attention_layer_size=5)
            decoder = seq2seq.BasicDecoder(
                cell,
                helper(inputs, wanted, table, rows),
                cell.zero_state(rows, tf.float32),
                tf.layers.Dense(6, use_bias=False),
            )
            outputs, _, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=state)
            tf.random_uniform([2])
            return outputs

    helpers = {
        "training": lambda x, n, table, rows: seq2seq.TrainingHelper(x, n),
        "greedy": lambda x, n, table, rows: seq2seq.GreedyEmbeddingHelper(table, tf.fill([rows], 1), 2),
        "sampled": lambda x, n, table, rows: seq2seq.SampleEmbeddingHelper(table, tf.fill([rows], 1), 2),
    }
    attentions = {
        "no attention": None,
        "Bahdanau": lambda x, n: seq2seq.BahdanauAttention(4, x),
        "Bahdanau with lengths": lambda x, n: seq2seq.BahdanauAttention(4, x, n),
        "Luong": lambda x, n: seq2seq.LuongAttention(4, x),
        "scaled Luong with lengths": lambda x, n: seq2seq.LuongAttention(4, x, n, scale=True),
        "normalized Bahdanau with lengths": lambda x, n: seq2seq.BahdanauAttention(4, x, n, normalize=True),
    }
    found = {}
    for kind, helper in helpers.items():
        for name, attention in attentions.items():
            for batch, time in ((2, 3), (None, None)):
                for limit in (None, 4):
                    found[f"{kind} decoder, {name}, {batch or 'any'}, {limit}"] = (
                        lambda h=helper, a=attention, b=batch, t=time, m=limit: run(h, a, b, t, m)
                    )
    return found


def samples(tf):
    """Samples of distributions whose parameters are of a known size, and of any."""
    plain, more = tf.distributions, tf.contrib.distributions

    def given(*shape):
        return tf.placeholder(tf.float32, shape)

    makers = {
        "MultivariateNormalDiag": lambda b: more.MultivariateNormalDiag(given(*b, 3), given(*b, 3)),
        "MultivariateNormalDiag of one scale": lambda b: more.MultivariateNormalDiag(given(*b, 3), given(3)),
        "MultivariateNormalDiag without a mean": lambda b: more.MultivariateNormalDiag(scale_diag=given(*b, 3)),
        "MultivariateNormalTriL": lambda b: more.MultivariateNormalTriL(given(*b, 3), given(*b, 3, 3)),
        "Exponential": lambda b: plain.Exponential(given(*b, 3)),
        "Bernoulli of probabilities": lambda b: plain.Bernoulli(probs=given(*b, 3)),
        "Geometric of probabilities": lambda b: more.Geometric(probs=given(*b, 3)),
        "Geometric": lambda b: more.Geometric(logits=given(*b, 3)),
        "HalfNormal": lambda b: more.HalfNormal(given(*b, 3)),
        "Poisson": lambda b: more.Poisson(given(*b, 3)),
        "Poisson of logarithms": lambda b: more.Poisson(log_rate=given(*b, 3)),
        "Logistic": lambda b: more.Logistic(given(*b, 3), given(*b, 3)),
        "Cauchy": lambda b: more.Cauchy(given(*b, 3), given(*b, 3)),
        "Chi2": lambda b: more.Chi2(given(*b, 3)),
        "OneHotCategorical": lambda b: more.OneHotCategorical(logits=given(*b, 3)),
    }
    found = {}
    for name, make in makers.items():
        for batch in ((), (None,)):
            for shape in ((), 2, [2, 3]):
                found[f"sample of {name}{', any' * bool(batch)}, {shape}"] = lambda m=make, b=batch, s=shape: m(
                    b
                ).sample(s)
    return found


def samples_of_samples(tf):
    """Samples that are functions of others', counts and mixtures: two from each, so that both their parts count."""
    plain, contrib = tf.distributions, tf.contrib.distributions
    logits = {"known": [2, 3], "of any batch": [None, 3]}
    kinds = {
        "relaxed one-hot": lambda x: contrib.RelaxedOneHotCategorical(0.5, logits=x),
        "relaxed one-hot of probabilities": lambda x: contrib.RelaxedOneHotCategorical(0.5, probs=tf.nn.softmax(x)),
        "its logarithm": lambda x: contrib.ExpRelaxedOneHotCategorical(0.5, logits=x),
        "relaxed bernoulli": lambda x: contrib.RelaxedBernoulli(0.5, logits=x),
        "exponential of a normal": lambda x: contrib.TransformedDistribution(
            plain.Normal(x, 1.0), contrib.bijectors.Exp()
        ),
        "multinomial": lambda x: plain.Multinomial(4.0, logits=x),
        "multinomial of probabilities": lambda x: plain.Multinomial(4.0, probs=tf.nn.softmax(x)),
        "mixture": lambda x: contrib.MixtureSameFamily(plain.Categorical(logits=x), plain.Normal(x, 1.0)),
    }

    def twice(make, shape):
        def function():
            distribution = make(tf.placeholder(tf.float32, shape))
            return distribution.sample(), distribution.sample(2)

        return function

    return {
        f"{name}, logits {which}": twice(make, shape) for name, make in kinds.items() for which, shape in logits.items()
    }


def models(tf):
    """Models of `tf.keras`: a layer or some, and one with weights behind them."""
    keras, layers = tf.keras, tf.keras.layers
    flat, steps, image = {"input_shape": (4,)}, {"input_shape": (3, 4)}, {"input_shape": (6, 6, 2)}
    any_length = {"input_shape": (None, 4)}

    def dense():
        return layers.Dense(3, **flat)

    rows = {
        "dense": lambda: [dense()],
        "dense of steps, flat": lambda: [layers.Dense(3, **steps), layers.Flatten()],
        "flat batch of known size": lambda: [layers.Flatten(batch_input_shape=(2, 3, 4))],
        "dropout": lambda: [dense(), layers.Dropout(0.5)],
        "batch normalization": lambda: [dense(), layers.BatchNormalization()],
        "batch normalization without scale": lambda: [dense(), layers.BatchNormalization(scale=False)],
        "batch normalization of images": lambda: [
            layers.Conv2D(3, 3, **image),
            layers.BatchNormalization(),
            layers.Flatten(),
        ],
        "layer normalization": lambda: [dense(), layers.LayerNormalization()],
        "prelu": lambda: [dense(), layers.PReLU()],
        "noise": lambda: [dense(), layers.GaussianNoise(0.1), layers.GaussianDropout(0.1)],
        "dropout of features": lambda: [layers.SpatialDropout1D(0.2, **steps), layers.Flatten()],
        "dropout of channels": lambda: [layers.SpatialDropout2D(0.2, **image), layers.Flatten()],
        "convolution, pool": lambda: [layers.Conv2D(3, 3, **image), layers.MaxPooling2D(), layers.Flatten()],
        "transposed convolution": lambda: [layers.Conv2DTranspose(2, 3, strides=2, **image), layers.Flatten()],
        "each step": lambda: [layers.TimeDistributed(layers.Dense(3), **steps), layers.Flatten()],
        "each step of any number": lambda: [
            layers.TimeDistributed(layers.Conv2D(2, 3), input_shape=(None, 6, 6, 1)),
            layers.TimeDistributed(layers.Flatten()),
            layers.LSTM(2),
        ],
        "lstm": lambda: [layers.LSTM(3, **steps)],
        "lstm of any length": lambda: [layers.LSTM(3, **any_length)],
        "lstm of a batch of known size": lambda: [layers.LSTM(3, batch_input_shape=(2, 3, 4))],
        "lstm without bias": lambda: [layers.LSTM(3, use_bias=False, **steps)],
        "lstm with sigmoid": lambda: [layers.LSTM(3, recurrent_activation="sigmoid", activation="relu", **steps)],
        "lstm in one product": lambda: [layers.LSTM(3, implementation=2, **steps)],
        "lstm backwards": lambda: [layers.LSTM(3, go_backwards=True, **steps)],
        "lstm with dropout": lambda: [layers.LSTM(3, dropout=0.2, **steps)],
        "lstm with both dropouts": lambda: [layers.LSTM(3, dropout=0.2, recurrent_dropout=0.2, **steps)],
        "lstm written out": lambda: [layers.LSTM(3, unroll=True, **steps)],
        "lstm that keeps its state": lambda: [layers.LSTM(3, stateful=True, batch_input_shape=(2, 3, 4))],
        "two lstm": lambda: [layers.LSTM(3, return_sequences=True, **steps), layers.LSTM(2)],
        "encoder, decoder": lambda: [
            layers.LSTM(3, **steps),
            layers.RepeatVector(4),
            layers.LSTM(3, return_sequences=True),
            layers.TimeDistributed(layers.Dense(2)),
        ],
        "gru": lambda: [layers.GRU(3, **steps)],
        "gru with reset after": lambda: [layers.GRU(3, reset_after=True, **steps)],
        "gru with dropout": lambda: [layers.GRU(3, dropout=0.2, **steps)],
        "gru written out": lambda: [layers.GRU(3, unroll=True, input_shape=(4, 4))],
        "gru that keeps its state": lambda: [layers.GRU(3, stateful=True, batch_input_shape=(2, 3, 4))],
        "simple": lambda: [layers.SimpleRNN(3, **steps)],
        "simple with dropout": lambda: [layers.SimpleRNN(3, recurrent_dropout=0.2, **steps)],
        "both directions": lambda: [layers.Bidirectional(layers.LSTM(3), **steps)],
        "masked lstm": lambda: [layers.Masking(**steps), layers.LSTM(2)],
        "words, masked": lambda: [layers.Embedding(5, 3, mask_zero=True), layers.GRU(3, return_sequences=True)],
        "words of a number, masked": lambda: [
            layers.Embedding(5, 3, mask_zero=True, input_length=3),
            layers.LSTM(3),
        ],
        "words, both directions": lambda: [
            layers.Embedding(5, 3),
            layers.SpatialDropout1D(0.2),
            layers.Bidirectional(layers.LSTM(3)),
            layers.Dropout(0.5),
        ],
    }

    def model(make):
        return lambda: keras.Sequential([*make(), layers.Dense(2)]) and None

    return {f"model: {name}": model(make) for name, make in rows.items()}


def cases(tf):
    """All of them."""
    found = {
        **calls(tf),
        **loops(tf),
        **reductions(tf),
        **cells(tf),
        **decoders(tf),
        **samples(tf),
        **samples_of_samples(tf),
        **models(tf),
    }
    for name, function in images(tf).items():
        for shape_name, shape in SHAPES.items():
            for kind in (tf.float32, tf.uint8):
                few = ["flip" in name, kind is tf.float32 and "jpeg" not in name]
                if "batch" in shape_name and not any(few):
                    continue
                found[f"{name}, {kind.name} {shape_name}"] = lambda f=function, k=kind, s=shape: f(tf.placeholder(k, s))
    return found


def counted(tf, function):
    """The number of operations behind a call in a graph with a seed, and the seeds of the random ones."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(7)
        np.random.seed(7)  # seeds of some layers come from there
        function()
        seeds = [op.get_attr("seed2") for op in graph.get_operations() if "seed2" in op.node_def.attr]
        return [graph._last_id, seeds]
