"""Where the ops that hold bodies are tested."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

FILE = "tests/ops/test_control_flow.py"
KINDS = ("If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile", "PartitionedCall",
         "StatefulPartitionedCall")  # fmt: skip

ROWS = [elsewhere(kind, FILE, f'"{kind}"') for kind in KINDS]
