"""Pooling in one, two and three dimensions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import shapes
from anabranch.layers.arguments import channels_first, function_of, numbers, op_format, padding_name
from anabranch.layers.base import InputSpec, Layer
from anabranch.ops.nn.windows import public_pooling as pools

_ARGUMENTS = """

    Args:
        pool_size: sizes of the window, one number for each spatial dimension, or one for all.
        strides: its steps, likewise.
        padding: ``"valid"`` or ``"same"``.
        data_format: ``"channels_last"`` or ``"channels_first"``.
        name: name of the layer.
        **kwargs: arguments of `Layer`.
    """


class Pooling(Layer):
    """Base of the pooling layers: subclasses say the function and the number of spatial dimensions."""

    function: Callable[..., Any]
    rank: int

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.pool_size = numbers(pool_size, self.rank, "pool_size")
        if strides is None:
            raise ValueError(
                "Argument `strides` must not be None.\n"
                + errors.message("strides=None", "a step for each dimension", f"strides={pool_size!r}")
            )
        self.strides = numbers(strides, self.rank, "strides")
        self.padding = padding_name(padding).lower()
        self.data_format = data_format
        self._first = channels_first(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def call(self, inputs: Tensor) -> Tensor:
        """The pooled inputs."""
        # TensorFlow's CPU kernels pool three dimensions with the channels last only: a graph that is to run there, too,
        # turns them.
        turns = self._first and self.rank == 3
        if turns:
            inputs = build("Transpose", inputs, (0, 2, 3, 4, 1), name="transpose")
        form = op_format("channels_last" if turns else self.data_format, self.rank)
        result: Tensor = type(self).function(
            inputs, list(self.pool_size), list(self.strides), self.padding.upper(), data_format=form
        )
        return build("Transpose", result, (0, 4, 1, 2, 3), name="transpose") if turns else result

    def compute_output_shape(self, input_shape: Any) -> shapes.TensorShape:
        """The input's shape with its spatial sizes pooled."""
        sizes: list[Any] = shapes.TensorShape(input_shape).as_list()
        start = 2 if self._first else 1
        for i, (window, step) in enumerate(zip(self.pool_size, self.strides, strict=True), start):
            if sizes[i] is not None:
                places = sizes[i] if self.padding == "same" else sizes[i] - window + 1
                sizes[i] = -(-places // step)
        return shapes.TensorShape(sizes)


def _declare(kind: str, rank: int, function: Callable[..., Any]) -> None:
    word = {"Max": "Largest value", "Average": "Mean"}[kind]
    name = f"{kind}Pooling{rank}D"
    doc = f"{word} of each window in {rank} spatial dimension{'s' * (rank > 1)}.{_ARGUMENTS}"
    members = {"__doc__": doc, "__module__": __name__, "rank": rank, "function": staticmethod(function)}
    layer_class = public(f"layers.{name}")(type(name, (Pooling,), members))
    globals()[name] = layer_class
    function_of(layer_class, f"{kind.lower()}_pooling{rank}d", scoped=False)


_FUNCTIONS: tuple[tuple[str, tuple[Callable[..., Any], ...]], ...] = (
    ("Max", (partial(pools.pool1d, "MaxPool"), pools.max_pool, pools.max_pool3d)),
    ("Average", (partial(pools.pool1d, "AvgPool"), pools.avg_pool, pools.avg_pool3d)),
)
for _kind, _functions in _FUNCTIONS:
    for _rank, _function in enumerate(_functions, 1):
        _declare(_kind, _rank, _function)
