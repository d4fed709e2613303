"""Record what TensorFlow's graphs do with names, scopes, control edges, devices and collections.

Run with an interpreter that has TensorFlow: `python tools/golden/graphs/graph_scopes.py
tests/golden/graph_scopes.json`. A case is a program that uses `tf`, a new default graph `g`, and `out`, to which it
appends; the tests run the same program. `error(f)` is the name of the class of what `f()` raises, or what it returns.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

CASES = {
    "unique_names": """
for name in ["a", "a", "A", "a_1", "a", "a_1", "b/c", "b/c", "B/C", "x.y", "x-y", "x>y"]:
    out.append(tf.no_op(name=name).name)
out.append(g.unique_name("a"))
out.append(g.unique_name("a", mark_as_used=False))
out.append(g.unique_name("a", mark_as_used=False))
out.append(g.unique_name("new", mark_as_used=False))
out.append(g.unique_name("new"))
out.append(tf.no_op(name="new").name)
""",
    "bad_names": """
for name in ["_a", "-a", "a b", "a:0", "^a", "", "a//b", "/a", "a/", "é", "a\\\\b"]:
    out.append(error(lambda: tf.no_op(name=name).name))
for name in ["_a", "-a", "a b", "a:0", "/a", "a\\\\b", "a>b"]:
    def enter():
        with g.name_scope(name) as scope:
            return scope
    out.append(error(enter))
with g.name_scope("outer"):
    for name in ["_a", "-a", "a b", "a:0", "a//b"]:
        out.append(error(enter))
    out.append(tf.no_op(name="_inner").name)
""",
    "name_scopes": """
with g.name_scope("s") as a:
    out.append([a, tf.no_op(name="x").name, g.get_name_scope()])
    with g.name_scope("t") as b:
        out.append([b, tf.no_op(name="x").name])
        with g.name_scope(a) as c:
            out.append([c, tf.no_op(name="x").name])
        with g.name_scope(None) as c:
            out.append([c, tf.no_op(name="x").name])
        with g.name_scope("") as c:
            out.append([c, tf.no_op(name="x").name])
with g.name_scope("s") as d:
    out.append([d, tf.no_op(name="x").name])
with g.name_scope("S") as d:
    out.append([d, tf.no_op(name="x").name])
with g.name_scope("s/") as d:
    out.append([d, tf.no_op(name="x").name, tf.no_op(name=d).name])
with g.name_scope("fresh/") as d:
    out.append([d, tf.no_op(name=d).name, tf.no_op(name="y").name])
with g.name_scope("deep/er") as d:
    out.append([d, tf.no_op(name="y").name])
out.append(tf.no_op(name="deep").name)
out.append(tf.no_op(name="s").name)
""",
    "name_of_constants": """
x = tf.placeholder(tf.float32, [2])
y = x + 1.0
z = x * 2.0 + 3.0
w = tf.identity(1.0)
v = tf.add(x, 1.0, name="sum")
with tf.name_scope("s"):
    u = x - 1.0
n = tf.convert_to_tensor([x, 1.0 * x])
out.extend(op.name for op in g.get_operations())
""",
    "scope_with_default_name": """
with tf.name_scope("given", "default", [tf.constant(1.0)]) as s:
    out.append(s)
with tf.name_scope(None, "default", [tf.constant(1.0)]) as s:
    out.append(s)
with tf.name_scope(None, "default") as s:
    out.append(s)
with tf.name_scope("") as s:
    out.append(s)
""",
    "control_dependencies": """
a, b, c = (tf.constant(1.0, name=n) for n in "abc")
def controls(op):
    return [op.name, sorted(item.name for item in op.control_inputs)]
with tf.control_dependencies([a, b]):
    out.append(controls(tf.no_op(name="n1")))
    d = tf.identity(c, name="d")
    out.append(controls(d.op))
    e = tf.identity(d, name="e")
    out.append(controls(e.op))
    f = tf.identity(a, name="f")
    out.append(controls(f.op))
    with tf.control_dependencies([c]):
        out.append(controls(tf.no_op(name="n2")))
        out.append(controls(tf.identity(d, name="h").op))
        with tf.control_dependencies([a, c, d]):
            out.append(controls(tf.no_op(name="n3")))
        with tf.control_dependencies(None):
            out.append(controls(tf.no_op(name="n4")))
            with tf.control_dependencies([b.op]):
                out.append(controls(tf.no_op(name="n5")))
                out.append(controls(tf.identity(e, name="e2").op))
        out.append(controls(tf.no_op(name="n6")))
with tf.control_dependencies([]):
    out.append(controls(tf.no_op(name="n7")))
