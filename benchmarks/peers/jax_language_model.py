"""The LSTM language model in JAX, written by hand: what an expert gets out of ``lax.scan``.

The input's projection stands before the loop; of the gradient only what is sequential stands in one, and each matrix's
gradient is one product after it; the gradient of the cross entropy is in closed form, and the embedding's rows are
updated where they are. ``plain`` leaves all gradients to ``jax.grad``.
"""

import jax
import jax.numpy as jnp
import numpy as np

from peers import shapes


def gates(before):
    i, j, f, o = jnp.split(before, 4, -1)
    return jax.nn.sigmoid(i), jnp.tanh(j), jax.nn.sigmoid(f + 1.0), jax.nn.sigmoid(o)


def run(before, recurrent):
    """States ``c``, ``h`` after each step, and the gates' arguments; ``before`` is the projected input."""
    zeros = jnp.zeros((shapes.SEQUENCES, shapes.HIDDEN))

    def step(state, x):
        c, h = state
        total = x + h @ recurrent
        i, j, f, o = gates(total)
        c = c * f + i * j
        h = jnp.tanh(c) * o
        return (c, h), (c, h, total)

    return jax.lax.scan(step, (zeros, zeros), before)[1]


@jax.custom_vjp
def lstm(before, recurrent):
    return run(before, recurrent)[1]


def forward(before, recurrent):
    c, h, totals = run(before, recurrent)
    return h, (c, h, totals, recurrent)


def backward(kept, grads):
    c, h, totals, recurrent = kept
    earlier = jnp.concatenate([jnp.zeros_like(c[:1]), c[:-1]])
    transposed = recurrent.T

    def step(state, at):
        dc, dh = state
        grad, c, earlier, total = at
        dh = dh + grad
        i, j, f, o = gates(total)
        t = jnp.tanh(c)
        dc = dc + dh * o * (1 - t * t)
        parts = [dc * j * i * (1 - i), dc * i * (1 - j * j), dc * earlier * f * (1 - f), dh * t * o * (1 - o)]
        dtotal = jnp.concatenate(parts, 1)
        return (dc * f, dtotal @ transposed), dtotal

    zeros = jnp.zeros_like(c[0])
    dtotals = jax.lax.scan(step, (zeros, zeros), (grads, c, earlier, totals), reverse=True)[1]
    wide = dtotals.shape[-1]
    return dtotals, h[:-1].reshape(-1, shapes.HIDDEN).T @ dtotals[1:].reshape(-1, wide)


lstm.defvjp(forward, backward)


def cross_entropy(logits, y):
    return jnp.mean(jax.nn.logsumexp(logits, 1) - jnp.take_along_axis(logits, y[:, None], 1)[:, 0])


@jax.custom_vjp
def closed_cross_entropy(logits, y):
    return cross_entropy(logits, y)


def closed_forward(logits, y):
    return cross_entropy(logits, y), (logits, y)


def closed_backward(kept, grad):
    logits, y = kept
    right = y[:, None] == jnp.arange(logits.shape[1])
    return (jax.nn.softmax(logits) - right) * (grad / len(y)), None


closed_cross_entropy.defvjp(closed_forward, closed_backward)


def language_model(tuned=True):
    words, following, weights = shapes.language_model()

    def loss(rows, rest, y):
        kernel, bias, out, out_bias = rest
        before = rows.transpose(1, 0, 2).reshape(-1, shapes.HIDDEN) @ kernel[: shapes.HIDDEN] + bias
        before = before.reshape(shapes.STEPS, shapes.SEQUENCES, -1)
        hidden = lstm(before, kernel[shapes.HIDDEN :]) if tuned else run(before, kernel[shapes.HIDDEN :])[1]
        logits = hidden.transpose(1, 0, 2).reshape(-1, shapes.HIDDEN) @ out + out_bias
        return (closed_cross_entropy if tuned else cross_entropy)(logits, y.reshape(-1))

    def tuned_step(params, x, y):
        table, *rest = params
        value, (row_grads, grads) = jax.value_and_grad(loss, (0, 1))(table[x], rest, y)
        table = table.at[x].add(-shapes.LM_RATE * row_grads)
        return value, [table, *(p - shapes.LM_RATE * g for p, g in zip(rest, grads, strict=True))]

    def plain_step(params, x, y):
        value, grads = jax.value_and_grad(lambda params: loss(params[0][x], params[1:], y))(params)
        return value, [p - shapes.LM_RATE * g for p, g in zip(params, grads, strict=True)]

    jitted = jax.jit(tuned_step if tuned else plain_step, donate_argnums=0)
    state = [[jnp.asarray(w) for w in weights]]

    def step():
        value, state[0] = jitted(state[0], words, following)
        return np.asarray(value)

    return step


CASES = {"language_model": language_model, "language_model_plain": lambda: language_model(False)}
