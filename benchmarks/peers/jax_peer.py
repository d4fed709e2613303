"""The cases in JAX, written by hand: one jitted function per step with donated parameters."""

import jax
import jax.numpy as jnp
import numpy as np

from peers import jax_language_model, jax_loops, shapes


def stepping(loss, params, batch, rate):
    def update(params, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        return value, jax.tree.map(lambda p, g: p - rate * g, params, grads)

    jitted = jax.jit(update, donate_argnums=0)
    state = [jax.tree.map(jnp.asarray, params)]

    def step():
        value, state[0] = jitted(state[0], *batch)
        return np.asarray(value)

    return step


def matmul_small():
    x, weights = shapes.small()
    product = jax.jit(lambda a, b: a @ b)
    w = jnp.asarray(weights[0])
    return lambda: np.asarray(product(x, w))


def train_small():
    x, weights = shapes.small()
    return stepping(lambda ws, x: sum(jnp.sum((x @ w) ** 2) for w in ws), weights, (x,), 1e-6)


def cross_entropy(logits, y):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1))


def mlp(*sizes):
    x, y, weights = shapes.mlp(*sizes)
    params = [(w, np.zeros(w.shape[1], np.float32)) for w in weights]

    def loss(params, x, y):
        for i, (w, b) in enumerate(params):
            x = x @ w + b
            if i < 2:
                x = jax.nn.relu(x)
        return cross_entropy(x, y)

    return stepping(loss, params, (x, y), 0.01)


def pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")


def conv(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def conv6(*sizes):
    x, y, weights = shapes.conv6(*sizes)

    def loss(params, x, y):
        for i, w in enumerate(params[:-1]):
            x = jax.nn.relu(conv(x, w))
            if i in shapes.POOLED:
                x = pool(x)
        return cross_entropy(x.reshape(len(x), -1) @ params[-1], y)

    return stepping(loss, weights, (x, y), 0.001)


def digits():
    x, y, weights = shapes.digits()

    def loss(params, x, y):
        for w in params[:2]:
            x = pool(jax.nn.relu(conv(x, w)))
        return cross_entropy(jax.nn.relu(x.reshape(-1, 256) @ params[2]) @ params[3], y)

    def update(state, x, y):
        params, m, v, t = state
        value, grads = jax.value_and_grad(loss)(params, x, y)
        t = t + 1
        rate = 1e-4 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
        params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), params, m, v)
        return value, (params, m, v, t)

    jitted = jax.jit(update, donate_argnums=0)
    zeros = [jnp.zeros_like(w) for w in weights]
    state = [([jnp.asarray(w) for w in weights], zeros, [jnp.zeros_like(w) for w in weights], jnp.float32(0))]

    def step():
        value, state[0] = jitted(state[0], x, y)
        return np.asarray(value)

    return step


def embedding(rows=shapes.ROWS):
    ids = np.random.RandomState(0).randint(0, rows, shapes.BATCH).astype(np.int32)

    def update(table, ids):
        grad = 2 * (table[ids] - 1.0)
        return table.at[ids].add(-0.01 * grad)

    jitted = jax.jit(update, donate_argnums=0)
    state = [jnp.zeros((rows, shapes.WIDTH))]

    def step():
        state[0] = jitted(state[0], ids)
        state[0].block_until_ready()

    return step


def plain_step():
    jitted = jax.jit(lambda vs, x: [v - (v * 0.01 + x) for v in vs], donate_argnums=0)
    state = [[jnp.zeros((1250, 1000)) for _ in range(20)]]
    x = np.ones(1000, np.float32)

    def step():
        state[0] = jitted(state[0], x)
        jax.block_until_ready(state[0])

    return step


CASES = {
    "matmul_small": matmul_small,
    "train_small": train_small,
    "mlp": mlp,
    "conv6": conv6,
    "mlp_wide": lambda: mlp(*shapes.WIDE_MLP),
    "conv6_wide": lambda: conv6(*shapes.WIDE_CONV),
    "digits": digits,
    "embedding_unchecked": embedding,
    "embedding": embedding,
    "embedding_small": lambda: embedding(10_000),
    "plain_step": plain_step,
    **jax_language_model.CASES,
    **jax_loops.CASES,
}
