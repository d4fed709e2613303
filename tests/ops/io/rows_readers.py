"""Where the ops on readers are tested: they wait, and act on what no table shows."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

FILE = "tests/ops/io/test_readers.py"
MAKERS = ("FixedLengthRecordReader", "IdentityReader", "TextLineReader", "TFRecordReader", "WholeFileReader")
DOINGS = {
    "ReaderRead": "read(",
    "ReaderReadUpTo": "read_up_to(",
    "ReaderNumRecordsProduced": "num_records_produced(",
    "ReaderNumWorkUnitsCompleted": "num_work_units_completed(",
    "ReaderSerializeState": "serialize_state(",
    "ReaderRestoreState": "restore_state(",
    "ReaderReset": "reset(",
}

ROWS = [
    *[elsewhere(maker + version, FILE, maker) for maker in MAKERS for version in ("", "V2")],
    *[elsewhere(doing + version, FILE, word) for doing, word in DOINGS.items() for version in ("", "V2")],
    elsewhere("LMDBReader", FILE),
    elsewhere("FakeQueue", FILE, "LMDBReader("),
]
