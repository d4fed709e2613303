"""Internal modules that programs of TensorFlow 1.8's age import: decorators, resources, MetaGraphs of scopes."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import hook, inspection, test_utilities
from anabranch.compat.internal import conditions, resources, scoped_meta_graphs
from anabranch.core import decorators
from anabranch.losses import broadcasting
from anabranch.summary import plugin_asset


@pytest.fixture(autouse=True)
def graph() -> object:
    with tf.Graph().as_default() as made:
        yield made


def test_names_are_found_in_their_modules() -> None:
    for module, name in (
        ("python.ops.gradient_checker", "compute_gradient_error"),
        ("python.ops.resources", "register_resource"),
        ("python.framework.meta_graph", "export_scoped_meta_graph"),
        ("python.ops.data_flow_ops", "parallel_dynamic_stitch"),
        ("python.ops.list_ops", "tensor_list_stack"),
        ("python.framework.tensor_spec", "BoundedTensorSpec"),
        ("python.framework.tensor_util", "MakeNdarray"),
        ("python.framework.test_util", "NHWCToNCHW_VECT_C"),
        ("python.util.tf_decorator", "TFDecorator"),
        ("core.lib.core.error_codes_pb2", "Code"),
    ):
        assert callable(hook.resolve(module, name)) or name == "Code"
    assert isinstance(hook.resolve("python.framework.versions", "__git_version__"), str)


# ---------------------------------------------------------------------------------------------------------- decorators
def doubled(function: object) -> object:
    """A decorator of TensorFlow's kind."""

    def wrapper(*args: object) -> object:
        return function(*args) * 2

    return decorators.make_decorator(function, wrapper, decorator_doc="Twice.", decorator_argspec="declared")


def test_decorators_tell_what_they_are_around() -> None:
    def add(a, b=1, *more, **named):
        """Add."""
        return a + b

    twice = doubled(doubled(add))
    assert twice(1, 2) == 12
    found, target = decorators.unwrap(twice)
    assert target is add
    assert [one.decorator_name for one in found] == ["doubled", "doubled"]
    assert (twice.__name__, twice.__doc__) == ("add", "Twice.")
    assert inspection.getargspec(twice) == inspection.getfullargspec(twice) == "declared"
    assert inspection.getargspec(add) == (["a", "b"], "more", "named", (1,))
    assert inspection.getcallargs(add, 5, c=2) == {"a": 5, "b": 1, "c": 2}
    assert inspection.isfunction(decorators.TFDecorator("name", add))
    assert not inspection.isclass(twice)

    def sub(a, b):
        return a - b

    again = doubled(add)
    assert decorators.rewrap(again, add, sub) is again
    assert decorators.unwrap(again)[1] is sub
    assert decorators.rewrap(add, add, sub) is sub


def test_a_decorator_is_a_method_too() -> None:
    class Holder:
        call = decorators.TFDecorator("name", lambda self, x: x + 1)

    assert Holder().call(1) == 2
    assert decorators.unwrap(functools.partial(max, 1))[0] == []


def test_cases_that_are_known_are_decided_at_once() -> None:
    chosen = conditions.smart_case([(False, lambda: 1), (True, lambda: 2)], default=lambda: 3)
    assert chosen == 2
    assert conditions.smart_case({False: lambda: 1}, default=lambda: 3) == 3
    x = tf.placeholder(tf.int32, [])
    mixed = conditions.smart_case(
        [(tf.equal(x, 1), lambda: tf.constant(1)), (True, lambda: tf.constant(2))], default=lambda: tf.constant(3)
    )
    with tf.Session() as session:
        assert [session.run(mixed, {x: value}) for value in (1, 5)] == [1, 2]


# ----------------------------------------------------------------------------------------------------------- resources
def test_resources_are_found_and_made() -> None:
    table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1)
    made = tf.Variable(False, collections=["other"], name="made")
    handle = tf.constant(0, name="handle")
    resources.register_resource(handle, made.assign(True).op, made.initialized_value(), is_shared=False)
    assert resources.shared_resources() == []
    (one,) = resources.local_resources()
    assert one.handle is handle
    missing = resources.report_uninitialized_resources()
    with tf.Session() as session:
        session.run(made.initializer)
        assert session.run(resources.initialize_resources([one])) is None
        assert session.run(resources.report_uninitialized_resources([])).tolist() == []
        assert session.run(missing).tolist() in ([b"handle:0"], [])
    assert table is not None


# ---------------------------------------------------------------------------------------------------------- MetaGraphs
def test_a_scope_is_copied() -> None:
    with tf.name_scope("one"):
        v = tf.Variable([1.0, 2.0], name="v")
        tf.multiply(v, 3.0, name="y")
    copied = scoped_meta_graphs.copy_scoped_meta_graph("one", "two")
    assert sorted(copied) == ["v:0"]
    with tf.Session() as session:
        session.run(copied["v:0"].initializer)
        assert session.run("two/y:0").tolist() == [3, 6]
    meta, variables = scoped_meta_graphs.export_scoped_meta_graph(export_scope="two")
    assert "y" in {node.name for node in meta.graph_def.node}
    assert list(variables) == ["v:0"]
    with pytest.raises(ValueError, match="'from_scope' and 'to_scope' need to be different"):
        scoped_meta_graphs.copy_scoped_meta_graph("one", "one")


