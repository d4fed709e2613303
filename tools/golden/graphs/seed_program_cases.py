"""Programs of one statement a line, and how far default seeds move in each: the operations that it counts as."""

from __future__ import annotations

from typing import Any

import numpy as np

SHAPES = {
    "known": {"a": "[3, 4]", "b": "[3, 4]", "row": "[4]", "one": "[]", "column": "[3, 1]", "cube": "[2, 3, 4]"},
    "batches": {
        "a": "[None, 4]",
        "b": "[None, 4]",
        "row": "[None]",
        "one": "[]",
        "column": "[None, 1]",
        "cube": "[None, 3, 4]",
    },
    "unknown": dict.fromkeys(("a", "b", "row", "one", "column", "cube"), "None"),
}

GRADIENTS = """\
tf.gradients(a + b, [a, b], gate_gradients=True)
tf.gradients(a + row, [a, row])
tf.gradients(tf.add(a, one), [a, one], gate_gradients=True)
tf.gradients(column + b, [column, b])
tf.gradients(a - b, [a, b])
tf.gradients(one - b, [one, b], gate_gradients=True)
tf.gradients(a * b, [a, b])
tf.gradients(a * one, [a, one], gate_gradients=True)
tf.gradients(one * a, [a, one])
tf.gradients(a / b, [a, b])
tf.gradients(a / one, [a, one])
tf.gradients(tf.div_no_nan(a, b), [a, b])
tf.gradients(tf.pow(a, b), [a, b])
tf.gradients(a ** 2, a)
tf.gradients(tf.maximum(a, row), [a, row], gate_gradients=True)
tf.gradients(tf.minimum(a, 0.5), a)
tf.gradients(tf.squared_difference(a, b), [a, b])
tf.gradients(tf.squared_difference(a, one), [a, one])
tf.gradients(tf.where(a > b, a, b), [a, b])
tf.gradients(tf.where_v2(a > row, a, row), [a, row])
tf.gradients(tf.floormod(a, b), [a, b])
tf.gradients(tf.math.xlogy(a, b), [a, b])
tf.gradients(tf.math.xdivy(a, b), [a, b])
tf.gradients(tf.igamma(a, b), [a, b])
tf.gradients(tf.zeta(a, b), [a, b])
tf.gradients(tf.polygamma(a, b), [a, b])
tf.gradients(tf.complex(a, b), [a, b], grad_ys=tf.complex(a, b))
tf.gradients(tf.sign(a), a)
tf.gradients(tf.nn.softplus(a), a)
tf.gradients(tf.math.bessel_i1e(a), a)
tf.gradients(tf.exp(tf.log(tf.tanh(a))), a)
tf.gradients(tf.sigmoid(tf.sqrt(tf.square(a))), a)
tf.gradients(tf.reduce_sum(a), a)
tf.gradients(tf.reduce_sum(a, 1), a)
tf.gradients(tf.reduce_sum(a, 1), a)
tf.gradients(tf.reduce_sum(a, [0], keepdims=True), a)
tf.gradients(tf.reduce_mean(a), a)
tf.gradients(tf.reduce_mean(cube, [1, 2]), cube)
tf.gradients(tf.reduce_max(a, 1), a)
tf.gradients(tf.reduce_prod(a, 1), a)
tf.gradients(tf.reduce_logsumexp(a, 1), a)
tf.gradients(tf.norm(a, axis=1), a)
tf.gradients(tf.nn.l2_normalize(a, 1), a)
tf.gradients(tf.matmul(a, b, transpose_b=True), [a, b], gate_gradients=True)
tf.gradients(tf.matmul(cube, cube, transpose_b=True), cube)
tf.gradients(tf.concat([a, b], 1), [a, b])
tf.gradients(tf.concat([a] * 17, 0), a)
tf.gradients(tf.stack([a, b], 1), [a, b])
tf.gradients(tf.slice(a, [0, 1], [2, 2]), a)
tf.gradients(a[1:, ::2], a)
tf.gradients(tf.reshape(a, [-1]), a)
tf.gradients(tf.expand_dims(a, 1), a)
tf.gradients(tf.transpose(a), a)
tf.gradients(tf.tile(a, [2, 1]), a)
tf.gradients(tf.pad(a, [[1, 1], [0, 2]]), a)
tf.gradients(tf.gather(a, [[0, 2]]), a)
tf.gradients(tf.gather(a, [0, 2], axis=1), a)
tf.gradients(tf.segment_mean(a, [0, 0, 1]), a)
tf.gradients(tf.segment_max(a, [0, 0, 1]), a)
tf.gradients(tf.nn.top_k(a, 2)[0], a, gate_gradients=True)
tf.gradients(tf.broadcast_to(column, [3, 4]), column)
tf.gradients(tf.nn.bias_add(a, row), [a, row])
tf.gradients(tf.nn.softmax_cross_entropy_with_logits(labels=tf.ones([3, 4]), logits=a), a)
tf.gradients(tf.nn.sigmoid_cross_entropy_with_logits(labels=b, logits=a), [a, b])
tf.gradients(tf.clip_by_value(a, -1.0, 1.0), a)
tf.gradients(tf.nn.moments(a, [0]), a)
"""

