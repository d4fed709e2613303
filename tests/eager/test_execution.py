"""Ops that run when they are applied: both tiers, state, random numbers, failures."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warm_python

import anabranch as tf
from anabranch import control_flow_ops
from anabranch.core.contract import kernels, opdef
from anabranch.core.graph import default_graph
from anabranch.core.graph.build import build_operation
from anabranch.eager import application, mode
from anabranch.eager.tensor import EagerTensor
from anabranch.placement.devices import Device
from anabranch.testing import op_checks
from anabranch.testing.op_cases import Row, instances, load_rows

ROWS = {row.type_name: row for row in load_rows(Path(__file__).parents[1] / "ops")}


def _runs_here(row: Row) -> bool:
    definition = row.definition
    return bool(row.cases) and definition.effect.kind == "pure" and row.reference is not None


ALL = sorted(name for name, row in ROWS.items() if _runs_here(row))
ON_HOST = [name for name in ALL if not kernels.needs_lax(ROWS[name].definition)]
COMPILED = [name for name in ALL if kernels.needs_lax(ROWS[name].definition)]


def _applied(one: Any) -> list[EagerTensor]:
    waiting = iter(one.flat)
    arguments: list[Any] = []
    for spec in one.row.definition.inputs:
        tensors = [EagerTensor(np.asarray(next(waiting)), kind.base) for kind in spec.dtypes(one.attrs)]
        arguments.append(tensors if spec.is_list else tensors[0])
    return list(build_operation(one.row.type_name, arguments, dict(one.attrs)).outputs)


def _check(one: Any) -> None:
    for output, expected in zip(_applied(one), one.expected(), strict=True):
        array = output._array()
        assert array.dtype == output.dtype.np, one.name
        assert not op_checks.difference(expected, array, one.row.tolerance), one.name


@pytest.mark.parametrize("name", ON_HOST)
def test_an_op_gives_what_its_row_says(name: str) -> None:
    _check(next(iter(instances(ROWS[name]))))


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_an_op_that_is_compiled_gives_what_its_row_says(name: str) -> None:
    _check(next(iter(instances(ROWS[name]))))


def test_large_operands_are_compiled_once_that_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "COMPILATION", 1e5)
    x = tf.constant(np.linspace(0.0, 1.0, 40_000, dtype=np.float32))
    results = [tf.tanh(x) for _ in range(5)]
    assert isinstance(results[0]._value, np.ndarray)
    assert not isinstance(results[-1]._value, np.ndarray)
    np.testing.assert_allclose(results[0].numpy(), results[-1].numpy(), rtol=1e-6)
    assert (results[-1] + 1.0).numpy().shape == (40_000,)


def test_a_shape_that_does_not_fit_is_an_error_of_the_op() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[Op:MatMul\]"):
        tf.matmul(tf.ones([2, 2]), tf.ones([3, 3]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = 5 is not in \[0, 2\)"):
        tf.gather([1.0, 2.0], [5])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"input #1.*float tensor but is a int32 tensor"):
        tf.constant(1.0) + tf.constant(1)


def test_what_the_shape_rule_accepted_is_not_accepted_for_other_values() -> None:
    x = tf.ones([6])
    for _ in range(2):
        assert tf.reshape(x, [2, 3]).shape.as_list() == [2, 3]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot reshape a tensor with 6 elements"):
        tf.reshape(x, [2, 2])
    assert tf.reshape(x, [3, 2]).shape.as_list() == [3, 2]


@pytest.mark.parametrize("name", ON_HOST)
def test_an_op_that_ran_before_gives_the_same_bits(name: str) -> None:
    one = next(iter(instances(ROWS[name])))
    first, second, third = (_applied(one) for _ in range(3))
    for outputs in (second, third):
        for output, expected in zip(outputs, first, strict=True):
            assert output.dtype is expected.dtype
            assert output._array().dtype == expected._array().dtype
            np.testing.assert_array_equal(output._array(), expected._array())


def test_what_is_known_of_operands_holds_for_those_alone() -> None:
    x = tf.constant(np.arange(6, dtype=np.float32).reshape(2, 3))
    for _ in range(3):
        assert tf.reduce_sum(x, 0).numpy().tolist() == [3.0, 5.0, 7.0]
        assert tf.reduce_sum(x, 1).numpy().tolist() == [3.0, 12.0]
        assert tf.concat([x, x], 0).shape.as_list() == [4, 3]
        assert tf.concat([x, x, x], 1).shape.as_list() == [2, 9]
        assert tf.concat((x, [[7.0, 8.0, 9.0]]), 0).numpy()[2].tolist() == [7.0, 8.0, 9.0]
        assert x[1, -2:].numpy().tolist() == [4.0, 5.0]
        assert x[0, : 2**40].numpy().tolist() == [0.0, 1.0, 2.0]
        assert tf.add_n([x, x, x]).numpy()[1].tolist() == [9.0, 12.0, 15.0]
    rows = tf.constant([1, 0])
    assert tf.gather(x, rows).numpy()[0].tolist() == [3.0, 4.0, 5.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 2 is not in \[0, 2\)"):
        tf.gather(x, tf.constant([0, 2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = -1 is not in \[0, 2\)"):
        tf.gather(x, tf.constant([-1, 0]))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.concat([x, 2.0 * x], 1)[:, 2:5]
    assert tape.gradient(y, x).numpy().tolist() == [[2.0, 2.0, 1.0]] * 2


# --------------------------------------------------------------------------------------------------------------- state
def test_a_variable_has_its_value_when_it_is_made() -> None:
    v = tf.Variable([1.0, 2.0], name="v")
    assert (v.name, v.shape.as_list(), v.dtype) == ("v:0", [2], tf.float32)
    assert repr(v) == "<tf.Variable 'v:0' shape=(2,) dtype=float32, numpy=array([1., 2.], dtype=float32)>"
    assert v.assign([3.0, 4.0]).numpy().tolist() == [3.0, 4.0]
    assert (v + 1.0).numpy().tolist() == [4.0, 5.0]
    v.assign_add([1.0, 1.0])
    v[1:].assign([9.0])
    v.scatter_sub(tf.IndexedSlices(tf.constant([1.0]), tf.constant([0])))
    assert v.numpy().tolist() == [3.0, 9.0]
    assert v.initializer is None
    assert bool(v.is_initialized())


def test_what_was_read_stays_as_it_was() -> None:
    v = tf.Variable(np.zeros(20_000, np.float32))
    before = v.read_value()
    for _ in range(3):
        v.assign_add(tf.ones([20_000]))
    given = tf.ones([20_000]) * 7.0
    v.assign(given)
    v.assign_add(given)
    assert before.numpy().max() == 0.0
    assert given.numpy().max() == 7.0
    assert v.numpy().max() == 14.0


def test_variables_of_one_name_are_two() -> None:
    a, b = (tf.get_variable("w", [], initializer=tf.zeros_initializer()) for _ in range(2))
    a.assign(1.0)
    assert (a.name, b.name) == ("w:0", "w:0")
    assert (float(a.numpy()), float(b.numpy())) == (1.0, 0.0)
    assert a._unique_id != b._unique_id


def test_the_state_of_a_variable_goes_with_it() -> None:
    manager = mode.EAGER.worker.manager
    gc.collect()
    before = len(manager.slots())
    v = tf.Variable(tf.zeros([3]))
    assert len(manager.slots()) == before + 1
    del v
    gc.collect()
    assert len(manager.slots()) == before


def test_an_op_that_raises_changes_nothing() -> None:
    v = tf.Variable([1.0, 2.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
        v.scatter_add(tf.IndexedSlices(tf.constant([1.0, 1.0]), tf.constant([0, 5])))
    with pytest.raises(ValueError, match=r"Given: the shapes \[2\] and \[3\]"):
        v.assign([1.0, 2.0, 3.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="shape"):
        build_operation("ResourceApplyGradientDescent", (v.handle, tf.constant(1.0), tf.ones([3])), {})
    assert v.numpy().tolist() == [1.0, 2.0]


def test_an_error_names_a_variable_without_a_value() -> None:
    handle = build_operation("VarHandleOp", (), {"dtype": tf.float32, "shape": [2]}).outputs[0]
    with pytest.raises(tf.errors.FailedPreconditionError, match="Attempting to use uninitialized value"):
        build_operation("ReadVariableOp", (handle,), {"dtype": tf.float32})


def test_threads_write_one_after_the_other() -> None:
    v = tf.Variable(0)

    def count() -> None:
        with mode.eager_mode():
            for _ in range(200):
                v.assign_add(1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int(v.numpy()) == 800


def test_a_table_and_a_queue_are_there_at_once() -> None:
    table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(tf.constant(["a"]), tf.constant([3], tf.int64))
    assert table.lookup(tf.constant(["a", "b"])).numpy().tolist() == [3, -1]
    queue = tf.queue.FIFOQueue(3, tf.float32, shapes=[[]])
    queue.enqueue(1.5)
    assert float(queue.dequeue()) == 1.5
    assert int(queue.size()) == 0


# ----------------------------------------------------------------------------------------------------- random numbers
# What TensorFlow 1.15.5 gives in eager mode.
SEEDED = {
    "op": [[0.2390374, 0.92039955, 0.05051243], [0.8514762, 0.28712368, 0.7976277]],
    "process": [[0.59834492, 0.06276207], [0.01905346, 0.6496551]],
}


def test_random_ops_of_an_op_seed_go_on_like_tensorflows() -> None:
    drawn = [tf.random_uniform([3], seed=1).numpy() for _ in range(2)]
    np.testing.assert_allclose(drawn, SEEDED["op"], rtol=1e-6)


def test_a_seed_of_the_process_repeats() -> None:
    def draw() -> list[Any]:
        tf.set_random_seed(7)
        return [tf.random_normal([2]).numpy().tolist(), tf.random_uniform([2]).numpy().tolist()]

    first = draw()
    np.testing.assert_allclose(first, SEEDED["process"], rtol=1e-6)
    assert draw() == first
    assert tf.random_uniform([2]).numpy().tolist() != first[1]


def test_without_seeds_numbers_differ() -> None:
    assert tf.random_uniform([4]).numpy().tolist() != tf.random_uniform([4]).numpy().tolist()


# ------------------------------------------------------------------------------------------------------------ the mode
def test_the_mode_is_chosen_when_a_program_begins() -> None:
    program = """
