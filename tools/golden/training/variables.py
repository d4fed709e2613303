"""Record which operations TensorFlow makes for variables, variable scopes and initializers.

Run with an interpreter that has TensorFlow: `python tools/golden/training/variables.py tests/golden/variables.json`.
A case is a program that uses `tf`, `np`, the default graph `g`, and `out`, to which it appends; the tests run the
same program. `error(f)` is the name of the class of what `f()` raises, or what it returns. Recorded are `out` and the
nodes of the graph: name, type, inputs, control inputs, colocation groups, device, attributes of variables. Left
out is what versions of TensorFlow differ in: devices of reads, the inside of `boolean_mask`, seeds drawn from a
graph's, whether an addition is Add or AddV2.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

CASES = {
    "ref_variables": """
w = tf.Variable(tf.zeros([2, 3]), name="w")
b = tf.Variable([1, 2, 3])
c = tf.Variable(lambda: tf.ones([2]), name="c", trainable=False)
d = tf.Variable(1.5, name="w", dtype=tf.float64)
s = tf.Variable("text", collections=["mine"])
for v in (w, b, c, d, s):
    out.append([v.name, v.op.name, v.dtype.name, v.shape.as_list(), v.initializer.name, v.value().name,
                v.initial_value.name, v.trainable, v.device])
out.append([[v.name for v in f()] for f in (tf.global_variables, tf.trainable_variables, tf.local_variables)])
out.append([v.name for v in tf.get_collection("mine")])
out.append([v.name for v in tf.trainable_variables("w")])
tf.global_variables_initializer()
tf.local_variables_initializer()
tf.variables_initializer([w, b], name="some")
tf.is_variable_initialized(w)
""",
    "resource_variables": """
w = tf.Variable(tf.zeros([2, 3]), name="w", use_resource=True)
b = tf.Variable(2, use_resource=True)
c = tf.Variable(lambda: tf.ones([2]), name="c", use_resource=True, caching_device="/cpu:0")
for v in (w, b, c):
    out.append([v.name, v.op.name, v.dtype.name, v.shape.as_list(), v.initializer.name, v.handle.name,
                v.initial_value.name, v.trainable])
w + 1.0
w.read_value()
w.assign(w * 2.0)
w.assign_add(tf.ones([2, 3]), read_value=False)
w.assign_sub(tf.ones([2, 3]), name="less")
b.count_up_to(5)
w.scatter_add(tf.IndexedSlices(tf.ones([1, 3]), [0]))
w.scatter_nd_update([[0, 1]], [2.0])
w.is_initialized()
tf.is_variable_initialized(b)
tf.identity(c)
tf.global_variables_initializer()
""",
    "unknown_shapes": """
p = tf.placeholder(tf.float32, [None, 2])
v = tf.Variable(p, validate_shape=False)
r = tf.Variable(p, validate_shape=False, use_resource=True, name="r")
out.append([str(v.shape), str(r.shape)])
out.append(bool(v))
out.append(error(lambda: tf.Variable()))
out.append(error(lambda: tf.Variable(1.0, constraint=3)))
""",
    "assignments": """
v = tf.Variable(tf.zeros([4, 2]), name="v")
i = tf.Variable(0, name="i")
tf.assign(v, tf.ones([4, 2]))
tf.assign(v, tf.ones([3, 2]), validate_shape=False, use_locking=False, name="grow")
v.assign(tf.ones([4, 2]))
out.append(v.assign(tf.ones([4, 2]), read_value=False).name)
tf.assign_add(v, tf.ones([4, 2]))
tf.assign_sub(v, tf.ones([4, 2]))
v.assign_add(tf.ones([4, 2]), use_locking=True)
v.assign_sub(tf.ones([4, 2]))
for f in (tf.scatter_update, tf.scatter_add, tf.scatter_sub, tf.scatter_mul, tf.scatter_div, tf.scatter_min,
          tf.scatter_max):
    f(v, [1], tf.ones([1, 2]))
for f in (tf.scatter_nd_update, tf.scatter_nd_add, tf.scatter_nd_sub):
    f(v, [[1]], [[1.0, 2.0]])
