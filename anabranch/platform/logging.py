"""``tf.logging``: messages of the logger ``tensorflow``, in its format (``INFO:tensorflow:step 3``), to stderr.

It is a logger of Python's ``logging``, so that handlers, filters and levels set on ``logging.getLogger("tensorflow")``
hold, as programs expect. It writes by itself only if the program has given neither it nor the root logger a handler.
"""

from __future__ import annotations

import collections
import logging as _logging
import sys
import threading
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public

DEBUG, INFO, WARN, ERROR, FATAL = _logging.DEBUG, _logging.INFO, _logging.WARN, _logging.ERROR, _logging.FATAL
for _name in ("DEBUG", "INFO", "WARN", "ERROR", "FATAL"):
    api.publish_as(f"logging.{_name}", globals()[_name])

_NAMES = {DEBUG: "DEBUG", INFO: "INFO", WARN: "WARN", ERROR: "ERROR", FATAL: "FATAL"}
_lock = threading.Lock()
_logger: list[_logging.Logger] = []
_counts: collections.Counter[tuple[str, int]] = collections.Counter()


class _Stderr(_logging.StreamHandler):
    """Write to what ``sys.stderr`` is when the message comes, so that redirecting it works."""

    def __init__(self) -> None:
        _logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr


@public("get_logger")
def get_logger() -> _logging.Logger:
    """The logger that all functions of ``tf.logging`` write to."""
    if _logger:
        return _logger[0]
    with _lock:
        if not _logger:
            logger = _logging.getLogger("tensorflow")
            if logger.level == _logging.NOTSET:
                # In a notebook or a prompt a user wants to see what goes on.
                logger.setLevel(INFO if getattr(sys, "ps1", None) or sys.flags.interactive else WARN)
            if not logger.handlers and not _logging.getLogger().handlers:
                handler = _Stderr()
                handler.setFormatter(_logging.Formatter(_logging.BASIC_FORMAT, None))
                logger.addHandler(handler)
            _logger.append(logger)
    return _logger[0]


def _caller(depth: int = 2) -> tuple[str, int]:
    """File and line of the program that called the function ``depth`` frames above."""
    frame = sys._getframe(depth)
    return frame.f_code.co_filename, frame.f_lineno


@public("logging.log")
def log(level: int, msg: str, *args: Any, **kwargs: Any) -> None:
    """Log ``msg % args`` at a level."""
    get_logger().log(level, msg, *args, **{"stacklevel": 2, **kwargs})


@public("logging.debug")
def debug(msg: str, *args: Any, **kwargs: Any) -> None:
    """Log ``msg % args`` at level DEBUG."""
    get_logger().debug(msg, *args, **{"stacklevel": 2, **kwargs})


@public("logging.info")
def info(msg: str, *args: Any, **kwargs: Any) -> None:
    """Log ``msg % args`` at level INFO."""
    get_logger().info(msg, *args, **{"stacklevel": 2, **kwargs})


@public("logging.warn", "logging.warning")
def warning(msg: str, *args: Any, **kwargs: Any) -> None:
    """Log ``msg % args`` at level WARN."""
    get_logger().warning(msg, *args, **{"stacklevel": 2, **kwargs})


@public("logging.error")
def error(msg: str, *args: Any, **kwargs: Any) -> None:
    """Log ``msg % args`` at level ERROR."""
    get_logger().error(msg, *args, **{"stacklevel": 2, **kwargs})


@public("logging.fatal")
def fatal(msg: str, *args: Any, **kwargs: Any) -> None:
    """Log ``msg % args`` at level FATAL; the program goes on."""
    get_logger().fatal(msg, *args, **{"stacklevel": 2, **kwargs})


@public("logging.vlog")
def vlog(level: int, msg: str, *args: Any, **kwargs: Any) -> None:
    """Log ``msg % args`` at a numeric level of Python's ``logging``."""
    get_logger().log(level, msg, *args, **{"stacklevel": 2, **kwargs})


@public("logging.TaskLevelStatusMessage")
def TaskLevelStatusMessage(msg: str) -> None:
    """Log a message about the state of the task at level ERROR, so that it is seen."""
    get_logger().error(msg, stacklevel=2)


@public("logging.flush")
def flush() -> None:
    """Write out what handlers hold back."""
    for handler in get_logger().handlers:
        handler.flush()


@public("logging.log_every_n")
def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log the first of every ``n`` calls from one line of the program."""
    place = _caller()
    _counts[place] += 1
    log_if(level, msg, (_counts[place] - 1) % n == 0, *args)


@public("logging.log_first_n")
def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log the first ``n`` calls from one line of the program."""
    place = _caller()
    _counts[place] += 1
    log_if(level, msg, _counts[place] <= n, *args)


@public("logging.log_if")
def log_if(level: int, msg: str, condition: Any, *args: Any) -> None:
    """Log if a condition holds."""
    if condition:
        get_logger().log(level, msg, *args, stacklevel=2)


@public("logging.get_verbosity")
def get_verbosity() -> int:
    """The level from which on messages are written."""
    return get_logger().getEffectiveLevel()


@public("logging.set_verbosity")
def set_verbosity(v: int | str) -> None:
    """Set the level from which on messages are written: ``tf.logging.INFO``, or its name.

    Raises:
        ValueError: ``v`` names no level.
    """
    if isinstance(v, str) and v.upper() not in (*_NAMES.values(), "WARNING"):
        raise ValueError(
            errors.message(f"verbosity {v!r}", f"a level: {', '.join(_NAMES.values())}", "tf.logging.INFO")
        )
    get_logger().setLevel(v.upper() if isinstance(v, str) else v)


__getattr__, __dir__ = api.module_attributes("logging")