import threading
import anabranch as tf
tf.enable_eager_execution()
tf.enable_eager_execution()
assert tf.executing_eagerly()
seen = []
thread = threading.Thread(target=lambda: seen.append(float(tf.constant(2.0) * 2.0)))
thread.start(); thread.join()
assert seen == [4.0]
with tf.Graph().as_default(), tf.Session() as session:
    assert session.run(tf.constant(1.0) + 1.0) == 2.0
"""
    warm_python.run(program).check_returncode()


def test_a_program_that_has_built_a_graph_is_too_late() -> None:
    with default_graph.global_graph().as_default():
        tf.constant(1.0)
    with pytest.raises(ValueError, match="must be called at program startup"):
        tf.enable_eager_execution()


def test_the_mode_takes_a_configuration_and_a_policy() -> None:
    program = """
import anabranch as tf
config = tf.ConfigProto(log_device_placement=True, allow_soft_placement=True, device_count={"CPU": 2})
tf.enable_eager_execution(config=config, device_policy=tf.contrib.eager.DEVICE_PLACEMENT_WARN)
assert tf.config.experimental.get_device_policy() == "warn"
assert len(tf.config.experimental.list_logical_devices("CPU")) == 2
try:
    with tf.device("/gpu:0"):
        raise AssertionError
