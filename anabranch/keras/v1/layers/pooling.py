"""Pooling, padding, cropping and resizing."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import backend_nn, state
from anabranch.keras.v1.layer import InputSpec, registry
from anabranch.keras.v1.layers.config import Configured, counted, window_length


class _Spatial(Configured):
    """What changes the spatial axes alone."""

    _rank = 2

    def _place(self, data_format: str | None) -> None:
        self._keep(data_format=state.data_format_of(data_format))
        self.input_spec = InputSpec(ndim=self._rank + 2)

    def _split(self, input_shape: Any) -> tuple[list[Any], Any]:
        sizes = list(K.dims(input_shape))
        if getattr(self, "data_format", "channels_last") == "channels_first":
            return sizes[2:], lambda spatial: tf.TensorShape([*sizes[:2], *spatial])
        return sizes[1:-1], lambda spatial: tf.TensorShape([sizes[0], *spatial, sizes[-1]])


class _Pooling(_Spatial):
    _mode = "max"

    def _set(self, pool_size: Any, strides: Any, padding: str, data_format: str | None) -> None:
        size = counted(pool_size, self._rank, "pool_size")
        steps = size if strides is None else counted(strides, self._rank, "strides")
        if padding.lower() not in ("valid", "same"):
            raise ValueError(
                f"Invalid padding: {padding}\n" + errors.message(repr(padding), "'valid' or 'same'", "padding='same'")
            )
        self._keep(pool_size=size, strides=steps, padding=padding.lower())
        self._place(data_format)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return backend_nn.pool(inputs, self.pool_size, self.strides, self.padding, self.data_format, self._mode)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        spatial, whole = self._split(input_shape)
        return whole(
            [
                window_length(length, size, self.padding, stride)
                for length, size, stride in zip(spatial, self.pool_size, self.strides, strict=True)
            ]
        )


class _Pooling1D(_Pooling):
    _rank = 1

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: str = "valid",
        data_format: Any = "channels_last",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._set(pool_size, strides, padding, data_format)


class _Pooling2D(_Pooling):
    def __init__(
        self,
        pool_size: Any = (2, 2),
        strides: Any = None,
        padding: str = "valid",
        data_format: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._set(pool_size, strides, padding, data_format)


class _Pooling3D(_Pooling):
    _rank = 3

    def __init__(
        self,
        pool_size: Any = (2, 2, 2),
        strides: Any = None,
        padding: str = "valid",
        data_format: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._set(pool_size, strides, padding, data_format)


@registry.add("MaxPool1D")
class MaxPooling1D(_Pooling1D):
    """Greatest values of windows in time."""


@registry.add("MaxPool2D")
class MaxPooling2D(_Pooling2D):
    """Greatest values of windows of images."""


@registry.add("MaxPool3D")
class MaxPooling3D(_Pooling3D):
    """Greatest values of windows of volumes."""


@registry.add("AvgPool1D")
class AveragePooling1D(_Pooling1D):
    """Mean values of windows in time."""

    _mode = "avg"


@registry.add("AvgPool2D")
class AveragePooling2D(_Pooling2D):
    """Mean values of windows of images."""

    _mode = "avg"


@registry.add("AvgPool3D")
class AveragePooling3D(_Pooling3D):
    """Mean values of windows of volumes."""

    _mode = "avg"


class _Global(_Spatial):
    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._place(data_format)

    def _axes(self) -> list[int]:
        first = 2 if self.data_format == "channels_first" else 1
        return list(range(first, first + self._rank))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        return self._split(input_shape)[1]([])


class _GlobalMax(_Global):
    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return tf.reduce_max(inputs, self._axes())


class _GlobalMean(_Global):
    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return tf.reduce_mean(inputs, self._axes())


@registry.add("GlobalMaxPool1D")
class GlobalMaxPooling1D(_GlobalMax):
    """Greatest value in time."""

    _rank = 1


@registry.add("GlobalMaxPool2D")
class GlobalMaxPooling2D(_GlobalMax):
    """Greatest value of images."""


@registry.add("GlobalMaxPool3D")
class GlobalMaxPooling3D(_GlobalMax):
    """Greatest value of volumes."""

    _rank = 3


@registry.add("GlobalAvgPool1D")
class GlobalAveragePooling1D(_GlobalMean):
    """Mean value in time, of the steps that are not masked."""

    _rank = 1

    def __init__(self, data_format: str | None = "channels_last", **kwargs: Any) -> None:
        super().__init__(data_format, **kwargs)
        self.supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the outputs."""
        if mask is None:
            return super().call(inputs)
        axis = self._axes()[0]
        kept = tf.expand_dims(tf.cast(mask, inputs.dtype.base_dtype), 2 if axis == 1 else 1)
        return tf.reduce_sum(inputs * kept, axis) / tf.reduce_sum(kept, axis)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """None: the outputs have no steps."""
        return None


@registry.add("GlobalAvgPool2D")
class GlobalAveragePooling2D(_GlobalMean):
    """Mean value of images."""


