"""Lists of tensors: each op in both tiers against a Python list, gradients, static shapes, errors."""

from __future__ import annotations

import re

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.core.values import dtypes
from anabranch.core.values.list_values import HostList
from anabranch.session import SessionOptions
from anabranch.testing import check_gradients
from anabranch.testing.kernels import run_op

TIERS = ("interpreted", "compiled")
FLOAT = {"element_dtype": tf.float32}


@pytest.fixture(params=TIERS)
def session(request):
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=request.param)) as active:
        yield active


def rows(count: int = 3, width: int = 2):
    """A fed matrix: nothing that is made of it is known while a program is traced."""
    return tf.placeholder(tf.float32, [count, width])


X = np.arange(6, dtype=np.float32).reshape(3, 2) + 1


def stack(value, shape=-1, **attrs):
    return build("TensorListStack", value, shape, **{**FLOAT, **attrs})


def from_tensor(value, shape=-1):
    return build("TensorListFromTensor", value, shape)


def reserve(count, shape=(2,)):
    return build("TensorListReserve", list(shape), count, **FLOAT)


# ------------------------------------------------------------------------------------------------------------- forward
def test_push_and_pop(session) -> None:
    x = rows()
    made = build("EmptyTensorList", -1, -1, **FLOAT)
    for i in range(3):
        made = build("TensorListPushBack", made, x[i])
    rest, last = build("TensorListPopBack", made, -1, **FLOAT)
    again = build("TensorListPushBack", rest, -x[0])
    found = session.run([stack(made), last, stack(rest), stack(again), build("TensorListLength", rest)], {x: X})
    for value, wanted in zip(found, [X, X[2], X[:2], np.stack([X[0], X[1], -X[0]]), 2], strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_reserve_set_get(session) -> None:
    x, index = rows(), tf.placeholder(tf.int32, [])
    made = build("TensorListSetItem", reserve(4), index, x[1])
    wanted = np.zeros((4, 2), np.float32)
    wanted[2] = X[1]
    read = build("TensorListGetItem", made, index, [2], **FLOAT)
    unwritten = build("TensorListGetItem", made, 0, [2], **FLOAT)
    found = session.run([stack(made), read, unwritten], {x: X, index: 2})
    for value, expected in zip(found, [wanted, X[1], np.zeros(2)], strict=True):
        np.testing.assert_array_equal(value, expected)


def test_set_item_may_grow(session) -> None:
    x = rows()
    made = build("TensorListSetItem", from_tensor(x), 4, x[0], resize_if_index_out_of_bounds=True)
    np.testing.assert_array_equal(session.run(stack(made), {x: X}), [*X, [0, 0], X[0]])


@pytest.mark.parametrize("size", [0, 2, 5])
def test_resize(session, size: int) -> None:
    x = rows()
    found = session.run(stack(build("TensorListResize", from_tensor(x), size), [2]), {x: X})
    np.testing.assert_array_equal(found, np.concatenate([X, np.zeros((2, 2))])[:size])


@pytest.mark.parametrize("fed", [False, True])
def test_gather_and_scatter(session, fed: bool) -> None:
    x = rows()
    indices = tf.placeholder(tf.int32, [3]) if fed else tf.constant([2, 0, 4])
    feed = {x: X, **({indices: [2, 0, 4]} if fed else {})}
    wanted = np.zeros((5, 2), np.float32)
    wanted[[2, 0, 4]] = X
    first = build("TensorListScatter", x, indices, [2])
    second = build("TensorListScatterV2", x, indices, [2], 5)
    third = build("TensorListScatterIntoExistingList", reserve(1), x, indices)
    taken = build("TensorListGather", second, indices, -1, **FLOAT)
    *lists, back = session.run([stack(first), stack(second), stack(third), taken], feed)
    for found in lists:
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(back, X)


@pytest.mark.parametrize("lengths", [[1, 2], [1, 1, 1], [3], [0, 3]])
def test_split_and_concat(session, lengths: list[int]) -> None:
    x = rows()
    parts = build("TensorListSplit", x, [-1, 2], np.array(lengths, np.int64))
    first, sizes = build("TensorListConcat", parts, element_dtype=tf.float32)
    second, _ = build("TensorListConcatV2", parts, [-1, 2], np.zeros(0, np.int64), **FLOAT)
    found = session.run([first, second, sizes, build("TensorListLength", parts)], {x: X})
    for value, wanted in zip(found, [X, X, lengths, len(lengths)], strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_concat_lists_and_push_batch() -> None:
    a, b = (HostList(dtypes.float32, None, [np.float32(i) for i in part]) for part in ([1, 2], [3]))
    joined = run_op("TensorListConcatLists", box(a), box(b), **FLOAT)
    assert [float(item) for item in joined.elements] == [1, 2, 3]
    batch = np.empty(2, object)
    batch[:] = [a, b]
    pushed = run_op("TensorListPushBackBatch", batch, np.array([7, 8], np.float32))
    assert [[float(item) for item in part.elements] for part in pushed] == [[1, 2, 7], [3, 8]]


def box(value) -> np.ndarray:
    found = np.empty((), object)
    found[()] = value
    return found


def test_length_and_element_shape(session) -> None:
    x = rows()
    known, unknown = from_tensor(x, [-1]), build("TensorListReserve", -1, 2, **FLOAT)
    tensors = [
        build("TensorListLength", known),
        build("TensorListElementShape", reserve(1, (2, 5)), shape_type=tf.int64),
        build("TensorListElementShape", unknown, shape_type=tf.int32),
    ]
    length, shape, nothing = session.run(tensors, {x: X})
    assert (length, shape.tolist(), nothing.tolist()) == (3, [2, 5], -1)
    assert shape.dtype == np.int64


def test_lists_of_strings(session) -> None:
    made = build("EmptyTensorList", np.zeros(0, np.int32), -1, element_dtype=tf.string)
    for word in ("a", "bc"):
        made = build("TensorListPushBack", made, tf.constant(word))
    made = build("TensorListResize", made, 3)
    found = session.run(build("TensorListStack", made, np.zeros(0, np.int32), element_dtype=tf.string))
    assert found.tolist() == [b"a", b"bc", b""]


def test_lists_of_lists(session) -> None:
    x = rows()
    outer = build("EmptyTensorList", -1, -1, element_dtype=tf.variant)
    for count in (3, 1):
        inner = build("TensorListResize", from_tensor(x), count)
        outer = build("TensorListPushBack", outer, inner)
    found = [stack(build("TensorListGetItem", outer, i, -1, element_dtype=tf.variant)) for i in range(2)]
    for value, wanted in zip(session.run(found, {x: X}), [X, X[:1]], strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_sums_and_zeros(session) -> None:
    x = rows()
    written = build("TensorListSetItem", reserve(3), 1, x[0])
    total = stack(build("AddN", [from_tensor(x), written, reserve(3)]))
    nothing = stack(build("ZerosLike", from_tensor(x)))
    wanted = X.copy()
    wanted[1] += X[0]
    found = session.run([total, nothing], {x: X})
    np.testing.assert_array_equal(found[0], wanted)
    np.testing.assert_array_equal(found[1], np.zeros((3, 2)))


def test_elements_of_different_shapes_live_on_the_host(session) -> None:
    x = rows()
    made = build("EmptyTensorList", -1, -1, **FLOAT)
    made = build("TensorListPushBack", build("TensorListPushBack", made, x), x[0])
    found = session.run([build("TensorListGetItem", made, i, -1, **FLOAT) for i in range(2)], {x: X})
    np.testing.assert_array_equal(found[0], X)
    np.testing.assert_array_equal(found[1], X[0])


# ----------------------------------------------------------------------------------------------------------- gradients
GRADIENTS = {
    "push pop": lambda x: _push_pop(x),
    "stack": lambda x: stack_of(x, from_tensor64(x)),
    "set": lambda x: stack_of(x, build("TensorListSetItem", from_tensor64(x), 1, x[0] * x[2])),
    "grow": lambda x: stack_of(
        x, build("TensorListSetItem", from_tensor64(x), 4, x[0], resize_if_index_out_of_bounds=True)
    ),
    "get": lambda x: read64(from_tensor64(x), 1) * read64(from_tensor64(x), 2),
    "get twice": lambda x: (lambda made: read64(made, 1) * read64(made, 1))(from_tensor64(x)),
    "gather twice": lambda x: build("TensorListGather", from_tensor64(x), [1, 1, 0], -1, element_dtype=tf.float64),
    "scatter": lambda x: stack_of(x, build("TensorListScatter", x, [2, 0, 3], [2])),
    "scatter v2": lambda x: stack_of(x, build("TensorListScatterV2", x, [2, 0, 3], [2], 5)),
    "scatter into": lambda x: stack_of(
        x, build("TensorListScatterIntoExistingList", from_tensor64(x), x[:2] * x[1:], [2, 0])
    ),
    "resize": lambda x: stack_of(x, build("TensorListResize", from_tensor64(x), 2)),
    "split concat": lambda x: build(
        "TensorListConcatV2",
        build("TensorListSplit", x, [-1, 2], np.array([1, 2])),
        [-1, 2],
        np.zeros(0, np.int64),
        element_dtype=tf.float64,
    )[0],
    "concat": lambda x: build(
        "TensorListConcat", build("TensorListSplit", x, [-1, 2], np.array([1, 1, 1])), element_dtype=tf.float64
    )[0],
}


def from_tensor64(x):
    return build("TensorListFromTensor", x, [2])


def stack_of(x, made):
    return build("TensorListStack", made, [2], element_dtype=x.dtype)


def read64(made, index):
    return build("TensorListGetItem", made, index, [2], element_dtype=tf.float64)


def _push_pop(x):
    made = build("TensorListPushBack", build("EmptyTensorList", [2], -1, element_dtype=tf.float64), x[0])
    made = build("TensorListPushBack", made, x[1] * x[2])
    rest, last = build("TensorListPopBack", made, [2], element_dtype=tf.float64)
    return [stack_of(x, rest) * 3.0, last, stack_of(x, build("TensorListPushBack", rest, last * last))]


@pytest.mark.parametrize("name", list(GRADIENTS))
def test_gradients(name: str) -> None:
    def function(x):
        found = GRADIENTS[name](x)
        return [tf.square(item) for item in (found if isinstance(found, list) else [found])]

    check_gradients(function, [np.linspace(0.5, 2.0, 6).reshape(3, 2)])


# ------------------------------------------------------------------------------------------------------- static shapes
def test_static_shapes() -> None:
    with tf.Graph().as_default():
        made = from_tensor(rows(3, 2))
        assert made.shape == ()
        assert made.dtype == tf.variant
        assert stack(made).shape.as_list() == [None, 2]
        assert stack(made, num_elements=3).shape.as_list() == [3, 2]
        assert build("TensorListGetItem", made, 0, -1, **FLOAT).shape.as_list() == [2]
        assert build("TensorListPopBack", made, -1, **FLOAT)[1].shape.as_list() == [2]
        assert build("TensorListGather", made, [0, 1], -1, **FLOAT).shape.as_list() == [2, 2]
        assert stack(build("TensorListReserve", -1, 2, **FLOAT)).shape.ndims is None
        open_ = build("EmptyTensorList", [-1, 4], -1, **FLOAT)
        assert stack(build("TensorListPushBack", open_, tf.zeros([3, 4]))).shape.as_list() == [None, None, 4]
        total = build("AddN", [made, made])
        assert stack(build("ZerosLike", total)).shape.as_list() == [None, 2]


# -------------------------------------------------------------------------------------------------------------- errors
def test_an_index_out_of_range_names_the_line(session) -> None:
    index = tf.placeholder(tf.int32, [])
    x = rows()
    read = build("TensorListGetItem", from_tensor(x), index, -1, **FLOAT)
    written = build("TensorListSetItem", from_tensor(x), index, x[0])
    for tensor, verb in ((read, "access"), (stack(written), "modify")):
        for bad in (3, -1):
            with pytest.raises(
                tf.errors.InvalidArgumentError,
                match=rf"(?s){verb} element {bad} in a list with 3.*"
                r"Given: index.*Expected: an index.*Instead: .*test_tensor_list\.py",
            ):
                session.run(tensor, {index: bad, x: X})


def test_run_time_errors(session) -> None:
    x, index = rows(), tf.placeholder(tf.int32, [])
    empty = build("EmptyTensorList", -1, -1, **FLOAT)
    full = build("TensorListPushBack", build("EmptyTensorList", -1, 1, **FLOAT), x)
    unknown = build("TensorListReserve", -1, 2, **FLOAT)
    cases = {
        "Trying to pop from an empty list": build("TensorListPopBack", empty, -1, **FLOAT)[1],
        "Tried to push item into a full list. list size: 1 max_num_elements: 1": build("TensorListPushBack", full, x),
        "Tried to stack elements of an empty list but element_shape is not fully": stack(empty),
        "only contains uninitialized tensors but element_shape is not fully": stack(unknown),
        "Trying to read an uninitialized tensor but": build("TensorListGetItem", unknown, index, -1, **FLOAT),
        "Operation expected a list with 4 elements but got a list with 3": stack(from_tensor(x), num_elements=4),
        "TensorListSlice expects size to be non-negative. Got: -2": build("TensorListResize", unknown, index - 2),
        "Trying to scatter to element 7 in a list with 4": build("TensorListScatterV2", x, [1, 7, 0], [2], 4),
        "Expected sum of lengths to be equal to values.shape": build(
            "TensorListSplit", x, [-1, 2], np.array([1, 3], np.int64)
        ),
        "Invalid number of rows": build("TensorListScatter", x, [1], [2]),
    }
    for told, tensor in cases.items():
        fetch = build("TensorListLength", tensor) if tensor.dtype == tf.variant else tensor
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"(?s){told}.*Given: .*Expected: .*Instead: "):
            session.run(fetch, {x: X, index: 0})


def test_wrong_elements_are_refused_where_they_are_known() -> None:
    with tf.Graph().as_default():
        made = from_tensor(rows())
        with pytest.raises(ValueError, match=r"(?s)dtype float32 for op type 'TensorListPushBack'.*int32.*Instead: "):
            build("TensorListPushBack", made, tf.constant([1, 2]))
        with pytest.raises(ValueError, match=r"(?s)shape \[2\] with shape \[3\].*Instead: "):
            build("TensorListPushBack", made, tf.zeros([3]))
        with pytest.raises(ValueError, match=r"(?s)are 2 and 5. Shapes are.*Given: .*shape \[2\] with shape \[5\]"):
            build("TensorListGetItem", made, 0, [5], **FLOAT)
        with pytest.raises(ValueError, match="must be a non negative number, but got -1"):
            reserve(-1)
        with pytest.raises(ValueError, match="Specified a list with shape"):
            from_tensor(rows(), [7])
        with pytest.raises(ValueError, match=r"(?s)list of scalars.*tf.TensorArray.stack"):
            build("TensorListConcat", build("TensorListReserve", np.zeros(0, np.int32), 2, **FLOAT), **FLOAT)


def _listed(x, shape=()):
    return build("TensorListFromTensor", x, np.array(shape, np.int32))


BATCHES = {
    "input_a and input_b TensorList element shapes are not identical at index 1.  Saw [1] vs. []": lambda f, v, i: (
        build("TensorListConcatLists", tf.stack([f, v]), tf.stack([f, f]), **FLOAT)
    ),
    "input_a[0].dtype != element_dtype.  Saw: int32 vs. float": lambda f, v, i: build(
        "TensorListConcatLists", tf.stack([i, f]), tf.stack([f, f]), **FLOAT
    ),
    "input_b[1].dtype != element_dtype.  Saw: int32 vs. float": lambda f, v, i: build(
        "TensorListConcatLists", tf.stack([f, f]), tf.stack([f, i]), **FLOAT
    ),
    "Tried to append a tensor with incompatible shape to a list at index 0. Op element shape: [1] list shape: []": (
        lambda f, v, i: build("TensorListPushBackBatch", tf.stack([f, f]), tf.constant([[3.0], [4.0]]))
    ),
    "Invalid data type at index 1; op elements float but list elements int32": lambda f, v, i: build(
        "TensorListPushBackBatch", tf.stack([f, i]), tf.constant([3.0, 4.0])
    ),
}


@pytest.mark.parametrize("words", list(BATCHES))
def test_batches_of_lists_say_which_list_is_wrong(session, words) -> None:
    lists = _listed(tf.constant([1.0, 2.0])), _listed(tf.constant([[1.0]]), [1]), _listed(tf.constant([1]))
    batch = BATCHES[words](*lists)
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(words)):
        session.run(build("TensorListLength", tf.unstack(batch)[0]))


def test_wrong_elements_are_refused_when_the_step_runs(session) -> None:
    x = tf.placeholder(tf.float32, None)
    pushed = build("TensorListPushBack", build("EmptyTensorList", [2], -1, **FLOAT), x)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)element shape: \[3\] list shape: \[2\].*Instead"):
        session.run(build("TensorListLength", pushed), {x: [1, 2, 3]})
