"""Who may talk to a task: the token, and what is encrypted.

Policy. Whoever knows the token of a cluster may do with its tasks what a program may do with its own process: run
steps, read and write variables and files. So every call carries it, and a task answers nobody else.

- On one machine the token is a file that only its owner can read, made by the first task that starts. A file that
  others can read, or that somebody else owns, is refused.
- On several machines the user places the same file on each, and names it in ``ANABRANCH_CLUSTER_TOKEN_FILE``. Without
  it a task whose address is not of this machine alone (not loopback) is refused.
- ``ANABRANCH_CLUSTER_TLS`` names a folder with ``ca.pem``, ``cert.pem`` and ``key.pem``. Then both sides show a
  certificate of that authority, and all is encrypted. Without it the token, and all values, travel as they are: the
  network between the tasks is trusted.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import stat
from pathlib import Path
from typing import NamedTuple

from anabranch.core import errors

TOKEN_VARIABLE = "ANABRANCH_CLUSTER_TOKEN_FILE"
TLS_VARIABLE = "ANABRANCH_CLUSTER_TLS"
_SHORTEST = 16
"""Characters that a token must have."""


class Certificates(NamedTuple):
    """What TLS needs, as PEM."""

    authority: bytes
    certificate: bytes
    key: bytes


def _default_file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if folder and Path(folder).is_absolute() else Path.home() / ".config"
    return base / "anabranch" / "cluster-token"


def token() -> str:
    """The token of this user's clusters; a new one, in a file of its own, if this machine has none.

    Raises:
        PermissionDeniedError: others can read the file. FailedPreconditionError: it holds no token.
    """
    placed = os.environ.get(TOKEN_VARIABLE, "")
    path = Path(placed) if placed else _default_file()
    if not placed and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
        try:
            os.link(draft, path)  # of several tasks that start together, one makes the file
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return _read(path)


def _read(path: Path) -> str:
    try:
        status = path.stat()
        text = path.read_text(encoding="utf-8").strip()
    except OSError as problem:
        raise errors.FailedPreconditionError(
            None,
            None,
            errors.message(
                f"the token file {str(path)!r}, which cannot be read ({problem.strerror})",
                "a file with the cluster's token, the same on each machine",
                f"head -c 32 /dev/urandom | base64 > {path}; chmod 600 {path}",
            ),
        ) from None
    mode = stat.S_IMODE(status.st_mode)
    if os.name == "posix" and (mode & 0o077 or status.st_uid != os.getuid()):
        raise errors.PermissionDeniedError(
            None,
            None,
            errors.message(
                f"the token file {str(path)!r} with mode {mode:o}, owned by user {status.st_uid}",
                f"a file of user {os.getuid()} that nobody else can read (mode 600)",
                f"chmod 600 {path}, and a new token if others may have read it",
            ),
        )
    if len(text) < _SHORTEST:
        raise errors.FailedPreconditionError(
            None,
            None,
            errors.message(
                f"the token file {str(path)!r} with {len(text)} characters",
                f"a secret of at least {_SHORTEST} characters",
                f"head -c 32 /dev/urandom | base64 > {path}; chmod 600 {path}",
            ),
        )
    return text


def certificates() -> Certificates | None:
    """The certificates that ``ANABRANCH_CLUSTER_TLS`` names; None if it is not set.

    Raises:
        FailedPreconditionError: one is missing.
    """
    folder = os.environ.get(TLS_VARIABLE, "")
    if not folder:
        return None
    try:
        return Certificates(*[Path(folder, name).read_bytes() for name in ("ca.pem", "cert.pem", "key.pem")])
    except OSError as problem:
        raise errors.FailedPreconditionError(
            None,
            None,
            errors.message(
                f"{TLS_VARIABLE}={folder!r}, where {problem.filename!r} cannot be read ({problem.strerror})",
                "a folder with ca.pem, cert.pem and key.pem",
                f"unset {TLS_VARIABLE} to go without TLS",
            ),
        ) from None


def split_address(address: str, refused: str = "Could not interpret {} as a host-port pair.") -> tuple[str, int]:
    """Host and port of an address.

    Args:
        address: ``host:port``.
        refused: the first line of the error, with the address in its braces.

    Raises:
        InvalidArgumentError: it is none.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise errors.InvalidArgumentError(
            None,
            None,
            refused.format(f'"{address}"')
            + "\n"
            + errors.message(f"the address {address!r}", "'host:port'", "'localhost:2222'"),
        )
    return host.strip("[]"), int(port)


def bind_host(address: str, who: str) -> str:
    """The network address that a task listens on: what its address in the ClusterSpec means on this machine.

    Raises:
        InvalidArgumentError: the name is unknown. FailedPreconditionError: it is not loopback, and no token was placed.
    """
    host, _ = split_address(address)
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise errors.InvalidArgumentError(
            None,
            None,
            errors.message(
                f"the address {address!r} of {who}, whose host is unknown here ({problem})",
                "a name or number of this machine",
                "tf.train.ClusterSpec({...: ['localhost:2222']}), or the right name",
            ),
        ) from None
    numbers = sorted({str(entry[4][0]).partition("%")[0] for entry in found}, key=lambda text: ":" in text)
    number = numbers[0]
    if not ipaddress.ip_address(number).is_loopback and not os.environ.get(TOKEN_VARIABLE):
        raise errors.FailedPreconditionError(
            None,
            None,
            errors.message(
                f"the address {address!r} ({number}) of {who}, which other machines can reach, and no token",
                "a token that you have placed on each machine of the cluster",
                f"export {TOKEN_VARIABLE}=FILE (the same secret everywhere, mode 600); "
                "or 'localhost:PORT' for tasks on one machine",
            ),
        )
    return number
