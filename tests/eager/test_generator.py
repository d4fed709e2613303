"""`tf.random.experimental.Generator`: TensorFlow 1.15.5 gives these numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf

Generator = tf.random.experimental.Generator
DRAWS: list[tuple[str, Any, Any]] = [
    ("normal", lambda g: g.normal([3]), [0.43842274, -0.53439844, -0.07710262]),
    ("uniform", lambda g: g.uniform([2], 2.0, 5.0), None),
    ("integers", lambda g: g.uniform([5], 1, 100, tf.int32), None),
    ("all integers", lambda g: g.uniform_full_int([2]), None),
    ("truncated", lambda g: g.truncated_normal([4], dtype=tf.float64), None),
]


@pytest.mark.parametrize(("draw", "expected"), [(draw, expected) for _, draw, expected in DRAWS])
def test_draws_move_the_state_and_repeat(draw: Any, expected: Any) -> None:
    one, two = Generator.from_seed(1), Generator.from_seed(1)
    first, second = draw(one).numpy(), draw(one).numpy()
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(draw(two).numpy(), first)
    assert two.state.numpy().tolist() == [1 + 256 * first.size, 0, 0]
    if expected is not None:
        np.testing.assert_allclose(first, expected, rtol=1e-6)
    other = Generator(copy_from=two)
    np.testing.assert_array_equal(draw(other).numpy(), second)


def test_seeds_and_states() -> None:
    states = [Generator.from_seed(seed).state.numpy().tolist() for seed in ([1, 2, 3, 4], -5, [9], 1 << 130)]
    assert states == [[1, 2, 3], [-5, -1, -1], [0, 0, 9], [0, 0, 4]]
    generator = Generator.from_key_counter(5, [1, 2], 1)
    assert (generator.state.numpy().tolist(), int(generator.key), generator.algorithm) == ([1, 2, 5], 5, 1)
    generator.skip(2)
    assert generator.state.numpy().tolist() == [513, 2, 5]
    generator.reset([1, 2, 3])
    first = generator.normal([2]).numpy()
    generator.reset_from_key_counter(3, [1, 2])
    np.testing.assert_array_equal(generator.normal([2]).numpy(), first)
    generator.reset_from_seed(7)
    parts = generator.split(2)
    assert [part.state.numpy().tolist()[:2] for part in parts] == [[0, 0], [0, 0]]
    assert int(parts[0].key) != int(parts[1].key)
    assert generator.make_seeds(3).numpy()[1].tolist() == [0, 0, 0]


def test_a_generator_in_a_function_in_a_graph_and_in_a_checkpoint(tmp_path: Path) -> None:
    generator, alike = Generator.from_seed(3), Generator.from_seed(3)
    draw = tf.function(lambda: generator.normal([2]))
    for _ in range(2):
        np.testing.assert_allclose(draw().numpy(), alike.normal([2]).numpy(), rtol=1e-5)
    first = Generator.from_seed(3).normal([2]).numpy()
    path = tf.train.Checkpoint(generator=generator).save(str(tmp_path / "model"))
    other = Generator.from_seed(9)
    tf.train.Checkpoint(generator=other).restore(path).assert_consumed()
    np.testing.assert_array_equal(other.state.numpy(), generator.state.numpy())
    with tf.Graph().as_default(), tf.Session() as session:
        in_graph = Generator.from_seed(3)
        numbers = in_graph.normal([2])
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(numbers), first, rtol=1e-5)
        assert session.run(in_graph.state).tolist() == [3 + 512, 0, 0]
        assert not np.array_equal(session.run(numbers), first)
        with pytest.raises(RuntimeError, match="in a graph"):
            in_graph.split(2)


def test_what_is_refused() -> None:
    generator = Generator.from_seed(1)
    with pytest.raises(ValueError, match="Must specify maxval for integer dtype"):
        generator.uniform([2], dtype=tf.int32)
    with pytest.raises(ValueError, match="Unsupported algorithm id: 7"):
        Generator.from_seed(1, 7)
    with pytest.raises(ValueError, match="seed should only have one dimension"):
        Generator.from_seed([[1]])
    with pytest.raises(tf.errors.UnimplementedError, match=r"Generator.binomial"):
        generator.binomial([2], [1.0], [0.5])
