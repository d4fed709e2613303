"""Record what TensorFlow gives for ragged tensors.

Run with an interpreter that has TensorFlow 1.15: `python tools/golden/kernels/ragged.py tests/golden/ragged.json`. An expression
uses `tf`, `C` (`tf.ragged.constant`), `R` (`tf.RaggedTensor`) and the ragged tensors of SETUP. Its value is recorded as
rows with the dtype and the number of ragged dimensions, as an array with its dtype, as parts, as a Python value, or as
the name of the class of the error. The tests compute the same expressions.
"""

# ruff: noqa: E501  (lines of the programs)

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

SETUP = """
A = C([[3,1],[],[4,1,5]])
B = C([[1,2],[],[3,4,5]])
F = C([[3.,1.],[],[4.,1.,5.]])
D = C([[[1,2],[3]],[],[[4,5,6],[],[7]]])
M = C([[True,False],[],[False,True,True]])
S = C([['a','bb'],[],['ccc']])
U = C([[[1,2],[3,4]],[],[[5,6]]], ragged_rank=1)
G = C([[[1.,2.],[3.]],[],[[4.,5.,6.],[],[7.]]])
V = C([[[1.,2.],[3.,4.]],[],[[5.,6.]]],ragged_rank=1)
"""
EXPRESSIONS = """
A
A.to_tensor()
A.row_splits
A.row_lengths()
A.nrows()
A.value_rowids()
A.row_starts()
A.row_limits()
A.bounding_shape()
A.flat_values
A.to_sparse()
list(A.nested_row_splits)
list(A.nested_row_lengths())
list(A.nested_value_rowids())
tf.rank(A)
tf.size(A)
D
D.to_tensor()
D.row_splits
D.row_lengths()
D.nrows()
D.value_rowids()
D.row_starts()
D.row_limits()
D.bounding_shape()
D.flat_values
D.to_sparse()
list(D.nested_row_splits)
list(D.nested_row_lengths())
list(D.nested_value_rowids())
tf.rank(D)
tf.size(D)
D.row_lengths(axis=2)
U.row_lengths(axis=2)
A.to_tensor(default_value=-1)
U.to_tensor(default_value=[8,9])
D.bounding_shape(axis=1)
D.bounding_shape(axis=[0,2])
C([])
C([1,2,3])
C(5)
C([[1,2],[3,4]],ragged_rank=1)
C([[[1],[2]],[[3]]],inner_shape=(1,))
C([[1,2],[3]],dtype=tf.float64)
C([[1,2],[3,4]],ragged_rank=0)
C([[[1,2],[3,4]],[[5,6]]],inner_shape=(2,))
C([],dtype=tf.int32,ragged_rank=2)
C([[]],ragged_rank=3)
C([[1,2]],row_splits_dtype=tf.int32).row_splits
C([1,2], inner_shape=(2,))
R.from_row_splits([1,2,3],[0,2,2,3])
R.from_row_lengths([1,2,3],[2,0,1])
R.from_row_starts([1,2,3],[0,2,2])
R.from_row_limits([1,2,3],[2,2,3])
R.from_value_rowids([1,2,3],[0,0,2])
R.from_value_rowids([1,2,3],[0,0,2],nrows=5)
R.from_nested_row_splits([1,2,3],[[0,1,2],[0,2,3]])
R.from_nested_row_lengths([1,2,3],[[1,1],[2,1]])
R.from_nested_value_rowids([1,2,3],[[0,1],[0,0,1]])
R.from_nested_value_rowids([1,2,3],[[0,1],[0,0,1]],nested_nrows=[3,2])
R.from_row_lengths(tf.constant([[1,2],[3,4]]),[1,1])
R.from_row_splits(C([[1],[2,3]]),[0,2])
R.from_row_splits([1,2,3],tf.constant([0,3],tf.int32)).row_splits
R.from_tensor([[1,2,0],[0,3,0],[0,0,0]])
R.from_tensor([[1,2,0],[0,3,0],[0,0,0]],lengths=[1,0,3])
R.from_tensor([[1,2,0],[0,3,0],[0,0,0]],padding=0)
R.from_tensor([[[1,2],[3,0]],[[0,0],[4,0]]],padding=0,ragged_rank=2)
R.from_tensor(tf.ones([2,3,2,2]),ragged_rank=3)
R.from_tensor(tf.ones([2,3,2]),lengths=[1,2])
R.from_tensor([[[1,0],[2,0]],[[3,4],[0,0]]],lengths=([2,1],[1,2,2]))
R.from_sparse(tf.SparseTensor([[0,0],[0,1],[2,0]],[1,2,3],[4,5]))
R.from_tensor([[5,1,2],[3,1,1]],padding=1)
R.from_tensor([[[1,2],[0,0],[1,2],[0,0]]],padding=[0,0])
A+B
A+2
A-B
A-2
2-A
A*B
A*2
A//B
A//2
A%B
A%2
A**B
A**2
A<B
A<2
A<=B
A<=2
A>B
A>2
A>=B
A>=2
A/B
A/2
abs(-A)
~M
M&M
M|True
M^M
tf.constant(2)+A
tf.constant([2])+A
A+[[10],[20],[30]]
A+tf.constant([[10],[20],[30]])
D+[[[1]]]
D+[[[1]],[[2]],[[3]]]
U+[10,20]
U+[[1,2]]
U*C([[[10,20]]],ragged_rank=1)
tf.add(A,B)
tf.add(x=A,y=1)
tf.maximum(A,B)
tf.equal(A,B)
tf.pow(F,2.)
tf.math.divide_no_nan(F,F)
tf.abs(A)
tf.abs(D)
tf.square(A)
tf.square(D)
tf.negative(A)
tf.negative(D)
tf.identity(A)
tf.identity(D)
tf.ones_like(A)
tf.ones_like(D)
tf.zeros_like(A)
tf.zeros_like(D)
tf.exp(F)
tf.sqrt(F)
tf.cast(A,tf.float32)
tf.cast(D,tf.float32)
tf.clip_by_value(A,2,4)
tf.strings.length(S)
tf.strings.join([S,S])
tf.strings.join([S,'x'])
tf.add_n([A,A])
tf.as_string(A)
tf.strings.substr(S,0,1)
tf.logical_not(M)
tf.strings.to_hash_bucket_fast(S,10)
tf.ragged.map_flat_values(tf.add,A,B)
tf.ragged.map_flat_values(tf.ones_like,D)
tf.ragged.map_flat_values(lambda x:x+1,D)
tf.reduce_sum(F,None)
tf.reduce_sum(F,0)
tf.reduce_sum(F,1)
tf.reduce_sum(F,[0,1])
tf.reduce_sum(G,None)
tf.reduce_sum(G,[0,1])
tf.reduce_sum(G,[0,1,2])
tf.reduce_sum(V,None)
tf.reduce_sum(V,0)
tf.reduce_sum(V,1)
tf.reduce_sum(V,[0,1])
tf.reduce_sum(V,[1,2])
tf.reduce_sum(V,[0,1,2])
tf.reduce_prod(F,None)
tf.reduce_prod(F,0)
tf.reduce_prod(F,1)
tf.reduce_prod(F,[0,1])
tf.reduce_prod(G,None)
tf.reduce_prod(G,[0,1])
tf.reduce_prod(G,[0,1,2])
tf.reduce_prod(V,None)
tf.reduce_prod(V,0)
tf.reduce_prod(V,1)
tf.reduce_prod(V,[0,1])
tf.reduce_prod(V,[1,2])
tf.reduce_prod(V,[0,1,2])
tf.reduce_max(F,None)
tf.reduce_max(F,0)
tf.reduce_max(F,1)
tf.reduce_max(F,[0,1])
tf.reduce_max(G,None)
tf.reduce_max(G,[0,1])
tf.reduce_max(G,[0,1,2])
tf.reduce_max(V,None)
tf.reduce_max(V,0)
tf.reduce_max(V,1)
tf.reduce_max(V,[0,1])
tf.reduce_max(V,[1,2])
tf.reduce_max(V,[0,1,2])
tf.reduce_min(F,None)
tf.reduce_min(F,0)
tf.reduce_min(F,1)
tf.reduce_min(F,[0,1])
tf.reduce_min(G,None)
tf.reduce_min(G,[0,1])
tf.reduce_min(G,[0,1,2])
tf.reduce_min(V,None)
tf.reduce_min(V,0)
tf.reduce_min(V,1)
tf.reduce_min(V,[0,1])
tf.reduce_min(V,[1,2])
tf.reduce_min(V,[0,1,2])
tf.reduce_mean(F,None)
tf.reduce_mean(F,0)
tf.reduce_mean(F,1)
tf.reduce_mean(F,[0,1])
tf.reduce_mean(G,None)
tf.reduce_mean(G,[0,1])
tf.reduce_mean(G,[0,1,2])
tf.reduce_mean(V,None)
tf.reduce_mean(V,0)
tf.reduce_mean(V,1)
tf.reduce_mean(V,[0,1])
tf.reduce_mean(V,[1,2])
tf.reduce_mean(V,[0,1,2])
tf.reduce_any(M,None)
tf.reduce_any(M,0)
tf.reduce_any(M,1)
tf.reduce_all(M,None)
tf.reduce_all(M,0)
tf.reduce_all(M,1)
tf.reduce_sum(A,axis=1)
tf.reduce_sum(A,reduction_indices=[1])
tf.reduce_sum(D)
tf.math.unsorted_segment_sum(F,[0,1,0],2)
tf.math.unsorted_segment_sum(F,C([[0,1],[],[1,1,0]]),2)
tf.math.unsorted_segment_prod(F,[0,1,0],2)
tf.math.unsorted_segment_prod(F,C([[0,1],[],[1,1,0]]),2)
tf.math.unsorted_segment_max(F,[0,1,0],2)
tf.math.unsorted_segment_max(F,C([[0,1],[],[1,1,0]]),2)
tf.math.unsorted_segment_min(F,[0,1,0],2)
tf.math.unsorted_segment_min(F,C([[0,1],[],[1,1,0]]),2)
tf.math.unsorted_segment_mean(F,[0,1,0],2)
tf.math.unsorted_segment_mean(F,C([[0,1],[],[1,1,0]]),2)
tf.math.unsorted_segment_sqrt_n(F,[0,1,0],2)
tf.math.unsorted_segment_sqrt_n(F,C([[0,1],[],[1,1,0]]),2)
A[0]
D[0]
A[tf.constant(2)]
D[tf.constant(2)]
A[slice(1,None)]
D[slice(1,None)]
A[slice(None,-1)]
D[slice(None,-1)]
A[slice(None,None,2)]
D[slice(None,None,2)]
A[(slice(None),slice(None,1))]
D[(slice(None),slice(None,1))]
A[(slice(None),slice(1,None))]
D[(slice(None),slice(1,None))]
A[(slice(None),slice(None,None,2))]
D[(slice(None),slice(None,None,2))]
A[(2,0)]
D[(2,0)]
A[(2,slice(1,None))]
D[(2,slice(1,None))]
A[(Ellipsis,slice(None,1))]
D[(Ellipsis,slice(None,1))]
A[None]
D[None]
A[(slice(None),None)]
D[(slice(None),None)]
A[(Ellipsis,None)]
D[(Ellipsis,None)]
A[Ellipsis]
D[Ellipsis]
D[2,0,1]
D[2,:,:1]
D[:,:,:1]
D[:,1:,:1]
D[0,1]
U[:,:,0]
U[:,:,1:]
U[...,0]
U[0,1,0]
U[:,:,None]
D[:,None,:1]
U[:, :1, 0]
tf.concat([A,B],0)
tf.concat([A,B],1)
tf.concat([A,[[1],[2],[3]]],1)
tf.concat([A,[[1,2]]],0)
tf.stack([A,B])
tf.stack([A,B],1)
tf.stack([A,B],2)
tf.ragged.stack([A,[[1],[2],[3]]])
tf.concat([A],0)
tf.ragged.stack([1,2])
tf.gather(A,[2,0])
tf.gather(A,2)
tf.gather(A,[[2],[0]])
tf.gather(A,C([[2,0],[1]]))
tf.gather([10,20,30],C([[2,0],[1]]))
tf.gather(D,[2])
tf.batch_gather(A,C([[1],[],[2,0]]))
tf.batch_gather(C([[3,1],[2],[4,1,5]]),[[0],[0],[0]])
tf.gather_nd(A,[[2,1],[0,0]])
tf.gather_nd(A,[[2]])
tf.gather_nd(D,[[2,0,1]])
tf.gather_nd(D,[[2,0]])
tf.gather_nd(A,C([[[0,0]],[[2,1],[2,2]]],ragged_rank=1))
tf.gather_nd(A,[2,1])
tf.gather_nd([[1,2],[3,4]],C([[[0,0]],[[1,1],[0,1]]],ragged_rank=1))
tf.gather_nd(A,[[[2,1]],[[0,0]]])
tf.ragged.boolean_mask(A,M)
tf.ragged.boolean_mask([[1,2,3],[4,5,6]],[[True,False,True],[False,False,True]])
tf.ragged.boolean_mask([1,2,3],[True,False,True])
tf.ragged.boolean_mask(A,[True,False,True])
tf.ragged.boolean_mask(D,M)
tf.where(M,A,B)
tf.where(M)
tf.where([True,False,True],A,B)
tf.ragged.boolean_mask([[[1,2],[3,4]],[[5,6],[7,8]]],[[[True,False],[False,False]],[[True,True],[True,False]]])
tf.expand_dims(A,0)
tf.expand_dims(A,1)
tf.expand_dims(D,axis=0)
tf.expand_dims(D,axis=1)
tf.squeeze(tf.expand_dims(A,0),[0])
tf.squeeze(tf.expand_dims(A,1),[1])
tf.tile(A,[2,1])
tf.tile(A,[1,2])
tf.tile(D,[1,2,2])
tf.tile(U,[2,1,2])
tf.one_hot(A,6)
tf.one_hot(A,3,on_value=5.,off_value=-1.)
tf.ragged.range([3,5,2])
tf.ragged.range([0,5,8],[3,3,12])
tf.ragged.range([0,5,8],[3,3,12],2)
tf.ragged.range(5,[7,9])
tf.ragged.range([3,1],[0,0],-1)
tf.ragged.range([1.,2.],[2.,4.],.5)
tf.ragged.range(5)
tf.ragged.range([1,2],dtype=tf.int64)
tf.ragged.range([1,2],row_splits_dtype=tf.int32).row_splits
tf.ragged.row_splits_to_segment_ids([0,3,3,5])
tf.ragged.segment_ids_to_row_splits([0,0,0,2,2,3])
tf.ragged.segment_ids_to_row_splits([0,0,2],num_segments=5)
tf.ragged.row_splits_to_segment_ids([0,3],out_type=tf.int32)
tf.ragged.row_splits_to_segment_ids([0,3])
tf.ragged.segment_ids_to_row_splits(tf.zeros([0],tf.int32))
tf.ragged.stack_dynamic_partitions(['a','b','c','d'],[1,0,1,2],4)
tf.ragged.stack_dynamic_partitions(A,[1,0,1],2)
tf.ragged.stack_dynamic_partitions(A,C([[0,1],[],[1,0,1]]),2)
tf.dynamic_partition(A,[1,0,1],2)
tf.ragged.stack_dynamic_partitions([[1,2],[3,4]],[[0,1],[1,0]],3)
tf.ragged.stack_dynamic_partitions([1,2],1,2)
D.with_flat_values(tf.zeros([7]))
A.with_row_splits_dtype(tf.int32).row_splits
A.shape.as_list()
D.shape.as_list()
A.ragged_rank
D.ragged_rank
A.dtype.name
S.dtype.name
C([[1],[[2]]])
C([[1,2],[3]],ragged_rank=0)
C([[[1,2],[3]]],ragged_rank=1)
C(5, ragged_rank=1)
R.from_value_rowids([1,2,3],[0,0,2],nrows=2)
R.from_row_splits([1,2,3],[0,2,2,4])
R.from_row_splits([1,2,3],[1,2,3])
R.from_row_splits([1,2,3],[0,3,2,3])
R.from_row_splits([1,2],[])
R.from_row_lengths([1,2,3],[2,-1,2])
R.from_row_lengths([1,2,3],[2,2])
R([1],[0,1])
R.from_tensor([1,2])
R.from_tensor([[1]],ragged_rank=0)
R.from_tensor([[1]],lengths=[1],padding=1)
R.from_sparse(tf.SparseTensor([[0,0],[0,2]],[1,2],[4,5]))
A+C([[1],[2]])
A+[[1,2]]
D+A
A+C([[1,2],[],[3,4]])
tf.constant([1.,2.])*F
tf.ragged.map_flat_values(tf.add,A,C([[1],[],[2]]))
tf.reduce_sum(F,2)
tf.reduce_sum(F,[1,2])
tf.reduce_sum(F,[0,1,2])
tf.reduce_sum(F,[0,2])
tf.reduce_prod(F,2)
tf.reduce_prod(F,[1,2])
tf.reduce_prod(F,[0,1,2])
tf.reduce_prod(F,[0,2])
tf.reduce_max(F,2)
tf.reduce_max(F,[1,2])
tf.reduce_max(F,[0,1,2])
tf.reduce_max(F,[0,2])
tf.reduce_min(F,2)
tf.reduce_min(F,[1,2])
tf.reduce_min(F,[0,1,2])
tf.reduce_min(F,[0,2])
tf.reduce_mean(F,2)
tf.reduce_mean(F,[1,2])
tf.reduce_mean(F,[0,1,2])
tf.reduce_mean(F,[0,2])
tf.reduce_sum(A,7)
A[(slice(None),0)]
D[(slice(None),0)]
U[(slice(None),0)]
tf.ragged.stack([[1,2],[3]],axis=1)
tf.concat([A,[1]],0)
tf.ragged.stack([[[1,2]],[[3]]],axis=2)
tf.ragged.boolean_mask(A,True)
tf.expand_dims(A,3)
tf.squeeze(A)
tf.squeeze(A,[1])
tf.ragged.row_splits_to_segment_ids([])
len(A)
bool(A)
tf.convert_to_tensor(A)
tf.matmul(F,F)
A.to_list()
"""


