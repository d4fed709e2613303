"""Arrays of tensors: every method in both tiers, in loops and conditionals, gradients, and TensorFlow's errors."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph import composites
from anabranch.session import SessionOptions
from anabranch.testing import check_gradients

X = np.arange(6, dtype=np.float32).reshape(3, 2) + 1


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=request.param)) as active:
        yield active


def fed(shape=(3, 2)):
    return tf.placeholder(tf.float32, shape)


# -------------------------------------------------------------------------------------------------------------- methods
def test_write_and_read(session) -> None:
    x = fed()
    array = tf.TensorArray(tf.float32, size=3, infer_shape=False).write(0, x).write(2, x[1])
    found = session.run([array.read(0), array.read(2), array.size()], {x: X})
    for value, wanted in zip(found, [X, X[1], 3], strict=True):
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.int64, tf.bool, tf.complex64, tf.string])
def test_unstack_and_stack(session, dtype) -> None:
    value = np.array([b"a", b"b", b""], object) if dtype == tf.string else np.array([1, 0, 2]).astype(dtype.np)
    x = tf.placeholder(dtype, [None])
    array = tf.TensorArray(dtype, size=3).unstack(x)
    stacked, gathered, again = session.run(
        [array.stack(), array.gather([2, 0]), tf.TensorArray(dtype, size=3).unpack(x).pack()], {x: value}
    )
    np.testing.assert_array_equal(stacked, value)
    np.testing.assert_array_equal(again, value)
    np.testing.assert_array_equal(gathered, value[[2, 0]])


def test_what_was_not_written_is_as_long_as_what_was(session) -> None:
    array = tf.TensorArray(tf.float32, 3).write(1, [[4.0, 5.0]])
    np.testing.assert_array_equal(session.run(array.concat()), [[0, 0], [4, 5], [0, 0]])


def test_split_and_concat(session) -> None:
    x = fed()
    array = tf.TensorArray(tf.float32, size=2, infer_shape=False).split(x, [1, 2])
    found = session.run([array.read(0), array.read(1), array.concat()], {x: X})
    for value, wanted in zip(found, [X[:1], X[1:], X], strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_scatter(session) -> None:
    x = fed()
    array = tf.TensorArray(tf.float32, size=4).scatter([3, 0, 1], x)
    wanted = np.zeros((4, 2))
    wanted[[3, 0, 1]] = X
    np.testing.assert_array_equal(session.run(array.stack(), {x: X}), wanted)


def test_dynamic_size(session) -> None:
    x = fed()
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    array = array.write(0, x[0]).write(2, x[1])
    unstacked = tf.TensorArray(tf.float32, size=1, dynamic_size=True).unstack(x)
    found = session.run([array.stack(), array.size(), unstacked.size()], {x: X})
    for value, wanted in zip(found, [[X[0], [0, 0], X[1]], 3, 3], strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_properties() -> None:
    with tf.Graph().as_default():
        array = tf.TensorArray("float64", size=2, dynamic_size=True, element_shape=[None, 3], tensor_array_name="mine")
        assert array.dtype == tf.float64
        assert array.dynamic_size
        assert array.element_shape.as_list() == [None, 3]
        assert array.flow.dtype == tf.variant
        assert "mine" in repr(array)
        assert array.close().type == "NoOp"
        other = tf.TensorArray(tf.float64, handle=array.handle, flow=array.flow)
        assert other.flow is array.flow


def test_shapes_are_learnt() -> None:
    with tf.Graph().as_default():
        x = fed()
        array = tf.TensorArray(tf.float32, size=3)
        assert array.element_shape.ndims is None
        array = array.write(0, x[0])
        assert array.read(1).shape.as_list() == [2]
        assert array.stack().shape.as_list() == [3, 2]
        assert array.gather([0]).shape.as_list() == [1, 2]
        apart = tf.TensorArray(tf.float32, size=3, infer_shape=False).write(0, x[0])
        assert apart.read(1).shape.ndims is None
        parts = tf.TensorArray(tf.float32, size=3).split(x, [1, 1, 1])
        assert parts.read(0).shape.as_list() == [1, 2]
        assert parts.concat().shape.as_list() == [3, 2]


def test_names() -> None:
    with tf.Graph().as_default():
        x = fed()
        array = tf.TensorArray(tf.float32, size=3).write(0, x[0])
        assert array.flow.op.name == "TensorArrayWrite/TensorArrayWriteV3"
        assert array.read(0).op.name == "TensorArrayRead/TensorArrayReadV3"
        assert array.stack().op.name == "TensorArrayStack/TensorArrayGatherV3"
        assert array.unstack(x).flow.op.name == "TensorArrayUnstack/TensorArrayScatterV3"


def test_identity_waits(session) -> None:
    v = tf.Variable(1.0)
    session.run(v.initializer)
    array = tf.TensorArray(tf.float32, size=1).write(0, 5.0)
    with tf.control_dependencies([tf.assign(v, 2.0)]):
        array = array.identity()
    assert session.run(array.read(0)) == 5.0
    assert session.run(v) == 2.0


def test_grad_adds_up(session) -> None:
    array = tf.TensorArray(tf.float32, size=3)
    grads = array.grad("grad").write(0, [1.0, 2.0]).write(2, [3.0, 4.0]).write(0, [10.0, 20.0])
    np.testing.assert_array_equal(session.run(grads.stack()), [[11, 22], [0, 0], [3, 4]])


def test_as_a_composite() -> None:
    with tf.Graph().as_default():
        array = tf.TensorArray(tf.float32, size=3, element_shape=[2])
        (flow,) = composites.flatten(array)
        again = composites.pack(array, [tf.identity(flow)])
        assert again.element_shape.as_list() == [2]
        assert again.flow is not array.flow


# ------------------------------------------------------------------------------------------------ loops, conditionals
@pytest.mark.parametrize("known", [True, False])
def test_in_a_loop(session, known: bool) -> None:
    x = fed((3, 2) if known else (None, 2))
    count = 3 if known else tf.shape(x)[0]
    source = tf.TensorArray(tf.float32, size=count).unstack(x)
    _, made = tf.while_loop(
        lambda i, _: i < count,
        lambda i, array: (i + 1, array.write(i, source.read(i) * 2.0)),
        [0, tf.TensorArray(tf.float32, size=count)],
    )
    np.testing.assert_array_equal(session.run(made.stack(), {x: X}), 2 * X)
    assert made.stack().shape.as_list() == [3 if known else None, 2]


def test_that_grows_in_a_loop(session) -> None:
    limit = tf.placeholder(tf.float32, [])
    count, made = tf.while_loop(
        lambda i, _: tf.cast(i * i, tf.float32) < limit,
        lambda i, array: (i + 1, array.write(i, tf.fill([2], i))),
        [0, tf.TensorArray(tf.int32, size=0, dynamic_size=True)],
    )
    found = session.run([count, made.stack(), made.size()], {limit: 10.0})
    assert found[0] == found[2] == 4
    np.testing.assert_array_equal(found[1], [[i, i] for i in range(4)])


def test_elements_of_growing_size_in_a_loop(session) -> None:
    _, made = tf.while_loop(
        lambda i, _: i < 4,
        lambda i, array: (i + 1, array.write(i, tf.fill([i], i))),
        [0, tf.TensorArray(tf.int32, size=4, infer_shape=False)],
    )
    np.testing.assert_array_equal(session.run(made.concat()), [1, 2, 2, 3, 3, 3])


def test_in_a_conditional(session) -> None:
    x, pred = fed(), tf.placeholder(tf.bool, [])
    array = tf.TensorArray(tf.float32, size=2)
    made = tf.cond(pred, lambda: array.write(0, x[0]).flow, lambda: array.write(1, x[1]).flow)
    value = tf.TensorArray(tf.float32, handle=made).stack()
    np.testing.assert_array_equal(session.run(value, {x: X, pred: True}), [X[0], [0, 0]])
    np.testing.assert_array_equal(session.run(value, {x: X, pred: False}), [[0, 0], X[1]])


def test_nested_loops(session) -> None:
    x = fed()

    def outer(i, array):
        inner = tf.while_loop(
            lambda j, _: j < 2,
            lambda j, part: (j + 1, part.write(j, x[i, j] * 10.0)),
            [0, tf.TensorArray(tf.float32, size=2)],
        )[1]
        return i + 1, array.write(i, inner.stack())

    _, made = tf.while_loop(lambda i, _: i < 3, outer, [0, tf.TensorArray(tf.float32, size=3)])
    np.testing.assert_array_equal(session.run(made.stack(), {x: X}), 10 * X)


def whole_loops_are_programs(session, fetches, feed) -> None:
    """Asserts that no loop runs on the host."""
    told = session.explain(fetches, feed)
    assert "While" in told
    assert not [line for line in told.splitlines() if line.strip().startswith("host") and "While" in line], told


def test_that_grows_with_a_counter_is_one_program() -> None:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier="compiled")) as session:
        x = fed((None, 2))
        _, made = tf.while_loop(
            lambda i, _: i < tf.shape(x)[0],
            lambda i, array: (i + 1, array.write(i + 1, tf.square(x[i]))),
            [0, tf.TensorArray(tf.float32, size=0, dynamic_size=True)],
        )
        fetches = [made.stack(), tf.gradients(made.stack(), x)[0]]
        values, slopes = session.run(fetches, {x: X})
        np.testing.assert_array_equal(values, [[0, 0], *(X * X)])
        np.testing.assert_array_equal(slopes, 2 * X)
        whole_loops_are_programs(session, fetches, {x: X})


def test_written_in_an_inner_loop_and_in_a_branch_is_one_program() -> None:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier="compiled")) as session:
        x = fed()

        def outer(i, array):
            def inner(j, array):
                written = array.write(2 * i + j, x[i, j] * 3.0).flow
                flow = tf.cond(x[i, j] > 2.0, lambda: written, lambda: array.flow)
                return j + 1, tf.TensorArray(tf.float32, handle=flow)

            return i + 1, tf.while_loop(lambda j, _: j < 2, inner, [0, array])[1]

        start = tf.TensorArray(tf.float32, size=6, element_shape=[])
        made = tf.while_loop(lambda i, _: i < 3, outer, [0, start])[1].stack()
        np.testing.assert_array_equal(session.run(made, {x: X}), np.where(X > 2, 3 * X, 0).ravel())
        whole_loops_are_programs(session, made, {x: X})


# ----------------------------------------------------------------------------------------------------------- gradients
def _loop(x, dynamic: bool):
    source = tf.TensorArray(tf.float64, size=3).unstack(x)
    start = tf.TensorArray(tf.float64, size=0 if dynamic else 3, dynamic_size=dynamic, element_shape=[2])
    _, total, made = tf.while_loop(
        lambda i, *_: i < 3,
        lambda i, total, array: (
            i + 1,
            total * source.read(i) + x[0],
            array.write(i, tf.sin(source.read(i)) * total),
        ),
        [0, tf.ones([2], tf.float64), start],
    )
    return [total, made.stack()]


GRADIENTS = {
    "write read": lambda x: tf.TensorArray(tf.float64, 2).write(0, x[0]).write(1, x[1] * x[2]).stack(),
    "unstack": lambda x: tf.square(tf.TensorArray(tf.float64, 3).unstack(x).read(1)),
    "read twice": lambda x: (lambda a: a.read(0) * a.read(0))(
        tf.TensorArray(tf.float64, 3, clear_after_read=False).unstack(x)
    ),
    "gather": lambda x: tf.square(tf.TensorArray(tf.float64, 3).unstack(x).gather([1, 1])),
    "scatter": lambda x: tf.square(tf.TensorArray(tf.float64, 4).scatter([3, 0, 1], x).stack()),
    "split concat": lambda x: tf.square(tf.TensorArray(tf.float64, 2, infer_shape=False).split(x, [1, 2]).concat()),
}


@pytest.mark.parametrize("name", list(GRADIENTS))
def test_gradients(name: str) -> None:
    check_gradients(GRADIENTS[name], [X.astype(np.float64) / 3])


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_of_loops(dynamic: bool) -> None:
    check_gradients(lambda x: _loop(x, dynamic), [X.astype(np.float64) / 3], order=1)


# -------------------------------------------------------------------------------------------------------------- errors
def test_indices_out_of_range(session) -> None:
    index = tf.placeholder(tf.int32, [])
    array = tf.TensorArray(tf.float32, size=3, element_shape=[])
    for tensor, told in (
        (array.read(index), "Tried to read from index {} but array size is: 3"),
        (array.write(index, 1.0).stack(), "Tried to write to index {} but array is not resizeable and size is: 3"),
    ):
        for bad in (-1, 3):
            with pytest.raises(
                tf.errors.InvalidArgumentError,
                match=rf"(?s){told.format(bad)}.*Given.*Expected.*"
                r"Instead.*test_tensor_array\.py",
            ):
                session.run(tensor, {index: bad})


def test_a_second_write_fails(session) -> None:
    array = tf.TensorArray(tf.float32, size=3).write(2, 1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)index 2 because it has already been written.*Given"):
        session.run(array.write(2, 3.0).stack())
    np.testing.assert_array_equal(session.run(array.write(1, 3.0).stack()), [0, 3, 1])


def test_a_second_read_fails_where_it_is_certain(session) -> None:
    x = tf.placeholder(tf.float32, [3])
    array = tf.TensorArray(tf.float32, size=3).unstack(x)
    first = array.read(0)
    with tf.control_dependencies([first]):
        second, other = array.read(0), array.read(1)
    assert session.run([first, other], {x: [1, 2, 3]}) == [1, 2]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)Could not read index 0 twice.*Instead: .*clear"):
        session.run(second, {x: [1, 2, 3]})
    kept = tf.TensorArray(tf.float32, size=3, clear_after_read=False).unstack(x)
    with tf.control_dependencies([kept.read(0)]):
        assert session.run(kept.read(0), {x: [1, 2, 3]}) == 1


def test_unwritten_elements(session) -> None:
    known = tf.TensorArray(tf.float32, size=2, element_shape=[2])
    np.testing.assert_array_equal(session.run(known.read(1)), [0, 0])
    unknown = tf.TensorArray(tf.float32, size=2, infer_shape=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)index 1 because it has not yet been written.*Given"):
        session.run(unknown.read(1))


def test_too_many_rows(session) -> None:
    x = fed()
    small = tf.TensorArray(tf.float32, size=2)
    for array in (small.unstack(x), small.scatter([0, 1, 2], x)):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"(?s)write to index 2 but array is not resizeable.*Given"
        ):
            session.run(array.stack(), {x: X})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)size is not equal to the size of lengths.*Given"):
        session.run(tf.TensorArray(tf.float32, size=2).split(x, [1, 1, 1]).concat(), {x: X})


def test_wrong_elements() -> None:
    with tf.Graph().as_default():
        array = tf.TensorArray(tf.float32, size=3, tensor_array_name="mine").write(0, [1.0, 2.0])
        with pytest.raises(ValueError, match=r"(?s)Inconsistent shapes: saw \(3,\) but expected \(2,\).*'mine'.*infer"):
            array.write(1, [1.0, 2.0, 3.0])
        with pytest.raises(TypeError, match=r"(?s)dtype is float32 but Op is trying to write dtype string.*Instead"):
            array.write(1, "word")
        with pytest.raises(ValueError, match=r"(?s)shape \[\] for the TensorArray 'mine'.*expand_dims"):
            array.unstack(1.0)
        with pytest.raises(ValueError, match=r"(?s)concat of the TensorArray.*Instead: stack"):
            tf.TensorArray(tf.float32, size=1).write(0, 1.0).concat()


def test_wrong_arguments() -> None:
    with tf.Graph().as_default():
        array = tf.TensorArray(tf.float32, size=3)
        with pytest.raises(ValueError, match=r"(?s)Size must be provided if handle is not.*Given: no size"):
            tf.TensorArray(tf.float32)
        with pytest.raises(ValueError, match=r"(?s)both a handle and size at the same time.*Given: handle and size=3"):
            tf.TensorArray(tf.float32, size=3, handle=array.handle)
        with pytest.raises(TypeError, match=r"(?s)Handle must be a Tensor.*Given: handle=3"):
            tf.TensorArray(tf.float32, handle=3)
        with pytest.raises(ValueError, match=r"(?s)flow but without handle.*Instead: TensorArray"):
            tf.TensorArray(tf.float32, size=1, flow=array.flow)


def test_another_list_than_promised_is_refused_in_a_loop(session) -> None:
    with pytest.raises(TypeError, match=r"(?s)body.*test_tensor_array\.py"):
        tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a.read(0)), [0, tf.TensorArray(tf.float32, size=3)])


def test_concat_knows_its_shape_where_size_and_elements_are_known():
    with tf.Graph().as_default():
        array = tf.TensorArray(tf.float32, 3).unstack(tf.zeros([3, 2, 5]))
        assert array.concat().shape.as_list() == [6, 5]
        parts = tf.TensorArray(tf.float32, 3, infer_shape=False).split(tf.zeros([6, 5]), [1, 2, 3])
        assert parts.concat().shape.as_list() == [None, 5]
        growing = tf.TensorArray(tf.float32, 3, dynamic_size=True).unstack(tf.zeros([3, 2, 5]))
        assert growing.concat().shape.as_list() == [None, 5]


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_rows_of_which_nobody_knows_how_many_there_are(tier):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        x = tf.placeholder(tf.float32, [None])
        array = tf.TensorArray(tf.float32, 3).unstack(x)
        grown = tf.TensorArray(tf.float32, 3, dynamic_size=True).unstack(x)
        both = [array.stack(), tf.gradients(array.stack(), x)[0]]
        assert [part.tolist() for part in session.run(both, {x: [1, 2, 3]})] == [[1, 2, 3], [1, 1, 1]]
        assert session.run([array.size(), grown.size()], {x: [1, 2]}) == [3, 3]
        assert session.run(array.read(1), {x: [1, 2]}) == 2.0
        assert session.run(grown.stack(), {x: [1, 2, 3, 4]}).tolist() == [1, 2, 3, 4]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"not resizeable and size is: 3(.|\n)*at most 3 rows"):
            session.run(array.stack(), {x: [1, 2, 3, 4]})


def test_results_can_be_marked_as_used(session) -> None:
    array = tf.TensorArray(tf.float32, 1)
    array.write(0, 1.0).mark_used()
    array.close().mark_used()
    tf.Assert(True, ["no"]).mark_used()
    tf.report_uninitialized_variables().mark_used()
    assert session.graph is array.flow.graph
