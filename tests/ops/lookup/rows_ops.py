"""Where the ops on tables and the hashes of strings are tested; numbers as strings."""

from __future__ import annotations

from anabranch.contrib import tensor_forest
from anabranch.testing.op_cases import elsewhere

assert tensor_forest.operations  # which defines its op types

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

FOREST_OPS = (
    *("DecisionTreeResourceHandleOp", "TreeIsInitializedOp", "CreateTreeVariable", "TreeSerialize", "TreeDeserialize"),
    *("FertileStatsResourceHandleOp", "FertileStatsIsInitializedOp", "CreateFertileStatsVariable"),
    *("FertileStatsSerialize", "FertileStatsDeserialize", "TreeSize", "FeatureUsageCounts", "TreePredictionsV4"),
    *("TraverseTreeV4", "UpdateModelV4", "ProcessInputV4", "GrowTreeV4"),
)

ROWS = [
    *[elsewhere(name + version, FILE, name) for name in (*MAKERS, *OPS) for version in ("", "V2")],
    elsewhere("LookupTableRemoveV2", FILE, "remove("),
    elsewhere("StringToHashBucketFast", FILE, "string_to_hash_bucket_fast"),
    elsewhere("StringToHashBucketStrong", FILE, "string_to_hash_bucket_strong"),
    elsewhere("StringToHashBucket", FILE, "string_to_hash_bucket("),
    elsewhere("AsString", FILE, "as_string"),
    *[elsewhere(name, "tests/contrib/tensor_forest/test_forests.py", "forest.train") for name in FOREST_OPS],
]
