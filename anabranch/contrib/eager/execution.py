"""How a program of eager mode is run: devices, and modes of execution that have one meaning here.

Ops are done when they return, so what waits for them or for their errors has nothing to do.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.eager import mode
from anabranch.eager.mode import ASYNC, EAGER, SYNC


@public("contrib.eager.list_devices")
def list_devices() -> list[str]:
    """Names of the devices that ops run on."""
    return [str(device) for device in EAGER.worker.devices.listed()]


@public("contrib.eager.num_gpus")
def num_gpus() -> int:
    """How many GPUs there are."""
    return sum(device.platform.upper() == "GPU" for device in EAGER.worker.devices.listed())


@public("contrib.eager.set_execution_mode")
def set_execution_mode(mode: Any) -> None:
    """Take ``SYNC``, ``ASYNC`` or None; ops are done when they return in any case.

    Raises:
        ValueError: it is none of these.
    """
    if mode not in (None, SYNC, ASYNC):
        raise ValueError(
            f"Execution mode should be None/SYNC/ASYNC. Got {mode}\n"
            + errors.message(f"{mode!r}", "tf.contrib.eager.SYNC or ASYNC", "leave it out")
        )


@public("contrib.eager.execution_mode")
@contextlib.contextmanager
def execution_mode(mode: Any) -> Iterator[None]:
    """A block of an execution mode; see :func:`set_execution_mode`."""
    set_execution_mode(mode)
    yield


@public("contrib.eager.async_wait")
def async_wait() -> None:
    """Do nothing: ops are done when they return."""


@public("contrib.eager.async_clear_error")
def async_clear_error() -> None:
    """Do nothing: an op that fails raises."""


def _refuse(name: str) -> NoReturn:
    raise errors.UnimplementedError(
        None,
        None,
        errors.message(
            f"tf.contrib.eager.{name}: ops of eager mode on other machines",
            "ops that run in this process",
            "a graph, and tf.Session(target) of a tf.train.Server",
        ),
    )


@public("contrib.eager.set_server_def")
def set_server_def(server_def: Any) -> None:
    """Raise UnimplementedError: eager mode runs in its own process."""
    _refuse("set_server_def")


@public("contrib.eager.connect_to_remote_host")
def connect_to_remote_host(remote_host: Any = None, job_name: str = "worker") -> None:
    """Raise UnimplementedError: eager mode runs in its own process."""
    _refuse("connect_to_remote_host")


@public("contrib.eager.run")
def run(main: Callable[[Sequence[str]], Any] | None = None, argv: Sequence[str] | None = None) -> NoReturn:
    """Enable eager mode, parse flags, call ``main(argv)``, and exit with what it returns.

    Args:
        main: the program; that of the module that was started if None.
        argv: arguments; those of the process if None.
    """
    mode.enable_eager_execution()
    tf.app.run(sys.modules["__main__"].main if main is None else main, argv)
    raise AssertionError("tf.app.run returned")


__all__ = ["execution_mode", "list_devices", "run"]
