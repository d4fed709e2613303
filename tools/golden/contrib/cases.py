"""Cases of `tf.contrib`'s libraries, to be run by TensorFlow 1.15.5 and by Anabranch alike.

A case is a function of the module `tf`: it builds a graph and returns a dictionary of tensors, or a function of a
session that gives a dictionary of arrays. Variables are set to values that follow from their places among the sorted
names, so that nothing depends on how they are initialised. Python 3.6 reads this file.
"""

import numpy as np

CASES = {}


def case(function):
    """Enter a case under its own name."""
    CASES[function.__name__] = function
    return function


def numbers(*shape, start=0.0, scale=0.5):
    """Numbers that look irregular and are the same everywhere."""
    count = int(np.prod(shape))
    return (np.sin(np.arange(count) * 1.7 + start) * scale).reshape(shape).astype(np.float32)


def set_variables(tf, session):
    """Give each variable its values; names and shapes, sorted."""
    variables = sorted(tf.global_variables() + tf.local_variables(), key=lambda variable: variable.name)
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()])
    for index, variable in enumerate(variables):
        if variable.dtype.base_dtype.is_floating:
            values = numbers(*variable.shape.as_list(), start=float(index)).astype(variable.dtype.as_numpy_dtype)
            variable.load(values, session)
    return [[variable.name, variable.shape.as_list()] for variable in variables]


def run(tf, function):
    """What a case gives: its variables, and its values as nested lists."""
    tf.reset_default_graph()
    tf.set_random_seed(1)
    built = function(tf)
    with tf.Session() as session:
        if callable(built):
            variables, values = [], built(session)
        else:
            variables = set_variables(tf, session)
            values = session.run(built)
    return {"variables": variables, "values": {key: np.asarray(value).tolist() for key, value in values.items()}}


# --------------------------------------------------------------------------------------------------------------- cells
def cell(name, inputs=(3, 4), **arguments):
    """Enter a case of a recurrent cell: two steps."""

    def build(tf):
        rnn = tf.contrib.rnn
        made = getattr(rnn, name)(**arguments)
        x = tf.constant(numbers(*inputs))
        if name == "PhasedLSTMCell":
            x = (tf.constant(numbers(inputs[0], 1, scale=9.0)), x)
        sizes = made.state_size
        if name == "TimeFreqLSTMCell":  # which says the size for one window
            sizes *= inputs[1] - arguments["feature_size"] + 1
        flat = list(sizes) if isinstance(sizes, tuple) else [sizes]
        flat = [tf.constant(numbers(inputs[0], size, start=3.0 + index)) for index, size in enumerate(flat)]
        state = type(sizes)(*flat) if isinstance(sizes, tuple) else flat[0]
        output, new = made(x, state)
        with tf.variable_scope("again"):
            twice, _ = made(x, new)
        parts = list(new) if isinstance(new, tuple) else [new]
        result = {f"state{index}": part for index, part in enumerate(parts)}
        result.update(output=output, twice=twice)
        return result

    tail = "_".join(f"{key}_{value}" for key, value in sorted(arguments.items()) if key != "num_units")
    CASES[f"{name}_{tail}".rstrip("_")] = build


cell("IndRNNCell", num_units=3)
cell("IndyGRUCell", num_units=3)
cell("IndyLSTMCell", num_units=3)
cell("IndyLSTMCell", num_units=3, forget_bias=0.5)
cell("SRUCell", num_units=4)
cell("IntersectionRNNCell", num_units=4)
cell("IntersectionRNNCell", num_units=3, num_in_proj=3)
cell("PhasedLSTMCell", num_units=3)
cell("PhasedLSTMCell", num_units=3, use_peepholes=True, ratio_on=0.4)
cell("GLSTMCell", num_units=4, number_of_groups=2)
cell("GLSTMCell", num_units=4, number_of_groups=2, num_proj=2)
cell("TimeFreqLSTMCell", num_units=2, feature_size=2, frequency_skip=1)
cell("TimeFreqLSTMCell", num_units=2, feature_size=4, use_peepholes=True, cell_clip=0.1)
cell("GridLSTMCell", num_units=2, feature_size=2, frequency_skip=1, num_frequency_blocks=[3])
for _arguments in (
    {"use_peepholes": True},
    {"use_peepholes": True, "share_time_frequency_weights": True, "cell_clip": 0.2},
    {"couple_input_forget_gates": True, "use_peepholes": True, "num_unit_shards": 2},
    {"state_is_tuple": False},
    {"start_freqindex_list": [0, 2], "end_freqindex_list": [2, 4], "num_frequency_blocks": [1, 1]},
):
    _all = dict(num_units=2, feature_size=2, frequency_skip=1, num_frequency_blocks=[3])
    _all.update(_arguments)
    cell("GridLSTMCell", **_all)
