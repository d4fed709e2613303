"""``tf.py_func`` and the op of ``tf.py_function``: Python functions as operations.

A function is known by a token, which is what a GraphDef holds; the function itself lives as long as a graph that uses
it, and only in its process. It runs on the thread that runs the step, gets arrays of its own (NumPy scalars and
``bytes`` for scalars), and must return what ``Tout`` says, in count and dtype. What it raises becomes the error that
TensorFlow raises.

A stateful function acts on the outside: it runs once per step that commits, in the order of effects. A stateless one
is a function of its inputs that may be called any number of times.

A function of ``tf.py_function`` (an ``EagerPyFunc``) may say how its inputs' gradients come from those of its results.
That is another such op, with a token of its own, and has no gradient itself, as in TensorFlow.
"""

from __future__ import annotations

import itertools
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import IO, PURE, Bool, List, NotDifferentiable, String, define
from anabranch.core.graph.build import build_operation, results
from anabranch.core.graph.builder import running_at_once
from anabranch.core.values import dtypes

Slopes = Callable[[Sequence[np.ndarray], Sequence[np.ndarray | None], Sequence[int]], Sequence[np.ndarray]]
"""From the values of inputs, gradients of results (None where there is none), and places of inputs: the gradients of
these."""


class _Function:
    """A registered Python function."""

    def __init__(self, function: Callable[..., Any], slopes: Slopes | None = None) -> None:
        self.token = f"pyfunc_{next(_numbers)}"
        self.function = function
        self.slopes = slopes

    def __call__(self, inputs: Sequence[Any], types: Sequence[dtypes.DType]) -> list[Any]:
        """Call the function and check what it returns."""
        with running_at_once():  # in a program that runs ops at once the function does, whichever graph's step calls it
            returned = self.function(*(_argument(value) for value in inputs))
        if returned is None:
            results = []
        else:
            results = (
                [_result(item) for item in returned] if isinstance(returned, (list, tuple)) else [_result(returned)]
            )
        if len(results) != len(types):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"{self.token} returns {len(results)} values, but expects to see {len(types)} values.\n"
                + errors.message(
                    f"{len(results)} values from {_name(self.function)}",
                    f"{len(types)}, as Tout says",
                    "return as many",
                ),
            )
        for i, (value, wanted) in enumerate(zip(results, types, strict=True)):
            self._refuse_foreign(i, value)
            if value.dtype != (wanted.np or np.dtype(object)):
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"{i}-th value returned by {self.token} is {_told(value.dtype)}, but expects {_told(wanted.np)}\n"
                    + errors.message(
                        f"value {i} of dtype {value.dtype} from {_name(self.function)}",
                        f"{wanted.name}, as Tout says",
                        f"return {_asked(wanted)}, or change Tout",
                    ),
                )
        return results

    def _refuse_foreign(self, i: int, value: np.ndarray) -> None:
        """Refuse what no tensor can hold: records, dates, and Python objects other than strings."""
        heading = None
        if value.dtype.kind == "O":
            other = next((item for item in value.reshape(-1) if not isinstance(item, bytes)), b"")
            if not isinstance(other, bytes):
                heading = f"Unsupported object type {type(other).__name__}"
        elif value.dtype.kind not in _TENSOR_KINDS and not _is_element_type(value.dtype):
            heading = f"Unsupported numpy type {value.dtype}"
        if heading is not None:
            raise errors.UnimplementedError(
                None,
                None,
                f"{heading}\n"
                + errors.message(
                    f"value {i} from {_name(self.function)}, of dtype {value.dtype}",
                    "numbers, booleans, or strings (bytes or str)",
                    "return an array of numbers, or pickle.dumps(value) with tf.string in Tout",
                ),
            )


_functions: weakref.WeakValueDictionary[str, _Function] = weakref.WeakValueDictionary()
_numbers = itertools.count()
_C_NAMES = {"float32": "float", "float64": "double", "float16": "half", "object": "string"}


_TENSOR_KINDS = "biufc"


def _is_element_type(dtype: np.dtype) -> bool:
    try:
        dtypes.as_dtype(dtype)
    except TypeError:
        return False
    return True