v.scatter_sub(tf.IndexedSlices(tf.ones([1, 2]), [1]))
v.scatter_nd_add([[0, 1]], [1.0])
tf.count_up_to(i, 3)
i.count_up_to(4)
v[1:, 0].assign([1.0, 2.0, 3.0])
v[2].assign([1.0, 2.0], name="row")
out.append(error(lambda: v.scatter_add(3)))
out.append(error(lambda: tf.assign(v, tf.ones([3, 2]))))
""",
    "reading": """
v = tf.Variable(tf.zeros([4, 2]), name="v")
v + 1.0
2.0 * v
-v
v / v
v[0]
abs(v)
tf.identity(v)
v.read_value()
with tf.control_dependencies([v.assign_add(tf.ones([4, 2]))]):
    v.read_value()
    v + 1.0
    tf.identity(v)
tf.matmul(v, v, transpose_b=True)
tf.convert_to_tensor(v, name="ignored")
tf.stack([v, v])
out.append(tf.convert_to_tensor(v).name)
out.append(g.as_graph_element(v).name)
out.append(error(lambda: tf.convert_to_tensor(v, dtype=tf.int32)))
""",
    "devices": """
with tf.device("/gpu:1"):
    a = tf.Variable(1.0, name="a")
    b = tf.Variable(lambda: tf.constant(1.0), name="b")
    with tf.device("/gpu:2"):
        tf.assign(a, 2.0)
        tf.identity(a)
with tf.device("/job:ps/task:0"), tf.name_scope("scope"):
    c = tf.Variable([1.0], caching_device="/job:worker")
with g.colocate_with(a.op):
    d = tf.Variable(1.0, name="d")
with tf.container("box"):
    e = tf.Variable(1.0, name="e")
    f = tf.Variable(1.0, name="f", use_resource=True)
with tf.control_dependencies([a.initializer]):
    h = tf.Variable(2.0, name="h")
""",
    "get_variable": """
z = tf.zeros_initializer()
a = tf.get_variable("a", [2], initializer=z)
b = tf.get_variable("b", initializer=[1.0, 2.0])
c = tf.get_variable("c", initializer=[1, 2], dtype=tf.int32)
d = tf.get_variable("d", initializer=tf.constant([[1.0]]))
e = tf.get_variable("e", [3], dtype=tf.int64)
f = tf.get_variable("f", [3000], initializer=tf.ones_initializer)
h = tf.get_variable("h", [3], initializer=tf.constant_initializer([1, 2]))
i = tf.get_variable("i", initializer=lambda: tf.ones([3]))
j = tf.get_variable("j", [], dtype=tf.bool)
k = tf.get_variable("k", [2], initializer=z, trainable=False, collections=["x"], use_resource=True)
with tf.name_scope("ignored"):
    l = tf.get_variable("l", [2], initializer=z)
m = tf.get_local_variable("m", [2], initializer=z)
out.append([[v.name, v.dtype.name, v.shape.as_list(), v.trainable] for v in (a, b, c, d, e, f, h, i, j, k, l, m)])
out.append([v.name for v in tf.local_variables()])
out.append(error(lambda: tf.get_variable("a", [2])))
out.append(error(lambda: tf.get_variable("n", [2], initializer=[1.0, 2.0])))
out.append(error(lambda: tf.get_variable("n", [None], initializer=z)))
out.append(error(lambda: tf.get_variable("n", [2], dtype=tf.complex64)))
out.append(error(lambda: tf.get_variable("n", initializer=[1.0], dtype=tf.int32)))
out.append(error(lambda: tf.get_variable("n", [2], initializer=z, custom_getter=3)))
out.append(error(lambda: tf.get_variable("n", [2], initializer=z, partitioner=3)))
""",
    "scopes": """
z = tf.zeros_initializer()
def make(name="w"):
    v = tf.get_variable(name, [2], initializer=z)
    out.append([v.name, tf.no_op(name="op").name, tf.get_variable_scope().name,
                tf.get_variable_scope().original_name_scope, tf.get_variable_scope().reuse is True])
