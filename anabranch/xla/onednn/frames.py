"""The layout of what XLA hands to a foreign function (``xla/ffi/api/c_api.h``), as far as it is read here.

This module imports nothing of the package: the process that compiles in the background
(:mod:`anabranch.xla.compiler_process`) loads it by its path, for :func:`stand_in`.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

TARGET = "anabranch_onednn"
"""The name under which programs call the handler."""
INTERNAL = 13
"""The code of an error that is not the user's."""
_METADATA = 1
_SCALAR, _STRING = 3, 4

Address = ctypes.c_void_p


class _Span(ctypes.Structure):
    _fields_ = [("data", Address), ("length", ctypes.c_size_t)]


class _Scalar(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("value", ctypes.POINTER(ctypes.c_int64))]


class _Buffer(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension", Address),
        ("dtype", ctypes.c_int),
        ("data", Address),
    ]


class _Buffers(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension", Address),
        ("size", ctypes.c_int64),
        ("types", Address),
        ("items", ctypes.POINTER(ctypes.POINTER(_Buffer))),
    ]


class _Attributes(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension", Address),
        ("size", ctypes.c_int64),
        ("types", ctypes.POINTER(ctypes.c_int)),
        ("names", ctypes.POINTER(ctypes.POINTER(_Span))),
        ("items", ctypes.POINTER(Address)),
    ]


class _Version(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension", Address),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    ]


class _Metadata(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("version", _Version), ("traits", ctypes.c_uint32)]


class _Extension(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("kind", ctypes.c_int),
        ("next", Address),
        ("metadata", ctypes.POINTER(_Metadata)),
    ]


class _ErrorArguments(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension", Address),
        ("message", ctypes.c_char_p),
        ("code", ctypes.c_int),
    ]


_CreateError = ctypes.CFUNCTYPE(Address, ctypes.POINTER(_ErrorArguments))


class _Api(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension", Address),
        ("version", _Version),
        ("internal", Address),
        ("create_error", _CreateError),
    ]


class _Frame(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.POINTER(_Extension)),
        ("api", ctypes.POINTER(_Api)),
        ("context", Address),
        ("stage", ctypes.c_int),
        ("operands", _Buffers),
        ("results", _Buffers),
        ("attributes", _Attributes),
    ]


Handler = ctypes.CFUNCTYPE(Address, ctypes.POINTER(_Frame))


@functools.cache
def api_version() -> tuple[int, int]:
    """Major and minor version of the interface that the jaxlib installed here was built with."""
    import jaxlib

    header = Path(str(jaxlib.__file__)).parent / "include/xla/ffi/api/c_api.h"
    text = header.read_text()
    major, minor = (re.search(rf"define XLA_FFI_API_{part} (\d+)", text) for part in ("MAJOR", "MINOR"))
    if major is None or minor is None:
        raise NotImplementedError(f"{header} does not tell its version")
    if int(major[1]) != 0:
        raise NotImplementedError(f"version {major[1]} of XLA's foreign functions, not 0")
    return int(major[1]), int(minor[1])


def buffers(frame: Any) -> list[int]:
    """Where the operands are, then the results."""
    return [
        group.items[i].contents.data or 0
        for group in (frame.contents.operands, frame.contents.results)
        for i in range(group.size)
    ]


def attributes(frame: Any) -> dict[str, int | str]:
    """The integers and texts that a call carries."""
    table = frame.contents.attributes
    read: dict[str, int | str] = {}
    for i in range(table.size):
        name = _text(table.names[i].contents)
        if table.types[i] == _STRING:
            read[name] = _text(ctypes.cast(table.items[i], ctypes.POINTER(_Span)).contents)
        elif table.types[i] == _SCALAR:
            read[name] = ctypes.cast(table.items[i], ctypes.POINTER(_Scalar)).contents.value[0]
    return read


def _text(span: _Span) -> str:
    return ctypes.string_at(span.data, span.length).decode() if span.length else ""


def handler(work: Callable[[Any], None]) -> Any:
    """A foreign function that answers XLA's question for its version and otherwise does ``work(frame)``.

    What ``work`` raises becomes an error of the program that calls.
    """

    def run(frame: Any) -> int:
        try:
            extension = frame.contents.extension
            if extension:
                if extension.contents.kind == _METADATA:
                    metadata = extension.contents.metadata.contents
                    metadata.version.major, metadata.version.minor = api_version()
                    metadata.traits = 0
                return 0
            work(frame)
            return 0
        except BaseException as problem:  # nothing may pass into XLA's frames
            text = f"{type(problem).__name__}: {problem}".encode()
            arguments = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, text, INTERNAL)
            return frame.contents.api.contents.create_error(ctypes.byref(arguments)) or 0

    return Handler(run)


def capsule(function: Any) -> Any:
    """A function, or its address, as XLA takes it."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [Address, ctypes.c_char_p, Address]
    address = function if isinstance(function, int) else ctypes.cast(function, Address).value
    return new(address, None, None)


def stand_in() -> Any:
    """Register, in a process that only compiles, a handler that does nothing; the result must be kept."""
    from jaxlib import xla_client

    nothing = handler(lambda frame: None)
    stages = {"instantiate": capsule(nothing), "execute": capsule(nothing)}
    xla_client.register_custom_call_target(TARGET, stages, platform="cpu", api_version=1)
    return nothing
