"""Programs with a graph's seed whose first losses, and what is drawn behind them, are TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np

BEFORE = """\
r = np.random.RandomState(0)
X, Y = r.randn(8, 10).astype("f"), np.arange(8) % 3
IM, SEQ = r.rand(4, 12, 12, 3).astype("f"), r.randn(4, 6, 5).astype("f")
LEN, IDS = np.array([6, 4, 5, 3], "i"), r.randint(0, 20, [4, 6]).astype("i")
L, RC, CL = tf.layers, tf.nn.rnn_cell, tf.contrib.layers
loss = tf.nn.sparse_softmax_cross_entropy_with_logits
xe = lambda o: tf.reduce_mean(loss(labels=tf.constant(Y), logits=o))
xe4 = lambda o: tf.reduce_mean(loss(labels=tf.constant(Y[:4]), logits=o))
"""

PROGRAMS = {
    "two nets, one after the training of the other": """\
z = tf.random_normal([8, 4])
with tf.variable_scope('g'):
    g = L.dense(L.dense(z, 16, tf.nn.relu), 10)
def d(x, r):
    with tf.variable_scope('d', reuse=r):
        return L.dense(tf.nn.leaky_relu(L.dense(x, 16)), 1)
t1 = tf.train.AdamOptimizer().minimize(tf.reduce_mean(tf.square(g)))
a, b = (d(tf.constant(X), None), d(g, True))
l = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=a, labels=tf.ones_like(a)))
l = l + tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=b, labels=tf.zeros_like(b)))
found = [l, t1]
""",
    "a penalty on slopes": """\
z = tf.random_uniform([8, 4], -1, 1)
g = tf.tanh(L.dense(z, 10, name='g'))
def d(x, r):
    return L.dense(tf.nn.relu(L.dense(x, 16, reuse=r, name='d1')), 1, reuse=r, name='d2')
a, b = (d(tf.constant(X), None), d(g, True))
e = tf.random_uniform([8, 1])
m = e * g + (1 - e) * X
sl = tf.sqrt(tf.reduce_sum(tf.square(tf.gradients(d(m, True), m)[0]), 1))
l = tf.reduce_mean(b) - tf.reduce_mean(a) + 10 * tf.reduce_mean(tf.square(sl - 1))
dv = [v for v in tf.trainable_variables() if v.name.startswith('d')]
t = tf.train.RMSPropOptimizer(0.01).minimize(l, var_list=dv)
h = L.dense(tf.constant(X), 3, name='later')
found = [l, tf.reduce_sum(tf.square(h)), t]
""",
    "convolutions and dropout": """\
h = L.max_pooling2d(L.conv2d(IM, 8, 3, activation=tf.nn.relu), 2, 2)
h = L.dropout(L.flatten(h), 0.4, training=True)
o = L.dense(h, 3)
l = tf.losses.sparse_softmax_cross_entropy(Y[:4], o)
t = tf.train.MomentumOptimizer(0.1, 0.9).minimize(l)
k = L.conv2d(IM, 2, 3, name='k')
found = [l, k, t]
""",
    "batch statistics": """\
h = tf.nn.relu(L.batch_normalization(L.conv2d(IM, 8, 3, use_bias=False), training=True))
h = L.separable_conv2d(h, 4, 3)
h = tf.reduce_mean(h, [1, 2])
l = xe4(L.dense(h, 3))
t = tf.train.AdamOptimizer().minimize(l)
found = [l, L.dense(h, 5), t]
""",
    "dropped inputs and outputs of steps": """\
c = RC.DropoutWrapper(RC.LSTMCell(7), output_keep_prob=0.6, input_keep_prob=0.8)
o, s = tf.nn.dynamic_rnn(c, tf.constant(SEQ), LEN, dtype=tf.float32)
found = [xe4(L.dense(o[:, -1], 3)), s.h]
""",
    "dropped states": """\
c = RC.MultiRNNCell([RC.DropoutWrapper(RC.GRUCell(6), state_keep_prob=0.5) for _ in range(2)])
o, s = tf.nn.dynamic_rnn(c, tf.constant(SEQ), dtype=tf.float32)
found = [xe4(L.dense(s[-1], 3)), tf.random_normal([3])]
""",
    "an unrolled network with lengths": """\
c = RC.DropoutWrapper(RC.BasicLSTMCell(6), output_keep_prob=0.5)
o, s = tf.nn.static_rnn(c, tf.unstack(tf.constant(SEQ), axis=1), dtype=tf.float32, sequence_length=LEN)
l = xe4(L.dense(o[-1], 3))
found = [l, L.dense(o[0], 2)]
""",
    "both directions": """\
o, s = tf.nn.bidirectional_dynamic_rnn(RC.GRUCell(4), RC.BasicRNNCell(4), tf.constant(SEQ), LEN, dtype=tf.float32)
found = [xe4(L.dense(tf.concat(s, 1), 3)), tf.nn.dropout(o[0], 0.5)]
""",
    "a code drawn by hand": """\
h = CL.fully_connected(X, 8)
m, s = (CL.linear(h, 2), CL.linear(h, 2))
z = m + tf.exp(s / 2) * tf.random_normal(tf.shape(m))
y = CL.linear(CL.fully_connected(z, 8), 10)
l = tf.reduce_mean(tf.reduce_sum(tf.square(y - X), 1) - 0.5 * tf.reduce_sum(1 + s - m * m - tf.exp(s), 1))
t = tf.train.AdamOptimizer().minimize(l)
n = CL.fully_connected(X, 4, scope='n')
found = [l, n, t]
""",
    "a code drawn from a distribution": """\
