"""Further cases, for TensorFlow 1.15.5 and for Anabranch alike: libraries of optimization and of models."""

import importlib

from cases import CASES, case, numbers


def function(tf, library, name, module="__init__"):
    """A function of a library, which TensorFlow may have in a module of it only."""
    try:
        return getattr(getattr(tf.contrib, library), name)
    except AttributeError:
        return getattr(importlib.import_module(f"tensorflow.contrib.{library}.{module}".replace(".__init__", "")), name)


# ------------------------------------------------------------------------------------------------------- model_pruning
@case
def pruning_layers(tf):
    """Layers and cells with masks, moved three times by a growing share of zeros."""
    pruning = tf.contrib.model_pruning
    step = tf.train.get_or_create_global_step()
    x = pruning.masked_conv2d(tf.constant(numbers(2, 5, 6, 3)), 4, 3, weights_regularizer=tf.nn.l2_loss)
    x = pruning.masked_convolution(x, 3, [2, 1], stride=2, padding="VALID", rate=1, biases_initializer=None)
    x = pruning.masked_fully_connected(x, 5, activation_fn=None, scope="deep")
    x = pruning.masked_fully_connected(tf.layers.flatten(x), 4, scope="flat")
    cells = [
        pruning.MaskedBasicLSTMCell(3),
        pruning.MaskedLSTMCell(4, use_peepholes=True, cell_clip=0.3),
        pruning.MaskedLSTMCell(2, state_is_tuple=False),
    ]
    outputs = []
    for index, cell in enumerate(cells):
        with tf.variable_scope(f"cell{index}"):
            outputs.append(cell(x, cell.zero_state(2, tf.float32))[0])
    spec = pruning.get_pruning_hparams().parse("target_sparsity=0.75,sparsity_function_end_step=4,threshold_decay=0.25")
    spec.pruning_frequency = 1
    update = pruning.Pruning(spec, step)
    move, advance = update.conditional_mask_update_op(), tf.assign_add(step, 1)
    results = {"x": x, "zeros": tf.stack(pruning.get_weight_sparsity()), "thresholds": pruning.get_thresholds()}
    results["gradients"] = tf.concat([tf.reshape(g, [-1]) for g in tf.gradients(x, pruning.get_weights()[:4])], 0)
    results.update((f"output{index}", output) for index, output in enumerate(outputs))
    names = [
        value.op.name
        for part in (pruning.get_masks, pruning.get_thresholds, pruning.get_weights, pruning.get_masked_weights)
        for value in part()
    ]

    def moved(session):
        from cases import set_variables

        set_variables(tf, session)
        for mask in pruning.get_masks():
            session.run(mask.initializer)
        session.run(step.initializer)
        values = {}
        for turn in range(3):
            session.run(move)
            session.run(advance)
            session.run(advance)
            for key, value in session.run(results).items():
                values[key + str(turn)] = value
        values["names"] = [[ord(letter) for letter in "".join(names)]]
        return values

    return moved


@case
def pruning_blocks(tf):
    """Masks that are constant over blocks of matrices."""
    pruning = tf.contrib.model_pruning
    spec = pruning.get_pruning_hparams().parse("block_height=2,block_width=3")
    tf.get_variable("threshold", [])
    results = {}
    for kind in ("AVG", "MAX"):
        spec.block_pooling_function = kind
        update = pruning.Pruning(spec, tf.constant(7), tf.constant(0.6))
        for shape in ((4, 6), (5, 7), (1, 4, 6), (3, 4, 2)):
            weights = tf.constant(numbers(*shape), name="w")
            threshold, mask = update._maybe_update_block_mask(weights, 0.0)
            name = "_".join([kind, *map(str, shape)])
            results[name], results[name + "_threshold"] = mask, threshold
    return results


@case
def pruning_a_frozen_graph(tf):
    """Constants in place of masks."""
    pruning = tf.contrib.model_pruning
    pruning.masked_fully_connected(tf.constant(numbers(2, 3)), 4, scope="flat")

    def stripped(session):
        from cases import set_variables

        set_variables(tf, session)
        frozen = tf.graph_util.convert_variables_to_constants(session, session.graph_def, ["flat/Relu"])
        graph_def = pruning.strip_pruning_vars_fn(frozen, ["flat/Relu"])
        ops = sorted(node.op for node in graph_def.node if node.op != "Identity")
        with tf.Graph().as_default(), tf.Session() as other:
            (result,) = tf.import_graph_def(graph_def, return_elements=["flat/Relu:0"])
            return {"result": other.run(result), "ops": [[ord(letter) for letter in "".join(ops)]]}

    return stripped