make()
with tf.variable_scope("a") as a:
    make()
    with tf.variable_scope("b") as b:
        make()
    with tf.variable_scope("b", reuse=True):
        make()
    with tf.name_scope("n"):
        make("v")
        with tf.variable_scope("c"):
            make()
with tf.variable_scope("a", reuse=True):
    make()
    with tf.variable_scope("b"):
        make()
with tf.variable_scope(a, reuse=True) as a2:
    make()
    out.append(a2 is a)
    with tf.variable_scope(b):
        make("not_reused")
with tf.variable_scope(b):
    make("x")
    with tf.variable_scope("inner"):
        make()
with tf.variable_scope("a", auxiliary_name_scope=False):
    make("y")
with tf.variable_scope(a, auxiliary_name_scope=False):
    make("z")
    with tf.name_scope(a.original_name_scope):
        out.append(tf.no_op(name="op").name)
with tf.variable_scope("d", reuse=tf.AUTO_REUSE):
    make()
    make()
    with tf.variable_scope("e"):
        make()
        make()
with tf.variable_scope("f"):
    make()
    tf.get_variable_scope().reuse_variables()
    make()
    out.append(error(lambda: tf.get_variable("none", [2])))
with tf.variable_scope("f/g"):
    make()
with tf.variable_scope(tf.get_variable_scope()):
    make("root")
with tf.variable_scope(tf.get_variable_scope(), reuse=True):
    make("root")
with tf.variable_scope(""):
    make("empty")
out.append(error(lambda: make()))
out.append([v.name for v in a.global_variables()])
out.append([v.name for v in b.trainable_variables()])
""",
    "default_names": """
z = tf.zeros_initializer()
def layer():
    with tf.variable_scope(None, "layer") as s:
        v = tf.get_variable("w%d" % len(out), [2], initializer=z)
        out.append([s.name, s.original_name_scope, v.name, tf.no_op(name="op").name])
layer()
layer()
with tf.variable_scope("outer") as outer:
    layer()
    layer()
with tf.variable_scope("outer"):
    layer()
with tf.variable_scope(outer):
    layer()
with tf.variable_scope("layer"):
    tf.get_variable("x", [2], initializer=z)
layer()
with tf.name_scope("scope"):
    layer()
with tf.variable_scope("outer/layer"):
    pass
with tf.variable_scope("outer"):
    layer()
out.append(error(lambda: tf.variable_scope(None)))
def bad():
    with tf.variable_scope(None, "layer", reuse=True):
        pass
out.append(error(bad))
out.append(error(lambda: tf.variable_scope("x", reuse=3)))
def wrong():
    with tf.variable_scope(3):
        pass
out.append(error(wrong))
""",
    "entering_again": """
z = tf.zeros_initializer()
scope = tf.variable_scope("s", reuse=tf.AUTO_REUSE)
for i in range(3):
    with scope as s:
        v = tf.get_variable("w", [2], initializer=z)
        out.append([s.name, s.original_name_scope, v.name, tf.no_op(name="op").name])
default = tf.variable_scope(None, "d", reuse=None)
for i in range(2):
    with default as s:
        v = tf.get_variable("w%d" % i, [2], initializer=z)
        out.append([s.name, s.original_name_scope, v.name, tf.no_op(name="op").name])
""",
    "inheritance": """
z = tf.zeros_initializer()
one = tf.ones_initializer()
with tf.variable_scope("a", initializer=z, dtype=tf.float64, use_resource=True, caching_device="/cpu:0") as a:
    v = tf.get_variable("v", [2])
    out.append([v.dtype.name, type(v).__name__.startswith("Resource")])
    with tf.variable_scope("b", initializer=one, dtype=tf.float32, use_resource=False) as b:
        v = tf.get_variable("v", [2])
        out.append([v.dtype.name, b.caching_device, b.use_resource])
    with tf.variable_scope("c") as c:
        out.append([c.dtype.name, c.use_resource, c.caching_device, c.initializer is z])
        c.set_initializer(one)
        c.set_dtype(tf.float16)
        c.set_use_resource(False)
        c.set_caching_device(None)
        v = tf.get_variable("v", [2])
        out.append(v.dtype.name)
