"""The functions of ``tf`` that take ragged tensors.

Policy. A function's own work comes first and knows nothing of rows: only where it fails, for a ragged tensor among its
arguments, is the one for ragged tensors called. So dense programs pay for one Python call, and a function's errors stay
what they are. The tables below are the whole list.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from anabranch import ops
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.ragged import arrays, elementwise, reductions
from anabranch.ragged.ragged_tensor import RaggedTensor, is_ragged

_UNARY = [
    "check_numerics",
    "identity",
    "ones_like",
    "zeros_like",
    "clip_by_value",
    "bitwise.invert",
    "abs",
    "math.acos",
    "math.acosh",
    "math.angle",
    "math.asin",
    "math.asinh",
    "math.atan",
    "math.atanh",
    "cast",
    "math.ceil",
    "math.conj",
    "math.cos",
    "math.cosh",
    "math.digamma",
    "math.erf",
    "math.erfc",
    "math.exp",
    "math.expm1",
    "math.floor",
    "math.imag",
    "math.is_finite",
    "math.is_inf",
    "math.is_nan",
    "math.lgamma",
    "math.log",
    "math.log1p",
    "math.log_sigmoid",
    "math.logical_not",
    "math.negative",
    "math.real",
    "math.reciprocal",
    "math.rint",
    "math.round",
    "math.rsqrt",
    "saturate_cast",
    "math.sign",
    "math.sin",
    "math.sinh",
    "math.sqrt",
    "math.square",
    "math.tan",
    "math.tanh",
    "io.decode_compressed",
    "strings.to_number",
    "string_to_number",
    "strings.to_hash_bucket",
    "strings.as_string",
    "io.decode_base64",
    "io.encode_base64",
    "strings.regex_full_match",
    "strings.regex_replace",
    "strings.strip",
    "strings.to_hash_bucket_fast",
    "strings.to_hash_bucket_strong",
    "strings.substr",
    "strings.length",
    "strings.lower",
    "strings.upper",
    "nn.relu",
    "nn.sigmoid",
    "nn.elu",
    "nn.softplus",
    "string_to_hash_bucket",
]
_LISTS = [
    "add_n",
    "strings.join",
]
_BINARY = [
    "bitwise.bitwise_and",
    "bitwise.bitwise_or",
    "bitwise.bitwise_xor",
    "bitwise.left_shift",
    "bitwise.right_shift",
    "math.add",
    "math.atan2",
    "complex",
    "math.divide_no_nan",
    "divide",
    "math.equal",
    "math.floordiv",
    "math.floormod",
    "math.greater",
    "math.greater_equal",
    "math.less",
    "math.less_equal",
    "math.logical_and",
    "math.logical_or",
    "math.logical_xor",
    "math.maximum",
    "math.minimum",
    "math.multiply",
    "math.not_equal",
    "math.pow",
    "realdiv",
    "math.squared_difference",
    "math.subtract",
    "math.truediv",
    "truncatediv",
    "truncatemod",
    "div",
]
_REDUCED = {f"math.reduce_{how}": how for how in ("sum", "prod", "min", "max", "mean", "any", "all")}
_SEGMENTS = {f"math.unsorted_segment_{how}": how for how in ("sum", "prod", "min", "max", "mean", "sqrt_n")}


def _reduced(how: str) -> Callable[..., Any]:
    def reduce(
        input_tensor: Any,
        axis: Any = None,
        keepdims: Any = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: Any = None,
    ) -> Any:
        keeps = keep_dims if keepdims is None else keepdims
        return reductions.reduced(how, input_tensor, reduction_indices if axis is None else axis, keeps, name)

    return reduce


def _expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    return arrays.expand_dims(input, dim if axis is None else axis, name)


def _gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Any:
    return arrays.gather(params, indices, validate_indices, axis, batch_dims, name)


def _gather_nd(params: Any, indices: Any, name: str | None = None, batch_dims: int = 0) -> Any:
    return arrays.gather_nd(params, indices, batch_dims, name)


def _batch_gather(params: Any, indices: Any, name: str | None = None) -> Any:
    return arrays.batch_gather(params, indices, 1, name)


def _dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Any]:
    if not isinstance(num_partitions, int) or num_partitions < 0:
        raise TypeError(
            "num_partitions must be a non-negative integer\n"
            + errors.message(f"{num_partitions!r}", "an int from 0 on", "num_partitions=2")
        )
    rows = arrays.stack_dynamic_partitions(data, partitions, num_partitions, name)
    return [rows[i] for i in range(num_partitions)]


_OTHERS: dict[str, Callable[..., Any]] = {
    "batch_gather": _batch_gather,
    "concat": arrays.concat,
    "expand_dims": _expand_dims,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "one_hot": arrays.one_hot,
    "rank": arrays.rank,
    "size": arrays.size,
    "squeeze": arrays.squeeze,
    "stack": arrays.stack,
    "tile": arrays.tile,
    "where": arrays.where,
    "where_v2": arrays.where,
    "dynamic_partition": _dynamic_partition,
}


def _has_ragged(value: Any) -> bool:
    return is_ragged(value) or (isinstance(value, (list, tuple)) and any(_has_ragged(one) for one in value))


def _dispatching(plain: Callable[..., Any], ragged: Callable[..., Any]) -> Callable[..., Any]:
    """The function ``plain`` that calls ``ragged`` where it fails for a ragged tensor."""

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return plain(*args, **kwargs)
        except (TypeError, ValueError, AttributeError):
            if not any(map(_has_ragged, args)) and not any(map(_has_ragged, kwargs.values())):
                raise
        return ragged(*args, **kwargs)

    return call


def _install() -> None:
    """Put functions that take ragged tensors in the place of those that do not, under all their names."""
    table: dict[int, tuple[Callable[..., Any], Callable[..., Any]]] = {}

    def add(name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        plain = api.names()[name]
        if id(plain) not in table:
            table[id(plain)] = (plain, _dispatching(plain, make(plain)))

    for name in _UNARY:
        add(name, lambda plain: functools.partial(_first, elementwise.unary, plain))
    for name in _LISTS:
        add(name, lambda plain: functools.partial(_first, elementwise.listed, plain))
    for name in _BINARY:
        add(name, lambda plain: functools.partial(_two, plain))
    for name, how in _REDUCED.items():
        add(name, lambda plain, how=how: _reduced(how))  # type: ignore[misc]
    for name, how in _SEGMENTS.items():
        add(name, lambda plain, how=how: functools.partial(reductions.segments, how))  # type: ignore[misc]
    for name, function in _OTHERS.items():
        add(name, lambda plain, function=function: function)  # type: ignore[misc]
    for name, value in list(api.names().items()):
        if id(value) not in table:
            continue
        api.names()[name] = table[id(value)][1]
        space, _, last = name.rpartition(".")
        home = sys.modules.get(f"anabranch.{space}" if space else "anabranch")
        if home is not None and home.__dict__.get(last) is value:
            setattr(home, last, table[id(value)][1])


def _first(apply: Callable[..., Any], plain: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``apply`` with the first argument of a function, which may be given by its name."""
    if not args:
        first = next(key for key, value in kwargs.items() if _has_ragged(value))
        args = (kwargs.pop(first),)
    return apply(plain, *args, **kwargs)


