"""Frames, paths and merges of graphs that TensorFlow wrote and of graphs made by hand; their contexts."""

from __future__ import annotations

from typing import Any

import pytest
from anabranch.control_flow_ops import (
    CondContext,
    WhileContext,
    enter,
    exit,
    loop_cond,
    merge,
    next_iteration,
    switch,
)
from golden.graphs.v1_steps import STEPS, meta_graph

import anabranch as tf
from anabranch.core.graph.collections import proto_functions
from anabranch.core.graph.regions import DEAD, IrregularError, Loop, Regions, needed


def is_static(op: Any) -> bool:
    return not op.inputs and not op.control_inputs and op.type in ("Const", "VariableV2", "VarHandleOp")


def regions_of(fetches: list[Any], feeds: tuple[Any, ...] = ()) -> Regions:
    fed = frozenset(feeds)
    return Regions(needed([getattr(item, "op", item) for item in fetches], fed), fed, is_static)


def recorded(name: str, step: int) -> tuple[Any, Regions]:
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta_graph(name).graph_def, name="")
        told = STEPS[name][step]
        fetches = [graph.as_graph_element(item) for item in told["fetches"]]
        return graph, regions_of(fetches, tuple(graph.as_graph_element(item) for item in told["feeds"]))


def shown(path: Any) -> Any:
    return path if path is DEAD else [(pred.op.name, value) for pred, value in path]


def test_nested_conditionals() -> None:
    graph, found = recorded("cond_nested", 0)
    assert not found.loops
    inner = graph.get_operation_by_name("cond/cond/mul")
    assert shown(found.item_paths[inner]) == [("p", 1), ("q", 1)]
    merged = graph.get_operation_by_name("cond/cond/Merge")
    assert shown(found.item_paths[merged]) == [("p", 1)]
    pred, values = found.pivots[merged]
    assert (pred.op.name, values) == ("q", {0: 0, 1: 1})
    assert shown(found.item_paths[graph.get_operation_by_name("cond/Merge")]) == []


def test_frames_of_a_nested_loop() -> None:
    graph, found = recorded("while_nested", 1)
    assert len(found.loops) == 4  # forward and backward
    inner = found.loop_of[graph.get_operation_by_name("while/while/add_1")]
    outer = found.loop_of[graph.get_operation_by_name("while/add_1")]
    assert isinstance(inner, Loop)
    assert inner.parent is outer
    assert outer is not None
    assert outer.parent is None
    assert [op.name for op in outer.merges][:2] == ["while/Merge", "while/Merge_1"]
    assert outer.condition is graph.get_operation_by_name("while/LoopCond")
    assert shown(found.item_paths[graph.get_operation_by_name("while/Less")]) == []
    assert shown(found.item_paths[graph.get_operation_by_name("while/add")]) == [("while/LoopCond", 1)]
    assert shown(found.item_paths[graph.get_operation_by_name("while/Exit_1")]) == [("while/LoopCond", 0)]


def test_the_condition_around_a_loop_is_none_inside() -> None:
    """The gradient of a loop in a branch switches on the branch's predicate again."""
    graph, found = recorded("while_in_cond", 1)
    pop = graph.get_operation_by_name("gradients/cond/while/mul_grad/Mul_1/StackPopV2")
    assert shown(found.item_paths[pop]) == [("gradients/b_count_2", 1)]


def test_constant_predicates() -> None:
    graph, found = recorded("cond_constant", 0)
    assert found.item_paths[graph.get_operation_by_name("cond/Log")] is DEAD
    assert shown(found.item_paths[graph.get_operation_by_name("cond/Exp")]) == []
    assert found.pivots[graph.get_operation_by_name("cond/Merge")] == 0


def test_conditions_that_exclude_each_other() -> None:
    pred = tf.placeholder(tf.bool, [])
    _, on = switch(tf.constant(1.0), pred)
    off, again = switch(on, tf.identity(pred))
    found = regions_of([off + 1.0, again + 1.0])
    assert found.path_of(off) is DEAD
    assert shown(found.path_of(again)) == [(pred.op.name, 1)]


def test_irregular_merges() -> None:
    p, q = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [])
    first, second = switch(tf.constant(1.0), p), switch(tf.constant(1.0), q)
    for wrong in ([first[0], second[1]], [first[0], first[0]], [first[0], tf.constant(1.0)]):
        with pytest.raises(IrregularError, match="does not merge the branches of one condition"):
            regions_of([merge(wrong).output])


def test_irregular_frames() -> None:
    with pytest.raises(IrregularError, match="the frame 'once' has no condition"):
        regions_of([exit(enter(tf.constant(1.0), "once"))])
    with pytest.raises(IrregularError, match="leaves no loop"):
        regions_of([exit(tf.constant(1.0) + 1.0)])
    start = enter(tf.constant(0), "loop")
    twice = merge([start, start, start])
    go_on = loop_cond(twice.output < 3)
    stop, more = switch(twice.output, go_on)
    twice.output.op._update_input(2, next_iteration(more + 1))
    with pytest.raises(IrregularError, match="does not merge an entry with the next iteration"):
        regions_of([exit(stop)])


@pytest.mark.parametrize("name", ["cond_nested", "while_nested", "cond_in_while", "while_in_cond"])
def test_contexts_pass_through(name: str) -> None:
    """The contexts of a MetaGraph come back, also under a prefix and out of it again."""
    meta = meta_graph(name)
    keys = ("cond_context", "while_context")
    for scope in ("", "inner"):
        with tf.Graph().as_default() as graph:
            tf.train.import_meta_graph(meta, import_scope=scope or None)
            for key in keys:
                contexts = graph.get_collection(key)
                assert len(contexts) == len(meta.collection_def[key].bytes_list.value)
                for item in contexts:
                    assert isinstance(item, CondContext if key == "cond_context" else WhileContext)
                    assert item.name.startswith(scope)
                    assert item.pivot.graph is graph
            again = tf.train.export_meta_graph(export_scope=scope or None)
        for key in keys:
            old, new = (item.collection_def[key].bytes_list.value for item in (meta, again))
            assert [_parsed(key, value) for value in old] == [_parsed(key, value) for value in new]


def _parsed(key: str, value: bytes) -> Any:
    functions = proto_functions(key)
    assert functions is not None
    return functions.proto_type.FromString(value)


def test_contexts_agree_with_regions() -> None:
    meta = meta_graph("cond_in_while")
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(meta)
        found = regions_of([graph.get_tensor_by_name("while/Exit_1:0")])
        (loop,) = found.loops
        context = next(item for item in graph.get_collection("while_context") if item.name == "while/while_context")
        assert context.condition is loop.condition
        assert set(context.loop_exits) >= {op.outputs[0] for op in loop.exits}
        branches = [item for item in context.nested if isinstance(item, CondContext)]
        assert {item.branch for item in branches} == {0, 1}
        (chosen,) = {found.root_of(item.pred) for item in branches}
        assert chosen in {pivot[0] for pivot in found.pivots.values() if isinstance(pivot, tuple)}


def test_contexts_without_their_tensors() -> None:
    meta = meta_graph("while")
    (context,) = meta.collection_def["while_context"].bytes_list.value[:1]
    message = _parsed("while_context", context)
    with tf.Graph().as_default(), pytest.raises(KeyError, match="while/LoopCond"):
        WhileContext.from_proto(message)
