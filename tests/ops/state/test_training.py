"""Optimizer updates: against TensorFlow's kernels, against float64 formulas, sparse against dense, both tiers."""

from __future__ import annotations

import json
import math
import pathlib

import ml_dtypes
import numpy as np
import pytest

from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.graph import graph
from anabranch.core.graph.build import build
from anabranch.ops.state import optimizers
from anabranch.testing.kernels import TIERS, run_op

GOLDEN = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "optimizers.json").read_text())
SCALARS = {
    "lr": 0.3, "alpha": 0.2, "l1": 0.05, "l2": 0.1, "l2_shrinkage": 0.07, "lr_power": -0.5, "momentum": 0.9,
    "rho": 0.8, "epsilon": 0.01, "beta1": 0.9, "beta2": 0.99, "beta1_power": 0.81, "beta2_power": 0.98,
    "logbase": 0.7, "sign_decay": 0.6, "beta": 0.85,
}  # fmt: skip
SIGNED = ("var", "linear", "m", "mom", "gradient_accumulator", "mg", "grad", "delta")


def operands(names, number, overrides=None, repeated=False, dtype=np.float32, shape=(3, 2)):
    """Values of the operands called ``names``, as ``tools/golden/training/optimizers.py`` makes them."""
    rng = np.random.RandomState(number)
    values = {}
    for name in names:
        if name == "indices":
            values[name] = np.array([2, 0, 2] if repeated else [2, 0, 1], np.int32)
        elif name == "global_step":
            values[name] = np.int64(3)
        elif name in SCALARS:
            values[name] = np.array((overrides or {}).get(name, SCALARS[name]), dtype)
        else:
            values[name] = rng.uniform(-1 if name in SIGNED else 1, 2, shape).astype(dtype)
            if name == "mg":
                values[name] *= dtype(0.1)
    return values


def names_of(op_type):
    return [spec.name for spec in opdef.lookup(op_type).inputs]


def apply(op_type, values, tier="host", **attrs):
    """The new state, as a list."""
    found = run_op(op_type, *values.values(), tier=tier, T=values["var"].dtype, **attrs)
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("number", range(len(GOLDEN)), ids=lambda i: f"{i}-{GOLDEN[i]['op'][8:]}")
def test_tensorflow(number):
    case = GOLDEN[number]
    values = operands(names_of(case["op"]), number, case["overrides"], case["repeated"])
    tiers = TIERS if case["repeated"] or "Sparse" not in case["op"] else ("host",)
    for tier in tiers:
        found = apply(case["op"], values, tier, **case["attrs"])
        for name, new, wanted in zip(values, found, case["state"], strict=False):
            assert new.dtype == np.float32
            np.testing.assert_allclose(new.ravel(), wanted, rtol=3e-6, atol=1e-6, err_msg=f"{tier} {name}")


def _reference(rule, s, g):
    """One element's step in float64 Python numbers, written from the papers; ``s`` holds state and scalars."""
    lr, sign = s.get("lr"), math.copysign
    if rule == "Adam":
        m, v = 0.9 * s["m"] + 0.1 * g, 0.99 * s["v"] + 0.01 * g**2
        return s["var"] - lr * math.sqrt(1 - 0.98) / (1 - 0.81) * m / (math.sqrt(v) + 0.01), m, v
    if rule == "AdaMax":
        m, v = 0.9 * s["m"] + 0.1 * g, max(0.99 * s["v"], abs(g))
        return s["var"] - lr / (1 - 0.81) * m / (v + 0.01), m, v
    if rule == "RMSProp":
        ms = 0.8 * s["ms"] + 0.2 * g**2
        mom = 0.9 * s["mom"] + lr * g * (ms + 0.01) ** -0.5
        return s["var"] - mom, ms, mom
    if rule == "Momentum":
        accum = 0.9 * s["accum"] + g
        return s["var"] - lr * accum, accum
    if rule == "Adadelta":
        accum = 0.8 * s["accum"] + 0.2 * g**2
        update = math.sqrt((s["accum_update"] + 0.01) / (accum + 0.01)) * g
        return s["var"] - lr * update, accum, 0.8 * s["accum_update"] + 0.2 * update**2
    if rule == "ProximalAdagrad":
        accum = s["accum"] + g**2
        rate = lr / math.sqrt(accum)
        moved = s["var"] - rate * g
        return sign(max(abs(moved) - 0.05 * rate, 0.0), moved) / (1 + 0.1 * rate), accum
    assert rule == "Ftrl"
    accum = s["accum"] + g**2
    linear = s["linear"] + g - (math.sqrt(accum) - math.sqrt(s["accum"])) / lr * s["var"]
    if abs(linear) <= 0.05:
        return 0.0, accum, linear
    return (sign(0.05, linear) - linear) / (math.sqrt(accum) / lr + 0.2), accum, linear


