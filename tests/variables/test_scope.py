"""What variable scopes refuse, and how they say it; thread and graph locality; regularizers."""

from __future__ import annotations

import threading

import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def zeros(name, shape=(2,), **arguments):
    return tf.get_variable(name, shape, initializer=tf.zeros_initializer(), **arguments)


def test_a_name_twice():
    zeros("w")
    with pytest.raises(
        ValueError, match=r"Variable w already exists, disallowed\. Did you mean to set reuse=True or"
    ) as info:
        zeros("w")
    assert "Originally defined at:" in str(info.value)
    assert 'zeros("w")' in str(info.value)
    assert __file__ in str(info.value)


def test_refusals():
    zeros("w")
    zeros("cut", (4, 2), partitioner=tf.fixed_size_partitioner(2))
    zeros("parts/part_0")
    zeros("parts/part_1")
    reuse = tf.variable_scope(tf.get_variable_scope(), reuse=True)
    for text, call in (
        ("Variable none does not exist, or was not created with tf.get_variable", lambda: zeros("none")),
        (r"Trying to share variable w, but specified shape \(3,\) and found shape \(2,\)", lambda: zeros("w", (3,))),
        ("Trying to share variable w, but specified dtype int32 and found", lambda: zeros("w", dtype=tf.int32)),
        ("Trying to reuse partitioned variable cut, but specified shape", lambda: zeros("cut", (5, 2))),
        ("specified dtype int32 and found dtype float32", lambda: zeros("cut", (4, 2), dtype=tf.int32)),
        (
            r"specified partitions \[4, 1\] and found partitions \[2, 1\]",
            lambda: zeros("cut", (4, 2), partitioner=tf.fixed_size_partitioner(4)),
        ),
        (
            "PartitionedVariable none does not exist",
            lambda: zeros("none", (4, 2), partitioner=tf.fixed_size_partitioner(4)),
        ),
    ):
        with reuse, pytest.raises(ValueError, match=text):
            call()
    for text, call in (
        (
            "Partitioned variable with name cut already exists",
            lambda: zeros("cut", (4, 2), partitioner=tf.fixed_size_partitioner(2)),
        ),
        ("a partitioned version of the variable was found: cut/part_0", lambda: zeros("cut", (4, 2))),
        (
            "shard parts/part_0 was found, but parts/part_2 was not",
            lambda: zeros("parts", partitioner=lambda shape, dtype: [3]),
        ),
        ("so was the extra shard parts/part_1", lambda: zeros("parts", partitioner=lambda shape, dtype: [1])),
        (
            "If initializer is a constant, do not specify shape",
            lambda: tf.get_variable("c", [2], initializer=[1.0, 2.0]),
        ),
        ("must be fully defined, but instead was", lambda: zeros("u", (None, 2))),
        ("An initializer for variable z of", lambda: tf.get_variable("z", [2], dtype=tf.complex64)),
        ("and explicit dtype 'tf.int32' don't match", lambda: tf.get_variable("z", initializer=[1.0], dtype=tf.int32)),
        ("custom_getter which is not callable", lambda: zeros("z", custom_getter=3)),
        ("Partitioner must be callable", lambda: zeros("z", partitioner=3)),
        ("must return a sequence", lambda: zeros("z", partitioner=lambda shape, dtype: 3)),
        ("match the Variable's rank", lambda: zeros("z", partitioner=lambda shape, dtype: [1, 1])),
        ("zero partitions for some axes", lambda: zeros("z", partitioner=lambda shape, dtype: [0])),
        ("slice a variable along one dimension", lambda: zeros("z", (2, 2), partitioner=lambda shape, dtype: [2, 2])),
        ("reuse parameter must be True or False or None", lambda: tf.variable_scope("x", reuse=3)),
        ("must have the length", lambda: tf.create_partitioned_variables([2, 2], [2], tf.zeros_initializer())),
        ("max_shard_bytes must be positive", lambda: tf.variable_axis_size_partitioner(0)),
        (
            "along axis 2 when shape is only",
            lambda: tf.min_max_variable_partitioner(3, axis=2)(shape=tf.TensorShape([2]), dtype=tf.int32),
        ),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    for text, call in (
        ("If default_name is None then name_or_scope is required", lambda: tf.variable_scope(None)),
        ("The auxiliary_name_scope must be", lambda: tf.variable_scope("x", auxiliary_name_scope=1)),
        ("name_or_scope must be a string or VariableScope", lambda: tf.variable_scope(3).__enter__()),
    ):
        with pytest.raises(TypeError, match=text):
            call()
    with pytest.raises(ValueError, match="reuse=True cannot be used without a name_or_scope"):
        tf.variable_scope(None, "x", reuse=True).__enter__()


def test_a_failed_entry_leaves_no_scope_behind(graph):
    with pytest.raises(ValueError, match="not a valid scope name"):
        tf.variable_scope("not valid").__enter__()
    assert tf.get_variable_scope().name == ""
    assert graph.get_name_scope() == ""
    assert tf.get_default_graph() is graph


def test_improper_nesting():
    outer, inner = tf.variable_scope("a"), tf.variable_scope("b")
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(RuntimeError, match="Improper nesting of variable_scope"):
        outer._pure.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    with pytest.raises(IndexError, match="pop"):  # its variables' part has been left above
        outer.__exit__(None, None, None)


def test_scopes_belong_to_a_graph_and_a_thread(graph):
    seen = []

    def elsewhere():
        with graph.as_default():
            seen.append(tf.get_variable_scope().name)
            with tf.variable_scope("c"):
                seen.append(zeros("w").name)

    with tf.variable_scope("a"):
        zeros("w")
        with tf.Graph().as_default():
            assert tf.get_variable_scope().name == ""
            assert zeros("w").name == "w:0"
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert seen == ["", "c/w:0"]
    assert [v.name for v in tf.global_variables()] == ["a/w:0", "c/w:0"]


def test_values_choose_the_graph(graph):
    x = tf.constant(1.0)
    with tf.Graph().as_default(), tf.variable_scope("a", values=[x]):
        assert zeros("w").graph is graph
    other = tf.Graph()
    with other.as_default():
        y = tf.constant(1.0)
    with pytest.raises(ValueError, match="must be from the same graph"):
        tf.variable_scope("a", values=[x, y])


def test_regularizers():
    def half(v):
        return tf.multiply(v, 0.5, name="half")

    with tf.variable_scope("a", regularizer=half):
        zeros("w")
        zeros("free", regularizer=tf.no_regularizer)
    with tf.variable_scope("a", reuse=True):
        zeros("w")
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert [loss.name for loss in losses] == ["a/w/Regularizer/half:0"]
    assert losses[0].op.colocation_groups() == [b"loc:@a/w"]


def test_custom_getter_gets_what_it_names():
    seen = {}

    def getter(getter, name, shape, dtype, initializer, reuse, **rest):
        seen.update(rest, name=name)
        return getter(name, shape, dtype, initializer=initializer, reuse=reuse)

    def old(
        getter,
        name,
        shape,
        dtype,
        initializer,
        regularizer,
        reuse,
        trainable,
        collections,
        caching_device,
        partitioner,
        validate_shape,
        use_resource,
    ):
        return getter(name, shape=shape, dtype=dtype, initializer=initializer)

    with tf.variable_scope("s", custom_getter=getter):
        zeros("w")
    assert seen["name"] == "s/w"
    assert "constraint" in seen
    assert zeros("v", custom_getter=old).name == "v:0"


@pytest.mark.parametrize(
    ("arguments", "trainable"),
    [
        ({}, True),
        ({"trainable": False}, False),
        ({"trainable": None}, True),
        ({"synchronization": tf.VariableSynchronization.ON_READ}, False),
    ],
)
def test_custom_getter_is_told_whether_the_variable_is_trainable(arguments, trainable):
    seen = {}

    def getter(getter, name, *args, **kwargs):
        seen.update(kwargs)
        return getter(name, *args, **kwargs)

    with tf.variable_scope("s", custom_getter=getter):
        variable = zeros("w", **arguments)
    assert seen["trainable"] is trainable
    assert seen["synchronization"] in tf.VariableSynchronization
    assert seen["aggregation"] is tf.VariableAggregation.NONE
    assert variable.trainable is trainable


def test_initializer_by_class_and_function():
    assert tf.get_variable("a", [2], initializer=tf.ones_initializer).shape.as_list() == [2]
    assert tf.get_variable("b", initializer=lambda: tf.zeros([3])).shape.as_list() == [3]
    assert tf.get_variable("c", [4], initializer=lambda shape, dtype: tf.zeros(shape, dtype)).shape.as_list() == [4]
    assert tf.get_variable(
        "d", [4], initializer=lambda shape, dtype=None, partition_info=None: tf.zeros(shape)
    ).shape.as_list() == [4]


def test_old_forms():
    with tf.variable_op_scope([], None, "x") as scope:
        assert scope.name == "x"
    with tf.variable_op_scope([], "y", reuse=tf.AUTO_REUSE) as scope:
        assert zeros("w") is zeros("w")
    assert repr(tf.AUTO_REUSE) == "tf.AUTO_REUSE"
    scope = tf.VariableScope(False, name="z", initializer=tf.ones_initializer())
    with tf.variable_scope(scope):
        assert tf.get_variable("w", [1]).name == "z/w:0"
    v = tf.get_local_variable("local", [1], initializer=tf.zeros_initializer())
    assert tf.local_variables() == [v]
    assert v not in tf.trainable_variables()


def test_parts_of_a_variable_are_checked():
    part = tf.Variable([0])
    other = tf.Variable([1])

    def whole(shape, parts, partitions):
        return tf.PartitionedVariable("whole", shape, tf.int32, parts, partitions)

    with pytest.raises(ValueError, match="variable_list may not be empty"):
        whole([2], [], [])
    with pytest.raises(ValueError, match="All variables must have a save_slice_info available"):
        whole([1], [part], [1])
    part._set_save_slice_info(tf.Variable.SaveSliceInfo("whole", [2], [0], [1]))
    other._set_save_slice_info(tf.Variable.SaveSliceInfo("whole", [2], [1], [1]))
    with pytest.raises(
        ValueError, match=r"All variables' full shapes must match shape: \[3\]; but .* \[\[2\], \[2\]\]"
    ):
        whole([3], [part, other], [2])
    with pytest.raises(ValueError, match=r"partition values must be positive: \[0\]"):
        whole([2], [part], [0])
    with pytest.raises(ValueError, match=r"len\(shape\) != len\(partitions\): \[2\] vs. \[1, 1\]"):
        whole([2], [part], [1, 1])
    assert [one.name for one in whole([2], [other, part], [2])] == [part.name, other.name]