PROGRAMS = {
    "perceptron": """\
x, y = tf.placeholder(tf.float32, [None, 8]), tf.placeholder(tf.int64, [None])
h = tf.layers.dense(tf.layers.dense(x, 16, tf.nn.relu), 16, tf.nn.tanh)
o = tf.layers.dense(h, 3)
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=o))
tf.train.GradientDescentOptimizer(0.1).minimize(loss)
tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
tf.train.AdamOptimizer(0.1).minimize(loss)
tf.train.RMSPropOptimizer(0.1).minimize(loss)
tf.train.AdagradOptimizer(0.1).minimize(loss)
tf.train.AdadeltaOptimizer(0.1).minimize(loss)
tf.train.FtrlOptimizer(0.1).minimize(loss)
tf.train.ProximalGradientDescentOptimizer(0.1).minimize(loss)
tf.train.ProximalAdagradOptimizer(0.1).minimize(loss)
step = tf.train.get_or_create_global_step()
tf.train.AdagradDAOptimizer(0.1, step).minimize(loss)
optimizer = tf.train.AdamOptimizer(tf.train.exponential_decay(0.1, step, 10, 0.5, staircase=True))
pairs = optimizer.compute_gradients(loss)
clipped = [(tf.clip_by_value(g, -1.0, 1.0), v) for g, v in pairs]
tf.clip_by_global_norm([g for g, v in pairs], 5.0)
tf.clip_by_norm(pairs[0][0], 1.0)
tf.clip_by_average_norm(pairs[0][0], 1.0)
optimizer.apply_gradients(clipped, step)
average = tf.train.ExponentialMovingAverage(0.99, step)
average.apply(tf.trainable_variables())
tf.train.ExponentialMovingAverage(0.99, zero_debias=True).apply([loss])
tf.train.Saver()
tf.global_variables_initializer()
tf.summary.scalar('loss', loss)
""",
    "decays": """\
s = tf.train.get_or_create_global_step()
tf.train.piecewise_constant(s, [10], [0.1, 0.2])
tf.train.piecewise_constant(s, [10, 20], [0.1, 0.2, 0.3])
tf.train.piecewise_constant(s, [10, 20, 30], [0.1, 0.2, 0.3, 0.4])
tf.train.polynomial_decay(0.1, s, 10)
tf.train.polynomial_decay(0.1, s, 10, cycle=True)
tf.train.natural_exp_decay(0.1, s, 10, 0.5)
tf.train.inverse_time_decay(0.1, s, 10, 0.5)
tf.train.cosine_decay(0.1, s, 10)
tf.train.cosine_decay_restarts(0.1, s, 10)
tf.train.linear_cosine_decay(0.1, s, 10)
""",
    "convolutions": """\
x, y = tf.placeholder(tf.float32, [None, 28, 28, 1]), tf.placeholder(tf.float32, [None, 10])
w = tf.Variable(tf.truncated_normal([5, 5, 1, 8], stddev=0.1))
b = tf.Variable(tf.constant(0.1, shape=[8]))
h = tf.nn.lrn(tf.nn.max_pool(tf.nn.relu(tf.nn.conv2d(x, w, [1] * 4, 'SAME') + b), [1, 2, 2, 1], [1, 2, 2, 1], 'SAME'))
h = tf.nn.avg_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], 'SAME')
f = tf.nn.dropout(tf.reshape(h, [-1, 7 * 7 * 8]), tf.placeholder(tf.float32))
o = tf.matmul(f, tf.Variable(tf.random_normal([392, 10]))) + tf.Variable(tf.zeros([10]))
loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=o)) + 0.01 * tf.nn.l2_loss(w)
tf.train.AdamOptimizer(1e-3).minimize(loss)
p = tf.nn.softmax(o)
tf.train.GradientDescentOptimizer(1e-3).minimize(-tf.reduce_sum(y * tf.log(p)))
e = tf.reduce_mean(-tf.reduce_sum(y * tf.log(tf.clip_by_value(p, 1e-10, 1.0)), reduction_indices=[1]))
tf.train.GradientDescentOptimizer(1e-3).minimize(e)
tf.random_uniform([3])
""",
    "layers": """\
x = tf.placeholder(tf.float32, [None, 16, 16, 3])
h = tf.layers.conv2d(x, 4, 3, strides=2, padding='same', activation=tf.nn.elu)
h = tf.layers.max_pooling2d(tf.layers.batch_normalization(h, training=True), 2, 2)
h = tf.layers.separable_conv2d(h, 5, 2, depth_multiplier=2, padding='same')
h = tf.layers.average_pooling2d(tf.layers.conv2d_transpose(h, 2, 3, 2, padding='same'), 2, 1)
h = tf.layers.dropout(tf.layers.flatten(h), 0.3, training=True)
y = tf.layers.dense(h, 3, kernel_regularizer=tf.contrib.layers.l2_regularizer(0.1), name='out')
tf.losses.softmax_cross_entropy(tf.one_hot([0, 1], 3), y)
tf.train.AdamOptimizer().minimize(tf.losses.get_total_loss())
z = tf.layers.conv1d(tf.placeholder(tf.float32, [None, 9, 3]), 4, 3)
tf.gradients(tf.reduce_sum(tf.square(z)), tf.trainable_variables()[-1])
c = tf.layers.conv3d(tf.placeholder(tf.float32, [None, 5, 5, 5, 2]), 4, 3, activation=tf.nn.leaky_relu)
tf.gradients(tf.reduce_mean(c), tf.trainable_variables()[-2:])
tf.boolean_mask(z, tf.placeholder(tf.bool, [None, 7]))
""",
    "recurrent": """\
x, n = tf.placeholder(tf.float32, [None, 7, 5]), tf.placeholder(tf.int32, [None])
xs, R = tf.unstack(x, axis=1), tf.nn.rnn_cell
tf.nn.dynamic_rnn(R.BasicLSTMCell(4), x, n, dtype=tf.float32)
tf.nn.dynamic_rnn(R.GRUCell(4), x, dtype=tf.float32, scope='b')
dropped = R.DropoutWrapper(R.LSTMCell(4), output_keep_prob=0.5, input_keep_prob=0.6, state_keep_prob=0.7)
tf.nn.dynamic_rnn(dropped, x, dtype=tf.float32, scope='c')
tf.nn.static_rnn(R.BasicLSTMCell(4, name='four'), xs, dtype=tf.float32, scope='d')
dropped = R.DropoutWrapper(R.GRUCell(4, name='five'), output_keep_prob=tf.placeholder(tf.float32))
tf.nn.static_rnn(dropped, xs, dtype=tf.float32, scope='e', sequence_length=n)
tf.nn.bidirectional_dynamic_rnn(R.GRUCell(4), R.GRUCell(4), x, n, dtype=tf.float32)
tf.nn.static_bidirectional_rnn(R.GRUCell(4), R.GRUCell(4), xs, dtype=tf.float32, scope='f')
c = R.MultiRNNCell([R.DropoutWrapper(R.BasicLSTMCell(4), output_keep_prob=0.5) for _ in range(2)])
i = c.zero_state(3, tf.float32)
tf.nn.dynamic_rnn(c, tf.placeholder(tf.float32, [3, 7, 5]), initial_state=i, scope='g')
e = tf.get_variable('embedding', [20, 6])
l = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(e, tf.placeholder(tf.int32, [None, 7]))))
tf.train.AdamOptimizer().minimize(l, var_list=[e])
""",
    "recurrent, known sizes": """\
x, n, R = tf.zeros([4, 6, 5]), np.array([6, 4, 5, 3], np.int32), tf.nn.rnn_cell
xs = tf.unstack(x, axis=1)
tf.nn.dynamic_rnn(R.GRUCell(4), x, n, dtype=tf.float32, scope='a')
tf.nn.dynamic_rnn(R.GRUCell(4), x, tf.placeholder(tf.int32, [4]), dtype=tf.float32, scope='c')
tf.nn.dynamic_rnn(R.GRUCell(4), tf.placeholder(tf.float32, [None, 6, 5]), n, dtype=tf.float32, scope='e')
tf.nn.static_rnn(R.GRUCell(4), xs, dtype=tf.float32, scope='f')
tf.nn.static_rnn(R.GRUCell(4), xs, dtype=tf.float32, scope='g', sequence_length=n)
tf.nn.bidirectional_dynamic_rnn(R.GRUCell(4), R.BasicRNNCell(4), x, n, dtype=tf.float32, scope='h')
""",
    "loops": """\
x, p, q = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [])
tf.map_fn(lambda t: t * 2.0, x)
tf.map_fn(lambda t: (t[0] * 2.0, t[1]), (x, x), dtype=(tf.float32, tf.float32))
tf.map_fn(lambda t: t + tf.random_normal([3]), tf.ones([4, 3]))
tf.scan(lambda a, t: a + t, x)
tf.scan(lambda a, t: a + t, x, initializer=tf.zeros([3]))
tf.foldl(lambda a, t: a + t, x)
tf.foldr(lambda a, t: a + t, x, initializer=tf.zeros([3]))
tf.case([(p, lambda: x), (q, lambda: x * 2.0)], default=lambda: x * 3.0)
tf.case([(p, lambda: x), (q, lambda: x * 2.0)], default=lambda: x * 3.0, exclusive=True)
tf.random_normal([3])
""",
    "adversarial": """\
z, real = tf.random_normal([4, 5]), tf.placeholder(tf.float32, [4, 3])
net = lambda v, n: tf.layers.dense(tf.nn.leaky_relu(tf.layers.dense(v, 8, name='a')), n, name='b')
with tf.variable_scope('g'): fake = net(z, 3)
tf.train.AdamOptimizer().minimize(tf.reduce_mean(fake ** 2))
with tf.variable_scope('d'): d = net(real, 1)
with tf.variable_scope('d', reuse=True): f = net(fake, 1)
own = [v for v in tf.trainable_variables() if v.name.startswith('d')]
loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=d, labels=tf.ones_like(d)))
loss += tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=f, labels=tf.zeros_like(f)))
tf.train.RMSPropOptimizer(1e-3).minimize(loss, var_list=own)
e = tf.random_uniform([4, 1])
mixed = e * fake + (1 - e) * real
with tf.variable_scope('d', reuse=True): slope = tf.gradients(net(mixed, 1), mixed)[0]
penalty = tf.reduce_mean((tf.sqrt(tf.reduce_sum(slope ** 2, 1)) - 1.0) ** 2)
tf.train.AdamOptimizer().minimize(penalty, var_list=own)
clipped = [v.assign(tf.clip_by_value(v, -0.01, 0.01)) for v in own]
with tf.variable_scope('h'): net(z, 2)
""",
    "distributions": """\
x, D = tf.placeholder(tf.float32, [None, 12]), tf.distributions
mean = tf.contrib.layers.fully_connected(x, 2, activation_fn=None)
normal = D.Normal(mean, tf.exp(mean))
s = normal.sample()
normal.log_prob(s)
D.kl_divergence(normal, D.Normal(0.0, 1.0))
c = D.Categorical(logits=x)
s = c.sample()
c.log_prob(s)
c.entropy()
b = D.Bernoulli(logits=x)
s = b.sample(3)
b.log_prob(s)
D.Uniform(0.0, 1.0).sample([3])
D.Beta(1.0, 2.0).sample([3])
D.Gamma(1.0, 2.0).sample([3])
tf.multinomial(x, 1)
""",
    "contrib": """\
L = tf.contrib.layers
x = tf.placeholder(tf.float32, [None, 16, 16, 3])
h = L.avg_pool2d(L.max_pool2d(L.conv2d(L.conv2d(x, 4, 3), 4, 3, normalizer_fn=L.batch_norm), 2), 2)
h = L.separable_conv2d(L.conv2d_transpose(h, 4, 3, 2), 4, 3, 1)
h = L.layer_norm(h)
h = L.instance_norm(h)
f = L.flatten(L.dropout(h, 0.5, is_training=True))
f = L.fully_connected(f, 5, normalizer_fn=L.batch_norm)
f = L.softmax(L.unit_norm(f, 1))
f = L.one_hot_encoding(tf.argmax(f, 1), 5)
L.embed_sequence(tf.placeholder(tf.int32, [None, 5]), 10, 4)
s = L.stack(L.bias_add(f), L.fully_connected, [4, 3])
L.apply_regularization(L.l2_regularizer(0.1), tf.trainable_variables()[:2])
L.optimize_loss(tf.reduce_mean(s), tf.train.get_or_create_global_step(), 0.1, 'Adam', clip_gradients=1.0)
L.spatial_softmax(h)
L.maxout(h, 2)
L.repeat(h, 2, L.conv2d, 3, 1)
L.group_norm(tf.placeholder(tf.float32, [2, 4, 4, 8]), 4)
L.conv2d_in_plane(h, 3)
""",
    "metrics": """\
l, p = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
f, w = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
tf.metrics.accuracy(l, p)
tf.metrics.accuracy(l, p, w)
tf.metrics.mean(f)
tf.metrics.mean(f, w)
tf.metrics.precision(l, p)
tf.metrics.recall(l, p)
tf.metrics.mean_squared_error(f, w)
tf.metrics.mean_relative_error(f, w, w)
tf.metrics.true_positives(l, p)
tf.metrics.false_negatives(l, p)
tf.metrics.percentage_below(f, 0.5)
""",
    "losses": """\
a, b, w = (tf.placeholder(tf.float32, [None, n]) for n in (3, 3, 1))
tf.losses.absolute_difference(a, b)
tf.losses.huber_loss(a, b)
tf.losses.log_loss(a, b, w)
tf.losses.sigmoid_cross_entropy(a, b)
tf.losses.softmax_cross_entropy(a, b, label_smoothing=0.1)
tf.losses.cosine_distance(a, b, axis=1)
tf.losses.mean_pairwise_squared_error(a, b)
tf.losses.mean_squared_error(a, b, reduction=tf.losses.Reduction.NONE)
tf.losses.mean_squared_error(a, b, w)
tf.losses.mean_squared_error(a, b, reduction=tf.losses.Reduction.MEAN)
tf.losses.compute_weighted_loss(a)
t, bias = tf.get_variable('t', [10, 3]), tf.get_variable('bias', [10])
tf.nn.nce_loss(t, bias, tf.placeholder(tf.int64, [None, 1]), a, 4, 10)
tf.nn.sampled_softmax_loss(t, bias, tf.placeholder(tf.int64, [None, 1]), a, 4, 10)
tf.gradients(tf.losses.mean_squared_error(a, b, w), [a, b])
tf.gradients(tf.losses.sigmoid_cross_entropy(a, b), b)
""",
}
for kind, sizes in SHAPES.items():
    made = "".join(f"{name} = tf.placeholder(tf.float32, {shape})\n" for name, shape in sizes.items())
    PROGRAMS[f"gradients, {kind}"] = made + GRADIENTS


def moves(tf: Any, program: str) -> list[list[int]]:
    """How far default seeds move in each line of a program, and the seeds that random operations have got."""
    names = {"tf": tf, "np": np}
    found = []
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        for line in program.splitlines():
            before = graph._last_id
            exec(line, names)
            found.append(graph._last_id - before)
        operations = [op for op in graph.get_operations() if op.type != "ComputeAccidentalHits"]  # which draws nothing
        return [found, [op.get_attr("seed2") for op in operations if "seed2" in op.node_def.attr]]
