"""Ops on variables, run as kernels on the variable's value: assignments, counters, scatters, gathers; static shapes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.graph import graph
from anabranch.core.graph.build import build
from anabranch.testing.kernels import TIERS, run_op

both_tiers = pytest.mark.parametrize("tier", TIERS)
TABLE = np.arange(1, 13).reshape(4, 3)
FLOATS = (np.float32, np.float16, ml_dtypes.bfloat16, np.float64)


def _one_by_one(mode, value, indices, updates):
    """A scatter as a loop over rows, in order, in the dtype of ``value``."""
    result = np.array(value)
    for place in np.ndindex(indices.shape):
        row, update = indices[place], updates[place] if np.ndim(updates) else updates
        old = result[row]
        if mode == "Div" and result.dtype.kind in "iu":
            new = np.trunc(old / update)
        else:
            new = {"Update": lambda a, b: b, "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide,
                   "Min": np.minimum, "Max": np.maximum}[mode](old, update)  # fmt: skip
        result[row] = new
    return result


@pytest.mark.parametrize("prefix", ["", "Resource"])
@pytest.mark.parametrize("mode", ["Update", "Add", "Sub", "Mul", "Div", "Min", "Max"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32, np.int64], ids=lambda t: np.dtype(t).name)
@both_tiers
def test_rows(mode, dtype, prefix, tier):
    """Scatter of rows with a row that occurs three times, negative updates, and scalar updates."""
    op_type, value = f"{prefix}Scatter{mode}", TABLE.astype(dtype)
    types = {"dtype" if prefix else "T": dtype}
    indices = np.array([[1, 3, 1], [0, 1, 3]], np.int64 if dtype == np.int64 else np.int32)
    updates = np.array([2, -3, 4, -1, 2, 1])[:, None] * np.array([1, 2, -1])
    updates = updates.reshape(2, 3, 3).astype(dtype)
    found = run_op(op_type, value, indices, updates, tier=tier, **types)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, _one_by_one(mode, value, indices, updates))
    scalar = np.array(3, dtype)
    np.testing.assert_array_equal(
        run_op(op_type, value, indices, scalar, tier=tier, **types), _one_by_one(mode, value, indices, scalar)
    )
    nothing = run_op(op_type, value, indices[:0], updates[:0], tier=tier, **types)
    np.testing.assert_array_equal(nothing, value)


@pytest.mark.parametrize("prefix", ["", "Resource"])
@pytest.mark.parametrize("mode", ["Update", "Add", "Sub", "Min", "Max"])
@pytest.mark.parametrize("depth", [1, 2])
@both_tiers
def test_slices(mode, depth, prefix, tier):
    value = TABLE.astype(np.float32)
    indices = np.array([[[1, 2], [3, 0]], [[1, 2], [0, 1]]], np.int32)[..., :depth]
    updates = np.arange(4 * 3 ** (2 - depth), dtype=np.float32).reshape(2, 2, *value.shape[depth:]) - 5
    wanted = np.array(value)
    for place in np.ndindex(2, 2):
        where = tuple(indices[place])
        wanted[where] = _one_by_one(mode, wanted[where][None], np.array([0]), updates[place][None])[0]
    found = run_op(f"{prefix}ScatterNd{mode}", value, indices, updates, tier=tier)
    np.testing.assert_array_equal(found, wanted)


@both_tiers
def test_slices_out_of_range_are_ignored_if_asked(tier):
    value = TABLE.astype(np.float32)
    indices, updates = np.array([[1], [7], [-1]], np.int32), np.ones((3, 3), np.float32)
    found = run_op("ScatterNdAdd", value, indices, updates, tier=tier, bad_indices_policy="IGNORE")
    np.testing.assert_array_equal(found, value + np.array([[0], [1], [0], [0]]))


@both_tiers
def test_failed_checks_turn_indices_out_of_range(tier):
    """What a held-back write sees under XLA: nothing changes. (On the host the check has raised before.)"""
    beyond = np.full((2, 1), np.iinfo(np.int32).max, np.int32)
    value = TABLE.astype(np.float32)
    found = run_op(
        "ScatterNdUpdate", value, beyond, np.ones((2, 3), np.float32), tier=tier, bad_indices_policy="IGNORE"
    )
    np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize(
    ("op_type", "operands", "text"),
    [
        ("ScatterAdd", ([[1, 2], [1, 9]], np.ones((2, 2, 3))), r"indices\[1,1\] = 9 is not in \[0, 4\)"),
        ("ScatterUpdate", ([1, -2], np.ones((2, 3))), r"indices\[1\] = -2 is not in \[0, 4\)"),
        ("ResourceScatterMul", (np.int32(4), np.ones(3)), r"indices = 4 is not in \[0, 4\)"),
        ("ScatterNdAdd", ([[1, 2], [1, 9]], np.ones(2)), r"indices\[1\] = \[1, 9\] does not index into shape \[4,3\]"),
        ("ScatterNdUpdate", ([[[1]], [[7]]], np.ones((2, 1, 3))), r"indices\[1,0\] = \[7\] does not index into shape"),
        ("ResourceScatterNdMax", ([[-1]], np.ones((1, 3))), r"indices\[0\] = \[-1\] does not index into shape"),
        ("ResourceGather", ([[1, 9]],), r"indices\[0,1\] = 9 is not in \[0, 4\)"),
        ("ResourceGatherNd", ([[1, 2], [1, 9]],), r"indices\[1\] = \[1, 9\] does not index into param shape \[4,3\]"),
    ],
)
@both_tiers
def test_indices_out_of_range(op_type, operands, text, tier):
    arrays = [np.asarray(item, np.float32 if np.asarray(item).dtype.kind == "f" else np.int32) for item in operands]
    types = {"dtype": "float"} if op_type in ("ResourceGather", "ResourceGatherNd", "ResourceScatterMul") else {}
    with pytest.raises(errors.InvalidArgumentError, match=text):
        run_op(op_type, TABLE.astype(np.float32), *arrays, tier=tier, **types)


@both_tiers
def test_integer_division_by_zero(tier):
    with pytest.raises(errors.InvalidArgumentError, match="Integer division by zero"):
        run_op("ScatterDiv", TABLE, np.array([0, 1]), np.zeros((2, 3), np.int64), tier=tier)


def test_strings_scatter_on_the_host():
    value = np.array([b"a", b"b", b"c"], object)
    found = run_op("ScatterUpdate", value, np.array([2, 0]), np.array([b"x", b"yy"], object))
    assert found.tolist() == [b"yy", b"b", b"x"]


@both_tiers
def test_assignments(tier):
    a, b = np.array([1, 2], np.int8), np.array([127, -5], np.int8)
    np.testing.assert_array_equal(run_op("AssignAdd", a, b, tier=tier), np.array([-128, -3], np.int8))
    np.testing.assert_array_equal(run_op("AssignSub", a, b, tier=tier), np.array([-126, 7], np.int8))
    for op_type in ("AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp"):
        wanted = {"AssignAddVariableOp": a + b, "AssignSubVariableOp": a - b, "AssignVariableOp": b}[op_type]
        np.testing.assert_array_equal(run_op(op_type, a, b, tier=tier, dtype="int8"), wanted)
    np.testing.assert_array_equal(run_op("Assign", a, b, tier=tier), b)
    with pytest.raises(errors.InvalidArgumentError, match="Parameters and update must be the same size"):
        run_op("AssignAdd", TABLE, TABLE[:1], tier=tier)
    with pytest.raises(
        errors.InvalidArgumentError, match=r"Cannot update variable with shape \[4,3\] using a Tensor with shape \[3\]"
    ):
        run_op("AssignSubVariableOp", TABLE, TABLE[0], tier=tier, dtype="int64")


@pytest.mark.parametrize("op_type", ["CountUpTo", "ResourceCountUpTo"])
@both_tiers
def test_counters(op_type, tier):
    new, old = run_op(op_type, np.int32(2), tier=tier, limit=3, T="int32")
    assert (int(new), int(old)) == (3, 2)
    assert np.asarray(new).dtype == np.int32
    with pytest.raises(errors.OutOfRangeError, match="Reached limit of 3"):
        run_op(op_type, np.int64(3), tier=tier, limit=3, T="int64")


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: np.dtype(t).name)
@both_tiers
def test_gathers(dtype, tier):
    value = TABLE.astype(dtype)
    indices = np.array([[3, 0], [1, 1]], np.int64)
    types = {"tier": tier, "dtype": dtype}
    np.testing.assert_array_equal(run_op("ResourceGather", value, indices, **types), value[indices])
    np.testing.assert_array_equal(run_op("ResourceGather", value, np.int32(2), **types), value[2])
    np.testing.assert_array_equal(
        run_op("ResourceGatherNd", value, np.array([[3, 0], [1, 2]]), **types), value[[3, 1], [0, 2]]
    )
    np.testing.assert_array_equal(run_op("ResourceGatherNd", value, np.array([[3], [1]]), **types), value[[3, 1]])
    batch = np.array([[2, 0], [1, 1], [0, 0], [2, 2]], np.int32)
    for batch_dims in (1, -1):
        found = run_op("ResourceGather", value, batch, batch_dims=batch_dims, **types)
        np.testing.assert_array_equal(found, np.take_along_axis(value, batch, 1))
    empty = run_op("ResourceGather", value[:, :0], indices, **types)
    assert empty.shape == (2, 2, 0)


@both_tiers
def test_reads(tier):
    np.testing.assert_array_equal(run_op("ReadVariableOp", TABLE, tier=tier, dtype="int64"), TABLE)
    found = run_op("VariableShape", TABLE, tier=tier, out_type="int64")
    assert found.dtype == np.int64
    assert found.tolist() == [4, 3]
    for op_type in ("IsVariableInitialized", "VarIsInitializedOp"):
        attrs = {"dtype": "float"} if op_type[0] == "I" else {}
        assert bool(run_op(op_type, np.array(True), tier=tier, **attrs)) is True
        assert bool(run_op(op_type, np.array(False), tier=tier, **attrs)) is False


def test_destroying_a_variable():
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(1.0, use_resource=True)
        session.run(v.initializer)
        initialized = build("VarIsInitializedOp", v.handle)
        session.run(build("DisableCopyOnRead", v.handle))
        assert session.run(initialized)
        session.run(build("DestroyResourceOp", v.handle))
        assert not session.run(initialized)
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value"):
            session.run(v.read_value())
        session.run(v.initializer)
        assert session.run(v.read_value()) == 1


def test_contracts():
    """Effects and predication say what the runtime needs to know."""
    scatter, assign = opdef.lookup("ScatterNdAdd"), opdef.lookup("Assign")
    assert (scatter.effect.kind, scatter.effect.reads, scatter.predication) == (
        "write",
        True,
        opdef.rows("indices", coordinates=True),
    )
    assert (assign.effect.reads, assign.allows_uninitialized, assign.predication) == (False, True, opdef.SELECT)
    assert opdef.lookup("VarIsInitializedOp").effect.presence
    assert opdef.lookup("VariableV2").makes == opdef.lookup("VarHandleOp").makes == "variable"
    assert opdef.lookup("DestroyResourceOp").effect.kind == "channel"


def test_static_shapes():
    with graph.Graph().as_default():
        ref = build("VariableV2", shape=[None, 3], dtype="float")
        value = build("Placeholder", dtype="float", shape=[4, None])
        assert build("Assign", ref, value).shape.as_list() == [4, 3]
        assert build("Assign", ref, np.zeros(5, np.float32), validate_shape=False).shape.as_list() == [5]
        with pytest.raises(ValueError, match="Assign requires shapes of both tensors to match"):
            build("Assign", ref, np.zeros(5, np.float32))
        indices = build("Placeholder", dtype="int32", shape=[2])
        rows = build("Placeholder", dtype="float", shape=[2, None])
        assert build("ScatterAdd", ref, indices, rows).shape.as_list() == [None, 3]
        with pytest.raises(ValueError, match=r"updates of shape \[3,3\] for indices of shape \[2\]"):
            build("ScatterAdd", ref, indices, np.zeros((3, 3), np.float32))
        with pytest.raises(ValueError, match="a scatter of rows into a scalar"):
            build("ScatterAdd", build("VariableV2", shape=[], dtype="float"), indices, rows)
        with pytest.raises(ValueError, match=r"updates of shape \[2\] for indices of shape \[2,1\]"):
            build("ScatterNdAdd", ref, [[0], [1]], np.zeros(2, np.float32))
        with pytest.raises(ValueError, match="a last dimension from 1 to 2"):
            build("ScatterNdAdd", ref, [[0, 1, 2]], np.zeros(1, np.float32))

        handle = build("VarHandleOp", dtype="float", shape=[4, 3], shared_name="v")
        assert build("ReadVariableOp", handle, dtype="float").shape.as_list() == [4, 3]
        assert build("VariableShape", handle).shape.as_list() == [2]
        assert build("ResourceGather", handle, indices, dtype="float").shape.as_list() == [2, 3]
        assert build("ResourceGatherNd", handle, [[0, 1]], dtype="float").shape.as_list() == [1]
        with pytest.raises(ValueError, match=r"Trying to read variable with wrong dtype\. Expected float32 got int32"):
            build("ReadVariableOp", handle, dtype="int32")
        with pytest.raises(ValueError, match=r"a value of shape \[3\] for a variable of shape \[4,3\]"):
            build("AssignVariableOp", handle, np.zeros(3, np.float32))
        with pytest.raises(ValueError, match="use fewer batch_dims"):
            build("ResourceGather", handle, indices, dtype="float", batch_dims=2)
        with pytest.raises(ValueError, match=r"\[\.\.\., k\] with k at most 2"):
            build("ResourceGatherNd", handle, [[0, 1, 2]], dtype="float")
