"""Record which operations TensorFlow makes for optimizers, averages, decays and clipping, and which values they give.

Run with an interpreter that has TensorFlow 1.15: `python tools/golden/training/training.py tests/golden/training.json`.
TensorFlow 2's interface of version 1 gives the same values, and other operations in three places: FTRL's sums start
from an initialiser of their own, a sparse step on a resource variable multiplies with the optimizer's rate as a tensor,
and a reduction over all axes of a variable or an array has its axes as a constant.
A case is a program that uses `tf`, `np`, the default graph `g`, `out`, to which it appends, and these:
`error(f)`: the name of the class of what `f()` raises, or what it returns;
`values(fetches, feeds={})`: the values of a list of tensors, in the case's session, as nested lists;
`init()`: initialises all variables;
`session`: that session;
`mark()`: record only the nodes that follow;
`follow(op, fetches, counts)`: runs `op` up to each of the counts, and records the values of `fetches` there.
The tests run the same programs. Recorded are `out` and the nodes of the graph outside of the scope `gradients`: name,
type, inputs ('' where they come from what is not recorded), control inputs, colocation groups. Left out is what
versions of TensorFlow differ in: whether an addition is Add or AddV2.
"""

import json
import os
import re
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

OPTIMIZERS = {
    "GradientDescent": "GradientDescentOptimizer(0.1)",
    "Momentum": "MomentumOptimizer(0.1, 0.9)",
    "Nesterov": "MomentumOptimizer(0.1, 0.9, use_nesterov=True)",
    "Adagrad": "AdagradOptimizer(0.3)",
    "Adadelta": "AdadeltaOptimizer(0.5, rho=0.8, epsilon=1e-3)",
    "RMSProp": "RMSPropOptimizer(0.05, momentum=0.5)",
    "CenteredRMSProp": "RMSPropOptimizer(0.05, decay=0.8, momentum=0.5, epsilon=0.1, centered=True)",
    "Adam": "AdamOptimizer(0.05)",
    "Ftrl": "FtrlOptimizer(0.3, l1_regularization_strength=0.05, l2_regularization_strength=0.1)",
    "FtrlShrinkage": "FtrlOptimizer(0.3, l2_shrinkage_regularization_strength=0.1, learning_rate_power=-0.6)",
    "ProximalGradientDescent": "ProximalGradientDescentOptimizer(0.1, 0.05, 0.1)",
    "ProximalAdagrad": "ProximalAdagradOptimizer(0.3, 0.2, 0.05, 0.1)",
}
# What versions of TensorFlow after 1.15 add to FTRL for an argument `beta` that is 0 here.
ADDED = re.compile(r"(Ftrl|F)/((Maximum|mul|truediv|add|beta)(/[xy])?|l2_regularization_strength)")
VARIABLES = ("VariableV2", "VarHandleOp")
LOSSES = {
    "dense": """
x = tf.constant([[1.0, -0.5, 0.25], [0.5, 2.0, -1.0]])
loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + b - 1.0))
""",
    "sparse": """
loss = tf.reduce_sum(tf.square(tf.gather(w, [2, 0, 2], name="rows") * [[1.0], [2.0], [-0.5]] + b - 1.0))
""",
}
OPTIMIZER = """
w = tf.get_variable("w", initializer=np.array([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]], np.float32), use_resource=%s)
b = tf.get_variable("b", initializer=np.array([0.1, -0.2], np.float32), use_resource=%s)
%s
mark()
step = tf.train.get_or_create_global_step()
optimizer = tf.train.%s
pairs = optimizer.compute_gradients(loss)
out.append([["slices" if hasattr(grad, "indices") else "tensor", v.op.name] for grad, v in pairs])
train = optimizer.apply_gradients(pairs, global_step=step)
out.append([train.name, train.type, optimizer.get_name(), optimizer.get_slot_names()])
out.append([v.name for v in optimizer.variables()])
out.append([[v.name, v.dtype.name, v.shape.as_list(), v.trainable] for v in tf.global_variables()])
out.append([v.name for v in tf.trainable_variables()])
out.append([getattr(optimizer.get_slot(v, s), "name", None) for s in optimizer.get_slot_names() for v in (w, b, step)])
out.append([op.name for op in tf.get_collection(tf.GraphKeys.TRAIN_OP)])
init()
follow(train, tf.global_variables(), [1, 2, 5])
"""

