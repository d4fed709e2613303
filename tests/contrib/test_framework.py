"""Argument scopes, variables by name, assertions, sorting."""

from __future__ import annotations

import collections
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as tf
from anabranch.contrib import framework


@framework.add_arg_scope
def show(x: int, a: int = 1, b: int = 2) -> tuple[int, int, int]:
    """Its arguments."""
    return x, a, b


@framework.add_arg_scope
def other(a: int = 0) -> int:
    """Its argument."""
    return a


@pytest.fixture(autouse=True)
def graph() -> object:
    with tf.Graph().as_default() as made:
        yield made


def test_inner_scopes_and_arguments_win() -> None:
    with framework.arg_scope([show, other], a=10):
        assert show(0) == (0, 10, 2)
        assert other() == 10
        with framework.arg_scope([show], a=20, b=30) as inner:
            assert show(0) == (0, 20, 30)
            assert show(0, b=5) == (0, 20, 5)
            assert other() == 10
        assert show(0) == (0, 10, 2)
    with framework.arg_scope(inner):
        assert show(0) == (0, 20, 30)
    assert show(0) == (0, 1, 2)


def test_scopes_are_left_after_an_error_and_belong_to_a_thread() -> None:
    with pytest.raises(KeyError, match="x"), framework.arg_scope([show], a=10):
        raise KeyError("x")
    assert framework.current_arg_scope() == {}
    seen = []
    with framework.arg_scope([show], a=10):
        thread = threading.Thread(target=lambda: seen.append(show(0)))
        thread.start()
        thread.join()
    assert seen == [(0, 1, 2)]


def test_what_takes_scopes() -> None:
    assert framework.has_arg_scope(show)
    assert not framework.has_arg_scope(len)
    assert framework.arg_scoped_arguments(show) == ("a", "b")
    with pytest.raises(ValueError, match="not decorated with @add_arg_scope"), framework.arg_scope([len], a=1):
        pass
    with pytest.raises(ValueError, match="kwargs must be empty"), framework.arg_scope({}, a=1):
        pass
    with pytest.raises(TypeError, match="list/tuple or reused scope"), framework.arg_scope(show, a=1):
        pass


def test_variables_by_scope_name_and_suffix() -> None:
    with tf.variable_scope("a"):
        weights = framework.model_variable("weights", [2], regularizer=tf.nn.l2_loss)
        with tf.variable_scope("b"):
            biases = framework.variable("biases", [3], trainable=False)
    local = framework.local_variable(0, name="count")
    assert weights.dtype.base_dtype == tf.float32
    assert framework.get_variables() == [weights, biases]
    assert framework.get_variables("a/b") == [biases]
    assert framework.get_variables(suffix="weights") == [weights]
    assert framework.get_model_variables() == [weights]
    assert framework.get_local_variables() == [local]
    assert framework.get_trainable_variables() == [weights]
    assert framework.get_variables_by_name("biases") == [biases]
    assert framework.get_variables_by_suffix("ases") == [biases]
    assert framework.get_unique_variable("a/weights") is weights
    assert framework.get_variables_to_restore(exclude=["a/b"]) == [weights]
    assert framework.get_variables_to_restore(include=["a/b"]) == [biases]
    assert framework.filter_variables([weights, biases], include_patterns=["b/"]) == [biases]
    assert framework.filter_variables([weights, biases], exclude_patterns=["b/"], reg_search=False) == [weights, biases]
    assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 1
    with pytest.raises(ValueError, match="Couldn't find variable"):
        framework.get_unique_variable("none")
    with pytest.raises(TypeError, match=r"Instead: exclude=\['a'\]"):
        framework.get_variables_to_restore(exclude="a")


def test_devices_of_variables() -> None:
    chooser = framework.VariableDeviceChooser(num_tasks=2)
    with framework.arg_scope([framework.variable], device=chooser):
        made = [framework.variable(f"v{i}", [1]) for i in range(3)]
    assert [v.device for v in made] == [f"/job:ps/task:{i}/device:CPU:0" for i in (0, 1, 0)]


def test_values_are_assigned_by_name() -> None:
    v = framework.variable("v", [2, 1])
    with tf.Session() as session:
        framework.assign_from_values_fn({"v": [1.0, 2.0]})(session)
        assert session.run(v).tolist() == [[1.0], [2.0]]


