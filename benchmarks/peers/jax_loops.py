"""Loops in JAX, written by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from peers import shapes


def trivial():
    def run(x):
        return jax.lax.while_loop(
            lambda carry: carry[0] < shapes.TRIPS, lambda carry: (carry[0] + 1, carry[1] * 0.999 + 1.0), (0, x)
        )[1]

    jitted = jax.jit(run)
    x = np.float32(1.0)
    return lambda: np.asarray(jitted(x))


def recurrence(gradient=True):
    state, weights, count = shapes.recurrence()

    def last(w, h):
        return jax.lax.scan(lambda h, _: (jnp.tanh(h @ w), None), h, None, length=count)[0]

    jitted = jax.jit(jax.grad(lambda w, h: last(w, h).sum()) if gradient else last)
    return lambda: np.asarray(jitted(weights, state))


def rows(function, gradient=False):
    jitted = jax.jit(jax.grad(lambda x: function(x).sum()) if gradient else function)
    x = shapes.rows()
    return lambda: np.asarray(jitted(x))


def mapped(x):
    return jax.lax.map(lambda row: jnp.tanh(row) * row, x)


def scanned(x):
    def step(total, row):
        total = total * 0.9 + row
        return total, total

    return jax.lax.scan(step, jnp.zeros(shapes.ROW), x)[1]


CASES = {
    "loop_trivial": trivial,
    "loop_forward": lambda: recurrence(False),
    "loop_grad_known": recurrence,
    "loop_grad_fed": recurrence,
    "map_fn": lambda: rows(mapped),
    "map_fn_grad": lambda: rows(mapped, True),
    "scan": lambda: rows(scanned),
    "scan_grad": lambda: rows(scanned, True),
}