D = tf.distributions
h = L.dense(X, 8, tf.nn.elu)
q = D.Normal(L.dense(h, 2), tf.nn.softplus(L.dense(h, 2)))
z = q.sample()
l = tf.reduce_mean(tf.reduce_sum(D.kl_divergence(q, D.Normal(0.0, 1.0)), 1))
p = D.Bernoulli(logits=L.dense(z, 10))
found = [l - tf.reduce_mean(p.log_prob(tf.cast(X > 0, tf.int32))), p.sample()]
""",
    "actions drawn": """\
h = L.dense(X, 8, tf.tanh)
c = tf.distributions.Categorical(logits=L.dense(h, 4))
a = c.sample()
v = L.dense(h, 1)
l = -tf.reduce_mean(c.log_prob(a) * tf.squeeze(v, 1)) + 0.01 * tf.reduce_mean(c.entropy())
found = [l, a, tf.random_uniform([2])]
""",
    "clipped gradients, and a second net": """\
def net(n):
    with tf.variable_scope(n):
        return L.dense(L.dense(X, 12, tf.nn.relu), 3)
q = net('q')
a = tf.one_hot(Y, 3)
l = tf.reduce_mean(tf.losses.huber_loss(tf.ones([8]), tf.reduce_sum(q * a, 1)))
g = tf.train.AdamOptimizer(0.001)
gv = g.compute_gradients(l)
cl, n = tf.clip_by_global_norm([x for x, _ in gv], 1.0)
t = g.apply_gradients(list(zip(cl, [v for _, v in gv])))
tq = net('target')
found = [l, tf.reduce_max(tq, 1), n, t]
""",
    "a table of rows": """\
e = tf.get_variable('e', [20, 6])
x = tf.nn.embedding_lookup(e, IDS)
l = xe4(L.dense(tf.reduce_mean(x, 1), 3))
t = tf.train.AdagradOptimizer(0.1).minimize(l)
found = [l, L.dense(x, 2), t]
""",
    "slim": """\
S = tf.contrib.slim
with S.arg_scope([S.conv2d], normalizer_fn=S.batch_norm, weights_regularizer=S.l2_regularizer(0.001)):
    h = S.max_pool2d(S.conv2d(IM, 6, [3, 3]), [2, 2])
h = S.dropout(S.flatten(S.conv2d(h, 4, [3, 3])), 0.7)
o = S.fully_connected(h, 3, activation_fn=None)
S.losses.sparse_softmax_cross_entropy(o, Y[:4].astype(np.int64))
l = S.losses.get_total_loss()
found = [l, S.fully_connected(h, 2, scope='z')]
""",
    "a perceptron by hand, averages": """\
w = tf.Variable(tf.truncated_normal([10, 8], stddev=0.3))
b = tf.Variable(tf.zeros([8]))
h = tf.nn.dropout(tf.nn.relu(tf.matmul(X, w) + b), 0.5)
w2 = tf.Variable(tf.random_normal([8, 3]))
p = tf.nn.softmax(tf.matmul(h, w2))
l = -tf.reduce_mean(tf.reduce_sum(tf.one_hot(Y, 3) * tf.log(p), 1))
t = tf.train.GradientDescentOptimizer(0.1).minimize(l)
em = tf.train.ExponentialMovingAverage(0.9)
m = em.apply([w, w2])
found = [l, tf.Variable(tf.random_normal([3])), t]
""",
    "twins": """\
def net(x, r):
    with tf.variable_scope('s', reuse=r):
        h = L.dense(x, 8, tf.nn.relu, kernel_initializer=tf.random_normal_initializer(stddev=0.2))
        return L.dense(h, 4, kernel_initializer=tf.orthogonal_initializer())
a, b = (net(X, None), net(X[::-1].copy(), True))
d = tf.norm(a - b, axis=1)
l = tf.reduce_mean(tf.maximum(0.0, 2.0 - d))
t = tf.train.RMSPropOptimizer(0.01).minimize(l)
found = [l, L.dense(a, 2), t]
""",
    "pictures changed one by one": """\
change = lambda i: tf.image.random_flip_left_right(tf.random_crop(i, [10, 10, 3]))
x = tf.map_fn(change, tf.constant(IM), parallel_iterations=1)
x = tf.image.random_brightness(x, 0.2)
l = xe4(L.dense(L.flatten(L.conv2d(x, 4, 3)), 3))
found = [l, x]
""",
    "gradients of gradients": """\
w = tf.Variable(tf.random_normal([10, 3]))
l1 = xe(tf.matmul(X, w))
g = tf.gradients(tf.reduce_mean(tf.square(tf.matmul(X, w))), w)[0]
l2 = xe(tf.matmul(X, w - 0.1 * g))
t = tf.train.AdamOptimizer(tf.train.exponential_decay(0.1, tf.train.get_or_create_global_step(), 5, 0.9)).minimize(l2)
found = [l2, L.dense(X, 2), t]
""",
    "Keras layers": """\
K = tf.keras
first = K.layers.Dense(8, activation='relu', input_shape=(10,))
m = K.Sequential([first, K.layers.Dense(8, activation='tanh'), K.layers.Dense(3)])
o = m(tf.constant(X))
l = xe(o)
found = [l, K.layers.Dense(2)(o)]
""",
    "training or not, fed": """\
p = tf.placeholder_with_default(True, [])
h = L.dropout(L.batch_normalization(L.dense(X, 8), training=p), 0.5, training=p)
l = xe(L.dense(h, 3))
found = [l, tf.random_normal([2])]
""",
}


def first_values(tf: Any, program: str) -> list[float]:
    """What a program has found in its first step: sums of tensors."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1234)
        names = {"tf": tf, "np": np}
        exec(BEFORE + program, names)
        tensors = [item for item in names["found"] if not isinstance(item, tf.Operation)]
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return [float(np.float64(value).sum()) for value in session.run(tensors)]
