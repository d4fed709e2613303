"""Optimizers that multiply gradients with roots of matrices of past gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.optimizer_v2.optimizer_v2 import OptimizerV2, State
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.train.optimizer import Optimizer


@public("contrib.opt.GGTOptimizer")
class GGTOptimizer(OptimizerV2):
    """Full-matrix adaptive regularization by a window of past gradients (Agarwal et al., 2018, "GGT").

    All gradients are one vector; with ``m`` its moving average and ``M`` the last ``window`` of these as columns,
    divided by the root of their number, a step is ``(M M')^(-1/2) m`` where ``M`` reaches, and ``m`` by the smallest
    singular value elsewhere, if that is above ``eps``. Sparse gradients are refused.

    Args:
        learning_rate: float or scalar tensor.
        beta1: decay of the moving average.
        use_locking: kept for compatibility.
        name: of the scope.
        window: how many moving averages are kept.
        eps: singular values below are left out.
        svd_eps: added to the diagonal before it is decomposed.
        sigma_eps: added to roots before they are inverted.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        use_locking: bool = False,
        name: str = "GGT",
        window: int = 10,
        eps: float = 1e-4,
        svd_eps: float = 1e-6,
        sigma_eps: float = 1e-2,
    ) -> None:
        super().__init__(use_locking, name)
        numbers = {"lr": learning_rate, "beta1": beta1, "window": window}
        numbers |= {"eps": eps, "svd_eps": svd_eps, "sigma_eps": sigma_eps}
        for key, value in numbers.items():
            self._set_hyper(key, value)
        self._window = window
        self._places: dict[str, tuple[int, int]] = {}
        """By name of a variable where its gradient begins and ends in the vector of all."""
        self._updated: list[Any] = []

    def _create_vars(self, var_list: Sequence[Any], state: State) -> None:
        end = 0
        for var in sorted(var_list, key=lambda var: var.name):
            begin, end = end, end + var.shape.num_elements()
            self._places[var.name] = begin, end
        kind = var_list[0].dtype.base_dtype
        state.create_non_slot(tf.zeros([], kind), "global_step")
        state.create_non_slot(tf.zeros([self._window, end], kind), "grad_buffer")
        state.create_non_slot(tf.zeros([end], kind), "moment1")
        state.create_non_slot(tf.zeros([end], kind), "flat_grad")

    def _prepare(self, state: State) -> None:  # type: ignore[override]
        self._updated = []

    def _apply_dense(self, grad: Any, var: Any, state: State) -> Any:  # type: ignore[override]
        self._updated.append(var)
        rows = tf.range(*self._places[var.name])
        return tf.scatter_update(state.get_non_slot("flat_grad"), rows, tf.reshape(grad, [-1]))

    _resource_apply_dense = _apply_dense  # type: ignore[assignment]

    def _apply_sparse(self, grad: Any, var: Any, state: State) -> Any:  # type: ignore[override]
        raise NotImplementedError(
            "Sparse gradient updates are not supported.\n"
            + errors.message(f"a sparse gradient of {var.name!r}", "a dense one", "tf.convert_to_tensor(gradient)")
        )

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any, state: State) -> Any:  # type: ignore[override]
        return self._apply_sparse(grad, handle, state)

    def _finish(self, state: State) -> Any:  # type: ignore[override]
        kind = self._updated[0].dtype.base_dtype
        step = tf.assign_add(state.get_non_slot("global_step"), tf.ones([], kind))
        beta1, moment = state.get_hyper("beta1", kind), state.get_non_slot("moment1")
        newest = moment.assign(beta1 * moment + (1.0 - beta1) * state.get_non_slot("flat_grad").read_value())
        window = state.get_hyper("window")
        row = tf.floormod(tf.cast(step - 1.0, tf.int32), window)
        kept = tf.scatter_update(state.get_non_slot("grad_buffer"), row, newest)
        columns = tf.transpose(kept / tf.sqrt(tf.minimum(tf.convert_to_tensor(step), tf.cast(window, kind))))
        damping = tf.eye(self._window, dtype=kind) * state.get_hyper("svd_eps", kind)
        sigma, u, _ = tf.svd(tf.matmul(columns, columns, transpose_a=True) + damping)
        roots = tf.sqrt(sigma)
        smallest = tf.reduce_min(roots)
        column = tf.expand_dims(newest, -1)
        inside = tf.matmul(u, tf.matmul(columns, column, transpose_a=True), transpose_a=True)

        def spread(factors: Any) -> Any:
            return tf.matmul(columns, tf.matmul(u, tf.expand_dims(factors, -1) * inside))

        head = spread(1.0 / tf.pow(roots + state.get_hyper("sigma_eps", kind), 3))
        tail = (column - spread(1.0 / sigma)) / smallest
        whole = tf.where(smallest > state.get_hyper("eps", kind), head + tail, head)
        rate = state.get_hyper("lr", kind)
        return tf.group(
            *[
                tf.assign_sub(var, rate * tf.reshape(whole[slice(*self._places[var.name])], var.shape))
                for var in self._updated
            ]
        )


