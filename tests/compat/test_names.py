"""Text and bytes, old names, switches between versions, helpers of TensorFlow's internal modules."""

from __future__ import annotations

import copy
import functools
import gzip
import json
import operator
import pickle
import struct
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import (
    eager_names,
    file_io,
    hook,
    inspection,
    internals,
    layer_utilities,
    machine,
    mnist,
    old_names,
    utilities,
)
from anabranch.debug import timeline


@pytest.fixture(autouse=True)
def graph() -> object:
    with tf.Graph().as_default() as made:
        yield made


# --------------------------------------------------------------------------------------------------------- tf.compat
def test_text_and_bytes() -> None:
    assert tf.compat.as_bytes("é") == "é".encode()
    assert tf.compat.as_bytes(bytearray(b"x")) == b"x"
    assert tf.compat.as_text(b"\xc3\xa9") == tf.compat.as_str("é") == "é"
    assert tf.compat.as_str_any(3) == "3"
    assert tf.compat.path_to_str(Path("a")) == "a"
    assert tf.compat.path_to_str(3) == 3
    for function in (tf.compat.as_bytes, tf.compat.as_text):
        with pytest.raises(TypeError, match="Expected binary or unicode string, got 3"):
            function(3)


def test_dimensions_and_numbers() -> None:
    shape = tf.TensorShape([2, None])
    assert [tf.compat.dimension_value(d) for d in (*shape.dims, 3, None)] == [2, None, 3, None]
    assert tf.compat.dimension_at_index(shape, 0) == 2
    assert tf.compat.dimension_at_index(tf.TensorShape(None), 5).value is None
    assert isinstance(np.int32(1), tf.compat.integral_types)
    assert isinstance(np.float32(1), tf.compat.real_types)
    assert not isinstance("x", tf.compat.complex_types)
    assert tf.compat.forward_compatible(2019, 1, 1)


