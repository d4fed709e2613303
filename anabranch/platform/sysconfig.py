"""``tf.sysconfig``: where C++ headers are. There are none here, and each function says what to do instead."""

from __future__ import annotations

from typing import NoReturn

from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        errors.message(
            f"tf.sysconfig.{name}()",
            "a program without operations of its own in C++: there is no C++ interface to compile against",
            "define the op in Python with tf.Op (docs/notes/0002-op-contract.md), or call its code with tf.py_func",
        )
    )


@public("sysconfig.get_include")
def get_include() -> str:
    """Not available: NotImplementedError."""
    _refuse("get_include")


@public("sysconfig.get_lib")
def get_lib() -> str:
    """Not available: NotImplementedError."""
    _refuse("get_lib")


@public("sysconfig.get_compile_flags")
def get_compile_flags() -> list[str]:
    """Not available: NotImplementedError."""
    _refuse("get_compile_flags")


@public("sysconfig.get_link_flags")
def get_link_flags() -> list[str]:
    """Not available: NotImplementedError."""
    _refuse("get_link_flags")


__getattr__, __dir__ = api.module_attributes("sysconfig")
