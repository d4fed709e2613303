"""One step of each optimizer: ``(new state...) = rule(o, *state, grad)``, the formulas of TensorFlow's kernels.

A rule is written once and serves dense and sparse forms, refs and resources, both tiers. ``o`` holds the array
namespace (``o.xp``), the scalar operands by name and the attributes. The first element of the state is the variable.
All intermediates stay in the variable's dtype: Python numbers are weak in both tiers.

The variable is computed from the slots as they are stored (``o.stored``): what a failed check leaves in them is
selected first. From the values before that selection XLA would compute each new slot twice, for itself and in the
kernel of the variable, which then needs the old one too: so it would be copied first. Adam reads and writes ten arrays
in this form, and fifteen in the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Operands:
    """Scalar operands and attributes of one execution, by name."""

    def __init__(self, ctx: Any, values: dict[str, Any], attrs: dict[str, Any]) -> None:
        self.xp = ctx.xp
        self.__dict__.update(values)
        self.attrs = attrs
        self.stored = ctx.stored

    def __getattr__(self, name: str) -> Any:  # only for what __init__ did not set
        return self.attrs[name]


Rule = Callable[..., tuple[Any, ...]]


def gradient_descent(o: Any, var: Any, grad: Any) -> tuple[Any, ...]:
    """``var - alpha * grad``."""
    return (var - grad * o.alpha,)


def _shrink(o: Any, moved: Any, rate: Any) -> Any:
    """Proximal operator of ``l1 |x| + l2 x^2 / 2`` at ``moved`` with step ``rate``."""
    shrunk = o.xp.sign(moved) * o.xp.maximum(o.xp.abs(moved) - rate * o.l1, 0)
    return o.xp.where(o.l1 > 0, shrunk, moved) / (1 + rate * o.l2)


def proximal_gradient_descent(o: Any, var: Any, grad: Any) -> tuple[Any, ...]:
    """Gradient descent followed by the proximal operator of ``l1`` and ``l2`` (Duchi and Singer, 2009)."""
    return (_shrink(o, var - grad * o.alpha, o.alpha),)


def momentum(o: Any, var: Any, accum: Any, grad: Any) -> tuple[Any, ...]:
    """Heavy ball; with ``use_nesterov`` the look-ahead form."""
    accum = o.stored(accum * o.momentum + grad, accum)
    if o.use_nesterov:
        return var - (grad * o.lr + accum * o.momentum * o.lr), accum
    return var - accum * o.lr, accum


def keras_momentum(o: Any, var: Any, accum: Any, grad: Any) -> tuple[Any, ...]:
    """Heavy ball whose accumulator holds the step itself."""
    accum = o.stored(accum * o.momentum - grad * o.lr, accum)
    if o.use_nesterov:
        return var + (accum * o.momentum - grad * o.lr), accum
    return var + accum, accum


def adagrad(o: Any, var: Any, accum: Any, grad: Any) -> tuple[Any, ...]:
    """``accum += grad^2; var -= lr grad / sqrt(accum)`` (Duchi, Hazan and Singer, 2011)."""
    if o.update_slots:
        accum = o.stored(accum + grad * grad, accum)
    return var - grad * o.lr / o.xp.sqrt(accum), accum


def adagrad_v2(o: Any, var: Any, accum: Any, grad: Any) -> tuple[Any, ...]:
    """Adagrad with ``epsilon`` added to the root."""
    if o.update_slots:
        accum = o.stored(accum + grad * grad, accum)
    return var - grad * o.lr / (o.xp.sqrt(accum) + o.epsilon), accum


def proximal_adagrad(o: Any, var: Any, accum: Any, grad: Any) -> tuple[Any, ...]:
    """Adagrad's rates with the proximal operator of ``l1`` and ``l2``."""
    accum = o.stored(accum + grad * grad, accum)
    rate = o.lr / o.xp.sqrt(accum)
    return _shrink(o, var - grad * rate, rate), accum


def adagrad_da(o: Any, var: Any, total: Any, squares: Any, grad: Any) -> tuple[Any, ...]:
    """Adagrad by dual averaging: the variable is a function of the sums alone."""
    total = o.stored(total + grad, total)
    squares = o.stored(squares + grad * grad, squares)
    steps = o.global_step.astype(var.dtype)
    shrunk = o.xp.sign(total) * o.xp.maximum(o.xp.abs(total) - o.l1 * steps, 0)
    top = o.xp.where(o.l1 > 0, shrunk, total)
    return -o.lr * top / (o.l2 * steps * o.lr + o.xp.sqrt(squares)), total, squares


def adadelta(o: Any, var: Any, accum: Any, accum_update: Any, grad: Any) -> tuple[Any, ...]:
    """Steps in units of the variable (Zeiler, 2012)."""
    accum = o.stored(accum * o.rho + grad * grad * (1 - o.rho), accum)
    update = o.xp.sqrt(accum_update + o.epsilon) / o.xp.sqrt(accum + o.epsilon) * grad
    return var - update * o.lr, accum, accum_update * o.rho + update * update * (1 - o.rho)


