"""Conversion of Python values to tensors, and the registry that lets classes (variables, IndexedSlices) join in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.cache import memoized
from anabranch.core.graph.builder import Builder, current_builder
from anabranch.core.graph.tensor import OpView, Tensor
from anabranch.core.values import constants, dtypes

ConversionFunction = Callable[..., Any]
_functions: list[tuple[int, type | tuple[type, ...], ConversionFunction]] = []
_ONE_VALUE = (bool, int, float, complex, str, bytes, np.generic)
_pack_tensors: list[Callable[..., Tensor]] = []


def register_tensor_conversion_function(
    base_type: Any, conversion_func: ConversionFunction, priority: int = 100
) -> None:
    """Register ``conversion_func(value, dtype=None, name=None, as_ref=False)`` for instances of ``base_type``.

    Lower priorities are tried first. A function may return NotImplemented to pass.
    """
    kinds = base_type if isinstance(base_type, tuple) else (base_type,)
    if not kinds or not all(isinstance(kind, type) for kind in kinds):
        raise TypeError(errors.message(f"base_type {base_type!r}", "a type or a tuple of types", "register a class"))
    if not callable(conversion_func):
        raise TypeError(errors.message(f"conversion_func {conversion_func!r}", "a callable", "pass a function"))
    _functions.append((priority, base_type, conversion_func))
    _functions.sort(key=lambda row: row[0])
    _candidates.cache_clear()


def set_pack(pack: Callable[..., Tensor], cast: Callable[..., Tensor]) -> None:
    """Say how a list that holds tensors becomes one; called by the module that builds operations, as it loads."""
    _pack_tensors[:] = [pack, cast]


def _cast(item: Any, dtype: dtypes.DType) -> Any:
    """A part of a list as one of the dtype that is wanted of the list, if it is a tensor or a variable."""
    own = getattr(item, "dtype", None)
    if not isinstance(own, dtypes.DType) or own.base == dtype:
        return item
    return _pack_tensors[1](convert_to_tensor(item), dtype)


@memoized("conversions of classes", 1024)
def _candidates(kind: type) -> list[tuple[Any, ConversionFunction]]:
    own = [(kind, _by_own_method)] if hasattr(kind, "__tf_tensor__") else []
    return own + [(base, function) for _, base, function in _functions if issubclass(kind, base)]


def _by_own_method(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    """What ``value.__tf_tensor__`` gives: how TensorFlow 2 lets a class say which tensor it stands for."""
    return value.__tf_tensor__(dtype, name)


def constant(
    value: Any,
    dtype: Any = None,
    shape: Any = None,
    name: str | None = "Const",
    verify_shape: bool = False,
    *,
    graph: Builder | None = None,
) -> Tensor:
    """A tensor of that value: a ``Const`` operation of ``graph``, or made by the current builder."""
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    array = constants.to_array(value, wanted, shape, verify_shape=verify_shape)
    if array.size > 1 and isinstance(value, _ONE_VALUE):  # one value costs one value, in memory and in a GraphDef
        array = np.broadcast_to(array.reshape(-1)[:1].copy().reshape(()), array.shape)
    stored = wanted.base if wanted is not None else dtypes.as_dtype(array.dtype)
    return (graph or current_builder()).constant(array, stored, name or "Const")


def convert_to_tensor(
    value: Any,
    dtype: Any = None,
    name: str | None = None,
    preferred_dtype: Any = None,
    dtype_hint: Any = None,
    *,
    as_ref: bool = False,
    graph: Builder | None = None,
) -> Tensor:
    """``value`` as a tensor of the current builder: of the default graph, or one that has a value.

    Args:
        value: a tensor, a variable, an array, a (nested list of) Python number(s) or tensors.
        dtype: dtype that the tensor must have.
        name: name of the op that is made for a constant.
        preferred_dtype: dtype to use if ``dtype`` is None and the value permits it.

    Raises:
        ValueError: ``value`` is a tensor of another dtype. TypeError: it cannot be converted.
    """
    if dtype is None and graph is None and type(value) is current_builder().tensor_type:
        return value
    if isinstance(value, Tensor):
        if dtype is not None and dtypes.as_dtype(dtype).base != value.dtype.base:
            raise ValueError(
                f"Tensor conversion requested dtype {dtypes.as_dtype(dtype).name} "
                f"for Tensor with dtype {value.dtype.name}: {str(value)!r}\n"
                + errors.message(
                    f"tensor {value._label} of dtype {value.dtype.name}",
                    dtypes.as_dtype(dtype).name,
                    f"tf.cast(x, tf.{dtypes.as_dtype(dtype).name})",
                )
            )
        builder = graph or current_builder()
        return value if type(value) is builder.tensor_type else builder.adopt(value)
    if isinstance(value, OpView):
        raise TypeError(
            f"Can't convert Operation {value.name!r} to Tensor\n"
            + errors.message(f"operation {value.name!r} as a tensor", "one of its outputs", "op.outputs[0]")
        )
    wanted = None if dtype is None else dtypes.as_dtype(dtype).base
    preferred = preferred_dtype if preferred_dtype is not None else dtype_hint
    hint = None if wanted is not None or preferred is None else dtypes.as_dtype(preferred)
    if hint is not None and hint.is_integer and not fits(value, hint):
        preferred = None  # a size or an index that needs more bits; nothing is cut off
    for _, function in _candidates(type(value)):
        if wanted is None and preferred is not None:
            try:
                tensor = function(value, dtype=dtypes.as_dtype(preferred), name=name, as_ref=as_ref)
                if tensor is not NotImplemented and tensor.dtype.base == dtypes.as_dtype(preferred).base:
                    return tensor
            except (TypeError, ValueError):
                pass
        tensor = function(value, dtype=wanted, name=name, as_ref=as_ref)
        if tensor is NotImplemented:
            continue
        if not isinstance(tensor, Tensor):
            raise RuntimeError(f"conversion function {function!r} returned {tensor!r}, not a tensor")
        if wanted is not None and tensor.dtype.base != wanted:
            raise ValueError(
                errors.message(
                    f"a {type(value).__name__} of dtype {tensor.dtype.name}",
                    wanted.name,
                    f"tf.cast(x, tf.{wanted.name})",
                )
            )
        return tensor
    if isinstance(value, (list, tuple)) and _holds_tensors(value):
        if hint is not None and hint.is_integer and wanted is None:  # a shape of floats, say
            own = first_dtype(value)
            wanted = hint if own is not None and own.is_floating else None
        return _pack(value, wanted, name)
    if wanted is None and preferred is not None:
        try:
            return constant(value, preferred, name=name, graph=graph)
        except (TypeError, ValueError):
            pass
    return constant(value, wanted, name=name, graph=graph)


def fits(value: Any, dtype: dtypes.DType) -> bool:
    """Whether integers that are not a tensor's are numbers of a dtype; True for all other values."""
    if isinstance(value, (int, np.integer)):
        least = most = int(value)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size:
        least, most = int(value.min()), int(value.max())
    elif isinstance(value, (list, tuple)):
        return all(fits(item, dtype) for item in value)
    else:
        return True
    return dtype.min <= least and most <= dtype.max