def _asked(wanted: dtypes.DType) -> str:
    """How to make a value of the dtype that Tout names."""
    return "bytes or str" if wanted.np is None else f"np.asarray(value, np.{wanted.name})"


def _told(dtype: Any) -> str:
    return _C_NAMES.get(np.dtype(dtype).name, np.dtype(dtype).name)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _argument(value: Any) -> Any:
    """A value as the function sees it: its own array, a NumPy scalar or bytes."""
    array = np.array(value, object) if isinstance(value, (bytes, str)) else np.array(value)
    return array if array.ndim else array[()]


def _result(value: Any) -> np.ndarray:
    """What the function returned, as an array; strings as bytes."""
    array = np.asarray(value, order="C")
    if array.dtype.kind == "S" and not isinstance(value, np.ndarray):
        # NumPy drops zero bytes at the end of its own byte strings.
        return np.asarray(value, object)
    if array.dtype.kind == "S":
        return array.astype(object)
    if array.dtype.kind in "UO":
        encoded = np.empty(array.shape, object)
        flat = encoded.reshape(-1)
        for i, item in enumerate(array.astype(object).reshape(-1)):
            flat[i] = item.encode("utf-8") if isinstance(item, str) else item
        return encoded
    return array if array is not value else array.copy()


_ERRORS: tuple[tuple[Any, type[errors.OpError]], ...] = (
    ((ValueError, TypeError), errors.InvalidArgumentError),
    (StopIteration, errors.OutOfRangeError),
    (MemoryError, errors.ResourceExhaustedError),
    (NotImplementedError, errors.UnimplementedError),
)


def _missing(token: str, op: Any = None) -> errors.OpError:
    return errors.InvalidArgumentError(
        None,
        op,
        f"ValueError: callback {token} is not found\n"
        + errors.message(
            f"the token {token!r}" + (f" of op {op.name!r}" if op is not None else ""),
            "a function registered in this process, for a graph that is still there",
            "build the graph with tf.py_func or tf.py_function here: a GraphDef holds no Python functions",
        ),
    )


def _kernel(ctx: Any, inputs: Any, attrs: Any) -> list[Any]:
    token = attrs["token"]
    function = _functions.get(token)
    if function is None:
        raise _missing(token, ctx.op)
    try:
        return function(inputs, attrs["Tout"])
    except errors.OpError as problem:
        if problem.op is None and isinstance(problem, (errors.InvalidArgumentError, errors.UnimplementedError)):
            raise type(problem)(None, ctx.op, problem.message) from None
        raise _failure(errors.UnknownError, ctx.op, problem) from problem
    except Exception as problem:
        kind = next((error for classes, error in _ERRORS if isinstance(problem, classes)), errors.UnknownError)
        raise _failure(kind, ctx.op, problem) from problem


def _failure(kind: Any, op: Any, problem: Exception) -> errors.OpError:
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename != __file__]
    text = problem.message if isinstance(problem, errors.OpError) else str(problem)
    where = "".join(traceback.format_list(frames))
    said = f"{type(problem).__name__}: {text}"
    return kind(None, op, f"{said}\nTraceback (most recent call last):\n{where}{said}")


_FIELDS: dict[str, Any] = {
    "signature": "input: [Tin] -> output: [Tout]",
    "attrs": {"token": String(), "Tin": List("type", minimum=0), "Tout": List("type", minimum=0)},
    "shape": lambda c: [None] * len(c.attrs["Tout"]),
    "gradient": NotDifferentiable("nothing is known of what a Python function computes"),
    "host_kernel": _kernel,
    "deterministic": False,
}

define(
    "PyFunc",
    "The values that the Python function registered under ``token`` returns for the inputs.",
    effect=IO,
    **_FIELDS,
)
define("PyFuncStateless", "Like ``PyFunc``, for a function without effects.", effect=PURE, **_FIELDS)


