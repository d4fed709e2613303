"""``ConvLSTM2D`` against other ways to compute the same."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

K = tf.keras


def _filled(model, seed=1):
    random = np.random.RandomState(seed)
    model.set_weights([random.randn(*w.shape) * 0.3 for w in model.get_weights()])
    return model


def _images(*shape):
    return np.random.RandomState(0).randn(*shape).astype(np.float32)


def test_over_single_pixels_it_is_an_lstm():
    x = _images(2, 4, 1, 1, 3)
    convolutional = _filled(K.Sequential([K.layers.ConvLSTM2D(5, 1, return_sequences=True, input_shape=(4, 1, 1, 3))]))
    plain = K.Sequential([K.layers.LSTM(5, return_sequences=True, input_shape=(4, 3))])
    plain.set_weights([w.reshape(w.shape[-2:]) if w.ndim == 4 else w for w in convolutional.get_weights()])
    wanted = plain.predict(x[:, :, 0, 0])
    np.testing.assert_allclose(convolutional.predict(x)[:, :, 0, 0], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"kernel_size": 3}, (2, 4, 3, 3)),
        ({"kernel_size": (3, 2), "padding": "same", "return_sequences": True}, (2, 3, 6, 5, 3)),
        ({"kernel_size": 3, "strides": 2, "go_backwards": True}, (2, 2, 2, 3)),
        ({"kernel_size": 2, "dilation_rate": 2, "use_bias": False, "activation": "relu"}, (2, 4, 3, 3)),
    ],
)
def test_its_steps_are_convolutions(options, shape):
    x = _images(2, 3, 6, 5, 2)
    layer = K.layers.ConvLSTM2D(3, **options)
    inp = K.Input((3, 6, 5, 2))
    model = _filled(K.Model(inp, layer(inp)))
    found = model.predict(x)
    assert found.shape == shape == tuple([2, *layer.compute_output_shape(inp.shape).as_list()[1:]])
    again = K.layers.ConvLSTM2D.from_config(layer.get_config())
    other = K.Model(inp, again(inp))
    other.set_weights(model.get_weights())
    np.testing.assert_array_equal(other.predict(x), found)
    kernel, recurrent, *bias = model.get_weights()
    strides, dilation = (
        np.broadcast_to(options.get("strides", 1), 2),
        np.broadcast_to(options.get("dilation_rate", 1), 2),
    )
    padding = options.get("padding", "valid").upper()
    act = tf.nn.relu if options.get("activation") else tf.tanh
    with tf.Graph().as_default(), tf.Session() as session:
        h = c = None
        outputs = []
        for step in x.swapaxes(0, 1)[:: -1 if options.get("go_backwards") else 1]:
            z = tf.nn.convolution(step, kernel, padding, strides=strides, dilation_rate=dilation)
            z = z + (bias[0] if bias else 0.0)
            if h is not None:
                z += tf.nn.conv2d(h, recurrent, [1, 1, 1, 1], "SAME")
            i, f, g, o = tf.split(z, 4, -1)
            i, f, o = (tf.clip_by_value(0.2 * gate + 0.5, 0.0, 1.0) for gate in (i, f, o))
            c = i * act(g) + (0.0 if c is None else f * c)
            h = o * act(c)
            outputs.append(h)
        wanted = session.run(tf.stack(outputs, 1) if options.get("return_sequences") else h)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_kept_states_and_training():
    x = _images(2, 3, 6, 5, 2)
    model = _filled(K.Sequential([K.layers.ConvLSTM2D(2, 2, stateful=True, batch_input_shape=(2, 3, 6, 5, 2))]))
    first, second = (model.predict(x, batch_size=2) for _ in range(2))
    assert np.abs(first - second).max() > 1e-3
    model.reset_states()
    np.testing.assert_array_equal(model.predict(x, batch_size=2), first)
    layers = K.layers
    model = K.Sequential(
        [
            layers.ConvLSTM2D(2, 2, dropout=0.2, recurrent_dropout=0.2, input_shape=(3, 6, 5, 2)),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    model.compile(K.optimizers.SGD(0.05), "mse")
    losses = model.fit(x, np.ones((2, 1)), epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
