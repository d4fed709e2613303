"""Rows of the optimizers' updates: formulas in float64, in dense and sparse form, on references and handles.

`tests/ops/state/test_training.py` compares the same ops with TensorFlow's results.
"""

from __future__ import annotations

import numpy as np

from anabranch.core.contract import opdef
from anabranch.testing.op_cases import case, positive, real, row

SCALARS = {
    "lr": 0.3, "alpha": 0.2, "l1": 0.05, "l2": 0.1, "l2_shrinkage": 0.07, "lr_power": -0.5, "momentum": 0.9,
    "rho": 0.8, "epsilon": 0.01, "beta1": 0.9, "beta2": 0.99, "beta1_power": 0.81, "beta2_power": 0.98,
    "logbase": 0.7, "sign_decay": 0.6, "beta": 0.85, "global_step": 3,
}  # fmt: skip
SIGNED = ("var", "linear", "m", "mom", "gradient_accumulator", "grad", "delta")


def shrunk(x, by):
    return np.sign(x) * np.maximum(np.abs(x) - by, 0)


def gradient_descent(var, alpha, delta):
    return (var - alpha * delta,)


def proximal_gradient_descent(var, alpha, l1, l2, delta=None, grad=None):
    moved = var - alpha * (delta if grad is None else grad)
    return (shrunk(moved, alpha * l1) / (1 + alpha * l2),)


def momentum(var, accum, lr, grad, momentum, use_nesterov=False):
    accum = momentum * accum + grad
    return var - lr * (grad + momentum * accum if use_nesterov else accum), accum


def keras_momentum(var, accum, lr, grad, momentum, use_nesterov=False):
    accum = momentum * accum - lr * grad
    return var + (momentum * accum - lr * grad if use_nesterov else accum), accum


def adagrad(var, accum, lr, grad, epsilon=0.0, update_slots=True):
    accum = accum + grad**2 if update_slots else accum
    return var - lr * grad / (np.sqrt(accum) + epsilon), accum


def proximal_adagrad(var, accum, lr, l1, l2, grad):
    accum = accum + grad**2
    rate = lr / np.sqrt(accum)
    return shrunk(var - rate * grad, rate * l1) / (1 + rate * l2), accum


def adagrad_da(var, gradient_accumulator, gradient_squared_accumulator, grad, lr, l1, l2, global_step):
    total, squared = gradient_accumulator + grad, gradient_squared_accumulator + grad**2
    return -lr * shrunk(total, l1 * global_step) / (l2 * global_step * lr + np.sqrt(squared)), total, squared


def adadelta(var, accum, accum_update, lr, rho, epsilon, grad):
    accum = rho * accum + (1 - rho) * grad**2
    update = np.sqrt(accum_update + epsilon) / np.sqrt(accum + epsilon) * grad
    return var - lr * update, accum, rho * accum_update + (1 - rho) * update**2


def rms_prop(var, ms, mom, lr, rho, momentum, epsilon, grad):
    ms = rho * ms + (1 - rho) * grad**2
    mom = momentum * mom + lr * grad / np.sqrt(ms + epsilon)
    return var - mom, ms, mom


def centered_rms_prop(var, mg, ms, mom, lr, rho, momentum, epsilon, grad):
    mg, ms = rho * mg + (1 - rho) * grad, rho * ms + (1 - rho) * grad**2
    mom = momentum * mom + lr * grad / np.sqrt(ms - mg**2 + epsilon)
    return var - mom, mg, ms, mom


def adam(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, use_nesterov=False):
    rate = lr * np.sqrt(1 - beta2_power) / (1 - beta1_power)
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    return var - rate * (beta1 * m + (1 - beta1) * grad if use_nesterov else m) / (np.sqrt(v) + epsilon), m, v


def amsgrad(var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad):
    _, m, v = adam(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad)
    vhat = np.maximum(vhat, v)
    return var - lr * np.sqrt(1 - beta2_power) / (1 - beta1_power) * m / (np.sqrt(vhat) + epsilon), m, v, vhat


