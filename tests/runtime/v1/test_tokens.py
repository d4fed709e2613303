"""Graphs with control flow of version 1 run by tokens: what TensorFlow gave, dead ends, frames, objects, state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from anabranch.control_flow_ops import enter, exit, loop_cond, merge, next_iteration, ref_switch, switch
from golden.graphs.v1_steps import STEPS, check

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.core.graph.verify import verify_graph
from anabranch.rewrite import functional_view


@pytest.fixture
def no_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets no graph have a functional view."""

    def refuse(*args: Any) -> Any:
        raise functional_view.NoViewError("the test wants tokens")

    monkeypatch.setattr(functional_view, "view", refuse)


@pytest.mark.usefixtures("no_view")
@pytest.mark.parametrize("name", list(STEPS))
def test_as_tensorflow(name: str) -> None:
    check(name, told="by tokens: the test wants tokens")


def _run(fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feeds)


@pytest.mark.usefixtures("no_view")
def test_switch_and_merge_by_hand() -> None:
    """ "Switch" and "Merge", "RefSwitch" and "RefMerge", "_SwitchN", "ControlTrigger"."""
    pred = tf.placeholder(tf.bool, [])
    off, on = switch(tf.constant(3.0), pred)
    found = merge([off * 10.0, on * 2.0])
    assert _run(list(found), {pred: True}) == [6.0, 1]
    assert _run(list(found), {pred: False}) == [30.0, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Retval\[0\] does not have value"):
        _run(on, {pred: False})

    variable = tf.Variable(1.0, use_resource=False)
    off, on = ref_switch(variable, pred)
    assert on.dtype.is_ref
    both = build("RefMerge", [tf.assign(off, 5.0), tf.assign(on, 7.0)])
    with tf.Session() as session:
        session.run(variable.initializer)
        assert session.run([both.output, both.value_index], {pred: True}) == [7.0, 1]
        assert session.run(variable) == 7.0
        assert session.run(both.output, {pred: False}) == 5.0

    index = tf.placeholder(tf.int32, [])
    outputs = build("_SwitchN", tf.constant(2.0), index, num_outs=3, name="SwitchN")
    chosen = merge([tensor + float(i) for i, tensor in enumerate(outputs)])
    assert [_run(chosen.output, {index: i}) for i in (0, 1, 2, 7)] == [2.0, 3.0, 4.0, 4.0]

    with tf.control_dependencies([off.op, on.op]):
        trigger = tf.Graph.create_op(tf.get_default_graph(), "ControlTrigger", [])
    with tf.control_dependencies([trigger]):
        after = tf.constant(4.0) * 2.0
    with tf.Session() as session:
        session.run(variable.initializer)
        assert session.run(after, {pred: True}) == 8.0


def _loop(frame: str, limit: Any, start: Any, body: Any) -> Any:
    """A loop of a counter and one variable, made by hand."""
    counters = [enter(tf.constant(0), frame), enter(start, frame)]
    merges = [merge([item, item]) for item in counters]
    go_on = loop_cond(merges[0].output < enter(limit, frame, is_constant=True))
    switches = [switch(item.output, go_on) for item in merges]
    with tf.control_dependencies([switches[0][1].op]):
        one = tf.constant(1)
    nexts = [next_iteration(switches[0][1] + one), next_iteration(body(switches[1][1]))]
    for item, following in zip(merges, nexts, strict=True):
        item.output.op._update_input(1, following)
    return [exit(item[0]) for item in switches]


@pytest.mark.usefixtures("no_view")
def test_loop_by_hand() -> None:
    """ "Enter", "Exit", "NextIteration", "LoopCond": two loops may have frames of one name."""
    limit = tf.placeholder(tf.int32, [])
    _, first = _loop("frame", limit, tf.constant(1.0), lambda x: x * enter(tf.constant(3.0), "frame", True))
    _, second = _loop("frame", limit, first, tf.square)
    verify_graph(tf.get_default_graph())
    assert _run([first, second], {limit: 2}) == [9.0, 6561.0]
    assert _run(second, {limit: 0}) == 1.0


def _dead_loop(pred: Any) -> Any:
    """A loop whose first value is dead unless `pred` holds, merged with 5."""
    off, on = switch(tf.constant(2.0), pred)
    with tf.control_dependencies([on.op]):
        limit = tf.identity(on)
    _, found = _loop("dead", tf.cast(limit, tf.int32), on, tf.square)
    return merge([off + 3.0, found])


@pytest.mark.usefixtures("no_view")
def test_dead_loop() -> None:
    pred = tf.placeholder(tf.bool, [])
    assert _run(_dead_loop(pred).output, {pred: True}) == 16.0
    assert _run(_dead_loop(pred).output, {pred: False}) == 5.0


@pytest.mark.usefixtures("no_view")
def test_references_in_loops() -> None:
    """ "RefEnter", "RefExit", "RefNextIteration": the variable is assigned to in each iteration."""
    variable = tf.Variable(1.0, use_resource=False)
    inside = enter(variable._variable if hasattr(variable, "_variable") else variable, "refs")
    assert inside.op.type == "RefEnter"
    counter = enter(tf.constant(0), "refs")
    merges = [build("RefMerge", [inside, inside]), merge([counter, counter])]
    go_on = loop_cond(merges[1].output < enter(tf.constant(3), "refs", is_constant=True))
    stop, more = ref_switch(merges[0].output, go_on)
    _, count = switch(merges[1].output, go_on)
    with tf.control_dependencies([count.op]):
        two, one = tf.constant(2.0), tf.constant(1)
    doubled = tf.assign_add(more, two)
    merges[0].output.op._update_input(1, next_iteration(doubled))
    assert merges[0].output.op.inputs[1].op.type == "RefNextIteration"
    merges[1].output.op._update_input(1, next_iteration(count + one))
    out = exit(stop)
    assert out.op.type == "RefExit"
    with tf.Session() as session:
        session.run(variable.initializer)
        assert session.run(out) == 7.0
        assert session.run(variable) == 7.0


@pytest.mark.usefixtures("no_view")
@pytest.mark.parametrize("suffix", ["", "V2"])
def test_stacks(suffix: str) -> None:
    """ "Stack" "StackPush" "StackPop" "StackClose", "StackV2" "StackPushV2" "StackPopV2" "StackCloseV2"."""
    limit = [tf.constant(2)] if suffix else []
    stack = build(f"Stack{suffix}", *limit, elem_type=tf.float32)
    first = build(f"StackPush{suffix}", stack, tf.constant(1.0))
    with tf.control_dependencies([first.op]):
        second = build(f"StackPush{suffix}", stack, tf.constant([2.0, 3.0]))
    with tf.control_dependencies([second.op]):
        pop = build(f"StackPop{suffix}", stack, elem_type=tf.float32)
    with tf.control_dependencies([pop.op]):
        again = build(f"StackPop{suffix}", stack, elem_type=tf.float32)
    with tf.control_dependencies([again.op]):
        third = build(f"StackPop{suffix}", stack, elem_type=tf.float32)
        close = build(f"StackClose{suffix}", stack)
    pushed, popped, last, _ = _run([second, pop, again, close])
    assert pushed.tolist() == popped.tolist() == [2.0, 3.0]
    assert last == 1.0
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"is empty when calling Pop\(\)"):
        _run(third)
    with tf.control_dependencies([close]):
        late = build(f"StackPop{suffix}", stack, elem_type=tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="has already been closed"):
        _run(late)
    if suffix:
        with tf.control_dependencies([second.op]):
            much = build("StackPushV2", stack, tf.constant(1.0))
        with pytest.raises(tf.errors.InvalidArgumentError, match="overflowed its max_size"):
            _run(much)


