"""Forms of ops on sizes against their kernels: ranks, sizes of 1, of 0, what does not fit together."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.core.contract import opdef
from anabranch.ops.shared.unchecked import Changed
from anabranch.testing.kernels import complete_attrs, run_op


def _given(value):
    return tuple(np.ravel(value).tolist())


def _compare(name, operands, fixed=(), **attrs):
    """The form that is made for some operands gives what the kernel gives, also of others of their ranks."""
    definition = opdef.lookup(name)
    operands = [np.asarray(value, np.int32) for value in operands]
    complete = complete_attrs(name, operands, attrs)
    form = definition.of_sizes(operands, [i in fixed for i in range(len(operands))], complete)
    for shift in range(3):
        own = [value if i in fixed else value + shift * (value > 1) for i, value in enumerate(operands)]
        results = run_op(name, *own, **attrs)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        found = form(*map(_given, own))
        for value, expected in zip([found] if len(results) == 1 else found, results, strict=True):
            assert list(value) == np.ravel(expected).tolist()


@pytest.mark.parametrize("name", ["Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum"])
@pytest.mark.parametrize("operands", [([3, 4], [5, 1]), (7, 2), ([3, 4, 0], 2), (2, [3, 4]), ([3], [1, 2])])
def test_arithmetic(name, operands):
    _compare(name, operands)


@pytest.mark.parametrize(
    ("name", "operands", "fixed", "attrs"),
    [
        ("Prod", ([3, 4, 5], [0]), (1,), {}),
        ("Prod", ([3, 4, 5], -1), (1,), {"keep_dims": True}),
        ("Slice", ([3, 4, 5], [1], [-1]), (1, 2), {}),
        ("Slice", ([3, 4, 5], [0], [2]), (1, 2), {}),
        ("StridedSlice", ([3, 4, 5], [1], [2], [1]), (1, 2, 3), {"shrink_axis_mask": 1}),
        ("StridedSlice", ([3, 4, 5], [-1], [0], [1]), (1, 2, 3), {"shrink_axis_mask": 1}),
        ("StridedSlice", ([3, 4, 5], [0], [2], [1]), (1, 2, 3), {}),
        ("StridedSlice", ([3, 4, 5], [0], [9], [-1]), (1, 2, 3), {"begin_mask": 1, "end_mask": 1}),
        ("ConcatV2", ([3, 4], [5], [], 0), (3,), {"N": 3}),
        ("Pack", (3, 4, 5), (), {"N": 3}),
        ("Reshape", ([3], []), (1,), {}),
        ("ExpandDims", (3, 0), (1,), {}),
        ("BroadcastGradientArgs", ([3, 4], [3, 4]), (), {}),
        ("BroadcastGradientArgs", ([3, 1], [3, 4]), (), {}),
        ("BroadcastGradientArgs", ([4], [2, 1, 4]), (), {}),
        ("BroadcastGradientArgs", ([], [2, 1]), (), {}),
        ("BroadcastGradientArgs", ([0, 1], [1, 1]), (), {}),
        ("ConcatOffset", (1, [3, 4], [3, 5], [3, 0]), (0,), {"N": 3}),
        ("ConcatOffset", (-2, [3, 4], [1, 4]), (0,), {"N": 2}),
    ],
)
def test_parts_products_and_broadcasts(name, operands, fixed, attrs):
    _compare(name, operands, fixed, **attrs)


@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 5)])
def test_shapes_and_counts(shape):
    for name in ("Shape", "Size"):
        form = opdef.lookup(name).of_sizes([np.zeros(shape)], [False], {})
        assert list(form(shape)) == np.ravel(run_op(name, np.zeros(shape))).tolist()


def test_what_does_not_fit_together_is_the_kernels_to_refuse():
    two = [np.zeros(2, np.int32)] * 2
    axes = opdef.lookup("BroadcastGradientArgs").of_sizes(two, [False] * 2, {})
    with pytest.raises(Changed, match="do not broadcast"):
        axes((3, 4), (3, 5))
    starts = opdef.lookup("ConcatOffset").of_sizes([np.int32(0), *two], [True, False, False], {})
    assert starts((0,), (3, 4), (5, 4)) == ((0, 0), (3, 0))
    with pytest.raises(Changed, match="differ elsewhere"):
        starts((0,), (3, 4), (3, 5))


def test_operands_that_may_change_have_no_form():
    vector, one = np.zeros(3, np.int32), np.zeros(1, np.int32)
    assert opdef.lookup("Slice").of_sizes([vector, one, one], [False, False, True], {}) is None
    assert opdef.lookup("Prod").of_sizes([vector, one], [False, False], {"keep_dims": False}) is None
    assert opdef.lookup("ConcatOffset").of_sizes([np.int32(0), vector, vector], [False] * 3, {}) is None
    assert opdef.lookup("Mul").of_sizes([vector, np.zeros(2, np.int32)], [False, False], {}) is None


@pytest.mark.parametrize(
    ("made_for", "given"), [([[1, 2], [3, 4]], [(1, 2, 3), (4, 5)]), ([[1, 2], 3], [(1,), (2, 3)])]
)
def test_another_number_of_sizes_is_not_paired(made_for, given):
    form = opdef.lookup("Add").of_sizes([np.asarray(value) for value in made_for], [False, False], {})
    with pytest.raises((Changed, ValueError), match=r"another number of sizes|zip\(\) argument 2 is shorter"):
        form(*given)
