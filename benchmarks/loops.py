"""Loops, maps and scans in several peers, interleaved: ``run.py`` with these cases.

python benchmarks/loops.py [--python ENV=INTERPRETER ...] [--rounds N] [--json FILE] [--markdown FILE] [CASE ...]

JAX's column is the loop as one writes it by hand where its length is known: ``lax.while_loop`` for the trivial one,
``lax.scan`` and its gradient for the others, also where TensorFlow's and ours is fed its length.
"""

from __future__ import annotations

import run

CASES = {
    "loop_trivial": (20, "while_loop, 10,000 trivial iterations"),
    "loop_forward": (10, "h = tanh(h W) 1,000 times, 16x64, fed length"),
    "loop_grad_known": (5, "gradient for W of the same, known length"),
    "loop_grad_fed": (5, "gradient for W of the same, fed length"),
    "map_fn": (10, "map_fn over 1,000 rows of 64"),
    "map_fn_grad": (5, "its gradient"),
    "scan": (10, "scan over 1,000 rows of 64"),
    "scan_grad": (5, "its gradient"),
    "loop_array_grown": (5, "TensorArray of dynamic size, 1,000 writes until the data say stop"),
}

if __name__ == "__main__":
    run.ALL.update(CASES)
    run.main(CASES)
