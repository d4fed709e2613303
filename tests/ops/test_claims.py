"""What each op claims of itself, tried on its row: see `anabranch/testing/op_claims.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anabranch
from anabranch.core.contract import inference, opdef
from anabranch.core.contract.opdef import DERIVED, PURE, Cost, NotDifferentiable, Op, Role, Type
from anabranch.testing import op_claims
from anabranch.testing.op_cases import Row, case, load_rows, real, row

assert dir(anabranch)  # loads everything that defines ops

ROWS = load_rows(Path(__file__).parent)
DRIVEN = [item for item in ROWS if item.cases]
# Ops that keep a claim on their samples and do not make it, each with its reason.
NOT_CLAIMED = {
    "QuantizeAndDequantize": "without `range_given` its scale is that of the whole tensor",
}
PASSING = [item for item in DRIVEN if item.definition.only_passes]


def by_type(rows: list[Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row.type_name for row in rows])


@by_type(DRIVEN)
def test_claims_are_kept(row: Row) -> None:
    problems = op_claims.check_claims(row)
    assert not problems, "\n".join(problems)


@by_type([item for item in DRIVEN if item.type_name not in NOT_CLAIMED])
def test_nothing_is_left_unclaimed(row: Row) -> None:
    missing = op_claims.unclaimed(row)
    assert not missing, (
        f"{row.type_name} does not say that it is {' and '.join(missing)}, which its samples keep.\n"
        f"Mend: write `{missing[0]} = True` in its block, or its name with the reason in NOT_CLAIMED."
    )


@by_type([item for item in DRIVEN if item.type_name in NOT_CLAIMED])
def test_exceptions_are_needed(row: Row) -> None:
    assert op_claims.unclaimed(row), f"{row.type_name} need not stand in NOT_CLAIMED"


@by_type(PASSING)
def test_what_only_passes_checks_nothing(row: Row) -> None:
    made = list(op_claims.checks_made(row))
    assert not made, (
        f"{row.type_name} is looked behind, and its kernel checks something ({made}).\n"
        "Mend: put the check into `checks(ctx, inputs, attrs)`; such an op is not looked behind."
    )


def test_each_pass_through_is_a_row_or_has_none_for_a_reason() -> None:
    told = {item.type_name for item in ROWS}
    passing = {name for name, item in opdef.all_definitions().items() if item.passes is not None}
    assert passing <= told
    assert {"Identity", "IdentityN", "Snapshot", "StopGradient", "PreventGradient", "DeepCopy", "GuaranteeConst"} <= {
        item.type_name for item in PASSING
    }


# -------------------------------------------------------------------------------------- the checks find what is wrong
def _wrong(name: str, rule=inference.unchanged, signature: str = "x: T -> y: T", **fields):
    """A row of an op with these fields that is defined for a test alone."""
    kept = dict(opdef._registry)
    try:
        opdef.define(
            name,
            "An op of a test.",
            signature=signature,
            attrs={"T": Type("float")},
            effect=PURE,
            shape=rule,
            gradient=fields.pop("gradient", DERIVED),
            **fields,
        )
        tried = row(name, lambda x: x, [case(*[real(3, 4)] * signature.partition("->")[0].count(":"))], "float")
        return op_claims.check_claims(tried), op_claims.unclaimed(tried)
    finally:
        opdef._registry.clear()
        opdef._registry.update(kept)


def test_a_false_claim_is_found() -> None:
    def halved(ctx, inputs, attrs):
        return inputs[0] / np.float32(2)

    def centred(ctx, inputs, attrs):
        return inputs[0] - inputs[0].mean()

    def difference(ctx, inputs, attrs):
        return inputs[0] - inputs[1]

    def any_shape(c):
        return c.shapes[0]

    assert "claims passes = 'x'" in _wrong("TestPasses", kernel=halved, passes="x")[0][0]
    assert "claims elementwise = True" in _wrong("TestElementwise", kernel=centred)[0][0]
    assert "claims moves = True" in _wrong("TestMoves", any_shape, kernel=halved, moves=True)[0][0]
    found, _ = _wrong("TestSymbol", inference.elementwise, "x: T, y: T -> z: T", kernel=difference, symbol="+")
    assert "claims symbol = '+'" in found[0]
    found, _ = _wrong("TestFactors", any_shape, kernel=centred, factors=lambda attrs: (0,))
    assert "claims factors" in found[0]
    assert _wrong("TestUnclaimed", any_shape, kernel=halved) == ([], ["elementwise"])
    assert _wrong("TestReversed", any_shape, kernel=lambda ctx, inputs, attrs: inputs[0][::-1]) == ([], ["moves"])
    assert _wrong("TestCentred", any_shape, kernel=centred) == ([], [])


# --------------------------------------------------------------------------------------- what contradicts is refused
def _first(ctx, inputs, attrs):
    return inputs[0]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"passes": "z"}, r"passes 'z'\nExpected: an input among \['x'\]"),
        ({"passes": "x", "signature": "x: T -> y: bool"}, "passes 'x' with outputs of other types"),
        ({"symbol": "**"}, r"symbol '\*\*'\nExpected: a symbol among"),
        ({"symbol": "+", "elementwise": False}, r"symbol '\+' on an op that is not elementwise"),
        ({"symbol": "-", "commutative": True}, "symbol '-' on a commutative op"),
        ({"moves": True, "flops": lambda c: 1.0}, "moves and flops"),
        ({"cost": Cost.HEAVY}, "elementwise and Cost.HEAVY"),
        ({"role": Role.LOOP}, "role Role.LOOP with effect pure and 1 inputs"),
        ({"role": Role.LIST_PUSH}, "role Role.LIST_PUSH without a variant"),
        ({"effect": opdef.IO, "elementwise": True}, "moves or elementwise on a io op"),
    ],
)
def test_contradictions_are_refused(fields, text) -> None:
    block = {
        "signature": "x: T -> y: T",
        "attrs": {"T": Type("float")},
        "effect": PURE,
        "shape": inference.unchanged,
        "kernel": _first,
        "gradient": NotDifferentiable("it is there for a test"),
    }
    with pytest.raises(TypeError, match=text):
        opdef.define("TestRefused", "An op of a test.", **(block | fields))
    assert opdef.find("TestRefused") is None


def test_claims_are_derived() -> None:
    class TestDerived(Op):
        """Twice the input."""

        signature = "x: T -> y: T"
        attrs = {"T": Type("float")}
        effect = PURE
        shape = inference.unchanged
        gradient = DERIVED

        def kernel(ctx, inputs, attrs):
            return inputs[0] + inputs[0]

    try:
        definition = TestDerived.definition
        assert definition.elementwise
        assert not definition.moves
        assert definition.cost is Cost.ELEMENTS
        assert opdef.lookup("Identity").elementwise
        assert opdef.lookup("Identity").moves
        assert opdef.lookup("ResourceScatterAdd").cost is Cost.INDEXED
        assert not opdef.lookup("CheckNumerics").only_passes
        assert not opdef.lookup("StopGradient").passes_gradient
    finally:
        del opdef._registry["TestDerived"]
