"""Small models of ``tf.keras`` whose outputs, gradients, names and training TensorFlow 1.15 gave.

``write.py`` runs them there and writes ``tests/golden/keras.json``; ``tests/keras/test_golden.py`` runs them here.
All layers
stand in one graph and are run by one step.
"""

from __future__ import annotations

import numpy as np


def summary(array):
    """Shape of an array, its sum, and a sum that depends on the order of its elements."""
    array = np.asarray(array, np.float64)
    return [list(array.shape), float(array.sum()), float((array.ravel() * np.cos(np.arange(array.size))).sum())]


def layers(tf):
    """Layers with the shapes of their inputs, by name."""
    L, K = tf.keras.layers, tf.keras.backend
    return {
        "dense": (L.Dense(3, activation="relu"), (4,)),
        "dense of sequences": (L.Dense(3, use_bias=False, activation="selu"), (2, 4)),
        "conv1d": (L.Conv1D(3, 2), (6, 4)),
        "conv1d causal": (L.Conv1D(3, 2, padding="causal", dilation_rate=2), (6, 4)),
        "conv2d": (L.Conv2D(3, (2, 3), strides=2, padding="same"), (6, 7, 4)),
        "conv2d dilated": (L.Conv2D(3, 3, dilation_rate=2), (8, 8, 2)),
        "conv3d": (L.Conv3D(3, 2), (4, 4, 4, 2)),
        "transposed": (L.Conv2DTranspose(3, 3, strides=2, padding="same"), (5, 4, 2)),
        "transposed valid": (L.Conv2DTranspose(3, 3, strides=2), (5, 4, 2)),
        "transposed 3d": (L.Conv3DTranspose(2, 2, strides=2), (2, 3, 2, 2)),
        "separable 1d": (L.SeparableConv1D(3, 2, depth_multiplier=2), (6, 4)),
        "separable": (L.SeparableConv2D(3, 2, depth_multiplier=2), (6, 5, 4)),
        "depthwise": (L.DepthwiseConv2D(2, depth_multiplier=2), (6, 5, 4)),
        "local 1d": (L.LocallyConnected1D(3, 2), (6, 4)),
        "local 2d": (L.LocallyConnected2D(3, (2, 3)), (5, 6, 2)),
        "max": (L.MaxPool2D(2, strides=1, padding="same"), (5, 6, 2)),
        "mean": (L.AveragePooling1D(2, padding="same"), (5, 4)),
        "global": (L.GlobalAveragePooling2D(), (5, 6, 2)),
        "padding": (L.ZeroPadding2D(((1, 2), (0, 3))), (5, 6, 2)),
        "cropping": (L.Cropping2D(((1, 0), (2, 1))), (5, 6, 2)),
        "bilinear": (L.UpSampling2D((2, 3), interpolation="bilinear"), (3, 4, 2)),
        "batch normalization": (L.BatchNormalization(), (4,)),
        "batch normalization of images": (L.BatchNormalization(), (3, 3, 4)),
        "layer normalization": (L.LayerNormalization(), (3, 4)),
        "lstm": (L.LSTM(3, return_sequences=True, go_backwards=True), (5, 4)),
        "gru": (L.GRU(3), (5, 4)),
        "gru reset after": (L.GRU(3, reset_after=True, return_sequences=True), (5, 4)),
        "stacked cells": (L.RNN([L.LSTMCell(3), L.GRUCell(2)]), (5, 4)),
        "both directions": (L.Bidirectional(L.LSTM(3, return_sequences=True)), (5, 4)),
        "each step": (L.TimeDistributed(L.Conv2D(2, 2)), (3, 4, 4, 2)),
        "prelu": (L.PReLU(shared_axes=[1]), (3, 4)),
        "relu": (L.ReLU(0.5, 0.1, 0.1), (4,)),
        "flatten": (L.Flatten("channels_first"), (2, 3, 4)),
        "lambda": (L.Lambda(lambda x: K.square(x) + 1), (4,)),
        "dropout": (L.Dropout(0.3), (4,)),
    }


def run_layers(tf):
    """Output and gradient of each layer, its output's shape, and the names of its weights."""
    K = tf.keras.backend
    with tf.Graph().as_default():
        made, values, fetches, feeds = {}, [], {}, {}
        for name, (layer, shape) in layers(tf).items():
            x = tf.keras.Input(shape)
            y = layer(x)
            made[name] = (layer, y)
            draw = np.random.RandomState(len(made))
            for weight in layer.weights:
                array = draw.uniform(-0.5, 0.5, weight.shape.as_list()).astype(np.float32)
                values.append((weight, np.abs(array) if "variance" in weight.name else array))
            feeds[x] = draw.uniform(-1, 1, (2,) + shape).astype(np.float32)
            fetches[name] = [y, tf.gradients(y, x)[0]]
        session = K.get_session()
        K.batch_set_value(values)
        results = session.run(fetches, feeds)
        return {
            name: {
                "shape": [size for size in layer.output_shape],
                "weights": [weight.name for weight in layer.weights],
                "output": summary(results[name][0]),
                "gradient": summary(results[name][1]),
            }
            for name, (layer, _) in made.items()
        }


