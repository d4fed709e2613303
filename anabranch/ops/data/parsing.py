"""The stage that parses vectors of serialised ``Example`` messages, by the parser of ``ParseExample``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import Bool, List, String
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.pipeline import ELEMENTS, Dataset, Iterator, number, stage
from anabranch.ops.parsing.example_columns import as_array
from anabranch.ops.parsing.examples import VALUES, Batch, dense_columns, sparse_columns, splits_of


class _Checks:
    """What the parser says about an example, as an error of the stage."""

    def __init__(self, op: Any) -> None:
        self._op = op

    def check(self, holds: bool, kind: Any, text: str) -> None:
        """Raise if something does not hold."""
        if not holds:
            raise kind(None, self._op, text.format())


class _Parsed(Iterator):
    def next(self) -> Element | None:
        element = self.inputs[0].next()
        return None if element is None else self.dataset.parsed(element)


_FEATURES = {
    "sparse_keys": List("string", minimum=0),
    "dense_keys": List("string", minimum=0),
    "sparse_types": List("type", allowed=VALUES, minimum=0),
    "Tdense": List("type", allowed=VALUES, minimum=0),
    "dense_shapes": List("shape", minimum=0),
    **ELEMENTS,
}
_RAGGED = {
    "ragged_keys": List("string", (), minimum=0),
    "ragged_value_types": List("type", (), allowed=VALUES, minimum=0),
    "ragged_split_types": List("type", (), allowed="int32 int64", minimum=0),
}
_SIGNATURE = "input_dataset: variant, num_parallel_calls: int64, dense_defaults: [Tdense]"


@stage("ParseExampleDatasetV2", _SIGNATURE, {**_FEATURES, "deterministic": String("default"), **_RAGGED})
@stage("ParseExampleDataset", _SIGNATURE, {**_FEATURES, "sloppy": Bool(False), **_RAGGED})
@stage("ExperimentalParseExampleDataset", _SIGNATURE, {**_FEATURES, "sloppy": Bool(False)})
class ParsedExamples(Dataset):
    """The features of vectors of serialised ``Example`` messages, in the order of their keys.

    A sparse feature is a variant of its three parts, a ragged one a variant of its values and row splits.
    """

    iterator = _Parsed

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        number(ctx, operands["num_parallel_calls"], "num_parallel_calls")
        self._sparse = _texts(attrs["sparse_keys"]), attrs["sparse_types"]
        self._dense = _texts(attrs["dense_keys"]), attrs["Tdense"], attrs["dense_shapes"]
        self._ragged = (
            _texts(attrs.get("ragged_keys", ())),
            attrs.get("ragged_value_types", ()),
            attrs.get("ragged_split_types", ()),
        )
        self._defaults = operands["dense_defaults"]
        for name, parts in (("sparse", self._sparse), ("dense", self._dense), ("ragged", self._ragged)):
            ctx.check(
                len({len(part) for part in parts}) == 1,
                errors.InvalidArgumentError,
                f"there must be as many keys as types of {name} features",
            )
        keys = [*self._sparse[0], *self._dense[0], *self._ragged[0]]
        ctx.check(
            len(keys) == len(self.types),
            errors.InvalidArgumentError,
            f"output_types must have one type for each of {len(keys)} features",
        )
        self._order = sorted(range(len(keys)), key=lambda i: keys[i].encode())

    def parsed(self, element: Element) -> Element:
        """The features of an element."""
        serialized = element[0]
        batch = Batch(_Checks(self.op), "Example", serialized, None)
        if np.ndim(serialized) != 1:
            batch.refuse(f"Expected a vector of serialized examples, got shape {np.shape(serialized)}")
        count = len(self._sparse[0])
        flat = sparse_columns(batch, *self._sparse)
        parts: list[Any] = [_placed([flat[i], flat[count + i], flat[2 * count + i]]) for i in range(count)]
        parts += dense_columns(batch, *self._dense, self._defaults)
        keys, types, splits = self._ragged
        for column, dtype, split_type in zip(batch.columns(keys, types), types, splits, strict=True):
            parts.append(_placed([splits_of(column.present, split_type), as_array(column.values, dtype)]))
        return tuple([parts[i] for i in self._order])


def _placed(arrays: Sequence[Any]) -> np.ndarray:
    """A vector of variants that are arrays."""
    vector = np.empty(len(arrays), object)
    for i, array in enumerate(arrays):
        vector[i] = array
    return vector


def _texts(names: Sequence[Any]) -> list[str]:
    return [name.decode() if isinstance(name, bytes) else name for name in names]
