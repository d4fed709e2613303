"""Layers of general use: dense, dropout, reshaping, masking, functions of one's own."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.graph.random_seed import count_more, counted_as
from anabranch.core.values import nest
from anabranch.keras.v1 import activations, objects, state
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1.function_code import func_dump, func_load
from anabranch.keras.v1.layer import InputSpec, Layer, as_shape, registry, shapes_of
from anabranch.keras.v1.layers.config import Configured


@registry.add()
class Dense(Configured):
    """Product with a kernel, plus a bias, through an activation.

    Args:
        units: size of the last axis of the outputs.
        activation, use_bias: what is applied to it; whether there is a bias.
        kernel_initializer, bias_initializer: how the weights start.
        kernel_regularizer, bias_regularizer, activity_regularizer: what is added to the loss.
        kernel_constraint, bias_constraint: what the weights are brought back to.
    """

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._keep(
            units=int(units),
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
        )
        self.supports_masking = True
        self.input_spec = InputSpec(min_ndim=2)

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        size = K.dims(input_shape)[-1]
        if size is None:
            raise ValueError(
                "The last dimension of the inputs to `Dense` should be defined. Found `None`.\n"
                + errors.message(
                    f"inputs of shape {input_shape}", "a last axis of known size", "x.set_shape([None, 3])"
                )
            )
        self.input_spec = InputSpec(min_ndim=2, axes={-1: size})
        self.kernel = self.add_weight(
            "kernel",
            (size, self.units),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                (self.units,),
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        if inputs.dtype.base_dtype != self.kernel.dtype.base_dtype and not isinstance(inputs, tf.SparseTensor):
            inputs = tf.cast(inputs, self.kernel.dtype.base_dtype)
        if isinstance(inputs, tf.SparseTensor):
            outputs = tf.sparse_tensor_dense_matmul(inputs, self.kernel)
        elif K.ndim(inputs) > 2:
            outputs = tf.tensordot(inputs, self.kernel, [[K.ndim(inputs) - 1], [0]])
            outputs.set_shape([*K.int_shape(inputs)[:-1], self.units])
        else:
            outputs = tf.matmul(inputs, self.kernel)
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, self.bias)
        return outputs if self.activation is activations.linear else self.activation(outputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        return tf.TensorShape([*K.dims(input_shape)[:-1], self.units])


@registry.add()
class Activation(Configured):
    """An activation as a layer."""

    def __init__(self, activation: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(activation=activation)
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return self.activation(inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        return tf.TensorShape(input_shape)


@registry.add()
class Dropout(Configured):
    """In training, set a share of the elements to zero and scale the others.

    Args:
        rate: the share.
        noise_shape: axes of size 1 are dropped as a whole.
        seed: seed of the random numbers.
    """

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(rate=rate, noise_shape=noise_shape, seed=seed)
        self.supports_masking = True

    def _noise_shape(self, inputs: Any) -> Any:
        if self.noise_shape is None:
            return None
        sizes = tf.shape(inputs)
        return tf.stack([sizes[i] if size is None else size for i, size in enumerate(self.noise_shape)])

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Compute the outputs."""

        def dropped() -> Any:
            return tf.nn.dropout(inputs, rate=self.rate, noise_shape=self._noise_shape(inputs), seed=self.seed)

        return when(training, dropped, lambda: tf.identity(inputs)) if self.rate else inputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        return tf.TensorShape(input_shape)


def when(training: Any, train: Any, test: Any) -> Any:
    """One function or another, by whether the layer trains; the learning phase if it is not told."""
    training = state.learning_phase() if training is None else training
    if isinstance(training, (bool, int, np.bool_)):
        return train() if training else test()
    return tf.cond(tf.cast(training, tf.bool), train, test)