cell("BidirectionalGridLSTMCell", num_units=2, feature_size=2, frequency_skip=2, num_frequency_blocks=[2])
cell(
    "BidirectionalGridLSTMCell",
    num_units=2,
    feature_size=2,
    frequency_skip=2,
    num_frequency_blocks=[2],
    backward_slice_offset=1,
    use_peepholes=True,
)


# ------------------------------------------------------------------------------------------------------- distributions
def distribution(name, make, value, statistics=("mean", "stddev", "entropy"), functions=("log_prob", "prob")):
    """Enter a case of a distribution: functions of a value, and statistics."""

    def build(tf):
        of = make(tf, tf.contrib.distributions)
        x = tf.constant(np.asarray(value, np.float32))
        result = {function: getattr(of, function)(x) for function in functions}
        result.update({statistic: getattr(of, statistic)() for statistic in statistics})
        result["shape"] = tf.shape(of.sample([5, 2]))
        result["batch"] = of.batch_shape_tensor()
        result["event"] = of.event_shape_tensor()
        return result

    CASES[f"distribution_{name}"] = build


_ALL = ("log_prob", "prob", "cdf", "log_cdf", "survival_function", "log_survival_function")
distribution(
    "Kumaraswamy",
    lambda tf, ds: ds.Kumaraswamy([2.0, 0.5, 3.0], [[1.5], [4.0]]),
    [[0.1, 0.5, 0.9]],
    ("mean", "variance", "entropy", "mode"),
    ("log_prob", "prob", "cdf"),
)
distribution(
    "SinhArcsinh",
    lambda tf, ds: ds.SinhArcsinh([0.5, -1.0], 2.0, skewness=0.7, tailweight=[1.3, 0.6]),
    [[0.1, -4.0], [3.0, 20.0]],
    (),
    ("log_prob", "prob", "cdf"),
)
distribution("SinhArcsinh_plain", lambda tf, ds: ds.SinhArcsinh(0.5, 2.0), [0.1, -4.0], (), ("log_prob", "cdf"))
_VECTOR = ("mean", "mode", "variance", "stddev", "covariance")
for _kind, _value in (
    ("VectorExponentialDiag", [[2.0, 3.0], [1.5, 7.0]]),
    ("VectorLaplaceDiag", [[2.0, -3.0], [1.5, 7.0]]),
):
    distribution(
        _kind,
        lambda tf, ds, kind=_kind: getattr(ds, kind)([1.0, -1.0], [2.0, 0.5]),
        _value,
        _VECTOR,
        ("log_prob", "prob"),
    )
    distribution(
        _kind + "_batch",
        lambda tf, ds, kind=_kind: getattr(ds, kind)(None, [[2.0, 0.5], [1.0, 3.0], [0.3, 0.4]], 0.5),
        _value[:1],
        ("mean", "variance", "covariance"),
        ("log_prob",),
    )
