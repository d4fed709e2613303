"""`tf.contrib.eager`: callbacks after ops, iterators, savers, stores of variables, and the names of its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import eager_names
from anabranch.eager import mode

tfe = tf.contrib.eager


def test_a_callback_is_told_of_each_op() -> None:
    told: list[Any] = []
    tfe.add_execution_callback(lambda *args: told.append(args))
    tf.multiply(tf.constant(2.0), tf.constant(3.0))
    tf.matmul([[1.0]], [[2.0]], transpose_b=True)
    tfe.clear_execution_callbacks()
    tf.constant(1.0) + 1.0
    assert [args[0] for args in told] == ["Mul", "MatMul"]
    _, inputs, attrs, outputs, _ = told[1]
    assert (len(inputs), [float(x) for x in outputs]) == (2, [2.0])
    assert dict(zip(attrs[::2], attrs[1::2], strict=True))["transpose_b"] is True


def test_infinities_and_nans_raise_while_that_is_asked_for() -> None:
    zero = tf.constant([0.0, 1.0])
    with pytest.raises(
        Exception, match=r"Output 1 of 1 of TFE operation Log .* contains 1 inf\(s\) out of a total of 2"
    ):
        with tfe.errstate(inf_or_nan=tfe.ExecutionCallback.RAISE):
            tf.log(zero)
    assert np.isneginf(tf.log(zero).numpy()[0])
    assert tfe.seterr("raise") == {"inf_or_nan": tfe.ExecutionCallback.IGNORE}
    with pytest.raises(Exception, match=r"contains 1 nan\(s\)"):
        tf.constant(0.0) / tf.constant(0.0)
    assert tfe.seterr(tfe.ExecutionCallback.IGNORE) == {"inf_or_nan": tfe.ExecutionCallback.RAISE}
    tfe.add_execution_callback(tfe.nan_callback)
    tf.log(zero)
    with pytest.raises(ValueError, match="'shout' is not a valid ExecutionCallback"):
        tfe.seterr("shout")


def test_warnings_go_where_they_are_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    with tfe.errstate("print"):
        tf.log(tf.constant(0.0))
    assert capsys.readouterr().out.startswith("Warning: Output 1 of 1 of TFE operation Log")


def test_an_iterator_goes_through_a_dataset_once() -> None:
    iterator = tfe.Iterator(tf.data.Dataset.range(4).batch(2))
    assert [x.numpy().tolist() for x in iterator] == [[0, 1], [2, 3]]
    with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
        iterator.get_next()
    with pytest.raises(TypeError, match="must be a `tf"):
        tfe.Iterator([1, 2])
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="only be used when eager"):
        tfe.Iterator(tf.data.Dataset.range(4))


def test_a_saver_restores_all_or_nothing(tmp_path: Path) -> None:
    one, two = tfe.Variable([1.0, 2.0], name="one"), tfe.Variable(3, name="two")
    path = tfe.Saver([one, two]).save(str(tmp_path / "model"), global_step=tf.Variable(7))
    assert str(path).endswith("model-7")
    one.assign([0.0, 0.0])
    wrong = tfe.Variable([1, 2], name="two")
    with pytest.raises(ValueError, match=r"Shapes \(2,\) and \(\) are not compatible|incompatible|must be equal"):
        tfe.Saver({"one": one, "two": wrong}).restore(path)
    assert one.numpy().tolist() == [0.0, 0.0]
    tfe.Saver([one, two]).restore(path)
    assert one.numpy().tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="`var_list` must specify"):
        tf.train.Saver()
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="can only be used when eager execution is enabled"):
        tfe.Saver([])


def test_variables_begin_with_the_values_of_a_checkpoint(tmp_path: Path) -> None:
    path = tfe.Saver([tfe.Variable(5.0, name="v")]).save(str(tmp_path / "model"))
    with tfe.restore_variables_on_create(path):
        assert float(tfe.Variable(1.0, name="v")) == 5.0
        assert float(tfe.Variable(1.0, name="v")) == 1.0  # the second of the name
        with pytest.raises(tf.errors.NotFoundError, match="w not found in checkpoint"):
            tfe.Variable(1.0, name="w")
    with tfe.restore_variables_on_create(path, map_func=lambda name: "v"):
        assert float(tfe.Variable(1.0, name="w")) == 5.0
    with tfe.restore_variables_on_create(None):
        assert float(tfe.Variable(1.0, name="v")) == 1.0


def test_a_store_finds_variables_again() -> None:
    container = tfe.EagerVariableStore()
    for _ in range(2):
        with container.as_default():
            x = tf.layers.dense(tf.ones([1, 2]), 3, name="l1")
            tf.layers.batch_normalization(x, name="norm", training=True)
    names = ["l1/bias:0", "l1/kernel:0", "norm/beta:0", "norm/gamma:0"]
    assert [v.name for v in container.trainable_variables()] == names
    assert [v.name for v in container.non_trainable_variables()] == ["norm/moving_mean:0", "norm/moving_variance:0"]
    copied = container.copy()
    before = container.variables()[0].numpy()
    copied.variables()[0].assign_add([1.0, 1.0, 1.0])
    np.testing.assert_array_equal(container.variables()[0].numpy(), before)
    with pytest.raises(ValueError, match="does not hold eager variables"):
        tfe.EagerVariableStore(type(container._store)())


def test_a_template_shares_its_variables() -> None:
    template = tf.make_template("scale", lambda x: x * tf.get_variable("w", [2]))
    first, second = template(1.0), template(1.0)
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    assert [v.name for v in template.variables] == ["scale/w:0"]
    outer = tf.make_template("outer", lambda x: tf.layers.dense(x, 2, name="d"))
    outer(tf.ones([1, 2]))
    assert sorted(v.name for v in outer.trainable_variables) == ["outer/d/bias:0", "outer/d/kernel:0"]
    with pytest.raises(ValueError, match="unique_name_ cannot be used"):
        tf.make_template("t", lambda: None, unique_name_="t")


def test_modes_of_execution_have_one_meaning() -> None:
    tfe.set_execution_mode(tfe.ASYNC)
    with tfe.execution_mode(tfe.SYNC):
        tfe.async_wait()
        tfe.async_clear_error()
    with pytest.raises(ValueError, match="Execution mode should be None/SYNC/ASYNC"):
        tfe.set_execution_mode(7)
    assert tfe.list_devices()[0].endswith("/device:CPU:0")
    assert tfe.num_gpus() == sum("GPU" in name for name in tfe.list_devices())
    with pytest.raises(tf.errors.UnimplementedError, match="ops of eager mode on other machines"):
        tfe.connect_to_remote_host("localhost:1")


def test_a_block_has_a_global_step_of_its_own() -> None:
    step = tf.train.get_or_create_global_step()
    with tfe.IsolateTest():
        assert tf.train.get_global_step() is None
    assert tf.train.get_global_step() is step
    with mode.graph_mode():
        graph = tf.get_default_graph()
        with tfe.IsolateTest():
            assert tf.get_default_graph() is not graph
            assert tf.get_default_session().graph is tf.get_default_graph()


def test_a_test_runs_in_both_modes() -> None:
    seen = []

    class Both(tf.test.TestCase):  # type: ignore[misc, name-defined]
        @tfe.run_test_in_graph_and_eager_modes()
        def test_one(self) -> None:
            seen.append(tf.executing_eagerly())
            assert self.evaluate(tf.constant(1.0) + 1.0) == 2.0

    Both("test_one").test_one()
    assert seen == [False, True]


REFUSED: list[tuple[Any, str]] = [
    (lambda: tf.placeholder(tf.float32), r"tf.placeholder\(\) is not compatible with eager execution"),
    (lambda: tf.summary.merge_all(), "Merging tf.summary"),
    (lambda: tf.summary.FileWriter("unused"), "FileWriter is not compatible"),
    (lambda: tf.add_check_numerics_ops(), "not compatible with eager execution"),
    (lambda: tf.train.import_meta_graph("unused"), "Exporting/importing meta graphs"),
    (lambda: tf.train.export_meta_graph(), "Exporting/importing meta graphs"),
    (lambda: tf.train.string_input_producer(["a"]), "Input pipelines based on Queues"),
    (lambda: tf.metrics.accuracy([1], [1]), "not supported when eager execution is enabled"),
    (lambda: tf.Variable(1.0).initial_value, "initial_value not supported in EAGER mode"),
]


@pytest.mark.parametrize(("call", "text"), REFUSED)
def test_what_only_graphs_have_is_refused(call: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call()


def test_operands_of_two_dtypes_are_refused_as_by_the_runtime() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="was expected to be a int32 tensor"):
        tf.constant([1, 2]) + tf.constant([1.0, 2.0])
    with tf.Graph().as_default(), pytest.raises(TypeError, match="does not match type int32"):
        tf.add(tf.constant([1, 2]), tf.constant([1.0, 2.0]))


def test_watched_variables_come_in_the_order_in_which_they_were_made() -> None:
    one, two = tfe.Variable(1.0), tfe.Variable(2.0)
    pairs = tfe.implicit_gradients(lambda: two * two + one * one)()
    assert [variable for _, variable in pairs] == [one, two]


def test_ops_are_run_by_their_types_as_internal_modules_of_tensorflow_do() -> None:
    names = eager_names
    (product,) = names.execute(b"Mul", 1, [tf.constant(3), tf.constant(5)], ("T", tf.int32.as_datatype_enum))
    assert int(product) == 15
    (total,) = names.execute("AddN", 1, [tf.constant(1.0)] * 3, ("N", 3, "T", tf.float32))
    assert float(total) == 3.0
    with pytest.raises(tf.errors.NotFoundError, match="Op type not registered 'Blah'"):
        names.execute("Blah", 1, [], None)
    with pytest.raises(tf.errors.InvalidArgumentError, match="has no attr named 'nothing'"):
        names.execute("Relu", 1, [tf.constant(1.0)], ("nothing", 1))
    with pytest.raises(tf.errors.InvalidArgumentError, match="boundaries"):
        names.execute("Bucketize", 1, [tf.constant([1.0])], ("T", tf.float32, "boundaries", 4.0))
