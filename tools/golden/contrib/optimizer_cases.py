"""Cases of optimizers of `tf.contrib.opt`, for TensorFlow 1.15.5 and for Anabranch alike: several steps of each."""

from cases import case, numbers


def _steps(tf, train, count, more=()):
    """A function of a session: the values of all variables after each step, one vector for each."""

    def run(session):
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(list(more))
        variables = sorted(tf.global_variables() + tf.local_variables(), key=lambda variable: variable.name)
        names = [variable.op.name for variable in variables]
        values = {name: [] for name in names}
        for _ in range(count):
            session.run(train)
            for index, value in enumerate(session.run(variables)):
                values[names[index]].append(value)
        return values

    return run


def _model(tf, getter=None, **scope):
    """Two variables of a model, of which one is a table, and a loss."""
    with tf.variable_scope("net", custom_getter=getter, **scope):
        table = tf.get_variable("table", initializer=numbers(4, 3))
        w = tf.get_variable("w", initializer=numbers(3, 2, start=1.0))
    rows = tf.nn.embedding_lookup(table, [0, 2, 2])
    return tf.reduce_sum(tf.square(tf.matmul(rows, w) - numbers(3, 2, start=2.0)))


def _inner(tf, kind):
    if kind == "adam":
        return tf.train.AdamOptimizer(0.1)
    return tf.train.MomentumOptimizer(0.1, 0.9) if kind == "momentum" else tf.train.GradientDescentOptimizer(0.1)


for _kind in ("gradient_descent", "momentum", "adam"):

    def elastic_average(tf, kind=_kind):
        opt = tf.contrib.opt
        getter = opt.ElasticAverageCustomGetter("/cpu:0")
        step = tf.train.get_or_create_global_step()
        loss = _model(tf, getter)
        options = {"rho": 0.2} if kind == "adam" else {}
        optimizer = opt.ElasticAverageOptimizer(_inner(tf, kind), 2, getter, communication_period=3, **options)
        pairs = [(tf.convert_to_tensor(g), v) for g, v in optimizer.compute_gradients(loss)]
        train = optimizer.apply_gradients(pairs, step)
        return _steps(tf, train, 7, [optimizer.get_init_op(0)])

    def model_average(tf, kind=_kind):
        opt = tf.contrib.opt
        getter = opt.ModelAverageCustomGetter("/cpu:0")
        step = tf.train.get_or_create_global_step()
        loss = _model(tf, getter)
        optimizer = opt.ModelAverageOptimizer(_inner(tf, kind), 1, True, getter, interval_steps=3)
        train = optimizer.minimize(loss, step)
        return _steps(tf, train, 7, [optimizer.get_init_op()])

    def accumulated_gradients(tf, kind=_kind):
        opt = tf.contrib.opt
        getter = opt.AGNCustomGetter("/cpu:0")
        step = tf.train.get_or_create_global_step()
        loss = _model(tf, getter)
        optimizer = opt.AGNOptimizer(_inner(tf, kind), 1, getter, communication_period=3)
        pairs = [(tf.convert_to_tensor(g), v) for g, v in optimizer.compute_gradients(loss)]
        train = optimizer.apply_gradients(pairs, step)
        return _steps(tf, train, 7, [optimizer.get_init_op(0)])

    for _function in (elastic_average, model_average, accumulated_gradients):
        _function.__name__ += "_" + _kind
        case(_function)


for _name in ("AdamGSOptimizer", "LazyAdamGSOptimizer"):
    for _resource in (False, True):

        def adam_by_step(tf, name=_name, use_resource=_resource):
            step = tf.train.get_or_create_global_step()
            loss = _model(tf, use_resource=use_resource)
            optimizer = getattr(tf.contrib.opt, name)(step, 0.05, beta1=0.8)
            return _steps(tf, optimizer.minimize(loss, step), 3)

        adam_by_step.__name__ = _name + ("_resource" if _resource else "")
        case(adam_by_step)


@case
def full_matrix_ggt(tf):
    """More steps than the window has places."""
    loss = _model(tf)
    optimizer = tf.contrib.opt.GGTOptimizer(0.02, window=3, eps=1e-3, svd_eps=1e-2)
    pairs = [(tf.convert_to_tensor(g), v) for g, v in optimizer.compute_gradients(loss)]
    return _steps(tf, optimizer.apply_gradients(pairs), 5)


for _index, _options in enumerate(
    (
        {"learning_rate": 0.1},
        {"learning_rate": 0.1, "gbar_decay": 0.5, "mat_gbar_decay": 0.9, "gbar_weight": 0.5},
        {"learning_rate": 0.05, "svd_interval": 2, "precond_update_interval": 2, "alpha": 1.0, "epsilon": 0.1},
        {"learning_rate": 0.1, "max_matrix_size": 2},
        {"learning_rate": 0.1, "use_iterative_root": True, "epsilon": 1e-2},
    )
):

    def shampoo(tf, options=_options):
        step = tf.train.get_or_create_global_step()
        loss = _model(tf)
        optimizer = tf.contrib.opt.ShampooOptimizer(step, **options)
        return _steps(tf, optimizer.minimize(loss, step), 4)

    shampoo.__name__ = "shampoo" + str(_index)
    case(shampoo)


@case
def stale_gradients(tf):
    """Nothing is stale in one process, unless no step may be."""
    step = tf.train.get_or_create_global_step()
    loss = _model(tf)
    tight = tf.contrib.opt.DropStaleGradientOptimizer(tf.train.AdamOptimizer(0.1), 0)
    pairs = [(tf.convert_to_tensor(g), v) for g, v in tight.compute_gradients(loss)]
    return _steps(tf, tight.apply_gradients(pairs, step), 3)