distribution(
    "VectorSinhArcsinhDiag",
    lambda tf, ds: ds.VectorSinhArcsinhDiag([1.0, -1.0], [2.0, 0.5], skewness=0.3, tailweight=[1.2, 0.9]),
    [[2.0, -3.0], [1.5, 7.0]],
    (),
    ("log_prob", "prob"),
)
distribution(
    "MultivariateNormalDiagPlusLowRank",
    lambda tf, ds: ds.MultivariateNormalDiagPlusLowRank(
        [1.0, -1.0, 0.0], [2.0, 0.5, 1.0], scale_perturb_factor=[[1.0], [0.5], [-2.0]], scale_perturb_diag=[0.7]
    ),
    [[2.0, -3.0, 1.0]],
    ("mean", "mode", "variance", "stddev", "covariance", "entropy"),
    ("log_prob", "prob"),
)
distribution(
    "BatchReshape",
    lambda tf, ds: ds.BatchReshape(tf.distributions.Normal(numbers(6), 2.0), [2, -1]),
    numbers(4, 2, 3),
    ("mean", "stddev", "entropy", "mode", "variance"),
    _ALL,
)
distribution(
    "BatchReshape_vectors",
    lambda tf, ds: ds.BatchReshape(ds.MultivariateNormalDiag(numbers(6, 2), numbers(6, 2) + 1), [3, 2]),
    numbers(3, 2, 2),
    ("mean", "covariance", "entropy"),
    ("log_prob",),
)
distribution(
    "QuantizedDistribution",
    lambda tf, ds: ds.QuantizedDistribution(tf.distributions.Normal([0.0, 1.0], 3.0), low=-2.0, high=4.0),
    [[-3.0, -2.0], [-1.0, 0.0], [3.0, 4.0], [5.0, 1.0]],
    (),
    ("prob", "cdf", "survival_function", "log_survival_function"),
)
distribution(
    "QuantizedDistribution_log",
    lambda tf, ds: ds.QuantizedDistribution(tf.distributions.Normal([0.0, 1.0], 3.0), low=-2.0, high=4.0),
    [[-1.0, -2.0], [-1.0, 0.0], [3.0, 4.0]],
    (),
    ("log_prob", "log_cdf"),
)
distribution(
    "Transformed_event",
    lambda tf, ds: ds.TransformedDistribution(
        tf.distributions.Normal([0.0, 1.0, 2.0], 1.0),
        ds.bijectors.Affine(shift=[1.0, 2.0], scale_diag=[2.0, 3.0]),
        event_shape=[2],
    ),
    numbers(4, 3, 2),
    ("entropy",),
    ("log_prob", "prob"),
)
distribution(
    "Transformed_batch",
    lambda tf, ds: ds.TransformedDistribution(
        tf.distributions.Laplace(0.0, 1.0), ds.bijectors.AffineScalar(shift=1.0, scale=2.0), batch_shape=[2, 3]
    ),
    numbers(2, 3),
    ("entropy",),
    ("log_prob", "cdf"),
)
for _kind, _scale in (
    ("MultivariateNormalDiag", [2.0, -0.5]),
    ("MultivariateNormalTriL", [[2.0, 0.0], [0.3, 0.5]]),
):
    distribution(
        _kind + "_batch_of_means",
        lambda tf, ds, kind=_kind, scale=_scale: getattr(ds, kind)(numbers(3, 2), scale, validate_args=True),
        numbers(3, 2),
        ("mean", "mode", "stddev", "variance", "covariance", "entropy"),
        ("log_prob",),
    )
distribution(
    "Wishart_of_integers",
    lambda tf, ds: ds.WishartCholesky(3, np.float32([[2.0, 0.0], [0.3, 0.5]])),
    [[2.0, 0.3], [0.3, 1.0]],
    ("mean", "mode", "stddev", "entropy"),
    ("log_prob",),
)
distribution(
    "Geometric_sure", lambda tf, ds: ds.Geometric(probs=[1.0, 0.5]), [[0.0, 0.0], [1.0, 2.0]], (), ("log_prob",)
)


