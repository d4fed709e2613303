"""tf.function: traces, captures, variables, effects, gradients, control flow."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import v2


def test_a_function_is_traced_once_for_a_kind_of_arguments() -> None:
    traces = []

    @tf.function
    def f(x: Any, scale: Any = 2.0) -> Any:
        traces.append(None)
        return x * scale

    x = tf.constant([1.0, 2.0])
    assert f(x).numpy().tolist() == f(x).numpy().tolist() == [2.0, 4.0]
    assert len(traces) == 1
    f(x, 3.0)
    assert f(np.array([1.0, 2.0], np.float32)).numpy().tolist() == [2.0, 4.0]
    assert len(traces) == 2
    assert f(tf.constant([1.0])).numpy().tolist() == [2.0]
    assert f(x=x, scale=3.0).numpy().tolist() == [3.0, 6.0]
    assert len(traces) == 3
    assert f.python_function(1.0) == 2.0


def test_structures_go_in_and_out() -> None:
    @tf.function
    def f(pair: Any, table: Any) -> Any:
        return {"sum": pair[0] + pair[1], "more": (table["a"], None), "plain": 3}

    result = f((tf.constant(1.0), tf.constant(2.0)), {"a": tf.constant([1])})
    assert (float(result["sum"]), result["more"][0].numpy().tolist(), result["more"][1]) == (3.0, [1], None)
    assert int(result["plain"]) == 3
    assert tf.function(lambda: None)() is None
    slices = tf.function(lambda s: tf.IndexedSlices(s.values * 2.0, s.indices))(
        tf.IndexedSlices(tf.constant([1.0]), tf.constant([3]))
    )
    assert (slices.values.numpy().tolist(), slices.indices.numpy().tolist()) == ([2.0], [3])
    with pytest.raises(ValueError, match="must be hashable"):
        f((tf.constant(1.0), bytearray(b"a")), {"a": 1})


def test_values_and_variables_from_outside_are_captured() -> None:
    v = tf.Variable(1.0)
    scale = tf.constant(3.0)
    count = tf.constant(2)

    @tf.function
    def f(x: Any) -> Any:
        return x * v * scale * tf.cast(count, tf.float32)

    assert float(f(tf.constant(2.0))) == 12.0
    v.assign(10.0)
    assert float(f(tf.constant(2.0))) == 120.0
    concrete = f.get_concrete_function(tf.TensorSpec([], tf.float32))
    assert concrete.variables == (v,)
    assert len(concrete.captured_inputs) == 2
    assert float(concrete(tf.constant(1.0))) == 60.0


def test_effects_happen_in_order_at_each_call() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def f() -> Any:
        before = v.read_value()
        v.assign_add(1.0)
        middle = v.read_value()
        v.assign(v * 10.0)
        return before, middle

    assert [float(value) for value in f()] == [1.0, 2.0]
    assert [float(value) for value in f()] == [20.0, 21.0]
    assert float(v.numpy()) == 210.0


def test_a_failure_in_a_function_changes_nothing() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def f(x: Any) -> Any:
        v.assign_add(1.0)
        tf.Assert(x > 0.0, [x])
        v.assign_add(1.0)
        return tf.gather(tf.constant([1.0]), tf.cast(x, tf.int32))

    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
        f(tf.constant(5.0))
    assert float(v.numpy()) == 1.0


def test_variables_are_made_once() -> None:
    class Model:
        v: Any = None

        @tf.function
        def __call__(self, x: Any) -> Any:
            if self.v is None:
                self.v = tf.Variable(3.0)
            return self.v * x

    one, two = Model(), Model()
    assert [float(one(tf.constant(2.0))), float(one(tf.constant([2.0])[0]))] == [6.0, 6.0]
    assert float(two(tf.constant(1.0))) == 3.0
    assert one.v is not two.v

    @tf.function
    def always(x: Any) -> Any:
        return tf.Variable(1.0) * x

    with pytest.raises(ValueError, match="tried to create variables on non-first call"):
        always(tf.constant(1.0))
    assert float(tf.contrib.eager.defun(lambda x: tf.Variable(2.0) * x)(tf.constant(1.0))) == 2.0


def test_an_input_signature_is_traced_once() -> None:
    traces = []

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def f(x: Any) -> Any:
        traces.append(x.shape.as_list())
        return tf.reduce_sum(x)

    assert [float(f(tf.ones([n]))) for n in (1, 2, 3)] == [1.0, 2.0, 3.0]
    assert float(f([1.0, 2.0])) == 3.0
    assert traces == [[None]]
    with pytest.raises(ValueError, match="Python inputs incompatible with input_signature"):
        f(tf.ones([2, 2]))
    with pytest.raises(ValueError, match="Python inputs incompatible with input_signature"):
        f(tf.constant([1], tf.int64))
    with pytest.raises(TypeError, match="too many positional arguments"):
        f(tf.ones([2]), tf.ones([2]))


def test_shapes_are_relaxed_if_that_is_asked_for() -> None:
    traces = []

    @tf.function(experimental_relax_shapes=True)
    def f(x: Any) -> Any:
        traces.append(x.shape.as_list())
        return x * 2.0

    for n in (1, 2, 3, 4):
        assert f(tf.ones([n])).shape.as_list() == [n]
    assert traces == [[1], [None]]


def test_a_storm_of_traces_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    f = tf.function(lambda x, n: x * n)
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        for n in range(6):
            f(tf.constant(1.0), float(n))
    assert "traces of" in caplog.text


# ----------------------------------------------------------------------------------------------------------- gradients
def test_a_tape_differentiates_a_call() -> None:
    w = tf.Variable([2.0, 3.0])

    @tf.function
    def loss(x: Any) -> Any:
        hidden = tf.nn.tanh(x * w)
        return tf.reduce_sum(hidden * hidden), hidden

    x = tf.constant([0.1, 0.2])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        value, _ = loss(x)
    with tf.GradientTape(persistent=True) as plain:
        plain.watch(x)
        other, _ = loss.python_function(x)
    np.testing.assert_allclose(value.numpy(), other.numpy(), rtol=1e-6)
    for source in (x, w):
        np.testing.assert_allclose(tape.gradient(value, source), plain.gradient(other, source), rtol=1e-5)


def test_second_orders_go_through_calls() -> None:
    f = tf.function(lambda x: x * x * tf.sin(x))
    x = tf.constant(0.7)

    def second(function: Any) -> float:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = function(x)
            first = inner.gradient(y, x)
        return float(outer.gradient(first, x))

    np.testing.assert_allclose(second(f), second(f.python_function), rtol=1e-5)


def test_what_was_drawn_is_what_is_differentiated() -> None:
    @tf.function
    def f(x: Any) -> Any:
        mask = tf.cast(tf.random_uniform([50]) < 0.5, tf.float32)
        return x * mask, mask

    x = tf.ones([50])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, mask = f(x)
    assert tape.gradient(y, x).numpy().tolist() == mask.numpy().tolist()
    assert f(x)[1].numpy().tolist() != mask.numpy().tolist()


def test_loops_in_functions_are_differentiated() -> None:
    @tf.function
    def power(x: Any, n: Any) -> Any:
        result = tf.ones_like(x)
        i = 0
        while i < n:
            result = result * x
            i += 1
        return result

    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = power(x, tf.constant(4))
    assert (float(y), float(tape.gradient(y, x))) == (16.0, 32.0)


def test_a_step_of_training_is_one_function() -> None:
    w = tf.Variable([1.0, -1.0])
    optimizer = tf.train.GradientDescentOptimizer(0.5)

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.square(w * x))
        optimizer.apply_gradients(zip(tape.gradient(value, [w]), [w], strict=True))
        return value

    x = tf.constant([1.0, 0.5])
    start = w.numpy()
    expected = float(step(x)), w.numpy().tolist()
    w.assign(start)
    compiled = tf.function(step)
    assert (float(compiled(x)), w.numpy().tolist()) == expected
    assert float(compiled(x)) < expected[0]


# -------------------------------------------------------------------------------------------------------- control flow
def test_branches_and_loops_depend_on_tensors() -> None:
    @tf.function
    def absolute(x: Any) -> Any:
        if tf.reduce_sum(x) > 0.0:
            y = x
        else:
            y = -x
        return y

    @tf.function
    def early(x: Any) -> Any:
        if x > 0.0:
            return x
        return x * 10.0

    @tf.function
    def total(values: Any) -> Any:
        result = 0.0
        for value in values:
            if value > 10.0:
                break
            result = result + value
        return result

    @tf.function
    def count(n: Any) -> Any:
        result = 0
        for i in tf.range(n):
            if i % 2 == 0 and i > 0:
                continue
            result += i
        return result

    assert absolute(tf.constant([-1.0, -2.0])).numpy().tolist() == [1.0, 2.0]
    assert [float(early(tf.constant(x))) for x in (2.0, -2.0)] == [2.0, -20.0]
    assert float(total(tf.constant([1.0, 2.0, 11.0, 4.0]))) == 3.0
    assert int(count(tf.constant(3))) == 3


def test_a_variable_of_one_branch_is_an_error() -> None:
    @tf.function
    def f(x: Any) -> Any:
        if x > 0.0:
            y = x
        return y

    with pytest.raises(ValueError, match="'y' must also be initialized in the else branch"):
        f(tf.constant(1.0))


def test_an_error_names_the_line_of_the_program() -> None:
    @tf.function
    def f(x: Any) -> Any:
        return tf.matmul(x, x)  # the line

    with pytest.raises(ValueError, match=r"return tf\.matmul\(x, x\)  # the line"):
        f(tf.ones([2, 3]))


def test_the_source_that_autograph_makes_is_code_for_a_reader() -> None:
    def positive(x):  # type: ignore[no-untyped-def]
        if x > 0:
            x = x * x
        return x

    code = tf.autograph.to_code(positive, indentation="\t")
    assert code.startswith("def ag__positive(x):\n\twith ")
    compile(code, "code", "exec")
    assert ".if_stmt(" in code


def test_without_autograph_a_branch_is_refused() -> None:
    with pytest.raises(TypeError, match="used as a Python bool"):
        tf.function(lambda x: x if x > 0.0 else -x, autograph=False)(tf.constant(1.0))


# -------------------------------------------------------------------------------------------------------------- graphs
def test_functions_call_functions() -> None:
    v = tf.Variable(1.0)
    inner = tf.function(lambda x: x * v)

    @tf.function
    def outer(x: Any) -> Any:
        v.assign_add(1.0)
        return inner(x) + inner(x)

    x = tf.constant(3.0)
    assert float(outer(x)) == 12.0
    with tf.GradientTape() as tape:
        y = outer(x)
    assert (float(y), float(tape.gradient(y, v))) == (18.0, 6.0)


def test_a_function_that_another_calls_is_part_of_its_trace() -> None:
    v, w = tf.Variable(1.0), tf.Variable(2.0)

    @tf.function
    def product(x: Any, y: Any) -> Any:
        v.assign_add(1.0)
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            z = x * y * y
        return {"slopes": tape.gradient(z, [x, y]), "z": z, "none": None}

    @tf.function
    def nothing(x: Any) -> None:
        w.assign(x * v)

    @tf.function
    def outer(x: Any) -> Any:
        done = nothing(x)
        with tf.control_dependencies([done]):
            first = w + 0.0
        return first, product(x, x), w * v

    concrete = outer.get_concrete_function(tf.TensorSpec([], tf.float32))
    assert not [op for op in concrete.graph.get_operations() if "PartitionedCall" in op.type]
    first, result, last = outer(tf.constant(3.0))
    assert (float(first), float(last), float(result["z"])) == (3.0, 6.0, 27.0)
    assert [float(slope) for slope in result["slopes"]] == [9.0, 18.0]  # x is passed twice, and is two arguments
    assert result["none"] is None


def test_optionals_of_a_function_are_structures_again() -> None:
    optional = tf.data.experimental.Optional

    @tf.function
    def wrapped(x: Any) -> Any:
        return optional.from_value({"b": x, "a": (x + 1.0, x + 2.0)}), optional.from_value({"b": x, "a": x * 2.0})

    for number in (1.0, 5.0):
        nested, flat = wrapped(tf.constant(number))
        assert bool(nested.has_value())
        assert bool(flat.has_value())
        value = nested.get_value()
        assert list(map(float, (value["b"], *value["a"]))) == [number, number + 1.0, number + 2.0]
        assert {name: float(part) for name, part in flat.get_value().items()} == {"b": number, "a": 2.0 * number}
    assert not bool(tf.function(lambda: optional.none_from_structure(tf.TensorSpec([], tf.float32)))().has_value())


def test_a_function_is_a_call_in_a_graph() -> None:
    square = tf.function(lambda x: x * x)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [])
        y = square(x)
        assert y.op.type == "PartitionedCall"
        assert session.run([y, *tf.gradients(y, x)], {x: 3.0}) == [9.0, 6.0]


def test_a_graphs_tensor_does_not_get_out() -> None:
    leaked = []
    tf.function(lambda x: leaked.append(x + 1.0))(tf.constant(1.0))
    with pytest.raises(TypeError, match="of a graph, in code that runs its ops at once"):
        tf.add(leaked[0], 1.0)


# ------------------------------------------------------------------------------------- effects of branches and of loops
def test_effects_of_branches_and_loops_run_whether_an_output_needs_them() -> None:
    v = tf.Variable(0.0)

    @tf.function
    def branch(n: Any) -> None:
        tf.cond(n > 0, lambda: (v.assign_add(10.0), tf.constant(1))[1], lambda: tf.constant(2))
        v.assign(v * 2.0)
        tf.while_loop(lambda i: i < 2, lambda i: (v.assign_add(1.0), i + 1)[1], [tf.constant(0)])

    branch(tf.constant(1))
    assert float(v) == 22.0
    branch(tf.constant(0))
    assert float(v) == 46.0


def test_effects_of_autograph_run() -> None:
    v = tf.Variable(0.0)

    @tf.function
    def loop(n: Any) -> None:
        for i in tf.range(n):
            if i > 0:
                v.assign_add(1.0)

    loop(tf.constant(3))
    assert float(v) == 2.0
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable(0.0, use_resource=True)

        @tf.function
        def in_graph(n: Any) -> Any:
            for i in tf.range(n):
                if i > 0:
                    w.assign_add(1.0)
            return n

        result = in_graph(tf.constant(3))
        session.run(tf.global_variables_initializer())
        session.run(result)
        assert session.run(w) == 2.0


def test_a_loop_over_a_dataset() -> None:
    v = tf.Variable(0.0)

    @tf.function
    def products() -> Any:
        count = 0
        for x, y in tf.data.Dataset.from_tensor_slices(([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])):
            v.assign_add(x * y)
            count += 1
        return count

    @tf.function
    def until(dataset: Any) -> Any:
        total = tf.constant(0, tf.int64)
        for x in dataset.batch(2):
            total += tf.reduce_sum(x)
            if total > 5:
                break
        return total

    assert (int(products()), float(v)) == (3, 32.0)
    assert (int(products()), float(v)) == (3, 64.0)  # each call begins anew
    assert [int(until(tf.data.Dataset.range(10))) for _ in range(2)] == [6, 6]


def test_training_over_a_dataset_in_a_function() -> None:
    dataset = tf.data.Dataset.from_tensor_slices(([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1.0, 2.0, 3.0])).batch(2)
    one, two = tf.Variable([1.0, 1.0]), tf.Variable([1.0, 1.0])

    def train(w: Any) -> Any:
        loss = tf.constant(0.0)
        for x, y in dataset:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((tf.reduce_sum(x * w, 1) - y) ** 2)
            w.assign_sub(0.01 * tape.gradient(loss, w))
        return loss

    step = tf.function(lambda: train(one))
    for _ in range(2):
        np.testing.assert_allclose(step().numpy(), train(two).numpy(), rtol=1e-5)
    np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-5)


def test_functions_that_bodies_of_a_trace_call_act_in_each_iteration() -> None:
    v, w = tf.Variable(0.0), tf.Variable(1.0)

    @tf.function
    def step(x: Any) -> Any:
        v.assign_add(x * w)
        w.assign(w * 2.0)
        return v + 0.0

    @tf.function
    def steps(count: Any) -> Any:
        def body(number: Any, _: Any) -> Any:
            result = v2.cond(number < 3, lambda: step(tf.cast(number, tf.float32)), lambda: v + 0.0)
            return number + 1, result

        return v2.while_loop(lambda number, _: number < count, body, (tf.constant(1), tf.constant(0.0)))[1]

    assert float(steps(tf.constant(6))) == 5.0
    assert (float(v), float(w)) == (5.0, 4.0)


def test_contrib_autograph() -> None:
    @tf.contrib.autograph.convert()
    def halved(n):
        steps = 0
        while n > 1:
            n = n // 2
            steps += 1
        return steps

    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(halved(tf.constant(9))) == 3
        stacked = tf.contrib.autograph.stack([1, tf.constant(2)])
        assert session.run(stacked).tolist() == [1, 2]
        assert tf.contrib.autograph.stack(stacked) is stacked
    with pytest.raises(ValueError, match="cannot stack 'x'"):
        tf.contrib.autograph.stack("x")
    assert tf.contrib.autograph.stack("x", strict=False) == "x"


def test_arrays_lists_and_plain_values_are_told_apart_in_each_call() -> None:
    traces = []

    @tf.function
    def f(x, y=1.0, *more, flag=False, name=None):
        traces.append((flag, name))
        parts = y if isinstance(y, (list, tuple)) else [y]
        total = sum([tf.cast(part, tf.float32) for part in parts])
        return total - tf.cast(x, tf.float32) if flag else total + tf.cast(x, tf.float32)

    array = np.array([1.0, 2.0], np.float32)
    for _ in range(3):
        assert f(array).numpy().tolist() == [2.0, 3.0]
        assert f(tf.constant(array)).numpy().tolist() == [2.0, 3.0]
        assert f(array, flag=True).numpy().tolist() == [0.0, -1.0]
        assert f(array, [array, tf.constant(1.0)], flag=True, name="a").numpy().tolist() == [1.0, 1.0]
        assert f(array, (array, array), name="b").numpy().tolist() == [3.0, 6.0]
        assert f(y=2, x=array).numpy().tolist() == [3.0, 4.0]
        assert f(array, y=array, flag=True).numpy().tolist() == [0.0, 0.0]
        assert f(array.astype(np.int64), 2.0).numpy().tolist() == [3.0, 4.0]
        assert f(array, 2.0).numpy().tolist() == [3.0, 4.0]
        assert f(array, True).numpy().tolist() == [2.0, 3.0]
        array[0], array[1] = 1.0, 2.0
    assert len(traces) == 9
    first = f(array)
    array[0] = 5.0
    assert first.numpy().tolist() == [2.0, 3.0]


def test_what_a_function_was_given_stays_as_it_was() -> None:
    kept = tf.Variable(tf.zeros([2]))

    @tf.function
    def keep(x):
        kept.assign(x)
        return x

    array = np.ones(2, np.float32)
    for _ in range(3):
        array[:] = 1.0
        given = keep(array)
        array[:] = 7.0
        assert given.numpy().tolist() == kept.numpy().tolist() == [1.0, 1.0]
