"""Calls of functions: where values stay, what runs unasked, what variables begin with, names of arguments."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.values import nest
from anabranch.eager.mode import EAGER


@pytest.fixture
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that are compiled as soon as they are called."""
    monkeypatch.setattr(EAGER.worker, "options", dataclasses.replace(EAGER.worker.options, tier="compiled"))


@pytest.mark.usefixtures("_compiled")
def test_results_stay_where_programs_leave_them_and_are_passed_on() -> None:
    double = tf.function(lambda x: x * 2.0)
    x = tf.constant(np.arange(6, dtype=np.float32))
    results = [double(x) for _ in range(3)]
    assert not isinstance(results[-1]._value, np.ndarray)
    for _ in range(3):
        passed_on = double(results[-1])
    assert passed_on.numpy().tolist() == [0.0, 4.0, 8.0, 12.0, 16.0, 20.0]
    assert (passed_on + results[0]).numpy().tolist() == [0.0, 6.0, 12.0, 18.0, 24.0, 30.0]
    owned = passed_on.numpy()
    owned[:] = 0.0
    assert float(tf.reduce_sum(passed_on)) == 60.0


@pytest.mark.usefixtures("_compiled")
def test_what_a_function_gave_stays_when_variables_are_written_again() -> None:
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def step(x: Any) -> Any:
        before = v.read_value()
        v.assign_add(x)
        return before, v.read_value(), v.read_value() * 2.0

    x = tf.constant([1.0, 1.0])
    results = [step(x) for _ in range(5)]
    for number, (before, after, twice) in enumerate(results):
        assert before.numpy().tolist() == [1.0 + number, 2.0 + number]
        assert after.numpy().tolist() == [2.0 + number, 3.0 + number]
        assert twice.numpy().tolist() == [4.0 + 2 * number, 6.0 + 2 * number]
    kept = results[-1][2]
    v.assign(kept)
    step(x)
    assert kept.numpy().tolist() == [12.0, 14.0]
    assert v.numpy().tolist() == [13.0, 15.0]


@pytest.mark.usefixtures("_compiled")
def test_values_from_outside_are_not_moved_at_each_call() -> None:
    table = tf.constant(np.arange(300, dtype=np.float64).reshape(100, 3))
    pick = tf.function(lambda i: tf.gather(table, i) * 2.0)
    for i in (0, 50, 99):
        assert pick(tf.constant([i], tf.int32)).numpy().tolist() == [[6.0 * i, 6.0 * i + 2, 6.0 * i + 4]]
    (function,) = [concrete._function for concrete in pick._list_all_concrete_functions()]
    (passed,) = function._captured_values
    assert not isinstance(passed, np.ndarray)


@pytest.mark.parametrize("tier", ["auto", "compiled"])
def test_an_assertion_runs_though_nothing_depends_on_it(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EAGER.worker, "options", dataclasses.replace(EAGER.worker.options, tier=tier))

    @tf.function
    def plain(i: Any) -> None:
        tf.debugging.Assert(tf.equal(i, 0), ["not zero"])

    @tf.function
    def in_branch(i: Any, check: Any) -> Any:
        if check:
            tf.debugging.assert_equal(i, 0)
        return i + 1

    @tf.function
    def around(i: Any) -> Any:
        plain(i)
        return i

    v = tf.Variable(0)

    @tf.function
    def writing(i: Any) -> None:
        v.assign(i)
        plain(i)

    zero, one = tf.constant(0), tf.constant(1)
    for _ in range(2):
        plain(zero)
        assert int(around(zero)) == 0
        assert int(in_branch(one, tf.constant(False))) == 2
        with pytest.raises(tf.errors.InvalidArgumentError, match="not zero"):
            plain(one)
        with pytest.raises(tf.errors.InvalidArgumentError, match="not zero"):
            around(one)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Condition x == y did not hold"):
            in_branch(one, tf.constant(True))
        with pytest.raises(tf.errors.InvalidArgumentError, match="not zero"):
            writing(one)
        assert int(v.read_value()) == 0


def test_variables_begin_with_what_the_first_call_computes() -> None:
    made: list[Any] = []

    @tf.function
    def scaled(x: Any) -> Any:
        if not made:
            made.append(tf.Variable(2.0 * x))
            made.append(tf.Variable(tf.zeros([2]) + 3.0))
        return made[0] * made[1] * x

    assert scaled(tf.constant(1.0)).numpy().tolist() == [6.0, 6.0]
    assert scaled(tf.constant(3.0)).numpy().tolist() == [18.0, 18.0]

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def unknown(x: Any) -> Any:
        return tf.Variable(x + 1.0) * 2.0

    with pytest.raises(ValueError, match=r"(?s)Unable to lift tensor.*an argument without a value"):
        unknown.get_concrete_function()


