"""A second builder: ops run at once, on NumPy. It is the proof that ops, rules and libraries need no graph.

`AtOnce` is what a mode of its own is made of: tensors that hold arrays, an application of an op that runs its host
kernel, variables in a table, and a tape that records what was applied. Every row of `tests/ops` whose op runs on
the host runs through it: its outputs are compared with the row's reference, and what its gradient rule builds (which
runs at once as well) with finite differences.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.autodiff.aggregation import AggregationMethod, aggregate
from anabranch.autodiff.input_gradients import input_gradients
from anabranch.core.contract import inference, kernels, opdef
from anabranch.core.graph.build import build_operation
from anabranch.core.graph.builder import Builder
from anabranch.core.graph.tensor import OpView, Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.testing import op_checks
from anabranch.testing.op_cases import Instance, Row, instances, load_rows

assert dir(tf)  # loads everything that defines ops
ROWS = {row.type_name: row for row in load_rows(Path(__file__).parent)}


# --------------------------------------------------------------------------------------------------------- the builder
class Value(Tensor):
    """A tensor that holds an array, or the slot of a variable."""

    __slots__ = ("_handle", "array", "dtype")
    has_value = True

    def __init__(self, array: Any, dtype: dtypes.DType, handle: Any = None) -> None:
        self.array = array
        self.dtype = dtype
        self._handle = handle

    @property
    def _shape(self) -> shapes.RawShape:
        return () if isinstance(self.array, Slot) else self.array.shape

    @property
    def _known(self) -> Any:
        return None if isinstance(self.array, Slot) else self.array

    def __bool__(self) -> bool:
        return bool(self.array)

    def __len__(self) -> int:
        return len(self.array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.array, dtype)


class Slot:
    """The state behind a variable's handle."""

    value: Any = None


class AtOnce(Builder):
    """Runs each op when it is applied, and writes it on the tape."""

    tensor_type = Value

    def __init__(self) -> None:
        self.tape: list[OpView] = []

    def _create(self, definition: Any, inputs: Any, attrs: Any, name: str | None = None) -> OpView:
        if kernels.needs_lax(definition):
            raise NotImplementedError(f"{definition.type_name} runs through XLA only")
        context = inference.ShapeContext(definition, attrs, inputs, [tensor._shape for tensor in inputs])
        kinds = definition.output_dtypes(attrs)
        static = inference.infer(definition, context, len(kinds))
        view = OpView(definition, tuple(inputs), attrs, ())
        if definition.makes == "variable":
            values: list[Any] = [Slot()]
        else:
            values = self._run(view)
        view._outputs = tuple(
            Value(value if isinstance(value, Slot) else np.asarray(value), kind, context.output_handles.get(i))
            for i, (value, kind) in enumerate(zip(values, kinds, strict=True))
        )
        for output, raw in zip(view._outputs, static, strict=True):
            assert shapes.is_compatible(raw, output._shape), (definition.type_name, raw, output._shape)
        self.tape.append(view)
        return view

    def _run(self, view: OpView) -> list[Any]:
        definition, effect = view.definition, view.definition.effect
        values = [tensor.array for tensor in view._inputs]
        positions = definition.resource_positions(view._attrs)
        slots = [values[i] for i in positions]
        for i, slot in zip(positions, slots, strict=True):
            values[i] = slot.value is not None if effect.presence else slot.value
        results = kernels.run_on_host(definition, values, view._attrs, kernels.HostContext(view))
        if effect.kind == "write":
            for slot, result in zip(slots, results, strict=False):
                slot.value = np.array(result)
            del results[: len(slots)]
        return results

    def gradients(self, ys: list[Any], xs: list[Any], starts: list[Any]) -> list[Any]:
        """Gradients of ``ys`` by ``xs``, from the tape: what `tf.GradientTape` will do."""
        arrived: dict[int, list[Any]] = {}
        for y, start in zip(ys, starts, strict=True):
            arrived.setdefault(id(y), []).append(start)
        reached = {id(x) for x in xs}
        between = []
        for op in list(self.tape):  # in the order of application, which is a topological one
            if any(id(tensor) in reached for tensor in op._inputs):
                between.append(op)
                reached.update(id(output) for output in op._outputs)
        for op in reversed(between):
            grads = [aggregate(op, arrived.get(id(output), ()), AggregationMethod.ADD_N) for output in op._outputs]
            for tensor, gradient in zip(op._inputs, input_gradients(op, grads), strict=True):
                if gradient is not None:
                    arrived.setdefault(id(tensor), []).append(gradient)
        return [aggregate(None, arrived.get(id(x), ()), AggregationMethod.ADD_N) for x in xs]  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------------------------- rows
