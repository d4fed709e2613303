"""``tf.cond``, ``tf.case``, ``tf.switch_case``: forms of results, effects, scopes, refusals; in both tiers."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.verify import verify_graph


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default() as graph, tf.Session(config=tf.SessionOptions(tier=request.param)) as found:
        yield found
        verify_graph(graph)


def both(session, pred, fetches, feed=None):
    """Values for a predicate that holds and for one that does not, as lists."""
    return [to_list(session.run(fetches, {**(feed or {}), pred: value})) for value in (True, False)]


def to_list(value):
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(to_list, value))
    if isinstance(value, dict):
        return {key: to_list(item) for key, item in value.items()}
    return type(value)(map(to_list, value)) if isinstance(value, (list, tuple)) else value


# ------------------------------------------------------------------------------------------------------------- results
def test_forms_of_results(session):
    p = tf.placeholder(tf.bool, [])
    x = tf.constant(2.0)
    pair = collections.namedtuple("pair", "a b")
    one = tf.cond(p, lambda: x, lambda: x * 2.0)
    assert isinstance(one, tf.Tensor)
    unpacked = tf.cond(p, lambda: [x], lambda: (x * 2.0,))
    assert isinstance(unpacked, tf.Tensor)
    assert isinstance(tf.cond(p, lambda: [[x]], lambda: [[x * 2.0]]), tf.Tensor)
    strict = tf.cond(p, lambda: [x], lambda: [x * 2.0], strict=True)
    assert isinstance(strict, list)
    nested = tf.cond(p, lambda: {"p": pair(x, [1]), "q": (x, 3.0)}, lambda: {"q": (0.0, x), "p": pair(4.0, [x_int()])})
    assert isinstance(nested["p"], pair)
    assert both(session, p, [one, unpacked, strict[0]]) == [[2.0] * 3, [4.0] * 3]
    assert both(session, p, nested) == [
        {"p": pair(2.0, [1]), "q": (2.0, 3.0)},
        {"p": pair(4.0, [7]), "q": (0.0, 2.0)},
    ]


def x_int():
    return tf.constant(7)


def test_old_names_of_the_branches(session):
    p = tf.placeholder(tf.bool, [])
    assert both(session, p, tf.cond(p, fn1=lambda: 1, fn2=lambda: 2)) == [1, 2]


def test_results_that_are_operations(session):
    v, w = tf.Variable(0.0), tf.Variable(0.0)
    p = tf.placeholder(tf.bool, [])
    done = tf.cond(p, lambda: tf.assign_add(v, 1.0).op, lambda: tf.group(tf.assign_add(w, 10.0)))
    assert done.dtype == tf.bool
    session.run(tf.global_variables_initializer())
    session.run(done.op, {p: True})
    session.run(done, {p: True})
    session.run(tf.group(done), {p: False})
    assert session.run([v, w]) == [2.0, 10.0]


def test_results_that_are_none(session):
    p = tf.placeholder(tf.bool, [])
    assert both(session, p, tf.cond(p, lambda: (1, None), lambda: (2, None))[0]) == [1, 2]
    assert tf.cond(p, lambda: (1, None), lambda: (2, None))[1] is None


def test_composites(session):
    p = tf.placeholder(tf.bool, [])
    slices = tf.cond(
        p,
        lambda: tf.IndexedSlices(tf.ones([1, 2]), tf.constant([3])),
        lambda: tf.IndexedSlices(tf.zeros([1, 2]), tf.constant([4], tf.int64)),
    )
    assert isinstance(slices, tf.IndexedSlices)
    assert slices.indices.dtype == tf.int64
    assert both(session, p, [slices.values, slices.indices]) == [[[[1.0, 1.0]], [3]], [[[0.0, 0.0]], [4]]]
    sparse = tf.cond(
        p,
        lambda: tf.SparseTensor([[0, 1]], [1.0], [2, 2]),
        lambda: tf.SparseTensor([[1, 0], [1, 1]], [2.0, 3.0], [2, 2]),
    )
    assert isinstance(sparse, tf.SparseTensor)
    assert both(session, p, sparse.values) == [[1.0], [2.0, 3.0]]


def test_numbers_and_variables_as_results(session):
    p = tf.placeholder(tf.bool, [])
    for use_resource in (False, True):
        v = tf.Variable(5, use_resource=use_resource)
        y = tf.cond(p, lambda v=v: v, lambda: 3)
        session.run(v.initializer)
        assert both(session, p, y) == [5, 3]


def test_strings(session):
    p = tf.placeholder(tf.bool, [])
    s = tf.placeholder(tf.string, [])
    assert both(session, p, tf.cond(p, lambda: s, lambda: "other"), {s: b"given"}) == [b"given", b"other"]


def test_shapes_that_differ(session):
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: tf.zeros([2, 3]), lambda: tf.ones([4, 3]))
    assert y.shape.as_list() == [None, 3]
    assert [np.shape(value) for value in both(session, p, y)] == [(2, 3), (4, 3)]
    assert tf.cond(p, lambda: tf.zeros([2, 3]), lambda: tf.ones([4])).shape.ndims is None


# ------------------------------------------------------------------------------------------------------------- effects
def test_only_the_branch_that_is_taken_has_effects(session):
    v = tf.Variable(1.0)
    p = tf.placeholder(tf.bool, [])
    before = v.value()
    y = tf.cond(p, lambda: tf.assign_add(v, 10.0), lambda: tf.identity(v))
    with tf.control_dependencies([y]):
        after = v.read_value()
    session.run(v.initializer)
    assert session.run([y, after], {p: False}) == [1.0, 1.0]
    assert session.run([y, after], {p: True}) == [11.0, 11.0]
    assert session.run(before) == 11.0


def test_what_no_result_needs_does_not_run(session):
    v = tf.Variable(1.0)

    def branch():
        tf.assign(v, 5.0)
        return tf.constant(0)

    y = tf.cond(tf.constant(True), branch, lambda: 1)
    session.run(v.initializer)
    assert session.run([y, v]) == [0, 1.0]


def test_outer_control_dependencies_hold_for_the_whole(session):
    v = tf.Variable(1.0)
    with tf.control_dependencies([tf.assign(v, 3.0)]):
        y = tf.cond(tf.constant(True), lambda: v.read_value() * 2.0, lambda: 0.0)
    session.run(v.initializer)
    assert session.run(y) == 6.0


def test_an_operation_of_a_branch_as_a_control_input(session):
    v = tf.Variable(0.0)
    p = tf.placeholder(tf.bool, [])

    def branch():
        tf.add_to_collection("updates", tf.assign_add(v, 1.0))
        return tf.constant(1.0)

    y = tf.cond(p, branch, lambda: 2.0)
    with tf.control_dependencies(tf.get_collection("updates")):
        train = tf.no_op()
    session.run(v.initializer)
    session.run(train, {p: True})
    session.run(train, {p: False})
    session.run(y, {p: True})  # runs with the branch from now on
    assert session.run(v) == 2.0


def test_checks_inside_of_a_branch(session):
    p = tf.placeholder(tf.bool, [])
    x = tf.placeholder(tf.float32, [])

    def branch():
        with tf.control_dependencies([tf.Assert(x > 0.0, ["x is", x])]):
            return tf.identity(x)

    y = tf.cond(p, branch, lambda: -x)
    assert session.run(y, {p: True, x: 1.0}) == 1.0
    assert session.run(y, {p: False, x: -1.0}) == 1.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="x is"):
        session.run(y, {p: True, x: -1.0})


def test_variables_made_inside_are_made_outside(session):
    p = tf.placeholder(tf.bool, [])

    def branch():
        with tf.variable_scope("layer"):
            return tf.get_variable("w", [], initializer=tf.constant_initializer(3.0)) * 2.0

    y = tf.cond(p, branch, lambda: 0.0)
    (w,) = tf.trainable_variables()
    assert (w.name, w.op.body.is_root) == ("layer/w:0", True)
    session.run(tf.global_variables_initializer())
    assert both(session, p, y) == [6.0, 0.0]


def test_names(session):
    p = tf.placeholder(tf.bool, [])
    x = tf.constant(1.0)
    first = tf.cond(p, lambda: tf.add(x, 1.0, name="a"), lambda: tf.add(x, 2.0, name="b"))
    second = tf.cond(p, lambda: x, lambda: x)
    named = tf.cond(p, lambda: x + 1.0, lambda: x, name="choice")
    assert [t.op.name for t in (first, second, named)] == ["cond/Merge", "cond_1/Merge", "choice/Merge"]
    graph = tf.get_default_graph()
    assert graph.get_operation_by_name("cond/a").type == graph.get_operation_by_name("cond/b").type == "Add"
    assert graph.get_operation_by_name("choice/add") is not None
    with pytest.raises(ValueError, match="cond/a"):
        session.run(graph.get_tensor_by_name("cond/a:0"), {p: True})


# ------------------------------------------------------------------------------------------------------------- refusals
REFUSED = {
    "a Python bool": (lambda: tf.cond(True, lambda: 1, lambda: 2), TypeError, "pred must not be a Python bool\n"),
    "a number": (lambda: tf.cond(tf.constant(1), lambda: 1, lambda: 2), TypeError, r"dtype int32(.|\n)*boolean scalar"),
    "a vector": (lambda: tf.cond(tf.constant([True]), lambda: 1, lambda: 2), ValueError, r"of shape \(1,\)"),
    "no function": (lambda: tf.cond(TRUE(), 1, lambda: 2), TypeError, "true_fn must be callable"),
    "a branch missing": (lambda: tf.cond(TRUE(), lambda: 1), TypeError, "false_fn argument required"),
    "both spellings": (
        lambda: tf.cond(TRUE(), lambda: 1, lambda: 2, fn1=lambda: 3),
        TypeError,
        "true_fn and fn1 may not be set simultaneously",
    ),
    "None": (lambda: tf.cond(TRUE(), lambda: None, lambda: 2), ValueError, "true_fn must have a return value"),
    "nothing": (lambda: tf.cond(TRUE(), list, list), ValueError, "must return at least one result"),
    "other structure": (
        lambda: tf.cond(TRUE(), lambda: (1, 2), lambda: [1, 2]),
        TypeError,
        "Incompatible return types of true_fn and false_fn",
    ),
    "other number": (
        lambda: tf.cond(TRUE(), lambda: (1, 2), lambda: (1, 2, 3)),
        ValueError,
        "Incompatible return values of true_fn and false_fn",
    ),
    "other dtype": (
        lambda: tf.cond(TRUE(), lambda: 1.0, lambda: 2),
        ValueError,
        r"Outputs of true_fn and false_fn must have the same type\(s\)(.|\n)*\['float32'\](.|\n)*\['int32'\]",
    ),
    "other kind": (
        lambda: tf.cond(TRUE(), lambda: tf.IndexedSlices(tf.ones([1]), tf.constant([0])), lambda: tf.ones([1])),
        TypeError,
        "IndexedSlices of 2 tensors",
    ),
}


def TRUE():
    return tf.constant(True)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, kind, text = REFUSED[name]
    with tf.Graph().as_default(), pytest.raises(kind, match=text) as caught:
        call()
    told = str(caught.value)
    assert all(part in told for part in ("Given: ", "Expected: ", "Instead: "))


def test_errors_show_branches_and_call():
    def wide():
        return tf.zeros([2]), 1

    with tf.Graph().as_default(), pytest.raises(ValueError, match="must have the same type") as caught:
        tf.cond(tf.constant(True), wide, lambda: (1, 1))
    told = str(caught.value)
    line = wide.__code__.co_firstlineno
    assert f'test_cond.py", line {line})' in told
    assert f"line {line + 4}" in told  # the call


# ---------------------------------------------------------------------------------------------------------------- case
def test_case(session):
    x = tf.placeholder(tf.int32, [])
    pairs = [(x < 1, lambda: 10), (x < 3, lambda: 20)]
    y = tf.case(pairs, default=lambda: 30)
    assert [session.run(y, {x: value}) for value in (0, 2, 5)] == [10, 20, 30]
    ordered = collections.OrderedDict(pairs)
    assert session.run(tf.case(ordered, lambda: 30), {x: 2}) == 20
    strict = tf.case([(x < 1, lambda: [10])], default=lambda: [30], strict=True)
    assert session.run(strict, {x: 0}) == [10]


def test_case_without_default(session):
    x = tf.placeholder(tf.int32, [])
    y = tf.case([(x < 1, lambda: 10), (x < 3, lambda: 20)])
    assert [session.run(y, {x: value}) for value in (0, 2)] == [10, 20]
    with pytest.raises(tf.errors.InvalidArgumentError, match="None of conditions evaluated as True"):
        session.run(y, {x: 5})


def test_case_exclusive(session):
    x = tf.placeholder(tf.int32, [])
    y = tf.case({x < 1: lambda: 10, x > 3: lambda: 20, x > 5: lambda: 30}, default=lambda: 0, exclusive=True)
    assert [session.run(y, {x: value}) for value in (0, 4, 2)] == [10, 20, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than 1 conditions"):
        session.run(y, {x: 6})


CASES_REFUSED = {
    "no pairs at all": (lambda: tf.case(3), TypeError, "fns must be a list, tuple, or dict"),
    "an empty list": (lambda: tf.case([]), ValueError, "Must have at least one"),
    "no pair": (lambda: tf.case([TRUE()]), TypeError, "must be a 2-tuple"),
    "a triple": (lambda: tf.case([(TRUE(), lambda: 1, 2)]), TypeError, "must be a 2-tuple"),
    "a number": (lambda: tf.case([(tf.constant(1), lambda: 1)]), TypeError, "pred must be of type bool"),
    "no function": (lambda: tf.case([(TRUE(), 1)]), TypeError, "must be callable"),
    "no function by default": (lambda: tf.case([(TRUE(), lambda: 1)], 1), TypeError, "default must be callable"),
}


@pytest.mark.parametrize("name", CASES_REFUSED)
def test_case_refusals(name):
    call, kind, text = CASES_REFUSED[name]
    with tf.Graph().as_default(), pytest.raises(kind, match=text):
        call()


def test_an_unordered_dictionary_is_warned_of():
    with tf.Graph().as_default():
        x = tf.constant(1)
        with pytest.warns(UserWarning, match="in the order of the predicates' names"):
            tf.case({x < 1: lambda: 10, x > 3: lambda: 20}, default=lambda: 0)


# --------------------------------------------------------------------------------------------------------- switch_case
def test_switch_case(session):
    i = tf.placeholder(tf.int32, [])
    y = tf.switch_case(i, [lambda: 10, lambda: 20])
    z = tf.switch_case(i, {1: lambda: 20, 0: lambda: 10}, default=lambda: -1)
    w = tf.switch_case(i, [(1, lambda: 20), (0, lambda: 10)], default=lambda: -1)
    assert isinstance(tf.switch_case(i, [lambda: [10], lambda: [20]]), list)
    assert [session.run([y, z, w], {i: value}) for value in (0, 1, 2, -1)] == [
        [10, 10, 10],
        [20, 20, 20],
        [20, -1, -1],
        [20, -1, -1],
    ]


SWITCHES_REFUSED = {
    "no list": (lambda: tf.switch_case(0, 3), TypeError, "branch_fns must be a list, tuple, or dict"),
    "an empty list": (lambda: tf.switch_case(0, []), ValueError, "Must provide at least one item"),
    "a gap": (lambda: tf.switch_case(0, {0: int, 2: int}), ValueError, "contiguous range"),
    "no number": (lambda: tf.switch_case(0, [(0.5, int)]), TypeError, "key must be a Python `int`"),
    "no function": (lambda: tf.switch_case(0, {0: 1}), TypeError, "must be callable"),
    "a float": (lambda: tf.switch_case(0.0, [int]), TypeError, "branch_index of dtype float32"),
    "no default": (lambda: tf.switch_case(0, [int], default=1), TypeError, "default must be callable"),
}


@pytest.mark.parametrize("name", SWITCHES_REFUSED)
def test_switch_case_refusals(name):
    call, kind, text = SWITCHES_REFUSED[name]
    with tf.Graph().as_default(), pytest.raises(kind, match=text):
        call()


# ---------------------------------------------------------------------------------------------------------- smart_cond
def test_smart_cond():
    from anabranch.ops.control.public_cond import smart_cond

    with tf.Graph().as_default() as graph:
        assert smart_cond(True, lambda: 1, lambda: 2) == 1
        assert smart_cond(0, lambda: 1, lambda: 2) == 2
        assert smart_cond(tf.constant(False), lambda: 1, lambda: 2) == 2
        assert not any(op.type == "StatelessIf" for op in graph.get_operations())
        assert smart_cond(tf.placeholder(tf.bool, []), lambda: 1, lambda: 2).op.inputs[0].op.type == "StatelessIf"
        with pytest.raises(TypeError, match="`true_fn` must be callable"):
            smart_cond(True, 1, lambda: 2)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="`pred` must be a Tensor"):
            smart_cond("yes", lambda: 1, lambda: 2)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_of_a_branch_only_what_the_used_results_need_has_effects(tier):
    p = tf.placeholder(tf.bool, [])
    a, b, c = (tf.Variable(0) for _ in range(3))
    done = tf.cond(p, lambda: [tf.assign(a, 1).op, tf.assign(b, 2).op], lambda: [tf.assign(c, 3).op, tf.no_op()])
    with tf.control_dependencies([done[0]]):
        behind = tf.constant(5) + 0
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(done[1], {p: True}) == np.True_
        assert session.run([a, b, c]) == [0, 2, 0]
        assert session.run(done, {p: False}) == [False, False]
        assert session.run([a, b, c]) == [0, 2, 3]
        session.run(tf.global_variables_initializer())
        assert session.run([behind, done[1]], {p: True}) == [5, True]
        assert session.run([a, b, c]) == [1, 2, 0]
        session.run(tf.global_variables_initializer())
        assert session.run(behind, {p: True}) == 5  # who waits for a result, waits for what the result needs
        assert session.run([a, b, c]) == [1, 0, 0]
        assert session.run(done[1].op, {p: True}) is None
        assert session.run([a, b, c]) == [1, 2, 0]


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_programs_that_wait_for_other_effects_are_other_programs(tier):
    """Two conditionals that differ in a control edge inside do not share a program."""
    p = tf.placeholder(tf.bool, [])
    v = tf.Variable(0)

    def branch(first):
        made = tf.assign_add(v, 1)
        with tf.control_dependencies([made] if first else []):
            one = tf.constant(1) + 0
        with tf.control_dependencies([] if first else [made]):
            return [one, tf.constant(1) + 0]

    both = [tf.cond(p, lambda i=i: branch(i), lambda: [tf.constant(3), tf.constant(4)]) for i in (True, False)]
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        for results, counts in zip(both, ([1, 0], [0, 1]), strict=True):
            for result, count in zip(results, counts, strict=True):
                session.run(v.initializer)
                assert session.run(result, {p: True}) == 1
                assert session.run(v) == count


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_of_an_iteration_only_what_the_used_variables_need_has_effects(tier):
    v = tf.Variable(0)
    _, total, other = tf.while_loop(
        lambda i, *_: i < 3,
        lambda i, total, other: (i + 1, total + i, other + tf.assign_add(v, 1)),
        (0, 0, 0),
        parallel_iterations=1,
    )
    with tf.control_dependencies([total]):
        behind = tf.constant(5) + 0
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        session.run(v.initializer)
        assert session.run(total) == 3
        assert session.run(v) == 0
        assert session.run([other, v]) == [6, 3]
        assert session.run(behind) == 5
        assert session.run(v) == 3