@public("contrib.opt.ShampooOptimizer")
class ShampooOptimizer(Optimizer):
    """Shampoo (Gupta, Koren and Singer, 2018): one preconditioner for each dimension of a variable.

    ``G_i`` is the weighted sum over steps of the gradient's product with itself over all dimensions but ``i``, and
    ``g`` that of the gradients; a step is ``g`` contracted along each dimension with
    ``(G_i / size_i)^(-alpha / rank)``. A dimension larger than ``max_matrix_size`` keeps the diagonal alone.

    Weights, decays, intervals, the learning rate and ``alpha`` are numbers, or functions of the number of the step.

    Args:
        global_step: variable that counts steps.
        max_matrix_size: largest dimension with a whole matrix.
        gbar_decay: decay of the sum of gradients; 0 keeps none.
        gbar_weight: weight of the newest gradient in it.
        mat_gbar_decay: decay of the products.
        mat_gbar_weight: weight of the newest product.
        learning_rate: factor of the step.
        svd_interval: steps from one computation of roots to the next.
        precond_update_interval: steps from one sum of products to the next.
        epsilon: added to diagonals.
        alpha: power of all preconditioners together.
        use_iterative_root: compute roots by matrix products alone.
        use_locking: kept for compatibility.
        name: of the scope.
    """

    def __init__(
        self,
        global_step: Any = 0,
        max_matrix_size: int = 768,
        gbar_decay: Any = 0.0,
        gbar_weight: Any = 1.0,
        mat_gbar_decay: Any = 1.0,
        mat_gbar_weight: Any = 1.0,
        learning_rate: Any = 1.0,
        svd_interval: Any = 1,
        precond_update_interval: Any = 1,
        epsilon: float = 1e-4,
        alpha: Any = 0.5,
        use_iterative_root: bool = False,
        use_locking: bool = False,
        name: str = "Shampoo",
    ) -> None:
        super().__init__(use_locking, name)
        self._global_step = tf.cast(global_step, tf.float32)
        self._max_matrix_size = max_matrix_size
        self._gbar_decay, self._gbar_weight = gbar_decay, gbar_weight
        self._mat_gbar_decay, self._mat_gbar_weight = mat_gbar_decay, mat_gbar_weight
        self._learning_rate, self._alpha, self._epsilon = learning_rate, alpha, epsilon
        self._svd_interval, self._precond_update_interval = svd_interval, precond_update_interval
        self._use_iterative_root = use_iterative_root

    def _keeps_roots(self) -> bool:
        return callable(self._svd_interval) or self._svd_interval > 1

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            kind = var.dtype.base_dtype
            with tf.colocate_with(var):
                self._zeros_slot(var, "gbar", self._name)
                for i, size in enumerate(var.shape.as_list()):
                    is_whole = size <= self._max_matrix_size
                    if is_whole and self._keeps_roots():
                        self._get_or_make_slot(var, tf.eye(size, dtype=kind), f"H_{i}", self._name)
                    zeros = tf.zeros([size, size] if is_whole else [size], kind)
                    self._get_or_make_slot(var, zeros, f"Gbar_{i}", self._name)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._stepped(grad, var)

    _resource_apply_dense = _apply_dense  # type: ignore[assignment]

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._resource_apply_sparse(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        if handle.shape.as_list()[0] > self._max_matrix_size and self._gbar_decay == 0.0:
            return self._stepped(grad, handle, indices)
        shape = tf.shape(handle, out_type=indices.dtype)
        return self._stepped(tf.scatter_nd(tf.expand_dims(indices, 1), grad, shape), handle)

    @staticmethod
    def _averaged(var: Any, decay: Any, decay_now: Any, added: Any) -> Any:
        """``var = var * decay + added``, and its value."""
        if decay == 0.0:
            return added
        return var.assign_add(added if decay == 1.0 else (decay_now - 1) * var + added)

    def _stepped(self, grad: Any, var: Any, indices: Any = None) -> Any:
        step = self._global_step + 1

        def now(number: Any) -> Any:
            return number(step) if callable(number) else number

        result = grad
        if indices is None:
            result = self._averaged(
                self.get_slot(var, "gbar"), self._gbar_decay, now(self._gbar_decay), now(self._gbar_weight) * grad
            )
        sizes = var.shape.as_list()
        rank = len(sizes)
        power = -now(self._alpha) / rank
        decay, weight = now(self._mat_gbar_decay), now(self._mat_gbar_weight)
        interval, root_interval = now(self._precond_update_interval), now(self._svd_interval)
        for i, size in enumerate(sizes):
            others = [axis for axis in range(rank) if axis != i]
            products = self.get_slot(var, f"Gbar_{i}")
            if size <= self._max_matrix_size:

                def summed(products: Any = products, others: Any = others) -> Any:
                    outer = tf.tensordot(grad, grad, axes=(others, others))
                    return self._averaged(products, self._mat_gbar_decay, decay, weight * interval * outer)

                whole = tf.cond(tf.mod(step, interval) < 1, summed, lambda products=products: products.read_value())
                root = self._root(whole / float(size), size, power, root_interval, step, var, f"H_{i}")
                result = tf.tensordot(result, root, axes=([0], [0]))
            else:
                factors = self._diagonal(products, grad, others, i, size, decay, weight, power, indices)
                result = tf.transpose(result, [*range(1, rank), 0]) * factors
        rate = now(self._learning_rate)
        if indices is not None:
            return tf.scatter_add(var, indices, -rate * result)
        return tf.assign_sub(var, rate * result)

    def _diagonal(
        self,
        products: Any,
        grad: Any,
        others: Any,
        i: int,
        size: int,
        decay: Any,
        weight: Any,
        power: Any,
        indices: Any,
    ) -> Any:
        squares = tf.reduce_sum(grad * grad, axis=others) if others else grad * grad
        if others and indices is None:
            squares /= float(size)
        if i == 0 and indices is not None:
            if self._mat_gbar_decay != 1.0:
                raise NotImplementedError(
                    errors.message(
                        "a sparse gradient with mat_gbar_decay other than 1.0",
                        "sums of products that do not decay",
                        "mat_gbar_decay=1.0, or tf.convert_to_tensor(gradient)",
                    )
                )
            with tf.control_dependencies([tf.scatter_add(products, indices, weight * squares)]):
                value = tf.gather(products.read_value(), indices)
        else:
            value = self._averaged(products, self._mat_gbar_decay, decay, weight * squares)
        value = tf.convert_to_tensor(value)
        return tf.where(value > 0, tf.pow(value, power), tf.zeros_like(value))

    def _root(self, matrix: Any, size: int, power: Any, interval: Any, step: Any, var: Any, kept: str) -> Any:
        def computed() -> Any:
            if self._use_iterative_root:
                root = matrix_square_root(matrix, size, 100, self._epsilon)
                return matrix_inverse_pth_root(root, size, 2 * power, 100, 1e-6, ridge_epsilon=0.0)
            if size == 1:
                return tf.pow(matrix + self._epsilon, power)
            values, left, right = tf.svd(matrix + self._epsilon * tf.eye(size, dtype=matrix.dtype), full_matrices=True)
            return tf.matmul(right * tf.pow(tf.maximum(values, self._epsilon), power), left, transpose_b=True)

        if not self._keeps_roots():
            return computed()
        slot = self.get_slot(var, kept)
        return tf.cond(tf.mod(step, interval) < 1, lambda: tf.identity(slot.assign(computed())), slot.read_value)


def matrix_square_root(mat_a: Any, mat_a_size: Any, iter_count: int = 100, ridge_epsilon: float = 1e-4) -> Any:
    """The square root of a symmetric positive semidefinite matrix, by matrix products (Higham, 1997).

    Args:
        mat_a: the matrix ``[n, n]``.
        mat_a_size: ``n``.
        iter_count: most iterations; they end when the error grows.
        ridge_epsilon: added to the diagonal.
    """
    one = tf.eye(mat_a_size, dtype=mat_a.dtype)
    matrix = mat_a + ridge_epsilon * one
    size = tf.sqrt(tf.reduce_sum(matrix * matrix))

    def goes_on(i: Any, y: Any, y_before: Any, z: Any, error: Any, error_before: Any) -> Any:
        return tf.logical_and(i < iter_count, error < error_before)

    def better(i: Any, y: Any, y_before: Any, z: Any, error: Any, error_before: Any) -> Any:
        factor = 0.5 * (3.0 * one - tf.matmul(z, y))
        new = tf.matmul(y, factor)
        root = new * tf.sqrt(size)
        rest = matrix - tf.matmul(root, root)
        return i + 1, new, y, tf.matmul(factor, z), tf.sqrt(tf.reduce_sum(rest * rest)) / size, error

    start = (0, matrix / size, matrix / size, one, size, size + 1.0)
    return tf.while_loop(goes_on, better, start)[2] * tf.sqrt(size)


def matrix_inverse_pth_root(
    mat_g: Any,
    mat_g_size: Any,
    alpha: Any,
    iter_count: int = 100,
    epsilon: float = 1e-6,
    ridge_epsilon: float = 1e-6,
) -> Any:
    """``mat_g ** alpha`` for ``alpha = -1 / p``, by matrix products (Guo and Higham, 2006).

    Args:
        mat_g: a symmetric positive semidefinite matrix ``[n, n]``.
        mat_g_size: ``n``.
        alpha: -1 by a positive integer.
        iter_count: most iterations.
        epsilon: greatest error of an element at which they end.
        ridge_epsilon: added to the diagonal.

    Raises:
        ValueError: ``alpha`` is of another form.
    """
    degree = round(-1.0 / alpha) if not isinstance(alpha, tf.Tensor) and alpha < 0 else 0
    if degree < 1 or abs(degree * alpha + 1.0) > 1e-6:
        raise ValueError(errors.message(f"alpha={alpha!r}", "-1 / p for a positive integer p", "alpha=-0.25"))
    if mat_g_size == 1:
        return tf.pow(mat_g + ridge_epsilon, alpha)
    one = tf.eye(mat_g_size, dtype=mat_g.dtype)
    damped = mat_g + ridge_epsilon * one
    scale = (1 - 1 / alpha) / (2 * tf.norm(damped))

    def raised(matrix: Any) -> Any:
        power, left = None, degree
        while left:
            if left % 2:
                power = matrix if power is None else tf.matmul(matrix, power)
            left //= 2
            matrix = tf.matmul(matrix, matrix) if left else matrix
        return power

    def better(i: Any, m: Any, x: Any) -> Any:
        factor = (1 - alpha) * one + alpha * m
        return i + 1, tf.matmul(raised(factor), m), tf.matmul(x, factor)

    return tf.while_loop(
        lambda i, m, x: tf.logical_and(i < iter_count, tf.reduce_max(tf.abs(m - one)) > epsilon),
        better,
        (0, damped * scale, one * tf.pow(scale, -alpha)),
    )[2]