def _runs_here(row: Row) -> bool:
    definition = row.definition
    return bool(row.cases) and definition.effect.kind == "pure" and not kernels.needs_lax(definition)


FORWARD = sorted(name for name, row in ROWS.items() if _runs_here(row) and row.reference is not None)
THROUGH_XLA = {"Digamma": "its rule is a Polygamma, which runs through XLA only"}
DIFFERENTIATED = sorted(
    name
    for name, row in ROWS.items()
    if _runs_here(row)
    and op_checks.differentiable(row)
    and row.definition.gradient is not opdef.DERIVED
    and name not in THROUGH_XLA
    and "order 1" not in row.gaps
)


class Run:
    """An instance of a row run at once, at its own inputs or at others.

    Attributes:
        builder: what ran it, with its tape.
        op: the application.
        xs: positions of the inputs that gradients are checked for, as the row says.
        ys: the outputs that gradients are checked for.
    """

    def __init__(self, one: Instance, arrays: list[np.ndarray] | None = None) -> None:
        row, definition = one.row, one.row.definition
        waiting = iter(one.flat if arrays is None else arrays)
        self.xs: list[int] = []
        self.inputs: list[Value] = []
        arguments: list[Any] = []
        for spec in definition.inputs:
            tensors = [Value(next(waiting), kind.base) for kind in spec.dtypes(one.attrs)]
            arguments.append(tensors if spec.is_list else tensors[0])
            checked = spec.name not in definition.compile_time and (row.wrt is None or spec.name in row.wrt)
            for tensor in tensors:
                if checked and _continuous(tensor):
                    self.xs.append(len(self.inputs))
                self.inputs.append(tensor)
        self.builder = AtOnce()
        with self.builder.as_default():
            self.op = build_operation(definition.type_name, arguments, dict(one.attrs))
            outputs = self.op.outputs
            ys = outputs if row.outputs is None else [outputs[i] for i in row.outputs]
            if row.invariant is not None:
                ys = row.invariant(*outputs)
        self.ys = [y for y in ys if _continuous(y)]

    def gradients(self, us: list[np.ndarray]) -> list[np.ndarray | None]:
        """Gradients by the inputs ``xs``, from ``us`` at the outputs ``ys``."""
        with self.builder.as_default():
            starts = [Value(u, y.dtype.base) for u, y in zip(us, self.ys, strict=True)]
            found = self.builder.gradients(self.ys, [self.inputs[i] for i in self.xs], starts)
            return [None if gradient is None else tf.convert_to_tensor(gradient).array for gradient in found]

    def along(self, us: list[np.ndarray]) -> float:
        """The outputs ``ys`` projected on ``us``."""
        return sum(_product(u, y.array) for u, y in zip(us, self.ys, strict=True))


def _continuous(tensor: Tensor) -> bool:
    return tensor.dtype.is_floating or tensor.dtype.is_complex


def _product(u: np.ndarray, array: np.ndarray) -> float:
    wide = np.complex128 if np.iscomplexobj(array) else np.float64
    return float(np.sum(np.conj(u.astype(wide)) * array.astype(wide)).real)


def _direction(random: np.random.Generator, like: np.ndarray) -> np.ndarray:
    found = random.uniform(0.5, 1.5, like.shape) * random.choice([-1.0, 1.0], like.shape)
    if np.iscomplexobj(like):
        found = found + 1j * random.uniform(0.5, 1.5, like.shape)
    return np.asarray(found).astype(like.dtype)


@pytest.mark.parametrize("name", FORWARD)
def test_an_op_run_at_once_gives_what_its_row_says(name: str) -> None:
    row = ROWS[name]
    for one in instances(row):
        for output, expected in zip(Run(one).op.outputs, one.expected(), strict=True):
            assert output.array.dtype == output.dtype.np, one.name
            assert not op_checks.difference(expected, output.array, row.tolerance), one.name