def optimizers(tf):
    """Optimizers, by name."""
    O = tf.keras.optimizers  # noqa: E741
    return {
        "sgd": O.SGD(lr=0.1),
        "nesterov": O.SGD(0.1, momentum=0.9, nesterov=True, decay=0.1),
        "adam": O.Adam(0.01, amsgrad=True),
        "rmsprop": O.RMSprop(0.01),
        "rmsprop centered": O.RMSprop(0.01, momentum=0.5, centered=True),
        "adagrad": O.Adagrad(0.1),
        "adadelta": O.Adadelta(1.0),
        "adamax": O.Adamax(0.01),
        "nadam": O.Nadam(0.01),
        "clipnorm": O.SGD(0.1, clipnorm=0.1),
        "of tf.train": tf.train.MomentumOptimizer(0.1, 0.9),
    }


X = np.random.RandomState(5).rand(12, 4).astype(np.float32)
Y = np.random.RandomState(6).rand(12, 2).astype(np.float32)
CLASSES = np.random.RandomState(7).randint(0, 3, 12)


def filled(model, seed=0):
    """The model with weights that are drawn here."""
    draw = np.random.RandomState(seed)
    model.set_weights([draw.uniform(-0.5, 0.5, w.shape).astype(np.float32) for w in model.get_weights()])
    return model


def run_optimizers(tf):
    """Losses of two steps, the kernel after them, and names of the optimizer's weights."""
    found = {}
    for name in optimizers(tf):
        with tf.Graph().as_default():
            optimizer = optimizers(tf)[name]
            model = filled(tf.keras.Sequential([tf.keras.layers.Dense(2, input_dim=4)]))
            model.compile(optimizer, "mse")
            losses = [float(model.train_on_batch(X, Y)) for _ in range(2)]
            own = [] if name == "of tf.train" else [weight.name for weight in model.optimizer.weights]
            found[name] = {"losses": losses, "kernel": summary(model.get_weights()[0]), "weights": own}
    return found


def _history(model, **arguments):
    history = model.fit(verbose=0, shuffle=False, **arguments).history
    return {name: [float(value) for value in values] for name, values in sorted(history.items())}


def run_training(tf):
    """Histories of `fit`, `evaluate` and predictions of models of several kinds."""
    keras = tf.keras
    L = keras.layers
    one_hot = keras.utils.to_categorical(CLASSES, 3)
    found = {}
    with tf.Graph().as_default():
        model = filled(
            keras.Sequential([L.Dense(5, activation="tanh", input_shape=(4,)), L.Dense(3, activation="softmax")])
        )
        model.compile(tf.train.GradientDescentOptimizer(0.1), "categorical_crossentropy", metrics=["accuracy", "mse"])
        found["validation"] = _history(model, x=X, y=one_hot, epochs=2, batch_size=5, validation_split=0.25)
        found["evaluate"] = [float(value) for value in model.evaluate(X, one_hot, verbose=0, batch_size=5)]
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=["acc"])
        found["class weights"] = _history(model, x=X, y=CLASSES, class_weight={0: 1.0, 1: 2.0, 2: 0.5})
        weighted = model.evaluate(X, CLASSES, verbose=0, sample_weight=np.arange(12.0))
        found["sample weights"] = [float(value) for value in weighted]
    with tf.Graph().as_default():
        a, b = L.Input((4,), name="a"), L.Input((2,), name="b")
        z = L.concatenate([L.Dense(3)(a), b])
        outputs = [L.Dense(1, name="first")(z), L.Dense(3, activation="softmax", name="second")(z)]
        model = filled(keras.Model(inputs=[a, b], outputs=outputs))
        model.compile(
            "sgd",
            loss={"first": "mse", "second": "categorical_crossentropy"},
            loss_weights={"first": 0.3, "second": 1.0},
            metrics={"first": "mae", "second": ["acc"]},
        )
        targets = {"first": Y[:, :1], "second": one_hot}
        found["outputs"] = _history(model, x={"a": X, "b": Y}, y=targets, epochs=2, batch_size=5)
        found["names"] = [
            model.metrics_names,
            model.input_names,
            model.output_names,
            [layer.name for layer in model.layers],
        ]
    with tf.Graph().as_default():
        words = np.arange(12).reshape(3, 4) % 6
        i = L.Input((4,))
        o = L.Dense(3, activation="softmax")(L.LSTM(3)(L.Embedding(6, 3, mask_zero=True)(i)))
        model = filled(keras.Model(i, o))
        model.compile(keras.optimizers.Adam(lr=0.02), "categorical_crossentropy", metrics=["acc"])
        found["words"] = [float(value) for value in model.train_on_batch(words, one_hot[:3])]
        found["words predicted"] = summary(model.predict(words))
    with tf.Graph().as_default():
        model = keras.Sequential(
            [L.Conv2D(3, 3, input_shape=(5, 5, 1)), L.BatchNormalization(momentum=0.5), L.Flatten()]
        )
        model.add(L.Dense(1))
        filled(model)
        model.set_weights([np.abs(array) for array in model.get_weights()])
        model.compile("sgd", "mse")
        images = np.random.RandomState(1).rand(4, 5, 5, 1)
        found["images"] = [float(model.train_on_batch(images, np.ones((4, 1))))]
        found["moving averages"] = [summary(array) for array in model.get_weights()[4:6]]
    return found


def run(tf):
    """All results."""
    return {"layers": run_layers(tf), "optimizers": run_optimizers(tf), "training": run_training(tf)}