# -------------------------------------------------------------------------------------------------------- optimizer_v2
def optimizer(kind, *args, **kwargs):
    """Enter a case of an optimizer: three steps of a dense variable and of rows of another, of both kinds."""

    def build(tf):
        made = getattr(tf.contrib.optimizer_v2, kind)(*args, **kwargs)
        rate = tf.get_variable("rate", [])
        dense = tf.get_variable("dense", [3, 2], use_resource=False)
        resource = tf.get_variable("resource", [2], use_resource=True)
        rows = tf.get_variable("rows", [5, 2], use_resource=False)
        resource_rows = tf.get_variable("resource_rows", [4, 2], use_resource=True)
        loss = tf.reduce_sum(tf.square(tf.matmul(dense, resource[:, None])) * rate)
        loss += tf.reduce_sum(tf.square(tf.gather(rows, [1, 3, 1])) + tf.square(tf.gather(resource_rows, [2, 2, 0])))
        step = tf.Variable(0, trainable=False, name="step")
        trained = [dense, resource, rows, resource_rows]
        train = made.minimize(loss, step, trained, stop_gradients=[rate])
        slots = made.get_slot_names()

        def run(session):
            session.run(tf.global_variables_initializer())
            for index, variable in enumerate([*trained, rate]):
                variable.load(numbers(*variable.shape.as_list(), start=float(index)), session)
            values = {}
            for turn in range(3):
                session.run(train)
                for variable in trained:
                    values[variable.op.name + str(turn)] = session.run(variable)
            for slot in slots:
                for variable in trained:
                    values[variable.op.name + "_" + slot] = session.run(made.get_slot(variable, slot))
            names = sorted(variable.op.name for variable in tf.global_variables())
            values["names"] = [[ord(letter) for letter in " ".join(names)]]
            values["step"] = session.run(step)
            return values

        return run

    CASES["optimizer_v2_" + kind + "_".join(sorted(kwargs))] = build


optimizer("GradientDescentOptimizer", lambda: 0.1)
optimizer("MomentumOptimizer", 0.1, 0.9)
optimizer("MomentumOptimizer", 0.1, lambda: 0.9, use_nesterov=True)
optimizer("AdagradOptimizer", 0.1, 0.2)
optimizer("AdadeltaOptimizer", 0.5, 0.9, 1e-3)
optimizer("RMSPropOptimizer", 0.1, momentum=0.5, epsilon=1e-2)
optimizer("AdamOptimizer", 0.1, 0.8)


# ----------------------------------------------------------------------------------------------------- small libraries
@case
def periodic_resampled(tf):
    """Elements moved from one axis into others, with sizes that do and do not divide."""
    periodic_resample = function(tf, "periodic_resample", "periodic_resample")
    results = {}
    for shape, sizes in (
        ((3, 4), [6, None]),
        ((3, 4), [5, None]),
        ((3, 4), [None, 8]),
        ((2, 2, 4), [4, 4, None]),
        ((2, 3, 4), [3, None, 5]),
        ((2, 2, 2, 8), [4, 4, 4, None]),
    ):
        name = "_".join(map(str, (*shape, "to", *sizes)))
        results[name] = periodic_resample(tf.constant(numbers(*shape)), sizes)
    x = tf.constant(numbers(3, 4))
    results["gradient"] = tf.gradients(periodic_resample(x, [6, None]) * numbers(6, 2), x)[0]
    return results


@case
def slices_reduced(tf):
    """Sums, products and extremes of slices."""
    x = tf.constant(numbers(4, 5, 2))
    results = {}
    for kind in ("sum", "prod", "max", "min"):
        reduce = function(tf, "reduce_slice_ops", "reduce_slice_" + kind, "python.ops.reduce_slice_ops")
        results[kind + "_of_none"] = reduce(tf.constant([[3, 4]]), [[1, 1], [1, 0]], 1)
        results[kind + "0"] = reduce(x, [[0, 1], [1, 3], [0, 9], [2, 4]], 0)
        results[kind + "1"] = reduce(x, [[0, 2], [2, 3], [3, 5]], 1)
        results[kind + "3"] = reduce(x, [0, 2, 3, 4], 0)
        results[kind + "2"] = reduce(tf.constant([[3, -2, 5]]), [[1, 3], [0, 2]], 1)
    return results


