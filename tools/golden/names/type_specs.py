"""Record what TensorFlow says of type specs, structures of composite tensors, and sums of linear operators.

Run with an interpreter that has TensorFlow 1.15: `python tools/golden/names/type_specs.py tests/golden/type_specs.json`.
An expression uses `tf` and the names of SETUP; its text is recorded, with the names of dtypes as TensorFlow writes them,
or the name of the class of the error. The tests evaluate the same expressions.
"""

# ruff: noqa: E501  (lines of the programs)

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

SETUP = """
from tensorflow.python.framework import type_spec
from tensorflow.python.ops.linalg import linear_operator_addition
T, S, R, I = tf.TensorSpec, tf.SparseTensorSpec, tf.RaggedTensorSpec, tf.IndexedSlicesSpec
sp = tf.SparseTensor([[0, 1]], [7], [2, 3])
ra = tf.ragged.constant([[1, 2], [], [3]])
deep = tf.ragged.constant([[[1], [2, 3]], []])
flat = tf.ragged.constant([[[1, 2]], []], ragged_rank=1)
sl = tf.IndexedSlices(tf.zeros([2, 3]), tf.constant([0, 4]))
full = tf.IndexedSlices(tf.zeros([2, 3]), tf.constant([0, 4]), tf.constant([9, 3]))
x = tf.zeros([2, 3])
spec_of = type_spec.type_spec_from_value
def shapes(tensors): return [(t.shape.as_list() if t.shape.ndims is not None else None, t.dtype.name) for t in tensors]
def leaves(structure): return shapes(tf.nest.flatten(structure, expand_composites=True))
L = tf.linalg
eye, scaled = L.LinearOperatorIdentity(2), L.LinearOperatorScaledIdentity(2, 3.)
diag, tril = L.LinearOperatorDiag([1., 2.], is_positive_definite=True), L.LinearOperatorLowerTriangular([[1., 0.], [5., 2.]])
mat = L.LinearOperatorFullMatrix([[1., 2.], [3., 4.]])
batch = L.LinearOperatorDiag([[1., 2.], [3., 4.]])
def total(operators, **kw):
    out = linear_operator_addition.add_operators(operators, **kw)
    return [(type(o).__name__, o.is_self_adjoint, o.is_positive_definite, o.is_non_singular, tf.Session().run(o.to_dense()).tolist()) for o in out]
"""
EXPRESSIONS = """
S()
S([None, 3], tf.int32)
S([2, 3]).shape
S([2, 3], tf.string).dtype
S([2, 3]).value_type.__name__
S([2, 3])._component_specs
S([None, None])._component_specs
S([2, 3]) == S((2, 3))
S([2, 3]) != S([2, 3], tf.int64)
hash(S([2, 3])) == hash(S((2, 3)))
S([None, 3]).is_compatible_with(S([2, 3]))
S([None, 3]).is_compatible_with(S([2, 4]))
S([None, 3], tf.int32).is_compatible_with(sp)
S([None, 3], tf.int64).is_compatible_with(sp)
S([None, 3]).is_compatible_with(T([2, 3]))
S([2, 3]).most_specific_compatible_type(S([2, 4]))
S([2, 3]).most_specific_compatible_type(S([2, 4], tf.int32))
S([2, 3]).most_specific_compatible_type(T([2, 4]))
S([2, 3])._batch(4)
S([2, 3])._batch(None)
S([2, 3])._unbatch()
S([])._unbatch()
S([2, 3])._flat_tensor_specs
S([2, 3])._to_legacy_output_types(), S([2, 3])._to_legacy_output_shapes(), S([2, 3])._to_legacy_output_classes().__name__
S.from_value(sp)
S.from_value(tf.SparseTensorValue([[0]], [1], [2]))
S.from_value(x)
sp._type_spec
shapes(sp._type_spec._to_components(sp))
shapes(S([2, 3], tf.int32)._to_tensor_list(sp))
type(S([2, 3], tf.int32)._from_tensor_list(S([2, 3], tf.int32)._to_tensor_list(sp))).__name__
R([None, None], tf.int32)
R([2, None, None, 4])
R(ragged_rank=2)
R(ragged_rank=1)._component_specs
R()
R([2])
R([2, None], ragged_rank=2)
R([2, None], ragged_rank=1.5)
R([2, None], row_splits_dtype=tf.int32)
R([2, None]).value_type.__name__
R([2]).value_type is tf.Tensor
R([2, None])._component_specs
R([2, None, None, 4], ragged_rank=2)._component_specs
R([2, None]) == R([2, None])
R([2, None]) == R([2, None], row_splits_dtype=tf.int32)
R([None, None], tf.int32).is_compatible_with(ra)
R([2, None], tf.int32).is_compatible_with(ra)
R([None, None], tf.float32).is_compatible_with(ra)
R([3, None], tf.int32).most_specific_compatible_type(R([4, None], tf.int32))
R([3, None])._batch(2)
R([3, None, None])._unbatch()
R([3, None])._to_legacy_output_types(), R([3, None])._to_legacy_output_shapes()
R.from_value(ra)
R.from_value(deep)
R.from_value(flat)
ra._type_spec
deep._type_spec
shapes(deep._type_spec._to_components(deep))
type(deep._type_spec._from_components(deep._type_spec._to_components(deep))).__name__
I([None, 3])
I([None, 3], tf.int32, tf.int32, tf.int64, [4])
I([9, 3])._component_specs
I([9, 3], dense_shape_dtype=tf.int32)._component_specs
I([9, 3]).value_type.__name__
sl._type_spec
full._type_spec
I([None, 3], indices_dtype=tf.int32).is_compatible_with(sl)
I([None, 3], indices_dtype=tf.int32).is_compatible_with(full)
I([9, 3], indices_shape=[2]).most_specific_compatible_type(I([8, 3], indices_shape=[2]))
I([9, 3], indices_shape=[2, 2])
T([2, 3]).value_type is tf.Tensor
T([2, 3]).is_compatible_with(x)
T([2, 3]).is_compatible_with(S([2, 3]))
T([2, 3]).most_specific_compatible_type(T([2, 4]))
T([2, 3], name="a").most_specific_compatible_type(T([2, 3], name="b"))
T([2, 3]).most_specific_compatible_type(T([2, 3], tf.int32))
T([2, 3]).most_specific_compatible_type(S([2, 3]))
T([2, 3])._batch(5)
T([2, 3])._unbatch()
T([])._unbatch()
T([2, 3])._component_specs
T([2, 3])._flat_tensor_specs
[issubclass(one, tf.TypeSpec) for one in (T, S, R, I)]
[issubclass(one, type_spec.BatchableTypeSpec) for one in (T, S, R, I)]
spec_of(x)
spec_of(sp)
spec_of(ra)
spec_of([1, 2])
spec_of(3.5)
spec_of([ra, ra])
spec_of(object())
leaves({"b": sp, "a": x})
leaves([ra, (deep, sl)])
leaves([full])
leaves([S([2, 3]), T([1])])
tf.nest.flatten([S([2, 3]), R([2, None])], expand_composites=True)
len(tf.nest.flatten([sp, ra]))
type(tf.nest.pack_sequence_as(sp, tf.nest.flatten(sp, expand_composites=True), expand_composites=True)).__name__
tf.nest.pack_sequence_as([sp, 1], [1, 2, 3], expand_composites=True)
[type(one).__name__ for one in tf.nest.map_structure(tf.identity, [sp, ra, sl, x], expand_composites=True)]
tf.nest.assert_same_structure([sp], [sp], expand_composites=True)
tf.nest.assert_same_structure([sp], [ra], expand_composites=True)
tf.nest.assert_same_structure([sp], [x], expand_composites=True)
tf.nest.assert_same_structure([sp], [x])
tf.get_static_value(None)
tf.get_static_value([1, 2])
tf.get_static_value(5)
tf.get_static_value(sp)
tf.get_static_value(tf.Variable(1.))
tf.get_static_value(tf.constant(4)).tolist()
total([eye, scaled])
total([eye, diag])
total([diag, tril])
total([tril, eye])
total([mat, diag])
total([tril, mat, scaled])
total([eye, scaled, diag, tril, mat])
total([batch, diag])
total([diag])
total([mat, eye, diag], addition_tiers=[[linear_operator_addition._AddAndReturnDiag()]])
total([eye, mat, diag], addition_tiers=[[linear_operator_addition._AddAndReturnDiag()], [linear_operator_addition._AddAndReturnMatrix()]])
linear_operator_addition.add_operators([diag, scaled], operator_name="sum")[0].name
linear_operator_addition.add_operators([eye, scaled])[0].name
total([])
total([x])
total([eye, L.LinearOperatorIdentity(3)])
total([batch, L.LinearOperatorDiag([[1., 2.], [3., 4.], [5., 6.]])])
"""


def text_of(tf, expression):
    """The text of an expression's value, in a graph of its own."""
    with tf.Graph().as_default():
        names = {"tf": tf}
        exec(SETUP, names)
        try:
            value = repr(eval(expression, names))
        except Exception as problem:
            kind = type(problem)  # an error of two classes counts as one of the first
            return {"error": (kind if len(kind.__bases__) == 1 else kind.__bases__[0]).__name__}
        return value.replace("<dtype: '", "tf.").replace("'>", "") if "<dtype" in value else value


def main(path):
    """Write the texts of all expressions."""
    import tensorflow as tf

    values = {one: text_of(tf, one) for one in EXPRESSIONS.strip().splitlines()}
    with open(path, "w") as file:
        json.dump(values, file, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
