"""A task that ``anabranch launch`` has started: runs a program, and ends when the launcher does, however that ended."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

from anabranch.cli import main

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl."""


def die_with(parent: int) -> None:
    """Have this process killed when its parent ends."""
    try:
        told = ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL) == 0
    except (AttributeError, OSError):  # not Linux
        told = False
    if os.getppid() != parent:
        os._exit(1)
    if not told:

        def look() -> None:
            while os.getppid() == parent:
                time.sleep(1.0)
            os._exit(1)

        threading.Thread(target=look, daemon=True).start()


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    main.main(["run", *sys.argv[2:]])