def test_creators_of_variables_are_asked_in_functions_too() -> None:
    seen: list[Any] = []
    made: list[Any] = []

    def creator(next_creator: Any, **kwargs: Any) -> Any:
        seen.append(next_creator(**kwargs))
        return seen[-1]

    @tf.function
    def f() -> Any:
        if not made:
            made.append(tf.Variable(1.0))
        return made[0] + 1.0

    with tf.variable_creator_scope(creator):
        assert float(f()) == 2.0
    assert seen == made


def test_a_concrete_function_knows_its_arguments_by_name() -> None:
    @tf.function
    def f(x: Any, y: Any = 2.0) -> Any:
        return x - y

    spec = tf.TensorSpec([], tf.float32)
    concrete = f.get_concrete_function(spec, y=spec)
    assert [x.op.name for x in concrete.inputs] == ["x", "y"]
    assert concrete.structured_input_signature[0][0].name == "x"
    three, two = tf.constant(3.0), tf.constant(2.0)
    for result in (concrete(three, two), concrete(y=two, x=three), concrete(three, y=two)):
        assert float(result) == 1.0
    with pytest.raises(TypeError, match=r"Expected argument names \['x', 'y'\] but got values for \['x'\]. Missing: "):
        concrete(three)
    with pytest.raises(TypeError, match=r"but got values for \['x', 'q'\]. Missing: \['y'\]"):
        concrete(three, q=two)
    named = f.get_concrete_function(tf.TensorSpec([], tf.float32, "first"))
    assert float(named(first=three)) == 1.0
    assert float(f(range(3)[0], 0)) == 0.0


def test_a_range_is_an_argument() -> None:
    count = tf.function(lambda numbers: tf.constant(len(list(numbers))))
    assert int(count(range(5))) == 5


# ----------------------------------------------------------------------------------- variables, where a graph is built
@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize(
    ("initial", "begins"),
    [
        (lambda x: tf.ones([2]) * 2.0, [2.0, 2.0]),
        (lambda x: tf.zeros_like(tf.random.normal([2])), [0.0, 0.0]),
        (lambda x: tf.zeros(tf.shape(x)), [0.0, 0.0]),
        (lambda x: tf.zeros_like(x), [0.0, 0.0]),
        (lambda x: lambda: tf.ones([2]) * 3.0, [3.0, 3.0]),
        (lambda x: tf.cond(tf.constant(True), lambda: tf.ones([2]), lambda: tf.zeros([2])), [1.0, 1.0]),
    ],
)
def test_a_function_in_a_graph_makes_a_variable_that_begins_with_what_it_computes(
    initial: Any, begins: list[float], use_resource: bool
) -> None:
    made: list[Any] = []

    @tf.function
    def function(x: Any) -> Any:
        made.append(tf.Variable(initial(x), use_resource=use_resource))
        return made[-1] + x

    with tf.Graph().as_default(), tf.Session() as session:
        y = function(tf.constant([2.0, 3.0]))
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(made[0]), begins)
        np.testing.assert_array_equal(session.run(y), np.add(begins, [2.0, 3.0]))


def test_a_function_in_a_graph_makes_a_variable_by_name_and_in_a_branch() -> None:
    def function(x: Any) -> Any:
        with tf.variable_scope("a", reuse=tf.AUTO_REUSE):
            return tf.get_variable("v", initializer=tf.ones([2]) * 4.0) + x

    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([2.0, 3.0])
        y = tf.cond(tf.constant(True), lambda: tf.function(function)(x), lambda: x)
        assert [v.name for v in tf.global_variables()] == ["a/v:0"]
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(y), [6.0, 7.0])


@pytest.mark.parametrize(
    ("initial", "text"), [(lambda x: x * 1.0, "Unable to lift"), (lambda x: lambda: x * 1.0, "of the nested body")]
)
def test_a_variable_that_begins_with_an_argument_is_refused(initial: Any, text: str) -> None:
    function = tf.function(lambda x: tf.Variable(initial(x)) + x, autograph=False)
    with tf.Graph().as_default(), pytest.raises(ValueError, match=text):
        function(tf.constant([2.0, 3.0]))


