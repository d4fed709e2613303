"""Small names of TensorFlow's internal modules: numbers and types, paths of structures, tracking."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import hook
from anabranch.compat.internal import private_names, tracking

Pair = collections.namedtuple("Pair", ["a", "b"])


def test_fans_and_types():
    assert private_names._compute_fans([]) == (1, 1)
    assert private_names._compute_fans([5]) == (5, 5)
    assert private_names._compute_fans([3, 2, 4, 7]) == (24, 42)
    assert private_names._NP_TO_TF[np.float32] is tf.float32
    assert private_names._TF_TO_NP[tf.int8.as_datatype_enum] is np.int8
    assert private_names._assert_float_dtype(tf.float64) is tf.float64
    with pytest.raises(ValueError, match="Expected floating point type, got"):
        private_names._assert_float_dtype(tf.int32)
    error = private_names._make_specific_exception(None, None, "why", 3)
    assert isinstance(error, tf.errors.InvalidArgumentError)
    with pytest.warns(UserWarning, match="Unknown error code: 37"):
        other = private_names._make_specific_exception(None, None, "why", 37)
    assert (type(other), other.error_code) == (tf.errors.UnknownError, 37)
    assert not private_names.IsMklEnabled()
    assert not private_names.skip_summary()


def test_shapes():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.zeros([2, 3, 4, 5])
        assert private_names.NHWCToNCHW(x).shape.as_list() == [2, 5, 3, 4]
        assert private_names.NHWCToNCHW([2, 3, 4, 5]) == [2, 5, 3, 4]
        assert session.run(private_names._get_noise_shape(x, None)).tolist() == [2, 3, 4, 5]
        assert private_names._get_noise_shape(x, [None, 1, 1, None]).as_list() == [2, 1, 1, 5]
        given = tf.constant([2, 1, 1, 1])
        assert private_names._get_noise_shape(x, given) is given
        assert private_names.is_nested_or_composite(tf.IndexedSlices(x, x))
        assert not private_names.is_nested_or_composite(x)


def test_paths_of_structures():
    structure = {"b": [1, Pair(2, 3)], "a": 4}
    paths = [("a",), ("b", 0), ("b", 1, "a"), ("b", 1, "b")]
    assert list(private_names.yield_flattened_paths(structure)) == paths
    assert private_names.flatten_with_tuple_paths(structure) == list(zip(paths, [4, 1, 2, 3], strict=True))
    assert private_names.flatten_with_joined_string_paths(structure)[2] == ("b/1/a", 2)
    mapped = private_names.map_structure_with_paths(lambda path, x, y: f"{path}={x + y}", structure, structure)
    assert mapped == {"a": "a=8", "b": ["b/0=2", Pair("b/1/a=4", "b/1/b=6")]}
    assert private_names.map_structure_with_tuple_paths(lambda path, x: len(path), [5, [6]]) == [1, [2]]


def test_tracked_objects():
    thing = tracking.AutoTrackable()
    other = tracking.Trackable()
    assert thing._track_trackable(other, "other") is other
    assert thing._lookup_dependency("other") is other
    assert not hasattr(thing, "other")  # as in TensorFlow: an assignment does both
    with pytest.raises(ValueError, match="already declared as a dependency"):
        thing._track_trackable(tracking.Trackable(), "other")
    thing._maybe_initialize_trackable()
    assert tracking.NoDependency(3).value == 3

    class Holder(tracking.AutoTrackable):
        @tracking.no_automatic_dependency_tracking
        def put_untracked(self, value):
            self.untracked = value

    holder = Holder()
    holder.put_untracked(other)
    holder.tracked = other
    assert holder.untracked is other
    assert [reference.name for reference in holder._checkpoint_dependencies] == ["tracked"]


def test_modules_of_the_alias():
    hook.install(replace=True)
    try:
        from tensorflow.python.ops import nn_ops, variable_scope
        from tensorflow.python.summary.writer.event_file_writer import EventFileWriter
        from tensorflow.python.training.tracking import base

        assert EventFileWriter.__name__ == "EventFileWriter"
        assert base.Trackable is tracking.Trackable
        assert nn_ops.array_ops.shape_internal is private_names.shape_internal  # modules have each other as names
        assert nn_ops.quantized_relu.op_type == "QuantizedRelu"  # what is generated is there too
        assert variable_scope.variable is private_names.variable
        with pytest.raises(AttributeError, match="no attribute 'nothing_like_it'"):
            nn_ops.nothing_like_it
    finally:
        hook.uninstall()


def test_how_far_down_a_function_looks():
    structure = [3, (1, 2, [0]), [5, 6], {"a": (7,)}, []]
    shallow = private_names.get_traverse_shallow_structure(lambda part: not isinstance(part, tuple), structure)
    assert shallow == [True, False, [True, True], {"a": False}, []]
    chosen = private_names.get_traverse_shallow_structure(
        lambda part: (True, False) if isinstance(part, tuple) else True, [(1, [2]), ([1], 2)]
    )
    assert chosen == [(True, False), ([True], False)]
    for function, given, words in (
        (lambda part: [True], 0, "returned structure"),
        (lambda part: 1, [1], "returned a non-bool scalar"),
        (lambda part: [1], [1], "didn't return a depth=1 structure of bools"),
    ):
        with pytest.raises(TypeError, match=words):
            private_names.get_traverse_shallow_structure(function, given)
    assert list(private_names.yield_flat_paths([{"a": [(23, 42)]}])) == [(0, "a", 0, 0), (0, "a", 0, 1)]


def test_tensors_as_rows():
    with tf.Graph().as_default(), tf.Session() as session:
        rows = private_names._as_indexed_slices(tf.constant([[1.0], [2.0]]))
        assert session.run([rows.values, rows.indices, rows.dense_shape])[1].tolist() == [0, 1]
        wide = tf.IndexedSlices(tf.constant([1.0]), tf.constant([3], tf.int64))
        both = private_names._as_indexed_slices_list([rows, wide])
        assert [one.indices.dtype for one in both] == [tf.int64, tf.int64]
        assert private_names._as_indexed_slices_list([rows])[0] is rows
        with pytest.raises(TypeError, match="Not a Tensor or IndexedSlices"):
            private_names._as_indexed_slices(3)
        with pytest.raises(TypeError, match="Expected a list or tuple"):
            private_names._as_indexed_slices_list(rows)