@registry.add("GlobalAvgPool3D")
class GlobalAveragePooling3D(_GlobalMean):
    """Mean value of volumes."""

    _rank = 3


# ----------------------------------------------------------------------------------------- padding, cropping, resizing


def _pairs(value: Any, rank: int, name: str) -> tuple[tuple[int, int], ...]:
    if isinstance(value, int):
        return ((value, value),) * rank
    if not hasattr(value, "__len__") or len(value) != rank:
        raise ValueError(
            f"`{name}` should have {rank} elements. Found: {value}\n"
            + errors.message(f"{name}={value!r}", f"{rank} numbers or pairs", f"{name}=1")
        )
    return tuple((side, side) if isinstance(side, int) else (int(side[0]), int(side[1])) for side in value)


class _Padding(_Spatial):
    def _set(self, padding: Any, data_format: str | None) -> None:
        self._keep(padding=padding)
        self._place(data_format)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return backend_nn._pad(inputs, self.padding, self.data_format)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        spatial, whole = self._split(input_shape)
        return whole([None if n is None else n + sum(pad) for n, pad in zip(spatial, self.padding, strict=True)])


@registry.add()
class ZeroPadding1D(Configured):
    """Zeros before and after in time."""

    def __init__(self, padding: Any = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(padding=counted(padding, 2, "padding"))
        self.input_spec = InputSpec(ndim=3)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return backend_nn.temporal_padding(inputs, self.padding)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        batch, length, features = K.dims(input_shape)
        return tf.TensorShape([batch, None if length is None else length + sum(self.padding), features])


@registry.add()
class ZeroPadding2D(_Padding):
    """Zeros around images."""

    def __init__(self, padding: Any = (1, 1), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._set(_pairs(padding, 2, "padding"), data_format)


@registry.add()
class ZeroPadding3D(_Padding):
    """Zeros around volumes."""

    _rank = 3

    def __init__(self, padding: Any = (1, 1, 1), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._set(_pairs(padding, 3, "padding"), data_format)


class _Cropping(_Spatial):
    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        cuts = [slice(before, -after or None) for before, after in self._cuts()]
        first = [slice(None)] * (2 if getattr(self, "data_format", "") == "channels_first" else 1)
        return inputs[(*first, *cuts)]

    def _cuts(self) -> Any:
        return self.cropping

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        spatial, whole = self._split(input_shape)
        return whole([None if n is None else n - sum(cut) for n, cut in zip(spatial, self._cuts(), strict=True)])


@registry.add()
class Cropping1D(_Cropping):
    """Steps cut off at both ends."""

    def __init__(self, cropping: Any = (1, 1), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(cropping=counted(cropping, 2, "cropping"))
        self.input_spec = InputSpec(ndim=3)

    def _cuts(self) -> Any:
        return [self.cropping]


@registry.add()
class Cropping2D(_Cropping):
    """Rows and columns cut off at the edges of images."""

    def __init__(self, cropping: Any = ((0, 0), (0, 0)), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(cropping=_pairs(cropping, 2, "cropping"))
        self._place(data_format)


@registry.add()
class Cropping3D(_Cropping):
    """Slices cut off at the edges of volumes."""

    _rank = 3

    def __init__(self, cropping: Any = ((1, 1), (1, 1), (1, 1)), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(cropping=_pairs(cropping, 3, "cropping"))
        self._place(data_format)


@registry.add()
class UpSampling1D(Configured):
    """Each step repeated."""

    def __init__(self, size: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(size=int(size))
        self.input_spec = InputSpec(ndim=3)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return K.repeat_elements(inputs, self.size, 1)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        batch, length, features = K.dims(input_shape)
        return tf.TensorShape([batch, None if length is None else length * self.size, features])


class _UpSampling(_Spatial):
    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        spatial, whole = self._split(input_shape)
        return whole([None if n is None else n * factor for n, factor in zip(spatial, self.size, strict=True)])


@registry.add()
class UpSampling2D(_UpSampling):
    """Images made greater by whole factors."""

    def __init__(
        self, size: Any = (2, 2), data_format: str | None = None, interpolation: str = "nearest", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._keep(size=counted(size, 2, "size"), interpolation=interpolation)
        self._place(data_format)
        if interpolation not in {"nearest", "bilinear"}:
            raise ValueError(
                '`interpolation` argument should be one of `"nearest"` or `"bilinear"`.\n'
                + errors.message(repr(interpolation), "'nearest' or 'bilinear'", "interpolation='nearest'")
            )

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return backend_nn.resize_images(
            inputs, self.size[0], self.size[1], self.data_format, interpolation=self.interpolation
        )


@registry.add()
class UpSampling3D(_UpSampling):
    """Volumes made greater by whole factors."""

    _rank = 3

    def __init__(self, size: Any = (2, 2, 2), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(size=counted(size, 3, "size"))
        self._place(data_format)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return backend_nn.resize_volumes(inputs, self.size[0], self.size[1], self.size[2], self.data_format)