# ----------------------------------------------------------------------------------------------------------- arguments
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.append(x[0]),
        lambda x: x.pop(),
        lambda x: x.reverse(),
        lambda x: x.clear(),
        lambda x: x.__setitem__(0, x[1]),
    ],
)
def test_a_function_that_changes_its_arguments_is_refused(change: Any) -> None:
    def given() -> list[Any]:
        return [tf.constant(0.0), tf.constant(1.0)]

    function = tf.function(lambda x: change(x), autograph=False)
    with pytest.raises(ValueError, match="should not modify structure of input arguments"):
        function(given())
    by_name = tf.function(lambda *, y: y.update(z=y["x"]), autograph=False)
    with pytest.raises(ValueError, match="should not modify structure of input arguments"):
        by_name(y={"x": tf.constant(0.0)})
    with tf.Graph().as_default(), pytest.raises(ValueError, match="should not modify structure"):
        function(given())


def test_an_input_signature_is_a_list_of_specifications() -> None:
    spec = tf.TensorSpec([], tf.float32)
    with pytest.raises(TypeError, match="Invalid input_signature"):
        tf.function(lambda a, b: a, input_signature=[(2, 3), spec])
    with pytest.raises(TypeError, match="input_signature must be either a tuple or a list"):
        tf.function(lambda a: a, input_signature={"a": spec})


def test_a_function_in_a_graph_makes_variables_behind_handles() -> None:
    made: list[Any] = []
    with tf.Graph().as_default():
        tf.function(lambda: made.append(tf.Variable(1.0, use_resource=False)), autograph=False)()
    assert made[0].handle.dtype is tf.resource


# --------------------------------------------------------------------------------------------------- names of variables
def _made_in_scopes(made: list[Any]) -> Any:
    def function() -> Any:
        if not made:
            with tf.name_scope("foo"):
                made.append(tf.Variable(1.0, name="bar"))
            made.append(tf.get_variable("got", [2]))
            with tf.variable_scope("vs"):
                made.append(tf.Variable(1.0, name="own"))
        return made[0].read_value()

    return tf.function(function, autograph=False)


@pytest.mark.parametrize("is_graph", [False, True])
@pytest.mark.parametrize("is_nested", [False, True])
def test_variables_of_functions_are_named_by_the_scopes_inside(is_graph: bool, is_nested: bool) -> None:
    made: list[Any] = []
    function = _made_in_scopes(made)
    called = tf.function(lambda: function(), autograph=False) if is_nested else function
    with tf.Graph().as_default() if is_graph else contextlib.nullcontext(), tf.name_scope("around"):
        called()
    assert [v.name for v in made] == ["foo/bar:0", "got:0", "vs/own:0"]


Pair = collections.namedtuple("Pair", ["left", "right"])


class _Scale:
    def __init__(self, by: float) -> None:
        self.by = by


@pytest.mark.usefixtures("_compiled")
def test_structures_objects_and_keywords_are_told_apart_and_found_again() -> None:
    """Each kind of argument in calls one after the other: the values, and how many traces that takes."""
    traces = []

    @tf.function
    def weighted(x: Any, y: Any = 10.0, *, z: Any = 100.0, **more: Any) -> Any:
        traces.append(1)
        x, by = (x.left, x.right) if isinstance(x, Pair) else (x, 1.0)
        x = x["b"] - x["a"][0] if isinstance(x, dict) else x
        scale = more["scale"].by if "scale" in more else 1.0
        rest = sum((more[name] for name in sorted(more) if name != "scale"), 0.0)
        return {"sum": [x * by * scale + y, (z,)], "rest": rest}

    def plain(result: Any) -> list[float]:
        return [float(leaf) for leaf in nest.flatten(result)]

    one, two, five = (tf.constant(value) for value in (1.0, 2.0, 5.0))
    scale, other = _Scale(3.0), _Scale(4.0)
    calls: list[tuple[Any, Any, list[float], int]] = [
        ((one,), {}, [0.0, 11.0, 100.0], 1),
        ((one,), {"y": two}, [0.0, 3.0, 100.0], 2),
        ((one, five), {}, [0.0, 6.0, 100.0], 2),
        ((), {"y": two, "x": five}, [0.0, 7.0, 100.0], 2),
        ((one,), {"z": two, "y": five}, [0.0, 6.0, 2.0], 3),
        ((one,), {"y": five, "z": two}, [0.0, 6.0, 2.0], 3),
        ((one,), {"w": two, "z": five, "a": one}, [3.0, 11.0, 5.0], 4),
        ((one,), {"a": one, "w": five, "z": two}, [6.0, 11.0, 2.0], 4),
        ((np.float32(2.0),), {}, [0.0, 12.0, 100.0], 4),
        ((Pair(two, 3.0),), {}, [0.0, 16.0, 100.0], 5),
        ((Pair(two, 4.0),), {}, [0.0, 18.0, 100.0], 6),
        ((Pair(two, five),), {}, [0.0, 20.0, 100.0], 7),
        (({"a": [one], "b": five},), {}, [0.0, 14.0, 100.0], 8),
        (({"b": two, "a": [one]},), {}, [0.0, 11.0, 100.0], 8),
        ((one,), {"scale": scale}, [0.0, 13.0, 100.0], 9),
        ((one,), {"scale": other}, [0.0, 14.0, 100.0], 10),
        ((five,), {"scale": scale}, [0.0, 25.0, 100.0], 10),
    ]
    for _ in range(3):
        for args, kwargs, values, _count in calls:
            assert plain(weighted(*args, **kwargs)) == values, (args, kwargs)
    assert len(traces) == 10
    traces.clear()
    again = tf.function(weighted.python_function)
    for args, kwargs, _, count in calls:
        again(*args, **kwargs)
        assert len(traces) == count, (args, kwargs)
    with pytest.raises(ValueError, match="must be hashable"):
        weighted(one, scale={1, 2})


