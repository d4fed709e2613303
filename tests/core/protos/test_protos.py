"""Messages against bytes that TensorFlow wrote, and their modules against the .proto files."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import text_format

from anabranch.core import protos

ROOT = Path(__file__).resolve().parents[3]

# Text of a message, and the bytes into which TensorFlow 2.21 serialised it (deterministic order of maps).
WRITTEN_BY_TENSORFLOW = {
    "GraphDef": (
        'node { name: "a" op: "Const" device: "/cpu:0" attr { key: "dtype" value { type: DT_FLOAT } } '
        'attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val:'
        ' 1.5 float_val: -2 } } } } node { name: "b" op: "F" input: "a" input: "^a" attr { key: "l" value'
        ' { list { i: 1 i: -1 } } } experimental_debug_info { original_node_names: "x" } } versions { '
        'producer: 27 min_consumer: 12 } library { function { signature { name: "F" input_arg { name: "x"'
        ' type: DT_FLOAT_REF } is_stateful: true } ret { key: "y" value: "x" } } gradient { '
        'function_name: "F" gradient_func: "G" } }',
        "0a3e0a01611205436f6e737422062f6370753a302a0b0a056474797065120230012a1d0a0576616c75651214421208011204"
        "120208022a080000c03f000000c00a280a01621201461a01611a025e612a140a016c120f0a0d1a0b01ffffffffffffffffff"
        "0132030a017812210a170a0d0a014612050a0178186588010122060a017912017812060a01461201472204081b100c",
    ),
    "MetaGraphDef": (
        'meta_info_def { tags: "serve" tensorflow_version: "1.15" } saver_def { filename_tensor_name: '
        '"f:0" version: V2 max_to_keep: 5 } collection_def { key: "c" value { node_list { value: "a:0" } '
        '} } signature_def { key: "s" value { inputs { key: "x" value { name: "x:0" dtype: DT_INT64 '
        'tensor_shape { unknown_rank: true } } } method_name: "m" } } asset_file_def { tensor_info { '
        'name: "t" } filename: "v.txt" }',
        "0a0d220573657276652a04312e31351a090a03663a3020053802220c0a016312070a050a03613a302a1a0a017312150a100a"
        "0178120b0a03783a3010091a0218011a016d320c0a030a01741205762e747874",
    ),
    "ConfigProto": (
        'device_count { key: "CPU" value: 2 } intra_op_parallelism_threads: 3 allow_soft_placement: true '
        "gpu_options { allow_growth: true per_process_gpu_memory_fraction: 0.5 } graph_options { "
        "optimizer_options { opt_level: L0 global_jit_level: ON_1 } rewrite_options { constant_folding: "
        "OFF } } operation_timeout_in_ms: 7",
        "0a070a0343505510021003320b09000000000000e03f2001380152131a0d18ffffffffffffffffff012801520218025807",
    ),
    "SequenceExample": (
        'context { feature { key: "k" value { int64_list { value: -3 value: 300 } } } } feature_lists { '
        'feature_list { key: "l" value { feature { bytes_list { value: "\\000\\377" } } feature { '
        "float_list { value: 0.25 } } } } }",
        "0a170a150a016b12101a0e0a0cfdffffffffffffffff01ac0212190a170a016c12120a060a040a0200ff0a0812060a040000803e",
    ),
    "Event": (
        'wall_time: 1.5 step: 9 summary { value { tag: "loss" simple_value: 2.5 metadata { plugin_data { '
        'plugin_name: "scalars" } } } value { tag: "h" histo { min: -1 max: 1 num: 2 bucket_limit: 0 '
        "bucket_limit: 1 bucket: 1 bucket: 1 } } }",
        "09000000000000f83f10092a600a180a046c6f737315000020404a0b0a090a077363616c6172730a440a01682a3f09000000"
        "000000f0bf11000000000000f03f19000000000000004032100000000000000000000000000000f03f3a10000000000000f0"
        "3f000000000000f03f",
    ),
    "BundleEntryProto": (
        "dtype: DT_BFLOAT16 shape { dim { size: 3 } } shard_id: 1 offset: 128 size: 6 crc32c: 4294967295 "
        "slices { extent { start: 1 length: 2 } extent { } }",
        "080e1204120208031801208001280635ffffffff3a080a04080110020a00",
    ),
    "RunMetadata": (
        'step_stats { dev_stats { device: "d" node_stats { node_name: "n" all_start_micros: 5 '
        'all_end_rel_micros: 6 memory { allocator_name: "a" } output { slot: 1 tensor_description { '
        'dtype: DT_FLOAT } } } } } cost_graph { node { name: "n" id: 1 compute_cost: 4 input_info { '
        "preceding_node: 2 } } }",
        "0a1b0a190a016412140a016e1005280632030a01613a0608011a020801120d0a0b0a016e1801220208024804",
    ),
}


@pytest.mark.parametrize("name", WRITTEN_BY_TENSORFLOW)
def test_text_gives_tensorflows_bytes(name: str) -> None:
    text, expected = WRITTEN_BY_TENSORFLOW[name]
    message = text_format.Parse(text, getattr(protos, name)())
    assert message.SerializeToString(deterministic=True).hex() == expected


@pytest.mark.parametrize("name", WRITTEN_BY_TENSORFLOW)
def test_tensorflows_bytes_are_read_whole(name: str) -> None:
    text, written = WRITTEN_BY_TENSORFLOW[name]
    message = getattr(protos, name).FromString(bytes.fromhex(written))
    assert message == text_format.Parse(text, getattr(protos, name)())
    # A field that ours did not know would print under its number.
    printed = text_format.MessageToString(message, print_unknown_fields=True)
    assert not re.search(r"^\s*\d+[: ]", printed, re.MULTILINE), printed


def test_fields_of_a_newer_producer_survive() -> None:
    node = protos.NodeDef.FromString(bytes.fromhex("0a0161") + b"\xfa\x3e\x03xyz")
    assert node.name == "a"
    assert node.SerializeToString().endswith(b"\xfa\x3e\x03xyz")


def test_reference_types_are_their_type_plus_100() -> None:
    types = dict(protos.DataType.items())
    references = {name: number for name, number in types.items() if name.endswith("_REF")}
    assert references
    assert {name.removesuffix("_REF"): number - 100 for name, number in references.items()} == {
        name: number for name, number in types.items() if name.removesuffix("_REF") == name and number != 0
    }


def test_every_module_is_listed_after_those_it_imports() -> None:
    folder = Path(protos.__file__).parent
    assert {path.stem for path in folder.glob("*_pb2.py")} == set(protos.MODULES)
    assert {f"{path.stem}_pb2" for path in folder.glob("*.proto")} == set(protos.MODULES)
    seen: set[str] = set()
    for name in protos.MODULES:
        file = getattr(protos, name).DESCRIPTOR
        own = {f"{Path(item.name).stem}_pb2" for item in file.dependencies if item.name.startswith("anabranch/")}
        assert own <= seen, f"list {name} in protos.MODULES after {sorted(own - seen)}"
        seen.add(name)


def test_every_message_has_one_home() -> None:
    homes: dict[str, str] = {}
    for module in protos.MODULES:
        file = getattr(protos, module).DESCRIPTOR
        assert file.package == "anabranch_tf"
        for name in (*file.message_types_by_name, *file.enum_types_by_name):
            assert homes.setdefault(name, module) == module
    assert set(dir(protos)) == set(homes) | set(protos.MODULES)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no message or enum 'NoSuchDef'"):
        protos.NoSuchDef


def test_building_a_graph_loads_only_what_it_needs() -> None:
    program = (
        "import sys; from anabranch.core.protos import graph_pb2;"
        "print(sorted(m.rpartition('.')[2] for m in sys.modules if m.startswith('anabranch.core.protos.')))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert shown.stdout.strip() == "['full_type_pb2', 'graph_pb2', 'tensor_pb2', 'types_pb2']"


@pytest.mark.skipif(importlib.util.find_spec("grpc_tools") is None, reason="needs grpcio-tools")
def test_modules_are_what_the_proto_files_give() -> None:
    check = subprocess.run(
        [sys.executable, "tools/compile_protos.py", "--check"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert check.returncode == 0, check.stdout + check.stderr
