"""``tf.contrib.compiler``: scopes that asked for XLA, which compiles every step here.

``jit.experimental_jit_scope`` marks operations with the attributes that TensorFlow's compiler read, so that a graph
that is exported carries them; they change nothing in how a step runs here. ``xla.compile`` calls its function.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public

_open: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()
"""For each graph how many scopes it has had that lay in no other, and how many are open."""


@public("contrib.compiler.jit.experimental_jit_scope")
@contextlib.contextmanager
def experimental_jit_scope(compile_ops: Any = True, separate_compiled_gradients: bool = False) -> Iterator[None]:
    """Mark operations made within as ones to be compiled.

    Args:
        compile_ops: whether, or a function that says so for the ``NodeDef`` of an operation.
        separate_compiled_gradients: whether gradients form a group of their own.
    """
    graph = tf.get_default_graph()
    counts = _open.setdefault(graph, [0, 0])
    if not counts[1]:
        counts[0] += 1
    marks = {
        "_XlaSeparateCompiledGradients": tf.AttrValue(b=bool(separate_compiled_gradients)),
        "_XlaScope": tf.AttrValue(s=f"jit_scope_{counts[0] - 1}".encode()),
    }
    if not callable(compile_ops):
        marks["_XlaCompile"] = tf.AttrValue(b=bool(compile_ops))
    before = len(graph.get_operations())
    counts[1] += 1
    try:
        with graph._attr_scope(marks):
            yield
    finally:
        counts[1] -= 1
    if callable(compile_ops):
        for operation in graph.get_operations()[before:]:
            if "_XlaCompile" not in operation.node_def.attr:  # a scope within has the last word
                operation._set_attr("_XlaCompile", tf.AttrValue(b=bool(compile_ops(operation.node_def))))


@public("contrib.compiler.xla.compile")
def compile(computation: Callable[..., Any], inputs: Sequence[Any] | None = None) -> list[Any]:
    """The tensors that a function makes of ``inputs``, as a list; operations that it makes run before them.

    Args:
        computation: function that makes operations, and returns tensors and operations.
        inputs: its arguments.
    """
    if inputs is not None and not isinstance(inputs, Sequence):
        raise TypeError(
            errors.message(f"inputs of type {type(inputs).__name__}", "a list of arguments", "inputs=[x, y]")
        )
    made = computation(*[tf.convert_to_tensor(x) for x in inputs or ()])
    results = list(made) if isinstance(made, (list, tuple)) else [] if made is None else [made]
    operations = [each for each in results if isinstance(each, tf.Operation)]
    with tf.control_dependencies(operations):
        return [tf.identity(each) for each in results if not isinstance(each, tf.Operation)]