@pytest.mark.parametrize("rule", ["Adam", "AdaMax", "RMSProp", "Momentum", "Adadelta", "ProximalAdagrad", "Ftrl"])
@pytest.mark.parametrize("tier", TIERS)
def test_papers_in_float64(rule, tier):
    op_type = f"Apply{rule}"
    values = operands(names_of(op_type), 7, dtype=np.float64, shape=(40,))
    found = apply(op_type, values, tier)
    for i in range(40):
        element = {name: float(value[i] if value.ndim else value) for name, value in values.items()}
        wanted = _reference(rule, element, element["grad"])
        np.testing.assert_allclose([float(new[i]) for new in found], wanted, rtol=1e-12, atol=1e-14)


SPARSE = [row for row in optimizers.TABLE if "sparse" in row.forms]


@pytest.mark.parametrize("row", SPARSE, ids=lambda row: row.name)
def test_sparse_is_dense_on_the_rows(row):
    """Rows that are not named do not move; the others take the dense step; a row named twice takes two."""
    sparse_type, dense_type = f"ResourceSparseApply{row.name}", f"ResourceApply{row.name}"
    values = operands(names_of(sparse_type), 3, shape=(5, 2))
    state = row.state.split()
    values["indices"] = np.array([4, 1, 4, 0], np.int64)
    values["grad"] = values["grad"][:4]
    wanted = [values[name].copy() for name in state]
    for place, grad in zip(values["indices"], values["grad"], strict=True):
        one = {name: value for name, value in values.items() if name != "indices"}
        one |= {name: array[place] for name, array in zip(state, wanted, strict=True)} | {"grad": grad}
        dense = {("delta" if name == "grad" and row.dense_grad == "delta" else name): one[name] for name in one}
        for array, new in zip(wanted, apply(dense_type, dense), strict=True):
            array[place] = new
    for tier in TIERS:
        for new, array in zip(apply(sparse_type, values, tier), wanted, strict=True):
            np.testing.assert_allclose(new, array, rtol=1e-6, atol=1e-7)
    untouched = apply(sparse_type, values)
    for name, new in zip(state, untouched, strict=True):
        np.testing.assert_array_equal(new[2:4], values[name][2:4])


@pytest.mark.parametrize("row", optimizers.TABLE, ids=lambda row: row.name)
def test_ref_forms_give_the_same(row):
    if "ref" not in row.forms:
        assert opdef.find(f"Apply{row.name}") is None
        return
    for sparse in ("", "Sparse") if "sparse" in row.forms else ("",):
        values = operands(names_of(f"{sparse}Apply{row.name}"), 5)
        for a, b in zip(
            apply(f"{sparse}Apply{row.name}", values), apply(f"Resource{sparse}Apply{row.name}", values), strict=True
        ):
            np.testing.assert_array_equal(a, b)


REAL = ("ApplyGradientDescent", "ApplyMomentum", "SparseApplyAdagrad", "ApplyAdam")