def _numeric(one: Instance, us: list[np.ndarray], ds: dict[int, np.ndarray], step: float) -> float:
    """The derivative of the outputs along ``us``, for inputs that move along ``ds``: differences, extrapolated."""

    def slope(h: float) -> float:
        sides = []
        for far in (h, -h):
            moved = [np.asarray(x + far * ds[i], x.dtype) if i in ds else x for i, x in enumerate(one.flat)]
            sides.append(Run(one, moved).along(us))
        return (sides[0] - sides[1]) / (2 * h)

    return (4 * slope(step / 2) - slope(step)) / 3


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_a_gradient_rule_run_at_once_agrees_with_finite_differences(name: str) -> None:
    row = ROWS[name]
    random = np.random.default_rng(7)
    for one in instances(row, op_checks.gradient_dtypes(row)):
        here = Run(one)
        if not here.xs or not here.ys:
            continue
        us = [_direction(random, y.array) for y in here.ys]
        ds = {i: _direction(random, one.flat[i]) for i in here.xs}
        exact = min(one.flat[i].real.dtype.itemsize for i in here.xs) == 8
        step, rtol = (1e-4, 1e-6) if exact else (2e-2, 5e-3)
        numeric = _numeric(one, us, ds, step)
        found = here.gradients(us)
        terms = [
            np.zeros(0) if g is None else (np.conj(g) * d).real.ravel() for g, d in zip(found, ds.values(), strict=True)
        ]
        symbolic = float(sum(np.sum(term, dtype=np.float64) for term in terms))
        scale = max(abs(numeric), float(np.linalg.norm(np.concatenate(terms))))
        assert abs(symbolic - numeric) <= 1e-9 * max(1.0, scale) + rtol * scale, (one.name, symbolic, numeric)


def test_enough_rules_are_run_at_once() -> None:
    assert len(DIFFERENTIATED) >= 250


# ----------------------------------------------------------------------------------------------------------- libraries
def test_a_layer_and_its_training_step_run_at_once() -> None:
    """A dense layer, a loss, clipped gradients and Adam give what they give in a graph."""
    images = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3)
    labels = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], np.float32)
    start = np.array([[0.1, -0.2], [0.3, 0.4], [-0.5, 0.6]], np.float32)

    def model() -> tuple[tf.layers.Dense, Any, tf.train.Optimizer]:
        layer = tf.layers.Dense(
            2,
            activation=tf.nn.relu,
            kernel_initializer=tf.constant_initializer(start),
            kernel_regularizer=lambda w: 0.01 * tf.reduce_sum(tf.square(w)),
            name="hidden",
        )
        logits = layer(tf.constant(images))
        loss = tf.losses.softmax_cross_entropy(tf.constant(labels), logits, label_smoothing=0.1)
        return layer, loss + tf.add_n(layer.losses), tf.train.AdamOptimizer(0.05)

    def step(optimizer: tf.train.Optimizer, grads: list[Any], layer: tf.layers.Dense) -> Any:
        clipped, _ = tf.clip_by_global_norm(grads, 0.5)
        return optimizer.apply_gradients(zip(clipped, layer.trainable_variables, strict=True))

    with tf.Graph().as_default(), tf.variable_scope("m", use_resource=True):
        layer, loss, optimizer = model()
        update = step(optimizer, tf.gradients(loss, layer.trainable_variables), layer)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            expected_loss = session.run(loss)
            session.run(update)
            expected = session.run(layer.trainable_variables)

    with AtOnce().as_default() as builder, tf.variable_scope("m"):
        layer, loss, optimizer = model()
        assert [variable.name for variable in layer.variables] == ["m/hidden/kernel:0", "m/hidden/bias:0"]
        handles = [variable.handle for variable in layer.trainable_variables]
        assert step(optimizer, builder.gradients([loss], handles, [tf.constant(1.0)]), layer) is None
        np.testing.assert_allclose(loss.array, expected_loss, rtol=1e-6)
        for variable, value in zip(layer.trainable_variables, expected, strict=True):
            np.testing.assert_allclose(variable.read_value().array, value, rtol=1e-5, atol=1e-7)
            assert np.any(value != 0.0)