CASES = {
    **{
        f"{name} {kind} {'resource' if resource else 'ref'}": OPTIMIZER
        % (resource, resource, LOSSES[kind].strip(), call)
        for name, call in OPTIMIZERS.items()
        for kind in LOSSES
        for resource in (False, True)
    },
    "minimize": """
for resource in (False, True):
    with tf.variable_scope("resource" if resource else "ref", use_resource=resource):
        v = tf.get_variable("v", initializer=[1.0, 2.0])
        u = tf.get_variable("u", initializer=[3.0])
        unused = tf.get_variable("unused", initializer=[3.0])
    loss = tf.reduce_sum(v * v) * u
    step = tf.Variable(0, trainable=False, name="step", use_resource=resource)
    optimizer = tf.train.GradientDescentOptimizer(0.1, name="SGD")
    ops = [
        optimizer.minimize(loss, step, var_list=[v]),
        optimizer.minimize(loss, var_list=[v, unused], gate_gradients=optimizer.GATE_NONE, name="none"),
        optimizer.minimize(loss, var_list=(v, u), gate_gradients=optimizer.GATE_GRAPH, name="graph"),
        optimizer.minimize(loss, step, var_list=[u], grad_loss=tf.constant([0.5]), name="scaled"),
        optimizer.minimize(loss, var_list=[v], aggregation_method=tf.AggregationMethod.EXPERIMENTAL_TREE),
        optimizer.minimize(loss, var_list={"a": v, "b": [u]}, colocate_gradients_with_ops=True, name="placed"),
    ]
    out.append([[op.name, op.type] for op in ops])
    init()
    for op in ops:
        values([op])
        out.append(values([v, u, step, unused]))
out.append([op.name for op in tf.get_collection(tf.GraphKeys.TRAIN_OP)])
""",
    "gates": """
v = tf.get_variable("v", initializer=[1.0, 2.0])
u = tf.get_variable("u", initializer=[3.0, 1.0])
loss = tf.reduce_sum(v * u)
optimizer = tf.train.GradientDescentOptimizer(1.0)
for gate in (0, 1, 2):
    pairs = optimizer.compute_gradients(loss, gate_gradients=gate)
    out.append([[t.op.type for t, _ in pairs], [v.name for _, v in pairs]])
init()
both = optimizer.minimize(loss, gate_gradients=2)
values([both])
out.append(values([v, u]))
""",
    "slots": """
for resource in (False, True):
    v = tf.Variable([1.0, 2.0], name="v", use_resource=resource)
    p = tf.placeholder_with_default(tf.constant([1.0, 2.0]), [None])
    unknown = tf.Variable(p, validate_shape=False, name="unknown", use_resource=resource)
    loss = tf.reduce_sum(v * 2.0) + tf.reduce_sum(unknown)
    op = tf.train.FtrlOptimizer(0.1, name="F", accum_name="acc", linear_name="lin").minimize(loss, var_list=[v])
    for optimizer in (tf.train.MomentumOptimizer(0.1, 0.9, name="M"), tf.train.AdamOptimizer(0.1, name="Ad"),
                      tf.train.RMSPropOptimizer(0.1, name="R"), tf.train.AdamOptimizer(0.1, name="Ad")):
        op = optimizer.minimize(loss)
        slots = optimizer.get_slot_names()
        out.append([op.name, slots, [[optimizer.get_slot(x, s).name for s in slots] for x in (v, unknown)]])
        out.append([x.name for x in optimizer.variables()])
        out.append([optimizer.get_slot(v, "none"), optimizer.get_slot(unknown, slots[0]).shape.as_list()
                    if optimizer.get_slot(unknown, slots[0]).shape.ndims is not None else None])
        init()
        values([op])
        out.append(values(optimizer.variables() + [v, unknown]))
    second = optimizer.minimize(tf.reduce_sum(v), name="second")
    out.append([second.name, [x.name for x in optimizer.variables()]])
mark()
""",
    "partitions": """
for resource in (False, True):
    with tf.variable_scope("resource" if resource else "ref", use_resource=resource):
        w = tf.get_variable("w", [4, 2], initializer=tf.ones_initializer(), partitioner=tf.fixed_size_partitioner(2))
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(w, [3, 0, 3]))) + tf.reduce_sum(w)
    mark()
    optimizer = tf.train.AdagradOptimizer(0.1)
    pairs = optimizer.compute_gradients(loss, var_list=list(w))
    out.append([v.name for _, v in pairs])
    train = optimizer.apply_gradients(pairs)
    out.append([[v.name, v._save_slice_info.spec if v._save_slice_info else None,
                 v._save_slice_info.full_name if v._save_slice_info else None] for v in optimizer.variables()])
    init()
    values([train])
    out.append(values(list(w)))
""",
    "constraints": """
for resource in (False, True):
    v = tf.Variable([1.0, -2.0], name="v", use_resource=resource, constraint=lambda x: tf.clip_by_value(x, -1.5, 0.5))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    train = optimizer.minimize(tf.reduce_sum(v), var_list=[v])
    out.append([train.name, sorted(op.name for op in train.control_inputs)])
    init()
    values([train])
    out.append(values([v]))
    out.append(error(lambda: optimizer.minimize(tf.reduce_sum(tf.gather(v, [0])), var_list=[v])))
""",
    "tensors": """
rate = tf.placeholder_with_default(0.5, [])
v = tf.Variable([1.0, 2.0], name="v")
d = tf.Variable([1.0, 2.0], name="d", dtype=tf.float64)
h = tf.Variable([1.0, 2.0], name="h", dtype=tf.float16, use_resource=True)
loss = tf.reduce_sum(v) + tf.cast(tf.reduce_sum(d), tf.float32) + tf.cast(tf.reduce_sum(h), tf.float32)
for optimizer in (tf.train.GradientDescentOptimizer(rate), tf.train.MomentumOptimizer(rate, lambda: 0.5),
                  tf.train.AdamOptimizer(lambda: rate, beta1=rate), tf.train.RMSPropOptimizer(rate),
                  tf.train.AdagradOptimizer(rate), tf.train.AdadeltaOptimizer(rate), tf.train.FtrlOptimizer(rate)):
    train = optimizer.minimize(loss)
    init()
    values([train])
    out.append(values([v, d, h]))
""",
    "clipping": """
inf, nan = float("inf"), float("nan")
x = tf.constant([[3.0, 4.0], [0.0, 0.5]])
slices = tf.IndexedSlices(tf.constant([[3.0, 4.0], [0.0, 0.5]]), tf.constant([0, 2]), tf.constant([3, 2]))
p = tf.placeholder_with_default(x, None)
mark()
for limit in (0.5, 5.0, 100.0, tf.constant(2.0)):
    a, b = tf.clip_by_norm(x, limit), tf.clip_by_average_norm(x, limit)
    out.append([values([a, b]), a.shape.as_list(), b.shape.as_list()])
out.append(values([tf.clip_by_norm(x, 1.0, axes=[0]), tf.clip_by_norm(x, 1.0, axes=[1]), tf.clip_by_norm(x, 1.0, 1)]))
out.append(values([tf.clip_by_norm(tf.zeros([2]), 1.0), tf.clip_by_norm([inf, 1.0], 1.0), tf.clip_by_norm([nan], 1.0)]))
out.append(values([tf.clip_by_norm(p, 1.0), tf.clip_by_norm(x, 1.0, name="mine")]))
clipped = tf.clip_by_norm(slices, 1.0)
out.append([clipped.values.name, values([clipped.values, clipped.indices, clipped.dense_shape])])
out.append([tf.clip_by_norm(x, 1.0).name, tf.clip_by_norm(x, 1.0, name="other").name])
out.append(values(tf.gradients(tf.clip_by_norm(tf.zeros([2]) * x, 1.0), x)))
out.append(values(tf.gradients(tf.clip_by_norm(x, 1.0), x)))
norm = tf.global_norm([x, None, slices, tf.constant([1.0])])
out.append([norm.name, values([norm])])
for limit, tensors in ((1.0, [x, None, slices]), (100.0, [x, slices]), (1.0, [tf.constant([inf, 1.0]), x]),
                       (1.0, [tf.constant([nan]), tf.constant([2.0])]), (1.0, [tf.zeros([2]), tf.zeros([3])]),
                       (0.0, [x]), (tf.constant(2.0), [p, x, x])):
    clipped, norm = tf.clip_by_global_norm(tensors, limit)
    shown = [c if c is None else c.values if hasattr(c, "indices") else c for c in clipped]
    out.append([None if c is None else c.name for c in shown])
    out.append([values([c for c in shown if c is not None]), values([norm]), norm.name])
clipped, norm = tf.clip_by_global_norm([x, x], 1.0, use_norm=tf.constant(2.0), name="given")
out.append([values(clipped), norm.name])
d = tf.constant([3.0, 4.0], tf.float64)
out.append(values([tf.clip_by_norm(d, 1.0), tf.global_norm([d])]))
out.append(values(tf.clip_by_global_norm([d], 1.0)[0]))
h = tf.constant([3.0, 4.0], tf.float16)
out.append(values([tf.clip_by_norm(h, 1.0), tf.global_norm([h])] + tf.clip_by_global_norm([h], 1.0)[0]))
out.append(error(lambda: tf.global_norm(x)))
out.append(error(lambda: tf.clip_by_global_norm(3.0, 1.0)))
out.append(error(lambda: tf.clip_by_norm("text", 1.0)))
mark()
""",
    "decays": """
step = tf.Variable(0, trainable=False, name="step")
f = tf.train
decays = [
    f.exponential_decay(0.1, step, 10, 0.9),
    f.exponential_decay(0.1, step, 10, 0.9, staircase=True, name="stairs"),
    f.natural_exp_decay(0.1, step, 10, 0.9),
    f.natural_exp_decay(0.1, step, 10, 0.9, staircase=True),
    f.inverse_time_decay(0.1, step, 10, 0.5),
    f.inverse_time_decay(0.1, step, 10, 0.5, staircase=True),
    f.polynomial_decay(0.1, step, 30),
    f.polynomial_decay(0.1, step, 30, 0.01, 0.5),
    f.polynomial_decay(0.1, step, 10, 0.01, 2.0, cycle=True),
    f.piecewise_constant(step, [10, 25], [1.0, 0.5, 0.1]),
    f.piecewise_constant(tf.cast(step, tf.float32), [10.5, 25.0], [3, 2, 1]),
    f.piecewise_constant(tf.cast(step, tf.int64), [10, 25], tf.unstack(tf.constant([1.0, 0.5, 0.1], tf.float64))),
    f.cosine_decay(0.1, step, 30),
    f.cosine_decay(0.1, step, 30, alpha=0.25),
    f.cosine_decay_restarts(0.1, step, 7),
    f.cosine_decay_restarts(0.1, step, 7, t_mul=1.5, m_mul=0.8, alpha=0.1),
    f.cosine_decay_restarts(0.1, step, 7, t_mul=1.0, m_mul=0.5),
    f.cosine_decay_restarts(0.1, step, tf.constant(7), tf.constant(1.5), tf.constant(0.5), tf.constant(0.25)),
    f.linear_cosine_decay(0.1, step, 30),
    f.linear_cosine_decay(0.1, step, 30, num_periods=1.5, alpha=0.1, beta=0.2),
    f.exponential_decay(tf.constant(0.1, tf.float64), tf.cast(step, tf.int64), tf.constant(10), 0.9),
    f.polynomial_decay(tf.constant(0.5), step, tf.constant(20.0), tf.constant(0.1), tf.constant(1.5)),
]
noisy = f.noisy_linear_cosine_decay(0.1, step, 30, initial_variance=0.0)
out.append([[t.name if "Piecewise" not in t.name else "", t.dtype.name, t.shape.as_list()] for t in decays + [noisy]])
init()
for number in (0, 1, 7, 10, 11, 20, 25, 26, 30, 31, 100):
    out.append([number, values(decays + [noisy], {step: number})])
rate = f.exponential_decay(1.0, step, 1, 0.5)
train = tf.train.GradientDescentOptimizer(rate).minimize(tf.Variable(0.0, name="v") * 1.0, global_step=step)
init()
follow(train, tf.global_variables() + [rate], [1, 2, 5])
for call in (lambda: f.exponential_decay(0.1, None, 10, 0.9), lambda: f.natural_exp_decay(0.1, None, 10, 0.9),
             lambda: f.inverse_time_decay(0.1, None, 10, 0.9), lambda: f.polynomial_decay(0.1, None, 10),
             lambda: f.cosine_decay(0.1, None, 10), lambda: f.cosine_decay_restarts(0.1, None, 10),
             lambda: f.linear_cosine_decay(0.1, None, 10), lambda: f.noisy_linear_cosine_decay(0.1, None, 10),
             lambda: f.piecewise_constant(step, [1, 2], [1.0, 2.0]),
             lambda: f.piecewise_constant(step, [1.5], [1.0, 2.0]), lambda: f.piecewise_constant(step, [1], [1.0, 2])):
    found = error(call)
    out.append(found if isinstance(found, str) else "fine")
mark()
""",
    "averages": """
for resource in (False, True):
    v = tf.Variable([1.0, 2.0], name="v", use_resource=resource)
    u = tf.Variable(10.0, name="u", dtype=tf.float64, use_resource=resource)
    other = tf.Variable([0.0], name="other", trainable=False)
    average = tf.train.ExponentialMovingAverage(0.9)
    op = average.apply([v, u])
    out.append([op.name, op.type, average.average(v).name, average.average(u).name, average.average(other)])
    out.append([average.average_name(v), average.average_name(other), average.average(u).dtype.base_dtype.name])
    out.append([x.name for x in tf.moving_average_variables()])
    out.append({k: x.name for k, x in sorted(average.variables_to_restore([v, u]).items())})
    out.append({k: x.name for k, x in sorted(average.variables_to_restore().items())})
    out.append([x.name for x in tf.global_variables() if x not in tf.trainable_variables()])
    change = tf.group(v.assign_add([1.0, -1.0]), u.assign_add(5.0))
    init()
    out.append(values([average.average(v), average.average(u)]))
    for _ in range(3):
        values([change])
        values([op])
        out.append(values([v, u, average.average(v), average.average(u)]))
    again = average.apply([v])
    out.append(again.name)
    values([again])
    out.append(values([average.average(v)]))
mark()
""",
    "average_updates": """
n = tf.Variable(0, trainable=False, name="n")
v = tf.Variable([1.0, 2.0], name="v")
x = tf.placeholder_with_default([2.0, 4.0], [2], name="x")
y = tf.square(v, name="y")
plain = tf.train.ExponentialMovingAverage(0.9, name="plain")
counted = tf.train.ExponentialMovingAverage(0.99, num_updates=n, name="counted")
fixed = tf.train.ExponentialMovingAverage(0.99, num_updates=3)
debiased = tf.train.ExponentialMovingAverage(0.9, zero_debias=True, name="debiased")
mark()
op = tf.group(plain.apply([v, x, y]), counted.apply([v]), fixed.apply(), debiased.apply([v, x]), n.assign_add(1))
out.append([a.name for a in (plain, counted, fixed, debiased)])
shown = [plain.average(v), plain.average(x), plain.average(y), counted.average(v), fixed.average(v),
         debiased.average(v), debiased.average(x)]
out.append([a.name for a in shown])
out.append(sorted(a.name for a in tf.global_variables()))
out.append([debiased.average_name(x), plain.average_name(y), plain.average_name(n)])
init()
values([v.assign([3.0, 0.0])])
out.append(values(shown))
for _ in range(4):
    values([op], {x: [1.0, 5.0]})
    out.append(values(shown))
out.append(error(lambda: plain.apply([n])))
out.append(error(lambda: plain.apply([tf.constant([1])])))
mark()
""",
    "half_averages": """
h = tf.Variable([1.0, 2.0], name="h", dtype=tf.float16)
average = tf.train.ExponentialMovingAverage(0.5)
op = average.apply([h])
init()
values([h.assign([3.0, 3.0])])
for _ in range(3):
    values([op])
    out.append(values([average.average(h)]))
mark()
""",
    "averages_of_optimized": """
v = tf.Variable([1.0, 2.0], name="v")
step = tf.train.get_or_create_global_step()
train = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(tf.square(v)), global_step=step)
average = tf.train.ExponentialMovingAverage(0.9, num_updates=step)
with tf.control_dependencies([train]):
    op = average.apply(tf.trainable_variables())
init()
follow(op, [v, step, average.average(v)], [1, 2, 5])
mark()
""",
    "step": """
out.append(tf.train.get_global_step())
mark()
step = tf.train.create_global_step()
out.append([step.name, step.dtype.name, step.shape.as_list(), step.trainable, step in tf.global_variables()])
out.append([len(tf.get_collection(tf.GraphKeys.GLOBAL_STEP)), tf.train.get_global_step() is step])
out.append([tf.train.get_or_create_global_step() is step, error(tf.train.create_global_step)])
other = tf.Graph()
made = tf.train.get_or_create_global_step(other)
out.append([made.graph is other, made.name, tf.train.get_global_step(other) is made])
out.append(tf.train.assert_global_step(step))
for bad in (3, tf.constant(1.0), tf.constant([1])):
    out.append(error(lambda: tf.train.assert_global_step(bad)))
with tf.Graph().as_default():
    by_name = tf.Variable(5, name="global_step", trainable=False)
    out.append(tf.train.get_global_step().name)
with tf.Graph().as_default():
    with tf.name_scope("scope"), tf.variable_scope("outer"):
        out.append(tf.train.get_or_create_global_step().name)
with tf.Graph().as_default():
    tf.Variable([5], name="global_step", trainable=False)
    out.append(error(tf.train.get_global_step))
with tf.Graph().as_default():
    tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, tf.Variable(1.0, name="x"))
    out.append(error(tf.train.get_global_step))
init()
out.append(tf.train.global_step(session, step))
values([step.assign_add(3)])
out.append(tf.train.global_step(session, step))
""",
    "errors": """
v = tf.Variable([1.0, 2.0], name="v")
i = tf.Variable([1, 2], name="i")
loss = tf.reduce_sum(v)
optimizer = tf.train.GradientDescentOptimizer(0.1)
calls = [
    lambda: tf.train.GradientDescentOptimizer(0.1, name=""),
    lambda: optimizer.minimize(tf.constant(1.0)),
    lambda: optimizer.minimize(tf.constant(1)),
    lambda: optimizer.minimize(loss, var_list=[i]),
    lambda: optimizer.minimize(loss, var_list=[]),
    lambda: optimizer.minimize(loss, gate_gradients=7),
    lambda: optimizer.minimize(loss, grad_loss=tf.constant(1)),
    lambda: optimizer.apply_gradients([]),
    lambda: optimizer.apply_gradients([(None, v)]),
    lambda: optimizer.apply_gradients([("text", v)]),
    lambda: optimizer.apply_gradients([(object(), v)]),
    lambda: optimizer.apply_gradients(3),
    lambda: optimizer.compute_gradients(loss, [tf.constant(1.0)])[0][0],
    lambda: tf.train.AdagradOptimizer(0.1, initial_accumulator_value=0.0),
    lambda: tf.train.ProximalAdagradOptimizer(0.1, initial_accumulator_value=-1.0),
    lambda: tf.train.FtrlOptimizer(0.1, initial_accumulator_value=-1.0),
    lambda: tf.train.FtrlOptimizer(0.1, learning_rate_power=0.5),
    lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=-1.0),
    lambda: tf.train.FtrlOptimizer(0.1, l2_regularization_strength=-1.0),
    lambda: tf.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=-1.0),
    lambda: tf.train.MomentumOptimizer(0.1),
    lambda: tf.train.Optimizer(False, "base").minimize(loss),
]
for call in calls:
    found = error(call)
    out.append(found if isinstance(found, str) or found is None else "fine")
""",
}


