"""Gradients handed to conditional accumulators, and what is taken, for TensorFlow and for Anabranch alike.

A case is a kind, a shape, how sums are reduced, and what is done one after the other: ``apply`` with a step and a
gradient (sparse ones as rows, values and dense shape), ``step`` with a new step, ``take`` with the number that is
required. Each thing done gives what it gives, and how many gradients there are then; an error gives its class.
"""

DENSE = [
    (
        "float32",
        [2],
        "MEAN",
        [("apply", 0, [1.0, 2.0]), ("apply", 0, [3.0, 5.0]), ("take", 1), ("apply", 0, [1.0, 1.0])],
    ),
    (
        "float32",
        [2],
        "SUM",
        [("apply", 0, [1.0, 2.0]), ("apply", 5, [3.0, 5.0]), ("take", 2), ("apply", 1, [7.0, 7.0])],
    ),
    ("float64", None, "MEAN", [("apply", 0, [[1.0], [2.0]]), ("apply", 3, [[0.5], [0.25]]), ("take", 2)]),
    ("float16", [], "MEAN", [("apply", 0, 1.0), ("apply", 0, 2.0), ("apply", 0, 2.0), ("take", 3)]),
    ("float32", [1], "MEAN", [("step", 3), ("apply", 2, [1.0]), ("apply", 3, [2.0]), ("take", 1), ("apply", 3, [9.0])]),
    ("float32", [1], "MEAN", [("step", 3), ("step", 1), ("apply", 1, [1.0]), ("take", 1), ("take", 0), ("take", -2)]),
]
SPARSE = [
    (
        "float32",
        [4, 2],
        "MEAN",
        [
            ("apply", 0, [0, 2], [[1.0, 2.0], [3.0, 4.0]], [4, 2]),
            ("apply", 0, [2, 3], [[5.0, 6.0], [7.0, 8.0]], [4, 2]),
            ("take", 2),
            ("apply", 0, [1], [[1.0, 1.0]], [4, 2]),
            ("apply", 1, [1], [[2.0, 1.0]], None),
            ("take", 1),
        ],
    ),
    (
        "float32",
        None,
        "SUM",
        [
            ("apply", 0, [0, 5], [1.0, 2.0], None),
            ("apply", 0, [5], [3.0], None),
            ("apply", 0, [], [], None),
            ("take", 3),
        ],
    ),
    (
        "float64",
        [None, 1],
        "MEAN",
        [
            ("apply", 0, [3, 1, 1], [[1.0], [2.0], [3.0]], None),
            ("apply", 0, [1, 3, 3], [[10.0], [20.0], [30.0]], None),
            ("take", 1),
        ],
    ),
    (
        "float32",
        [3, 2],
        "MEAN",
        [
            ("apply", 0, [0], [[1.0, 2.0, 3.0]], [3, 3]),
            ("apply", 0, [0], [[1.0, 2.0]], [2, 2]),
            ("apply", 0, [0, 1], [[1.0, 2.0]], [3, 2]),
            ("apply", 0, [[0]], [[1.0, 2.0]], [3, 2]),
            ("apply", 0, [0], [[1.0, 2.0]], [3, 2]),
            ("take", 1),
        ],
    ),
]


def _plain(value):
    return value.tolist() if hasattr(value, "tolist") else value


def run(tf, sparse, case):
    """What a case gives, thing done by thing done."""
    dtype, shape, reduction, actions = case
    given = []
    with tf.Graph().as_default(), tf.Session() as session:
        kind = tf.SparseConditionalAccumulator if sparse else tf.ConditionalAccumulator
        accumulator = kind(dtype, shape=shape, reduction_type=reduction)
        count = accumulator.num_accumulated()
        for action in actions:
            try:
                if action[0] == "step":
                    session.run(accumulator.set_global_step(action[1]))
                    result = None
                elif action[0] == "take":
                    result = session.run(accumulator.take_grad(action[1]))
                    result = [_plain(part) for part in result] if sparse else _plain(result)
                elif sparse:
                    _, step, rows, values, dense = action
                    rows = tf.placeholder_with_default(tf.constant(rows, tf.int64), None)
                    values = tf.placeholder_with_default(tf.constant(values, dtype), None)
                    session.run(accumulator.apply_grad(rows, values, dense, local_step=step))
                    result = None
                else:
                    session.run(accumulator.apply_grad(tf.constant(action[2], dtype), local_step=action[1]))
                    result = None
            except (tf.errors.OpError, ValueError) as problem:
                result = type(problem).__name__
            given.append([result, int(session.run(count))])
    return given


def everything(tf):
    """What all cases give."""
    return {"dense": [run(tf, False, case) for case in DENSE], "sparse": [run(tf, True, case) for case in SPARSE]}
