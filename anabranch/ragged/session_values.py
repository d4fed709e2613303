"""Ragged tensors where sessions, loops and conversions meet them: taken apart, put together, fed, fetched, refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.graph import composites, convert
from anabranch.ragged.ragged_tensor import RaggedTensor
from anabranch.ragged.values import RaggedTensorValue
from anabranch.runtime.fetching import register_session_run_conversion_functions


def _parts_of(value: RaggedTensor) -> list[Any]:
    return [value.flat_values, *value.nested_row_splits]


def _rebuilt(value: RaggedTensor, tensors: Sequence[Any]) -> Any:
    result = tensors[0]
    for splits in reversed(tensors[1:]):
        result = RaggedTensor(result, splits, internal=True)
    return result


def _invariants(value: RaggedTensor, shape: Any) -> list[Any]:
    """Shapes of the parts of a loop's variable: rows and values may change in number, inner dimensions not."""
    rows = None if shape is None or shape[0] is None else shape[0] + 1
    inner = value.flat_values._shape
    return [
        None if inner is None else (None, *inner[1:]),
        (rows,),
        *[(None,)] * (value.ragged_rank - 1),
    ]


composites.register(RaggedTensor, _parts_of, _rebuilt, _invariants, lambda value: (RaggedTensor, value.ragged_rank))


def _fed(value: RaggedTensor, fed: Any) -> list[tuple[Any, Any]]:
    if not isinstance(fed, RaggedTensorValue):
        raise TypeError(
            errors.message(
                f"a {type(fed).__name__} fed to a RaggedTensor",
                "a tf.ragged.RaggedTensorValue",
                "tf.ragged.constant_value(x)",
            )
        )
    return list(zip(_parts_of(value), [fed.flat_values, *fed.nested_row_splits], strict=True))


register_session_run_conversion_functions(
    RaggedTensor,
    lambda value: (_parts_of(value), lambda found: RaggedTensorValue.of_parts(found[0], found[1:])),
    _fed,
    _parts_of,
)


def _refused(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    raise TypeError(
        f"Failed to convert object of type {type(value)} to Tensor. Contents: {value}. Consider casting elements to a "
        "supported type.\n"
        + errors.message("a ragged tensor where a dense one is wanted", "a dense tensor", "x.to_tensor()")
    )


convert.register_tensor_conversion_function((RaggedTensor, RaggedTensorValue), _refused)
