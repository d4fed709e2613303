"""PPO: a policy and value network of two layers, clipped ratio, entropy, global norm; minibatches of 64."""

import numpy as np

BATCH, STATES, ACTIONS = 64, 11, 3


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    obs, act = tf.placeholder(tf.float32, [None, STATES]), tf.placeholder(tf.float32, [None, ACTIONS])
    adv, ret = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
    old_nlp, old_v = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
    rate, clip = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])

    def net(name, out):
        h = obs
        with tf.variable_scope(name):
            for i, n in enumerate((64, 64)):
                w = tf.get_variable(f"w{i}", [h.shape[-1], n], initializer=tf.orthogonal_initializer(np.sqrt(2)))
                h = tf.tanh(tf.matmul(h, w) + tf.get_variable(f"b{i}", [n], initializer=tf.zeros_initializer()))
            return tf.matmul(h, tf.get_variable("w", [64, out])) + tf.get_variable(
                "b", [out], initializer=tf.zeros_initializer()
            )

    mean, value = net("pi", ACTIONS), net("vf", 1)[:, 0]
    logstd = tf.get_variable("logstd", [1, ACTIONS], initializer=tf.zeros_initializer())
    std = tf.exp(mean * 0.0 + logstd)
    nlp = (
        0.5 * tf.reduce_sum(tf.square((act - mean) / std), -1)
        + 0.5 * np.log(2 * np.pi) * ACTIONS
        + tf.reduce_sum(mean * 0.0 + logstd, -1)
    )
    entropy = tf.reduce_mean(tf.reduce_sum(logstd + 0.5 * np.log(2.0 * np.pi * np.e), -1))
    clipped = old_v + tf.clip_by_value(value - old_v, -clip, clip)
    vf = 0.5 * tf.reduce_mean(tf.maximum(tf.square(value - ret), tf.square(clipped - ret)))
    ratio = tf.exp(old_nlp - nlp)
    pg = tf.reduce_mean(tf.maximum(-adv * ratio, -adv * tf.clip_by_value(ratio, 1 - clip, 1 + clip)))
    kl = 0.5 * tf.reduce_mean(tf.square(nlp - old_nlp))
    fraction = tf.reduce_mean(tf.to_float(tf.greater(tf.abs(ratio - 1.0), clip)))
    loss = pg - 0.01 * entropy + 0.5 * vf
    params = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(loss, params), 0.5)
    step = tf.train.AdamOptimizer(rate, epsilon=1e-5).apply_gradients(list(zip(grads, params, strict=True)))
    r = np.random.RandomState(0)

    def f(*shape):
        return r.randn(*shape).astype(np.float32)

    batches = [
        {
            obs: f(BATCH, STATES),
            act: f(BATCH, ACTIONS),
            adv: f(BATCH),
            ret: f(BATCH),
            old_nlp: f(BATCH) + 4,
            old_v: f(BATCH),
            rate: 3e-4,
            clip: 0.2,
        }
        for _ in range(32)
    ]
    return [loss, step, pg, vf, entropy, kl, fraction], lambda i: batches[i % len(batches)]