class _SpatialDropout(Dropout):
    def __init__(self, rate: float, **kwargs: Any) -> None:
        data_format = kwargs.pop("data_format", None)
        super().__init__(rate, **kwargs)
        self._config_names = ("rate",)
        self.data_format = state.data_format_of(data_format)

    def _noise_shape(self, inputs: Any) -> Any:
        sizes, rank = tf.shape(inputs), K.ndim(inputs)
        count_more(rank - 2)  # the ones, which TensorFlow packs
        if self.data_format == "channels_first" and rank > 3:
            return [sizes[0], sizes[1], *[1] * (rank - 2)]
        return [sizes[0], *[1] * (rank - 2), sizes[rank - 1]]


@registry.add()
class SpatialDropout1D(_SpatialDropout):
    """Dropout of whole features of sequences."""

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(rate, **kwargs)
        self.input_spec = InputSpec(ndim=3)


@registry.add()
class SpatialDropout2D(_SpatialDropout):
    """Dropout of whole channels of images."""

    def __init__(self, rate: float, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(rate, data_format=data_format, **kwargs)
        self.input_spec = InputSpec(ndim=4)


@registry.add()
class SpatialDropout3D(_SpatialDropout):
    """Dropout of whole channels of volumes."""

    def __init__(self, rate: float, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(rate, data_format=data_format, **kwargs)
        self.input_spec = InputSpec(ndim=5)


@registry.add()
class Flatten(Configured):
    """All axes but the batch as one."""

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(data_format=state.data_format_of(data_format))
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        if self.data_format == "channels_first" and K.ndim(inputs) > 1:
            inputs = tf.transpose(inputs, [0, *range(2, K.ndim(inputs)), 1])
        shape = self.compute_output_shape(inputs.shape).as_list()
        if shape == [None, None]:
            sizes: tuple[Any, Any] = (tf.shape(inputs)[0], -1)
        else:
            sizes = (-1 if shape[1] is not None else shape[0], shape[1] or -1)
        with counted_as(8 if shape[0] is None else 2):  # TensorFlow computes an unknown batch size
            outputs = tf.reshape(inputs, sizes)
        outputs.set_shape(shape)
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        sizes = K.dims(input_shape)
        rest = None if None in sizes[1:] else int(np.prod(sizes[1:], dtype=np.int64))
        return tf.TensorShape([sizes[0], rest])


@registry.add()
class Reshape(Configured):
    """Another shape of each sample; one size may be -1."""

    def __init__(self, target_shape: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(target_shape=tuple(target_shape))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        sizes, wanted = K.dims(input_shape), list(self.target_shape)
        if None in sizes[1:]:
            return tf.TensorShape([sizes[0], *[None if size == -1 else size for size in wanted]])
        total = int(np.prod(sizes[1:], dtype=np.int64))
        known = int(np.prod([size for size in wanted if size != -1], dtype=np.int64))
        if (-1 in wanted and (not known or total % known)) or (-1 not in wanted and total != known):
            raise ValueError(
                "total size of new array must be unchanged\n"
                + errors.message(
                    f"samples of shape {sizes[1:]} as {self.target_shape}", f"{total} elements", "Reshape((-1,))"
                )
            )
        return tf.TensorShape([sizes[0], *[total // known if size == -1 else size for size in wanted]])

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        shape = self.compute_output_shape(inputs.shape)
        outputs = tf.reshape(inputs, tf.stack([tf.shape(inputs)[0], *self.target_shape]))
        outputs.set_shape(shape)
        return outputs


@registry.add()
class Permute(Configured):
    """Axes of each sample in another order, counted from 1."""

    def __init__(self, dims: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(dims=tuple(dims))
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(
                f"Invalid permutation `dims`: {dims}\n"
                + errors.message(f"dims={dims}", f"the numbers 1 to {len(self.dims)}", "Permute((2, 1))")
            )
        self.input_spec = InputSpec(ndim=len(self.dims) + 1)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return tf.transpose(inputs, (0, *self.dims))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        sizes = K.dims(input_shape)
        return tf.TensorShape([sizes[0], *[sizes[i] for i in self.dims]])


@registry.add()
class RepeatVector(Configured):
    """Rows ``[batch, features]`` repeated to ``[batch, n, features]``."""

    def __init__(self, n: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(n=n)
        self.input_spec = InputSpec(ndim=2)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return K.repeat(inputs, self.n)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        sizes = K.dims(input_shape)
        return tf.TensorShape([sizes[0], self.n, sizes[1]])


@registry.add()
class Masking(Configured):
    """Steps whose features all equal a value are masked."""

    def __init__(self, mask_value: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(mask_value=mask_value)
        self.supports_masking = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Mask of the outputs."""
        with counted_as(1):  # TensorFlow keeps the mask of the call
            return tf.reduce_any(tf.not_equal(inputs, self.mask_value), -1)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        kept = tf.reduce_any(tf.not_equal(inputs, self.mask_value), -1, True)
        return inputs * tf.cast(kept, inputs.dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        return tf.TensorShape(input_shape)


@registry.add()
class ActivityRegularization(Configured):
    """The inputs as they are, whose sizes are added to the loss."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **kwargs: Any) -> None:
        from_sizes = tf.keras.regularizers.L1L2(l1, l2)
        super().__init__(activity_regularizer=from_sizes, **kwargs)
        self._keep(l1=l1, l2=l2)
        self.supports_masking = True


@registry.add()
class Lambda(Layer):
    """A function as a layer.

    Args:
        function: of the inputs, and of ``mask`` and ``training`` if it takes them.
        output_shape: shape of the outputs without the batch, or a function of the inputs' shape; found if None.
        mask: mask of the outputs, or a function of inputs and mask.
        arguments: further arguments of the function.
    """

    def __init__(
        self, function: Any, output_shape: Any = None, mask: Any = None, arguments: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.function, self._output_shape, self.mask = function, output_shape, mask
        self.arguments = dict(arguments or {})
        self.supports_masking = mask is not None
        names = function.__code__.co_varnames[: function.__code__.co_argcount] if hasattr(function, "__code__") else ()
        self._call_arguments = ["inputs", *[name for name in ("mask", "training") if name in names]]

    def call(self, inputs: Any, mask: Any = None, training: Any = None) -> Any:
        """Apply the function."""
        given = {"mask": mask, "training": training}
        return self.function(
            inputs, **{**self.arguments, **{k: v for k, v in given.items() if k in self._call_arguments}}
        )

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Mask of the outputs."""
        return self.mask(inputs, mask) if callable(self.mask) else self.mask

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        if self._output_shape is None:
            with tf.Graph().as_default():
                places = nest.map_structure(
                    lambda one: tf.placeholder(self._dtype or "float32", one), as_shape(input_shape)
                )
                return shapes_of(self.call(places))
        if callable(self._output_shape):
            return as_shape(self._output_shape(input_shape))
        shape = as_shape(input_shape)
        batch = (shape[0] if isinstance(shape, list) else shape).as_list()[0]
        return tf.TensorShape([batch, *self._output_shape])

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the layer anew: Python functions as the bytes of their code."""
        config: dict[str, Any] = super().get_config()
        for name, item in (("function", self.function), ("output_shape", self._output_shape), ("mask", self.mask)):
            if name == "mask" and item is None:  # TensorFlow expects to read what is there
                continue
            config[name], kind = _written(item)
            if name != "mask" or kind is not None:
                config[f"{name}_type"] = kind or "raw"
            config["module" if name == "function" else f"{name}_module"] = getattr(item, "__module__", None)
        config["arguments"] = self.arguments
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer that a config describes."""
        config = dict(config)
        for name in ("function", "output_shape", "mask"):
            kind = config.pop(f"{name}_type", None)
            config.pop("module" if name == "function" else f"{name}_module", None)
            if kind == "lambda":
                config[name] = _read(config[name])
            elif kind == "function":
                config[name] = objects.deserialize_keras_object(
                    config[name], {}, custom_objects, "function in Lambda layer"
                )
        return cls(**config)


def _written(item: Any) -> tuple[Any, str | None]:
    if not callable(item):
        return item, None
    if not isinstance(item, types.FunctionType):
        return item.__name__, "function"
    return func_dump(item), "lambda"


def _read(data: Any) -> Any:
    return func_load(data, globs={"tf": tf, "K": K, "np": np})
