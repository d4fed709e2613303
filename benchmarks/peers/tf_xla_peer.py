"""Steps in TensorFlow compiled as a whole by its XLA: functions with ``jit_compile=True``."""

import tensorflow as tf

from peers import shapes


def language_model():
    words, following, weights = shapes.language_model()
    table, kernel, bias, out, out_bias = variables = [tf.Variable(w) for w in weights]

    def loss_of(x, y):
        rows = tf.transpose(tf.gather(table, x), [1, 0, 2])
        before = tf.reshape(rows, [-1, shapes.HIDDEN]) @ kernel[: shapes.HIDDEN] + bias
        before = tf.reshape(before, [shapes.STEPS, shapes.SEQUENCES, -1])
        zeros = tf.zeros([shapes.SEQUENCES, shapes.HIDDEN])

        def step(t, c, h, outputs):
            i, j, f, o = tf.split(before[t] + h @ kernel[shapes.HIDDEN :], 4, 1)
            c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
            h = tf.tanh(c) * tf.sigmoid(o)
            return t + 1, c, h, outputs.write(t, h)

        outputs = tf.TensorArray(tf.float32, shapes.STEPS, element_shape=zeros.shape)
        *_, outputs = tf.while_loop(
            lambda t, *_: t < shapes.STEPS, step, (0, zeros, zeros, outputs), maximum_iterations=shapes.STEPS
        )
        hidden = tf.reshape(tf.transpose(outputs.stack(), [1, 0, 2]), [-1, shapes.HIDDEN])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(y, [-1]), hidden @ out + out_bias)
        return tf.reduce_mean(losses)

    @tf.function(jit_compile=True)
    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss_of(x, y)
        for variable, grad in zip(variables, tape.gradient(value, variables), strict=True):
            if isinstance(grad, tf.IndexedSlices):
                variable.scatter_sub(tf.IndexedSlices(shapes.LM_RATE * grad.values, grad.indices))
            else:
                variable.assign_sub(shapes.LM_RATE * grad)
        return value

    x, y = tf.constant(words), tf.constant(following)
    return lambda: step(x, y).numpy()


CASES = {"language_model": language_model}
