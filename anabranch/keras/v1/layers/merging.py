"""Layers of several inputs."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1.layer import registry
from anabranch.keras.v1.layers.config import Configured


class _Merge(Configured):
    """Base of layers of several inputs, whose shapes are broadcast to each other."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def _merge(self, inputs: list[Any]) -> Any:
        raise NotImplementedError

    def build(self, input_shape: Any) -> None:
        """Check the shapes."""
        if not isinstance(input_shape, list) or len(input_shape) < 2:
            raise ValueError(
                "A merge layer should be called on a list of at least 2 inputs.\n"
                + errors.message(f"inputs of shape {input_shape}", "a list of two tensors or more", "Add()([x, y])")
            )
        batches = {K.dims(shape)[0] for shape in input_shape} - {None}
        if len(batches) > 1:
            raise ValueError(
                f"Can not merge tensors with different batch sizes. Got tensors with shapes : {input_shape}\n"
                + errors.message(f"shapes {input_shape}", "one batch size", "x[:n]")
            )
        self._check(input_shape)
        self.built = True

    def _check(self, shapes: list[Any]) -> None:
        self.compute_output_shape(shapes)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        if not isinstance(inputs, (list, tuple)):
            raise ValueError(
                "A merge layer should be called on a list of inputs.\n"
                + errors.message(f"{inputs}", "a list of tensors", "Add()([x, y])")
            )
        rank = max(K.ndim(x) for x in inputs)
        wide = []
        for x in inputs:
            while K.ndim(x) < rank:
                x = tf.expand_dims(x, 1)
            wide.append(x)
        return self._merge(wide)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        shapes = [list(K.dims(shape)) for shape in input_shape]
        rank = max(len(shape) for shape in shapes)
        shapes = [[shape[0], *[1] * (rank - len(shape)), *shape[1:]] for shape in shapes]
        out: list[int | None] = []
        for sizes in zip(*shapes, strict=True):
            known = {size for size in sizes if size not in (1, None)}
            if len(known) > 1:
                raise ValueError(
                    f"Operands could not be broadcast together with shapes {[tuple(s) for s in shapes]}\n"
                    + errors.message(f"shapes {[tuple(s) for s in shapes]}", "shapes that broadcast", "Reshape(...)(x)")
                )
            out.append(known.pop() if known else None if None in sizes else 1)
        return tf.TensorShape(out)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Mask of the outputs."""
        if mask is None or all(one is None for one in mask):
            return None
        joined = None
        for one in mask:
            if one is not None:
                joined = one if joined is None else tf.logical_and(joined, one)
        return joined


def _sum(inputs: list[Any]) -> Any:
    total = inputs[0]
    for x in inputs[1:]:
        total = total + x
    return total


@registry.add()
class Add(_Merge):
    """Sum of the inputs."""

    def _merge(self, inputs: list[Any]) -> Any:
        return _sum(inputs)


@registry.add()
class Subtract(_Merge):
    """The first input less the second."""

    def build(self, input_shape: Any) -> None:
        """Check the shapes."""
        super().build(input_shape)
        if len(input_shape) != 2:
            raise ValueError(
                "A `Subtract` layer should be called on exactly 2 inputs\n"
                + errors.message(f"{len(input_shape)} inputs", "two inputs", "Subtract()([x, y])")
            )

    def _merge(self, inputs: list[Any]) -> Any:
        return inputs[0] - inputs[1]


@registry.add()
class Multiply(_Merge):
    """Product of the inputs, element by element."""

    def _merge(self, inputs: list[Any]) -> Any:
        product = inputs[0]
        for x in inputs[1:]:
            product = product * x
        return product


@registry.add()
class Average(_Merge):
    """Mean of the inputs."""

    def _merge(self, inputs: list[Any]) -> Any:
        return _sum(inputs) / len(inputs)


@registry.add()
class Maximum(_Merge):
    """Greatest of the inputs, element by element."""

    def _merge(self, inputs: list[Any]) -> Any:
        best = inputs[0]
        for x in inputs[1:]:
            best = tf.maximum(best, x)
        return best


@registry.add()
class Minimum(_Merge):
    """Least of the inputs, element by element."""

    def _merge(self, inputs: list[Any]) -> Any:
        best = inputs[0]
        for x in inputs[1:]:
            best = tf.minimum(best, x)
        return best


@registry.add()
class Concatenate(_Merge):
    """The inputs joined along an axis."""

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(axis=axis)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return K.concatenate(list(inputs), axis=self.axis)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        shapes = [list(K.dims(shape)) for shape in input_shape]
        axis = self.axis % len(shapes[0])
        out = list(shapes[0])
        for shape in shapes[1:]:
            for i, size in enumerate(shape):
                if i == axis:
                    out[i] = None if out[i] is None or size is None else out[i] + size
                elif size is not None and out[i] is not None and size != out[i]:
                    raise ValueError(
                        "A `Concatenate` layer requires inputs with matching shapes except for "
                        "the concat axis. Got inputs "
                        f"shapes: {[tuple(s) for s in shapes]}\n"
                        + errors.message(
                            f"{[tuple(s) for s in shapes]}", f"equal sizes but on axis {axis}", "Cropping2D"
                        )
                    )
                else:
                    out[i] = size if out[i] is None else out[i]
        return tf.TensorShape(out)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Mask of the outputs."""
        if mask is None or all(one is None for one in mask):
            return None
        parts = []
        for x, one in zip(inputs, mask, strict=True):
            whole = tf.ones_like(x, dtype=tf.bool)
            if one is not None:
                while K.ndim(one) < K.ndim(x):
                    one = tf.expand_dims(one, -1)
                whole = tf.logical_and(whole, one)
            parts.append(whole)
        return tf.reduce_all(tf.concat(parts, self.axis), -1)


