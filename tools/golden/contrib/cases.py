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
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
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