def test_ops_of_functions_are_used() -> None:
    @tf.contrib.eager.defun
    def squared(x: tf.Tensor) -> tf.Tensor:
        return tf.square(x)

    squared(tf.constant(2.0))
    proto = tf.get_default_graph().as_graph_def()
    assert "Square" in scoped_meta_graphs.ops_used_by_graph_def(proto)
    assert "Square" in {op.name for op in scoped_meta_graphs.stripped_op_list_for_graph(proto).op}


def test_ops_that_a_graph_uses() -> None:
    tf.add(1, 2)
    proto = tf.get_default_graph().as_graph_def()
    assert {op.name for op in scoped_meta_graphs.stripped_op_list_for_graph(proto).op} == {"Const", "Add"}
    proto.node.add(op="Unheard")
    assert "Unheard" in scoped_meta_graphs.ops_used_by_graph_def(proto)
    with pytest.raises(ValueError, match="Op Unheard is used by the graph, but is not registered"):
        scoped_meta_graphs.stripped_op_list_for_graph(proto)
    with pytest.raises(TypeError, match="graph must be of type Graph"):
        scoped_meta_graphs.create_meta_graph_def(graph=3)
    meta = scoped_meta_graphs.create_meta_graph_def(graph_def=tf.GraphDef(), collection_list=[])
    assert len(meta.graph_def.node) == 0


def test_meta_graphs_are_compared() -> None:
    tf.Variable(1.0)
    case = tf.test.TestCase()
    one, other = tf.train.export_meta_graph(), tf.train.export_meta_graph()
    test_utilities.assert_meta_graph_protos_equal(case, one, other)
    third = tf.train.export_meta_graph()
    third.graph_def.node[0].name = "other"
    with pytest.raises(AssertionError, match="GraphDefs differ"):
        test_utilities.assert_meta_graph_protos_equal(case, tf.train.export_meta_graph(), third)


# -------------------------------------------------------------------------------------------------------------- others
def test_layouts() -> None:
    x = tf.reshape(tf.range(2 * 3 * 5 * 8), [2, 3, 5, 8])
    grouped = test_utilities.NHWCToNCHW_VECT_C(x)
    assert grouped.shape.as_list() == [2, 2, 3, 5, 4] == test_utilities.NHWCToNCHW_VECT_C([2, 3, 5, 8])
    back = test_utilities.NCHW_VECT_CToNHWC(grouped)
    assert test_utilities.NCHW_VECT_CToNHWC([2, 2, 3, 5, 4]) == [2, 3, 5, 8]
    assert test_utilities.NCHWToNHWC([2, 8, 3, 5]) == [2, 3, 5, 8]
    with tf.Session() as session:
        assert np.array_equal(*session.run([x, back]))
        assert session.run(test_utilities.NCHWToNHWC(x)).shape == (2, 5, 8, 3)
    with pytest.raises(ValueError, match="evenly divisible by 4"):
        test_utilities.NHWCToNCHW_VECT_C([1, 1, 1, 3])
    with pytest.raises(ValueError, match="must be 4"):
        test_utilities.NCHW_VECT_CToNHWC([1, 1, 1, 1, 3])


def test_weights_that_broadcast() -> None:
    values = tf.ones([2, 3])
    with tf.Session() as session:
        assert session.run(broadcasting.broadcast_weights(tf.constant([[2.0], [3.0]]), values)).tolist() == [
            [2, 2, 2],
            [3, 3, 3],
        ]
        weights = tf.placeholder(tf.float32)
        broadcast = broadcasting.broadcast_weights(weights, values)
        assert session.run(broadcast, {weights: 4.0}).tolist() == [[4, 4, 4], [4, 4, 4]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="weights can not be broadcast to values"):
            session.run(broadcast, {weights: [1.0, 2.0]})
        assert session.run(broadcasting.assert_broadcastable(1.0, values)) is None
    with pytest.raises(ValueError, match="weights can not be broadcast to values"):
        broadcasting.assert_broadcastable([1.0, 2.0, 3.0], values)


def test_assets_of_plugins_are_written(tmp_path) -> None:
    class Asset(plugin_asset.PluginAsset):
        plugin_name = "mine"

        def assets(self):
            return {"a.txt": "text", "b.bin": b"\xff"}

    class Other(Asset):
        pass

    class Nameless(plugin_asset.PluginAsset):
        pass

    asset = plugin_asset.get_plugin_asset(Asset)
    assert plugin_asset.get_plugin_asset(Asset) is asset
    assert plugin_asset.get_all_plugin_assets() == [asset]
    with pytest.raises(ValueError, match="Plugin name collision between classes Other and Asset"):
        plugin_asset.get_plugin_asset(Other)
    with pytest.raises(ValueError, match="Class Nameless has no plugin_name"):
        plugin_asset.get_plugin_asset(Nameless)
    tf.summary.FileWriter(str(tmp_path), tf.get_default_graph()).close()
    assert (tmp_path / "plugins/mine/a.txt").read_text() == "text"
    assert (tmp_path / "plugins/mine/b.bin").read_bytes() == b"\xff"
