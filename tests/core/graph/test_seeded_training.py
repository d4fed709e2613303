"""First losses of programs with a seed, and what is drawn behind their training, beside TensorFlow 1.15.5."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from golden.graphs.seeded_training_cases import PROGRAMS, first_values

import anabranch as tf

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/seeded_training.json").read_text())


def test_all_programs_are_there():
    assert GOLDEN.keys() == PROGRAMS.keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_first_losses_are_those_of_tensorflow(name):
    np.testing.assert_allclose(first_values(tf, PROGRAMS[name]), GOLDEN[name], rtol=1e-5, atol=1e-6)
