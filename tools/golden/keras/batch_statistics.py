"""Uses of batch normalisation whose numbers TensorFlow 1.15 gave; written by `write_batch_statistics.py`."""

import numpy as np

SHAPES = (
    ((8, 3), {}),
    ((4, 2, 2, 3), {}),
    ((4, 3, 2, 2), {"axis": 1, "fused": False}),
    ((8, 4), {"virtual_batch_size": 4}),
    ((8, 2, 2, 2), {"virtual_batch_size": 2}),
)
LIMITS = {"rmax": 1.5, "rmin": 0.5, "dmax": 0.3}


def _rows(*arrays):
    return [np.asarray(a, np.float64).ravel()[:6].tolist() for a in arrays]


def extensions(tf, kind):
    """Outputs, gradients and variables of layers that renormalise or take parts of a batch, where ops run at once."""
    results, rng = {}, np.random.RandomState(0)
    for shape, options in SHAPES:
        for renorm in (True, False):
            extra = {"renorm_clipping": LIMITS, "renorm_momentum": 0.8} if renorm else {}
            layer = kind(renorm=renorm, momentum=0.9, **extra, **options)
            for i in range(2):
                x = tf.constant(rng.rand(*shape).astype("f") * (i + 1))
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = layer(x, training=True)
                    loss = tf.reduce_sum(y * y * x) / 100.0
                gradients = tape.gradient(loss, [x, *layer.trainable_variables])
            after = layer(x, training=False)
            variables = [v.numpy() for v in layer.variables]
            results[f"{shape} {renorm}"] = _rows(y, *gradients, after, *variables)
    return results


def training(tf):
    """Weights after steps of `train_on_batch` in a graph."""
    results, rng = {}, np.random.RandomState(1)
    for shape, options in SHAPES:
        layer = tf.keras.layers.BatchNormalization(
            renorm=True, momentum=0.9, renorm_momentum=0.8, batch_input_shape=shape, **options
        )
        model = tf.keras.Sequential([layer])
        model.compile(tf.train.GradientDescentOptimizer(0.1), "mse")
        x = rng.rand(*shape).astype("f")
        losses = [model.train_on_batch(x * (i + 1), x) for i in range(2)]
        results[str(shape)] = _rows(losses, *layer.get_weights(), model.predict(x, batch_size=shape[0]))
    return results


def adversarial(tf):
    """A discriminator that is trained, and frozen within the model that trains a generator."""
    layers = tf.keras.layers
    x = np.arange(12).reshape(4, 3).astype("f") / 6

    def dense(units, **options):
        return layers.Dense(units, kernel_initializer="ones", **options)

    judge = tf.keras.Sequential([dense(2, input_shape=(3,)), layers.BatchNormalization(momentum=0.5), dense(1)])
    judge.compile(tf.train.GradientDescentOptimizer(0.1), "mse")
    judge.trainable = False
    maker = tf.keras.Sequential([dense(3, input_shape=(2,)), layers.BatchNormalization(momentum=0.5)])
    noise = tf.keras.Input((2,))
    both = tf.keras.Model(noise, judge(maker(noise)))
    both.compile(tf.train.GradientDescentOptimizer(0.1), "mse")
    results = {}
    for i in range(2):
        losses = [judge.train_on_batch(x, np.ones((4, 1)))]
        after_judge = judge.get_weights() + maker.get_weights()
        losses.append(both.train_on_batch(x[:, :2] * 2, np.ones((4, 1))))
        results[f"step {i}"] = _rows(losses, *after_judge, *judge.get_weights(), *maker.get_weights())
    frozen = layers.BatchNormalization(trainable=False)
    outputs = frozen(tf.constant(x), training=True)
    results["frozen"] = _rows(tf.keras.backend.get_value(outputs), *frozen.get_weights())
    return results
