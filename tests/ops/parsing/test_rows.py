"""The ops of this family against their rows: forward in both tiers, static shapes, gradients of both orders, files."""

from __future__ import annotations

from pathlib import Path

import anabranch
from anabranch.testing import row_tests

assert dir(anabranch)  # loads everything that defines ops
globals().update(row_tests.of(Path(__file__)))
