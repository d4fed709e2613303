"""What NumPy could do at TensorFlow 1's time and cannot any more, given back to the programs of ``anabranch run``.

- :mod:`anabranch.compat.old_numpy.names`: names of modules (``np.int``, ``np.product``).
- :mod:`anabranch.compat.old_numpy.calls`: calls that NumPy refuses now (arrays of rows of different lengths,
  ``np.fromstring`` of bytes).
- :mod:`anabranch.compat.old_numpy.arrays`: methods of arrays (``tostring``), and an array of one element as a number.

All are provided only where NumPy would raise an error; the first use of each kind gives one warning. What changed its
meaning without an error stays as it is.
"""

from __future__ import annotations

from anabranch.compat.old_numpy import arrays, calls, names

__all__ = ["provide", "withdraw"]


def provide() -> None:
    """Let NumPy do what it did; do nothing the second time."""
    for module in (names, calls, arrays):
        module.provide()


def withdraw() -> None:
    """Take all of it away again."""
    for module in (arrays, calls, names):
        module.withdraw()