def rms_prop(o: Any, var: Any, ms: Any, mom: Any, grad: Any) -> tuple[Any, ...]:
    """Steps divided by the running root mean square; ``epsilon`` is inside the root."""
    ms = o.stored(ms + (grad * grad - ms) * (1 - o.rho), ms)
    mom = o.stored(mom * o.momentum + grad * o.lr / o.xp.sqrt(ms + o.epsilon), mom)
    return var - mom, ms, mom


def centered_rms_prop(o: Any, var: Any, mg: Any, ms: Any, mom: Any, grad: Any) -> tuple[Any, ...]:
    """RMSProp by the running variance instead of the mean square."""
    ms = o.stored(ms + (grad * grad - ms) * (1 - o.rho), ms)
    mg = o.stored(mg + (grad - mg) * (1 - o.rho), mg)
    mom = o.stored(mom * o.momentum + grad * o.lr / o.xp.sqrt(ms - mg * mg + o.epsilon), mom)
    return var - mom, mg, ms, mom


def _moments(o: Any, m: Any, v: Any, grad: Any) -> tuple[Any, Any, Any]:
    rate = o.lr * o.xp.sqrt(1 - o.beta2_power) / (1 - o.beta1_power)
    m = o.stored(m + (grad - m) * (1 - o.beta1), m)
    return rate, m, o.stored(v + (grad * grad - v) * (1 - o.beta2), v)


def adam(o: Any, var: Any, m: Any, v: Any, grad: Any) -> tuple[Any, ...]:
    """Kingma and Ba, 2015, in the form whose ``epsilon`` is added to the uncorrected root ("epsilon hat")."""
    rate, m, v = _moments(o, m, v, grad)
    step = grad * (1 - o.beta1) + m * o.beta1 if o.use_nesterov else m
    return var - step * rate / (o.xp.sqrt(v) + o.epsilon), m, v


def adam_with_amsgrad(o: Any, var: Any, m: Any, v: Any, vhat: Any, grad: Any) -> tuple[Any, ...]:
    """Adam by the largest second moment so far (Reddi, Kale and Kumar, 2018)."""
    rate, m, v = _moments(o, m, v, grad)
    vhat = o.stored(o.xp.maximum(vhat, v), vhat)
    return var - m * rate / (o.xp.sqrt(vhat) + o.epsilon), m, v, vhat


def ada_max(o: Any, var: Any, m: Any, v: Any, grad: Any) -> tuple[Any, ...]:
    """Adam by the infinity norm."""
    m = o.stored(m + (grad - m) * (1 - o.beta1), m)
    v = o.stored(o.xp.maximum(v * o.beta2, o.xp.abs(grad)), v)
    return var - o.lr / (1 - o.beta1_power) * (m / (v + o.epsilon)), m, v


def add_sign(o: Any, var: Any, m: Any, grad: Any) -> tuple[Any, ...]:
    """Scale a step by whether gradient and momentum agree in sign (Bello et al., 2017)."""
    m = o.stored(m * o.beta + grad * (1 - o.beta), m)
    agree = o.xp.sign(grad) * o.xp.sign(m)
    return var - (o.alpha + o.sign_decay * agree) * grad * o.lr, m


def power_sign(o: Any, var: Any, m: Any, grad: Any) -> tuple[Any, ...]:
    """Like AddSign with the scale as a power of ``exp(logbase)``."""
    m = o.stored(m * o.beta + grad * (1 - o.beta), m)
    agree = o.xp.sign(grad) * o.xp.sign(m)
    return var - o.xp.exp(o.logbase * o.sign_decay * agree) * grad * o.lr, m


def _power(o: Any, accum: Any) -> Any:
    """``accum ** -lr_power``; the usual ``lr_power = -0.5`` is a root, which costs a tenth of a power."""
    exponent: Any = o.lr_power
    if isinstance(exponent, (np.ndarray, np.generic)) and exponent == -0.5:
        return o.xp.sqrt(accum)
    return o.xp.where(exponent == -0.5, o.xp.sqrt(accum), o.xp.power(accum, -exponent))


def ftrl(o: Any, var: Any, accum: Any, linear: Any, grad: Any) -> tuple[Any, ...]:
    """Follow the regularised leader (McMahan et al., 2013); ``l2_shrinkage`` enters the linear term alone."""
    shrinkage = o.__dict__.get("l2_shrinkage")
    push = grad if shrinkage is None else grad + 2 * shrinkage * var
    new_accum = accum + grad * grad
    old_power, new_power = _power(o, accum), _power(o, new_accum)
    if o.multiply_linear_by_lr:
        linear = o.stored(linear + (push * o.lr - (new_power - old_power) * var), linear)
        bound, curve = o.l1 * o.lr, new_power + 2 * o.l2 * o.lr
    else:
        linear = o.stored(linear + (push - (new_power - old_power) / o.lr * var), linear)
        bound, curve = o.l1, new_power / o.lr + 2 * o.l2
    return (o.xp.minimum(o.xp.maximum(linear, -bound), bound) - linear) / curve, new_accum, linear