def _weibull(tf):
    kind = getattr(tf.contrib.distributions.bijectors, "Weibull", None)
    if kind is None:  # TensorFlow 1.15 names it by its module alone
        from tensorflow.contrib.distributions.python.ops.bijectors.weibull import Weibull as kind
    bijector = kind(scale=[1.5, 0.7], concentration=0.6)
    x = tf.constant([[0.2, 1.0], [3.0, 0.5]])
    y = bijector.forward(x)
    return {
        "forward": y,
        "inverse": bijector.inverse(tf.identity(y)),
        "forward_log_det_jacobian": bijector.forward_log_det_jacobian(x, event_ndims=0),
        "inverse_log_det_jacobian": bijector.inverse_log_det_jacobian(tf.identity(y), event_ndims=1),
    }


CASES["bijector_Weibull"] = _weibull


@case
def sample_statistics(tf):
    """Percentiles, autocorrelation, moving averages, posteriors."""
    ds = tf.contrib.distributions
    x = tf.constant(numbers(4, 3, 5))
    result = {}
    for interpolation in ("lower", "higher", "nearest"):
        for axis in (None, 0, [0, 2], -1):
            for keep in (False, True):
                key = f"percentile_{interpolation}_{axis}_{keep}"
                result[key] = ds.percentile(x, 37.0, axis=axis, interpolation=interpolation, keep_dims=keep)
    result["auto"] = ds.auto_correlation(x)
    result["auto_axis"] = ds.auto_correlation(x, axis=0, max_lags=2, center=False)
    result["auto_raw"] = ds.auto_correlation(x, axis=1, normalize=False)
    prior = tf.distributions.Normal([1.0, 2.0], 3.0)
    after = ds.normal_conjugates_known_scale_posterior(prior, 2.0, tf.constant([4.0, 5.0]), 3)
    following = ds.normal_conjugates_known_scale_predictive(prior, 2.0, tf.constant([4.0, 5.0]), 3)
    result.update(posterior=after.mean(), posterior_scale=after.stddev(), predictive_scale=following.stddev())
    mean = tf.get_variable("mean", [2])
    variance = tf.get_variable("variance", [2])
    log_mean = tf.get_variable("log_mean", [2])
    with tf.control_dependencies([*result.values()]):
        moved = ds.assign_moving_mean_variance(mean, variance, tf.constant([2.0, 3.0]), 0.9)
        result.update(moving_mean=moved[0], moving_variance=moved[1])
        result["log_mean_exp"] = ds.assign_log_moving_mean_exp(log_mean, tf.constant([2.0, 30.0]), 0.9)
    return result


# ------------------------------------------------------------------------------------------------------------- k-means
def clusters(name, batches=1, more=2, **arguments):
    """Enter a case of k-means: first centers, then some steps."""

    def build(tf):
        points = numbers(60, 3, scale=3.0) + numbers(60, 1, start=4.0, scale=2.0)
        inputs = [tf.constant(part) for part in np.split(points, batches)]
        means = tf.contrib.factorization.KMeans(inputs, 5, **arguments)
        all_scores, nearest, scores, initialized, choose, train = means.training_graph()

        def result(session):
            session.run(tf.global_variables_initializer())
            rounds = 0
            while not session.run(initialized):
                session.run(choose)
                rounds += 1
            names = sorted(variable.name for variable in tf.global_variables())
            centers = tf.global_variables()[0]
            values = {"rounds": rounds, "first": session.run(centers)}
            for _ in range(more):
                session.run(train)
            values.update(names=[[ord(letter) for letter in name] for name in names[:1]], last=session.run(centers))
            for i in range(batches):
                values["scores_" + str(i)], values["nearest_" + str(i)] = session.run([scores[i], nearest[i]])
                values["all_" + str(i)] = session.run(all_scores[i])
            return values

        return result

    CASES["KMeans_" + name] = build


clusters("random", batches=2)
clusters("plus_plus", initial_clusters="kmeans_plus_plus")
clusters("plus_plus_cosine", initial_clusters="kmeans_plus_plus", distance_metric="cosine")
clusters("given", initial_clusters=numbers(5, 3, start=2.0), distance_metric="cosine")


