"""Where the ops that hold bodies are tested."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

FILE = "tests/ops/control/test_control_flow.py"
KINDS = ("If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile", "PartitionedCall",
         "StatefulPartitionedCall")  # fmt: skip

GRADIENTS = "tests/autodiff/test_control_flow.py"

ROWS = [
    *[elsewhere(kind, FILE, f'"{kind}"') for kind in KINDS],
    *[
        elsewhere(kind, GRADIENTS, kind)
        for kind in ("OptionalNone", "OptionalFromValue", "OptionalGetValue", "OptionalHasValue")
    ],
]
