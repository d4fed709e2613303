"""Publishes what core defines: graphs, tensors, dtypes, shapes, errors, scopes, seeds and the compatible version."""

from __future__ import annotations

from anabranch.core import device, errors
from anabranch.core.contract import opdef
from anabranch.core.contract.api import publish_as
from anabranch.core.graph import build, collections, graph, operation
from anabranch.core.graph import public_scopes as _scope_functions  # noqa: F401
from anabranch.core.graph import random_seed as _random_seed  # noqa: F401
from anabranch.core.graph import static_value as _static_value  # noqa: F401
from anabranch.core.values import dimensions, dtypes, shapes
from anabranch.core.values import nest as _nest  # noqa: F401 - imported for what it publishes
from anabranch.core.values import tensor_spec as _tensor_spec  # noqa: F401

_COMPATIBLE_VERSION = "1.15.0"
_DTYPES = tuple(
    name
    for row in (
        "float16 half bfloat16 float32 float64 double int8 int16 int32 int64 uint8 uint16 uint32 uint64",
        "bool complex64 complex128 string resource variant qint8 quint8 qint16 quint16 qint32",
    )
    for name in row.split()
)
_QUANTIZED = frozenset(
    made for name in _DTYPES if name.startswith("q") for made in (getattr(dtypes, name), getattr(dtypes, name)._as_ref)
)
_GRAPH_DEF_VERSIONS = {
    "GRAPH_DEF_VERSION": graph.GRAPH_DEF_VERSION,
    "GRAPH_DEF_VERSION_MIN_CONSUMER": 0,
    "GRAPH_DEF_VERSION_MIN_PRODUCER": 0,
}


def publish_constants() -> None:
    """Put core's names into the table, which core's own modules cannot import; called when the package starts."""
    for name in _DTYPES:
        publish_as(name, getattr(dtypes, name))
        publish_as(f"dtypes.{name}", getattr(dtypes, name))
        publish_as(f"{name}_ref", getattr(dtypes, name)._as_ref)
    for name, value in {
        "Graph": graph.Graph,
        "get_default_graph": graph.get_default_graph,
        "reset_default_graph": graph.reset_default_graph,
        "Tensor": operation.GraphTensor,
        "Operation": operation.Operation,
        "GraphKeys": collections.GraphKeys,
        "DType": dtypes.DType,
        "dtypes.DType": dtypes.DType,
        "as_dtype": dtypes.as_dtype,
        "dtypes.as_dtype": dtypes.as_dtype,
        "TensorShape": shapes.TensorShape,
        "Dimension": dimensions.Dimension,
        "DeviceSpec": device.DeviceSpec,
        "OpError": errors.OpError,
        "Op": opdef.Op,
        "build_op": build.build,
        "VERSION": _COMPATIBLE_VERSION,
        "version.VERSION": _COMPATIBLE_VERSION,
        "GIT_VERSION": f"v{_COMPATIBLE_VERSION}-anabranch",
        "version.GIT_VERSION": f"v{_COMPATIBLE_VERSION}-anabranch",
        "COMPILER_VERSION": "XLA",
        "version.COMPILER_VERSION": "XLA",
        "QUANTIZED_DTYPES": _QUANTIZED,
        "dtypes.QUANTIZED_DTYPES": _QUANTIZED,
        **{f"{place}{name}": value for place in ("", "version.") for name, value in _GRAPH_DEF_VERSIONS.items()},
    }.items():
        publish_as(name, value)
    for name in errors.__all__:
        if name not in ("message", "make_exception", "OpRecord"):
            publish_as(f"errors.{name}", getattr(errors, name))
