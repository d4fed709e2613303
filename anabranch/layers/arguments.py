"""What the layers share: arguments brought to one form, and functions made from layer classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import shapes
from anabranch.core.values.shapes import TensorShape
from anabranch.layers.base import Layer
from anabranch.variables.initializers import Ones, Zeros

ZEROS, ONES = Zeros(), Ones()  # defaults of biases and scales
_LETTERS = {1: "W", 2: "HW", 3: "DHW"}


def channels_first(data_format: str) -> bool:
    """Whether ``data_format`` puts channels directly after the batch; ValueError if it is not a format."""
    lowered = str(data_format).lower()
    if lowered not in ("channels_first", "channels_last"):
        raise ValueError(
            f'The `data_format` argument must be one of "channels_first", "channels_last". Received: {data_format}\n'
            + errors.message(
                f"data_format={data_format!r}", "'channels_last' or 'channels_first'", "data_format='channels_last'"
            )
        )
    return lowered == "channels_first"


def op_format(data_format: str, rank: int) -> str:
    """``"NHWC"`` for two spatial dimensions with channels last, and so on."""
    letters = _LETTERS[rank]
    return f"NC{letters}" if channels_first(data_format) else f"N{letters}C"


def numbers(value: Any, count: int, name: str) -> tuple[int, ...]:
    """A tuple of ``count`` positive integers; one number stands for all of them.

    Raises:
        ValueError: another count, or something that is not a positive integer.
    """
    given = tuple(value) if isinstance(value, (list, tuple, TensorShape, np.ndarray)) else (value,) * count
    try:
        values = tuple(int(item) for item in given)
    except (TypeError, ValueError, OverflowError):
        values = ()
    if any(int(item) != item for item in given[: len(values)]):
        values = ()  # half a window is none
    if len(values) != count or any(item < 1 for item in values):
        raise ValueError(
            f"The `{name}` argument must be a tuple of {count} integers. Received: {value}\n"
            + errors.message(f"{name}={value!r}", f"{count} positive integers, or one", f"{name}={(1,) * count}")
        )
    return values


def padding_name(padding: Any, causal: bool = False) -> str:
    """``"VALID"``, ``"SAME"`` or, where ``causal`` allows it, ``"CAUSAL"``; ValueError for anything else."""
    lowered = str(padding).lower()
    if lowered == "causal" and not causal:
        raise ValueError(
            "Causal padding is only supported for `Conv1D` and `SeparableConv1D`.\n"
            + errors.message(f"padding={padding!r}", "'valid' or 'same'", "tf.pad the input, then padding='valid'")
        )
    if lowered not in ("valid", "same", "causal"):
        raise ValueError(
            f'The `padding` argument must be one of "valid", "same". Received: {padding}\n'
            + errors.message(f"padding={padding!r}", "'valid' or 'same'", "tf.pad the input, then padding='valid'")
        )
    return lowered.upper()


def activation_of(given: Any) -> Callable[[Any], Any] | None:
    """A function of a tensor from a function, a name (``"relu"``: ``tf.nn.relu``), or None."""
    if given is None or given == "linear":
        return None
    if isinstance(given, str):
        names = api.names()
        activation = names.get(f"nn.{given}")
        if activation is None:
            raise ValueError(
                f"Unknown activation function: {given}\n"
                + errors.message(f"activation={given!r}", "a name in tf.nn, or a function", "activation=tf.nn.relu")
            )
        return activation
    if not callable(given):
        raise TypeError(
            "Could not interpret activation function identifier\n"
            + errors.message(f"activation={given!r}", "a function of a tensor", "activation=tf.nn.relu")
        )
    function: Callable[[Any], Any] = given
    return function


def initializer_of(given: Any) -> Any:
    """An initializer from an initializer or a name (``"he_normal"``: ``tf.initializers.he_normal()``)."""
    if not isinstance(given, str):
        return given
    initializer = api.names().get(f"initializers.{given}")
    if initializer is None:
        raise ValueError(
            f"Unknown initializer: {given}\n"
            + errors.message(f"initializer {given!r}", "a name in tf.initializers", "tf.glorot_uniform_initializer()")
        )
    return initializer()


def known_size(shape: Any, axis: int, layer: str) -> int:
    """Size of an axis of the input, which decides a variable's shape; ValueError if it is not known."""
    size = shapes.TensorShape(shape).as_list()[axis]
    if size is None:
        texts = {
            "Dense": "The last dimension of the inputs to `Dense` should be defined. Found `None`.",
            "BatchNormalization": f"Input has undefined `axis` dimension. Input shape: {shape}",
        }
        raise ValueError(
            texts.get(layer, "The channel dimension of the inputs should be defined. Found `None`.")
            + "\n"
            + errors.message(
                f"an input to `{layer}` of shape {shape}", f"a known size of axis {axis}", "x.set_shape([..., n])"
            )
        )
    return size


def function_of(
    layer_class: Callable[..., Layer], name: str, *, scoped: bool = True, call: Sequence[str] = ()
) -> Callable[..., Tensor]:
    """A function that makes a layer and applies it: ``dense(inputs, units, ...)`` from ``Dense(units, ...)``.

    Args:
        layer_class: the layer; its arguments follow ``inputs``.
        name: name of the function.
        scoped: the layer has variables: ``name`` is their scope as it stands, and there is an argument ``reuse``.
        call: arguments with default False that go to the call, before ``name`` (or ``trainable``, if there is one).
    """
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = [p for p in inspect.signature(layer_class).parameters.values() if p.kind is kind]
    names = [p.name for p in own]
    place = names.index("trainable" if "trainable" in names else "name")
    own[place:place] = [inspect.Parameter(item, kind, default=False) for item in call]
    parameters = [inspect.Parameter("inputs", kind), *own]
    if scoped:
        parameters.append(inspect.Parameter("reuse", kind, default=None))
    signature = inspect.Signature(parameters)

    def function(*args: Any, **kwargs: Any) -> Tensor:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        inputs = given.pop("inputs")
        of_call = {item: given.pop(item) for item in call}
        if scoped:
            given.update(_reuse=given.pop("reuse"), _scope=given["name"])
        result: Tensor = layer_class(**given)(inputs, **of_call)
        return result

    function.__name__ = function.__qualname__ = name
    function.__module__ = layer_class.__module__
    function.__signature__ = signature  # type: ignore[attr-defined]
    first = (layer_class.__doc__ or "").strip()
    function.__doc__ = (
        f"Makes a layer and applies it to ``inputs``; see :class:`{layer_class.__name__}`.\n\n    {first}"
    )
    api.publish_as(f"layers.{name}", function)
    return function
