"""Actor and critic of A3C with an LSTM on 20 frames of 42x42, one sample, clipped RMSProp."""

import numpy as np

STEPS, ACTIONS, UNITS = 20, 6, 128


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    frames = tf.placeholder(tf.float32, [STEPS, 42, 42, 1])
    actions = tf.placeholder(tf.int32, [STEPS])
    advantages, returns = tf.placeholder(tf.float32, [STEPS]), tf.placeholder(tf.float32, [STEPS])
    hidden = frames
    for i in range(4):
        w = tf.get_variable(f"w{i}", [3, 3, hidden.shape[-1], 32])
        b = tf.get_variable(f"b{i}", [32], initializer=tf.zeros_initializer())
        hidden = tf.nn.elu(tf.nn.conv2d(hidden, w, [1, 2, 2, 1], "SAME") + b)
    inputs = tf.reshape(hidden, [STEPS, 3 * 3 * 32])
    w = tf.get_variable("lstm", [3 * 3 * 32 + UNITS, 4 * UNITS])
    cell, output, outputs = tf.zeros([1, UNITS]), tf.zeros([1, UNITS]), []
    for i in range(STEPS):
        gates = tf.matmul(tf.concat([inputs[i : i + 1], output], 1), w)
        let_in, new, forget, out = tf.split(gates, 4, axis=1)
        cell = tf.sigmoid(forget + 1.0) * cell + tf.sigmoid(let_in) * tf.tanh(new)
        output = tf.sigmoid(out) * tf.tanh(cell)
        outputs.append(output)
    joined = tf.concat(outputs, 0)
    logits = tf.matmul(joined, tf.get_variable("policy", [UNITS, ACTIONS]))
    values = tf.squeeze(tf.matmul(joined, tf.get_variable("value", [UNITS, 1])), [1])
    log_probabilities = tf.nn.log_softmax(logits)
    chosen = tf.reduce_sum(log_probabilities * tf.one_hot(actions, ACTIONS), 1)
    entropy = -tf.reduce_sum(tf.nn.softmax(logits) * log_probabilities)
    loss = -tf.reduce_sum(chosen * advantages) + 0.25 * tf.reduce_sum(tf.square(values - returns)) - 0.01 * entropy
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 40.0)
    step = tf.train.RMSPropOptimizer(1e-4, epsilon=0.1).apply_gradients(zip(gradients, variables, strict=True))
    random = np.random.RandomState(0)
    batches = [
        {
            frames: random.rand(STEPS, 42, 42, 1).astype(np.float32),
            actions: random.randint(0, ACTIONS, STEPS),
            advantages: random.randn(STEPS).astype(np.float32),
            returns: random.randn(STEPS).astype(np.float32),
        }
        for _ in range(4)
    ]
    return [loss, step], lambda i: batches[i % len(batches)]
