"""``tf.test.TestCase``: Python's test case with sessions, temporary folders and comparisons of arrays.

Each test starts with an empty default graph and the same seeds. ``cached_session`` (and ``test_session``) gives one
session for the whole test, ``session`` a new one. Comparisons take arrays, tensors (which are evaluated in the default
session) and nested structures of them; they fail with the elements that differ.
"""

# ruff: noqa: PT009 - the assertions of a test case are what is made here

from __future__ import annotations

import contextlib
import os
import random
import re
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl.testing import absltest
from google.protobuf import text_format

from anabranch.core import device, errors
from anabranch.core.graph import default_graph, operation, random_seed
from anabranch.core.graph import graph as graphs
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from anabranch.core.graph.sparse_tensor import SparseTensor, SparseTensorValue
from anabranch.core.protos import config_pb2
from anabranch.core.values import nest
from anabranch.core.values.dtypes import as_dtype
from anabranch.session import Session, get_default_session

RANDOM_SEED = 87654321
_TOLERANCES = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6}


def _rounded(message: Any) -> Any:
    """A copy of a message with its numbers rounded, in all messages that it holds."""
    copied = type(message)()
    copied.CopyFrom(message)
    stack = [copied]
    while stack:
        for field, value in (inner := stack.pop()).ListFields():
            many = isinstance(value, Sequence | Mapping) and not isinstance(value, str | bytes)
            if field.type == field.TYPE_MESSAGE:
                parts = value.values() if isinstance(value, Mapping) else value if many else [value]
                stack.extend(part for part in parts if hasattr(part, "ListFields"))
            elif field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
                digits = 6 if field.type == field.TYPE_FLOAT else 7
                if many:
                    value[:] = [round(one, digits) for one in value]
                else:
                    setattr(inner, field.name, round(value, digits))
    return copied


def _has_value(item: Any) -> bool:
    """Whether something is a tensor or variable that has a value, whatever mode this is."""
    if isinstance(item, IndexedSlices):
        return _has_value(item.values)
    return bool(getattr(item, "has_value", False)) or getattr(getattr(item, "_builder", None), "defers", True) is False


def _value(item: Any) -> Any:
    """The value of something that has one already."""
    if item is None or callable(item):
        return nest.map_structure(_value, item()) if callable(item) else None
    if isinstance(item, SparseTensor):
        return SparseTensorValue(*[_value(part) for part in (item.indices, item.values, item.dense_shape)])
    if isinstance(item, IndexedSlices):
        return IndexedSlicesValue(_value(item.values), _value(item.indices), _value(item.dense_shape))
    return item.numpy() if hasattr(item, "numpy") else item