@registry.add()
class Dot(_Merge):
    """Product of two inputs over an axis of each.

    Args:
        axes: the axis, or one for each.
        normalize: scale the inputs to norm 1 along it.
    """

    def __init__(self, axes: Any, normalize: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(axes, (int, list, tuple)):
            raise TypeError(
                "Invalid type for `axes` - should be a list or an int.\n"
                + errors.message(f"axes={axes!r}", "an axis, or one for each input", "Dot(axes=(1, 2))")
            )
        if not isinstance(axes, int) and (len(axes) != 2 or not all(isinstance(axis, int) for axis in axes)):
            raise ValueError(
                "Invalid format for `axes` - should contain two elements.\n"
                + errors.message(f"axes={axes!r}", "two integers", "Dot(axes=(1, 2))")
            )
        self._keep(axes=axes, normalize=normalize)

    @staticmethod
    def _only_pairs(count: int) -> None:
        if count != 2:
            raise ValueError(
                "A `Dot` layer should be called on a list of 2 inputs.\n"
                + errors.message(f"{count} inputs", "two of them", "Dot(axes=1)([x, y])")
            )

    def build(self, input_shape: Any) -> None:
        """Check the number of inputs."""
        self._only_pairs(len(input_shape) if isinstance(input_shape, (list, tuple)) else 1)
        super().build(input_shape)

    def _pair(self, ranks: list[int]) -> list[int]:
        axes = [self.axes] * 2 if isinstance(self.axes, int) else list(self.axes)
        return [axis % rank for axis, rank in zip(axes, ranks, strict=True)]

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        x, y = inputs
        axes = self._pair([K.ndim(x), K.ndim(y)])
        if self.normalize:
            x, y = tf.nn.l2_normalize(x, axis=axes[0]), tf.nn.l2_normalize(y, axis=axes[1])
        return K.batch_dot(x, y, axes)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        self._only_pairs(len(input_shape) if isinstance(input_shape, (list, tuple)) else 1)
        first, second = (tuple(K.dims(shape)) for shape in input_shape)
        axes = self._pair([len(first), len(second)])
        if first[axes[0]] != second[axes[1]] and None not in (first[axes[0]], second[axes[1]]):
            raise ValueError(
                f"Dimension incompatibility {first[axes[0]]} != {second[axes[1]]}. Layer shapes: {first}, {second}\n"
                + errors.message(f"shapes {first}, {second}", f"equal sizes of axes {axes}", "Dot(axes=(1, 2))")
            )
        out = [
            *[s for i, s in enumerate(first) if i != axes[0]],
            *[s for i, s in enumerate(second) if i not in (0, axes[1])],
        ]
        return tf.TensorShape(out if len(out) > 1 else [*out, 1])

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """None: the outputs are not masked."""
        return None


def add(inputs: Any, **kwargs: Any) -> Any:
    """Sum of tensors."""
    return Add(**kwargs)(inputs)


def subtract(inputs: Any, **kwargs: Any) -> Any:
    """The first tensor less the second."""
    return Subtract(**kwargs)(inputs)


def multiply(inputs: Any, **kwargs: Any) -> Any:
    """Product of tensors, element by element."""
    return Multiply(**kwargs)(inputs)


def average(inputs: Any, **kwargs: Any) -> Any:
    """Mean of tensors."""
    return Average(**kwargs)(inputs)


def maximum(inputs: Any, **kwargs: Any) -> Any:
    """Greatest of tensors, element by element."""
    return Maximum(**kwargs)(inputs)


def minimum(inputs: Any, **kwargs: Any) -> Any:
    """Least of tensors, element by element."""
    return Minimum(**kwargs)(inputs)


def concatenate(inputs: Any, axis: int = -1, **kwargs: Any) -> Any:
    """Tensors joined along an axis."""
    return Concatenate(axis=axis, **kwargs)(inputs)


def dot(inputs: Any, axes: Any, normalize: bool = False, **kwargs: Any) -> Any:
    """Product of two tensors over an axis of each."""
    return Dot(axes=axes, normalize=normalize, **kwargs)(inputs)


_MODES = {"sum": Add, "mul": Multiply, "ave": Average, "max": Maximum}


def merge(inputs: Any, mode: str = "sum", concat_axis: int = -1, dot_axes: Any = -1, name: str | None = None) -> Any:
    """Tensors joined as Keras 1 spelled it.

    Args:
        inputs: the tensors.
        mode: ``'sum'``, ``'mul'``, ``'ave'``, ``'max'``, ``'concat'``, ``'dot'`` or ``'cos'``.
        concat_axis, dot_axes: axes of ``'concat'`` and of ``'dot'`` and ``'cos'``.
        name: name of the layer.
    """
    if mode == "concat":
        return concatenate(inputs, axis=concat_axis, name=name)
    if mode in ("dot", "cos"):
        return dot(inputs, dot_axes, normalize=mode == "cos", name=name)
    if mode not in _MODES:
        raise ValueError(
            f"Invalid merge mode: {mode}\n"
            + errors.message(repr(mode), f"{[*_MODES, 'concat', 'dot', 'cos']}", "'sum'")
        )
    return _MODES[mode](name=name)(inputs)
