"""Models of `tf.keras.applications` in programs of version 1: made of its layers, on tensors of the graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anabranch as tf

K = tf.keras


@pytest.fixture(autouse=True)
def graph():
    K.backend.clear_session()
    with tf.Graph().as_default() as graph:
        yield graph
    K.backend.clear_session()


@pytest.mark.parametrize(
    ("name", "weights", "parameters"),  # of TensorFlow 1.15.5
    [
        ("DenseNet121", 604, 7_037_504),
        ("MobileNet", 135, 3_228_864),
        ("MobileNetV2", 260, 2_257_984),
        ("ResNet50", 318, 23_587_712),
        ("ResNet50V2", 270, 23_564_800),
        ("VGG16", 26, 14_714_688),
        ("Xception", 234, 20_861_480),
    ],
)
def test_weights_are_those_of_tensorflow(name: str, weights: int, parameters: int) -> None:
    model = getattr(K.applications, name)(weights=None, input_shape=(96, 96, 3), include_top=False, pooling="avg")
    assert (len(model.weights), model.count_params()) == (weights, parameters)
    assert isinstance(model.output, tf.Tensor)
    assert isinstance(model, K.Model)
    if name == "DenseNet121":
        assert model.get_layer("conv1/bn").name == "conv1/bn"


def test_a_model_is_trained_with_a_head_of_its_own(tmp_path: Path) -> None:
    """Trained features: what most programs do with these models."""
    base = K.applications.MobileNetV2(weights=None, input_shape=(32, 32, 3), include_top=False, alpha=0.35)
    for layer in base.layers[:-20]:
        layer.trainable = False
    pooled = K.layers.GlobalAveragePooling2D()(base.output)
    model = K.Model(inputs=base.input, outputs=K.layers.Dense(3, activation="softmax")(pooled))
    model.compile(K.optimizers.SGD(0.1), "categorical_crossentropy", metrics=["acc"])
    images = np.random.RandomState(0).rand(4, 32, 32, 3).astype(np.float32)
    answers = np.eye(3, dtype=np.float32)[[0, 1, 2, 0]]
    before = model.get_weights()
    model.train_on_batch(images, answers)
    after = model.get_weights()
    assert np.array_equal(before[0], after[0])  # the first kernel is frozen
    assert not np.array_equal(before[-2], after[-2])
    (gradient,) = tf.gradients(model.output[:, 0], base.input)
    assert K.backend.get_session().run(gradient, {base.input: images}).shape == images.shape
    model.save_weights(str(tmp_path / "weights.h5"))
    expected = model.predict(images)
    again = K.models.model_from_json(model.to_json())
    again.load_weights(str(tmp_path / "weights.h5"))
    np.testing.assert_allclose(again.predict(images), expected, 1e-5, 1e-6)


def test_modules_and_what_is_not_there() -> None:
    applications = K.applications
    assert "ResNet50" in dir(applications)
    assert dir(applications.vgg16) == ["VGG16", "decode_predictions", "preprocess_input"]
    image = np.full((1, 2, 2, 3), 255.0, np.float32)
    np.testing.assert_array_equal(applications.mobilenet_v2.preprocess_input(image.copy()), np.ones_like(image))
    np.testing.assert_allclose(
        applications.resnet50.preprocess_input(image.copy())[0, 0, 0], [151.061, 138.221, 131.32]
    )
    with pytest.raises(AttributeError, match="has no attribute 'EfficientNetB9'"):
        applications.EfficientNetB9
