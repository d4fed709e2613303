"""Tensors that have a value: what ops give where they run when they are applied.

An :class:`EagerTensor` holds an array of NumPy's, an array on a device, or what is behind a variant or handle (a list
of tensors, a dataset, the handle of a variable). The value never changes, so kernels may return views of their
operands, and tensors may share memory. What a program gets from :meth:`EagerTensor.numpy` is its own.

Equality and hash are those of objects, as in TensorFlow 1: tensors are keys everywhere.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.graph.tensor import OpView, Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.dtypes import DType
from anabranch.placement.devices import LOCAL_TASK
from anabranch.xla import engine

_numbers = itertools.count()


class EagerTensor(Tensor):
    """A tensor with a value: an immutable array, of NumPy's or on a device."""

    __slots__ = ("_handle", "_host", "_made_by", "_value", "dtype")

    has_value = True

    _value: Any
    _host: Any
    """The value as an array of NumPy's, once somebody has asked for it; None before."""
    _made_by: OpView | None
    """Of a handle, the op that named the resource: another mode makes such an op to name it, too."""

    def __init__(self, value: Any, dtype: DType, handle: Any = None, made_by: OpView | None = None) -> None:
        self._value = value
        self.dtype = dtype
        self._host = value if type(value) is np.ndarray else None
        self._handle = handle
        self._made_by = made_by

    # ------------------------------------------------------------------------------------------------ dtype and shape
    @property
    def _shape(self) -> shapes.RawShape:  # type: ignore[override]
        return getattr(self._value, "shape", ())

    @property
    def shape(self) -> shapes.TensorShape:
        """Shape, which is fully known."""
        return shapes.TensorShape(getattr(self._value, "shape", ()))

    def _shape_tuple(self) -> tuple[int, ...]:
        return getattr(self._value, "shape", ())

    def _shape_as_list(self) -> list[int]:
        return list(self._shape_tuple())

    @property
    def ndim(self) -> int:
        """Rank."""
        return len(self._shape_tuple())

    def _num_elements(self) -> int:
        return int(np.prod(self._shape_tuple(), dtype=np.int64))

    def _rank(self) -> int:
        return len(self._shape_tuple())

    @property
    def _dtype(self) -> DType:
        return self.dtype

    @property
    def _id(self) -> int:
        """A number that no other tensor has, given when somebody asks for it."""
        return self.__dict__.setdefault("_number", next(_numbers))

    @property
    def _resource_name(self) -> str:
        maker = self._made_by
        return maker._attrs["shared_name"] if maker is not None else super()._resource_name

    # --------------------------------------------------------------------------------------------------------- values
    def _array(self) -> np.ndarray:
        """The value as an array of NumPy's that nobody may write to."""
        if readers:
            _tell_readers(self)
        host = self._host
        if host is None:
            if self.dtype.np is None:
                self._refuse_array()
            host = self._host = np.asarray(self._value)
        return host

    def _refuse_array(self) -> None:
        raise ValueError(
            f"Cannot convert a Tensor of dtype {self.dtype.name} to a NumPy array.\n"
            + errors.message(
                f"the array of a {self.dtype.name}",
                "a tensor of numbers, bools or strings",
                "read what it stands for: variable.read_value(), iterator.get_next()",
            )
        )

    @property
    def _known(self) -> Any:
        if readers:
            _tell_readers(self)
        return self._peek()

    def _peek(self) -> Any:
        """What is known of the value, for what does not decide by it which ops it applies."""
        host = self._host
        if host is not None:
            return host
        if self.dtype.np is None:
            return None
        host = self._host = np.asarray(self._value)
        return host

    def numpy(self) -> Any:
        """The value: an array that the caller owns; of a scalar, NumPy's scalar, or bytes."""
        array = self._array()
        return np.array(array) if array.ndim else array[()]

    def _numpy(self) -> Any:
        return self.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self._array()
        if copy is False:
            return np.asarray(array, dtype)
        return np.array(array, dtype)

    def __dlpack__(self, **how: Any) -> Any:
        value = self._value
        if isinstance(value, np.ndarray):
            return np.array(value).__dlpack__()  # its own: who takes it may write to it
        return value.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        value = self._value
        return value.__dlpack_device__()

    # --------------------------------------------------------------------------------------------------------- Python
    def __bool__(self) -> bool:
        return bool(self._array())

    __nonzero__ = __bool__

    def __int__(self) -> int:
        array = self._array()
        return int(array.item() if array.size == 1 else array)

    def __float__(self) -> float:
        array = self._array()
        return float(array.item() if array.size == 1 else array)

    def __complex__(self) -> complex:
        return complex(self._array())

    def __index__(self) -> int:
        array = self._array()
        if array.ndim or array.dtype.kind not in "iub":
            raise TypeError(
                errors.message(
                    f"tensor {self._label} as an index", "an integer scalar", "int(x), or tf.cast(x, tf.int32)"
                )
            )
        return int(array)

    def __len__(self) -> int:
        shape = self._shape_tuple()
        if not shape:
            raise TypeError(
                "Scalar tensor has no `len()`\n"
                + errors.message(f"len() of tensor {self._label}", "a tensor with a first dimension", "x.shape.ndims")
            )
        return shape[0]

    def __format__(self, spec: str) -> str:
        if self.dtype.np is None:
            return format(str(self), spec)
        array = self.numpy()
        return format(array[()] if isinstance(array, np.ndarray) and not array.ndim else array, spec)

    def __copy__(self) -> EagerTensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> EagerTensor:
        return self

    def __reduce__(self) -> Any:
        return _restored, (self.numpy(), self.dtype.name)

    @property
    def device(self) -> str:
        """The device that holds the value."""
        devices = getattr(self._value, "devices", None)
        if devices is not None:
            (device,) = devices()
            platform = "GPU" if device.platform in ("gpu", "cuda", "rocm") else device.platform.upper()
            return f"{LOCAL_TASK}/device:{platform}:{device.id}"
        return f"{LOCAL_TASK}/device:CPU:0"

    backing_device = device

    def _copied_to(self, platform: str, number: int) -> EagerTensor:
        """The tensor with its value on a device."""
        if self.dtype.np is None:
            return self
        there = engine.devices(platform)
        if number >= len(there):
            raise RuntimeError(
                f"{platform.upper()}:{number} unknown device.\n"
                + errors.message(
                    f"a copy to {platform.upper()}:{number}",
                    f"one of {len(there)} devices of that kind",
                    "tensor.cpu(), or ask tf.test.is_gpu_available() before",
                )
            )
        with engine.x64():
            value = engine.jax().device_put(self._value, there[number])
        return EagerTensor(value, self.dtype)

    def cpu(self) -> EagerTensor:
        """The tensor with its value in the memory of the host."""
        return self if self._host is self._value else EagerTensor(self._array(), self.dtype)

    def gpu(self, gpu_index: int = 0) -> EagerTensor:
        """The tensor with its value on a GPU."""
        return self._copied_to("gpu", gpu_index)

    def __str__(self) -> str:
        return f"tf.Tensor({self._text()}, shape={self.shape}, dtype={self.dtype.name})"

    def __repr__(self) -> str:
        return f"<tf.Tensor: id={self._id}, shape={self.shape}, dtype={self.dtype.name}, numpy={self._text(True)}>"

    def _text(self, as_repr: bool = False) -> str:
        if self.dtype.np is None:
            return "<unprintable>"
        array = self._array()
        text = repr(array) if as_repr and array.ndim else repr(array.item()) if as_repr else str(array)
        return "\n" + text if "\n" in text else text


readers: list[list[EagerTensor]] = []
"""Lists of what looks at values (:mod:`anabranch.eager.kept_rules`): the tensors whose values Python has seen."""


def _tell_readers(tensor: EagerTensor) -> None:
    for reader in list(readers):
        reader.append(tensor)


def _restored(array: Any, name: str) -> EagerTensor:
    """A tensor that was pickled."""
    dtype = dtypes.as_dtype(name)
    return EagerTensor(np.asarray(array, dtype.np), dtype)
