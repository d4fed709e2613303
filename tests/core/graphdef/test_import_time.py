"""Damaged and hostile graph files: read in time and memory in proportion to their bytes, or refused."""

from __future__ import annotations

import pytest

import anabranch as tf
from anabranch.core.graphdef import import_nodes
from anabranch.core.protos import graph_pb2


def import_(graph_def):
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")


def test_names_are_compared_for_a_few_unknown_types_only(monkeypatch):
    compared = []
    near = import_nodes.difflib.get_close_matches
    monkeypatch.setattr(
        import_nodes.difflib, "get_close_matches", lambda *args: compared.append(args[0]) or near(*args)
    )
    graph = graph_pb2.GraphDef()
    for i in range(1500):
        graph.node.add(name=f"n{i}", op=f"Foo{i}")
    with pytest.raises(NotImplementedError, match=r"'Foo0', 'Foo1'.*'Foo999'"):
        import_(graph)
    assert len(compared) == import_nodes.MOST_SUGGESTED


def cycle_of(count):
    graph = graph_pb2.GraphDef()
    for i in range(count):
        node = graph.node.add(name=f"n{i}", op="Identity", input=[f"n{(i - 1) % count}"])
        node.attr["T"].type = 1
    return graph


def test_a_long_cycle_is_shown_by_its_ends():
    with pytest.raises(ValueError, match=r"the cycle n0 -> n1 -> .* -> \.\.\. \(4981 more\) -> .*n4999 -> n0") as info:
        import_(cycle_of(5000))
    assert len(str(info.value)) < 1000


def test_a_string_that_is_repeated_without_end_is_refused():
    graph = graph_pb2.GraphDef()
    node = graph.node.add(name="c", op="Const")
    node.attr["dtype"].type = 7
    value = node.attr["value"].tensor
    value.dtype = 7
    value.string_val.extend([b"x", b"y"])
    value.tensor_shape.dim.add(size=2**27)
    with pytest.raises(ValueError, match=r"2 strings that claims the shape \[134217728\]"):
        import_(graph)
    value.tensor_shape.dim[0].size = 3
    import_(graph)