@case
def buckets_to_look_into(tf):
    """Probes of tables by hyperplanes."""
    hyperplane_lsh_probes = function(tf, "nearest_neighbor", "hyperplane_lsh_probes")
    results = {}
    for tables, planes, count in ((2, 3, 2), (2, 3, 9), (1, 4, 16), (3, 1, 5), (4, 2, 3)):
        products = tf.constant(numbers(5, tables * planes, start=float(count)))
        probes, ids = hyperplane_lsh_probes(products, tables, planes, count)
        name = "_".join(map(str, (tables, planes, count)))
        results[name], results[name + "_tables"] = probes, ids
    return results


@case
def skip_grams(tf):
    """Pairs of near words; windows and what is left out follow from the seed."""
    sample = function(tf, "text", "skip_gram_sample")
    words = tf.constant([5, 6, 7, 8, 9, 6, 5, 8, 8, 6], tf.int64)
    table = tf.contrib.lookup.HashTable(
        tf.contrib.lookup.KeyValueTensorInitializer([5, 6, 7, 8], [400, 10, 3, 90], tf.int64, tf.int64), -1
    )
    pairs = {
        "fixed": sample(words, 2, 2),
        "own": sample(words, 1, 1, emit_self_as_target=True),
        "part": sample(words, 1, 1, start=2, limit=4),
        "random": sample(words, 1, 4, seed=7),
        "more_random": sample(words, 0, 5, seed=11, emit_self_as_target=True),
        "rare": sample(words, 1, 1, vocab_freq_table=table, vocab_min_count=9),
        "frequent": sample(
            words, 1, 2, vocab_freq_table=table, vocab_min_count=4, vocab_subsampling=0.02, corpus_size=503, seed=3
        ),
    }

    def run(session):
        session.run(tf.tables_initializer())
        return {key + str(place): value for key, both in pairs.items() for place, value in enumerate(session.run(both))}

    return run


@case
def elements_in_turn(tf):
    """Elements of a list, one for each step."""
    obtain_next, seek_next = (
        function(tf, "input_pipeline", name, "python.ops.input_pipeline_ops") for name in ("obtain_next", "seek_next")
    )
    counter = tf.get_variable("counter", initializer=tf.constant(1, tf.int64))
    nexts = [obtain_next(tf.constant(["a", "b", "c", "d"]), counter), seek_next(["x", "y"])]

    def run(session):
        session.run(tf.global_variables_initializer())
        letters = [[ord(session.run(element)) for element in nexts] for _ in range(6)]
        return {"letters": letters, "counter": session.run(counter)}

    return run


# ------------------------------------------------------------------------------------------- constrained_optimization
@case
def constrained_optimizers(tf):
    """Five steps of each optimizer, with proxies and with another optimizer for the weights."""
    library = tf.contrib.constrained_optimization

    class Problem(library.ConstrainedMinimizationProblem):
        def __init__(self, x, with_proxies):
            self._x, self._with_proxies = x, with_proxies

        @property
        def objective(self):
            return tf.reduce_sum(tf.square(self._x - 1.5))

        @property
        def constraints(self):
            if not self._with_proxies:  # what TensorFlow reads before an update in the same op, or after it, is chance
                return tf.constant([0.6, -0.1, 0.4])
            return tf.stack([self._x[0] - self._x[1] * 0.5, tf.reduce_sum(self._x) - 1.0, -self._x[2]])

        @property
        def proxy_constraints(self):
            return tf.sinh(self.constraints) if self._with_proxies else None

    descent = tf.train.GradientDescentOptimizer
    steps, shown = [], {}
    global_step = tf.train.get_or_create_global_step()
    for kind, arguments in (
        ("AdditiveExternalRegretOptimizer", {}),
        ("AdditiveExternalRegretOptimizer", {"maximum_multiplier_radius": 0.7}),
        ("AdditiveSwapRegretOptimizer", {}),
        ("MultiplicativeSwapRegretOptimizer", {"initial_multiplier_radius": 0.5}),
    ):
        for other in (None, descent(0.3)):
            name = "_".join([kind, *arguments, "other" if other else "same"])
            with tf.variable_scope(name, use_resource=True):  # whose reads are not of later values
                x = tf.get_variable("x", [3])
                optimizer = getattr(library, kind)(descent(0.1), other, **arguments)
                unconstrained = 2 if arguments and other else None
                steps.append(optimizer.minimize(Problem(x, bool(other)), unconstrained, global_step, [x]))
            shown[name] = x
    states = [variable for variable in tf.global_variables() if "regret" in variable.op.name]

    def run(session):
        session.run(tf.global_variables_initializer())
        for variable in shown.values():
            variable.load(numbers(3), session)
        values = {}
        for turn in range(5):
            for step in steps:
                global_step.load(turn, session)
                session.run(step)
            values.update((name + str(turn), value) for name, value in session.run(shown).items())
        values.update(session.run({state.op.name: state for state in states}))
        return values

    return run


