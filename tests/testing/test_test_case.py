"""The test case for programs, itself tested: each assertion holds where it should and fails where it should."""

from __future__ import annotations

import collections
import os
import sys
import threading
import unittest

import numpy as np
import pytest
import warm_python

import anabranch as tf
from anabranch.core.graph.builder import current_stack
from anabranch.eager.mode import eager_mode


class Case(tf.test.TestCase):
    """A case without tests of its own, made by the fixture."""

    __test__ = False

    def runTest(self) -> None:
        """Nothing."""


Pair = collections.namedtuple("Pair", ["a", "b"])


@pytest.fixture
def case() -> Case:
    made = Case()
    made.setUp()
    yield made
    made.tearDown()


@pytest.mark.parametrize(
    ("name", "good", "bad", "text"),
    [
        ("assertAllClose", ([1.0, 2.0], [1.0, 2.0 + 1e-7]), ([1.0, 2.0], [1.0, 2.1]), r"1 of 2 elements are not close"),
        ("assertAllClose", ({"a": [1.0]}, {"a": [1.0]}), ({"a": [1.0]}, {"a": [2.0]}), r"\[a\] differs"),
        ("assertAllClose", ([1.0, np.nan], [1.0, np.nan]), ([1.0], [1.0, 1.0]), "Shape mismatch"),
        ("assertAllClose", ([[1.0], [1.0, 2.0]], [[1.0], [1.0, 2.0]]), ({"a": 1}, {"b": 1}), "mismatched keys"),
        ("assertAllClose", (Pair(1, 2), {"a": 1, "b": 2}), (1, 2), "Not equal to tolerance rtol=1e-06"),
        ("assertAllEqual", ([b"a"], ["a"]), ([1, 2], [1, 3]), r"\(1,\): np.int64\(2\) and np.int64\(3\)"),
        ("assertNotAllClose", ([1.0], [2.0]), ([1.0], [1.0]), "close at all elements"),
        ("assertNotAllEqual", ([1], [2]), ([1], [1]), "equal at all elements"),
        ("assertAllGreater", ([1, 2], 0), ([1, 2], 1), "1 of 2 elements are not greater than 1"),
        ("assertAllLess", ([1, 2], 3), ([1, 2], 2), "not less than 2"),
        ("assertAllGreaterEqual", ([1, 2], 1), ([1, 2], 2), "not at least 2"),
        ("assertAllLessEqual", ([1, 2], 2), ([1, 2], 1), "not at most 1"),
        ("assertAllInRange", ([1, 2], 1, 2), ([1, 2], 1, 2, True), r"not in \(1, 2\]"),
        ("assertAllInSet", ([1, 2], {1, 2}), ([1, 3], {1, 2}), r"not in \{1, 2\}"),
        ("assertNear", (1.0, 1.1, 0.2), (1.0, 1.1, 0.05), r"1\.0 != 1\.1 \+/- 0\.05"),
        ("assertArrayNear", ([1.0], [1.1], 0.2), ([1.0], [1.1], 0.05), r"\+/- 0\.05"),
        ("assertNDArrayNear", (np.ones(2), np.ones(2), 1e-3), (np.ones(2), np.zeros(2), 1e-3), "norm of the diff"),
        ("assertDTypeEqual", (np.float32(1), tf.float32), (np.float32(1), tf.int32), "float32"),
        ("assertDeviceEqual", ("/cpu:0", "/device:CPU:0"), ("/cpu:0", "/cpu:1"), "are not equal"),
        ("assertStartsWith", ("abc", "ab"), ("abc", "b"), "does not start with"),
        ("assertItemsEqual", ([1, 2], [2, 1]), ([1], [2]), "First has 1"),
        ("assertEquals", (1, 1), (1, 2), "1 != 2"),
    ],
)
def test_assertions(case: Case, name: str, good: tuple, bad: tuple, text: str) -> None:
    getattr(case, name)(*good)
    with pytest.raises(AssertionError, match=text):
        getattr(case, name)(*bad)


def test_tolerance_by_type(case: Case) -> None:
    case.assertAllCloseAccordingToType(np.float16([1.0]), np.float16([1.0009]))
    with pytest.raises(AssertionError, match="not close"):
        case.assertAllCloseAccordingToType(np.float32([1.0]), np.float32([1.0009]))


