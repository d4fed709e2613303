"""Specifications of tensors with bounds."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.values.tensor_spec import BoundedTensorSpec


def test_bounds_broadcast_to_the_shape() -> None:
    spec = BoundedTensorSpec((2, 3), tf.float32, 0, (5, 6, 7), name="x")
    assert (spec.minimum.dtype, spec.maximum.tolist()) == (np.float32, [5, 6, 7])
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec != BoundedTensorSpec((2, 3), tf.float32, 1, (5, 6, 7), name="x")
    assert spec == BoundedTensorSpec((2, 3), tf.float32, (0, 1e-12, 0), (5, 6, 7), name="x")
    assert (spec.is_bounded(), tf.TensorSpec([]).is_bounded()) == (True, False)
    assert (spec.is_continuous, spec.is_discrete) == (True, False)
    with pytest.raises(ValueError, match="read-only"):
        spec.maximum[0] = 1
    for bounds in (((0, 0), 1), (0, (1, 1))):
        with pytest.raises(ValueError, match="is not compatible with shape"):
            BoundedTensorSpec((2, 3), tf.float32, *bounds)


def test_bounds_of_a_dtype_where_there_are_none() -> None:
    spec = BoundedTensorSpec.from_spec(tf.TensorSpec([4], tf.int8, "x"))
    assert (spec.minimum, spec.maximum, spec.name) == (-128, 127, "x")
    assert tf.TensorSpec.from_spec(spec) == tf.TensorSpec([4], tf.int8, "x")