# ------------------------------------------------------------------------------------------------------------- solvers
@case
def solvers(tf):
    """A linear system, least squares, a bidiagonal form."""
    util = tf.contrib.solvers.util
    a = numbers(6, 4, scale=1.0) + np.float32(np.diag([1, 2, 3, 4, 5, 6])[:, :4])
    square = a.T.dot(a) + np.eye(4, dtype=np.float32)
    operator = util.create_operator(tf.constant(square))
    rhs = tf.constant(numbers(4, start=2.0))
    result = {}
    for key, arguments in (
        ("plain", {}),
        ("from", {"x": tf.constant(numbers(4, start=5.0)), "max_iter": 2}),
        ("same", {"preconditioner": util.identity_operator(tf.constant(square)), "tol": 1e-2}),
    ):
        state = tf.contrib.solvers.linear_equations.conjugate_gradient(operator, rhs, **arguments)
        result.update({f"{key}_i": state.i, f"{key}_x": state.x})
    tall = util.create_operator(tf.constant(a))
    state = tf.contrib.solvers.least_squares.cgls(tall, tf.constant(numbers(6, start=2.0)))
    result.update(cgls_x=state.x, cgls_r=state.r)
    for orthogonalize in (True, False):
        form = tf.contrib.solvers.lanczos.lanczos_bidiag(
            tall, 3, orthogonalize, starting_vector=tf.constant(numbers(6, 1, start=1.0))
        )
        result.update({f"lanczos_{orthogonalize}_{key}": value for key, value in form._asdict().items()})
    alpha, beta = tf.constant(numbers(3)), tf.constant(numbers(3, start=4.0))
    product = tf.contrib.solvers.lanczos.bidiag_matmul
    result["bidiag"] = product(tf.constant(numbers(2, 4)), alpha, beta)
    result["bidiag_adjoint"] = product(tf.constant(numbers(2, 3)), alpha, beta, adjoint_b=True)
    return result


# ------------------------------------------------------------------------------- sequences and scales of losses
@case
def recurrent_loops(tf):
    """States, and gradients that are derived, of a loop of which some steps are left out at either end."""
    theta, start, x = tf.constant([[0.5, -0.2], [0.1, 0.3]]), tf.constant(numbers(1, 2)), tf.constant(numbers(4, 1, 2))

    def cell(theta, state, x):
        new = tf.tanh(tf.matmul(state + x, theta))
        return new, new

    result = {}
    for name, options in (
        ("all", {}),
        ("three", {"max_input_length": tf.constant(3)}),
        ("last", {"max_input_length": tf.constant(3), "aligned_end": True}),
    ):
        states, last = tf.contrib.recurrent.Recurrent(theta, start, x, cell, **options)
        result.update({name + "_states": states, name + "_last": last})
        if "aligned_end" in options:
            continue  # TensorFlow's gradient takes zeros for the first state
        gradients = tf.gradients(tf.reduce_sum(tf.square(states)) + tf.reduce_sum(last), [theta, start, x])
        result.update({f"{name}_gradient{index}": gradient for index, gradient in enumerate(gradients)})
    return result


def _functional(name, way, **options):
    def build(tf):
        x = tf.constant(numbers(3, 5, 2))
        lengths = tf.constant([5, 2, 3])
        if way == "both":
            cells = [tf.nn.rnn_cell.LSTMCell(3), tf.nn.rnn_cell.GRUCell(3)]
            outputs, states = tf.contrib.recurrent.bidirectional_functional_rnn(
                *cells, inputs=x, dtype=tf.float32, sequence_length=lengths, **options
            )
            return {"fw": outputs[0], "bw": outputs[1], "c": states[0].c, "h": states[1]}
        outputs, state = tf.contrib.recurrent.functional_rnn(tf.nn.rnn_cell.LSTMCell(3), x, dtype=tf.float32, **options)
        gradients = tf.gradients(tf.reduce_sum(outputs) + tf.reduce_sum(state.h), tf.trainable_variables())
        result = {"outputs": outputs, "c": state.c, "h": state.h}
        result.update({f"gradient{index}": gradient for index, gradient in enumerate(gradients)})
        return result

    CASES["functional_rnn_" + name] = build