def _holds_tensors(value: Any) -> bool:
    for item in value:
        if isinstance(item, Tensor) or (isinstance(item, (list, tuple)) and _holds_tensors(item)):
            return True
        if not isinstance(item, (int, float, bool, str, bytes, np.generic, np.ndarray, list, tuple)) and _candidates(
            type(item)
        ):
            return True
    return False


def first_dtype(value: Any) -> dtypes.DType | None:
    """The dtype of the first tensor or variable in nested lists; None if there is none."""
    for item in value:
        if isinstance(item, (list, tuple)):
            dtype = first_dtype(item)
            if dtype is not None:
                return dtype
        elif isinstance(getattr(item, "dtype", None), dtypes.DType):
            return item.dtype.base
    return None


def _pack(value: Any, wanted: dtypes.DType | None, name: str | None) -> Tensor:
    own = first_dtype(value)
    dtype = wanted or own
    casts = own is not None and dtype != own
    with current_builder().name_scope(name or "packed") as scope:
        items = [
            _pack(item, dtype, str(i))
            if isinstance(item, (list, tuple)) and _holds_tensors(item)
            else convert_to_tensor(_cast(item, dtype) if casts and dtype is not None else item, dtype, str(i))
            for i, item in enumerate(value)
        ]
        return _pack_tensors[0](items, scope)


def convert_n_to_tensor(
    values: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None
) -> list[Tensor]:
    """Convert each of ``values``; names get an index."""
    return [
        convert_to_tensor(value, dtype, None if name is None else f"{name}_{i}", preferred_dtype)
        for i, value in enumerate(values)
    ]
