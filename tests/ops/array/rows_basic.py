"""Rows of `anabranch/ops/array/sources.py`."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import ANY, case, each_shape, elsewhere, real, row, whole


def same(x, **attrs):
    return x


STRINGS = ANY + " string"

ROWS = [
    row(
        "Const",
        lambda value: value,
        [
            case(value=np.array([[1.5, -2.0]], np.float32), types={"dtype": "float"}),
            case(value=np.array(3, np.int64), types={"dtype": "int64"}),
            case(value=np.zeros((0, 2), np.complex64), types={"dtype": "complex64"}),
            case(value=np.array([b"a", b""], object), types={"dtype": "string"}),
            case(value=np.array([True, False]), types={"dtype": "bool"}),
            case(value=np.full((2, 3), np.nan), types={"dtype": "double"}),
        ],
    ),
    row("Identity", same, each_shape(), STRINGS),
    row("Snapshot", same, each_shape()),
    row("StopGradient", same, each_shape(), STRINGS),
    row("PreventGradient", same, [case(real(2, 3), message="no")], order=0),
    row("PlaceholderWithDefault", same, [case(real(2, 3), shape=(2, 3)), case(real(), shape=())], STRINGS),
    row(
        "IdentityN",
        lambda xs: xs,
        [case([real(2), whole(3), real(), real(2, 0)], types={"T": "double int32 bool string"})],
    ),
    row("NoOp", lambda: [], [case()]),
    elsewhere("Placeholder", "tests/session/test_session.py", "tf.placeholder"),
    elsewhere("PlaceholderV2", "tests/core/graphdef/test_import_graph.py", "PlaceholderV2"),
    elsewhere("_Arg", "tests/core/graphdef/test_graph_def.py"),
]
