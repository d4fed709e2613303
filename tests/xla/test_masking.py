"""Computations at a capacity give for each size what the exact ones give, whatever the padding holds."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.xla import engine
from anabranch.xla.padding import masking
from anabranch.xla.padding.sizes import LEAST, Sizes, capacity, least

COLUMNS = 6


@pytest.fixture(autouse=True)
def wide():
    """Programs are traced with 64 bits."""
    with engine.x64():
        yield


def _table():
    jax = engine.jax()
    jnp, lax = jax.numpy, jax.lax
    rows = jnp.asarray(np.arange(COLUMNS * 3).reshape(COLUMNS, 3).astype(np.float32))
    image = jnp.asarray(np.linspace(-1, 1, 8).reshape(2, 2, 1, 2).astype(np.float32))

    def numbers(x):
        return jnp.clip(jnp.nan_to_num(x[:, 0], nan=77.0) * 2, -9, 9).astype(np.int32)

    def convolved(x, filters):
        return lax.conv_general_dilated(
            x.reshape(-1, 2, 3, 1), filters, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    return {
        "arithmetic": lambda x: jnp.tanh(x) * 2 + x[:, :1],
        "sum": lambda x: jnp.sum(x, 0),
        "mean": lambda x: jnp.mean(x),
        "variance": lambda x: jnp.var(x, 0),
        "extremes": lambda x: (jnp.max(x, 0), jnp.min(x, 0), jnp.argmax(x, 0), jnp.argmin(x, 0)),
        "product": lambda x: jnp.prod(x, 0),
        "all": lambda x: (jnp.all(x < 5, 0), jnp.any(x > 1, 0)),
        "softmax of columns": lambda x: jax.nn.softmax(x, 0),
        "softmax of rows": lambda x: jax.nn.softmax(x, 1),
        "matmul": lambda x: x @ rows,
        "gradient of matmul": lambda x: x.T @ jnp.cos(x),
        "gram": lambda x: (x @ x.T).sum(0),
        "transposed": lambda x: jnp.transpose(x.reshape(-1, 2, 3), (2, 0, 1)),
        "merged": lambda x: x.reshape(-1),
        "divided": lambda x: x.reshape(-1, 3).reshape(-1, 1, 3),
        "one more": lambda x: jnp.stack([x, x], 1),
        "cumulative": lambda x: jnp.cumsum(x, 0),
        "sorted rows": lambda x: jnp.sort(x, 1),
        "row numbers": lambda x: jnp.arange(x.shape[0]) + x[:, 0],
        "size": lambda x: x[0] * x.shape[0],
        "rows of a table": lambda x: rows[jnp.clip(numbers(x), 0, COLUMNS - 1)],
        "label of each row": lambda x: jnp.take_along_axis(x, jnp.abs(numbers(x))[:, None] % COLUMNS, 1),
        "pick a row": lambda x: x[jnp.argmax(x[:, 1])],
        "rows of the batch": lambda x: jnp.take(x, jnp.asarray([0, 2, 900, -1]), axis=0, mode="clip"),
        "rows of the batch or NaN": lambda x: jnp.take(x, jnp.asarray([0, 2, 900]), axis=0, mode="fill"),
        "sums per number": lambda x: jnp.zeros((COLUMNS, COLUMNS)).at[numbers(x) % COLUMNS].add(x),
        "set rows": lambda x: jnp.zeros((COLUMNS, COLUMNS)).at[numbers(x) % COLUMNS].max(x),
        "scatter into the batch": lambda x: jnp.zeros_like(x).at[jnp.asarray([0, 1])].set(1.0),
        "convolution": lambda x: convolved(x, image),
        "gradient of a convolution": lambda x: jax.vjp(lambda f: convolved(x, f), image)[1](convolved(x, image))[0],
        "gradient to the images": lambda x: jax.grad(lambda y: jnp.sum(jnp.sin(convolved(y, image))))(x),
        "pool": lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 2), "VALID"),
        "gradient of a pool": lambda x: jax.grad(
            lambda y: jnp.sum(lax.reduce_window(y, -np.inf, lax.max, (1, 2), (1, 2), "VALID") ** 2)
        )(x),
        "loop": lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.tanh(y) + jnp.mean(y, 0), x),
        "scan": lambda x: lax.scan(lambda c, w: (jnp.tanh(c * w), jnp.sum(c)), x, jnp.arange(1, 4, dtype=jnp.float32)),
        "branches": lambda x: lax.cond(jnp.sum(x) > 0, lambda y: y * 2, lambda y: y - jnp.mean(y), x),
        "reversed": lambda x: x[::-1],
        "joined": lambda x: jnp.concatenate([x[:2], x, jnp.tanh(x), x[:1]]),
        "across": lambda x: x.T.reshape(-1),
        "steps as rows of a matrix": lambda x: (
            jnp.transpose(x.reshape(-1, 2, 3), (1, 0, 2)).reshape(-1, 3) @ rows.T[:, :3]
        ),
        "rows of a matrix as steps": lambda x: jnp.tanh(
            jnp.transpose(x.reshape(-1, 2, 3), (1, 2, 0)).reshape(-1)
        ).reshape(2, 3, -1),
        "cumulative from the end": lambda x: (
            lax.cumsum(x, 0, reverse=True),
            lax.cumprod(x, 0, reverse=True),
            lax.cummax(x, 0, reverse=True),
            lax.cummin(x, 0, reverse=True),
            lax.cumlogsumexp(x, 0, reverse=True),
        ),
        "last rows": lambda x: (x[-1], x[-3:], x[-2:-1], x[x.shape[0] - 4 : x.shape[0] - 2]),
        "all but some": lambda x: (x[1:], x[:-1], x[2:-3], x[4:] - x[:-4]),
        "more rows": lambda x: (jnp.pad(x, ((2, 3), (0, 1))), jnp.pad(x, ((1, 0), (0, 0)), constant_values=9.0).sum()),
        "where the last rows were": lambda x: lax.pad(x[-2:] * 2, np.float32(0), ((x.shape[0] - 2, 0, 0), (1, 0, 0))),
        "rows behind as many": lambda x: lax.pad(x, np.float32(3), ((x.shape[0] - 1, x.shape[0] + 4, 0), (0, 0, 0))),
        "as many as always": lambda x: lax.pad(x, np.float32(5), ((0, 99 - x.shape[0], 0), (0, 0, 0))),
        "scan over rows": lambda x: lax.scan(lambda c, w: (jnp.tanh(c + w), c * w), x[0], x),
        "scan from the end": lambda x: lax.scan(lambda c, w: (jnp.tanh(c + w), c * w), x[0], x, reverse=True),
        "written in a loop": lambda x: (
            lambda x: lax.fori_loop(
                0, x.shape[0], lambda i, y: lax.dynamic_update_index_in_dim(y, jnp.sin(y[i - 1]) + x[i], i, 0), x * 0
            )
        )(jnp.asarray(x)),
        "written too far": lambda x: lax.dynamic_update_slice(x, x[:2] * 2, (x.shape[0] + 5, 0)),
        "inner": lambda x: jax.jit(lambda y: jax.nn.relu(y).sum(0))(x),
    }


def _refused():
    jnp = engine.jax().numpy
    return {
        "every other": (lambda x: x[::2], "slice along the batch|does not|sizes"),
        "sorted": (lambda x: jnp.sort(x, 0), "sort along the batch"),
        "inverse": (lambda x: x * (1.0 / x.shape[0]), "does not grow evenly"),
        "determinant": (lambda x: engine.jax().lax.linalg.cholesky(x @ x.T), "matrices as large as the batch"),
        "other code": (lambda x: x + 1 if x.shape[0] % 2 else jnp.sin(x), "other code for another size"),
        "decided rows": (lambda x: x[: min(x.shape[0], 50)].sum(), "slice along the batch"),
    }


def masked(function, x, room):
    """What a function gives for ``x``, computed at a capacity with NaN for padding: arrays cut to their sizes."""
    jax = engine.jax()
    sizes = Sizes((room,))
    traces = [jax.make_jaxpr(function)(jax.ShapeDtypeStruct((n, *x.shape[1:]), x.dtype)) for (n,) in sizes.points]
    padded = np.full((room, *x.shape[1:]), np.nan, x.dtype)
    padded[: len(x)] = x

    @jax.jit
    def run(array, size):
        one = masking.Masked(sizes, (size,), least((room,)))
        return one.evaluate([t.jaxpr for t in traces], [t.consts for t in traces], [array])

    found = []
    for i, value in enumerate(run(padded, np.int32(len(x)))):
        lines = [sizes.line(tuple(dims)) for dims in zip(*[t.jaxpr.outvars[i].aval.shape for t in traces], strict=True)]
        sliced = [slice(None) if line is None else slice(sizes.at(line, (len(x),))) for line in lines]
        found.append(np.asarray(value)[tuple(sliced)])
    return found


@pytest.mark.parametrize("name", list(_table()))
def test_padding_is_never_seen(name):
    jax = engine.jax()
    function = _table()[name]
    for n in (33, 64):
        x = np.random.RandomState(n).randn(n, COLUMNS).astype(np.float32)
        expected = jax.tree_util.tree_leaves(function(x))
        found = masked(function, x, 64)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", list(_refused()))
def test_what_cannot_be_padded_is_refused(name):
    function, reason = _refused()[name]
    with pytest.raises(masking.Refused, match=reason):
        masked(function, np.ones((40, COLUMNS), np.float32), 64)


def test_capacities_serve_all_sizes():
    for n in range(1, 3000):
        (room,) = capacity((n,))
        assert least((room,))[0] <= n <= room
        assert room <= 2 * LEAST or room < 1.5 * n
    assert len({capacity((n,)) for n in range(1, 300)}) == 7
