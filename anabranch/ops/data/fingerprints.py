"""Fingerprints of pipelines: what tells whether a saved place is one of this pipeline.

Each stage has a digest of its kind, its attributes, its operands and its functions, with the values of what these
capture where they are constants. Names do not count, nor do seeds (a place brings its own along), nor what only says
how a stage is to run: :attr:`Dataset.free`. Of a large array a sample of its values counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.contract.roles import Role
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import functions_of
from anabranch.core.graph.operation import Operation

SAMPLE = 256
"""Values of a large array that count."""
SEEDS = frozenset(("seed", "seed2"))
_WITHOUT_MEANING = frozenset(("_class", "metadata", "name", "shared_name", "container", "token"))
"""Attributes that name something, in this process or for a reader."""


def sampled(value: Any) -> Any:
    """An operand, or of a large one what counts of it."""
    if isinstance(value, tuple | list):
        return tuple([sampled(item) for item in value])
    if isinstance(value, np.ndarray) and value.size > SAMPLE:
        return value.shape, value.dtype, value.flat[:: -(-value.size // SAMPLE)]
    return value


class _Digest:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def _text(self, text: str) -> None:
        self._hash.update(f"{len(text)}:{text}".encode())

    def value(self, value: Any) -> None:
        """Count an attribute or an operand in."""
        if isinstance(value, Body):
            self.body(value)
        elif isinstance(value, tuple | list):
            self._text(f"({len(value)}")
            for item in value:
                self.value(item)
        elif isinstance(value, dict):
            for key in sorted(value):
                self._text(str(key))
                self.value(value[key])
        elif isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            self._text(f"{array.dtype}{array.shape}")
            if array.dtype == object:
                self._text(repr([item if isinstance(item, bytes | str) else type(item) for item in array.ravel()]))
            else:
                self._hash.update(np.ascontiguousarray(array).tobytes())
        elif value is None or isinstance(value, bool | int | float | str | bytes):
            self._text(repr(value))
        elif hasattr(value, "SerializeToString"):
            self._hash.update(value.SerializeToString(deterministic=True))
        elif hasattr(value, "enum"):
            self._text(f"dtype {value.enum}")
        else:  # a handle, a dataset in a variant: of a kind
            self._text(type(value).__name__)

    def attrs(self, attrs: dict[str, Any], free: frozenset[str]) -> None:
        """Count the attributes of a stage or an op in."""
        for key in sorted(attrs):
            if key not in free and key not in _WITHOUT_MEANING:
                self._text(key)
                self.value(attrs[key])

    def body(self, body: Body) -> None:
        """Count what a function computes in: what nothing needs is not written with a graph."""
        needed = _needed(body)
        numbers = {op: i for i, op in enumerate(needed)}
        self._text(f"body {len(body.args)} {len(numbers)}")
        for op in needed:
            self._text(op.type)
            self.attrs(op._attrs, SEEDS)
            for tensor in op._inputs:
                self._text(f"{numbers.get(tensor.op, 'outside')}:{tensor.value_index}")
        for tensor in body.outputs:
            self._text(f"{numbers.get(tensor.op, 'outside')}:{tensor.value_index}")

    @property
    def text(self) -> str:
        return self._hash.hexdigest()[:16]


def _needed(body: Body) -> list[Operation]:
    """The operations that a function's outputs and effects need, behind its arguments and what each of them needs.

    The order in which they were built is another one in a graph that was written and read.
    """
    order = dict.fromkeys(tensor.op for tensor in body.args)
    effects = set(body.control_outputs)
    waiting = [(op, False) for op in reversed(body.operations) if op in effects]
    waiting += [(tensor.op, False) for tensor in reversed(body.outputs)]
    while waiting:
        op, ready = waiting.pop()
        if op in order:
            continue
        if ready:
            order[op] = None
            continue
        waiting.append((op, True))
        waiting += [(before, False) for before in reversed(op._control_inputs)]
        waiting += [(tensor.op, False) for tensor in reversed(op._inputs)]
    return list(order)


def of(dataset: Any) -> list[tuple[str, str]]:
    """The name and the digest of each stage of a pipeline, the last one first."""
    digest = _Digest()
    digest.attrs(dataset.attrs, dataset.free)
    constant = _constant_captures(dataset)
    for name in sorted(dataset.operands):
        if name not in dataset.free:
            digest._text(name)
            digest.value(constant.get(name, dataset.operands[name]))
    own = type(dataset).__name__, digest.text
    return [own, *(stage for item in dataset.inputs for stage in of(item))]


def _constant_captures(dataset: Any) -> dict[str, Any]:
    """Of the operands that functions capture, by name, the values that are constants and the kinds of the others."""
    op = dataset.op
    kinds: dict[str, Any] = {}
    for use in functions_of(op):
        name = op.definition.attrs[use.attr].captures
        if name:
            kinds[name] = tuple(
                value if tensor.op.role is Role.CONSTANT else (getattr(value, "shape", None), type(value).__name__)
                for tensor, value in zip(op._inputs[use.first :], dataset.operands[name], strict=False)
            )
    return kinds


def difference(saved: Sequence[Any], own: Sequence[tuple[str, str]]) -> str | None:
    """What is different between the pipeline of a saved place and this one; None if nothing is."""
    theirs = [tuple(stage) for stage in saved]
    for number, (before, now) in enumerate(zip(theirs, own, strict=False)):
        if before != now:
            place = "the last stage" if not number else f"stage {number} before the last"
            if before[0] != now[0]:
                return f"{place} was {before[0]}, and is {now[0]}"
            return f"{place}, {now[0]}, had other arguments, or another function"
    if len(theirs) != len(own):
        return f"it had {len(theirs)} stages, and has {len(own)}"
    return None
