"""Where the ops on queues are tested: they block, and act on what no table shows."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

FILE = "tests/ops/queues/test_queues.py"
KINDS = ("FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue", "PriorityQueue")
DOINGS = {
    "Enqueue": "enqueue(",
    "EnqueueMany": "enqueue_many(",
    "Dequeue": "dequeue(",
    "DequeueMany": "dequeue_many(",
    "DequeueUpTo": "dequeue_up_to(",
    "Close": "close(",
    "Size": "size(",
    "IsClosed": "is_closed(",
}

ROWS = [
    *[elsewhere(kind + version, FILE, kind) for kind in KINDS for version in ("", "V2")],
    *[elsewhere(f"Queue{doing}{v}", FILE, word) for doing, word in DOINGS.items() for v in ("", "V2")],
    elsewhere("_PickResource", FILE, "test_one_of_several"),
]
