"""Compiles `anabranch/core/protos/*.proto` into Python modules and their type stubs.

Run it after a change of a `.proto` file and commit what it writes: users need neither a compiler nor grpcio-tools.

Generated code carries one call that pins it to the protobuf release it was made with (an older runtime is
refused, a newer major release warns, the one after is refused). The descriptors themselves use nothing new, so
the call is dropped and one set of modules serves the whole range that `pyproject.toml` allows;
`tests/core/protos/` is what vouches for it.

    python tools/compile_protos.py           write the modules
    python tools/compile_protos.py --check   fail if the committed modules do not define what the .proto files do

The check compares descriptors and not text, which differs between releases of the compiler.
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from importlib import resources
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PROTOS = Path("anabranch/core/protos")

_RUNTIME_PIN = re.compile(
    r"^from google\.protobuf import runtime_version as _runtime_version\n"
    r"|^_runtime_version\.ValidateProtobufRuntimeVersion\(\n(?:.*\n)*?\)\n"
    r"|^# Protobuf Python Version: .*\n",
    re.MULTILINE,
)


def run_compiler(*outputs: str) -> None:
    """Compiles all `.proto` files with the given output options."""
    well_known = str(resources.files("grpc_tools") / "_proto")
    sources = sorted(str(path.relative_to(ROOT)) for path in (ROOT / PROTOS).glob("*.proto"))
    if protoc.main(["protoc", f"-I{ROOT}", f"-I{well_known}", *outputs, *sources]) != 0:
        raise SystemExit("the .proto files do not compile; the messages above name the lines to mend")


def compile_protos(destination: Path) -> None:
    """Writes a `_pb2.py` and a `_pb2.pyi` for every `.proto` file below `destination`."""
    run_compiler(f"--python_out={destination}", f"--pyi_out={destination}")
    for module in (destination / PROTOS).glob("*_pb2.py"):
        text, dropped = _RUNTIME_PIN.subn("", module.read_text())
        if dropped != 3 or "_runtime_version" in text:
            raise SystemExit(f"{module.name}: the runtime pin has another form in this grpcio-tools; mend _RUNTIME_PIN")
        module.write_text(text)


def stale_modules() -> list[str]:
    """Names of `.proto` files and modules of which one does not define what the other does."""
    with tempfile.TemporaryDirectory() as folder:
        descriptors = Path(folder) / "descriptors"
        run_compiler(f"--descriptor_set_out={descriptors}")
        compiled = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes())
    stale = {path.name.removesuffix("_pb2.py") for path in (ROOT / PROTOS).glob("*_pb2.py")}
    for file in compiled.file:
        name = Path(file.name).stem
        committed = descriptor_pb2.FileDescriptorProto()
        path = ROOT / PROTOS / f"{name}_pb2.py"
        if path.exists():
            importlib.import_module(".".join([*PROTOS.parts, f"{name}_pb2"])).DESCRIPTOR.CopyToProto(committed)
        if committed == without_json_names(file):
            stale.discard(name)
        else:
            stale.add(name)
    return sorted(stale)


def without_json_names(file: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
    """A copy without the names that the compiler derives for JSON, which generated modules leave out."""
    plain = descriptor_pb2.FileDescriptorProto()
    plain.CopyFrom(file)
    messages = list(plain.message_type)
    while messages:
        message = messages.pop()
        messages.extend(message.nested_type)
        for field in message.field:
            field.ClearField("json_name")
    return plain


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
