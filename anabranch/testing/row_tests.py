"""The tests of a family's ops, made of their rows; for pytest.

A file ``tests/ops/FAMILY/test_rows.py`` holds::

    globals().update(row_tests.of(Path(__file__)))

so that ``python -m pytest tests/ops/FAMILY`` runs them beside the tests that were written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from anabranch.testing import op_checks
from anabranch.testing.op_cases import Row, load_rows


def family_of(row: Row) -> str:
    """The folder of ``anabranch/ops`` that defines the row's op; ``state`` for what variables define."""
    _, part, *rest = row.definition.module.split(".")
    return rest[0] if part == "ops" else "state"


def of(file: Path) -> dict[str, Callable[..., None]]:
    """The tests, by name, of the ops whose family has the name of the file's folder.

    Args:
        file: a file in the family's folder; the rows of all families stand in ``rows_*.py`` of such folders.
    """
    import pytest

    root = file.parents[3]
    rows = [row for row in load_rows(file.parents[1]) if family_of(row) == file.parent.name]
    driven = [row for row in rows if row.cases]

    def by_type(chosen: Sequence[Row]) -> Any:
        return pytest.mark.parametrize("row", chosen, ids=[row.type_name for row in chosen])

    @by_type(driven)
    def test_forward(row: Row) -> None:
        _check(row, "forward", op_checks.check_forward(row))

    @by_type(driven)
    def test_shapes(row: Row) -> None:
        _check(row, "shape", op_checks.check_shapes(row))

    @by_type([row for row in driven if op_checks.differentiable(row)])
    def test_gradients(row: Row) -> None:
        _check_gradients(row)

    @by_type(driven)
    def test_serialisation(row: Row) -> None:
        _check(row, "serialisation", op_checks.check_serialisation(row))

    @pytest.mark.slow
    @by_type(driven)
    def test_known_operands(row: Row) -> None:
        problems = op_checks.check_known(row)
        assert not problems, "\n".join(problems)

    @by_type([row for row in rows if row.elsewhere])
    def test_tests_elsewhere_name_the_op(row: Row) -> None:
        path = root / row.elsewhere
        assert path.exists(), f"{row.elsewhere} does not exist; say where {row.type_name} is tested"
        named = row.word in path.read_text(encoding="utf-8")
        assert named, f"{row.elsewhere} does not name {row.word}; say where {row.type_name} is tested"

    tests: list[Callable[..., None]] = [test_tests_elsewhere_name_the_op] if any(row.elsewhere for row in rows) else []
    if driven:
        tests += [test_forward, test_shapes, test_serialisation, test_known_operands]
    if any(op_checks.differentiable(row) for row in driven):
        tests.append(test_gradients)
    return {test.__name__: test for test in tests}


def _check(row: Row, name: str, problems: list[str]) -> None:
    reason = row.gaps.get(name)
    if reason is None:
        assert not problems, "\n".join(problems)
    else:
        assert problems, f"the gap {name!r} of {row.type_name} is closed ({reason}); take it out of gaps"


def _check_gradients(row: Row) -> None:
    orders = [order for order in range(1, row.order + 1) if f"order {order}" in row.gaps]
    if not orders:
        problems = op_checks.check_order(row, row.order)
        assert not problems, "\n".join(problems)
        return
    lowest = min(orders)
    if lowest > 1:
        problems = op_checks.check_order(row, lowest - 1)
        assert not problems, "\n".join(problems)
    try:
        problems = op_checks.check_order(row, lowest)
    except (LookupError, NotImplementedError) as problem:
        problems = [str(problem)]
    _check(row, f"order {lowest}", problems)