def test_assertions() -> None:
    assert framework.assert_scalar_int(3).dtype == tf.int32
    with pytest.raises(ValueError, match=r"Weights\. Expected scalar shape"):
        framework.assert_scalar([1], message="Weights. ")
    with pytest.raises(ValueError, match="Expected integer type"):
        framework.assert_scalar_int(1.0)
    assert framework.is_tensor(tf.constant(1))
    assert not framework.is_tensor(1)
    labels, predictions = framework.remove_squeezable_dimensions(tf.zeros([2, 1]), tf.zeros([2]))
    assert labels.shape == predictions.shape
    with tf.Session() as session:
        assert session.run(framework.reduce_sum_n([tf.ones([2]), tf.constant(3.0)])) == 5.0


def test_shapes_are_checked_now_or_when_run() -> None:
    with pytest.raises(ValueError, match=r"expected \(3,\), got \(2,\)"):
        framework.with_shape([3], [1, 2])
    place = tf.placeholder(tf.float32)
    checked = framework.with_shape([-1, 2], place)
    assert checked.shape.as_list() == [None, 2]
    same = framework.with_same_shape(place, place)
    with tf.Session() as session:
        assert session.run(checked, {place: np.ones((3, 2))}).shape == (3, 2)
        assert session.run(same, {place: np.ones(2)}).shape == (2,)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Wrong shape for .* \[-1 2\] \[3 3\]"):
            session.run(checked, {place: np.ones((3, 3))})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Wrong shape for .* \[-1 2\] \[3\]"):
            session.run(checked, {place: np.ones(3)})


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=8), st.booleans())
def test_sorting_integers(values: list[int], descending: bool) -> None:
    direction = "DESCENDING" if descending else "ASCENDING"
    with tf.Graph().as_default(), tf.Session() as session:
        found, order = session.run([tf.sort(values, direction=direction), tf.argsort(values, direction=direction)])
    assert found.tolist() == sorted(values, reverse=descending)
    assert order.tolist() == sorted(range(len(values)), key=lambda i: -values[i] if descending else values[i])


def test_sorting_along_axes() -> None:
    x = np.random.RandomState(0).rand(3, 4, 5).astype(np.float32)
    with tf.Session() as session:
        for axis in (-1, 0, 1):
            assert (session.run(tf.sort(x, axis)) == np.sort(x, axis)).all()
            assert (session.run(framework.argsort(x, axis)) == np.argsort(x, axis)).all()
    with pytest.raises(ValueError, match="axis 3 of rank 3"):
        tf.sort(x, 3)
    with pytest.raises(ValueError, match="direction='UP'"):
        tf.sort(x, direction="UP")


def test_deprecations_warn_once(caplog: pytest.LogCaptureFixture) -> None:
    @framework.deprecated("2020-01-01", "Use new.")
    def old() -> int:
        return 1

    @framework.deprecated_args(None, "Drop it.", "x", ("y", None))
    def some(x: int = 0, y: object = None) -> int:
        return x

    assert old() == 1
    assert old() == 1
    some(y=None)
    some(x=3)
    first, second = caplog.messages
    assert "is deprecated and will be removed after 2020-01-01.\nInstructions for updating:\nUse new." in first
    assert f"with x (from {__name__}) is deprecated and will be removed in a future version." in second


def test_names_and_cases() -> None:
    framework = tf.contrib.framework
    assert framework.prepend_name_scope("^a/b", "s") == "^s/a/b"
    assert framework.strip_name_scope("s/a/b", "s") == "a/b"
    assert framework.strip_name_scope("^s/a", "s") == "^a"
    with tf.Graph().as_default() as graph:
        fed = tf.placeholder(tf.bool, [], name="fed")
        assert framework.get_placeholders(graph) == [fed]
        assert framework.smart_case([(False, lambda: 1), (True, lambda: 2)]) == 2
        assert framework.smart_case({False: lambda: 1}, default=lambda: 3) == 3
        found = framework.smart_case([(fed, lambda: tf.constant(1))], default=lambda: tf.constant(2))
        assert tf.Session().run(found, {fed: False}) == 2
        with pytest.raises(ValueError, match="no condition that holds"):
            framework.smart_case([(False, lambda: 1)])
        with pytest.raises(ValueError, match="one at most"):
            framework.smart_case([(True, lambda: 1), (True, lambda: 2)], exclusive=True)


