"""Inputs that once ended in an exception that nobody raised on purpose, each standing for its kind."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.graph.build import build, build_operation


def refused(fetch: Any, feeds: Any, match: str, kind: Any = tf.errors.InvalidArgumentError) -> None:
    for tier in ("interpreted", "compiled"):
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            with pytest.raises(kind, match=match):
                session.run(fetch, feeds)


@pytest.mark.parametrize(
    ("type_name", "operands", "attrs", "match"),
    [
        ("ShardedFilename", [["a"], 0, 1], {}, "'basename'.*a scalar"),
        ("UnsortedSegmentJoin", [["a"], [0], [2]], {}, "'num_segments'.*a scalar"),
        ("Multinomial", [np.ones(3, np.float32), 2], {}, "rank 2"),
        ("MaxPoolV2", [np.ones((1, 4, 4, 1), np.float32), 2, [1, 1, 1, 1]], {"padding": "SAME"}, "'ksize'.*rank 1"),
        ("SplitV", [np.float32(1), [1], 0], {"num_split": 1}, "split_dim < input rank"),
        ("ResourceAccumulatorSetGlobalStep", ["accumulator", np.ones(2, np.int64)], {}, "'new_global_step'.*rank 0"),
        (
            "Conv2DBackpropInputV2",
            [np.ones((7, 3, 5, 2), np.int32), np.ones(7, np.int32), np.ones(7, np.int32)],
            {"strides": [1, 1, 1, 1], "padding": "SAME"},
            "'filter'.*rank 4",
        ),
        (
            "MaxPoolGradGradWithArgmax",
            [np.int64(1), np.int64(1), np.ones((1, 2, 3, 3), np.int32)],
            {"ksize": [1, 1, 1, 1], "strides": [1, 1, 1, 1], "padding": "SAME"},
            "'input'.*rank 4",
        ),
        (
            "QuantizedReshape",
            [np.ones(1, np.float32), np.array([-(2**31)], np.int32), np.float32(0), np.float32(1)],
            {},
            "Size 0 must be non-negative",
        ),
        ("RaggedTensorToSparse", [[np.array([0], np.int64)], np.float32(1)], {}, "rt_dense_values.*rank at least 1"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalnum() else "",
)
def test_ranks_that_kernels_count_on(type_name: str, operands: Any, attrs: Any, match: str) -> None:
    feeds = {}

    def fed(value: Any) -> Any:
        if isinstance(value, str) and value == "accumulator":
            return build("ResourceConditionalAccumulator", dtype="float", shape=[])
        if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            return [fed(item) for item in value]
        text = isinstance(value, list) and isinstance(value[0], str)
        own = isinstance(value, (np.ndarray, np.generic))
        array = value if own else np.asarray(value, object if text else np.int32)
        tensor = tf.placeholder(tf.string if text else array.dtype)
        feeds[tensor] = array
        return tensor

    result = build(type_name, *map(fed, operands), **attrs)
    refused(result, feeds, f"(?s){match}")


def test_sizes_that_are_no_numbers() -> None:
    counter = build("VarHandleOp", dtype="int64", shape=[3])
    with pytest.raises(ValueError, match=r"(?s)'shape'.*inf.*finite numbers"):
        build("StatefulTruncatedNormal", counter, np.int64(1), tf.constant([np.inf, 2.0]), dtype="float")


def test_attributes_of_bytes_and_of_queues() -> None:
    codes = build("UnicodeDecodeWithOffsets", ["a"], input_encoding=b"\xff")
    refused(codes[0], {}, "(?s)Could not create converter.*an encoding's name")
    for kept in (-1, 4):
        queue = build("RandomShuffleQueueV2", component_types=["float"], min_after_dequeue=kept, capacity=4)
        refused(build("QueueSizeV2", queue), {}, f"(?s)min_after_dequeue {kept} must be >= 0, and < capacity 4")


@pytest.mark.parametrize("size", [1 << 31, 1 << 40, 1 << 63, 1 << 64])
@pytest.mark.parametrize(
    "call",
    [
        lambda n: tf.eye(n),
        lambda n: tf.one_hot([1, 2], n),
        lambda n: tf.random_gamma([n, 2], 1.0),
        lambda n: tf.image.resize_nearest_neighbor(tf.zeros([1, 2, 2, 1]), [n, 2]),
        lambda n: tf.split(tf.zeros([4]), n),
        lambda n: tf.reshape(tf.zeros([4]), [n]),
        lambda n: tf.slice(tf.zeros([4]), [0], [n]),
    ],
)
def test_sizes_beyond_their_type_are_refused_as_tensorflow_does(call: Any, size: int) -> None:
    # TensorFlow cuts 2^31 to a negative size, hence a ValueError; of 2^63 it says OverflowError, or TypeError.
    kind = ValueError if size < 1 << 63 else (OverflowError, TypeError, ValueError)
    with pytest.raises(kind, match=r"(?s)Given: .*Expected: .*Instead: "):
        call(size)


@pytest.mark.parametrize("call", [tf.zeros, tf.ones, lambda dims: tf.fill(dims, 0.0), tf.random_uniform])
def test_sizes_of_64_bits(call: Any) -> None:
    assert call([1 << 31, 2]).shape.as_list() == [1 << 31, 2]
    assert call([1 << 40, 0]).shape.as_list() == [1 << 40, 0]
    with pytest.raises((OverflowError, TypeError), match=r"(?s)Given: .*Expected: .*Instead: "):
        call([1 << 64, 0])


def test_more_outputs_than_an_operation_can_have() -> None:
    with pytest.raises(ValueError, match=r"num_split=2147483648.*\n.*at most 1048576"):
        tf.split(tf.placeholder(tf.float32), 1 << 31)


def test_a_handle_of_another_kind() -> None:
    table = build("HashTableV2", key_dtype="string", value_dtype="int64")
    queue = build("FIFOQueueV2", component_types=["float"])
    refused(build("QueueSizeV2", table), {}, "(?s)a handle of Table.*a queue")
    refused(build("ReadVariableOp", queue, dtype="float"), {}, "(?s)a queue, for.*a variable")
    refused(build("LookupTableSizeV2", queue), {}, "(?s)a queue, for.*a table")


def test_sizes_that_an_int32_does_not_hold_are_not_cut_off() -> None:
    wide = np.array([2**38])
    assert tf.broadcast_to(1.0, wide).shape.as_list() == [2**38]
    assert tf.fill(wide, 1.0).shape.as_list() == [2**38]
    assert tf.fill([2**38], 1.0).shape.as_list() == [2**38]
    assert tf.tile(tf.ones([1]), wide).shape.as_list() == [2**38]
    assert tf.random_uniform(wide).shape.as_list() == [2**38]
    with pytest.raises(ValueError, match=r"perm \[4294967296\]"):
        tf.transpose(tf.ones([4]), np.array([2**32]))
    with pytest.raises(OverflowError, match=r"8589934592.*tf\.int32"):
        tf.one_hot([1], np.array(2**33))


@pytest.mark.parametrize(("block", "rate"), [(0, 8000), (4, 8000), (2, 2**31)])
def test_sound_with_impossible_numbers(block: int, rate: int) -> None:
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 44, b"WAVE", b"fmt ", 16, 1, 1, rate, 1, block, 16, b"data", 8)
    contents = tf.placeholder(tf.string, [])
    refused(build("DecodeWav", contents), {contents: head + bytes(8)}, "Bad audio format for WAV")


def test_arguments_and_iterations_outside_of_functions_and_loops() -> None:
    graph_def = tf.GraphDef()
    argument = graph_def.node.add(name="a", op="_Arg")
    argument.attr["T"].type = 1
    argument.attr["index"].i = 0
    constant = graph_def.node.add(name="c", op="Placeholder")
    constant.attr["dtype"].type = 1
    again = graph_def.node.add(name="n", op="NextIteration", input=["c"])
    again.attr["T"].type = 1
    tf.import_graph_def(graph_def, name="")
    graph = tf.get_default_graph()
    refused("a:0", {}, "an argument of a function, outside")
    refused("n:0", {graph.get_tensor_by_name("c:0"): 1.0}, "(?s)NextIteration.*outside")


def functions(depth: int) -> Any:
    """A graph whose function calls the next one, and so on."""
    graph_def = tf.GraphDef()
    for i in range(depth):
        function = graph_def.library.function.add()
        function.signature.name = f"f{i}"
        function.signature.input_arg.add(name="x", type=1)
        function.signature.output_arg.add(name="y", type=1)
        last = i == depth - 1
        node = function.node_def.add(name="c", op="Identity" if last else f"f{i + 1}", input=["x"])
        if last:
            node.attr["T"].type = 1
        function.ret["y"] = "c:output:0" if last else "c:y:0"
    graph_def.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    graph_def.node.add(name="y", op="f0", input=["x"])
    return graph_def


def test_functions_inside_each_other_deeper_than_the_stack() -> None:
    with pytest.raises(ValueError, match="stand inside each other"):
        tf.import_graph_def(functions(1000), name="")


def test_a_fifo_is_not_a_checkpoint(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.index")
    with pytest.raises(tf.errors.FailedPreconditionError, match="a FIFO, a socket or a device"):
        tf.train.NewCheckpointReader(str(tmp_path / "model"))
    os.mkfifo(tmp_path / "checkpoint")
    with pytest.raises(tf.errors.FailedPreconditionError, match="a FIFO, a socket or a device"):
        tf.train.latest_checkpoint(str(tmp_path))


def test_braces_in_a_value_that_an_error_shows() -> None:
    text = tf.placeholder(tf.string, [])
    refused(tf.decode_csv(text, [[1.0]]), {text: "{0} {name"}, r"\{0\}")


def test_an_argument_beside_control_flow_of_version_1() -> None:
    graph_def = tf.GraphDef()
    argument = graph_def.node.add(name="a", op="_Arg")
    argument.attr["T"].type = 1
    argument.attr["index"].i = 0
    tf.import_graph_def(graph_def, name="")
    graph = tf.get_default_graph()
    with tf.Session() as session:
        merged = build("Merge", [tf.constant(1.0), tf.constant(2.0)])[0]
        with pytest.raises(tf.errors.InvalidArgumentError, match="an argument of a function, outside"):
            session.run([merged, graph.get_tensor_by_name("a:0")])


def test_a_variant_of_another_kind() -> None:
    optional = build("OptionalNone")
    refused(build("TensorListLength", optional), {}, "a variant that holds a HostOptional")


def test_names_that_are_no_scalars() -> None:
    with pytest.raises(ValueError, match="must be rank 0 but is rank 1"):
        build("LoadAndRemapMatrix", b"x", [b"y"], [0], [0], [0.0], num_rows=1, num_cols=1)
    with pytest.raises(ValueError, match="must be at most rank 1 but is rank 2"):
        build("LoadAndRemapMatrix", [[b"x"]], b"y", [0], [0], [0.0], num_rows=1, num_cols=1)
    two = build("LoadAndRemapMatrix", [b"x", b"y"], b"y", [0], [0], [0.0], num_rows=1, num_cols=1)
    refused(two, {}, "`ckpt_path` tensor must have exactly one")


@pytest.mark.parametrize(
    ("type_name", "operands", "wrong"),
    [
        ("Slice", [np.ones(3, np.float32), np.int32([0]), np.int32([1])], (1, 2)),
        ("NonMaxSuppressionV2", [np.ones((2, 4)), np.ones(2), np.int32(1), 0.5], (2, 3)),
        ("NonMaxSuppressionV3", [np.ones((2, 4)), np.ones(2), np.int32(1), 0.5, 0.0], (2, 3, 4)),
        ("NonMaxSuppressionV4", [np.ones((2, 4)), np.ones(2), np.int32(1), 0.5, 0.0], (2, 3, 4)),
        ("NonMaxSuppressionV5", [np.ones((2, 4)), np.ones(2), np.int32(1), 0.5, 0.0, 0.0], (2, 3, 4, 5)),
        ("NonMaxSuppressionWithOverlaps", [np.ones((2, 2)), np.ones(2), np.int32(1), 0.5, 0.0], (2, 3, 4)),
        (
            "CombinedNonMaxSuppression",
            [np.ones((1, 2, 1, 4)), np.ones((1, 2, 1)), np.int32(1), np.int32(1), 0.5, 0.0],
            (2, 3, 4, 5),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_operands_of_another_rank_are_named(type_name: str, operands: Any, wrong: tuple[int, ...]) -> None:
    """Operands whose rank a graph leaves open, fed with one dimension more."""
    arrays = [np.float32(value) if np.asarray(value).dtype.kind == "f" else value for value in operands]
    for place in wrong:
        with tf.Graph().as_default():
            feeds = {
                tf.placeholder(value.dtype): value[None, None] if i == place else value
                for i, value in enumerate(arrays)
            }
            op = build_operation(type_name, list(feeds), {})
            name, rank = op.definition.inputs[place].name, arrays[place].ndim
            told = f"must be rank {rank} .*'{name}'|'{name}'.*rank {rank}|begin and size arguments to be 1-D"
            refused(op.outputs[0], feeds, f"(?s){told}")


@pytest.mark.parametrize("dtype", [np.bool_, object], ids=["bool", "string"])
@pytest.mark.parametrize("type_name", ["InplaceAdd", "InplaceSub"])
def test_rows_that_are_not_numbers_are_not_added(type_name: str, dtype: Any) -> None:
    rows = np.zeros((2, 3), dtype) if dtype is np.bool_ else np.full((2, 3), b"a", object)
    with tf.Graph().as_default():
        fetch = build(type_name, tf.constant(rows), np.int32([0]), tf.constant(rows[:1]))
        refused(fetch, {}, "Unsupported dtype")


@pytest.mark.parametrize("type_name", ["Conv3DBackpropInput", "Conv3DBackpropFilter"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_gradients_of_convolutions_know_the_ranks_of_their_operands(type_name: str, place: int) -> None:
    arrays = [np.ones((1, 2, 2, 2, 1), np.float32) for _ in range(3)]
    arrays[place] = np.float32(1)
    feeds = {tf.placeholder(tf.float32): array for array in arrays}
    fetch = build(type_name, *feeds, strides=[1, 1, 1, 1, 1], padding="SAME")
    name = ("input", "filter", "out_backprop")[place]
    refused(fetch, feeds, f"(?s)must be rank 5 but is rank 0.*'{name}'")


@pytest.mark.parametrize(
    ("indices", "values", "sizes"),
    [([[0]], [1], [-1]), ([[0]], [1], []), ([[0, 1]], [1], [3]), ([[0], [1]], [1], [3]), ([[0]], [1], [3, -2])],
)
def test_slices_of_what_is_no_sparse_tensor(indices: Any, values: Any, sizes: Any) -> None:
    operands = [np.array(indices, np.int64), np.array(values, np.int64), np.array(sizes, np.int64)]
    feeds = {tf.placeholder(tf.int64): operand for operand in operands}
    dataset = build("SparseTensorSliceDataset", *feeds)
    refused(build("DatasetCardinality", dataset), feeds, "Input shape should hold at least one size")


@pytest.mark.parametrize(("shape", "rate"), [((2, 2), -1), ((2, 2), 0), ((2, 2), 2**31 - 1), ((2, 0), 8000)])
def test_waves_that_no_header_describes(shape: tuple[int, int], rate: int) -> None:
    audio, given = tf.placeholder(tf.float32), tf.placeholder(tf.int32)
    refused(build("EncodeWav", audio, given), {audio: np.zeros(shape), given: rate}, "A WAV file of")


@pytest.mark.parametrize(
    ("boxes", "colours", "match"),
    [
        ((4, 7, 4), (4,), "colors of shape"),
        ((4, 7, 4), (2, 2), "colors of shape"),
        ((4, 7, 3), (2, 4), "boxes of shape"),
        ((3, 7, 4), (2, 4), "boxes of shape"),
    ],
)
def test_boxes_and_colors_that_do_not_fit_the_images(boxes: Any, colours: Any, match: str) -> None:
    arrays = [np.ones(shape, np.float32) for shape in ((4, 7, 4, 3), boxes, colours)]
    feeds = {tf.placeholder(tf.float32): array for array in arrays}
    refused(build("DrawBoundingBoxesV2", *feeds), feeds, match)


def test_lists_are_not_joined_with_other_variants() -> None:
    listed = build("TensorListReserve", np.int32([2]), np.int32(1), element_dtype=tf.float32)
    other = build("OptionalNone")
    fetch = build("TensorListLength", build("TensorListConcatLists", listed, other, element_dtype=tf.float32))
    refused(fetch, {}, "a variant that holds a")


@pytest.mark.parametrize(
    ("type_name", "dtype", "attrs"),
    [
        *[("EncodePng", dtype, {"compression": n}) for dtype in ("uint8", "uint16") for n in (-2, 10, 1 << 40)],
        *[("EncodeJpeg", "uint8", {"quality": n}) for n in (-5, 101, 1 << 40)],
        ("EncodeJpeg", "uint8", {"x_density": 1 << 40}),
    ],
)
def test_options_of_codecs_have_ranges(type_name: str, dtype: str, attrs: dict[str, int]) -> None:
    ((name, value),) = attrs.items()
    fetch = build(type_name, np.ones((3, 4, 3), dtype), **attrs)
    refused(fetch, {}, rf"{name} (should|must) be in \[.*got {value}")


def test_rows_of_a_scalar_are_not_gathered() -> None:
    operands = [np.int64([0]), np.float32(1), np.int32(0)]
    feeds = {tf.placeholder(array.dtype): array for array in operands}
    splits, values, indices = feeds
    outputs = build("RaggedGather", [splits], values, indices, OUTPUT_RAGGED_RANK=0)
    refused(
        outputs[-1] if isinstance(outputs, (list, tuple)) else outputs,
        feeds,
        "must have rank 1 or more|rank at least 1",
    )


@pytest.mark.parametrize("key", ["shared_name", "container"])
@pytest.mark.parametrize("maker", ["IteratorV2", "MultiDeviceIterator"])
def test_names_that_are_not_utf_8_go_into_string_handles(maker: str, key: str) -> None:
    elements = {"output_types": [tf.int64], "output_shapes": [tf.TensorShape([])]}
    named = {"shared_name": "a", "container": "", key: b"\xff\xfe\x80"}
    devices = {"devices": ["/cpu:0"]} if maker == "MultiDeviceIterator" else {}
    iterator = build(maker, **elements, **named, **devices)
    kind = maker.removesuffix("V2")
    text = build(f"{kind}ToStringHandle", iterator)
    again = build(f"{kind}FromStringHandle", text, **elements)
    data = build("RangeDataset", np.int64(5), np.int64(9), np.int64(1), **elements)
    with tf.Session() as session:
        assert rb"\xff\xfe\x80" in session.run(text)
        if devices:
            place = session.run(build("MultiDeviceIteratorInit", data, iterator, np.int64(1)))
            taken = build("MultiDeviceIteratorGetNextFromShard", again, np.int32(0), np.int64(place), **elements)
        else:
            session.run(build_operation("MakeIterator", [data, iterator], {}))
            taken = build("IteratorGetNext", again, **elements)
        assert session.run(taken) in (5, [5])


@pytest.mark.parametrize("bad", ["group_size", "group_key", "instance_key"])
@pytest.mark.parametrize("type_name", ["CollectiveReduceV2", "CollectiveGatherV2", "CollectiveBcastSendV2"])
def test_what_tells_members_of_a_collective_is_a_scalar(type_name: str, bad: str) -> None:
    more: dict[str, Any] = {"merge_op": "Add", "final_op": "Id"} if "Reduce" in type_name else {}
    more |= {} if "Send" in type_name else {"ordering_token": []}
    keys: dict[str, Any] = {"group_size": np.int32(1), "group_key": np.int32(2), "instance_key": np.int32(3)}
    with pytest.raises(ValueError, match="Shape must be rank 0 but is rank 1"):
        build(type_name, np.ones(2, np.float32), **keys | {bad: np.int32([1, 1])}, **more)
    unknown = tf.placeholder_with_default(tf.constant([1, 1]), None)
    member = build(type_name, np.ones(2, np.float32), **keys | {bad: unknown}, **more)
    refused(member, {}, bad, (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError))


def test_random_numbers_beside_the_exit_of_no_loop() -> None:
    fed = tf.placeholder(tf.float32)
    refused([build("Exit", fed), tf.random_uniform([3])], {fed: 1.0}, "Retval.0. does not have value")


def test_vectors_of_more_elements_than_memory_has_are_of_unknown_rank() -> None:
    """Whatever op takes them as an operand, it is built or refused at once."""
    vectors = {dtype: tf.placeholder(dtype, [2**62]) for dtype in (tf.int32, tf.int64, tf.float32, tf.string)}
    tried = 0
    for name, definition in sorted(opdef.all_definitions().items()):
        if any(spec.is_list for spec in definition.inputs):
            continue
        for spec in definition.inputs:
            others = {other.name: vectors[tf.float32] for other in definition.inputs}
            for dtype in (tf.int32, tf.int64):
                try:
                    build(name, **others | {spec.name: vectors[dtype]})
                except (TypeError, ValueError, errors.OpError, NotImplementedError):
                    pass
                tried += 1
    assert tried > 1000
    assert tf.SparseTensor(tf.placeholder(tf.int64, [1, 2**62]), [1.0], vectors[tf.int64]).shape.ndims is None
    assert tf.contrib.util.constant_value_as_shape(vectors[tf.int32]).ndims is None
    assert tf.reshape(1.0, vectors[tf.int32]).shape.ndims is None
    assert tf.fill(vectors[tf.int32], 1.0).shape.ndims is None
    padding = tf.placeholder(tf.int32, [2**62, 2])
    assert tf.pad(tf.placeholder(tf.float32), padding).shape.ndims is None
