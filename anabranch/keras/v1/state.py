"""What Keras keeps beside the model: the session, the learning phase, names that were given, and the float type.

A session belongs to a graph. :func:`get_session` gives that of the block, or the one that was set, or one that is made
for the default graph and kept; before it returns it initialises the variables of Keras that the session has no value
for. Where ops run at once there is no session; models that are made of symbolic inputs then stand in a graph of
Keras' own (:func:`graph`), from which layers are applied anew to values.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.graph.builder import current_builder
from anabranch.eager.function_graph import FunctionGraph
from anabranch.eager.graph_function import GraphFunction


class _Configuration:
    def __init__(self) -> None:
        self.floatx = "float32"
        self.epsilon = 1e-7
        self.image_data_format = "channels_last"
        self.manual_initialization = False


_configuration = _Configuration()
_session: list[Any] = []
_eager_graph: list[Any] = []


class _OfGraph:
    """What belongs to one graph."""

    def __init__(self) -> None:
        self.phase: Any = None
        self.uids: dict[str, int] = {}
        self.variables: list[Any] = []
        self.optimizers: list[Any] = []


_of_graphs: weakref.WeakKeyDictionary[Any, _OfGraph] = weakref.WeakKeyDictionary()
_initialized: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()


# ------------------------------------------------------------------------------------------------------- configuration
def floatx() -> str:
    """Name of the dtype of weights and inputs: ``'float32'`` unless it was set."""
    return _configuration.floatx


def set_floatx(value: str) -> None:
    """Set the dtype of weights and inputs."""
    if value not in {"float16", "float32", "float64"}:
        raise ValueError(
            f"Unknown floatx type: {value}\n"
            + errors.message(repr(value), "'float16', 'float32' or 'float64'", "set_floatx('float32')")
        )
    _configuration.floatx = str(value)


def epsilon() -> float:
    """The small number that keeps divisions and logarithms finite: 1e-7 unless it was set."""
    return _configuration.epsilon


def set_epsilon(value: float) -> None:
    """Set the small number that keeps divisions and logarithms finite."""
    _configuration.epsilon = value


def image_data_format() -> str:
    """``'channels_last'`` or ``'channels_first'``."""
    return _configuration.image_data_format


def set_image_data_format(data_format: str) -> None:
    """Set where the channels of images stand."""
    _configuration.image_data_format = data_format_of(data_format)


def data_format_of(value: str | None) -> str:
    """A data format, checked; the one that is set if None."""
    wanted = _configuration.image_data_format if value is None else str(value).lower()
    if wanted not in {"channels_first", "channels_last"}:
        raise ValueError(
            f"Unknown data_format: {value}\n"
            + errors.message(repr(value), "'channels_first' or 'channels_last'", "data_format='channels_last'")
        )
    return wanted


def backend() -> str:
    """``'tensorflow'``."""
    return "tensorflow"


# -------------------------------------------------------------------------------------------------------------- graphs
def is_eager() -> bool:
    """Whether ops run at once here."""
    return not current_builder().defers


def graph() -> Any:
    """The default graph; where ops run at once, the graph that symbolic inputs are made in."""
    if not is_eager():
        return tf.get_default_graph()
    if not _eager_graph:
        _eager_graph.append(FunctionGraph("keras_graph"))
        _eager_graph[0].is_symbolic = True
    return _eager_graph[0]


def _here() -> _OfGraph:
    return _of_graphs.setdefault(graph(), _OfGraph())


def get_uid(prefix: str = "") -> int:
    """The next number of a prefix in this graph: 1, 2 and so on."""
    counts = _here().uids
    counts[prefix] = counts.get(prefix, 0) + 1
    return counts[prefix]


def reset_uids() -> None:
    """Begin the numbers of names anew."""
    for state in _of_graphs.values():
        state.uids.clear()


def unique_name(name: str, zero_based: bool = False) -> str:
    """``name``, ``name_1`` and so on; ``name_1`` first if not zero-based."""
    number = get_uid(name) - (1 if zero_based else 0)
    return f"{name}_{number}" if number else name


def clear_session() -> None:
    """Begin anew: a new default graph, no session, names from the start."""
    if not is_eager():
        tf.reset_default_graph()
    _session.clear()
    _eager_graph.clear()
    reset_uids()
    if not is_eager():
        learning_phase()  # TensorFlow makes it here, which default seeds count


# -------------------------------------------------------------------------------------------------------------- phases
def learning_phase() -> Any:
    """Whether layers train: the value that was set, else a scalar bool that is False unless it is fed; 0 where ops run
    at once.
    """
    state = _here()
    if is_eager():  # the placeholder, if there is one, is that of the graph of symbolic inputs
        return 0 if state.phase is None or isinstance(state.phase, tf.Tensor) else state.phase
    if state.phase is None:
        with tf.name_scope(None), graph().as_default():
            state.phase = tf.placeholder_with_default(False, (), name="keras_learning_phase")
    return state.phase


def symbolic_phase() -> Any:
    """The tensor that says whether layers train; None if there is none in this graph, or if a number was set."""
    phase = _here().phase
    return phase if isinstance(phase, tf.Tensor) else None


def set_learning_phase(value: int) -> None:
    """Have layers train (1) or not (0), whatever runs them."""
    if value not in {0, 1}:
        raise ValueError(
            "Expected learning phase to be 0 or 1.\n"
            + errors.message(f"set_learning_phase({value!r})", "0 or 1", "set_learning_phase(1) to train")
        )
    _here().phase = value


@contextlib.contextmanager
def learning_phase_scope(value: int) -> Iterator[int]:
    """A block in which layers train (1) or do not (0)."""
    state = _here()
    before = state.phase
    set_learning_phase(value)
    try:
        yield value
    finally:
        state.phase = before


# -------------------------------------------------------------------------------------------------------------- frozen
_compiled_as = threading.local()


@contextlib.contextmanager
def frozen_layers(layers: frozenset[int]) -> Iterator[None]:
    """A block in which these layers, by identity, are the frozen ones: those of the time when a model was compiled."""
    before = getattr(_compiled_as, "frozen", None)
    _compiled_as.frozen = layers
    try:
        yield
    finally:
        _compiled_as.frozen = before


def is_frozen(layer: Any) -> bool:
    """Whether a layer does not learn, as a model was compiled if a step of it is built, else by its ``trainable``."""
    frozen = getattr(_compiled_as, "frozen", None)
    return not layer.trainable if frozen is None else id(layer) in frozen


# ------------------------------------------------------------------------------------------------------------ sessions
def track_variable(variable: Any) -> None:
    """Have :func:`get_session` initialise a variable."""
    if not is_eager():
        _here().variables.append(variable)


def track_optimizer(optimizer: Any) -> None:
    """Have :func:`get_session` initialise the variables of an optimizer of ``tf.train``."""
    if not is_eager():
        _here().optimizers.append(optimizer)


def manual_variable_initialization(value: bool) -> None:
    """Leave it to the program to initialise variables, or take that back."""
    _configuration.manual_initialization = value


def function_of(inputs: list[Any], outputs: list[Any], effects: Any = ()) -> Callable[[list[Any]], list[Any]]:
    """From values of some symbolic tensors to those of others, where ops run at once."""
    home = graph()
    function = GraphFunction(home, inputs, outputs, effects, home.captured, home.handles)

    def run(values: list[Any]) -> list[Any]:
        given = [tf.convert_to_tensor(x, p.dtype.base_dtype) for x, p in zip(values, inputs, strict=True)]
        return [value.numpy() for value in function.run(given, ())]

    return run


def values_of(tensors: list[Any]) -> list[Any]:
    """Values of tensors that depend on no input."""
    if not tensors:
        return []
    return function_of([], tensors)([]) if is_eager() else list(get_session().run(tensors))


def get_session(op_input_list: Any = ()) -> Any:
    """The session of the block, or the one that was set, or one for the default graph that is kept.

    Variables of Keras without a value in it are initialised.
    """
    if is_eager():
        raise RuntimeError(
            "`get_session` is not available when eager execution is enabled.\n"
            + errors.message("a session where ops run at once", "a graph", "x.numpy(), which gives a value")
        )
    session = tf.get_default_session()
    if session is None:
        if not _session or _session[0].graph is not graph():
            _session[:] = [tf.Session(graph=graph())]
        session = _session[0]
    if not _configuration.manual_initialization:
        with session.graph.as_default():
            _initialize(session)
    return session


def set_session(session: Any) -> None:
    """Have :func:`get_session` give this session."""
    _session[:] = [session]


def _initialize(session: Any) -> None:
    state = _here()
    variables = list(state.variables)
    for optimizer in state.optimizers:
        variables.extend(optimizer.variables())
    known = _initialized.setdefault(session, set())
    waiting = [variable for variable in variables if id(variable) not in known]
    if not waiting:
        return
    flags = session.run([tf.is_variable_initialized(variable) for variable in waiting])
    missing = [variable for variable, flag in zip(waiting, flags, strict=True) if not flag]
    if missing:
        session.run([variable.initializer for variable in missing])
    known.update(id(variable) for variable in waiting)


# -------------------------------------------------------------------------------------------------------------- values
def eval(x: Any) -> Any:
    """The value of a tensor or variable, as an array."""
    if is_eager():
        return np.asarray(to_dense(x))
    return get_session().run(to_dense(x))


def get_value(x: Any) -> Any:
    """The value of a variable, as an array."""
    if not isinstance(x, (tf.Tensor, tf.Variable)):
        return x
    return eval(x)


def batch_get_value(tensors: Any) -> list[Any]:
    """The values of variables, as arrays."""
    if is_eager():
        return [np.asarray(tensor) for tensor in tensors]
    return list(get_session().run(list(tensors))) if tensors else []


def set_value(x: Any, value: Any) -> None:
    """Give a variable a value."""
    batch_set_value([(x, value)])


def batch_set_value(tuples: Any) -> None:
    """Give variables values: ``[(variable, value), ...]``."""
    pairs = [
        (variable, np.asarray(value, dtype=variable.dtype.base_dtype.as_numpy_dtype)) for variable, value in tuples
    ]
    if is_eager():
        for variable, value in pairs:
            variable.assign(value)
        return
    if not pairs:
        return
    ops, feeds = [], {}
    for variable, value in pairs:
        if getattr(variable, "_keras_assign", None) is None:
            place = tf.placeholder(variable.dtype.base_dtype, shape=value.shape)
            variable._keras_assign = (place, tf.assign(variable, place))
        place, op = variable._keras_assign
        ops.append(op.op)
        feeds[place] = value
    get_session().run(ops, feeds)


def is_sparse(tensor: Any) -> bool:
    """Whether a tensor is a sparse one."""
    return isinstance(tensor, tf.SparseTensor)


def to_dense(tensor: Any) -> Any:
    """A sparse tensor as a dense one; others as they are."""
    return tf.sparse_tensor_to_dense(tensor) if is_sparse(tensor) else tensor