_functional("plain", "one")
_functional("lengths", "one", sequence_length=[4, 2, 3])
_functional("reversed", "one", sequence_length=[4, 2, 3], reverse=True)
_functional("both", "both")
_functional("both_fast", "both", fast_reverse=True)


@case
def loss_scales(tf):
    """Scales and a variable over steps whose gradients are finite or not."""
    kind = tf.contrib.mixed_precision
    manager = kind.ExponentialUpdateLossScaleManager(8.0, incr_every_n_steps=2, decr_every_n_nan_or_inf=2, incr_ratio=4)
    optimizer = kind.LossScaleOptimizer(tf.train.GradientDescentOptimizer(0.5), manager)
    factor = tf.placeholder(tf.float32, [])
    w = tf.Variable([1.0, 2.0], name="w")
    pairs = optimizer.compute_gradients(tf.reduce_sum(tf.square(w)) * factor, [w])
    step = optimizer.apply_gradients(pairs)
    fixed = kind.FixedLossScaleManager(3.0)

    def steps(session):
        session.run(tf.global_variables_initializer())
        seen = []
        for value in (1.0, 1.0, np.inf, 1.0, np.nan, np.nan, np.inf, np.inf, 0.5, 0.5):
            session.run(step, {factor: value})
            seen.append(np.append(session.run(w), session.run(manager.get_loss_scale())))
        gradient = session.run(pairs[0][0], {factor: 1.0})
        return {"seen": np.array(seen), "gradient": gradient, "fixed": session.run(fixed.get_loss_scale())}

    return steps


# --------------------------------------------------------------------------------------------- graphs of few bits
def _quantized(name, build, rewrite):
    """Enter a case: outputs, gradients and variables of a rewritten net over three steps."""

    def case_of(tf):
        x = tf.placeholder(tf.float32, [4, 6, 6, 3], name="x")
        y = build(tf, x)
        rewrite(tf.contrib.quantize)
        # What is left of the averages' updates.
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        loss = tf.reduce_mean(tf.square(tf.identity(y)))
        y = tf.get_default_graph().get_tensor_by_name("out:0")
        gradients = tf.gradients(tf.reduce_mean(tf.square(y)) + 0.0 * loss, tf.trainable_variables())

        def steps(session):
            session.run(tf.global_variables_initializer())
            variables = sorted(tf.global_variables(), key=lambda v: v.op.name)
            # Names first, since quantities of one kind have values of one kind.
            for index, v in enumerate(v for v in variables if "quant" not in v.op.name):
                values = numbers(*v.shape.as_list(), start=float(index))
                v.load(abs(values) + 0.5 if "variance" in v.op.name else values, session)
            result = {}
            for step in range(3):
                feed = {x: numbers(4, 6, 6, 3, start=step * 1.3, scale=1.0 + step)}
                got = session.run([y] + [g for g in gradients if g is not None], feed)
                session.run(updates, feed)
                result.update({f"step{step}_{index}": value for index, value in enumerate(got)})
            kept = session.run({v.op.name: v for v in variables})
            result.update({key: value for key, value in kept.items() if "quant" in key})
            return {key: _shortened(value) for key, value in result.items()}

        return steps

    CASES["quantize_" + name] = case_of


def _shortened(value):
    """A large array by its absolute sum and two elements."""
    value = np.asarray(value, np.float64)
    return value if value.size <= 24 else np.array([np.abs(value).sum(), value.flat[7], value.flat[-1]])


def _convolution(fused, is_training=True, scale=True):
    def build(tf, x):
        layers = tf.contrib.layers
        norm = {"fused": fused, "is_training": is_training, "scale": scale, "decay": 0.5}
        options = {"normalizer_fn": layers.batch_norm, "normalizer_params": norm}
        y = layers.conv2d(x, 4, 3, activation_fn=tf.nn.relu6, scope="first", **options)
        y = layers.separable_conv2d(y, None, 3, 1, activation_fn=tf.nn.relu, scope="second", **options)
        y = layers.fully_connected(layers.flatten(y), 3, activation_fn=None, scope="third")
        return tf.identity(y, name="out")

    return build


