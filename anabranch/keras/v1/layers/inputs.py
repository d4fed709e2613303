"""Inputs of networks: a placeholder, or a tensor of the program's, as the output of a layer that takes nothing."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import state
from anabranch.keras.v1.layer import Layer, registry
from anabranch.keras.v1.nodes import KerasHistory, Node


@registry.add()
class InputLayer(Layer):
    """The layer whose output is an input of a network.

    Args:
        input_shape, batch_size: shape of the input without the batch, and the batch.
        batch_input_shape: both in one.
        dtype: its dtype.
        input_tensor: a tensor to use instead of a new placeholder.
        sparse: make a sparse placeholder.
        name: its name, and that of the placeholder.
    """

    def __init__(
        self,
        input_shape: Any = None,
        batch_size: int | None = None,
        dtype: Any = None,
        input_tensor: Any = None,
        sparse: bool = False,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if "batch_input_shape" in kwargs:
            whole = kwargs.pop("batch_input_shape")
            batch_size, input_shape = (None, None) if whole is None else (whole[0], tuple(whole[1:]))
        ragged = kwargs.pop("ragged", False)
        kwargs.pop("trainable", None)
        if kwargs or ragged:
            raise ValueError(
                f"Unrecognized keyword arguments: {sorted(kwargs) or 'ragged'}\n"
                + errors.message(
                    f"{sorted(kwargs) or 'ragged'} for an input", "arguments of Input", "Input(shape, dtype=...)"
                )
            )
        self._prepare()
        if isinstance(input_tensor, tf.Variable):  # layers are called on its value, which has a history
            input_tensor = tf.convert_to_tensor(input_tensor)
        if isinstance(input_shape, tf.TensorShape):
            input_shape = input_shape.as_list()
        elif isinstance(input_shape, int):
            input_shape = (input_shape,)
        if dtype is None:
            dtype = state.floatx() if input_tensor is None else input_tensor.dtype.base_dtype.name
        super().__init__(dtype=dtype, name=name or f"input_{state.get_uid('input')}")
        self.built, self.sparse, self.batch_size = True, sparse, batch_size
        self.supports_masking = True
        self.is_placeholder = input_tensor is None
        if input_tensor is None:
            if input_shape is not None:
                self._batch_input_shape = (batch_size, *input_shape)
            whole = None if input_shape is None else (batch_size, *input_shape)
            with tf.name_scope(None):
                input_tensor = K.placeholder(whole, dtype=self._dtype, sparse=sparse, name=self.name)
        else:
            self._batch_input_shape = K.int_shape(input_tensor)
        self._inbound_nodes.append(_InputNode(self, input_tensor))

    @property
    def output_shape(self) -> Any:
        """Shape of the input, in a list, as TensorFlow 1.15 has it."""
        return [super().output_shape]

    @property
    def input_shape(self) -> Any:
        """Shape of the input, in a list, as TensorFlow 1.15 has it."""
        return [super().input_shape]

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the layer anew."""
        return {
            "batch_input_shape": getattr(self, "_batch_input_shape", None),
            "dtype": self.dtype,
            "sparse": self.sparse,
            "ragged": False,
            "name": self.name,
        }


class _InputNode(Node):
    """What stands for the call of a layer that took nothing."""

    def __init__(self, layer: Layer, tensor: Any) -> None:
        self.outbound_layer, self.arguments, self.histories = layer, {}, []
        self.input_tensors = self.output_tensors = tensor
        tensor._keras_history = KerasHistory(layer, 0, 0)


def Input(
    shape: Any = None,
    batch_size: int | None = None,
    name: str | None = None,
    dtype: Any = None,
    sparse: bool = False,
    tensor: Any = None,
    ragged: bool = False,
    **kwargs: Any,
) -> Any:
    """An input of a network: a placeholder, or the given tensor.

    Args:
        shape: its shape without the batch.
        batch_size: the batch, if it is known.
        name: its name.
        dtype: its dtype.
        sparse: make a sparse placeholder.
        tensor: a tensor to use.
        ragged: must be False.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default():
        ...     x = tf.keras.Input((3,))
        ...     model = tf.keras.Model(x, tf.keras.layers.Dense(2)(x))
        ...     model.input is x, model.output_shape
        (True, (None, 2))
    """
    whole = kwargs.pop("batch_shape", None)
    if kwargs or ragged:
        raise ValueError(
            f"Unrecognized keyword arguments: {sorted(kwargs) or 'ragged'}\n"
            + errors.message(f"{sorted(kwargs) or 'ragged=True'}", "arguments of Input", "Input(shape, dtype=...)")
        )
    if whole is not None:
        shape, batch_size = tuple(whole[1:]), whole[0]
    if shape is None and tensor is None:
        raise ValueError(
            "Please provide to Input either a `shape` or a `tensor` argument.\n"
            + errors.message("Input() without a shape", "a shape without the batch", "Input((3,))")
        )
    layer = InputLayer(shape, batch_size, dtype, tensor, sparse, name)
    return layer._inbound_nodes[0].output_tensors