except tf.errors.UnimplementedError as problem:
    assert "refuses or reports copies between devices" in str(problem)
tf.config.experimental.set_device_policy(None)
with tf.device("/gpu:7"):
    assert float(tf.constant(1.0) + 2.0) == 3.0
tf.enable_eager_execution(config=config)
try:
    tf.enable_eager_execution(config=tf.ConfigProto())
    raise AssertionError
except ValueError as problem:
    assert "Trying to change the active config" in str(problem)
"""
    done = warm_python.run(program)
    done.check_returncode()
    assert "Executing op AddV2 in device /job:localhost/replica:0/task:0/device:CPU:0" in done.stderr


def test_wrong_arguments_of_the_mode() -> None:
    with pytest.raises(ValueError, match="device_policy must be one of"):
        tf.enable_eager_execution(device_policy=9)
    with pytest.raises(ValueError, match="execution_mode must be one of"):
        tf.enable_eager_execution(execution_mode=9)


def test_name_scopes_name_variables() -> None:
    with tf.name_scope("a"), tf.name_scope("b"):
        v = tf.Variable(1.0, name="v")
    assert v.name == "a/b/v:0"
    with tf.variable_scope("s"):
        assert tf.get_variable("w", [1]).name == "s/w:0"


def test_the_shapes_that_are_remembered_are_bounded() -> None:
    kept = mode.EAGER.application(opdef.lookup("Identity"), {"T": tf.float32})
    for n in range(application._MOST_FORMS + 10):
        tf.identity(tf.zeros([n]))
    assert 0 < len(kept._accepted) <= application._MOST_FORMS


@pytest.mark.parametrize("name", ["/tpu:0", "/cpu:99"])
def test_devices_that_are_not_there_are_refused(name: str) -> None:
    text = rf"/task:0/device:{name[1:].upper()} unknown device"
    with pytest.raises(RuntimeError, match=text), tf.device(name):
        tf.constant(1.0)
    with tf.device("/cpu:0"):
        assert float(tf.constant(1.0) + 1.0) == 2.0


def test_ops_run_on_the_first_device_of_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [Device("cpu", 0), Device("cpu", 1)]
    monkeypatch.setattr(mode.EAGER.worker.devices, "listed", lambda: listed)
    with pytest.raises(tf.errors.UnimplementedError, match="first device of a type"), tf.device("/cpu:1"):
        tf.constant(1.0)


@pytest.mark.parametrize("values", [-3, [1, 0], (0,), np.array([1], np.int32), 2**40, [2**40], np.array([1], np.int64)])
def test_operands_of_python_are_taken_again_like_the_first_time(values: Any) -> None:
    axes = [1, 0] if isinstance(values, list) and values[0] == 1 else [0]
    x = tf.constant(np.arange(6.0).reshape(2, 3), tf.float32)
    for _ in range(2):
        if np.max(np.abs(values)) < 2:
            assert tf.reduce_sum(x, values).shape.ndims == 2 - len(axes)
        elif isinstance(values, int) and values < 0:
            np.testing.assert_array_equal((x * values).numpy(), x.numpy() * values)
        else:
            with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=r"axis|axes|dimension"):
                tf.reduce_sum(x, values)


def test_an_operand_of_another_type_is_converted_anew() -> None:
    counts, halves = tf.constant([1, 2]), tf.constant([1.0, 2.0], tf.float16)
    for _ in range(2):
        assert (counts * 3).dtype == tf.int32
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected to be a int32 tensor but is a float"):
            counts * 1.5
        with pytest.raises(TypeError, match="int32"):
            1.5 * counts
        assert (halves * 0.5).numpy().tolist() == [0.5, 1.0]
        with pytest.raises(ValueError, match=r"out of range|int32"):
            counts * 2**40


def test_an_array_that_became_an_operand_may_be_changed() -> None:
    axes = np.array([2, 3], np.int32)
    x = tf.zeros([6])
    tf.reshape(x, axes)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reshape(x, axes)
        axes[:] = 0
    assert tape.gradient(y, x).shape == (6,)


def test_an_op_without_results_runs_once_each_time() -> None:
    v = tf.Variable(1.0)
    for expected in (2.0, 3.0, 4.0):
        v.assign_add(tf.constant(1.0))
        assert float(v.numpy()) == expected


def test_padding_takes_lists() -> None:
    assert tf.pad(tf.ones([2]), [[1, 2]]).numpy().tolist() == [0.0, 1.0, 1.0, 0.0, 0.0]


def test_lists_that_hold_tensors_become_of_the_dtype_that_is_wanted() -> None:
    three, two = tf.constant(3.0), tf.constant(2)
    for run in (lambda function: function(), lambda function: tf.function(function)()):
        assert run(lambda: tf.reshape(tf.ones([9]), (three, three, 1))).shape == (3, 3, 1)
        assert run(lambda: tf.convert_to_tensor((two, two), tf.float32)).numpy().tolist() == [2.0, 2.0]
        assert run(lambda: tf.tile(tf.ones([1]), [three])).numpy().tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(TypeError, match="int32"):
        tf.stack([two, 2.5])


def test_variables_of_one_kind_are_made_again_and_again(monkeypatch):
    monkeypatch.setattr(application, "COMPILATION", 0.0)  # what comes when many large ones have been made
    for number in range(3):
        variable = tf.Variable(np.full(50_000, number, np.float32))
        variable.assign(variable + 1.0)
        assert float(variable[-1].numpy()) == number + 1


def test_case_where_ops_run_at_once() -> None:
    """Values and classes of errors are TensorFlow 1.15's."""
    holds, holds_not = tf.constant(True), tf.constant(False)
    first, second = (holds, lambda: tf.constant(17)), (holds_not, lambda: tf.constant(23))
    for pairs in ([first, second], dict([first, second])):
        assert tf.case(pairs, exclusive=True).numpy() == 17
        assert tf.case(pairs, default=lambda: tf.constant(-1), exclusive=True).numpy() == 17
    assert tf.case([second, second], default=lambda: tf.constant(-1), exclusive=True).numpy() == -1
    with pytest.raises(ValueError, match="Unordered dictionaries are not supported for the `pred_fn_pairs` argument"):
        tf.case(dict([first, second]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="exclusive=True: more than 1 conditions"):
        tf.case([first, first], exclusive=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="None of conditions evaluated as True"):
        tf.case([second, second])
    with pytest.raises(
        ValueError, match=r"branch indices \(keys\) must form contiguous range of \[0 to 2\) but .* {0,5}"
    ):
        tf.switch_case(tf.constant(7), {0: lambda: 1, 5: lambda: 2})
    assert control_flow_ops.with_dependencies(holds, holds_not) is holds_not


def test_small_draws_go_by_their_streams():
    with mode.eager_mode():
        first, second = (tf.random.truncated_normal([3, 4]).numpy() for _ in range(2))
        assert first.shape == (3, 4)
        assert (first != second).all()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda: tf.ones(2) * tf.ones(3), r"^Incompatible shapes: \[2\] vs. \[3\] \[Op:Mul\]\n"),
        (
            lambda: tf.matmul(tf.ones((2, 3)), tf.ones((2, 3))),
            r"^Matrix size-incompatible: In\[0\]: \[2,3\], In\[1\]: \[2,3\] \[Op:MatMul\]\n",
        ),
        (
            lambda: tf.concat([tf.ones((1, 2)), tf.ones((1, 3))], 0),
            r"^ConcatOp : Dimensions of inputs should match: shape\[0\] = \[1,2\] vs. shape\[1\] = \[1,3\]",
        ),
        (lambda: tf.reshape(tf.ones(4), [3]), "^Input to reshape is a tensor with 4 values, but the requested shape"),
        (lambda: tf.stack([tf.ones(2), tf.ones(3)]), "^Shapes of all inputs must match: values"),
        (lambda: tf.one_hot([1], -1), r"^depth must be non-negative, got: -1 \[Op:OneHot\]"),
    ],
)
def test_shapes_that_do_not_fit_are_told_in_the_words_of_kernels(function, words):
    with mode.eager_mode(), pytest.raises(tf.errors.InvalidArgumentError, match=words):
        function()