class CheckedThread:
    """A thread whose exception, if it ends by one, fails the test that joins it."""

    def __init__(self, case: TestCase, target: Callable[..., Any], args: Any = None, kwargs: Any = None) -> None:
        self._case = case
        self._problem: BaseException | None = None
        self._joined = False

        def run() -> None:
            try:
                target(*(args or ()), **(kwargs or {}))
            except BaseException as problem:
                self._problem = problem

        self._thread = threading.Thread(target=run)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread, and fail the test if it ended by an exception."""
        self._joined = True
        self._thread.join()
        if self._problem is not None:
            self._case.fail(f"Error in checkedThread: {self._problem!r}")

    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def check_termination(self) -> None:
        """Fail the test if the thread was not joined."""
        if not self._joined and self._thread.is_alive():
            self._case.fail("A checked thread was not joined.")


class TestCase(absltest.TestCase):
    """A test of graph programs; see the module."""

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self._threads: list[CheckedThread] = []
        self._cached: Session | None = None
        self._folder: str | None = None

    def setUp(self) -> None:
        """Empty the default graph and set all seeds."""
        super().setUp()
        self._close()
        random.seed(RANDOM_SEED)
        np.random.seed(RANDOM_SEED)
        default_graph.leave_graphs()  # a test may begin in a graph's block
        random_seed.set_random_seed(RANDOM_SEED)

    def tearDown(self) -> None:
        """Close the session and check that threads were joined."""
        for thread in self._threads:
            thread.check_termination()
        self._threads.clear()
        self._close()
        super().tearDown()

    def _close(self) -> None:
        if self._cached is not None:
            self._cached.close()
            self._cached = None

    def get_temp_dir(self) -> str:
        """A folder of this test, deleted when it is over."""
        if self._folder is None:
            holder = tempfile.TemporaryDirectory(prefix="test_", ignore_cleanup_errors=True)  # a thread may still write
            here = os.getcwd()

            def clean() -> None:
                holder.cleanup()
                try:
                    os.getcwd()
                except FileNotFoundError:  # the test went into its folder
                    os.chdir(here)

            self.addCleanup(clean)
            self._folder = holder.name
        return self._folder

    # ------------------------------------------------------------------------------------------------------- sessions
    @contextlib.contextmanager
    def session(
        self, graph: Any = None, config: Any = None, use_gpu: bool = False, force_gpu: bool = False
    ) -> Iterator[Session]:
        """A new session as default session."""
        if not current_builder().defers:
            yield None  # type: ignore[misc]
            return
        with Session(graph=graph, config=_test_config(config, force_gpu)) as session, _placed(use_gpu, force_gpu):
            yield session

    @contextlib.contextmanager
    def cached_session(
        self, graph: Any = None, config: Any = None, use_gpu: bool = False, force_gpu: bool = False
    ) -> Iterator[Session]:
        """The session of this test as default session: the same one each time.

        Raises:
            ValueError: it was made with another graph or config.
        """
        if not current_builder().defers:
            yield None  # type: ignore[misc]
            return
        if self._cached is None:
            self._cached = Session(graph=graph, config=_test_config(config, force_gpu))
            self._cached_with = (self._cached.graph, config)
        elif (graph is not None and graph is not self._cached_with[0]) or (
            config is not None and config is not self._cached_with[1]
        ):
            raise ValueError(
                errors.message(
                    "another graph or config than those the cached session was made with",
                    "the same ones in each cached_session of a test",
                    "self.session(graph=..., config=...)",
                )
            )
        with self._cached.graph.as_default(), self._cached.as_default(), _placed(use_gpu, force_gpu):
            yield self._cached

    def test_session(
        self, graph: Any = None, config: Any = None, use_gpu: bool = False, force_gpu: bool = False
    ) -> contextlib.AbstractContextManager[Session]:
        """The session of this test; a new one if a graph is given."""
        if self.id().endswith(".test_session"):  # found as a test, for its name
            self.skipTest("not a test")
        if graph is not None:
            return self.session(graph, config, use_gpu, force_gpu)
        return self.cached_session(graph, config, use_gpu, force_gpu)

    def evaluate(self, tensors: Any) -> Any:
        """Values of tensors, or of a structure of them, in the default session; without one, in that of the test."""
        leaves = [leaf for leaf in nest.flatten(tensors) if leaf is not None]
        if not current_builder().defers or (leaves and all(map(_has_value, leaves))):
            return nest.map_structure(_value, tensors)
        session = get_default_session()
        if session is not None:
            return session.run(tensors)
        with self.cached_session() as own:
            return own.run(tensors)

    def checkedThread(self, target: Callable[..., Any], args: Any = None, kwargs: Any = None) -> CheckedThread:
        """A thread whose exceptions fail the test when it is joined."""
        thread = CheckedThread(self, target, args, kwargs)
        self._threads.append(thread)
        return thread

    @contextlib.contextmanager
    def captureWritesToStream(self, stream: Any) -> Iterator[Any]:
        """Collect what is written to ``sys.stdout`` or ``sys.stderr``: ``contents()`` of what it gives."""
        name = next((name for name in ("stdout", "stderr") if getattr(sys, name) is stream), None)
        if name is None:
            raise ValueError(errors.message(f"the stream {stream!r}", "sys.stdout or sys.stderr", "sys.stderr"))
        with tempfile.TemporaryFile("w+") as file:

            class Captured:
                @staticmethod
                def contents() -> str:
                    file.flush()
                    at = file.tell()
                    file.seek(0)
                    text = file.read()
                    file.seek(at)
                    return text

            redirect = contextlib.redirect_stdout if name == "stdout" else contextlib.redirect_stderr
            with redirect(file):
                yield Captured()

    # --------------------------------------------------------------------------------------------------------- numbers
    def _GetNdArray(self, a: Any) -> np.ndarray:
        return self._array(a)

    def _array(self, value: Any) -> np.ndarray:
        if isinstance(value, np.ndarray):
            return value
        if any(
            isinstance(part, operation.Tensor) or (hasattr(part, "value") and hasattr(part, "initializer"))
            for part in nest.flatten(value)
        ):
            value = self.evaluate(value)
        return np.asarray(value)

    def _NDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float) -> bool:
        return bool(np.linalg.norm(self._array(ndarray1) - self._array(ndarray2)) < err)

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        """|f1 - f2| is at most ``err``."""
        self.assertTrue(
            f1 == f2 or abs(f1 - f2) <= err,
            f"{f1!r} != {f2!r} +/- {err!r}{f' ({msg})' if msg is not None else ''}",
        )

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: str | None = None) -> None:
        """Two sequences are as long and near, element by element."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for first, second in zip(farray1, farray2, strict=True):
            self.assertNear(float(first), float(second), err, msg)

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None) -> None:
        """The norm of the difference is less than ``err``."""
        norm = np.linalg.norm(self._array(ndarray1) - self._array(ndarray2))
        self.assertTrue(norm < err, f"the norm of the difference, {norm}, is not below {err}. {msg or ''}")

    def _compare_arrays(
        self, a: Any, b: Any, msg: str | None, differ: Callable[[np.ndarray, np.ndarray], np.ndarray], how: str
    ) -> None:
        a, b = self._array(a), self._array(b)
        self.assertEqual(
            a.shape, b.shape, f"Shape mismatch: expected {a.shape}, got {b.shape}. {msg or ''}\n{a!r}\n{b!r}"
        )
        bad = differ(a, b)
        if np.any(bad):
            places = np.argwhere(np.atleast_1d(bad))
            lines = [
                f"  {tuple(int(i) for i in place) if a.shape else '()'}: "
                f"{np.atleast_1d(a)[tuple(place)]!r} and {np.atleast_1d(b)[tuple(place)]!r}"
                for place in places[:10]
            ]
            more = f"\n  ... {len(places) - 10} more" if len(places) > 10 else ""
            heading = f"{len(places)} of {bad.size} elements are not {how}"
            self.fail("\n".join(filter(None, [msg, heading, *lines])) + more)

    def _walk(self, a: Any, b: Any, path: str, msg: str | None, compare: Callable[[Any, Any, str], None]) -> None:
        a, b = (part._asdict() if hasattr(part, "_asdict") else part for part in (a, b))
        if isinstance(a, Mapping) != isinstance(b, Mapping):
            raise ValueError(f"Can't compare dict to non-dict, at {path}: a {type(a)} with a {type(b)}. {msg or ''}")
        if isinstance(a, Mapping):
            self.assertCountEqual(a.keys(), b.keys(), f"{path}: mismatched keys. {msg or ''}")
            for key in a:
                self._walk(a[key], b[key], f"{path}[{key}]", msg, compare)
            return
        if isinstance(a, list | tuple) and isinstance(b, list | tuple):
            # Ragged lists, and lists of structures, are compared part by part.
            try:
                compare(self._array(a), self._array(b), path)
                return
            except (ValueError, TypeError):
                pass
            self.assertEqual(len(a), len(b), f"{path}: lengths differ. {msg or ''}")
            for i, (first, second) in enumerate(zip(a, b, strict=True)):
                self._walk(first, second, f"{path}[{i}]", msg, compare)
            return
        compare(a, b, path)

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:
        """Shapes are equal and |a - b| is at most atol + rtol |b| everywhere; structures are compared leaf by leaf."""

        def compare(x: Any, y: Any, path: str) -> None:
            def differ(p: np.ndarray, q: np.ndarray) -> np.ndarray:
                # bfloat16 and half overflow, or know no isclose, in their own arithmetic.
                p, q = (v.astype(np.float32) if v.dtype.itemsize == 2 and v.dtype.kind in "fV" else v for v in (p, q))
                return ~np.isclose(p, q, rtol=rtol, atol=atol, equal_nan=True)

            heading = f"{path[1:]} differs. {msg or ''}" if path != "a" else msg
            how = f"close. Not equal to tolerance rtol={rtol}, atol={atol}"
            self._compare_arrays(x, y, heading, differ, how)

        self._walk(a, b, "a", msg, compare)

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:
        """Like assertAllClose, with the tolerance of the narrowest type among both."""
        a, b = self._array(a), self._array(b)
        names = {a.dtype.name, b.dtype.name}
        for kinds, relative, absolute in (
            ({"float32", "complex64"}, float_rtol, float_atol),
            ({"float16"}, half_rtol, half_atol),
            ({"bfloat16"}, bfloat16_rtol, bfloat16_atol),
        ):
            if names & kinds:
                rtol, atol = max(rtol, relative), max(atol, absolute)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertNotAllClose(self, a: Any, b: Any, **kwargs: Any) -> None:
        """assertAllClose fails."""
        try:
            self.assertAllClose(a, b, **kwargs)
        except AssertionError:
            return
        self.fail(f"The two values are close at all elements. {kwargs.get('msg') or ''}")

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Shapes are equal and all elements too; NaN equals NaN, text equals its UTF-8 bytes.

        Dictionaries that Python calls equal are, as in TensorFlow: an array of one element equals a number there.
        """
        if isinstance(a, dict) and isinstance(b, dict):
            with contextlib.suppress(ValueError):  # arrays of several elements, which are compared below
                if a == b:
                    return

        def compare(x: Any, y: Any, path: str) -> None:
            def differ(p: np.ndarray, q: np.ndarray) -> np.ndarray:
                if p.dtype.kind in "OSU" or q.dtype.kind in "OSU":
                    p, q = _as_bytes(p), _as_bytes(q)
                same = p == q
                if p.dtype.kind in "fcV" and q.dtype.kind in "fcV":
                    same = same | ((p != p) & (q != q))
                return ~np.asarray(same, bool)

            self._compare_arrays(x, y, msg, differ, "equal")

        self._walk(a, b, "a", msg, compare)

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """assertAllEqual fails."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        self.fail(f"The two values are equal at all elements. {msg or ''}")

    def _all(self, value: Any, holds: Callable[[np.ndarray], np.ndarray], what: str) -> None:
        array = self._array(value)
        bad = ~holds(array)
        if np.any(bad):
            self.fail(f"{int(np.sum(bad))} of {array.size} elements are not {what}; the first is {array[bad][0]!r}")

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Every element is greater than a number."""
        self._all(a, lambda x: x > comparison_target, f"greater than {comparison_target}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Every element is less than a number."""
        self._all(a, lambda x: x < comparison_target, f"less than {comparison_target}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """Every element is at least a number."""
        self._all(a, lambda x: x >= comparison_target, f"at least {comparison_target}")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """Every element is at most a number."""
        self._all(a, lambda x: x <= comparison_target, f"at most {comparison_target}")

    def assertAllInRange(
        self,
        target: Any,
        lower_bound: Any,
        upper_bound: Any,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Every element is between two bounds, which belong to the range unless they are open."""
        self._all(
            target,
            lambda x: (
                (x > lower_bound if open_lower_bound else x >= lower_bound)
                & (x < upper_bound if open_upper_bound else x <= upper_bound)
            ),
            f"in {'(' if open_lower_bound else '['}{lower_bound}, {upper_bound}{')' if open_upper_bound else ']'}",
        )

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        """Every element is in a set."""
        self._all(target, lambda x: np.isin(x, list(expected_set)), f"in {expected_set}")

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """The dtype of an array or tensor is as expected."""
        given = target.dtype if hasattr(target, "dtype") else self._array(target).dtype
        self.assertEqual(as_dtype(given).base_dtype, as_dtype(expected_dtype).base_dtype)

    def assertShapeEqual(self, np_array: Any, tf_tensor: Any, msg: str | None = None) -> None:
        """An array has the static shape of a tensor."""
        if not isinstance(np_array, np.ndarray | np.generic):
            raise TypeError("np_array must be a Numpy ndarray or Numpy scalar")
        self.assertEqual(list(np_array.shape), tf_tensor.get_shape().as_list(), msg)

    # ---------------------------------------------------------------------------------------- devices, protos, errors
    def assertDeviceEqual(self, device1: Any, device2: Any, msg: str | None = None) -> None:
        """Two devices are the same in canonical form."""
        first, second = (device.canonical_name(d) for d in (device1, device2))
        self.assertEqual(first, second, f"Devices {first} and {second} are not equal. {msg or ''}")

    def assertProtoEquals(self, expected_message_maybe_ascii: Any, message: Any, msg: str | None = None) -> None:
        """A message equals another one, or the one that a text describes; floats to six digits after the point.

        (Seven of doubles.)
        """
        expected = expected_message_maybe_ascii
        if isinstance(expected, str | bytes):
            expected = type(message)()
            text_format.Merge(expected_message_maybe_ascii, expected, descriptor_pool=expected.DESCRIPTOR.file.pool)
        if type(expected) is not type(message):
            self.fail(f"Can't compare protos of type {type(expected)} and {type(message)}. {msg or ''}")
        wanted, found = (text_format.MessageToString(_rounded(one)) for one in (expected, message))
        self.assertMultiLineEqual(wanted, found, msg)

    def assertProtoEqualsVersion(
        self,
        expected: Any,
        actual: Any,
        producer: int | None = None,
        min_consumer: int | None = None,
        msg: str | None = None,
    ) -> None:
        """A GraphDef equals the one that a text describes, with the versions that graphs have by default."""
        wanted = type(actual)()
        text_format.Merge(expected, wanted)
        wanted.versions.producer = graphs.Graph()._producer_version if producer is None else producer
        wanted.versions.min_consumer = min_consumer or 0
        self.assertProtoEquals(wanted, actual, msg)

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(  # type: ignore[override]
        self, exception_type: Any, expected_err_re_or_predicate: str | Callable[[Any], Any]
    ) -> Iterator[Any]:
        """The block raises an exception of a type that a predicate accepts, or whose text a pattern finds.

        Of errors of operations the text and the operations' names are searched.
        """
        predicate = expected_err_re_or_predicate
        raised: list[BaseException] = []
        try:
            yield raised
        except Exception as problem:
            if not isinstance(problem, exception_type):
                raise AssertionError(f"{exception_type} was expected, but {problem!r} was raised") from problem
            raised.append(problem)
            if callable(predicate):
                good = bool(predicate(problem))
            else:
                text, op = str(problem), getattr(problem, "op", None)
                while op is not None:
                    text += f"\nCaused by: {getattr(op, 'name', op)}"
                    op = getattr(op, "original", None) or getattr(op, "_original_op", None)
                good = bool(re.search(predicate, text))
            if not good:
                raise AssertionError(f"The exception does not match {predicate!r}: {problem}") from problem
        else:
            self.fail(f"{getattr(exception_type, '__name__', exception_type)} not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        """The block raises an ``OpError`` that matches."""
        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)

    def assertStartsWith(self, actual: Any, expected_start: Any, msg: str | None = None) -> None:
        """Text starts with other text."""
        if not actual.startswith(expected_start):
            self.fail(f"{actual!r} does not start with {expected_start!r}. {msg or ''}")

    # Names that Python 3.12's unittest, or its version 3, no longer has and tests of that age use.
    assertItemsEqual = unittest.TestCase.assertCountEqual
    assertEquals = unittest.TestCase.assertEqual
    assertNotEquals = unittest.TestCase.assertNotEqual
    assert_ = unittest.TestCase.assertTrue
    assertAlmostEquals = unittest.TestCase.assertAlmostEqual
    assertRegexpMatches = unittest.TestCase.assertRegex
    assertNotRegexpMatches = unittest.TestCase.assertNotRegex
    assertRaisesRegexp = unittest.TestCase.assertRaisesRegex
    assertRaisesWithRegexpMatch = unittest.TestCase.assertRaisesRegex


def _as_bytes(array: np.ndarray) -> np.ndarray:
    """Strings as an array of bytes objects."""
    flat = [item.encode() if isinstance(item, str) else item for item in array.ravel().tolist()]
    made = np.empty(len(flat), object)
    made[:] = flat
    return made.reshape(array.shape)


def _test_config(config: Any, force_gpu: bool) -> Any:
    """The config of a test's session: what names a device that is not there runs elsewhere, unless a GPU is a must."""
    if config is None:
        return config_pb2.ConfigProto(allow_soft_placement=not force_gpu)
    if force_gpu and getattr(config, "allow_soft_placement", False):
        strict = config_pb2.ConfigProto()
        strict.CopyFrom(config)
        strict.allow_soft_placement = False
        return strict
    return config


@contextlib.contextmanager
def _placed(use_gpu: bool, force_gpu: bool) -> Iterator[None]:
    """The device scope of a test session: the first accelerator if asked for, the host otherwise."""
    graph = graphs.get_default_graph()
    if force_gpu:
        with graph.device("/device:GPU:0"):
            yield
    elif use_gpu:
        yield
    else:
        with graph.device("/device:CPU:0"):
            yield


TensorFlowTestCase = TestCase
"""The name that ``tensorflow.python.framework.test_util`` has for it."""
