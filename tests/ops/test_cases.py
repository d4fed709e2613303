"""Every op has a row, and every family runs those of its ops.

The rows stand in `rows_*.py` beside the tests of their family; `anabranch/testing/op_cases.py` says how to write
one, and `anabranch/testing/row_tests.py` what it is checked for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import anabranch
from anabranch.core.contract import opdef
from anabranch.testing import op_checks, row_tests
from anabranch.testing.op_cases import load_rows

FOLDER = Path(__file__).parent
assert dir(anabranch)  # loads everything that defines ops
ROWS = load_rows(FOLDER)


@pytest.mark.parametrize(
    "type_name", ["ResourceGather", "ResourceGatherNd", "InplaceAdd", "LogUniformCandidateSampler"]
)
def test_known_operands_of_ops_that_index(type_name: str) -> None:
    (row,) = [row for row in ROWS if row.type_name == type_name]
    problems = op_checks.check_known(row)
    assert not problems, "\n".join(problems)


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
        f'Mend: add `row("{missing[0]}", reference, [case(...)])` to a file rows_*.py of its family in tests/ops (see '
        "anabranch/testing/op_cases.py), or `elsewhere(...)` with the file of its test if no table can drive it."
    )
    assert not twice, f"ops with two rows: {twice}\nMend: put all cases of an op into one row."


def test_every_family_runs_its_rows() -> None:
    families = {row_tests.family_of(row) for row in ROWS}
    missing = sorted(family for family in families if not (FOLDER / family / "test_rows.py").exists())
    assert not missing, f"families without tests/ops/FAMILY/test_rows.py: {missing}"
