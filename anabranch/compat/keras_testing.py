"""``tensorflow.python.keras.keras_parameterized`` and ``testing_utils``: a test case, data, and a test of a layer."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from absl.testing import parameterized

import anabranch as tf


class TestCase(tf.test.TestCase, parameterized.TestCase):
    """``tf.test.TestCase`` with the decorators of ``absl.testing.parameterized``."""

    def tearDown(self) -> None:
        """Forget what Keras has built."""
        tf.keras.backend.clear_session()
        super().tearDown()


def get_test_data(
    train_samples: int, test_samples: int, input_shape: Any, num_classes: int, random_seed: int | None = None
) -> Any:
    """Two sets of noisy points around one centre for each class: ``(x, y), (x, y)``.

    Args:
        train_samples, test_samples: how many points each set has.
        input_shape: the shape of a point.
        num_classes: how many classes there are.
        random_seed: seed of NumPy's generator; none is set if None.
    """
    if random_seed is not None:
        np.random.seed(random_seed)
    count = train_samples + test_samples
    centres = 2 * num_classes * np.random.random((num_classes, *input_shape))
    labels = np.random.randint(0, num_classes, size=count)
    points = centres[labels] + np.random.normal(0, 0.1, (count, *input_shape))
    points = points.astype(tf.keras.backend.floatx())
    return (points[:train_samples], labels[:train_samples]), (points[train_samples:], labels[train_samples:])


def layer_test(
    layer_cls: Any,
    kwargs: dict[str, Any] | None = None,
    input_shape: Any = None,
    input_dtype: Any = None,
    input_data: Any = None,
    expected_output: Any = None,
    expected_output_dtype: Any = None,
) -> Any:
    """Run a layer alone, in a functional and in a sequential model, train it, and make it anew from its config.

    Args:
        layer_cls: the class.
        kwargs: its arguments.
        input_shape: shape of its input, the batch included; None stands for a size that is drawn.
        input_dtype: dtype of its input.
        input_data: its input; drawn if None.
        expected_output: what it should give; not checked if None.
        expected_output_dtype: the dtype of that; the input's if None.

    Returns:
        What it gave.

    Raises:
        AssertionError: something differs.
    """
    keras, kwargs = tf.keras, kwargs or {}
    if input_data is None:
        assert input_shape
        input_dtype = input_dtype or "float32"
        sizes = [np.random.randint(1, 4) if size is None else size for size in input_shape]
        input_data = 10 * np.random.random(sizes)
        if input_dtype[:5] == "float":
            input_data -= 0.5
        input_data = input_data.astype(input_dtype)
    elif input_shape is None:
        input_shape = input_data.shape
    input_dtype = input_dtype or input_data.dtype
    expected_output_dtype = expected_output_dtype or input_dtype

    layer = layer_cls(**kwargs)
    weights = layer.get_weights()
    layer.set_weights(weights)
    if "weights" in inspect.signature(layer_cls.__init__).parameters:
        layer = layer_cls(**{**kwargs, "weights": weights})

    x = keras.layers.Input(shape=tuple(input_shape[1:]), dtype=input_dtype)
    y = layer(x)
    found = keras.backend.dtype(y)
    assert found == expected_output_dtype, f"{layer_cls.__name__} gives {found}, not {expected_output_dtype}"
    model = keras.models.Model(x, y)
    told = tuple(layer.compute_output_shape(tf.TensorShape(input_shape)).as_list())
    actual = model.predict(input_data)
    for known, size in zip(told, actual.shape, strict=True):
        assert known is None or known == size, f"{layer_cls.__name__} gives {actual.shape}, not {told}"
    if expected_output is not None:
        np.testing.assert_allclose(actual, expected_output, rtol=1e-3)

    def check_again(build: Any, given: Any, expected: Any) -> None:
        again = build.from_config(given.get_config())
        weights = given.get_weights()
        if weights:
            again.set_weights(weights)
            np.testing.assert_allclose(again.predict(input_data), expected, rtol=1e-3)

    check_again(keras.models.Model, model, actual)
    if layer.__class__.__name__ not in ("Bidirectional", "Lambda"):
        model.compile("rmsprop", "mse")
        model.train_on_batch(input_data, actual)

    sequence = keras.models.Sequential()
    sequence.add(layer_cls(**{**kwargs, "batch_input_shape": tuple(input_shape), "dtype": input_dtype}))
    output = sequence.predict(input_data)
    if expected_output is not None:
        np.testing.assert_allclose(output, expected_output, rtol=1e-3)
    if not isinstance(layer, keras.layers.Wrapper):
        check_again(keras.models.Sequential, sequence, output)
    return output