@pytest.mark.usefixtures("_compiled")
def test_an_input_signature_holds_in_each_call() -> None:
    """Calls that are found again must not be taken for others that the signature converts or refuses."""
    total = tf.function(
        lambda x, y: tf.reduce_sum(x) + y,
        input_signature=[tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.float32)],
    )
    x, y = tf.constant([1.0, 2.0]), tf.constant(4.0)
    for _ in range(3):
        assert float(total(x, y)) == 7.0
        assert float(total(np.array([1.0, 5.0], np.float32), 2.0)) == 8.0
        assert float(total(np.array([1.0, 6.0]), 3)) == 10.0
        assert float(total(tf.constant([1.0, 2.0, 3.0]), y)) == 10.0
        with pytest.raises(ValueError, match="incompatible with input_signature"):
            total(tf.constant([[1.0]]), y)
        assert float(total(x, y=y)) == 7.0
        assert float(total(y=y, x=x)) == 7.0
    assert len(total._list_all_concrete_functions()) == 1


@pytest.mark.usefixtures("_compiled")
def test_results_that_are_arguments_stay_where_they_are_beside_others() -> None:
    """A state that is handed through, one that is computed, and a variable that is written afterwards."""
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def step(x: Any) -> Any:
        v.assign_add(x)
        return x, x * 2.0, v

    x = tf.constant([1.0, 1.0])
    results = [step(x) for _ in range(4)]
    assert results[-1][0]._value is x._value
    assert [[tensor.numpy().tolist() for tensor in result] for result in results] == [
        [[1.0, 1.0], [2.0, 2.0], [1.0 + n, 2.0 + n]] for n in (1, 2, 3, 4)
    ]
    owned = results[-1][0].numpy()
    owned[:] = 7.0
    assert x.numpy().tolist() == [1.0, 1.0]


@pytest.mark.usefixtures("_compiled")
def test_a_concrete_function_takes_tensors_of_its_dtypes_and_what_becomes_one() -> None:
    double = tf.function(lambda x: x * 2.0).get_concrete_function(tf.TensorSpec([None], tf.float32))
    for _ in range(3):
        assert double(tf.constant([1.0])).numpy().tolist() == [2.0]
        assert double(np.array([1.0, 2.0], np.float32)).numpy().tolist() == [2.0, 4.0]
        with pytest.raises(ValueError, match="int32"):
            double(tf.constant([1]))
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        assert session.run(double(tf.constant([3.0]))).tolist() == [6.0]


@pytest.mark.parametrize("other", [tf.constant, float, lambda value: np.float32(value)])
def test_a_variable_with_two_dtypes_after_an_if_is_named(other: Any) -> None:
    @tf.function
    def branches(c: Any) -> Any:
        kept = 1.0
        rate = 1
        if c:
            kept = 2.0
            rate = other(2.0)
        return kept, rate

    text = '"rate" has dtype float32 in the TRUE branch, but dtype=int32 in the FALSE branch'
    with pytest.raises(TypeError, match=text):
        branches(tf.constant(True))
