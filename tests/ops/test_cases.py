"""Every op against its row: forward in both tiers, static shapes, gradients of both orders, serialisation.

The rows stand in `tests/ops/cases/`, a file for each family with a list `ROWS`; `anabranch/testing/op_cases.py` says
how to write one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import anabranch
from anabranch.core.contract import opdef
from anabranch.testing import op_checks
from anabranch.testing.op_cases import Row, load_rows

FOLDER = Path(__file__).parent / "cases"
ROOT = FOLDER.parents[2]

assert dir(anabranch)  # loads everything that defines ops


ROWS = load_rows(FOLDER)
DRIVEN = [row for row in ROWS if row.cases]


def _check(row: Row, name: str, found: list[str]) -> None:
    reason = row.gaps.get(name)
    if reason is None:
        assert not found, "\n".join(found)
    else:
        assert found, f"the gap {name!r} of {row.type_name} is closed ({reason}); take it out of gaps"


def by_type(rows: list[Row]) -> Callable[..., None]:
    return pytest.mark.parametrize("row", rows, ids=[row.type_name for row in rows])


@by_type(DRIVEN)
def test_forward(row: Row) -> None:
    _check(row, "forward", op_checks.check_forward(row))


@pytest.mark.slow
@by_type(DRIVEN)
def test_known_operands(row: Row) -> None:
    problems = op_checks.check_known(row)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    "type_name", ["ResourceGather", "ResourceGatherNd", "InplaceAdd", "LogUniformCandidateSampler"]
)
def test_known_operands_of_ops_that_index(type_name: str) -> None:
    (row,) = [row for row in ROWS if row.type_name == type_name]
    problems = op_checks.check_known(row)
    assert not problems, "\n".join(problems)


@by_type(DRIVEN)
def test_shapes(row: Row) -> None:
    _check(row, "shape", op_checks.check_shapes(row))


@by_type([row for row in DRIVEN if op_checks.differentiable(row)])
def test_gradients(row: Row) -> None:
    orders = [order for order in range(1, row.order + 1) if f"order {order}" in row.gaps]
    if not orders:
        found = op_checks.check_order(row, row.order)
        assert not found, "\n".join(found)
        return
    lowest = min(orders)
    if lowest > 1:
        found = op_checks.check_order(row, lowest - 1)
        assert not found, "\n".join(found)
    try:
        found = op_checks.check_order(row, lowest)
    except (LookupError, NotImplementedError) as problem:
        found = [str(problem)]
    _check(row, f"order {lowest}", found)


@by_type(DRIVEN)
def test_serialisation(row: Row) -> None:
    _check(row, "serialisation", op_checks.check_serialisation(row))


def test_every_op_has_one_row() -> None:
    counts: dict[str, int] = {}
    for row in ROWS:
        counts[row.type_name] = counts.get(row.type_name, 0) + 1
    missing = sorted(
        name
        for name, definition in opdef.all_definitions().items()
        if name not in counts and definition.shape.__module__.startswith("anabranch.")
    )
    twice = sorted(name for name, count in counts.items() if count > 1)
    assert not missing, (
        f"{len(missing)} ops without a row: {' '.join(missing)}\n"
        f'Mend: add `row("{missing[0]}", reference, [case(...)])` to the family\'s file in tests/ops/cases/ (see '
        "anabranch/testing/op_cases.py), or `elsewhere(...)` with the file of its test if no table can drive it."
    )
    assert not twice, f"ops with two rows: {twice}\nMend: put all cases of an op into one row."


@by_type([row for row in ROWS if row.elsewhere])
def test_tests_elsewhere_name_the_op(row: Row) -> None:
    path = ROOT / row.elsewhere
    assert path.exists(), f"{row.elsewhere} does not exist; say where {row.type_name} is tested"
    named = row.word in path.read_text(encoding="utf-8")
    assert named, f"{row.elsewhere} does not name {row.word}; say where {row.type_name} is tested"
