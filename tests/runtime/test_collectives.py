"""Steps with collective ops, in graphs that came as GraphDefs; `tests/distribute` has them on several devices."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build

KEYS = {"group_key": 1, "instance_key": 7}
REDUCE = {"group_size": 3, **KEYS, "subdiv_offsets": [0]}
VALUES = [np.array([[1.0, -4.0]], "f"), np.array([[2.0, 5.0]], "f"), np.array([[4.0, 6.0]], "f")]


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def towers(make, count=3, shape=(1, 2), dtype=tf.float32):
    """Members of a collective, one of each tower, after a trip through a GraphDef; and what the towers are fed."""
    with tf.Graph().as_default() as graph:
        for number in range(count):
            with tf.name_scope(f"tower_{number}/"):
                x = tf.placeholder(dtype, shape, name="x")
                tf.identity(make(x * 1, number), name="result")
    tf.import_graph_def(graph.as_graph_def(), name="")
    names = [f"tower_{number}" for number in range(count)]
    here = tf.get_default_graph().get_tensor_by_name
    return [here(f"{name}/x:0") for name in names], [here(f"{name}/result:0") for name in names]


def run(fetches, fed, values=VALUES):
    with tf.Session() as session:
        return session.run(fetches, dict(zip(fed, values, strict=True)))


@pytest.mark.parametrize(
    ("merge", "final", "expected"),
    [
        ("Add", "Id", [[7.0, 7.0]]),
        ("Add", "Div", [[7.0 / 3, 7.0 / 3]]),
        ("Mul", "Id", [[8.0, -120.0]]),
        ("Min", "Id", [[1.0, -4.0]]),
        ("Max", "Id", [[4.0, 6.0]]),
    ],
)
def test_collective_reduce(merge, final, expected):
    def make(x, number):
        return build("CollectiveReduce", x, merge_op=merge, final_op=final, **REDUCE)

    fed, results = towers(make)
    for value in run(results, fed):
        np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(run(results[1], fed), expected, rtol=1e-6)  # one without the others


def test_integers_are_divided_towards_zero():
    def make(x, number):
        return build("CollectiveReduce", x, merge_op="Add", final_op="Div", **REDUCE)

    fed, results = towers(make, shape=(2,), dtype=tf.int32)
    assert run(results[0], fed, [[1, -1], [2, -2], [2, -2]]).tolist() == [1, -1]


def keys(size=3):
    return [tf.constant(value) for value in (size, 1, 7)]


def test_the_second_version_has_its_keys_as_inputs():
    def make(x, number):
        total = build("CollectiveReduceV2", x, *keys(), [], merge_op="Max", final_op="Id")
        return build("CollectiveGatherV2", total, *keys(), [])

    fed, results = towers(make)
    assert results[0].shape.as_list() in ([3, 2], [None, 2])
    assert run(results[2], fed).tolist() == [[4.0, 6.0]] * 3


def test_collective_gather_is_in_the_order_of_devices():
    def make(x, number):
        with tf.device(f"/cpu:{2 - number}"):
            return build("CollectiveGather", x, group_size=3, **KEYS, shape=[3, 2])

    fed, results = towers(make)
    assert results[0].shape.as_list() == [3, 2]
    graph = tf.get_default_graph().as_graph_def()
    assert [node.op for node in graph.node].count("CollectiveGather") == 3  # a graph goes out as it came in
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        value = session.run(results[0], dict(zip(fed, VALUES, strict=True)))
    np.testing.assert_array_equal(value, np.concatenate(VALUES[::-1]))


@pytest.mark.parametrize("second", [False, True])
def test_a_member_that_sends_gives_its_value_to_the_others(second):
    def make(x, number):
        if second:
            if number == 1:
                return build("CollectiveBcastSendV2", x, *keys())
            return build("CollectiveBcastRecvV2", *keys(), tf.constant([1, 2]), T=tf.float32)
        if number == 1:
            return build("CollectiveBcastSend", x, group_size=3, **KEYS, shape=[1, 2])
        return build("CollectiveBcastRecv", T=tf.float32, group_size=3, **KEYS, shape=[1, 2])

    fed, results = towers(make)
    assert [result.shape.as_list() for result in results] == [[1, 2]] * 3
    for value in run(results, fed):
        np.testing.assert_array_equal(value, VALUES[1])


@pytest.mark.parametrize(("how", "reduce"), [("sum", np.sum), ("prod", np.prod), ("min", np.min), ("max", np.max)])
def test_nccl(how, reduce):
    def make(x, number):
        return build("NcclAllReduce", x, reduction=how, num_devices=3, shared_name="c0")

    fed, results = towers(make)
    one = build("NcclReduce", [tensor * 2.0 for tensor in fed], reduction=how)
    sent = build("NcclBroadcast", one, shape=[1, 2])
    expected = reduce(VALUES, axis=0)
    *each, double = run([*results, sent], fed)
    for value in each:
        np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(double, reduce([2 * value for value in VALUES], axis=0), rtol=1e-6)


def test_gradients_go_through_sums():
    def make(x, number):
        return build("NcclAllReduce", x, reduction="sum", num_devices=3, shared_name="c0")

    fed, results = towers(make)
    losses = [tf.reduce_sum(result * (number + 1.0)) for number, result in enumerate(results)]
    grads = tf.gradients(losses, fed)
    for grad in run(grads, fed):
        np.testing.assert_array_equal(grad, [[6.0, 6.0]])
    total = build("NcclReduce", fed, reduction="sum")
    for grad in run(tf.gradients(build("NcclBroadcast", total, shape=[1, 2]) * 3.0, fed), fed):
        np.testing.assert_array_equal(grad, [[3.0, 3.0]])
    with pytest.raises(LookupError, match="No gradient defined for NcclReduce except all_sum"):
        tf.gradients(build("NcclReduce", fed, reduction="max"), fed)


def test_members_wait_for_what_they_are_told_to_and_others_wait_for_them():
    v = tf.Variable(1.0)
    members = []
    for number in range(2):
        with tf.control_dependencies([v.assign_add(1.0)] if not number else []):
            members.append(build("NcclAllReduce", tf.constant(2.0), reduction="sum", num_devices=2, shared_name="a"))
    with tf.control_dependencies([members[0].op]):
        after = v.read_value()
    loop = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + members[1]), [0, 0.0])[1]
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run([after, members[0].op, loop]) == [2.0, None, 12.0]


def test_a_graph_that_was_imported_twice_has_two_collectives():
    with tf.Graph().as_default() as graph:
        for number in range(2):
            x = tf.placeholder(tf.float32, [], name=f"x{number}")
            build(
                "CollectiveReduce", x, name=f"r{number}", merge_op="Add", final_op="Id", **{**REDUCE, "group_size": 2}
            )
    both = [
        tf.import_graph_def(graph.as_graph_def(), return_elements=["x0:0", "x1:0", "r1:0"], name=name)
        for name in ("one", "two")
    ]
    (a, b, first), (c, d, second) = both
    assert run([first, second], [a, b, c, d], [1.0, 2.0, 10.0, 20.0]) == [3.0, 30.0]


def test_what_members_bring_may_come_from_another_collective():
    def make(x, number):
        total = build("CollectiveReduce", x, merge_op="Add", final_op="Id", **REDUCE)
        return build("CollectiveReduce", total, merge_op="Mul", final_op="Id", **{**REDUCE, "instance_key": 8})

    fed, results = towers(make)
    np.testing.assert_allclose(run(results[0], fed), [[343.0, 343.0]])


def test_members_that_are_not_there_are_missed_by_name():
    member = build("CollectiveReduce", tf.constant(1.0), name="lonely", merge_op="Add", final_op="Id", **REDUCE)
    with tf.Session() as session:
        with pytest.raises(tf.errors.UnimplementedError, match="of 3 members, of which 1 are in the graph") as caught:
            session.run(member)
    assert caught.value.op.name == "lonely"
    size = tf.placeholder(tf.int32, [])
    open_size = build("CollectiveReduceV2", tf.constant(1.0), size, *keys()[1:], [], merge_op="Add", final_op="Id")
    with tf.Session() as session:
        with pytest.raises(tf.errors.UnimplementedError, match=r"group_size of .* which only a step knows"):
            session.run(open_size, {size: 1})
    alone = build("NcclAllReduce", tf.constant(3.0), reduction="sum", num_devices=1, shared_name="alone")
    nobody = build("NcclAllReduce", tf.constant(3.0), reduction="sum", num_devices=0, shared_name="nobody")
    with tf.Session() as session:
        assert session.run(alone) == 3.0  # whatever else is in the graph
        with pytest.raises(tf.errors.InvalidArgumentError, match="of 0 members"):
            session.run(nobody)


def test_an_error_names_the_member():
    def make(x, number):
        return build("CollectiveReduce", x, merge_op="Add", final_op="Id", **REDUCE)

    fed, results = towers(make, shape=None)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have the same size and shape") as caught:
        run(results[0], fed, [[1.0], [1.0, 2.0], [1.0]])
    assert caught.value.op.type == "CollectiveReduce"


def test_parts_of_a_joined_value_are_vectors() -> None:
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="Shape must be rank 1 but is rank 0"):
            build("AnabranchExchange", [tf.constant([1.0]), tf.constant(2.0)], key="k", how="sum", size=2, mine=1)