def written(value):
    """A value as JSON has it."""
    if hasattr(value, "to_list"):
        return {"rows": written(value.to_list()), "dtype": str(value.dtype), "ragged_rank": value.ragged_rank}
    if hasattr(value, "_fields") or isinstance(value, (list, tuple)):
        return [written(one) for one in value]
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return {"array": written(value.tolist()), "dtype": str(value.dtype), "shape": list(value.shape)}
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, float):
        return float(f"{value:.5g}") if abs(value) < 1e30 else str(value)[:6]
    return value


def value_of(tf, expression):
    """What an expression gives, in a graph and a session of its own."""
    with tf.Graph().as_default(), tf.Session() as session:
        names = {"tf": tf, "C": tf.ragged.constant, "R": tf.RaggedTensor}
        exec(SETUP, names)
        try:
            value = eval(expression, names)
            kinds = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)
            if isinstance(value, kinds) or (isinstance(value, list) and value and isinstance(value[0], kinds)):
                value = session.run(value)
            return written(value)
        except Exception as problem:
            return {"error": type(problem).__name__}


def main(path):
    """Write the values of all expressions."""
    import tensorflow as tf

    values = {one: value_of(tf, one) for one in EXPRESSIONS.strip().splitlines()}
    with open(path, "w") as file:
        json.dump({"setup": SETUP, "values": values}, file, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
