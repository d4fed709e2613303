"""Where the ops that save and restore are tested: they write files."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

FILE = "tests/ops/io/test_io_checkpoint.py"
NAMES = (
    "SaveV2", "RestoreV2", "MergeV2Checkpoints", "Save", "SaveSlices", "Restore", "RestoreSlice", "ShardedFilename",
    "ShardedFilespec",
)  # fmt: skip

CHANGES = "tests/ops/io/test_vocabulary_changes.py"

ROWS = [
    *[elsewhere(name, FILE, f'"{name}"') for name in NAMES],
    elsewhere("GenerateVocabRemapping", CHANGES),
    elsewhere("LoadAndRemapMatrix", CHANGES),
]