def adamax(var, m, v, beta1_power, lr, beta1, beta2, epsilon, grad):
    m, v = beta1 * m + (1 - beta1) * grad, np.maximum(beta2 * v, np.abs(grad))
    return var - lr / (1 - beta1_power) * m / (v + epsilon), m, v


def add_sign(var, m, lr, alpha, sign_decay, beta, grad):
    m = beta * m + (1 - beta) * grad
    return var - lr * (alpha + sign_decay * np.sign(grad) * np.sign(m)) * grad, m


def power_sign(var, m, lr, logbase, sign_decay, beta, grad):
    m = beta * m + (1 - beta) * grad
    return var - lr * np.exp(logbase * sign_decay * np.sign(grad) * np.sign(m)) * grad, m


def ftrl(var, accum, linear, grad, lr, l1, l2, lr_power, l2_shrinkage=0.0):
    total = accum + grad**2
    shrunk_grad = grad + 2 * l2_shrinkage * var
    linear = linear + shrunk_grad - (total**-lr_power - accum**-lr_power) / lr * var
    new = (np.sign(linear) * l1 - linear) / (total**-lr_power / lr + 2 * l2)
    return np.where(np.abs(linear) > l1, new, 0), total, linear


def sparse(formula, names):
    """The formula on the rows that the indices name."""

    def reference(*operands, **attrs):
        given = dict(zip(names, operands, strict=True))
        indices = given.pop("indices")
        state = {name: value.copy() for name, value in given.items() if value.ndim and name != "grad"}
        for position, at in enumerate(indices):
            step = {name: state[name][at] if name in state else value for name, value in given.items()}
            step["grad"] = given["grad"][position]
            for name, new in zip(state, formula(**step, **attrs), strict=True):
                state[name][at] = new
        return list(state.values())

    return reference


def dense(formula, names):
    return lambda *operands, **attrs: list(formula(**dict(zip(names, operands, strict=True)), **attrs))


def operand(name, rows):
    if name == "indices":
        return [2, 0]
    if name in SCALARS:
        return SCALARS[name]
    shape = (rows, 2)
    if name == "mg":
        return real(*shape, low=-0.1, high=0.1)
    return real(*shape) if name in SIGNED else positive(*shape)


TABLE = {
    "GradientDescent": (gradient_descent, [{}]),
    "ProximalGradientDescent": (proximal_gradient_descent, [{}]),
    "Momentum": (momentum, [{}, {"use_nesterov": True}]),
    "KerasMomentum": (keras_momentum, [{}, {"use_nesterov": True}]),
    "Adagrad": (adagrad, [{}, {"update_slots": False}]),
    "AdagradV2": (adagrad, [{}, {"update_slots": False}]),
    "ProximalAdagrad": (proximal_adagrad, [{}]),
    "AdagradDA": (adagrad_da, [{}]),
    "Adadelta": (adadelta, [{}]),
    "RMSProp": (rms_prop, [{}]),
    "CenteredRMSProp": (centered_rms_prop, [{}]),
    "Adam": (adam, [{}, {"use_nesterov": True}]),
    "AdamWithAmsgrad": (amsgrad, [{}]),
    "AdaMax": (adamax, [{}]),
    "AddSign": (add_sign, [{}]),
    "PowerSign": (power_sign, [{}]),
    "Ftrl": (ftrl, [{}]),
    "FtrlV2": (ftrl, [{}]),
}


# The forms share their formulas: one of them meets every dtype.
FORMS = {
    "Apply": "half bfloat16 float double",
    "ResourceApply": "float double",
    "SparseApply": "float double",
    "ResourceSparseApply": "float",
}


def rows():
    for name, (formula, options) in TABLE.items():
        for prefix, types in FORMS.items():
            definition = opdef.find(prefix + name)
            if definition is None:
                continue
            names = [spec.name for spec in definition.inputs]
            kind = sparse if "Sparse" in prefix else dense
            cases = [
                case(*[operand(n, 2 if n == "grad" and kind is sparse else 3) for n in names], **attrs)
                for attrs in options
            ]
            yield row(prefix + name, kind(formula, names), cases, types, tolerance=6)


ROWS = list(rows())
