"""The import of JAX, which happens when there is time, and so must change nothing that a program sees."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import numpy as np
import anabranch as tf
from anabranch.xla import engine

np.random.seed(1)
before = np.random.get_state()[2]
rand = np.random.rand
assert "jax" not in __import__("sys").modules
engine.jax()
assert np.random.get_state()[2] == before, "the import has drawn"
assert np.random.rand is rand
print(np.random.rand(2).tolist())
"""


def test_numpys_random_numbers_are_the_programs() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[0.417022004702574, 0.7203244934421581]"
