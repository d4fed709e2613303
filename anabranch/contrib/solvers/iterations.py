"""``tf.contrib.solvers``: linear systems and bidiagonal forms by products with a matrix alone.

An operator is a tuple of ``shape``, ``dtype`` and the functions ``apply`` and ``apply_adjoint`` of columns ``[n, 1]``.
"""

from __future__ import annotations

import collections
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public

_Operator = collections.namedtuple("LinearOperator", ["shape", "dtype", "apply", "apply_adjoint"])  # type: ignore[name-match]
_CGState = collections.namedtuple("CGState", ["i", "x", "r", "p", "gamma"])  # type: ignore[name-match]
_CGLSState = collections.namedtuple("CGLSState", ["i", "x", "r", "p", "gamma"])  # type: ignore[name-match]
_Bidiagonal = collections.namedtuple("LanczosBidiagState", ["u", "v", "alpha", "beta"])  # type: ignore[name-match]


def _shape_of(matrix: Any) -> Any:
    return matrix.shape.as_list() if matrix.shape.is_fully_defined() else tf.shape(matrix)


@public("contrib.solvers.util.create_operator")
def create_operator(matrix: Any) -> Any:
    """The operator of products with a matrix."""
    return _Operator(
        _shape_of(matrix),
        matrix.dtype,
        lambda v: tf.matmul(matrix, v),
        lambda v: tf.matmul(matrix, v, adjoint_a=True),
    )


@public("contrib.solvers.util.identity_operator")
def identity_operator(matrix: Any) -> Any:
    """The operator that changes nothing, of the shape of a matrix."""
    return _Operator(_shape_of(matrix), matrix.dtype, lambda v: v, lambda v: v)


@public("contrib.solvers.util.dot")
def dot(x: Any, y: Any) -> Any:
    """The inner product, with ``x`` conjugated."""
    return tf.reduce_sum(tf.conj(x) * y)


@public("contrib.solvers.util.l2norm_squared")
def l2norm_squared(v: Any) -> Any:
    """The square of the length of a vector."""
    return 2 * tf.nn.l2_loss(v)


@public("contrib.solvers.util.l2norm")
def l2norm(v: Any) -> Any:
    """The length of a vector."""
    return tf.sqrt(l2norm_squared(v))


@public("contrib.solvers.util.l2normalize")
def l2normalize(v: Any) -> Any:
    """A vector of length 1 in the direction of ``v``, and the length of ``v``."""
    norm = l2norm(v)
    return v / norm, norm


def _flat(state: Any) -> Any:
    return state._replace(x=tf.squeeze(state.x), r=tf.squeeze(state.r), p=tf.squeeze(state.p))


@public("contrib.solvers.linear_equations.conjugate_gradient")
def conjugate_gradient(
    operator: Any,
    rhs: Any,
    preconditioner: Any = None,
    x: Any = None,
    tol: float = 1e-4,
    max_iter: int = 20,
    name: str = "conjugate_gradient",
) -> Any:
    """Solve ``A x = rhs`` for a positive definite ``A``.

    Args:
        operator: of ``A``.
        rhs: ``[n]``.
        preconditioner: an operator near the inverse of ``A``; none if None.
        x: where to begin; zeros if None.
        tol: how small the residual becomes, in relation to the one at the start.
        max_iter: steps at most.
        name: of the operations.

    Returns:
        A tuple of the number of steps ``i``, the solution ``x``, the residual ``r``, the last direction ``p``, and
        ``gamma``, the inner product of the residual and what the preconditioner makes of it.
    """
    apply = (lambda v: v) if preconditioner is None else preconditioner.apply
    with tf.name_scope(name):
        rhs = tf.expand_dims(rhs, -1)
        if x is None:
            x = tf.expand_dims(tf.zeros(operator.shape[1:], rhs.dtype.base_dtype), -1)
            r = rhs
        else:
            x = tf.expand_dims(x, -1)
            r = rhs - operator.apply(x)
        p = apply(r)
        limit = tol * tf.norm(r)

        def step(i: Any, state: Any) -> Any:
            turned = operator.apply(state.p)
            alpha = state.gamma / dot(state.p, turned)
            r = state.r - alpha * turned
            q = apply(r)
            gamma = dot(r, q)
            return i + 1, _CGState(i + 1, state.x + alpha * state.p, r, q + gamma / state.gamma * state.p, gamma)

        first = tf.constant(0)
        _, state = tf.while_loop(
            lambda i, state: (i < max_iter) & (tf.norm(state.r) > limit),
            step,
            [first, _CGState(first, x, r, p, dot(r, p))],
        )
        return _flat(state)


