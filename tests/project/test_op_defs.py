"""Each op that bears a name of TensorFlow has TensorFlow's signature: what a file says of a node must mean the same.

`tests/golden/op_defs.json` holds one line for each of TensorFlow's ops (see `tools/golden/names/op_defs.py`); the same
line is written here from the contract. Our own ops have the prefix `Anabranch`, those that only the system makes `_`.

Flags. `commutative` and `aggregate` are compared as they stand, `uninitialized` for ops on references (a handle is a
value like others to TensorFlow). `stateful` says less in TensorFlow than an effect does here: what TensorFlow calls
stateful must have an effect, and only ops on references and handles may have one beyond that.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from golden.names.op_defs import line
from google.protobuf import text_format

import anabranch
from anabranch.contrib import tensor_forest
from anabranch.core.contract import opdef
from anabranch.core.contract.attrs import ArgSpec, Attr
from anabranch.core.protos import tensor_pb2
from anabranch.core.values import dtypes

ROOT = Path(__file__).parents[2]
assert dir(anabranch)  # loads everything that defines ops, but for libraries of tf.contrib
assert tensor_forest.operations
GOLDEN = json.loads((ROOT / "tests/golden/op_defs.json").read_text(encoding="utf-8"))
TYPES = {allowed: name for name, allowed in GOLDEN["types"].items()}

# What differs on purpose: op type -> reason.
DIFFERENT: dict[str, str] = {}
_DATA = "input_data: float, sparse_input_indices: int64, sparse_input_values: float, sparse_input_shape: int64"
_TREE, _STATS, _PARAMS = "tree_handle: resource", "stats_handle: resource", "params: string ; stateful"
_MADE = '-> resource: resource ; container: string = "" ; shared_name: string = "" ; stateful'
# Those of `tf.contrib.tensor_forest`, as TensorFlow 1.15.5 registers them.
FORESTS = {
    "DecisionTreeResourceHandleOp": _MADE,
    "FertileStatsResourceHandleOp": _MADE,
    "TreeIsInitializedOp": f"{_TREE} -> is_initialized: bool ; stateful",
    "FertileStatsIsInitializedOp": f"{_STATS} -> is_initialized: bool ; stateful",
    "CreateTreeVariable": f"{_TREE}, tree_config: string -> ; {_PARAMS}",
    "TreeDeserialize": f"{_TREE}, tree_config: string -> ; {_PARAMS}",
    "CreateFertileStatsVariable": f"{_STATS}, stats_config: string -> ; {_PARAMS}",
    "FertileStatsDeserialize": f"{_STATS}, stats_config: string -> ; {_PARAMS}",
    "TreeSerialize": f"{_TREE} -> tree_config: string ; stateful",
    "FertileStatsSerialize": f"{_STATS} -> stats_config: string ; {_PARAMS}",
    "TreeSize": f"{_TREE} -> tree_size: int32 ; stateful",
    "FeatureUsageCounts": f"{_TREE} -> feature_counts: int32 ; {_PARAMS}",
    "TreePredictionsV4": f"{_TREE}, {_DATA} -> predictions: float, tree_paths: string ; input_spec: string ; {_PARAMS}",
    "TraverseTreeV4": f"{_TREE}, {_DATA} -> leaf_ids: int32 ; input_spec: string ; {_PARAMS}",
    "UpdateModelV4": f"{_TREE}, leaf_ids: int32, input_labels: float, input_weights: float -> ; {_PARAMS}",
    "GrowTreeV4": f"{_TREE}, {_STATS}, finished_nodes: int32 -> ; {_PARAMS}",
    "ProcessInputV4": f"{_TREE}, {_STATS}, {_DATA}, input_labels: float, input_weights: float, leaf_ids: int32 "
    f"-> finished_nodes: int32 ; random_seed: int ; input_spec: string ; {_PARAMS}",
}
# Ops of `tf.contrib` and of versions 1.x, which the file of op definitions, a newer TensorFlow's, does not have.
CONTRIB = {
    "BipartiteMatch": "distance_mat: float, num_valid_rows: float "
    "-> row_to_col_match_indices: int32, col_to_row_match_indices: int32 ; top_k: int = -1 ; stateful",
    "ImageConnectedComponents": f"image: dtype -> components: int64 ; dtype: type in ${len(TYPES)}",
    "CompareAndBitpack": f"input: T, threshold: T -> output: uint8 ; T: type in ${len(TYPES)}",
    "GatherTree": "step_ids: T, parent_ids: T, max_sequence_lengths: int32, end_token: T -> beams: T ; "
    f"T: type in ${len(TYPES)}",  # a set of dtypes that no op of the file has
    "MaskedMatmul": "a: float, b: float, mask_indices: int64, transpose_a: bool, transpose_b: bool "
    "-> prod_values: float",
    "WALSComputePartialLhsAndRhs": "factors: float, factor_weights: float, unobserved_weights: float, "
    "input_weights: float, input_indices: int64, input_values: float, entry_weights: float, input_block_size: int64, "
    "input_is_transpose: bool -> partial_lhs: float, partial_rhs: float",
    **FORESTS,
}
# Ops without an effect that TensorFlow calls stateful, which there keeps them from being merged or folded.
PURE_HERE = {
    "BipartiteMatch": "which pairs match is a function of the distances",
    "Assert": "a failed check fails the step, whoever merged or moved it",
    "CheckNumerics": "a failed check fails the step, whoever merged or moved it",
    "CheckNumericsV2": "a failed check fails the step, whoever merged or moved it",
    "DeviceIndex": "all devices answer as a CPU does, since all kernels are portable",
    "Empty": "its values, which do not matter, are zeros",
    "DeepCopy": "a value never shares its buffer with a variable here, so a copy is a value like others",
    "StatelessRandomGetAlg": "the number of the algorithm is the same on all devices",
    "FakeQueue": "a handle in another form is the same handle",
    "GeneratorDataset": "a dataset is a value; what its functions do happens when an iterator asks for elements",
    "RandomDataset": "a dataset is a value; its iterators draw",
    "ExperimentalRandomDataset": "a dataset is a value; its iterators draw",
    "GroupByReducerDataset": "a dataset is a value; what its functions do happens when an iterator asks for elements",
    "ExperimentalGroupByReducerDataset": "a dataset is a value, like GroupByReducerDataset",
    "CSVDataset": "a dataset is a value; files are read when an iterator asks for elements",
    "CSVDatasetV2": "a dataset is a value; files are read when an iterator asks for elements",
    "ExperimentalCSVDataset": "a dataset is a value; files are read when an iterator asks for elements",
    "ExperimentalMatchingFilesDataset": "a dataset is a value; files are read when an iterator asks for elements",
    "FixedLengthRecordDataset": "a dataset is a value; files are read when an iterator asks for elements",
    "FixedLengthRecordDatasetV2": "a dataset is a value; files are read when an iterator asks for elements",
    "MatchingFilesDataset": "a dataset is a value; files are read when an iterator asks for elements",
    "SqlDataset": "a dataset is a value; files are read when an iterator asks for elements",
    "ExperimentalSqlDataset": "a dataset is a value; files are read when an iterator asks for elements",
    "TFRecordDataset": "a dataset is a value; files are read when an iterator asks for elements",
    "TFRecordDatasetV2": "a dataset is a value; files are read when an iterator asks for elements",
    "TextLineDataset": "a dataset is a value; files are read when an iterator asks for elements",
    "IteratorFromStringHandle": "it only reads the string; the iterator is there, or is not",
    "IteratorFromStringHandleV2": "it only reads the string; the iterator is there, or is not",
    "CacheDatasetV2": "a dataset is a value; iterators use what they share",
    "ExperimentalSetStatsAggregatorDataset": "a dataset is a value; iterators use what they share",
    "ExperimentalThreadPoolDataset": "a dataset is a value; iterators use what they share",
    "RandomDatasetV2": "a dataset is a value; iterators use what they share",
    "SetStatsAggregatorDataset": "a dataset is a value; iterators use what they share",
    "ShuffleAndRepeatDatasetV2": "a dataset is a value; iterators use what they share",
    "ShuffleDatasetV2": "a dataset is a value; iterators use what they share",
    "ShuffleDatasetV3": "a dataset is a value; iterators use what they share",
    "ThreadPoolDataset": "a dataset is a value; iterators use what they share",
    "ExperimentalLMDBDataset": "a dataset is a value; files are read when an iterator asks for elements",
    "LMDBDataset": "a dataset is a value; files are read when an iterator asks for elements",
    "ListDataset": "a dataset is a value",
    "MultiDeviceIteratorFromStringHandle": "it only reads the string; the iterator is there, or is not",
    "RangeDataset": "a dataset is a value",
    "SparseTensorSliceDataset": "a dataset is a value",
    "TensorDataset": "a dataset is a value",
    "TensorSliceDataset": "a dataset is a value",
    "NcclBroadcast": "a value that goes to several devices is the same value",
    "NcclReduce": "a reduction of tensors, wherever they come from",
    "GuaranteeConst": "it is the identity; what it promises is seen from the graph",
}

# Ops that TensorFlow calls pure, but whose outputs are not a function of their inputs: op type -> reason.
EFFECTS_HERE = {
    "GenerateVocabRemapping": "it reads files, which may change from run to run",
    "FractionalAvgPool": "each run draws other regions unless it is deterministic",
    "FractionalMaxPool": "each run draws other regions unless it is deterministic",
}


def own_definitions() -> dict[str, opdef.OpDefinition]:
    """Definitions of the package; those that tests and users add are not looked at."""
    return {
        name: definition
        for name, definition in opdef.all_definitions().items()
        if definition.shape.__module__.startswith("anabranch.") and not name.startswith(("Anabranch", "_"))
    }


def argument(spec: ArgSpec) -> dict[str, Any]:
    """An argument as the file of op definitions has it."""
    found: dict[str, Any] = {"name": spec.name}
    if spec.dtype is not None:
        found["type"] = dtypes.proto_name(spec.dtype)
    for key in ("type_attr", "number_attr", "type_list_attr", "is_ref"):
        if value := getattr(spec, key):
            found[key] = value
    return found


def plain(value: Any, kind: str) -> Any:
    """A default or allowed value as JSON has it."""
    if isinstance(value, tuple) and (kind.startswith("list(") or kind == "shape"):
        return [plain(item, kind[5:-1] if kind.startswith("list(") else "") for item in value]
    if kind == "type":
        return dtypes.proto_name(value)
    if kind == "tensor":  # in the text form of its message
        dtype: Any = dtypes.as_dtype(value.dtype).enum
        proto = tensor_pb2.TensorProto(dtype=dtype, int_val=value.ravel().tolist())
        proto.tensor_shape.dim.extend([tensor_pb2.TensorShapeProto.Dim(size=size) for size in value.shape])
        return text_format.MessageToString(proto)
    return float(value) if kind == "float" else value


def attribute(name: str, attr: Attr) -> dict[str, Any]:
    """An attribute as the file of op definitions has it."""
    found: dict[str, Any] = {"name": name, "type": attr.kind}
    if attr.allowed is not None:
        found["allowed"] = [plain(value, attr.element) for value in attr.allowed]
    if attr.minimum is not None:
        found["minimum"] = attr.minimum
    if attr.default is not opdef.REQUIRED:
        found["default"] = plain(attr.default, attr.kind)
    return found


def own_line(definition: opdef.OpDefinition) -> str:
    """The line of a contract, without `stateful`."""
    described = {
        "inputs": [argument(spec) for spec in definition.inputs],
        "outputs": [argument(spec) for spec in definition.outputs],
        "attrs": [attribute(name, attr) for name, attr in definition.attrs.items()],
        "is_commutative": definition.commutative,
        "is_aggregate": definition.aggregate,
        "allows_uninitialized_input": definition.allows_uninitialized and any(s.is_ref for s in definition.inputs),
    }
    return line(described, dict(TYPES))


OWN = own_definitions()


@pytest.mark.parametrize("name", sorted(OWN))
def test_signature(name: str) -> None:
    wanted = GOLDEN["ops"].get(name, CONTRIB.get(name))
    assert wanted is not None, (
        f"TensorFlow has no op {name!r}.\nMend: give an op of our own the prefix `Anabranch`, or run "
        "`python tools/golden/names/op_defs.py` with a newer file of op definitions."
    )
    given = own_line(OWN[name])
    stateful = " ; stateful" in wanted
    same = given == wanted.replace(" ; stateful", "")
    if name in DIFFERENT:
        assert not same, f"{name} no longer differs ({DIFFERENT[name]}).\nMend: take it out of DIFFERENT."
        return
    assert same, (
        f"\nTensorFlow: {wanted}\nours:       {given}\n"
        f"Mend: write signature and attrs of {name} as TensorFlow has them (sets of dtypes stand in "
        "tests/golden/op_defs.json), or put it into DIFFERENT with the reason."
    )
    if name in PURE_HERE:
        assert stateful, f"TensorFlow does not call {name} stateful.\nMend: take it out of PURE_HERE."
        stateful = False
    if name in EFFECTS_HERE:
        assert not stateful, f"TensorFlow calls {name} stateful.\nMend: take it out of EFFECTS_HERE."
        stateful = True
    effect = OWN[name].is_stateful and OWN[name].effect.kind != "feed"
    on_state = any(spec.is_ref or spec.dtype is dtypes.resource for spec in OWN[name].inputs + OWN[name].outputs)
    assert effect == stateful or (effect and on_state), (
        f"{name} is{'' if stateful else ' not'} stateful in TensorFlow; its effect here is {OWN[name].effect.kind!r}.\n"
        "Mend: give it the effect that running it has."
    )


def test_lines_show_what_differs() -> None:
    """Each part of a signature changes the line."""
    base = OWN["AddN"]
    lines = {own_line(base), GOLDEN["ops"]["Add"], GOLDEN["ops"]["AddV2"]}
    changed: list[dict[str, Any]] = [
        {"attrs": {**base.attrs, "N": opdef.Int(minimum=2)}},
        {"attrs": {**base.attrs, "N": opdef.Int(3, minimum=1)}},
        {"attrs": {**base.attrs, "T": opdef.Type("float")}},
        {"attrs": dict(reversed(base.attrs.items()))},
        {"inputs": (ArgSpec("inputs", type_attr="T"),)},
        {"outputs": (ArgSpec("sum", type_attr="T", is_ref=True),)},
        {"commutative": False},
        {"aggregate": False},
    ]
    given = [key for key, field in opdef.OpDefinition.__dataclass_fields__.items() if field.init]
    fields = {key: getattr(base, key) for key in given}
    for change in changed:
        lines.add(own_line(opdef.OpDefinition(**{**fields, **change})))
    assert len(lines) == 3 + len(changed)
