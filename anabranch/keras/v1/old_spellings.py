"""Arguments of layers and models as Keras 1 and early Keras 2 spelled them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

# Old name: names of now, of which the first that the function takes is meant.
_OLD: dict[str, tuple[str, ...]] = {
    "output_dim": ("units", "output_dim"),
    "nb_filter": ("filters",),
    "filter_length": ("kernel_size",),
    "init": ("kernel_initializer", "embeddings_initializer"),
    "inner_init": ("recurrent_initializer",),
    "inner_activation": ("recurrent_activation",),
    "border_mode": ("padding",),
    "subsample": ("strides",),
    "subsample_length": ("strides",),
    "pool_length": ("pool_size",),
    "stride": ("strides",),
    "W_regularizer": ("kernel_regularizer", "embeddings_regularizer"),
    "U_regularizer": ("recurrent_regularizer",),
    "b_regularizer": ("bias_regularizer",),
    "W_constraint": ("kernel_constraint", "embeddings_constraint"),
    "U_constraint": ("recurrent_constraint",),
    "b_constraint": ("bias_constraint",),
    "dropout_W": ("dropout",),
    "dropout_U": ("recurrent_dropout",),
    "bias": ("use_bias",),
    "p": ("rate",),
    "sigma": ("stddev",),
    "dim_ordering": ("data_format",),
    "atrous_rate": ("dilation_rate",),
    "nb_epoch": ("epochs",),
    "samples_per_epoch": ("steps_per_epoch",),
    "nb_val_samples": ("validation_steps",),
    "val_samples": ("steps",),
    "input": ("inputs",),
    "output": ("outputs",),
    "keep_dims": ("keepdims",),
}
_ORDERINGS = {"tf": "channels_last", "th": "channels_first", "default": None}


def modern(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes the older names of its arguments too."""
    if hasattr(function, "_takes_old_names"):
        return function
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not kwargs.keys() <= known:
            kwargs = _renamed(kwargs, names)
        return function(*args, **kwargs)

    known = set(names)
    call._takes_old_names = True  # type: ignore[attr-defined]
    return call


def _renamed(kwargs: dict[str, Any], names: list[str]) -> dict[str, Any]:
    given = {}
    for name, value in kwargs.items():
        wanted = next((new for new in _OLD.get(name, ()) if new in names), None)
        if name in names or wanted is None or wanted in kwargs:
            given[name] = value
        elif name == "dim_ordering":
            given[wanted] = _ORDERINGS.get(value, value)
        else:
            given[wanted] = value
    if "nb_row" in given and "nb_col" in given and "kernel_size" in names:
        given["kernel_size"] = (given.pop("nb_row"), given.pop("nb_col"))
    return given