def _slopes(op: Any, *grads: Any) -> list[Any]:
    """Gradients by one more Python function, if the one of the op knows them."""
    token = op.get_attr("token").decode()
    known = _functions.get(token)
    inputs = list(op.inputs)
    wanted = [i for i, tensor in enumerate(inputs) if tensor.dtype.is_floating or tensor.dtype.is_complex]
    given = [i for i, grad in enumerate(grads) if grad is not None]
    if not wanted or not given or (known is not None and known.slopes is None):
        return [None] * len(inputs)

    def backward(*arrays: Any) -> Sequence[np.ndarray]:
        gradients = _functions.get(token)
        if gradients is None or gradients.slopes is None:
            raise _missing(token)
        after = iter(arrays[len(inputs) :])
        return gradients.slopes(
            arrays[: len(inputs)], [next(after) if i in given else None for i in range(count)], wanted
        )

    count = len(grads)
    operands = [*inputs, *(grads[i] for i in given)]
    types = [inputs[i].dtype.base for i in wanted]
    gradients = _apply("EagerPyFunc", operands, types, None, _Function(backward))
    slopes = iter(gradients if isinstance(gradients, list) else [gradients])
    return [next(slopes) if i in wanted else None for i in range(len(inputs))]


define(
    "EagerPyFunc",
    """The values that the function which ``tf.py_function`` registered under ``token`` returns for the inputs.

    What it computes with TensorFlow's functions has gradients. (``is_async`` is about how TensorFlow's eager operations
    inside are scheduled; the results are the same.)
    """,
    effect=IO,
    **{
        **_FIELDS,
        "attrs": {"token": String(), "is_async": Bool(False), **_FIELDS["attrs"]},
        "gradient": _slopes,
    },
)


def _apply(type_name: str, inp: Any, types: Sequence[Any], name: str | None, function: _Function) -> Any:
    """Apply an op that calls a function; the function lives as long as the op, in its graph or on a tape."""
    _functions[function.token] = function
    op = build_operation(type_name, (list(inp),), {"token": function.token, "Tout": list(types)}, name)
    op._python_function = function
    return results(op) if types or type_name != "PyFuncStateless" else []


def _call(func: Any, inp: Any, Tout: Any, stateful: bool, name: str | None) -> Any:
    if not callable(func):
        raise ValueError(f"Expected func to be callable. Received func={func} of type {type(func)}.")
    if not isinstance(inp, (list, tuple)):
        raise TypeError(
            errors.message(
                f"{type(inp).__name__} as inp of tf.py_func", "a list of tensors", "tf.py_func(func, [x], Tout)"
            )
        )
    many = isinstance(Tout, (list, tuple))
    types = [dtypes.as_dtype(item).base for item in (Tout if many else [Tout])]
    outputs = _apply("PyFunc" if stateful else "PyFuncStateless", inp, types, name, _Function(func))
    return outputs if many or not isinstance(outputs, list) else outputs[0]


def call_eager(
    forward: Callable[..., Any], slopes: Slopes, inp: Sequence[Any], types: Sequence[Any], name: str | None
) -> Any:
    """An ``EagerPyFunc``: a tensor for each of the types in a list, or the operation if there are none."""
    outputs = _apply("EagerPyFunc", inp, types, name, _Function(forward, slopes))
    return outputs if isinstance(outputs, list) or not types else [outputs]


@public("py_func")
def py_func(func: Callable[..., Any], inp: Any, Tout: Any, stateful: bool = True, name: str | None = None) -> Any:
    """The result of a Python function on NumPy arrays.

    Args:
        func: called with one array per input (NumPy scalars and bytes for scalars); returns an array, or a list of
        arrays. inp: list of tensors. Tout: dtype of the result, or list of dtypes of the results; an empty list makes
        an operation without results. stateful: whether it does more than to compute its result. If not, it may be
        called more often than a step needs. name: name of the op.

    Returns:
        A tensor of unknown shape, or a list of them. ValueError and TypeError raised in ``func`` become
        InvalidArgumentError, StopIteration becomes OutOfRangeError, others UnknownError.

    Example:
        >>> import anabranch as tf
        >>> import numpy as np
        >>> y = tf.py_func(np.sinh, [tf.constant([0.0, 1.0])], tf.float32)
        >>> with tf.Session() as session:
        ...     session.run(y).round(3).tolist()
        [0.0, 1.1749999523162842]
    """
    return _call(func, inp, Tout, stateful, name)


@public("numpy_function")
def numpy_function(
    func: Callable[..., Any], inp: Any, Tout: Any, name: str | None = None, stateful: bool = True
) -> Any:
    """Another name of ``tf.py_func``."""
    return _call(func, inp, Tout, stateful, name)
