"""Messages of TensorFlow's file formats, wire- and text-compatible, under a package name of our own.

Field numbers and names are TensorFlow's, so bytes and text go both ways; `tools/check_protos.py` compares every
field with an installed TensorFlow. The proto package is `anabranch_tf` and the file names are ours: both can be
loaded into one process.

One file per purpose, so that building a graph loads only `graph_pb2` and the three files below it. Take messages
from their module (`from anabranch.core.protos import graph_pb2`), or by name from this package
(`protos.ConfigProto`), which loads modules, smallest first, until one defines the name.
"""

from __future__ import annotations

import importlib
from typing import Any

# In order of search: the common and cheap ones first, each after those that it imports.
MODULES: tuple[str, ...] = (
    "types_pb2",
    "error_codes_pb2",
    "tensor_pb2",
    "full_type_pb2",
    "graph_pb2",
    "variable_pb2",
    "training_pb2",
    "example_pb2",
    "summary_pb2",
    "event_pb2",
    "tensor_bundle_pb2",
    "checkpoint_pb2",
    "cluster_pb2",
    "step_stats_pb2",
    "debug_pb2",
    "rewriter_config_pb2",
    "config_pb2",
    "server_pb2",
    "object_graph_pb2",
    "saved_model_pb2",
    "projector_pb2",
    "hparam_pb2",
    "reader_pb2",
    "profile_pb2",
    "decision_forest_pb2",
    "test_log_pb2",
)


def _public(name: str) -> bool:
    return not name.startswith("_") and name != "DESCRIPTOR"


def __getattr__(name: str) -> Any:
    """Find a message or enum by name, or load a module of this package."""
    if name in MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if _public(name):
        for module_name in MODULES:
            module = importlib.import_module(f"{__name__}.{module_name}")
            file = module.DESCRIPTOR
            if name in file.message_types_by_name or name in file.enum_types_by_name:
                value = getattr(module, name)
                globals()[name] = value
                return value
    raise AttributeError(f"{__name__} has no message or enum {name!r}; its .proto files list all that it has")


def __dir__() -> list[str]:
    """Names of the modules and of what they define."""
    names = set(MODULES)
    for module_name in MODULES:
        file = importlib.import_module(f"{__name__}.{module_name}").DESCRIPTOR
        names.update(file.message_types_by_name, file.enum_types_by_name)
    return sorted(names)
