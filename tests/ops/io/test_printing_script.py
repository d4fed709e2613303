"""Print ops and Python functions as operations: what is printed, called, converted, refused."""

from __future__ import annotations

import gc
import logging
import sys

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


# -------------------------------------------------------------------------------------------------------------- print
def test_print_passes_its_input_on(session, capfd):
    x = tf.placeholder(tf.float32, [None])
    printed = tf.Print(x * 2, [x, "text", tf.shape(x)], "msg: ", first_n=2, summarize=1)
    assert (printed.op.type, printed.shape.as_list()) == ("Print", [None])
    (gradient,) = tf.gradients(printed, x)
    for _ in range(3):
        assert session.run(printed, {x: [1.5, 2.0]}).tolist() == [3, 4]
    assert capfd.readouterr().err == "msg: [1.5...][text][2]\n" * 2
    assert session.run(gradient, {x: [1.0]}).tolist() == [2]


def test_print_of_structures(session, capfd):
    op = tf.print(
        "a",
        tf.range(10),
        tf.constant(2.5),
        [tf.constant(0.1), {"k": tf.constant(True)}],
        tf.constant(["x", "y"]),
        tf.constant("sc"),
        None,
        (1, tf.constant(2)),
    )
    assert (op.type, op.name) == ("PrintV2", "PrintV2")
    session.run(op)
    wanted = 'a [0 1 2 ... 7 8 9] 2.5 [0.1, {\'k\': 1}] ["x" "y"] "sc" None (1, 2)\n'
    assert capfd.readouterr().err == wanted
    session.run(tf.print(tf.constant([[1, 2]]), "{}", sep="|", end="<\n", output_stream=sys.stdout))
    assert capfd.readouterr().out == "[[1 2]]|{}<\n"
    session.run(tf.print(tf.constant("plain")))
    assert capfd.readouterr().err == "plain\n"
    session.run(tf.print({"b": 1, "a": tf.constant(2)}))
    assert capfd.readouterr().err == "{'a': 2, 'b': 1}\n"


def test_print_to_files_and_logs(session, tmp_path, caplog):
    path = tmp_path / "out.txt"
    for _ in range(2):
        session.run(tf.print("x", tf.constant(1), output_stream=f"file://{path}"))
    assert path.read_text() == "x 1\nx 1\n"
    with caplog.at_level(logging.INFO, "anabranch"):
        session.run(tf.print("logged", output_stream=logging.info, end=""))
    assert [(record.levelname, record.message) for record in caplog.records] == [("INFO", "logged")]
    with pytest.raises(ValueError, match=r"Unsupported output stream, logging level, or file\.bad"):
        tf.print("x", output_stream="bad")
    with pytest.raises(ValueError, match="only output_stream, summarize, sep, end and name"):
        tf.print("x", file=sys.stderr)


def test_prints_happen_in_order(session, capfd):
    first = tf.print("first")
    with tf.control_dependencies([first]):
        second = tf.Print(tf.constant(1), ["second"])
    session.run(second)
    assert capfd.readouterr().err == "first\n[second]\n"


def test_format(session):
    text = tf.strings.format("x = {}, y = {}!", [tf.range(9), tf.constant([[1.5]])], summarize=1)
    assert text.op.type == "StringFormat"
    found = session.run(text)
    assert found == b"x = [0 ... 8], y = [[1.5]]!"
    assert session.run(tf.strings.format("<%t%>", tf.constant("a"), placeholder="%t%")) == b'<"a">'
    with pytest.raises(ValueError, match="num placeholders in template and num inputs must match"):
        tf.strings.format("{}", [1, 2])


# ---------------------------------------------------------------------------------------------------- python functions
def test_arguments(session):
    seen = []

    def look(*values):
        seen.extend(values)
        return np.float32(3)

    x = tf.py_func(look, [1, 2.5, "a", ["x", "yy"], [[1]], True], tf.float32)
    assert (x.op.type, x.name, x.shape.ndims) == ("PyFunc", "PyFunc:0", None)
    assert [tensor.name for tensor in x.op.inputs][:2] == ["PyFunc/input_0:0", "PyFunc/input_1:0"]
    assert session.run(x) == 3
    assert [type(value) for value in seen] == [np.int32, np.float32, bytes, np.ndarray, np.ndarray, np.bool_]
    assert seen[3].tolist() == [b"x", b"yy"]
    assert seen[4].dtype == np.int32


@pytest.mark.parametrize(
    ("function", "types", "wanted"),
    [
        (lambda x: [x, x + 1], [tf.int32, tf.int32], [1, 2]),
        (lambda x: (x,), [tf.int32], [1]),
        (lambda x: x, [tf.int32], [1]),
        (lambda x: np.arange(3, dtype=np.int64), tf.int64, [0, 1, 2]),
        (lambda x: "h\u00e9", tf.string, "h\u00e9".encode()),
        (lambda x: b"h\x00", tf.string, b"h\x00"),
        (lambda x: np.array(["a", "bb"]), tf.string, [b"a", b"bb"]),
        (lambda x: np.array([b"a", "b"], object), tf.string, [b"a", b"b"]),
        (lambda x: 1.5, tf.float64, 1.5),
    ],
)
def test_results(session, function, types, wanted):
    found = session.run(tf.py_func(function, [1], types))
    assert (found.tolist() if isinstance(found, np.ndarray) else found) == wanted


