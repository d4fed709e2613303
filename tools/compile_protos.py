"""Compiles `anabranch/core/protos/*.proto` into Python modules and their type stubs.

Run it after a change of a `.proto` file and commit what it writes: users need neither a compiler nor grpcio-tools.

Generated code carries one call that pins it to the protobuf release it was made with (an older runtime is
refused, a newer major release warns, the one after is refused). The descriptors themselves use nothing new, so
the call is dropped and one set of modules serves the whole range that `pyproject.toml` allows;
`tests/core/protos/` is what vouches for it.

    python tools/compile_protos.py           write the modules
    python tools/compile_protos.py --check   fail if the committed modules are not what the .proto files give
"""

from __future__ import annotations

import re
import sys
import tempfile
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
PROTOS = Path("anabranch/core/protos")

_RUNTIME_PIN = re.compile(
    r"^from google\.protobuf import runtime_version as _runtime_version\n"
    r"|^_runtime_version\.ValidateProtobufRuntimeVersion\(\n(?:.*\n)*?\)\n"
    r"|^# Protobuf Python Version: .*\n",
    re.MULTILINE,
)


def compile_protos(destination: Path) -> None:
    """Writes a `_pb2.py` and a `_pb2.pyi` for every `.proto` file below `destination`."""
    well_known = str(resources.files("grpc_tools") / "_proto")
    sources = sorted(str(path.relative_to(ROOT)) for path in (ROOT / PROTOS).glob("*.proto"))
    arguments = ["protoc", f"-I{ROOT}", f"-I{well_known}", f"--python_out={destination}", f"--pyi_out={destination}"]
    if protoc.main([*arguments, *sources]) != 0:
        raise SystemExit("the .proto files do not compile; the messages above name the lines to mend")
    for module in (destination / PROTOS).glob("*_pb2.py"):
        text, dropped = _RUNTIME_PIN.subn("", module.read_text())
        if dropped != 3 or "_runtime_version" in text:
            raise SystemExit(f"{module.name}: the runtime pin has another form in this grpcio-tools; mend _RUNTIME_PIN")
        module.write_text(text)


def stale_modules() -> list[str]:
    """Names of committed modules that differ from what the `.proto` files give."""
    with tempfile.TemporaryDirectory() as folder:
        fresh_root = Path(folder)
        compile_protos(fresh_root)
        fresh = {path.name: path.read_text() for path in (fresh_root / PROTOS).glob("*_pb2.py*")}
    committed = {path.name: path.read_text() for path in (ROOT / PROTOS).glob("*_pb2.py*")}
    return sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit status."""
    if arguments == ["--check"]:
        stale = stale_modules()
        if stale:
            print(f"stale: {', '.join(stale)}; run `python tools/compile_protos.py` and commit the result")
        return 1 if stale else 0
    if arguments:
        print(__doc__)
        return 2
    compile_protos(ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
