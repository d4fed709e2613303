"""Programs of tests in processes that begin with NumPy, the package and JAX imported.

A small program in a process of its own spends most of its time on imports: 0.8 of 1 CPU second if it compiles
something. :func:`run` asks a process that has imported everything, and started nothing, to fork; the child then runs
the program like `python -c` or `python FILE`: arguments, folder, environment, standard output and error, uncaught
exceptions, functions at exit and exit status are its own.

It is not for programs about imports, about what happens while Python starts, or about settings that are read then:
what differs in such a setting is refused. JAX's devices start in the child.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
_READ_AT_IMPORT = ("JAX_", "LD_", "OMP_", "OPENBLAS_", "PYTHON")


class _Server:
    """The process that forks, at the other end of a socket."""

    def __init__(self) -> None:
        self.socket, there = socket.socketpair()
        # Imports are those of the strictest programs, for which warnings are errors.
        command = [sys.executable, "-W", "error", __file__, str(there.fileno())]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self.process = subprocess.Popen(
            command,
            pass_fds=[there.fileno()],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.environment = dict(os.environ)
        there.close()
        self.replies = self.socket.makefile("r")
        atexit.register(self.close)

    def end(self) -> None:
        """End the process and the child that it waits for."""
        os.killpg(self.process.pid, signal.SIGKILL)
        atexit.unregister(self.close)
        self.close()

    def close(self) -> None:
        """Let the process end, which waits for a question."""
        self.replies.close()
        self.socket.close()
        self.process.wait()


@functools.cache
def _server() -> _Server:
    return _Server()


def run(
    program: str | Path,
    arguments: Sequence[str] = (),
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    warnings_are: str = "default",
) -> subprocess.CompletedProcess[str]:
    """What :func:`subprocess.run` returns for a program, text or file, in a child that has its imports already.

    Args:
        program: Python code, or the path of a file with it.
        arguments: what follows in `sys.argv`.
        cwd: the folder that it runs in; that of this process if None.
        env: its environment; that of this process if None.
        warnings_are: what Python's `-W` takes, for all warnings.

    Raises:
        ValueError: a setting that is read while modules load differs from that of the process that forks.
    """
    server = _server()
    environment = dict(os.environ if env is None else env)
    for name in {*environment, *server.environment}:
        if name.startswith(_READ_AT_IMPORT) and environment.get(name) != server.environment.get(name):
            raise ValueError(f"{name} is read while modules load: start a Python for a program that has its own")
    request = {
        "code": program.read_text(encoding="utf-8") if isinstance(program, Path) else program,
        "file": str(program) if isinstance(program, Path) else "",
        "arguments": list(arguments),
        "folder": os.fspath(cwd or os.getcwd()),
        "environment": environment,
        "warnings": warnings_are,
    }
    with contextlib.ExitStack() as stack:
        asked, out, err = (stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3))
        json.dump(request, asked)
        asked.flush()
        socket.send_fds(server.socket, [b"x"], [asked.fileno(), out.fileno(), err.fileno()])
        try:
            status = int(server.replies.readline())
        except BaseException:  # a time limit, Ctrl-C: the next program gets a process that has not been asked yet
            _server.cache_clear()
            server.end()
            raise
        return subprocess.CompletedProcess(str(program), status, _text(out), _text(err))


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _import_everything() -> None:
    import anabranch
    from anabranch.xla import engine

    dir(anabranch)  # loads all that defines ops
    assert anabranch.Session
    engine.jax()


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork for each request. In a child: the request; in the process itself None, when nobody asks any more."""
    while True:
        message, files, _, _ = socket.recv_fds(requests, 1, 3)
        child = os.fork() if message else 0
        if not child:
            requests.close()
            if not message:
                return None
            with open(files[0], encoding="utf-8") as asked:
                asked.seek(0)
                request: dict[str, Any] = json.load(asked)
            for stream, file in enumerate(files[1:], 1):
                os.dup2(file, stream)
                os.close(file)
            return request
        for file in files:
            os.close(file)
        requests.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _prepare(request: dict[str, Any]) -> types.ModuleType:
    """Make this process that of the request's program; returns the module that it runs in."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = [request["file"] or "-c", *request["arguments"]]
    sys.path[0] = os.path.dirname(request["file"])
    warnings.resetwarnings()
    warnings.simplefilter(request["warnings"])
    main = types.ModuleType("__main__")
    if request["file"]:
        main.__file__ = request["file"]
    sys.modules["__main__"] = main
    return main


if __name__ == "__main__":
    _import_everything()
    gc.collect()
    gc.freeze()  # the children share these pages
    _request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if _request is not None:
        exec(compile(_request["code"], _request["file"] or "<string>", "exec"), vars(_prepare(_request)))
