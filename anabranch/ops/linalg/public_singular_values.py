"""What follows from singular values: the rank of matrices and their pseudo-inverse."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.ops.math import public_assert


def _matrices(a: Any, validate_args: bool) -> Any:
    a = convert.convert_to_tensor(a, name="a")
    if not a.dtype.is_floating:
        raise TypeError(
            f"Input `a` must have `float`-like `dtype` (saw {a.dtype.name}).\n"
            + errors.message(f"a of dtype {a.dtype.name}", "floats", "tf.cast(a, tf.float32)")
        )
    if validate_args or a.shape.ndims is not None:
        public_assert.assert_rank_at_least(a, 2, message="Input `a` must have at least 2 dimensions. ")
    return a


def _larger_side(a: Any) -> Any:
    """The larger size of a matrix, in its dtype."""
    sides = build("StridedSlice", build("Shape", a), [-2], [0], [1], end_mask=1)
    return build("Cast", build("Max", sides, [0]), DstT=a.dtype.base)


@public("linalg.matrix_rank")
def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None) -> Any:
    """How many singular values of each matrix are above ``tol``: ``[..., m, n]`` to int32 ``[...]``.

    Args:
        a: floats ``[..., m, n]``.
        tol: bound; by default the largest singular value times ``max(m, n)`` times the dtype's epsilon.
        validate_args: check the rank of ``a`` when the step runs, if it is not known before.
        name: name scope.
    """
    with name_scope(name, "matrix_rank", [a, tol]):
        a = _matrices(a, validate_args)
        values = build("Svd", a, compute_uv=False, full_matrices=False)[0]
        if tol is None:
            epsilon = float(np.finfo(a.dtype.np).eps)
            largest = build("Max", values, [-1], keep_dims=True)
            tol = build("Mul", largest, build("Mul", _larger_side(a), convert.constant(epsilon, a.dtype.base)))
        above = build("Greater", values, convert.convert_to_tensor(tol, a.dtype.base, name="tol"))
        return build("Sum", build("Cast", above, DstT="int32"), [-1])


@public("linalg.pinv")
def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Any:
    """The pseudo-inverse of Moore and Penrose of each matrix: ``[..., m, n]`` to ``[..., n, m]``.

    Args:
        a: floats ``[..., m, n]``.
        rcond: singular values up to this fraction of the largest one count as 0; by default 10 times ``max(m, n)``
            times the dtype's epsilon.
        validate_args: check the rank of ``a`` when the step runs, if it is not known before.
        name: name scope.
    """
    with name_scope(name, "pinv", [a, rcond]) as scope:
        a = _matrices(a, validate_args)
        kind = a.dtype.base
        if rcond is None:
            rcond = build("Mul", _larger_side(a), convert.constant(10 * float(np.finfo(a.dtype.np).eps), kind))
        values, left, right = build("Svd", a, compute_uv=True, full_matrices=False)
        cutoff = build("Mul", convert.convert_to_tensor(rcond, kind, name="rcond"), build("Max", values, [-1]))
        counts = build("Greater", values, build("ExpandDims", cutoff, -1))
        # Infinite rather than skipped: the reciprocal is 0, and so is its gradient.
        values = build("SelectV2", counts, values, convert.constant(np.inf, kind))
        scaled = build("RealDiv", right, build("ExpandDims", values, -2))
        return build("BatchMatMulV2", scaled, left, adj_y=True, name=scope)