@public("contrib.solvers.least_squares.cgls")
def cgls(operator: Any, rhs: Any, tol: float = 1e-6, max_iter: int = 20, name: str = "cgls") -> Any:
    """Find the least ``|A x - rhs|`` by conjugate gradients on the normal equations.

    Args:
        operator: of ``A`` ``[m, n]``.
        rhs: ``[m]``.
        tol: how small the gradient becomes, in relation to the one at the start.
        max_iter: steps at most.
        name: of the operations.

    Returns:
        A tuple of the number of steps ``i``, the solution ``x``, the residual ``r``, the last direction ``p``, and
        ``gamma``, the square of the gradient's length.
    """
    with tf.name_scope(name):
        rhs = tf.expand_dims(rhs, -1)
        s = operator.apply_adjoint(rhs)
        gamma = l2norm_squared(s)
        limit = tol * tol * gamma
        x = tf.expand_dims(tf.zeros(operator.shape[1:], rhs.dtype.base_dtype), -1)

        def step(i: Any, state: Any) -> Any:
            q = operator.apply(state.p)
            alpha = state.gamma / l2norm_squared(q)
            r = state.r - alpha * q
            s = operator.apply_adjoint(r)
            gamma = l2norm_squared(s)
            return i + 1, _CGLSState(i + 1, state.x + alpha * state.p, r, s + gamma / state.gamma * state.p, gamma)

        first = tf.constant(0)
        _, state = tf.while_loop(
            lambda i, state: (i < max_iter) & (state.gamma > limit),
            step,
            [first, _CGLSState(first, x, rhs, s, gamma)],
        )
        return _flat(state)


def _orthogonal(basis: list[Any], v: Any) -> Any:
    """``v`` without its parts along a basis, of length 1, and its length: once more if little is left of it."""

    def once(x: Any) -> Any:
        for vector in basis:
            x -= tf.matmul(vector, x, adjoint_a=True) * vector
        return l2normalize(x)

    direction, norm = once(v)
    if not basis:
        return direction, norm
    again, part = once(direction)
    little = norm < 0.7071 * l2norm(v)  # after Parlett, The Symmetric Eigenvalue Problem, pp. 105-109
    return tf.where(tf.fill(tf.shape(direction), little), again, direction), tf.where(little, norm * part, norm)


@public("contrib.solvers.lanczos.lanczos_bidiag")
def lanczos_bidiag(
    operator: Any, k: int, orthogonalize: bool = True, starting_vector: Any = None, name: str = "lanczos_bidiag"
) -> Any:
    """``k`` steps of the bidiagonalisation ``A V = U B``.

    Args:
        operator: of ``A`` ``[m, n]``.
        k: number of steps.
        orthogonalize: whether vectors are made orthogonal to all before them.
        starting_vector: ``[m, 1]``; random if None.
        name: of the operations.

    Returns:
        A tuple of ``u`` ``[m, k + 1]``, ``v`` ``[n, k]``, the diagonal ``alpha`` ``[k]`` of ``B`` and its subdiagonal
        ``beta`` ``[k]``.
    """
    with tf.name_scope(name):
        if starting_vector is None:
            starting_vector = tf.random_uniform(operator.shape[:1], -1, 1, dtype=operator.dtype)[:, tf.newaxis]
        elif starting_vector.shape.ndims == 1:
            starting_vector = starting_vector[:, tf.newaxis]
        left, right = [l2normalize(starting_vector)[0]], []  # type: tuple[list[Any], list[Any]]
        alphas: list[Any] = []
        betas: list[Any] = []
        for i in range(k):
            r = operator.apply_adjoint(left[i])
            if i:
                r -= betas[-1] * right[-1]
            v, alpha = _orthogonal(right[:-1] if orthogonalize else [], r)
            p = operator.apply(v) - alpha * left[i]
            u, beta = _orthogonal(left[:-1] if orthogonalize else [], p)
            right.append(v)
            left.append(u)
            alphas.append(alpha)
            betas.append(beta)
        return _Bidiagonal(tf.concat(left, 1), tf.concat(right, 1), tf.stack(alphas), tf.stack(betas))


@public("contrib.solvers.lanczos.bidiag_matmul")
def bidiag_matmul(matrix: Any, alpha: Any, beta: Any, adjoint_b: bool = False, name: str = "bidiag_matmul") -> Any:
    """The product of a matrix with the bidiagonal one of ``alpha`` and ``beta``, or with its adjoint.

    Args:
        matrix: ``[m, k + 1]``, or ``[m, k]`` for the adjoint.
        alpha: the diagonal ``[k]``.
        beta: the subdiagonal ``[k]``.
        adjoint_b: whether by the adjoint.
        name: of the operations.
    """
    with tf.name_scope(name):
        if not adjoint_b:
            return matrix[:, :-1] * alpha + matrix[:, 1:] * beta
        moved = matrix[:, :-1] * beta[:-1]
        return matrix * alpha + tf.pad(moved, [[0, 0], [1, 0]])
