"""``Bidirectional`` of ``tf.keras``: masks, a layer of one's own for the way back, cells of one's own.

Numbers are those of TensorFlow 1.15.5.
"""

import numpy as np
import pytest

import anabranch as tf

layers = tf.keras.layers
WORDS = np.array([[1, 2, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0]])


@pytest.fixture(autouse=True)
def graph():
    tf.keras.backend.clear_session()
    with tf.Graph().as_default():
        yield
    tf.keras.backend.clear_session()


def embedded():
    return layers.Embedding(3, 1, mask_zero=True, embeddings_initializer=tf.constant_initializer([[0.0], [0.5], [1.0]]))


def recurrent(kind=layers.SimpleRNN, **kwargs):
    return kind(1, kernel_initializer="ones", recurrent_initializer="ones", **kwargs)


def outputs(layer):
    words = layers.Input((4,))
    return tf.keras.Model(words, layer(embedded()(words))).predict(WORDS)


def test_outputs_of_masked_steps_are_zeros():
    found = outputs(layers.Bidirectional(recurrent(return_sequences=True)))
    np.testing.assert_allclose(
        found[0], [[0.46211717, 0.851503], [0.8980631, 0.7615942], [0.0, 0.0], [0.0, 0.0]], rtol=2e-6
    )
    assert not found[2].any()
    assert layers.Bidirectional(recurrent(return_sequences=True)).forward_layer.zero_output_for_mask
    assert not layers.Bidirectional(recurrent()).forward_layer.zero_output_for_mask
    alone = outputs(recurrent(return_sequences=True))
    np.testing.assert_allclose(alone[0, :, 0], [0.46211717, 0.8980631, 0.8980631, 0.8980631], rtol=2e-6)


def test_a_layer_of_ones_own_for_the_way_back():
    back = recurrent(layers.GRU, go_backwards=True, return_sequences=True, reset_after=False)
    layer = layers.Bidirectional(recurrent(return_sequences=True), backward_layer=back, merge_mode="sum")
    found = outputs(layer)
    np.testing.assert_allclose(found[0, :, 0], [0.81159914, 1.1265414, 0.0, 0.0], rtol=2e-6)
    assert [weight.name.partition("/")[2] for weight in layer.weights][3] == "backward_gru/kernel:0"
    again = layers.Bidirectional.from_config(layer.get_config())
    assert type(again.backward_layer) is layers.GRU
    assert again.backward_layer.go_backwards


def test_pairs_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="should have different `go_backwards` value"):
        layers.Bidirectional(recurrent(), backward_layer=recurrent())
    with pytest.raises(ValueError, match="same value for attribute return_state, got False and True"):
        layers.Bidirectional(recurrent(), backward_layer=recurrent(go_backwards=True, return_state=True))
    with pytest.raises(ValueError, match="Please initialize `Bidirectional` layer with a `Layer` instance"):
        layers.Bidirectional(recurrent(), backward_layer="gru")


def test_cells_of_ones_own():
    class Sum(layers.Layer):
        state_size = 1

        def __init__(self, units=1, **kwargs):
            super().__init__(**kwargs)

        def call(self, x, states):
            return x + states[0], [x + states[0]]

        def get_config(self):
            return {**super().get_config(), "units": 1}

    x = layers.Input((3, 1))
    model = tf.keras.Model(x, layers.Bidirectional(layers.RNN([Sum(), Sum()]), merge_mode=None)(x))
    both = model.predict(np.array([[[1.0], [2.0], [4.0]]]))
    assert [array.ravel().tolist() for array in both] == [[11.0], [17.0]]


def test_simple_networks_take_an_implementation():
    assert "implementation" not in recurrent(implementation=2).get_config()
