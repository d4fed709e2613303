"""``Print``, ``PrintV2``, ``StringFormat``; ``tf.Print``, ``tf.print``, ``tf.strings.format``.

Printing acts on a channel: what a step did before it is committed, and a step that fails later has still printed. Texts
have TensorFlow's layout (:mod:`anabranch.core.values.summarize`) and go through Python's ``sys.stderr`` and
``sys.stdout``, so that whatever captures those captures them.
"""

from __future__ import annotations

import collections.abc
import itertools
import logging
import pprint
import sys
import threading
import weakref
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Int, List, NotDifferentiable, Op, String, Type, channel
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes
from anabranch.core.values.summarize import summarize, summarize_ends

_printed: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""How often each ``Print`` operation with a limit has printed, over all sessions."""
_lock = threading.Lock()


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Print(Op):
    """The input; prints ``message`` and the values of ``data`` to the standard error, ``first_n`` times if not -1."""

    signature = "input: T, data: [U] -> output: T"
    attrs = {
        "T": Type(),
        "U": List("type", minimum=0),
        "message": String(""),
        "first_n": Int(-1),
        "summarize": Int(3),
    }
    effect = channel()
    passes = "input"
    shape = inference.unchanged

    def host_kernel(ctx, inputs, attrs):
        value, *data = inputs
        if attrs["first_n"] >= 0:
            with _lock:
                count = _printed.get(ctx.op, 0)
                if count >= attrs["first_n"]:
                    return [value]
                _printed[ctx.op] = count + 1
        shown = "".join(f"[{summarize(item, attrs['summarize'])}]" for item in data)
        sys.stderr.write(f"{_text(attrs['message'])}{shown}\n")
        sys.stderr.flush()
        return [value]

    def gradient(op, grad):
        return [grad] + [None] * (len(op.inputs) - 1)


class StringFormat(Op):
    """``template`` with each ``placeholder`` replaced by an input: ``summarize`` elements at both ends of its
    dimensions.
    """

    signature = "inputs: [T] -> output: string"
    attrs = {
        "T": List("type", minimum=0),
        "template": String("%s"),
        "placeholder": String("%s"),
        "summarize": Int(3),
    }
    effect = PURE
    gradient = NotDifferentiable("it makes a string")

    def shape(c):
        parts = _text(c.attrs["template"]).split(_text(c.attrs["placeholder"]))
        if len(parts) - 1 != len(c.shapes):
            raise ValueError(
                f"num placeholders in template and num inputs must match: {len(parts) - 1} vs. {len(c.shapes)}\n"
                + errors.message(
                    f"template {_text(c.attrs['template'])!r} with {len(c.shapes)} inputs",
                    f"one input for each {_text(c.attrs['placeholder'])!r}",
                    "pass as many inputs as placeholders",
                )
            )
        return ()

    def host_kernel(ctx, inputs, attrs):
        first, *literals = _text(attrs["template"]).split(_text(attrs["placeholder"]))
        shown = [summarize_ends(value, attrs["summarize"]) for value in inputs]
        text = first + "".join(item + part for item, part in zip(shown, literals, strict=True))
        return [np.array(text.encode("utf-8", "surrogateescape"), object)]


def _write(stream: str, text: str) -> None:
    level = _LEVELS.get(stream)
    if level is not None:
        logging.getLogger("anabranch").log(level, "%s", text)
        return
    if stream.startswith("file://"):
        with open(stream.removeprefix("file://"), "a", encoding="utf-8") as file:
            file.write(text)
        return
    target = sys.stdout if stream == "stdout" else sys.stderr
    target.write(text)
    target.flush()


_LEVELS = {"log(info)": logging.INFO, "log(warning)": logging.WARNING, "log(error)": logging.ERROR}


class PrintV2(Op):
    """Write the string scalar ``input`` and ``end`` to a stream, the log or a file (``file://path``)."""

    signature = "input: string ->"
    attrs = {"output_stream": String("stderr"), "end": String("\n")}
    effect = channel()
    gradient = NotDifferentiable("it has no outputs")

    def shape(c):
        c.with_rank("input", 0)
        return []

    def host_kernel(ctx, inputs, attrs):
        stream = _text(attrs["output_stream"])
        known = stream in ("stdout", "stderr") or stream in _LEVELS or stream.startswith("file://")
        ctx.check(known, errors.InvalidArgumentError, f"Unknown output stream: {stream}")
        text = np.asarray(inputs[0], object)[()]
        _write(stream, _text(text) + _text(attrs["end"]))


# ------------------------------------------------------------------------------------------------------------- public
@public("Print")
def print_(
    input_: Any,
    data: Any,
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Tensor:
    """``input_``, which prints ``data`` to the standard error when it is computed.

    Args:
        input_: the tensor to pass through.
        data: list of tensors to print.
        message: what to print before them.
        first_n: how many times to print; always if None.
        summarize: how many elements of each tensor to print (3 if None, all if negative).
        name: name of the op.
    """
    return build(
        "Print",
        input_,
        list(data),
        message=message or "",
        first_n=-1 if first_n is None else first_n,
        summarize=3 if summarize is None else summarize,
        name=name,
    )


@public("strings.format")
def string_format(
    template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None
) -> Tensor:
    """A string scalar: ``template`` with each ``placeholder`` replaced by the text of one of ``inputs``.

    Args:
        template: a Python string.
        inputs: a tensor or a list of tensors, one per placeholder.
        placeholder: what to replace.
        summarize: how many elements to show at both ends of each dimension; all if -1.
        name: name of the op.
    """
    tensors = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    return build("StringFormat", tensors, template=template, placeholder=placeholder, summarize=summarize, name=name)


def _stream_name(stream: Any) -> str:
    if stream is sys.stderr or stream is sys.__stderr__:
        return "stderr"
    if stream is sys.stdout or stream is sys.__stdout__:
        return "stdout"
    if isinstance(stream, str) and (stream.startswith("file://") or stream in ("stdout", "stderr", *_LEVELS)):
        return stream
    by_name = {"info": "log(info)", "warning": "log(warning)", "warn": "log(warning)", "error": "log(error)"}
    name = by_name.get(getattr(stream, "__name__", "")) if callable(stream) else None
    if name is not None:
        return name
    raise ValueError(
        f"Unsupported output stream, logging level, or file.{stream}. Supported streams are sys.stdout, sys.stderr, "
        "tf.logging.info, tf.logging.warning, tf.logging.error. File needs to be in the form of 'file://<filepath>'.\n"
        + errors.message(
            f"output_stream={stream!r}", "a stream, a level of the log, or 'file://path'", "output_stream=sys.stdout"
        )
    )


class _Slot:
    """Stand for a tensor in a structure that is printed."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _with_slots(value: Any, placeholder: str, tensors: list[Tensor]) -> Any:
    """``value`` with tensors taken out, dictionaries in the order of their keys."""
    if isinstance(value, Tensor) or hasattr(value, "_as_graph_element"):
        tensors.append(convert_to_tensor(value))
        return _Slot(placeholder)
    if all(hasattr(value, part) for part in ("indices", "values", "dense_shape")) and not isinstance(value, type):
        parts = [value.indices, value.values, value.dense_shape]
        tensors.extend(part for part in parts if part is not None)
        shown = [placeholder if part is not None else "None" for part in parts]
        kind = type(value).__name__
        return _Slot(f"{kind}(indices={shown[0]}, values={shown[1]}, shape={shown[2]})")
    if isinstance(value, collections.abc.Mapping):
        keys = sorted(value) if not isinstance(value, collections.OrderedDict) else list(value)
        return {key: _with_slots(value[key], placeholder, tensors) for key in keys}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_with_slots(item, placeholder, tensors) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_with_slots(item, placeholder, tensors) for item in value)
    return value


def _unused(text: str) -> str:
    """A placeholder that does not occur in ``text``."""
    return next(placeholder for n in itertools.count() if (placeholder := "{" + str(n or "") + "}") not in text)


@public("print")
def print_v2(*inputs: Any, **kwargs: Any) -> Operation:
    """An operation that prints ``inputs`` when it runs: strings as they are, tensors by their values, also in
    structures.

    Args:
        inputs: what to print: Python objects and (lists, tuples, dictionaries of) tensors.
        output_stream: ``sys.stderr`` (the default), ``sys.stdout``, a logging function or ``"file://path"``.
        summarize: how many elements to print at both ends of each dimension (3 if None, all if -1).
        sep: what to print between inputs, ``" "``.
        end: what to print at the end, a line break.
        name: name of the op.

    Nothing is printed unless the operation runs: fetch it, or make it a control dependency.
    """
    output_stream = kwargs.pop("output_stream", sys.stderr)
    name = kwargs.pop("name", None)
    limit = kwargs.pop("summarize", None)
    sep, end = kwargs.pop("sep", " "), kwargs.pop("end", "\n")
    if kwargs:
        raise ValueError(
            errors.message(
                f"tf.print(..., {', '.join(kwargs)}=)",
                "only output_stream, summarize, sep, end and name",
                "leave it out",
            )
        )
    sep = " " if sep is None else sep
    end = "\n" if end is None else end
    stream = _stream_name(output_stream)
    limit = 3 if limit is None else limit
    single = inputs[0] if len(inputs) == 1 else None
    if isinstance(single, Tensor) and single.dtype.base == dtypes.string and single.get_shape().ndims == 0:
        formatted = single
    else:
        free: list[Any] = [_with_slots(value, "", []) for value in inputs]
        placeholder = _unused(sep.join(value if isinstance(value, str) else pprint.pformat(value) for value in free))
        tensors: list[Tensor] = []
        slotted = [_with_slots(value, placeholder, tensors) for value in inputs]
        template = sep.join(
            value if isinstance(value, str) else pprint.pformat(value, sort_dicts=False) for value in slotted
        )
        formatted = string_format(template, tensors, placeholder, limit, None if name is None else f"{name}_format")
    return build("PrintV2", formatted, output_stream=stream, end=end, name=name)