out.append(error(lambda: g.control_dependencies([1.5]).__enter__()))
""",
    "devices": """
def device(op):
    return [op.name, op.device]
with tf.device("/job:w/task:3"):
    out.append(device(tf.no_op(name="a")))
    with tf.device("/gpu:1"):
        out.append(device(tf.no_op(name="b")))
        with tf.device("/task:2"):
            out.append(device(tf.no_op(name="c")))
        with tf.device(None):
            out.append(device(tf.no_op(name="d")))
            with tf.device("/cpu:0"):
                out.append(device(tf.no_op(name="e")))
    with tf.device(lambda op: "/cpu:0" if op.type == "NoOp" else "/gpu:0"):
        out.append(device(tf.no_op(name="f")))
        out.append(device(tf.constant(1.0, name="g").op))
        with tf.device("/device:GPU:7"):
            out.append(device(tf.no_op(name="h")))
    with tf.device(lambda op: op.device):
        out.append(device(tf.no_op(name="i")))
out.append(device(tf.no_op(name="j")))
""",
    "colocation": """
def told(op):
    return [op.name, op.device, sorted(item.decode() for item in op.colocation_groups())]
with tf.device("/job:ps/task:1"):
    a = tf.constant(1.0, name="a")
b = tf.constant(1.0, name="b")
with tf.colocate_with(a):
    c = tf.identity(b, name="c")
    out.append(told(c.op))
    with tf.colocate_with(b):
        out.append(told(tf.no_op(name="d")))
    with tf.colocate_with(b, ignore_existing=True):
        out.append(told(tf.no_op(name="e")))
    with tf.device("/cpu:0"):
        out.append(told(tf.no_op(name="f")))
with tf.colocate_with(c):
    out.append(told(tf.no_op(name="g")))
with tf.device("/job:w"):
    with tf.colocate_with(b):
        out.append(told(tf.no_op(name="h")))
    with tf.colocate_with(None, ignore_existing=True):
        out.append(told(tf.no_op(name="i")))
out.append(told(a.op))
""",
    "collections": """
g.add_to_collection("k", 1)
g.add_to_collections(["k", "l", "k"], 2)
g.add_to_collections("word", 3)
out.append([g.get_collection("k"), g.get_collection("l"), g.get_collection("word"), g.get_collection("none")])
g.get_collection("k").append(9)
out.append(g.get_collection("k"))
g.get_collection_ref("k").append(9)
out.append(g.get_collection("k"))
x, y = tf.constant(1.0, name="x"), tf.constant(1.0, name="sub/x")
for item in (x, y, 3):
    g.add_to_collection("t", item)
out.append([len(g.get_collection("t", "sub")), len(g.get_collection("t", "x")), len(g.get_collection("t", ".*x"))])
out.append(sorted(g.get_all_collection_keys()))
g.clear_collection("k")
out.append(g.get_collection("k"))
""",
    "elements": """
a = tf.constant(1.0, name="a")
n = tf.no_op(name="n")
other = tf.Graph()
with other.as_default():
    foreign = tf.constant(1.0)
def kind(obj, tensor=True, operation=True):
    found = g.as_graph_element(obj, allow_tensor=tensor, allow_operation=operation)
    return found.name
for obj in ["a", "a:0", "a:1", "b", "b:0", "a:x", ":0", "n", "n:0", b"a", a, n, foreign, foreign.op, 1.0, None, [a]]:
    for tensor, operation in [(True, True), (True, False), (False, True), (False, False)]:
        out.append(error(lambda: kind(obj, tensor, operation)))
for name in ["a", "a:0", 3]:
    out.append(error(lambda: g.get_operation_by_name(name).name))
    out.append(error(lambda: g.get_tensor_by_name(name).name))
""",
    "finalized": """
a = tf.constant(1.0)
out.append(g.finalized)
g.finalize()
out.append(g.finalized)
out.append(error(lambda: tf.constant(1.0)))
out.append(error(lambda: g.add_to_collection("k", 1)))
out.append(g.get_collection("k"))
""",
    "default_graph": """
out.append(tf.get_default_graph() is g)
h = tf.Graph()
with h.as_default():
    out.append(tf.get_default_graph() is h)
    with g.as_default() as again:
        out.append(again is g)
out.append(error(tf.reset_default_graph))
with h.as_default():
    b = tf.constant(1.0)
out.append(error(lambda: tf.add(tf.constant(1.0), b)))
""",
    "gradient_override": """