def _bypasses(tf, x):
    layers = tf.contrib.layers
    y = layers.conv2d(x, 3, 3, activation_fn=None, scope="a/first")
    y = tf.nn.relu(tf.add(y, x, name="a/sum"), name="a/Relu")
    y = layers.conv2d(y, 3, 3, activation_fn=tf.nn.relu, scope="a/second")
    y = tf.add(y, x, name="a/later")
    return tf.identity(y, name="out")


_quantized("plain", _convolution(False), lambda kind: kind.create_training_graph())
_quantized("fused", _convolution(True), lambda kind: kind.create_training_graph())
_quantized("unscaled", _convolution(False, scale=False), lambda kind: kind.create_training_graph())
_quantized("trained", _convolution(False, False), lambda kind: kind.create_eval_graph())
_quantized("trained_fused", _convolution(True, False), lambda kind: kind.create_eval_graph())
_quantized("delayed", _convolution(False), lambda kind: kind.create_training_graph(quant_delay=3))
_quantized("frozen", _convolution(False), lambda kind: kind.experimental_create_training_graph(None, freeze_bn_delay=2))
_quantized("bypasses", _bypasses, lambda kind: kind.create_training_graph())
_quantized(
    "four_bits",
    _bypasses,
    lambda kind: kind.experimental_create_training_graph(None, weight_bits=4, activation_bits=5, symmetric=True),
)
_quantized("scoped", _bypasses, lambda kind: kind.experimental_create_training_graph(None, scope="a/second"))


# ------------------------------------------------------------------------------------------------- cells of a grid
def _grid(name, inputs=(3, 4), **arguments):
    """Enter a case of a cell along several dimensions: two steps."""

    def build(tf):
        made = getattr(tf.contrib.grid_rnn, name)(num_units=2, **arguments)
        flatten = tf.contrib.framework.nest.flatten
        state = made.zero_state(inputs[0], tf.float32)
        parts = [
            tf.constant(numbers(*part.shape.as_list(), start=3.0 + index)) for index, part in enumerate(flatten(state))
        ]
        state = tf.contrib.framework.nest.pack_sequence_as(state, parts)
        x = tf.constant(numbers(*inputs))
        output, new = made(x, state)
        tf.get_variable_scope().reuse_variables()
        twice, _ = made(x, new)
        values = {"output": output, "state": new, "twice": twice}
        return {f"{key}{index}": part for key, value in values.items() for index, part in enumerate(flatten(value))}

    CASES[f"{name}_" + "_".join(sorted(arguments))] = build


_grid("Grid1BasicRNNCell")
_grid("Grid2BasicRNNCell")
_grid("Grid2BasicRNNCell", tied=True, output_is_tuple=False)
_grid("Grid1BasicLSTMCell")
_grid("Grid2BasicLSTMCell", tied=True)
_grid("Grid2BasicLSTMCell", state_is_tuple=False)
_grid("Grid1LSTMCell", use_peepholes=True)
_grid("Grid2LSTMCell")
_grid("Grid3LSTMCell", forget_bias=0.5, use_peepholes=True)
_grid("Grid2GRUCell")
_grid("GridRNNCell", num_dims=3, input_dims=[0, 2], output_dims=[0, 1, 2], priority_dims=[2])


@case
def covariances_of_mixtures(tf):
    """Covariances of mixtures of vectors of one family."""
    kinds = tf.contrib.distributions
    means = tf.constant(numbers(3, 2, scale=2.0))
    diagonal = kinds.MultivariateNormalDiag(means, tf.constant(abs(numbers(3, 2)) + 0.1))
    factor = tf.constant(numbers(3, 2, 2, start=1.0))
    full = kinds.MultivariateNormalTriL(means, tf.matrix_set_diag(factor, tf.abs(tf.matrix_diag_part(factor)) + 0.2))
    shares = kinds.Categorical(numbers(3))  # of one member: TensorFlow fails for batches
    mixed = {"diagonal": diagonal, "full": full}
    return {name: kinds.MixtureSameFamily(shares, each).covariance() for name, each in mixed.items()}
