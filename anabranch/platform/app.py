"""``tf.app``: the entry point of a program. ``tf.app.flags`` is ``tf.flags``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from logging import LogRecord as _Record
from typing import Any, NoReturn

from absl import app as _absl
from absl import logging as _absl_logging
from absl.flags import Error

from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.platform import flags, logging


def _parse(argv: list[str]) -> list[str]:
    """Parse the command line; end the program with the usage if a flag has an illegal value."""
    try:
        return flags.FLAGS(argv, known_only=True)
    except Error as problem:
        sys.stderr.write(
            f"FATAL Flags parsing error: {problem}\nPass --helpshort or --helpfull to see help on flags.\n"
        )
        sys.exit(1)


def _not_ours(record: _Record) -> bool:
    return record.name != logging.get_logger().name


@public("app.run")
def run(main: Callable[[list[str]], Any] | None = None, argv: list[str] | None = None) -> NoReturn:
    """Parse flags, call ``main(argv)`` with what no flag took, and end the program with what it returns.

    Args:
        main: the program; ``main`` of the script by default.
        argv: the command line with the program's name first; ``sys.argv`` by default.
    """
    if main is None:
        main = getattr(sys.modules["__main__"], "main", None)
        if main is None:
            raise ValueError(
                errors.message(
                    "no main, and the script defines none", "a function of the arguments", "tf.app.run(main)"
                )
            )
    # absl gives the root logger a handler, which would write each message of tf.logging a second time.
    if logging.get_logger().handlers:
        _absl_logging.get_absl_handler().python_handler.addFilter(_not_ours)
    _absl.run(main=main, argv=argv, flags_parser=_parse)
    raise AssertionError("absl's run returned")


__getattr__, __dir__ = api.module_attributes("app")
