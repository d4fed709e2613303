"""Whether an op is what its contract claims: that it passes an operand, works by element, moves, stands for ``+``.

Each claim is tried on a row's samples (:mod:`anabranch.testing.op_cases`) with the op's own kernel on NumPy. A claim
that a kernel does not keep is an error, and so is one that it keeps and does not make: what a pass may know of one op
it may know of every op of the kind.

- *passes*: the outputs, or the value written, are the operand bit for bit;
- *elementwise*: elements drawn again, with repetition, from the same places of all operands give the results of these
  places;
- *moves*: giving other values to all elements of a type, equal ones for equal ones and 0 for 0, gives the results with
  those values;
- *symbol*: the operator of Python gives the same;
- *by_rows*: the rows of an operand, stacked, give in one run what they give one by one;
- *factors*: the sum over rows is the sum over two parts of the rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import kernels, opdef
from anabranch.core.contract.roles import SYMBOLS
from anabranch.testing.op_cases import Instance, Row, instances

_NOT_RUN = (errors.OpError, ValueError, TypeError, IndexError, KeyError, NotImplementedError, AttributeError)
"""What a kernel may say to operands that an attempt has made."""


class _Op:
    """What a kernel's context shows of the op in messages."""

    def __init__(self, type_name: str):
        self.name = self.type = type_name
        self.user_site = None


def outputs(definition: opdef.OpDefinition, operands: Sequence[Any], attrs: dict[str, Any]) -> list[np.ndarray]:
    """The results of the kernel on NumPy; of a write the new values, then the outputs."""
    results = kernels.run_on_host(definition, list(operands), attrs, kernels.HostContext(_Op(definition.type_name)))
    return [np.asarray(value) for value in results]


def runnable(definition: opdef.OpDefinition) -> bool:
    """Whether the op's kernel can be tried alone: on NumPy, without random bits, channels or bodies."""
    kernel = definition.host_kernel or definition.kernel
    known = definition.effect.kind in ("pure", "read", "write") and not definition.effect.presence
    return kernel is not None and known and not kernels.needs_lax(definition) and definition.makes is None


def check_claims(row: Row) -> list[str]:
    """Texts of claims that an op makes and does not keep."""
    definition = row.definition
    if not runnable(definition):
        return []
    problems = []
    for claim, tried in _CLAIMS.items():
        if _made(definition, claim):
            for one in instances(row):
                if _attempt(tried, definition, one) is False:
                    problems.append(f"{one.name}: {row.type_name} claims {claim} = {getattr(definition, claim)!r}")
    return problems


def unclaimed(row: Row) -> list[str]:
    """The claims that an op keeps on all samples that can tell, and does not make."""
    definition = row.definition
    if not runnable(definition) or definition.effect.kind != "pure" or definition.role is not None:
        return []
    if definition.data_dependent_shape or definition.shape_only or not definition.outputs:
        return []
    missing = []
    for claim in ("elementwise", "moves"):
        if definition.elementwise or definition.moves:  # one of them tells enough; broadcasting moves, too
            continue
        kept = [_attempt(_CLAIMS[claim], definition, one, refused=False) for one in instances(row)]
        if True in kept and False not in kept:
            missing.append(claim)
    return missing


def _attempt(
    tried: Callable[..., bool | None], definition: opdef.OpDefinition, one: Instance, refused: bool | None = None
) -> bool | None:
    """Whether a sample keeps a claim; None if it cannot tell, ``refused`` if the op refuses the operands tried."""
    try:
        return tried(definition, one)
    except _NOT_RUN:
        outputs(definition, one.flat, one.attrs)  # the sample itself is none that the op refuses
        return refused


def _made(definition: opdef.OpDefinition, claim: str) -> bool:
    return getattr(definition, claim) not in (None, False)


# ------------------------------------------------------------------------------------------------------------- claims
def _same(first: Any, second: Any) -> bool:
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype == object:
        return bool(np.all(first == second))
    return first.tobytes() == second.tobytes()


def _close(first: Any, second: Any) -> bool:
    """Equal, up to the last bits of floats: NumPy's loops treat the ends of arrays apart."""
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype.kind not in "fc" and first.dtype.name != "bfloat16":
        return bool(np.all(first == second))
    wide = np.complex128 if first.dtype.kind == "c" else np.float64
    tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-12 if wide is np.float64 else 1e-5, 16: 1e-12}[first.dtype.itemsize]
    return np.allclose(first.astype(wide), second.astype(wide), tolerance, tolerance, equal_nan=True)


def _passes(definition: opdef.OpDefinition, one: Instance) -> bool | None:
    results = outputs(definition, one.flat, one.attrs)
    return all(_same(value, one.flat[definition.passed_position(i, one.attrs)]) for i, value in enumerate(results))


def _elementwise(definition: opdef.OpDefinition, one: Instance) -> bool | None:
    if not one.flat or any(value.size == 0 for value in one.flat):
        return None
    try:
        arrays = [np.array(value) for value in np.broadcast_arrays(*one.flat)]
    except ValueError:
        return None
    results = outputs(definition, arrays, one.attrs)
    if any(value.shape != arrays[0].shape for value in results):
        return False
    if arrays[0].size < 2:
        return None
    places = np.random.default_rng(0).integers(0, arrays[0].size, 2 * arrays[0].size + 1)
    again = outputs(definition, [value.reshape(-1)[places] for value in arrays], one.attrs)
    return all(_close(value.reshape(-1)[places], new) for value, new in zip(results, again, strict=True))