def nodes(graph, start):
    """What the graph holds from position `start` on outside of gradients, as JSON."""
    found = []
    operations = graph.get_operations()
    shown = {op.name for op in operations[start:]} | {op.name for op in operations if op.type in VARIABLES}

    def is_shown(op):
        return (
            op.name in shown
            and not ADDED.fullmatch(op.name)
            and op.name.split("/")[0].rstrip("_0123456789") != "gradients"
        )

    for op in filter(is_shown, operations[start:]):
        groups = [group.decode() for group in op.get_attr("_class")] if "_class" in op.node_def.attr else None
        kind = "Add" if op.type == "AddV2" else op.type
        inputs = [t.name if is_shown(t.op) else "" for t in op.inputs]
        found.append([op.name, kind, inputs, sorted(c.name for c in op.control_inputs if is_shown(c)), groups])
    return found


def plain(value):
    """A fetched value as JSON, floats with seven digits."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(
            value.astype("float64").tolist() if value.dtype.name in ("float16", "bfloat16") else value.tolist()
        )
    if isinstance(value, float):
        return value if value != value or value in (float("inf"), float("-inf")) else float(f"{value:.7g}")
    return value.decode() if isinstance(value, bytes) else value


def run(source, tf, np, session_of=None):
    """The program's `out` and nodes."""

    def error(function):
        try:
            return function()
        except Exception as problem:
            return type(problem).__name__

    out = []
    start = [0]
    with tf.Graph().as_default() as g, (session_of or tf.Session)() as session:

        def values(fetches, feeds=None):
            return plain(session.run(list(fetches), feeds or {}))

        def init():
            session.run(tf.global_variables_initializer())

        def follow(op, fetches, counts):
            done = 0
            for count in counts:
                for _ in range(count - done):
                    session.run(op)
                done = count
                out.append([count, values(fetches)])

        def mark():
            start[0] = len(g.get_operations())

        exec(source, {"tf": tf, "np": np, "g": g, "out": out, "error": error, "values": values, "init": init,
                      "follow": follow, "mark": mark, "session": session})  # fmt: skip
        return {"out": out, "nodes": nodes(g, start[0])}


if __name__ == "__main__":
    import numpy
    import tensorflow.compat.v1 as tensorflow

    tensorflow.disable_v2_behavior()
    with open(sys.argv[1], "w") as file:
        rows = []
        for name, source in CASES.items():
            try:
                rows.append(json.dumps(name) + ": " + json.dumps({"source": source, **run(source, tensorflow, numpy)}))
            except Exception as problem:
                raise RuntimeError(f"in the case {name!r}") from problem
        file.write("{\n" + ",\n".join(rows) + "\n}\n")