@pytest.mark.parametrize(
    ("function", "types", "text"),
    [
        (lambda x: [x, x], tf.int32, r"pyfunc_\d+ returns 2 values, but expects to see 1 values"),
        (lambda x: x, [tf.int32] * 2, "returns 1 values, but expects to see 2 values"),
        (lambda x: None, tf.int32, "returns 0 values, but expects to see 1 values"),
        (lambda x: x, [], "returns 1 values, but expects to see 0 values"),
        (lambda x: 1.5, tf.float32, r"0-th value returned by pyfunc_\d+ is double, but expects float"),
        (lambda x: [x, 1], [tf.int32] * 2, "1-th value returned by .* is int64, but expects int32"),
    ],
)
def test_wrong_results(session, function, types, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match=text) as caught:
        session.run(tf.py_func(function, [1], types))
    assert caught.value.op.type == "PyFunc"


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (ValueError("v"), tf.errors.InvalidArgumentError),
        (TypeError("t"), tf.errors.InvalidArgumentError),
        (StopIteration("s"), tf.errors.OutOfRangeError),
        (MemoryError("m"), tf.errors.ResourceExhaustedError),
        (NotImplementedError("n"), tf.errors.UnimplementedError),
        (ZeroDivisionError("z"), tf.errors.UnknownError),
        (tf.errors.OutOfRangeError(None, None, "o"), tf.errors.UnknownError),
    ],
    ids=lambda item: type(item).__name__ if isinstance(item, Exception) else item.__name__,
)
@pytest.mark.parametrize("stateful", [True, False])
def test_exceptions(session, problem, error, stateful):
    def fail(x):
        raise problem

    text = rf"(?s)^{type(problem).__name__}: .*Traceback .*in fail\n    raise problem"
    with pytest.raises(error, match=text) as caught:
        session.run(tf.py_func(fail, [1], tf.float32, stateful=stateful))
    assert caught.value.__cause__ is problem


def test_operation_without_results(session):
    calls = []
    op = tf.py_func(calls.append, [7], [])
    assert op.type == "PyFunc"
    session.run(op)
    session.run(op)
    assert calls == [7, 7]


def test_stateless_functions_are_not_called_while_building(session):
    calls = []

    def count():
        calls.append(1)
        return np.int32(3)

    size = tf.numpy_function(count, [], tf.int32, stateful=False)
    assert size.op.type == "PyFuncStateless"
    row = tf.zeros([size])
    assert not calls
    assert session.run(row).tolist() == [0, 0, 0]


def test_arguments_are_the_functions_own(session):
    def change(x):
        x += 1
        return x

    x = tf.placeholder(tf.int32, [3])
    array = np.arange(3, dtype=np.int32)
    found = session.run([tf.py_func(change, [x], tf.int32), x + 0], {x: array})
    assert [item.tolist() for item in found] == [[1, 2, 3], [0, 1, 2]]
    assert array.tolist() == [0, 1, 2]


def test_functions_see_committed_state_and_may_run_steps(session):
    v = tf.Variable(1.0)
    session.run(v.initializer)
    update = v.assign_add(1.0)
    inner = tf.py_func(lambda: np.float32(session.run(update)), [], tf.float32)
    assert session.run(inner) == 2
    assert session.run(v) == 2


def test_a_function_lives_as_long_as_its_graph():
    from anabranch.ops.control import python_functions

    with tf.Graph().as_default() as graph:
        token = tf.py_func(lambda: np.float32(1), [], tf.float32).op.get_attr("token").decode()
        definition = graph.as_graph_def()
    gc.collect()
    with tf.Graph().as_default(), tf.Session() as session:
        (x,) = tf.import_graph_def(definition, return_elements=["PyFunc:0"])
        assert session.run(x) == 1
        del graph
        gc.collect()
        assert token not in python_functions._functions
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"callback {token} is not found"):
            session.run(x)


def test_refused(session):
    with pytest.raises(ValueError, match=r"Expected func to be callable\. Received func=3"):
        tf.py_func(3, [1], tf.int32)
    with pytest.raises(TypeError, match=r"tf.py_func\(func, \[x\], Tout\)"):
        tf.py_func(abs, tf.constant(1), tf.int32)
    x = tf.constant(1.0)
    assert tf.gradients(tf.py_func(abs, [x], tf.float32), x) == [None]


@pytest.mark.parametrize(
    ("value", "wanted", "text"),
    [
        ({"a": 1}, tf.string, "Unsupported object type dict"),
        ({"a": 1}, tf.int64, "Unsupported object type dict"),
        (np.array([b"x", object()], object), tf.string, "Unsupported object type object"),
        (np.zeros(1, [("foo", np.float32)]), tf.float32, "Unsupported numpy type"),
        (np.datetime64("2020-01-01"), tf.int64, "Unsupported numpy type datetime64"),
    ],
)
def test_what_no_tensor_holds_is_refused(value, wanted, text):
    with tf.Graph().as_default(), tf.Session() as session:
        result = tf.py_func(lambda: value, [], wanted)
        with pytest.raises(tf.errors.UnimplementedError, match=text):
            session.run(result)


@pytest.mark.parametrize("given", [{"keep_prob": [0.0, 1.0]}, {"rate": [0.5]}, {"keep_prob": "a"}])
def test_dropout_wants_one_probability(given):
    with tf.Graph().as_default(), pytest.raises(ValueError, match="a number or a scalar tensor"):
        tf.nn.dropout(tf.ones([2, 3]), **given)