def _ones(*sizes: int) -> Any:
    return tf.constant(np.linspace(0.1, 1.0, int(np.prod(sizes)), dtype=np.float32).reshape(sizes))


def _trained(optimizer: Any, gradient: Callable[[], Any], *shape: int) -> Any:
    v = tf.Variable(np.ones(shape, np.float32))
    step = tf.train.get_or_create_global_step()
    update = optimizer.apply_gradients([(gradient(), v)], global_step=step)
    with tf.control_dependencies([] if update is None else [update]):
        return [v.read_value(), step.read_value()]


def _averaged() -> Any:
    v = tf.Variable([1.0, 2.0])
    average = tf.train.ExponentialMovingAverage(0.9)
    update = average.apply([v])
    with tf.control_dependencies([] if update is None else [update]):
        return average.average(v).read_value()


def _cell(kind: Any) -> Any:
    return kind(4, kernel_initializer=tf.ones_initializer())


def _now(value: Any) -> Any:
    """A rate that is a function of the step where ops run at once."""
    return value() if callable(value) else value


GRU = tf.nn.rnn_cell.GRUCell
LIBRARIES: dict[str, Callable[[], Any]] = {
    "convolution": lambda: tf.layers.conv2d(_ones(1, 5, 5, 2), 3, 3, kernel_initializer=tf.ones_initializer()),
    "pooling": lambda: tf.layers.max_pooling2d(_ones(1, 4, 4, 2), 2, 2),
    "batch normalization": lambda: tf.layers.batch_normalization(_ones(4, 3), training=True),
    "flatten": lambda: tf.layers.flatten(_ones(2, 3, 4)),
    "dropout": lambda: tf.layers.dropout(_ones(2, 3)),
    "dynamic_rnn": lambda: tf.nn.dynamic_rnn(_cell(GRU), _ones(2, 5, 3), [5, 2], dtype=tf.float32)[0],
    "static_rnn": lambda: tf.nn.static_rnn(_cell(GRU), [_ones(2, 3)] * 3, dtype=tf.float32)[1],
    "map_fn": lambda: tf.map_fn(lambda row: row * 2.0, _ones(3, 2)),
    "scan": lambda: tf.scan(lambda a, row: a + row, _ones(3, 2)),
    "mean_squared_error": lambda: tf.losses.mean_squared_error(_ones(2, 3), 2.0 * _ones(2, 3)),
    "sparse cross entropy": lambda: tf.losses.sparse_softmax_cross_entropy(tf.constant([0, 1]), _ones(2, 3)),
    "embedding": lambda: tf.nn.embedding_lookup([_ones(3, 2), _ones(2, 2)], tf.constant([0, 3])),
    "moments": lambda: tf.nn.moments(_ones(3, 4), [0]),
    "exponential decay": lambda: _now(tf.train.exponential_decay(0.1, tf.constant(3), 10, 0.9)),
    "moving average": _averaged,
    "gradient descent": lambda: _trained(tf.train.GradientDescentOptimizer(0.1), lambda: _ones(3), 3),
    "momentum": lambda: _trained(tf.train.MomentumOptimizer(0.1, 0.9), lambda: _ones(3), 3),
    "adagrad": lambda: _trained(tf.train.AdagradOptimizer(0.1), lambda: _ones(3), 3),
    "rmsprop": lambda: _trained(tf.train.RMSPropOptimizer(0.1), lambda: _ones(3), 3),
    "ftrl": lambda: _trained(tf.train.FtrlOptimizer(0.1), lambda: _ones(3), 3),
    "sparse adam": lambda: _trained(
        tf.train.AdamOptimizer(0.1), lambda: tf.IndexedSlices(_ones(2, 2), tf.constant([1, 1])), 3, 2
    ),
    "sparse tensor": lambda: tf.sparse_tensor_to_dense(tf.SparseTensor([[0, 1]], [2.0], [2, 2])),
    "python function": lambda: tf.py_func(lambda a: a * 2, [_ones(2)], tf.float32),
    "assertion": lambda: tf.verify_tensor_all_finite(_ones(2), "not finite"),
    "template": lambda: tf.make_template("t", lambda: tf.get_variable("v", initializer=_ones(2)))().read_value(),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_gives_at_once_what_it_gives_in_a_graph(name: str) -> None:
    with tf.Graph().as_default(), tf.variable_scope("m", use_resource=True):
        fetched = LIBRARIES[name]()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            expected = session.run(fetched)
    with tf.Graph().as_default(), AtOnce().as_default():
        found = LIBRARIES[name]()
    if isinstance(found, Value):
        found, expected = [found], [expected]
    for value, array in zip(found, expected, strict=True):
        np.testing.assert_allclose(value.array, array, rtol=1e-6, atol=1e-7)


def test_operators_indexing_and_iteration_work_on_values() -> None:
    with AtOnce().as_default():
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        assert ((2.0 - x) @ x / 2.0)[1:, 0].array.tolist() == [-3.5]
        assert [row.array.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
        assert tf.stack([x[0], [5.0, 6.0]]).array.tolist() == [[1.0, 2.0], [5.0, 6.0]]
        assert tf.reduce_sum(x) > 9.5


def test_a_failed_check_is_raised_where_the_op_is_applied() -> None:
    with AtOnce().as_default(), pytest.raises(tf.errors.InvalidArgumentError, match="indices"):
        tf.gather(tf.constant([1.0, 2.0]), tf.constant([2]))


def test_what_a_call_does_wrong_is_told() -> None:
    with AtOnce().as_default():
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"cannot compute Mul as input #1\(zero-based\)"):
            build_operation("Mul", (tf.constant(1.0), tf.constant(1)), {})
        with pytest.raises(TypeError, match="op 'Cast' without attribute 'DstT'"):
            build_operation("Cast", (tf.constant(1.0),), {})
        with pytest.raises(ValueError, match=r"tensor <float32 of shape \[\]> of dtype float32"):
            tf.convert_to_tensor(tf.constant(1.0), tf.int32)


def test_control_flow_is_pythons_own() -> None:
    with AtOnce().as_default() as builder:
        x = tf.constant(3.0)
        taken = tf.cond(x > 2.0, lambda: x * 2.0, lambda: x.nothing_like_it)
        assert taken.array == 6.0
        assert tf.case([(x < 1.0, lambda: x), (x < 4.0, lambda: -x)], default=lambda: x).array == -3.0
        assert tf.switch_case(tf.constant(1), [lambda: x, lambda: x + 1.0]).array == 4.0
        i, power = tf.while_loop(lambda i, p: i < 3, lambda i, p: (i + 1, p * x), (tf.constant(0), tf.constant(1.0)))
        assert (i.array, power.array) == (3, 27.0)
        assert builder.gradients([power], [x], [tf.constant(1.0)])[0].array == 27.0
        assert tf.while_loop(lambda n: n < 9, lambda n: n + 1, [tf.constant(0)], maximum_iterations=4).array == 4
        with pytest.raises(ValueError, match="Number of inputs and outputs of body must match loop_vars: 1, 2"):
            tf.while_loop(lambda i, p: i < 3, lambda i, p: i + 1, (tf.constant(0), x))


DIFFERENT = """big
Condition x == y did not hold.
Indices of first 2 different values:
[[0 0]
 [1 1]]
Corresponding x values:
[2 3]
Corresponding y values:
[20 30]
First 2 elements of x:
[2 2]
First 2 elements of y:
[20  2]"""


def test_assertions_show_the_places_that_differ() -> None:
    with AtOnce().as_default():
        x, y = tf.constant([[2, 2], [3, 3], [6, 6]]), tf.constant([[20, 2], [3, 30], [60, 6]])
        with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(DIFFERENT)):
            tf.assert_equal(x, y, message="big", summarize=2)
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"x < y did not hold.\n.*first 3.*\n\[\[0 1\]\n \[1 0\]"
        ):
            tf.assert_less(x, y)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"hold.\nFirst 3 elements of x:\n\[1 2 3\]\nFirst 1 "):
            tf.assert_equal(tf.constant([1, 2, 3]), 1)
        with pytest.raises(ValueError, match=r"must be of the same type \(tf.float32\) as <float32 of shape \[\]>"):
            tf.assert_same_float_dtype([tf.constant(1.0), tf.constant(1.0, tf.float64)])