@pytest.mark.usefixtures("no_view")
@pytest.mark.parametrize("suffix", ["", "V2", "V3"])
def test_arrays(suffix: str) -> None:
    """Each of the three generations.

    "TensorArray" "TensorArrayWrite" "TensorArrayRead" "TensorArrayGather" "TensorArrayScatter" "TensorArrayConcat"
    "TensorArraySplit" "TensorArraySize" "TensorArrayGrad" "TensorArrayClose" "TensorArrayPack" "TensorArrayUnpack"
    "TensorArrayV2" "TensorArrayWriteV2" "TensorArrayReadV2" "TensorArrayGatherV2" "TensorArrayScatterV2"
    "TensorArrayConcatV2" "TensorArraySplitV2" "TensorArraySizeV2" "TensorArrayGradV2" "TensorArrayCloseV2"
    "TensorArrayV3" "TensorArrayWriteV3" "TensorArrayReadV3" "TensorArrayGatherV3" "TensorArrayScatterV3"
    "TensorArrayConcatV3" "TensorArraySplitV3" "TensorArraySizeV3" "TensorArrayGradV3" "TensorArrayCloseV3"
    "TensorArrayGradWithShape"
    """

    def op(kind: str, *inputs: Any, **attrs: Any) -> Any:
        return build(f"TensorArray{kind}{suffix}", *inputs, **attrs)

    def array(**attrs: Any) -> Any:
        made = op("", tf.constant(3), dtype=tf.float32, **attrs)
        return (made, tf.constant(0.0)) if isinstance(made, tf.Tensor) else made

    handle, flow = array(clear_after_read=False)
    flow = op("Write", handle, 0, tf.constant([1.0, 2.0]), flow)
    flow = op("Scatter", handle, [2, 1], tf.constant([[5.0, 6.0], [3.0, 4.0]]), flow)
    rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert _run(op("Read", handle, 1, flow, dtype=tf.float32)).tolist() == rows[1]
    assert _run(op("Gather", handle, [2, 0], flow, dtype=tf.float32)).tolist() == [rows[2], rows[0]]
    assert _run(op("Size", handle, flow)) == 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="index 0 because it has already been written to"):
        _run(op("Write", handle, 0, tf.constant([1.0, 2.0]), flow))
    with pytest.raises(tf.errors.InvalidArgumentError, match="read from index 3 but array size is: 3"):
        _run(op("Read", handle, 3, flow, dtype=tf.float32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="write to index 3 but array is not resizeable"):
        _run(op("Write", handle, 3, tf.constant([1.0, 2.0]), flow))
    if not suffix:
        assert _run(build("TensorArrayPack", handle, flow, dtype=tf.float32)).tolist() == rows
        other, start = array()
        filled = build("TensorArrayUnpack", other, tf.constant(rows), start)
        assert _run(build("TensorArrayPack", other, filled, dtype=tf.float32)).tolist() == rows

    parts, flow = array()
    flow = op("Split", parts, tf.constant([1.0, 2.0, 3.0]), tf.constant([2, 0, 1], tf.int64), flow)
    joined = op("Concat", parts, flow, dtype=tf.float32)
    value, lengths = _run(list(joined))
    assert value.tolist() == [1.0, 2.0, 3.0]
    assert lengths.tolist() == [2, 0, 1]
    with tf.control_dependencies([joined.value.op]):
        again = op("Read", parts, 0, flow, dtype=tf.float32)
        close = op("Close", parts)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Could not read index 0 twice"):
        _run(again)
    with tf.control_dependencies([close]):
        size = op("Size", parts, tf.identity(flow))
    with pytest.raises(tf.errors.InvalidArgumentError, match="has already been closed"):
        _run(size)

    handle, flow = array(element_shape=[2])
    flow = op("Write", handle, 1, tf.constant([1.0, 2.0]), flow)
    plain = handle if suffix else tf.identity(handle)
    found = op("Grad", plain, flow, source="gradients")
    gradients, after = (found, flow) if isinstance(found, tf.Tensor) else found
    for _ in range(2):
        after = op("Write", gradients, 1, tf.constant([1.0, 3.0]), after)
    assert _run(op("Gather", gradients, [0, 1], after, dtype=tf.float32)).tolist() == [[0.0, 0.0], [2.0, 6.0]]
    if suffix == "V3":
        wider = build("TensorArrayGradWithShape", handle, flow, [4], source="wide")
        read = build("TensorArrayReadV3", wider.grad_handle, 1, wider.flow_out, dtype=tf.float32)
        assert read.shape.as_list() == [4, 2]
        assert _run(read).shape == (4, 2)


def test_dynamic_array_grows() -> None:
    handle, flow = build("TensorArrayV3", 0, dtype=tf.float32, dynamic_size=True)
    flow = build("TensorArrayWriteV3", handle, 4, tf.constant(1.0), flow)
    assert _run(build("TensorArraySizeV3", handle, flow)) == 5


@pytest.mark.usefixtures("no_view")
def test_failed_step_changes_nothing() -> None:
    pred = tf.placeholder(tf.bool, [])
    variable = tf.Variable(1.0)
    off, on = switch(tf.constant(1.0), pred)
    with tf.control_dependencies([tf.assign_add(variable, 1.0)]):
        checked = tf.check_numerics(off / 0.0, "not a number")
    found = merge([checked, on])
    with tf.Session() as session:
        session.run(variable.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
            session.run(found.output, {pred: False})
        assert session.run(variable) == 1.0
        # The assignment is not a part of the branch: it runs although what waits for it is dead.
        assert session.run([found.output, variable], {pred: True}) == [1.0, 2.0]
        assert session.run(variable) == 2.0


@pytest.mark.usefixtures("no_view")
def test_random_streams_go_on() -> None:
    """A stream is the same whether its op runs by tokens or not."""
    pred = tf.placeholder(tf.bool, [])
    draw = tf.random_uniform([2], seed=3)
    off, on = switch(draw, pred)
    found = merge([off, on]).output
    with tf.Session() as session:
        values = [session.run(found, {pred: True}), session.run(draw), session.run(found, {pred: False})]
    with tf.Session() as session:
        wanted = [session.run(draw) for _ in range(3)]
    np.testing.assert_array_equal(values, wanted)


@pytest.mark.usefixtures("no_view")
def test_queues_and_python_between() -> None:
    """A channel op divides the step: what was written before it stands."""
    pred = tf.placeholder(tf.bool, [])
    variable = tf.Variable(1.0)
    queue = tf.FIFOQueue(2, [tf.float32], shapes=[[]])
    with tf.control_dependencies([tf.assign_add(variable, 1.0)]):
        enqueue = queue.enqueue([tf.identity(variable.value())])
    with tf.control_dependencies([enqueue]):
        off, on = switch(tf.constant(1.0), pred)
        seen = tf.py_func(lambda x: np.float32(x * 2), [merge([off, on]).output], tf.float32)
    with tf.Session() as session:
        session.run(variable.initializer)
        assert session.run(seen, {pred: True}) == 2.0
        assert session.run([queue.dequeue(), variable]) == [2.0, 2.0]


def test_abort() -> None:
    """ "Abort" fails the step, or ends the program."""
    with pytest.raises(tf.errors.AbortedError, match="no way"):
        _run(build("Abort", error_msg="no way"))
    with pytest.raises(SystemExit, match="0"):
        _run(build("Abort", exit_without_error=True))


def test_builders_refuse() -> None:
    with pytest.raises(ValueError, match="At least one of the merge inputs is None"):
        merge([None, tf.constant(1.0)])
    with pytest.raises(ValueError, match="rank 0"):
        switch(tf.constant(1.0), tf.constant([True, False]))