def _moves(definition: opdef.OpDefinition, one: Instance) -> bool | None:
    types = {spec.type_attr for spec in definition.outputs}
    if len(types) != 1 or None in types:
        return None
    (type_attr,) = types
    moved = [
        position
        for spec in definition.inputs
        if spec.type_attr == type_attr and spec.name not in definition.compile_time
        for position in range(*definition.input_range(spec.name, one.attrs).indices(len(one.flat)))
    ]
    values = [one.flat[i].reshape(-1) for i in moved]
    if not values or values[0].dtype.kind not in "fiuc":
        return None
    known = np.unique(np.concatenate(values))
    known = known[known != 0]
    if known.size < 2 or not np.isfinite(known).all():
        return None
    results = outputs(definition, one.flat, one.attrs)
    return all(_moves_labels(definition, one, moved, results, known, seed) for seed in range(3))


def _moves_labels(
    definition: opdef.OpDefinition,
    one: Instance,
    moved: Sequence[int],
    found: Sequence[np.ndarray],
    known: np.ndarray,
    seed: int,
) -> bool:
    """Whether the results, ``found``, change like the operands ``moved`` if their values, ``known``, become others."""
    numbers = np.random.default_rng(seed).choice(np.arange(1, max(100, known.size + 1)), known.size, replace=False)
    labels = numbers.astype(known.dtype)

    def relabelled(array: np.ndarray) -> np.ndarray | None:
        flat = array.reshape(-1)
        places = np.searchsorted(known, flat).clip(0, known.size - 1)
        if np.any((known[places] != flat) & (flat != 0)):
            return None  # it has come into being
        return np.where(flat == 0, flat, labels[places]).reshape(array.shape)

    operands = list(one.flat)
    for i in moved:
        new = relabelled(operands[i])
        assert new is not None
        operands[i] = new
    expected = [relabelled(value) for value in found]
    if any(value is None for value in expected):
        return False
    again = outputs(definition, operands, one.attrs)
    return all(_same(value, new) for value, new in zip(expected, again, strict=True))


def _symbol(definition: opdef.OpDefinition, one: Instance) -> bool | None:
    assert definition.symbol is not None
    with np.errstate(all="ignore"):
        expected = functools.reduce(SYMBOLS[definition.symbol], one.flat)
    (result,) = outputs(definition, one.flat, one.attrs)
    return _close(result, np.asarray(expected, result.dtype))


def _factors(definition: opdef.OpDefinition, one: Instance) -> bool | None:
    assert definition.factors is not None
    positions = definition.factors(one.attrs)
    if positions is None or any(value.ndim != 2 or len(value) < 2 for value in one.flat):
        return None
    (whole,) = outputs(definition, one.flat, one.attrs)
    parts = [
        outputs(definition, [value[rows] if i in positions else value for i, value in enumerate(one.flat)], one.attrs)[
            0
        ]
        for rows in (slice(1), slice(1, None))
    ]
    return _close(whole, parts[0] + parts[1])


def _by_rows(definition: opdef.OpDefinition, one: Instance) -> bool | None:
    """Tried with each operand as rows of its own values in other orders, the others being the same for all rows."""
    assert definition.by_rows is not None
    fixed = {i for name in definition.compile_time for i in range(*definition.input_range(name, one.attrs).indices(99))}
    told = None
    for place in set(range(len(one.flat))) - fixed:
        value = np.asarray(one.flat[place])
        chance = np.random.default_rng(place)
        rows = np.empty((3, *value.shape), value.dtype)
        for row in rows:
            row[...] = chance.permutation(value.reshape(-1)).reshape(value.shape)
        operands = [rows if i == place else item for i, item in enumerate(one.flat)]
        adapted = definition.by_rows(operands, [i == place for i in range(len(operands))], dict(one.attrs))
        if adapted is None:
            continue
        together = outputs(definition, *adapted)
        for number, row in enumerate(rows):
            alone = outputs(definition, [row if i == place else item for i, item in enumerate(one.flat)], one.attrs)
            if not all(_close(batch[number], value) for batch, value in zip(together, alone, strict=True)):
                return False
        told = True
    return told


_CLAIMS: dict[str, Callable[[opdef.OpDefinition, Instance], bool | None]] = {
    "passes": _passes,
    "elementwise": _elementwise,
    "moves": _moves,
    "symbol": _symbol,
    "by_rows": _by_rows,
    "factors": _factors,
}


def checks_made(row: Row) -> Iterator[str]:
    """Names of samples on which the kernel calls ``ctx.check``, besides the op's ``checks``."""
    definition = row.definition
    kernel = definition.host_kernel or definition.kernel
    for one in instances(row):
        context = _Counting(_Op(row.type_name))
        assert kernel is not None
        with np.errstate(all="ignore"):
            kernel(context, list(one.flat), one.attrs)
        if context.made:
            yield one.name


class _Counting(kernels.HostContext):
    made = 0

    def check(self, *args: Any, **kwargs: Any) -> None:
        self.made += 1


__all__ = ["check_claims", "checks_made", "outputs", "runnable", "unclaimed"]
