"""`tf.contrib.eager.Network`: names, and checkpoints by them, in both modes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager import mode

tfe = tf.contrib.eager


class Mine(tfe.Network):  # type: ignore[misc, name-defined]
    def __init__(self, name: str | None = None) -> None:
        super().__init__(name=name)
        self.first = self.track_layer(tf.layers.Dense(2, use_bias=False))

    def call(self, x: Any) -> Any:
        return self.first(x)


class Outer(tfe.Network):  # type: ignore[misc, name-defined]
    def __init__(self, name: str | None = None) -> None:
        super().__init__(name=name)
        self.one = self.track_layer(Mine())
        self.two = self.track_layer(Mine())

    def call(self, x: Any) -> Any:
        return self.two(self.one(x))


@pytest.fixture(params=["eager", "graph"])
def evaluate(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Evaluates a tensor or variable in one of the modes."""
    if request.param == "eager":
        yield lambda x: x.numpy() if hasattr(x, "numpy") else None
        return
    with tf.Graph().as_default(), tf.Session() as session:
        yield session.run


def test_names_show_how_networks_are_nested(evaluate: Any) -> None:
    x = tf.ones([1, 2])
    network, outer, named = Mine(), Outer(), Mine("other")
    for one in (network, outer, named):
        one(x)
    assert [v.name for v in network.variables] == ["mine/dense/kernel:0"]
    assert [v.name for v in outer.variables] == ["outer/mine/dense/kernel:0", "outer/mine_1/dense/kernel:0"]
    assert (network.name, named.name, named.scope_name) == ("mine", "other", "other")
    assert outer.get_layer("mine_1") is outer.two is outer.get_layer(index=1)


def test_a_name_is_there_once_it_was_called() -> None:
    with pytest.raises(ValueError, match="does not yet have a final name"):
        Mine().name
    with pytest.raises(ValueError, match="Forward slashes"):
        Mine("a/b")


def test_what_is_not_a_layer_is_refused() -> None:
    network = Mine()
    with pytest.raises(TypeError, match="passed type"):
        network.track_layer(lambda x: x)
    with pytest.raises(ValueError, match="two Layers with the name 'dense'"):
        network.track_layer(tf.layers.Dense(2, name="dense"))
    with pytest.raises(ValueError, match="No such layer: nothing"):
        network.get_layer("nothing")
    with pytest.raises(RuntimeError, match="add_variable not supported"):
        network.add_variable("x", [1])
    network(tf.ones([1, 2]))
    with pytest.raises(NotImplementedError, match="does not support object-based checkpointing"):
        tf.train.Checkpoint(network=network).write("unused")


def test_a_second_network_of_a_name_is_refused(evaluate: Any) -> None:
    one, two = Mine("same"), Mine("same")
    one(tf.ones([1, 2]))
    with pytest.raises(ValueError, match="named 'same' already exists"):
        two(tf.ones([1, 2]))


def test_a_checkpoint_restores_what_is_there_and_what_comes(evaluate: Any, tmp_path: Path) -> None:
    x = tf.ones([1, 2])
    network = Mine("saved")
    network(x)
    values = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    evaluate(network.variables[0].assign(values))
    path = tfe.save_network_checkpoint(network, str(tmp_path / "net"), global_step=3)
    assert path.endswith("net-3")
    assert [name for name, _ in tf.train.list_variables(path)] == ["dense/kernel"]
    there, later = Mine("there"), Mine("later")
    there(x)
    tfe.restore_network_checkpoint(there, path)
    tfe.restore_network_checkpoint(later, path)
    later(x)
    for restored in (there, later):
        np.testing.assert_array_equal(evaluate(restored.variables[0]), values)


def test_names_that_collide_in_a_checkpoint_are_refused(tmp_path: Path) -> None:
    outer = Outer()
    outer(tf.ones([1, 2]))
    with pytest.raises(ValueError, match="map_func passed to save_network_checkpoint for the Network 'outer'"):
        tfe.save_network_checkpoint(outer, str(tmp_path / "net"), map_func=lambda name: "one")
    with pytest.raises(ValueError, match="before it was first called"):
        tfe.save_network_checkpoint(Mine(), str(tmp_path / "net"))


def test_a_sequence_hands_on_whether_it_is_training() -> None:
    seen = []

    def step(x: Any, training: Any = "left out") -> Any:
        seen.append(training)
        return x + 1.0

    network = tfe.Sequential([step, tf.layers.Dense(1), tf.square])
    assert network(tf.ones([1, 2])).shape.as_list() == [1, 1]
    network(tf.ones([1, 2]), training=True)
    assert seen == ["left out", True]
    assert len(network.variables) == 2
    with pytest.raises(TypeError, match="takes only"):
        network.add(3)


def test_losses_are_those_of_the_variables_as_they_are() -> None:
    layer = tf.layers.Dense(2, use_bias=False, kernel_regularizer=tf.reduce_sum)
    network = tfe.Sequential([layer])
    network(tf.ones([1, 2]))
    layer.kernel.assign(tf.ones([2, 2]))
    assert [float(loss) for loss in network.losses] == [4.0]
    with mode.graph_mode():
        assert not tf.executing_eagerly()