with g.gradient_override_map({"Identity": "Mine"}):
    a = tf.identity(1.0)
    b = tf.negative(1.0)
    with g.gradient_override_map({"Neg": "Other"}):
        c = tf.negative(1.0)
        d = tf.identity(c)
e = tf.identity(1.0)
for t in (a, b, c, d, e):
    out.append(error(lambda: t.op.get_attr("_gradient_op_type").decode()))
out.append(error(lambda: g.gradient_override_map({1: "x"}).__enter__()))
out.append(error(lambda: g.gradient_override_map(["x"]).__enter__()))
""",
    "import_names": """
with tf.Graph().as_default() as source:
    a = tf.constant(1.0, name="a")
    with tf.name_scope("s"):
        tf.identity(a, name="b")
    with tf.colocate_with(a):
        tf.identity(a, name="c")
proto = source.as_graph_def()
tf.constant(1.0, name="a")
for name in [None, None, "", "", "p", "p", "p/", "q/r"]:
    before = len(g.get_operations())
    tf.import_graph_def(proto, name=name)
    new = g.get_operations()[before:]
    out.append([[op.name, [i.name for i in op.inputs], [c.decode() for c in op.colocation_groups()]] for op in new])
with tf.name_scope("outer"):
    for name in [None, "", "p"]:
        before = len(g.get_operations())
        tf.import_graph_def(proto, name=name)
        out.append([op.name for op in g.get_operations()[before:]])
out.append(tf.no_op(name="import/a").name)
out.append(tf.no_op(name="s").name)
with tf.name_scope("s") as scope:
    out.append(scope)
""",
    "import_scopes": """
with tf.Graph().as_default() as source:
    a = tf.constant(1.0, name="a")
    with tf.device("/job:ps"):
        b = tf.identity(a, name="b")
    with tf.colocate_with(b):
        tf.identity(a, name="c")
proto = source.as_graph_def()
x, y = tf.constant(2.0, name="x"), tf.constant(2.0, name="y")
with tf.device("/job:w/task:2/gpu:0"), tf.control_dependencies([y]):
    found = tf.import_graph_def(proto, input_map={"a:0": x}, return_elements=["a", "a:0", "b:0", "c"], name="i")
out.append([item.name for item in found])
for op in g.get_operations():
    out.append([op.name, op.device, [t.name for t in op.inputs], sorted(c.name for c in op.control_inputs),
                [c.decode() for c in op.colocation_groups()]])
""",
    "import_errors": """
with tf.Graph().as_default() as source:
    a = tf.constant(1.0, name="a")
    b = tf.identity(a, name="b")
def edited(change):
    proto = source.as_graph_def()
    change(proto)
    return proto
def attempt(change=lambda proto: None, **kw):
    return error(lambda: tf.import_graph_def(edited(change), **kw))
def node(i):
    return lambda proto: proto.node[i]
out.append(attempt(lambda p: p.node[1].input.__setitem__(0, "nope")))
out.append(attempt(lambda p: p.node[1].input.__setitem__(0, "a:1")))
out.append(attempt(lambda p: p.node[1].input.append("^nope")))
out.append(attempt(lambda p: p.node[1].input.append("a")))
out.append(attempt(lambda p: p.node[1].input.__delitem__(0)))
out.append(attempt(lambda p: setattr(p.node[1], "name", "a")))
out.append(attempt(lambda p: p.node[1].attr.__delitem__("T")))
out.append(attempt(lambda p: setattr(p.node[1].attr["T"], "type", 3)))
out.append(attempt(lambda p: p.node[1].attr["_class"].list.s.append(b"loc:@nope")))
out.append(attempt(input_map={"nope:0": 1.0}))
out.append(attempt(input_map={"a:0": 1.0}, name=""))
out.append(attempt(input_map={"a:0": tf.constant(1)}))
out.append(attempt(input_map=[1]))
out.append(attempt(return_elements=["nope"]))
out.append(attempt(return_elements=["a:1"]))
out.append(attempt(return_elements=[1]))
out.append(error(lambda: tf.import_graph_def("text")))
out.append(attempt(lambda p: p.node[1].input.__setitem__(0, "b")))
""",
}


def error(function):
    """What the function returns, or the name of the class of what it raises."""
    try:
        return function()
    except Exception as problem:
        return type(problem).__name__


def main(path):
    """Write the cases with what TensorFlow makes of them."""
    found = {}
    for name, source in CASES.items():
        out = []
        with tf.Graph().as_default() as g:
            exec(source, {"tf": tf, "g": g, "out": out, "error": error})
        found[name] = {"source": source.strip().splitlines(), "out": out}
    with open(path, "w") as file:
        json.dump(found, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
