"""The process in which a program is compiled in the background: a script of jaxlib's alone, started for one module.

It reads one request from its standard input and answers on its standard output; see :mod:`anabranch.xla.background`.
It is not imported by the package, and imports nothing of it: starting it takes 0.2 s. What programs call besides XLA
has a stand-in here, as compiling asks whether it is there (``onednn/frames.py``, which is loaded by its path). If
nobody reads the answer any more, the code goes to the disk under the name that the request has; only then is the
package's cache imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

COMPILED, FAILED = b"\0", b"\1"
GOING_ON = "going-on"
"""The name on disk of a note that says which process goes on by itself."""
READ_WITHIN = 60
"""Seconds after which it ends if a forked child of the one who asked holds the pipe, and does not read it."""


def _fields(file: BinaryIO) -> Iterator[bytes]:
    while size := file.read(8):
        (length,) = struct.unpack("<Q", size)
        field = file.read(length)
        if len(field) < length:  # who asked has ended in the middle of it
            return
        yield field


def main() -> None:
    """Compiles the module that is asked for and answers with the serialised executable, or with why there is none."""
    request, answer = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not part of the answer
    sys.path.insert(1, sys.argv[1])
    try:
        devices, module, options, name = _fields(request)
    except (ValueError, struct.error):  # who asked has ended
        return
    kept = _stand_in() if b"anabranch_onednn" in module else None
    try:
        code = _compiled(devices, module, options)
    except Exception:
        try:
            for registers_library_calls in ("jax.numpy.linalg", "jax.scipy.linalg"):
                importlib.import_module(registers_library_calls)
            code = _compiled(devices, module, options)
        except Exception as problem:
            answer.write(FAILED + str(problem).encode())
            answer.close()
            return
    try:
        if hasattr(signal, "alarm"):
            signal.alarm(READ_WITHIN)
        answer.write(COMPILED + code)
        answer.close()
    except BrokenPipeError:
        if name:
            _keep(name.decode(), code)
    del kept


def _keep(name: str, code: bytes) -> None:
    """Put the code where the next start looks for it."""
    sys.path.insert(1, str(Path(__file__).parents[2]))
    cache = importlib.import_module("anabranch.xla.disk_cache").of_process()
    cache.put(name, code)
    cache.remove(GOING_ON)


def _stand_in() -> Any:
    path = Path(__file__).parent / "onednn" / "frames.py"
    spec = importlib.util.spec_from_file_location("frames", path)
    assert spec is not None
    assert spec.loader is not None
    frames = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(frames)
    return frames.stand_in()


def _compiled(devices: bytes, module: bytes, options: bytes) -> bytes:
    from jaxlib import _jax, xla_client

    count, *chosen = map(int, devices.split())
    client: Any = xla_client.make_cpu_client(num_devices=count)
    known = {device.id: device for device in client.devices()}
    executable = client.compile_and_load(
        module,
        executable_devices=_jax.DeviceList(tuple([known[i] for i in chosen])),
        compile_options=xla_client.CompileOptions.ParseFromString(options),
    )
    return executable.serialize()


if __name__ == "__main__":
    main()
