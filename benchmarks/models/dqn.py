"""DQN on 84x84 frames, four in a stack: three VALID convolutions, a target network, Huber loss, RMSProp."""

import numpy as np

BATCH, ACTIONS = 32, 6


def q_values(tf, frames, scope):
    """The action values ``[batch, actions]`` of stacked frames."""
    with tf.variable_scope(scope):
        hidden = frames
        for i, (window, stride, features) in enumerate(((8, 4, 32), (4, 2, 64), (3, 1, 64))):
            w = tf.get_variable(f"w{i}", [window, window, hidden.shape[-1], features])
            b = tf.get_variable(f"b{i}", [features], initializer=tf.zeros_initializer())
            hidden = tf.nn.relu(tf.nn.conv2d(hidden, w, [1, stride, stride, 1], "VALID") + b)
        hidden = tf.reshape(hidden, [-1, 7 * 7 * 64])
        for name, features in (("dense", 512), ("out", ACTIONS)):
            w = tf.get_variable(name, [hidden.shape[-1], features])
            b = tf.get_variable(name + "_b", [features], initializer=tf.zeros_initializer())
            hidden = tf.matmul(hidden, w) + b
            if name == "dense":
                hidden = tf.nn.relu(hidden)
        return hidden


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    frames = tf.placeholder(tf.uint8, [None, 84, 84, 4])
    following = tf.placeholder(tf.uint8, [None, 84, 84, 4])
    actions = tf.placeholder(tf.int32, [None])
    rewards = tf.placeholder(tf.float32, [None])
    now = q_values(tf, tf.cast(frames, tf.float32) / 255.0, "online")
    later = q_values(tf, tf.cast(following, tf.float32) / 255.0, "target")
    target = tf.stop_gradient(rewards + 0.99 * tf.reduce_max(later, axis=1))
    error = target - tf.reduce_sum(now * tf.one_hot(actions, ACTIONS), axis=1)
    loss = tf.reduce_mean(tf.where(tf.abs(error) < 1.0, 0.5 * tf.square(error), tf.abs(error) - 0.5))
    trained = [v for v in tf.trainable_variables() if v.name.startswith("online")]
    step = tf.train.RMSPropOptimizer(2.5e-4, 0.95, epsilon=0.01).minimize(loss, var_list=trained)
    random = np.random.RandomState(0)
    batches = [
        {
            frames: random.randint(0, 256, (BATCH, 84, 84, 4)).astype(np.uint8),
            following: random.randint(0, 256, (BATCH, 84, 84, 4)).astype(np.uint8),
            actions: random.randint(0, ACTIONS, BATCH),
            rewards: random.randn(BATCH).astype(np.float32),
        }
        for _ in range(4)
    ]
    return [loss, step], lambda i: batches[i % len(batches)]
