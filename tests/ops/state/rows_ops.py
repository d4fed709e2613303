"""Rows of ops on variables. Operands that hold a variable are its value before, references return the value after."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, elsewhere, real, row, whole

SMALL = "float bfloat16 int32 int64 uint8"
MOVED = "float bfloat16 bool int64 complex64 string"


def in_order(how):
    """A scatter of rows as a loop."""

    def run(value, indices, updates, **_):
        found = np.array(value)
        for place in np.ndindex(indices.shape):
            update = updates[place] if np.ndim(updates) else updates
            found[indices[place]] = how(found[indices[place]], update)
        return found

    return run


def slices_in_order(how):
    """A scatter of slices as a loop; slices out of range are left out."""

    def run(value, indices, updates, **_):
        found = np.array(value)
        for place in np.ndindex(indices.shape[:-1]):
            where = tuple(indices[place])
            if all(0 <= i < size for i, size in zip(where, value.shape, strict=False)):
                found[where] = how(found[where], updates[place])
        return found

    return run


def divided(a, b):
    return np.trunc(a / b) if np.asarray(a).dtype.kind in "iu" else a / b


HOW = {
    "Update": lambda a, b: b,
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": divided,
    "Min": np.minimum,
    "Max": np.maximum,
}
INDEX = {"Tindices": "int32"}
# Updates are distinct where their order matters, and no divisor is 0.
ROW_CASES = [
    case(whole(4, 3), [[1, 3], [1, 0]], whole(2, 2, 3, low=1, high=3), types=INDEX),
    case(whole(4, 3), [2, 2], 3, types={"Tindices": "int64"}),
    case(whole(4), 1, 2, types=INDEX),
    case(whole(4, 0), [1, 1], real(2, 0), types=INDEX),
    case(whole(4, 2), np.zeros(0, np.int32), real(0, 2), types=INDEX),
]
SLICE_CASES = [
    case(whole(4, 3), [[[1, 2]], [[0, 0]]], whole(2, 1, low=1, high=3), types=INDEX),
    case(whole(4, 3), [[3], [1], [3]], whole(3, 3), types={"Tindices": "int64"}),
    case(whole(4, 3), [[3], [7], [-1]], whole(3, 3), types=INDEX, bad_indices_policy="IGNORE"),
    case(whole(4), np.zeros((0, 1), np.int32), real(0), types=INDEX),
]


def gathered(value, indices, batch_dims=0, **_):
    if not batch_dims:
        return value[indices]
    return np.stack([gathered(v, i, batch_dims - 1) for v, i in zip(value, indices, strict=True)])


def types_of(mode):
    return MOVED if mode == "Update" else "float bfloat16 int64 half" if mode in ("Min", "Max") else SMALL


ROWS = [
    *(
        row(f"AnabranchInitialized{kind}Value", lambda value, initial: value, [case(real(2, 3), real(2, 3))], MOVED)
        for kind in ("", "Resource")
    ),
    *(row(f"Scatter{mode}", in_order(how), ROW_CASES, types_of(mode)) for mode, how in HOW.items()),
    *(row(f"ResourceScatter{mode}", in_order(how), ROW_CASES, types_of(mode)) for mode, how in HOW.items()),
    *(
        row(f"{prefix}ScatterNd{mode}", slices_in_order(HOW[mode]), SLICE_CASES, types_of(mode))
        for prefix in ("", "Resource")
        for mode in ("Update", "Add", "Sub", "Min", "Max")
    ),
    row("AssignAdd", lambda v, x, **_: v + x, [case(whole(2, 3), whole(2, 3)), case(real(), real())], SMALL),
    row("AssignSub", lambda v, x, **_: v - x, [case(whole(2, 3), whole(2, 3)), case(real(), real())], SMALL),
    row("AssignAddVariableOp", lambda v, x: v + x, [case(whole(2, 3), whole(2, 3)), case(real(), real())], SMALL),
    row("AssignSubVariableOp", lambda v, x: v - x, [case(whole(2, 3), whole(2, 3)), case(real(), real())], SMALL),
    row("Assign", lambda v, x, **_: x, [case(real(2, 3), real(2, 3))], MOVED),
    row("AssignVariableOp", lambda v, x, **_: x, [case(real(2, 3), real(2, 3))], MOVED),
    row("CountUpTo", lambda v, limit: (v + 1, v), [case(3, limit=5)]),
    row("ResourceCountUpTo", lambda v, limit: (v + 1, v), [case(3, limit=5)]),
    row("ReadVariableOp", lambda v: v, [case(real(2, 3)), case(real(0, 2))], MOVED),
    row("VariableShape", lambda v: np.array(v.shape), [case(real(2, 3)), case(real())], vary="out_type"),
    row(
        "ResourceGather",
        gathered,
        [
            case(real(4, 3), [[1, 3], [1, 0]], types=INDEX),
            case(real(4, 3), 2, types={"Tindices": "int64"}),
            case(real(2, 3, 2), [[1, 1], [2, 0]], types=INDEX, batch_dims=1, grad=False),
            case(real(4, 0), [1], types=INDEX),
        ],
        MOVED,
    ),
    row(
        "ResourceGatherNd",
        lambda v, i: v[tuple(np.moveaxis(i, -1, 0))],
        [case(real(4, 3), [[1, 2], [3, 0], [1, 2]], types=INDEX), case(real(4, 3), [[1], [1]], types=INDEX)],
        MOVED,
    ),
    *(
        elsewhere(name, "tests/ops/state/test_state.py")
        for name in (
            "Variable",
            "VariableV2",
            "VarHandleOp",
            "IsVariableInitialized",
            "VarIsInitializedOp",
            "DisableCopyOnRead",
            "DestroyResourceOp",
        )
    ),
]