def _two(plain: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    names = [name for name in ("x", "y", "real", "imag") if name in kwargs]
    operands = [*args[:2], *[kwargs.pop(name) for name in names]]
    return elementwise.binary(plain, *operands[:2], *args[2:], **kwargs)


ops.load_all()  # what is replaced must be there
_install()


# ------------------------------------------------------------------------------------------------------------ operators
def _named(name: str) -> Callable[..., Any]:
    def operator(x: Any, y: Any) -> Any:
        return api.names()[name](x, y)

    return operator


def _reflected(name: str) -> Callable[..., Any]:
    def operator(x: Any, y: Any) -> Any:
        return api.names()[name](y, x)

    return operator


for _own, _name in {
    "add": "math.add",
    "sub": "math.subtract",
    "mul": "math.multiply",
    "truediv": "math.truediv",
    "div": "div",
    "floordiv": "math.floordiv",
    "mod": "math.floormod",
    "pow": "math.pow",
    "and": "math.logical_and",
    "or": "math.logical_or",
    "xor": "math.logical_xor",
}.items():
    setattr(RaggedTensor, f"__{_own}__", _named(_name))
    setattr(RaggedTensor, f"__r{_own}__", _reflected(_name))
for _own, _name in {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}.items():
    setattr(RaggedTensor, f"__{_own}__", _named(f"math.{_name}"))
for _own, _name in {"abs": "abs", "neg": "math.negative", "invert": "math.logical_not"}.items():
    setattr(RaggedTensor, f"__{_own}__", lambda x, _name=_name: api.names()[_name](x))


def _no_truth(value: RaggedTensor) -> bool:
    raise TypeError(
        "RaggedTensor may not be used as a boolean.\n"
        + errors.message("a ragged tensor used as a Python bool", "a value", "tf.reduce_any(x), run by a session")
    )


RaggedTensor.__bool__ = RaggedTensor.__nonzero__ = _no_truth  # type: ignore[attr-defined]
