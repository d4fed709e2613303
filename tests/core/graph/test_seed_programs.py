"""Default seeds in whole programs, line by line, beside TensorFlow 1.15.5."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden.graphs.seed_program_cases import PROGRAMS, moves

import anabranch as tf

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/seed_programs.json").read_text())


def test_all_programs_are_there():
    assert GOLDEN.keys() == PROGRAMS.keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_seeds_move_as_in_tensorflow(name):
    """Initializers of a net made behind the training of another draw what they draw there."""
    program = PROGRAMS[name]
    lines = program.splitlines()
    found, seeds = moves(tf, program)
    wanted, wanted_seeds = GOLDEN[name]
    assert not [line for line in zip(lines, found, wanted, strict=True) if line[1] != line[2]]
    assert seeds == wanted_seeds


def test_what_gradients_ask_for_is_no_collection():
    """It is kept beside the graph: a MetaGraph has nothing of it, and says nothing about it."""
    with tf.Graph().as_default() as graph:
        x = tf.Variable([[1.0, 2.0]])
        tf.gradients(tf.reduce_sum(x * 2.0, 1), x)
        names = graph.get_all_collection_keys()
        assert set(tf.train.export_meta_graph().collection_def) <= set(names)
        assert {name for name in names if isinstance(name, str)} == {"variables", "trainable_variables"}