def test_tensors_are_evaluated(case: Case) -> None:
    with case.cached_session():
        x = tf.constant([1.0, 2.0])
        case.assertAllClose(x * 2, [2.0, 4.0])
        case.assertAllEqual([x, x], [[1.0, 2.0]] * 2)
        case.assertAllEqual({"a": np.array([3])}, {"a": 3})
        with pytest.raises(AssertionError, match=r"array\(\[3, 3\]\)"):
            case.assertAllEqual({"a": np.array([3, 3])}, {"a": 3})
        case.assertShapeEqual(np.zeros(2), x)
        with pytest.raises(AssertionError, match=r"\[3\]"):
            case.assertShapeEqual(np.zeros(3), x)
    with pytest.raises(TypeError, match="ndarray"):
        case.assertShapeEqual([1], x)


def test_protos(case: Case) -> None:
    with case.test_session() as session:
        tf.no_op(name="n")
        definition = session.graph.as_graph_def()
    case.assertProtoEqualsVersion("node { name: 'n' op: 'NoOp' device: '/device:CPU:0' }", definition)
    with pytest.raises(AssertionError, match="NoOp"):
        case.assertProtoEquals("node { name: 'm' }", definition)
    other = type(definition)()
    other.CopyFrom(definition)
    tf.test.assert_equal_graph_def(definition, other)
    other.node[0].name = "other"
    with pytest.raises(AssertionError, match="GraphDefs differ in n:"):
        tf.test.assert_equal_graph_def(definition, other)


def test_errors_of_ops(case: Case) -> None:
    with case.test_session():
        wrong = tf.gather([1, 2], 7, name="look")
        with case.assertRaisesOpError("not in"):
            wrong.eval()
        with case.assertRaisesOpError("Caused by: look"):
            wrong.eval()
        with pytest.raises(AssertionError, match="does not match 'other text'"), case.assertRaisesOpError("other text"):
            wrong.eval()
    with pytest.raises(AssertionError, match="OpError not raised"), case.assertRaisesOpError(""):
        pass
    with case.assertRaisesWithPredicateMatch(ValueError, lambda e: "x" in str(e)):
        raise ValueError("x")
    with pytest.raises(AssertionError, match="was expected"), case.assertRaisesWithPredicateMatch(KeyError, ""):
        raise ValueError("x")


def test_one_session_for_a_test(case: Case) -> None:
    with case.test_session() as first:
        v = tf.Variable(3)
        first.run(v.initializer)
    with case.cached_session() as second:
        assert second is first
        assert case.evaluate(v) == 3
    with case.session() as other:
        assert other is not first
    with pytest.raises(ValueError, match="another graph or config"), case.cached_session(graph=tf.Graph()):
        pass
    with case.test_session(graph=tf.Graph()) as new:
        assert new is not first


def test_seeds_and_graphs_are_those_of_each_test(case: Case) -> None:
    first = np.random.rand()
    tf.no_op(name="left")
    case.setUp()
    assert np.random.rand() == first
    assert tf.get_default_graph().get_operations() == []
    assert tf.get_default_graph().seed == 87654321


def test_a_test_that_begins_in_a_graph_goes_on_building_one_where_ops_run_at_once(case: Case) -> None:
    with eager_mode():
        with tf.Graph().as_default() as outer, tf.Graph().as_default():
            case.setUp()
            assert not tf.executing_eagerly()
            assert tf.get_default_graph() is not outer
            x = tf.placeholder(tf.float32)
            with case.test_session() as session:
                assert session.run(x + 1, {x: 2.0}) == 3.0
            with pytest.raises(AssertionError, match="Nesting violated"), tf.Graph().as_default():
                current_stack().append(outer)
            current_stack().pop()
            current_stack().pop()
        assert tf.executing_eagerly()


def test_threads_fail_their_test(case: Case) -> None:
    def fail() -> None:
        raise ValueError("in the thread")

    good = case.checkedThread(threading.get_ident)
    good.start()
    good.join()
    bad = case.checkedThread(fail)
    bad.start()
    with pytest.raises(AssertionError, match="in the thread"):
        bad.join()


def test_written_text(case: Case) -> None:
    with case.captureWritesToStream(sys.stderr) as captured:
        print("seen", file=sys.stderr)
        assert captured.contents() == "seen\n"


def test_stubs() -> None:
    import os

    before = os.path.exists
    with tf.test.StubOutForTesting() as stubs:
        stubs.Set(os.path, "exists", lambda path: True)
        assert os.path.exists("/nowhere")
    assert os.path.exists is before