def test_what_is_no_value_is_refused_by_both_classes():
    with mode.eager_mode():
        for kind in (TypeError, ValueError):
            with pytest.raises(kind, match="Failed to convert object of type"):
                tf.convert_to_tensor(object())
        with pytest.raises(TypeError, match="Cannot iterate over a scalar tensor"):
            iter(tf.constant(1))


def test_numbers_of_a_loop_stay_numbers():
    with mode.eager_mode():
        seen = []

        def body(i, x):
            seen.append(type(i))
            return i + 1, x * 2.0 + i

        i, x = tf.while_loop(lambda i, x: i < 3, body, (0, tf.constant([1.0])))
        assert set(seen) == {int}
        assert (i.dtype, int(i)) == (tf.int32, 3)
        np.testing.assert_array_equal(x.numpy(), [12.0])
        (pair,) = tf.while_loop(
            lambda v: v["a"] < 2, lambda v: ({"a": v["a"] + 1},), ({"a": 0},), return_same_structure=True
        )
        assert int(pair["a"]) == 2


def test_a_list_of_one_tensor_as_an_operand():
    with mode.eager_mode():
        x = tf.range(5)
        for start in range(3):
            np.testing.assert_array_equal(tf.slice(x, [tf.constant(start)], [2]).numpy(), [start, start + 1])