# --------------------------------------------------------------------------------------------------------- old names
def test_an_old_name_warns_once_and_works() -> None:
    old_names._warned.clear()
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with pytest.warns(FutureWarning, match=r"Given: tf\.batch_matmul, a name from before TensorFlow 1\.0"):
        product = tf.batch_matmul(x, x, adj_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tf.batch_matmul(x, x)
    with pytest.warns(FutureWarning, match=r"Instead: tf\.where"):
        selected = tf.select([True, False], [1, 2], [3, 4])
    with pytest.warns(FutureWarning, match=r"Instead: tf\.setdiff1d"):
        rest = tf.listdiff([1, 2, 3], [2])[0]
    with pytest.warns(FutureWarning, match=r"Instead: tf\.cholesky"):
        factor = tf.batch_cholesky(tf.eye(2))
    with tf.Session() as session:
        values = session.run([product, selected, rest, factor])
    assert values[0].tolist() == [[5, 11], [11, 25]]
    assert values[1].tolist() == [1, 4]
    assert values[2].tolist() == [1, 3]
    assert values[3].tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("name", ["mul", "sub", "neg", "pack", "unpack", "inv", "initialize_all_variables", "select"])
def test_names_from_before_version_one_are_there(name: str) -> None:
    assert callable(getattr(tf, name))


# ----------------------------------------------------------------------------------------------------------- versions
def test_version_one_is_the_usual_one() -> None:
    for name in ("disable_eager_execution", "disable_v2_behavior", "disable_v2_tensorshape", "disable_control_flow_v2"):
        getattr(tf, name)()
    assert not tf.executing_eagerly()
    assert not eager_names.context().executing_eagerly()
    assert tf.is_tensor(tf.constant(1))
    assert not tf.is_tensor(1)
    with pytest.raises(NotImplementedError, match=r"Given: tf\.enable_v2_tensorshape"):
        tf.enable_v2_tensorshape()
    with eager_names.eager_mode():
        assert tf.executing_eagerly()


@pytest.mark.parametrize("module", ["def_function", "function"])
def test_functions_of_the_internal_modules_are_the_public_ones(module: str) -> None:
    assert hook.resolve_value(f"python.eager.{module}", "function") is tf.function
    assert hook.resolve_value(f"python.eager.{module}", "defun") is tf.contrib.eager.defun


@pytest.mark.parametrize(
    ("module", "name", "public"),
    [
        ("ragged.ragged_tensor", "RaggedTensor", "RaggedTensor"),
        ("ragged.ragged_factory_ops", "constant", "ragged.constant"),
        ("ragged.ragged_math_ops", "range", "ragged.range"),
        ("ragged.ragged_functional_ops", "map_flat_values", "ragged.map_flat_values"),
    ],
)
def test_internal_modules_of_ragged_tensors(module: str, name: str, public: str) -> None:
    assert hook.resolve_value(f"python.ops.{module}", name) is operator.attrgetter(public)(tf)


def test_the_internal_module_of_devices() -> None:
    found = hook.resolve_value("python.framework.config", "list_physical_devices")
    assert found is tf.config.experimental.list_physical_devices
    assert hook.resolve_value("python.framework.config", "executing_eagerly") is tf.executing_eagerly


def test_machine() -> None:
    assert machine.list_local_devices()[0].device_type == "CPU"
    assert machine.get_registered_ops()["MatMul"].input_arg[0].name == "a"
    assert machine.get("MatMul").name == "MatMul"
    assert machine.get("NoSuchOp") is None


# ------------------------------------------------------------------------------------------------------------ helpers
def test_inspection() -> None:
    assert inspection.getargspec(lambda a, b=1, *c, **d: 0) == (["a", "b"], "c", "d", (1,))
    assert inspection.isfunction(test_inspection)


def test_utilities() -> None:
    class Caller:
        """Something that is called."""

        def __call__(self, a: int, b: int) -> None:
            """Nothing."""

    def function(a: int, b: int = 0, **rest: int) -> int:
        return a + b

    assert utilities.fn_args(Caller()) == ("a", "b")
    assert utilities.fn_args(functools.partial(function, 1)) == ("b",)
    assert utilities.fn_args(functools.partial(function, b=1)) == ("a",)
    assert utilities.has_kwargs(function)
    assert utilities.tf_export("x")(function) is function
    decorated = utilities.make_decorator(function, lambda *a: 3)
    assert decorated.__name__ == "function"
    assert utilities.unwrap(decorated)[1] is function
    with pytest.raises(ValueError, match="Must use keyword args to call function"):
        utilities.keyword_args_only(function)(1)
    assert utilities.keyword_args_only(function)(a=1) == 1
    assert utilities.deprecated_argument_lookup("new", None, "old", 3) == 3
    with pytest.raises(ValueError, match="Cannot specify both 'old' and 'new'"):
        utilities.deprecated_argument_lookup("new", 1, "old", 3)
    with warnings.catch_warnings(record=True) as seen, utilities.silence():
        utilities.deprecated(None, "Use other.")(function)(1)
    assert seen == []


def test_arguments_of_layers() -> None:
    assert layer_utilities.normalize_tuple(2, 3, "strides") == (2, 2, 2)
    assert layer_utilities.convert_data_format("channels_first", 4) == "NCHW"
    assert layer_utilities.convert_data_format("channels_last", 5) == "NDHWC"
    lengths = [layer_utilities.conv_output_length(7, 3, padding, 2) for padding in ("same", "valid", "full")]
    assert lengths == [4, 3, 5]
    assert layer_utilities.conv_output_length(7, 3, "valid", 1, dilation=2) == 3
    assert layer_utilities.deconv_output_length(4, 3, "valid", 2) == 9
    assert layer_utilities.deconv_output_length(4, 3, "same", 2) == 8
    assert layer_utilities.conv_input_length(3, 3, "valid", 2) == 7
    with pytest.raises(
        ValueError, match=r"The `strides` argument must be a tuple of 2 integers\. Received: \(1, 2, 3\)"
    ):
        layer_utilities.normalize_tuple((1, 2, 3), 2, "strides")
    with pytest.raises(ValueError, match="`data_format` argument"):
        layer_utilities.normalize_data_format("NHWC")
    with pytest.raises(ValueError, match="`padding` argument"):
        layer_utilities.normalize_padding("full")


def test_conditions_known_and_not() -> None:
    place = tf.placeholder(tf.bool, [])
    assert layer_utilities.smart_cond(True, lambda: "yes", lambda: "no") == "yes"
    assert layer_utilities.smart_cond(tf.constant(False), lambda: "yes", lambda: "no") == "no"
    chosen = layer_utilities.smart_cond(place, lambda: tf.constant(1), lambda: tf.constant(2))
    with tf.Session() as session:
        assert session.run(chosen, {place: False}) == 2
    assert layer_utilities.constant_value(tf.Variable(True)) is None
    with pytest.raises(TypeError, match="`pred` must be a Tensor, a Variable, or a Python bool"):
        layer_utilities.constant_value("text")
    with pytest.raises(TypeError, match="`false_fn` must be callable"):
        layer_utilities.smart_cond(True, lambda: 1, None)


def test_files(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    file_io.write_string_to_file(path, "text")
    assert file_io.read_file_to_string(path) == "text"
    assert file_io.read_file_to_string(path, binary_mode=True) == b"text"
    file_io.atomic_write_string_to_file(path, "new")
    with file_io.FileIO(path, "r") as file:
        assert file.read() == "new"
    with pytest.raises(tf.errors.AlreadyExistsError, match="overwrite=True"):
        file_io.atomic_write_string_to_file(path, "newer", overwrite=False)
    assert file_io.list_directory(str(tmp_path)) == ["file"]


def traced_product() -> tf.RunMetadata:
    metadata = tf.RunMetadata()
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        x = tf.placeholder(tf.float32, [1, 2], "x")
        product = tf.matmul(tf.negative(x, "minus"), [[3.0], [4.0]], name="product")
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        assert session.run(product, {x: [[1.0, 2.0]]}, options=options, run_metadata=metadata) == -11.0
    return metadata


def test_a_trace_of_a_step() -> None:
    trace = json.loads(timeline.Timeline(traced_product().step_stats).generate_chrome_trace_format(show_memory=True))
    kinds = {event["ph"] for event in trace["traceEvents"]}
    assert kinds == {"M", "X", "C", "s", "t"}
    assert all(event["dur"] >= 1 for event in trace["traceEvents"] if event["ph"] == "X")
    (product,) = (event for event in trace["traceEvents"] if event["name"] == "MatMul")
    assert product["args"]["input0"] == "minus"


def test_a_trace_is_analysed() -> None:
    analysis = timeline.Timeline(traced_product().step_stats).analyze_step_stats(show_dataflow=False)
    maximum = analysis.allocator_maximums["cpu"]
    assert maximum.num_bytes == 12  # `minus` of two float32 and `product` of one
    assert maximum.tensors == {"minus", "product"}
    assert maximum.timestamp > 0
    trace = json.loads(analysis.chrome_trace.format_to_string())
    assert {event["ph"] for event in trace["traceEvents"]} == {"M", "X", "C"}
    assert [event["args"]["cpu"] for event in trace["traceEvents"] if event["ph"] == "C"][-1] == 0
    only_nodes = timeline.Timeline(traced_product().step_stats).generate_chrome_trace_format(show_dataflow=False)
    assert {event["ph"] for event in json.loads(only_nodes)["traceEvents"]} == {"M", "X"}


def test_a_trace_of_a_step_that_was_not_recorded_is_empty() -> None:
    analysis = timeline.Timeline(tf.RunMetadata().step_stats).analyze_step_stats()
    assert analysis.allocator_maximums == {}
    assert json.loads(analysis.chrome_trace.format_to_string(pretty=True)) == {"traceEvents": []}


# -------------------------------------------------------------------------------------------------------------- MNIST
@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A folder of ten training and four test images."""
    for name, count in (("train", 10), ("t10k", 4)):
        images = np.arange(count * 28 * 28, dtype=np.uint32).astype(np.uint8).tobytes()
        labels = bytes(i % 10 for i in range(count))
        (tmp_path / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + images)
        with gzip.open(tmp_path / f"{name}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">2I", 0x801, count) + labels)
    return tmp_path


def test_data_sets_come_from_a_folder(digits: Path) -> None:
    data = mnist.read_data_sets(str(digits), one_hot=True, validation_size=2, seed=1)
    assert [part.num_examples for part in data] == [8, 2, 4]
    assert data.test.images.dtype == np.float32
    assert data.test.images.max() <= 1.0
    assert data.test.labels[3].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert data.validation.images.shape == (2, 784)
    raw = mnist.read_data_sets(str(digits), dtype=tf.uint8, reshape=False, validation_size=0)
    assert raw.train.images.shape == (10, 28, 28, 1)
    assert raw.train.labels.tolist() == list(range(10))


@pytest.mark.parametrize("seed", [None, 3])
def test_data_sets_can_be_copied(digits: Path, seed: int | None) -> None:
    data = mnist.read_data_sets(str(digits), validation_size=0, seed=seed)
    copied = copy.deepcopy(data)
    assert pickle.loads(pickle.dumps(data.train)).num_examples == 10
    data.train.next_batch(4)
    assert sorted(copied.train.next_batch(10)[1].tolist()) == list(range(10))


@pytest.mark.parametrize(("of_graph", "seed", "start"), [(5, None, 5), (None, 3, 3), (5, 3, 3), (None, None, 8)])
def test_batches_are_shuffled_by_numpys_generator(
    digits: Path, of_graph: int | None, seed: int | None, start: int
) -> None:
    """As TensorFlow does, which seeds NumPy with the graph's seed or the set's own."""
    np.random.seed(8)
    with tf.Graph().as_default():
        tf.set_random_seed(of_graph)
        train = mnist.read_data_sets(str(digits), validation_size=0, seed=seed).train
    order = np.arange(10)
    generator = np.random.RandomState(start)
    generator.shuffle(order)
    assert train.next_batch(10)[1].tolist() == order.tolist()
    assert np.random.randint(1000) == generator.randint(1000)


def test_batches_cover_an_epoch(digits: Path) -> None:
    train = mnist.read_data_sets(str(digits), validation_size=0, seed=3).train
    seen = [train.next_batch(4)[1] for _ in range(3)]
    assert train.epochs_completed == 1
    assert sorted(np.concatenate(seen)[:10].tolist()) == list(range(10))
    images, labels = train.next_batch(10, shuffle=False)
    assert len(images) == len(labels) == 10
    with pytest.raises(ValueError, match="a batch of 11"):
        train.next_batch(11)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"fake_data": True}, NotImplementedError, "fake_data"),
        ({"validation_size": 99}, ValueError, "Validation size should be between 0 and 10"),
        ({"dtype": tf.int32, "validation_size": 0}, TypeError, r"tf\.float32 or tf\.uint8"),
    ],
)
def test_what_data_sets_refuse(digits: Path, options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        mnist.read_data_sets(str(digits), **options)


def test_nothing_is_downloaded(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="a folder with train-images-idx3-ubyte"):
        mnist.read_data_sets(str(tmp_path))


def test_the_tutorials_network_learns() -> None:
    random = np.random.RandomState(0)
    labels = np.arange(20) % 10
    images = (random.rand(20, 784) * 0.1 + np.eye(10)[labels].repeat(79, 1)[:, :784]).astype(np.float32)
    tf.set_random_seed(1)
    logits = mnist.inference(tf.constant(images), 16, 8)
    loss = mnist.loss(logits, tf.constant(labels))
    step = mnist.training(loss, 0.2)
    right = mnist.evaluation(logits, tf.constant(labels))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(100):
            session.run(step)
        assert session.run(right) >= 15


def test_the_command_shows_its_version() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "anabranch", "--version"], capture_output=True, text=True, check=False
    )
    assert shown.stdout == f"anabranch {tf.__version__}\n"


def test_decorators_of_tensorflows_own_tests() -> None:
    assert internals.places("python.framework.test_util") is not None
    names = ("run_in_graph_and_eager_modes", "run_deprecated_v1", "assert_ops_in_graph")
    found = {name: internals.special("=test_utilities", name) for name in names}

    seen: list[Any] = []

    class Case(tf.test.TestCase):
        @found["run_in_graph_and_eager_modes"]
        def in_a_graph(self) -> None:
            self.assertAllEqual(self.evaluate(tf.constant([1]) * 2), [2])

        @found["run_in_graph_and_eager_modes"](use_gpu=False)
        def nodes(self) -> None:
            if tf.executing_eagerly():
                return
            node = found["assert_ops_in_graph"]({"x": "Const"}, tf.constant(1, name="x").graph)["x"]
            assert node.op == "Const"
            with pytest.raises(ValueError, match="a graph without"):
                found["assert_ops_in_graph"]({"x": "Relu"}, tf.get_default_graph())

        @found["run_in_graph_and_eager_modes"]
        def only_at_once(self) -> None:
            if not tf.executing_eagerly():
                self.skipTest("names are recorded")
            assert tf.constant(2).numpy() == 2
            seen.append(tf.get_collection("variables"))

        @found["run_deprecated_v1"]
        def as_it_is(self) -> None:
            self.fail("it ran")

    with ThreadPoolExecutor(1) as thread:  # its default graph is its own, which a TestCase resets
        for name in ("in_a_graph", "nodes", "only_at_once"):
            result = thread.submit(Case(name).run).result()
            assert result.failures + result.errors == []
            assert result.skipped == []
        assert seen == [[]]
        assert len(thread.submit(Case("as_it_is").run).result().failures) == 1