# ------------------------------------------------------------------------------------------------------------ profiler
@case
def profiles(tf):
    """Parameters and floating-point operations of a net, by scopes and by types."""
    conv, kernel = tf.nn.conv2d, tf.get_variable
    x = tf.placeholder(tf.float32, [8, 16, 16, 3], name="x")
    with tf.variable_scope("net"):
        with tf.variable_scope("first"):
            y = conv(x, kernel("w", [3, 3, 3, 8]), [1, 2, 2, 1], "SAME", name="conv")
            y = tf.nn.relu(tf.nn.bias_add(y, kernel("b", [8]), name="biased"))
        y = tf.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "VALID", name="pool")
        y = tf.nn.depthwise_conv2d(y, kernel("depthwise", [2, 2, 8, 2]), [1, 1, 1, 1], "SAME", name="depthwise_conv")
        y = tf.nn.avg_pool(y, [1, 3, 3, 1], [1, 1, 1, 1], "SAME", name="average")
        with tf.variable_scope("last"):
            y = tf.matmul(tf.reshape(y, [8, -1]), kernel("w", [256, 5]), name="product")
            scale = tf.get_variable("scale", [])
            y = tf.nn.softmax(tf.multiply(y, scale, name="scaled"), name="softmax")
    tf.get_variable("step", [2], trainable=False)
    tf.nn.conv3d(tf.zeros([1, 4, 5, 6, 2]), tf.zeros([2, 1, 3, 2, 3]), [1, 1, 1, 1, 1], "VALID", name="deep")
    tf.matmul(tf.zeros([3, 4]), tf.zeros([3, 5]), transpose_a=True, name="turned")
    for name, made in (("square", tf.square), ("rsqrt", tf.rsqrt), ("negative", tf.negative), ("log", tf.log)):
        made(tf.zeros([2, 7]), name=name)
    tf.reduce_mean(tf.zeros([4, 6]), 1, name="mean")
    tf.reduce_sum(tf.zeros([4, 6]), name="sum")
    tf.argmax(tf.zeros([4, 6]), 0, name="greatest")
    tf.add_n([tf.zeros([3])] * 4, name="added")
    tf.nn.l2_loss(tf.zeros([3, 3]), name="loss")
    tf.squared_difference(tf.zeros([2, 3]), tf.zeros([3]), name="apart")
    tf.square(tf.placeholder(tf.float32, [None, 2]), name="unknown")
    builder = tf.profiler.ProfileOptionBuilder
    parameters, flops = builder.trainable_variables_parameter(), builder.float_operation()
    names = {"hide_name_regexes": [".*Initializer.*", ".*/read", ".*Assign", ".*depthwise_conv/.*"]}
    kinds = {
        "parameters": ("scope", builder(parameters)),
        "parameters_by_type": ("op", builder(parameters)),
        "flops": ("scope", builder(flops).with_node_names(**names).order_by("name")),
        "flops_by_type": ("op", builder(flops).with_min_float_operations(100)),
        "everything": (
            "scope",
            builder().with_node_names(show_name_regexes=["net.*", "[a-z]*"], **names).select(["params", "float_ops"]),
        ),
        "shallow": ("scope", builder().with_min_float_operations(1).with_max_depth(2).account_displayed_op_only(True)),
        "part": ("scope", builder(parameters).with_node_names(start_name_regexes=["net/.*"])),
        "trimmed": ("scope", builder(flops).with_node_names(trim_name_regexes=["net/first"]).order_by("name")),
        "types": ("scope", builder(flops).with_accounted_types(["MatMul", "Conv.*"]).order_by("name")),
        "large": ("scope", builder(parameters).with_min_parameters(100)),
    }

    def listed(node):
        numbers = [node.parameters, node.total_parameters, node.float_ops, node.total_float_ops]
        rows = [[*numbers, sum(ord(letter) * (at + 1) for at, letter in enumerate(node.name))]]
        for child in node.children:
            rows += listed(child)
        return rows

    def run(session):
        return {
            name: listed(tf.profiler.profile(session.graph, cmd=view, options=options.with_empty_output().build()))
            for name, (view, options) in kinds.items()
        }

    return run