@pytest.mark.parametrize(
    ("op_type", "dtype"),
    [(op_type, dtype) for op_type in REAL for dtype in (np.float16, ml_dtypes.bfloat16)]
    + [(op_type, np.complex64) for op_type in REAL[:2]],
)
def test_other_types(op_type, dtype):
    values = operands(names_of(op_type), 2, dtype=dtype)
    double = np.complex128 if dtype == np.complex64 else np.float64
    wide = {name: value if value.dtype.kind == "i" else value.astype(double) for name, value in values.items()}
    wanted = apply(op_type, wide)
    tolerance = 16 * float(ml_dtypes.finfo(dtype).eps)
    for tier in TIERS:
        for new, value in zip(apply(op_type, values, tier), wanted, strict=True):
            assert new.dtype == dtype
            np.testing.assert_allclose(new.astype(value.dtype), value, rtol=tolerance, atol=tolerance)


def test_slots_stand_still_without_update_slots():
    values = operands(names_of("ApplyAdagrad"), 1)
    var, accum = apply("ApplyAdagrad", values, update_slots=False)
    np.testing.assert_array_equal(accum, values["accum"])
    np.testing.assert_allclose(
        var, values["var"] - np.float32(0.3) * values["grad"] / np.sqrt(values["accum"]), rtol=1e-6
    )


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("op_type", "change", "text"),
    [
        ("SparseApplyAdagrad", {"indices": np.array([0, 9, 1])}, "Index 9 at offset 1 in indices is out of range"),
        ("SparseApplyMomentum", {"indices": np.array([0, 1, -1])}, "Index -1 at offset 2 in indices"),
        ("SparseApplyFtrl", {"lr": np.float32(0)}, "lr is not a positive scalar"),
        ("SparseApplyFtrl", {"lr_power": np.float32(1)}, "lr_power is not a non-positive scalar"),
        ("SparseApplyFtrlV2", {"l2_shrinkage": np.float32(-1)}, "l2 shrinkage regularization strength is not"),
        ("SparseApplyProximalAdagrad", {"l1": np.float32(-1)}, "l1 regularization strength is not a non-negative"),
        ("ApplyAdam", {"v": np.ones((1, 2))}, r"var and v do not have the same shape \[3,2\] \[1,2\]"),
        ("ApplyAdam", {"grad": np.ones((1, 2))}, r"var and grad do not have the same shape \[3,2\] \[1,2\]"),
    ],
)
def test_refused_at_run_time(op_type, change, text, tier):
    values = operands(names_of(op_type), 1)
    values |= {name: value.astype(values[name].dtype) for name, value in change.items()}
    with pytest.raises(errors.InvalidArgumentError, match=text):
        apply(op_type, values, tier)


def test_integers_have_no_kernel():
    values = {name: value.astype(np.int32) for name, value in operands(names_of("ApplyAdagrad"), 1).items()}
    with pytest.raises(
        errors.UnimplementedError, match="no kernel for T=int32: optimizers update floating-point variables"
    ):
        apply("ApplyAdagrad", values)


def test_static_shapes():
    with graph.Graph().as_default():
        var, slot = (build("VariableV2", shape=shape, dtype="float") for shape in ([None, 3], [4, None]))
        out = build("ApplyMomentum", var, slot, 0.1, build("Placeholder", dtype="float", shape=None), 0.9)
        assert out.shape.as_list() == [4, 3]
        assert out.dtype.is_ref
        rows = build("Placeholder", dtype="float", shape=[2, 3])
        out = build("SparseApplyMomentum", var, slot, 0.1, rows, build("Placeholder", dtype="int64", shape=[2]), 0.9)
        assert out.shape.as_list() == [4, 3]
        with pytest.raises(ValueError, match="two shapes that can be the same"):
            build("ApplyMomentum", var, slot, 0.1, rows, 0.9)
        with pytest.raises(ValueError, match="input 'lr' of op type 'ApplyMomentum' has shape"):
            build("ApplyMomentum", var, slot, [0.1], build("Placeholder", dtype="float", shape=None), 0.9)
        with pytest.raises(ValueError, match="two shapes that can be the same"):
            build("SparseApplyMomentum", var, slot, 0.1, rows, build("Placeholder", dtype="int64", shape=[5]), 0.9)
        handle = build("VarHandleOp", dtype="float", shape=[2])
        with pytest.raises(ValueError, match=r"update variable with wrong dtype\. Expected float32 got float64"):
            build("ResourceApplyGradientDescent", handle, np.float64(0.1), np.zeros(2))