with tf.variable_scope(a, dtype=tf.int32) as d:
    out.append([d.dtype.name, d.use_resource])
with tf.variable_scope("e", regularizer=lambda v: tf.reduce_sum(v, axis=0, name="reg")):
    tf.get_variable("none", [2], initializer=z, regularizer=tf.no_regularizer)
out.append(len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)))
limit = lambda x: x
with tf.variable_scope("f", constraint=limit) as f:
    out.append(tf.get_variable("v", [2], initializer=z).constraint is limit)
    with tf.variable_scope("g") as h:
        out.append(h.constraint is limit)
""",
    "custom_getters": """
z = tf.zeros_initializer()
calls = []
def outer(getter, name, *args, **kwargs):
    calls.append(["outer", name, sorted(kwargs)])
    return getter(name, *args, **kwargs)
def inner(getter, name, *args, **kwargs):
    calls.append(["inner", name])
    return getter(name + "_x", *args, **kwargs)
def doubled(getter, *args, **kwargs):
    return getter(*args, **kwargs) * 2.0
with tf.variable_scope("a", custom_getter=outer):
    with tf.variable_scope("b", custom_getter=inner):
        out.append(tf.get_variable("w", [2], initializer=z).name)
    out.append(tf.get_variable("w", [2], initializer=z).name)
out.append(tf.get_variable("v", [2], initializer=z, custom_getter=doubled).name)
out.append([call[:2] for call in calls])
""",
    "templates": """
z = tf.zeros_initializer()
def layer(x, name="w"):
    return tf.add(x, tf.get_variable(name, [2], initializer=z), name="sum")
first = tf.make_template("layer", layer)
out.append([first.name, first.variable_scope_name])
one = tf.constant([1.0, 2.0], name="one")
out.append([first(one).name, first(one).name])
out.append([first.variable_scope_name, [v.name for v in first.variables], [v.name for v in first.trainable_variables]])
second = tf.make_template("layer", layer, create_scope_now_=True, name="v")
out.append(second.variable_scope_name)
third = tf.make_template("layer", layer, create_scope_now_=True)
with tf.variable_scope("outer"):
    out.append([third(one).name, second(one).name, third(one).name, second(one).name])
    fourth = tf.make_template("layer", layer)
    out.append([fourth(one).name, fourth(one).name])
fifth = tf.make_template("x", layer, unique_name_="mine")
out.append([fifth(one).name, fifth(one).name, fifth.variable_scope_name])
bad = tf.make_template("bad", lambda: tf.Variable(1.0))
bad()
out.append(error(bad))
out.append([v.name for v in tf.trainable_variables()])
""",
    "partitions": """
z = tf.zeros_initializer()
w = tf.get_variable("w", [5, 2], initializer=z, partitioner=tf.fixed_size_partitioner(2))
out.append([w.name, w.dtype.name, w.shape.as_list(), [v.name for v in w], [v._save_slice_info.spec for v in w]])
tf.identity(w)
tf.ones([5, 2]) + w
w.as_tensor()
out.append([t.name for t in w.assign(tf.ones([5, 2]))])
one = tf.get_variable("one", [5, 2], initializer=z, partitioner=tf.fixed_size_partitioner(1))
tf.identity(one)
with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(3, axis=1)):
    v = tf.get_variable("v", [2, 4], initializer=tf.constant_initializer(1.0))
    out.append([p.shape.as_list() for p in v])
    scalar = tf.get_variable("scalar", [], initializer=z)
    out.append(scalar.name)
    c = tf.get_variable("c", initializer=tf.constant([[1.0, 2.0, 3.0]]))
    out.append([p.name for p in c])
with tf.variable_scope("s", reuse=True):
    out.append(tf.get_variable("v", [2, 4]) is v)
    out.append(tf.get_variable("v", [2, 4], partitioner=tf.fixed_size_partitioner(3, axis=1)) is v)
    out.append(error(lambda: tf.get_variable("v", [2, 4], partitioner=tf.fixed_size_partitioner(2, axis=1))))
    out.append(error(lambda: tf.get_variable("v", [2, 5])))
    out.append(error(lambda: tf.get_variable("u", [2, 4], partitioner=tf.fixed_size_partitioner(3, axis=1))))