def test_accelerators() -> None:
    assert tf.test.is_gpu_available() == (tf.test.gpu_device_name() != "")
    assert tf.test.is_built_with_cuda() in (True, False)


PROGRAM = """
import anabranch as tf

class SquareTest(tf.test.TestCase):
    def testSquare(self):
        with self.test_session():
            self.assertAllClose(tf.square([2.0]).eval(), [{value}])

class SquareBenchmark(tf.test.Benchmark):
    def benchmarkSquare(self):
        with tf.Session() as session:
            self.run_op_benchmark(session, tf.square(2.0), min_iters=3)

if __name__ == "__main__":
    tf.test.main()
"""


@pytest.mark.parametrize(
    ("value", "arguments", "code", "text"),
    [
        ("4.0", [], 0, "OK"),
        ("5.0", [], 1, "1 of 1 elements are not close"),
        ("4.0", ["SquareTest.testSquare"], 0, "Ran 1 test"),
        ("5.0", ["--benchmarks=all"], 0, "SquareBenchmark.benchmarkSquare"),
    ],
)
def test_main(tmp_path: object, value: str, arguments: list[str], code: int, text: str) -> None:
    path = tmp_path / "program.py"  # type: ignore[operator]
    path.write_text(PROGRAM.format(value=value))
    shown = warm_python.run(path, arguments)
    assert shown.returncode == code, shown.stderr
    assert text in shown.stdout + shown.stderr


def test_values_without_a_session():
    class Case(tf.test.TestCase):
        def runTest(self):
            self.assertAllEqual(tf.constant([1, 2]), [1, 2])
            self.assertAllClose(self.evaluate({"a": tf.constant(1.5)}), {"a": 1.5})

    Case().debug()


def test_a_case_that_begins_inside_of_a_graph():
    class Case(tf.test.TestCase):
        def runTest(self):
            assert tf.get_default_graph() is not graph
            with self.cached_session():
                assert tf.constant(3).eval() == 3

    graph = tf.Graph()
    with graph.as_default():
        Case().debug()
    assert not graph.get_operations()


def test_a_mapping_is_not_compared_with_anything_else(case: Case) -> None:
    with pytest.raises(ValueError, match="Can't compare dict to non-dict"):
        case.assertAllClose({"a": 1}, [1])


def test_devices_that_are_not_there_are_soft_in_sessions_of_tests_unless_a_gpu_is_a_must(case):
    with tf.Graph().as_default(), tf.device("/device:GPU:7"):
        v = tf.get_variable("v", [], initializer=tf.ones_initializer())
        with case.test_session(graph=v.graph) as session:
            session.run(v.initializer)
            assert session.run(v) == 1.0
        with case.cached_session() as session:
            session.run(v.initializer)
        for config in (None, tf.ConfigProto(allow_soft_placement=True)):
            with (
                case.session(graph=v.graph, config=config, force_gpu=True) as session,
                pytest.raises(tf.errors.InvalidArgumentError, match="Cannot assign a device"),
            ):
                session.run(v.initializer)
            assert config is None or config.allow_soft_placement  # the given config stays as it is


def test_a_test_that_goes_into_its_folder_leaves_the_process_where_it_was(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    class Goes(tf.test.TestCase):
        def runTest(self):
            os.chdir(self.get_temp_dir())

    result = unittest.TestResult()
    Goes().run(result)
    assert result.wasSuccessful()
    assert os.path.samefile(os.getcwd(), tmp_path)


def test_numbers_of_messages_are_compared_as_far_as_they_are_told(case):
    histogram = tf.HistogramProto(min=9.93809490288080, bucket_limit=[1.00000000004], bucket=[2.0])
    value = tf.Summary.Value(tag="h", histo=histogram)
    event = tf.Summary(value=[value, tf.Summary.Value(tag="s", simple_value=0.1)])
    text = (
        'value { tag: "h" histo { min: 9.9380949029 bucket_limit: 1 bucket: 2 } } value { tag: "s" simple_value: 0.1 }'
    )
    case.assertProtoEquals(text, event)
    assert event.value[0].histo.min == 9.93809490288080
    with pytest.raises(AssertionError, match="bucket"):
        case.assertProtoEquals(text.replace("bucket: 2 ", "bucket: 2.00001 "), event)
    features = {"a": tf.train.Feature(float_list=tf.train.FloatList(value=[0.1, 0.2]))}
    case.assertProtoEquals(tf.train.Features(feature=features), tf.train.Features(feature=features))
