"""Long element-wise chains on CPUs: results against NumPy, and code that grows with their length, not its square."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import anabranch as tf
from anabranch.xla import elementwise_chains
from anabranch.xla import program as programs
from anabranch.xla.loops import repeated_blocks

SIZE = 16


def memory(steps: int) -> tuple[Any, Any]:
    """An unrolled memory ``m = m * f + i``, each link of which a product takes; and what it gives in NumPy."""
    random = np.random.RandomState(steps)
    keep, new = random.rand(2, steps, SIZE), random.randn(2, steps, SIZE)
    weights = random.randn(steps, SIZE, SIZE)
    m, total = tf.zeros([1, SIZE], tf.float64), []
    value, told = np.zeros((1, SIZE)), []
    given = [tf.placeholder(tf.float64, array.shape) for array in (keep, new, weights)]
    for step in range(steps):
        m = m * given[0][0, step] + given[1][1, step]
        total.append(tf.matmul(m, given[2][step]))
        value = value * keep[0, step] + new[1, step]
        told.append(value @ weights[step])
    feeds = dict(zip(given, (keep, new, weights), strict=True))
    return (tf.add_n(total), feeds), sum(told)


def lines(monkeypatch: pytest.MonkeyPatch, steps: int) -> int:
    """Lines of the compiled code of a memory of so many steps."""
    found: list[int] = []
    compiled = jax.stages.Lowered.compile

    def seen(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = compiled(self, *args, **kwargs)
        found.append(made.as_text().count("\n"))
        return made

    programs._shared.clear()
    with monkeypatch.context() as patch, tf.Graph().as_default():
        patch.setattr(jax.stages.Lowered, "compile", seen)
        (total, feeds), expected = memory(steps)
        with tf.Session(config=tf.SessionOptions(tier="compiled", precision="highest")) as session:
            np.testing.assert_allclose(session.run(total, feeds), expected, rtol=1e-11)
    return max(found)


@pytest.fixture(autouse=True)
def _unshared() -> Any:
    yield
    programs._shared.clear()


def test_code_grows_with_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_blocks, "find", lambda ops, *_: list(ops))  # not as one loop
    short, long = lines(monkeypatch, 12), lines(monkeypatch, 36)
    assert long < 3.6 * short
    monkeypatch.setattr(elementwise_chains, "LONGEST", 10_000)
    assert lines(monkeypatch, 36) > 1.3 * long


def test_only_on_cpus_and_only_where_several_take_it() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4])
        for _ in range(elementwise_chains.LONGEST - 2):
            x = tf.negative(x)
        alone = x
        tf.negative(alone)
        shared = tf.negative(tf.negative(alone))
        takers = [tf.exp(shared), tf.log(shared)]
        assert shared.consumers() == [taker.op for taker in takers]
        results: list[Any] = []

        def value(kept: Any) -> Any:
            ops = [op for op in tf.get_default_graph().get_operations() if op.type == "Neg"]
            for op in ops:
                aval = jax.numpy.zeros(4)
                results.append(kept.settled(op, [aval])[0] is aval)
            return [op.name for op, same in zip(ops, results, strict=True) if not same]

        assert value(elementwise_chains.Chains("cpu")) == [shared.op.name]
        results.clear()
        assert value(elementwise_chains.Chains("gpu")) == []


def test_a_draw_of_a_few_numbers_is_kept_and_a_large_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elementwise_chains, "apart", lambda value: "kept")
    with tf.Graph().as_default():
        for size in (3, elementwise_chains.SMALL_DRAW + 1):
            tf.random_uniform([size])
        draws = [op for op in tf.get_default_graph().get_operations() if op.type == "RandomUniform"]
        for drawn, kept in zip(draws, (True, False), strict=True):
            value = jax.numpy.zeros(drawn.outputs[0].shape.as_list())
            for platform in ("cpu", "gpu"):
                (settled,) = elementwise_chains.Chains(platform).settled(drawn, [value])
                assert (settled is value) != (kept and platform == "cpu")


def test_draws_are_not_drawn_again_for_each_pixel(monkeypatch: pytest.MonkeyPatch) -> None:
    def multiplications(small: int) -> int:
        """In the functions of the compiled code that are called from elsewhere, and in all."""
        texts: list[str] = []
        compiled = jax.stages.Lowered.compile

        def seen(self: Any, *args: Any, **kwargs: Any) -> Any:
            made = compiled(self, *args, **kwargs)
            texts.append(made.as_text())
            return made

        programs._shared.clear()
        with monkeypatch.context() as patch, tf.Graph().as_default():
            patch.setattr(jax.stages.Lowered, "compile", seen)
            patch.setattr(elementwise_chains, "SMALL_DRAW", small)
            images = tf.placeholder(tf.float32, [8, 8, 3])
            changed = tf.image.random_saturation(tf.image.random_brightness(images, 0.3, seed=1), 0.5, 1.5, seed=2)
            with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
                session.run(changed, {images: np.ones([8, 8, 3], np.float32)})
        bodies = [body for text in texts for body in text.split("\n\n") if "concatenate" in body or "stack" in body]
        return max(body.count(" multiply(") for body in bodies)

    assert 2 * multiplications(elementwise_chains.SMALL_DRAW) < multiplications(0)