out.append(error(lambda: tf.get_variable("w", [5, 2])))
out.append(error(lambda: tf.get_variable("w", [5, 2], partitioner=tf.fixed_size_partitioner(2))))
def parts(*counts):
    return lambda shape, dtype: list(counts)
for bad in (parts(2), parts(0, 1), parts(2, 2), lambda shape, dtype: 3):
    out.append(error(lambda: tf.get_variable("t", [4, 4], initializer=z, partitioner=bad)))
out.append(error(lambda: tf.get_variable("t", [None, 4], initializer=z, partitioner=parts(1, 1))))
size = tf.TensorShape([1000, 10])
for p in (tf.variable_axis_size_partitioner(8000), tf.variable_axis_size_partitioner(8000, axis=1, max_shards=3),
          tf.variable_axis_size_partitioner(1), tf.variable_axis_size_partitioner(10**9),
          tf.min_max_variable_partitioner(10), tf.min_max_variable_partitioner(10, axis=1, min_slice_size=1000),
          tf.min_max_variable_partitioner(3, min_slice_size=1)):
    out.append([list(p(shape=size, dtype=t)) for t in (tf.float32, tf.float64, tf.string)])
out.append(error(lambda: tf.min_max_variable_partitioner(3, axis=2)(shape=size, dtype=tf.float32)))
out.append([v.name for v in tf.create_partitioned_variables([4, 2], [2, 1], z, name="old")])
out.append([v.name for v in tf.create_partitioned_variables([4, 2], [2, 1], z)])
""",
    "protos": """
v = tf.Variable([1.0], name="v")
r = tf.Variable([1.0], name="r", use_resource=True, trainable=False)
with tf.name_scope("s"):
    w = tf.Variable([1.0], name="w")
for x in (v, r, w):
    p = x.to_proto()
    out.append([p.variable_name, p.initializer_name, p.snapshot_name, p.initial_value_name, p.is_resource, p.trainable])
p = w.to_proto("s")
out.append([p.variable_name, p.initializer_name, p.snapshot_name, p.initial_value_name])
out.append(v.to_proto("s") is None)
for x in (v, w):
    y = tf.Variable.from_proto(x.to_proto())
    out.append([y.name, y.initializer.name, y.initial_value.name, y.trainable, y.dtype.name])
y = tf.Variable(variable_def=p, import_scope="s")
out.append([y.name, y.initializer.name])
""",
    "reports": """
v = tf.Variable([1.0], name="v")
r = tf.Variable([1.0], name="r", use_resource=True)
out.append(tf.report_uninitialized_variables().dtype.name)
tf.assert_variables_initialized()
tf.assert_variables_initialized([v])
out.append(tf.report_uninitialized_variables([]).shape.as_list())
out.append(tf.report_uninitialized_variables([v], name="mine").name.split("/")[0])
""",
    "groups": """
a = tf.constant(1.0)
with tf.device("/gpu:0"):
    b = tf.constant(2.0)
v = tf.Variable(1.0, name="v")
tf.group()
tf.group(a, b)
tf.group(a, v.initializer, name="g")
tf.group([a, [v.op]], a)
tf.tuple([a, None, v.initializer, b], control_inputs=[v.op])
tf.tuple([a, v], name="t")
out.append(error(lambda: tf.group(a, other=3)))
out.append(error(lambda: tf.group(None)))
out.append(error(lambda: tf.tuple([])))
out.append(error(lambda: tf.tuple([a], control_inputs=[3])))
""",
    "initializers": """