# ------------------------------------------------------------------------------------------------- paths of structures
NEST = tf.contrib.framework.nest
Pair = collections.namedtuple("Pair", "x y")


@pytest.mark.parametrize(
    ("structure", "paths"),
    [
        (3, [()]),
        ([1, [2, (3,)]], [(0,), (1, 0), (1, 1, 0)]),
        ({"b": 1, "a": [2, 3]}, [("a", 0), ("a", 1), ("b",)]),
        ({"z": Pair(1, {"k": 5})}, [("z", "x"), ("z", "y", "k")]),
        ([[], {}, None], [(2,)]),
    ],
    ids=str,
)
def test_paths_of_leaves(structure, paths) -> None:
    leaves = NEST.flatten(structure)
    assert list(NEST.yield_flat_paths(structure)) == paths
    assert NEST.flatten_with_tuple_paths(structure) == list(zip(paths, leaves, strict=True))
    joined = [".".join(str(key) for key in path) for path in paths]
    assert NEST.flatten_with_joined_string_paths(structure, separator=".") == list(zip(joined, leaves, strict=True))
    mapped = NEST.map_structure_with_tuple_paths(lambda path, *values: (path, *values), structure, structure)
    wanted = [(path, leaf, leaf) for path, leaf in zip(paths, leaves, strict=True)]
    assert NEST.flatten_up_to(structure, mapped) == wanted
    assert NEST.map_structure_with_paths(lambda path, leaf: leaf, structure) == structure


def test_paths_down_to_another_structure() -> None:
    found = NEST.flatten_with_tuple_paths_up_to([[1, 1], [0, 1]], [[[2, 2], [3, 3]], [[4, 9], [5, 5]]])
    assert found == [((0, 0), [2, 2]), ((0, 1), [3, 3]), ((1, 0), [4, 9]), ((1, 1), [5, 5])]
    mapped = NEST.map_structure_with_tuple_paths_up_to({"a": 0}, lambda path, a, b: (path, a + b), {"a": 1}, {"a": 2})
    assert mapped == {"a": (("a",), 3)}
    with pytest.raises(ValueError, match="Input structure has length 2, while shallow structure has length 1"):
        NEST.flatten_with_tuple_paths_up_to({"a": 0}, {"a": 1, "b": 2})
    with pytest.raises(TypeError, match="If shallow structure is a sequence, input must also be a sequence"):
        NEST.map_structure_with_paths(lambda path, *leaves: leaves, [1], 2)
    with pytest.raises(ValueError, match="Cannot map over no sequences"):
        NEST.map_structure_with_tuple_paths_up_to([1], lambda path: path)


def test_components_of_tensors_have_paths() -> None:
    sparse = tf.SparseTensor([[0]], [1], [2])
    assert NEST.is_sequence_or_composite(sparse)
    assert not NEST.is_sequence_or_composite(tf.constant(1))
    assert not NEST.is_sequence_or_composite("text")
    assert len(NEST.flatten_with_tuple_paths([sparse])) == 1
    assert list(NEST.yield_flat_paths([sparse], expand_composites=True)) == [
        (0, "SparseTensor", number) for number in range(3)
    ]


def test_how_far_down_a_function_goes() -> None:
    structure = [1, (2, [3]), {"a": (4,)}]
    assert NEST.get_traverse_shallow_structure(lambda part: True, structure) == [True, (True, [True]), {"a": (True,)}]
    shallow = NEST.get_traverse_shallow_structure(lambda part: not isinstance(part, tuple), structure)
    assert shallow == [True, False, {"a": False}]
    assert NEST.flatten_up_to(shallow, structure) == [1, (2, [3]), (4,)]
    with pytest.raises(TypeError, match="traverse_fn returned a non-bool scalar: 1 for input"):
        NEST.get_traverse_shallow_structure(lambda part: 1, structure)
    with pytest.raises(TypeError, match=r"traverse_fn returned structure: .* for non-structure: 1"):
        NEST.get_traverse_shallow_structure(lambda part: [True, False, False], structure)
