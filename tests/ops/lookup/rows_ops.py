"""Where the ops on tables and the hashes of strings are tested; numbers as strings."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

FILE = "tests/ops/lookup/test_lookup.py"
MAKERS = ("HashTable", "MutableHashTable", "MutableHashTableOfTensors", "MutableDenseHashTable")
OPS = (
    "LookupTableFind",
    "LookupTableInsert",
    "LookupTableImport",
    "LookupTableSize",
    "LookupTableExport",
    "InitializeTable",
    "InitializeTableFromTextFile",
)

ROWS = [
    *[elsewhere(name + version, FILE, name) for name in (*MAKERS, *OPS) for version in ("", "V2")],
    elsewhere("LookupTableRemoveV2", FILE, "remove("),
    elsewhere("StringToHashBucketFast", FILE, "string_to_hash_bucket_fast"),
    elsewhere("StringToHashBucketStrong", FILE, "string_to_hash_bucket_strong"),
    elsewhere("StringToHashBucket", FILE, "string_to_hash_bucket("),
    elsewhere("AsString", FILE, "as_string"),
]