tf.set_random_seed(7)
for name, f in (
    ("uniform", tf.random_uniform_initializer(-1.0, 1.0, seed=3)),
    ("integers", tf.random_uniform_initializer(0, 9, dtype=tf.int32)),
    ("normal", tf.random_normal_initializer(1.0, 2.0)),
    ("truncated", tf.truncated_normal_initializer(stddev=0.1)),
    ("unit", tf.uniform_unit_scaling_initializer(1.4)),
    ("scaling", tf.variance_scaling_initializer()),
    ("scaling_out", tf.variance_scaling_initializer(2.0, "fan_out", "uniform")),
    ("scaling_avg", tf.variance_scaling_initializer(2.0, "fan_avg", "untruncated_normal")),
    ("glorot", tf.glorot_uniform_initializer(seed=2)),
    ("glorot_normal", tf.glorot_normal_initializer()),
    ("he", tf.initializers.he_normal()),
    ("he_uniform", tf.initializers.he_uniform()),
    ("lecun", tf.initializers.lecun_normal()),
    ("lecun_uniform", tf.initializers.lecun_uniform(seed=1)),
):
    tf.get_variable(name, [3, 3, 4, 8], initializer=f, dtype=tf.int32 if name == "integers" else tf.float32)
    config = f.get_config()
    out.append([name, {k: config[k] for k in sorted(config)}])
tf.get_variable("default", [4, 5])
tf.get_variable("vector", [4])
tf.get_variable("scalar", [])
tf.get_variable("big", [6, 8], initializer=tf.glorot_uniform_initializer(), partitioner=tf.fixed_size_partitioner(2))
for op in g.get_operations():
    if "seed" in op.node_def.attr and op.name.split("/")[0] in ("uniform", "glorot", "lecun_uniform"):
        out.append([op.name, op.get_attr("seed"), op.get_attr("seed2")])
out.append(error(lambda: tf.variance_scaling_initializer(0.0)))
out.append(error(lambda: tf.variance_scaling_initializer(mode="x")))
out.append(error(lambda: tf.variance_scaling_initializer(distribution="x")))
out.append(error(lambda: tf.random_normal_initializer(dtype=tf.int32)))
out.append(error(lambda: tf.constant_initializer({})))
out.append(error(lambda: tf.get_variable("o", [4], initializer=tf.orthogonal_initializer())))
out.append(error(lambda: tf.get_variable("o", [4], initializer=tf.initializers.identity())))
""",
    "seeds": """
def seeds(op_seed):
    return [None if x is None else int(x) for x in tf.get_seed(op_seed)]
out.append([seeds(None), seeds(5), seeds(0), seeds(2**31 + 3)])
tf.set_random_seed(0)
out.append([seeds(None), seeds(5), seeds(0), seeds(-1)])
tf.set_random_seed(2**33 + 1)
out.append([seeds(0), seeds(1)])
""",
}


def nodes(graph):
    """What the graph holds, as JSON."""
    found = []
    for op in graph.get_operations():
        attr = op.node_def.attr
        if "/boolean_mask/" in op.name:
            continue
        groups = [group.decode() for group in op.get_attr("_class")] if "_class" in attr else None
        kind = "Add" if op.type == "AddV2" else op.type
        row = [op.name, kind, [t.name for t in op.inputs], sorted(c.name for c in op.control_inputs), groups]
        row.append("" if op.type == "ReadVariableOp" else op.device)
        if op.type in ("VariableV2", "VarHandleOp"):
            shape = attr["shape"].shape
            size = None if shape.unknown_rank else [d.size for d in shape.dim]
            row.append([size, int(attr["dtype"].type), attr["container"].s.decode(), attr["shared_name"].s.decode()])
        found.append(row)
    return found


def run(source, tf, np):
    """The program's `out` and nodes."""

    def error(function):
        try:
            return function()
        except Exception as problem:
            return type(problem).__name__

    out = []
    with tf.Graph().as_default() as g:
        exec(source, {"tf": tf, "np": np, "g": g, "out": out, "error": error})
        return {"out": out, "nodes": nodes(g)}


if __name__ == "__main__":
    import numpy
    import tensorflow.compat.v1 as tensorflow

    tensorflow.disable_v2_behavior()
    with open(sys.argv[1], "w") as file:
        rows = [
            json.dumps(name) + ": " + json.dumps({"source": source, **run(source, tensorflow, numpy)})
            for name, source in CASES.items()
        ]
        file.write("{\n" + ",\n".join(rows) + "\n}\n")
