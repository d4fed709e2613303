"""Publishes the messages that programs name: graphs, session options, examples, events, tensors."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.api import publish_as
from anabranch.core.protos import (
    checkpoint_pb2,
    cluster_pb2,
    config_pb2,
    event_pb2,
    example_pb2,
    graph_pb2,
    saved_model_pb2,
    server_pb2,
    summary_pb2,
    training_pb2,
)
from anabranch.core.values.tensor_proto import make_ndarray, make_tensor_proto

publish_as("make_ndarray", make_ndarray)
publish_as("make_tensor_proto", make_tensor_proto)

_TOP: dict[Any, str] = {
    graph_pb2: "GraphDef NodeDef AttrValue NameAttrList",
    config_pb2: "ConfigProto GPUOptions GraphOptions OptimizerOptions RunOptions RunMetadata",
    saved_model_pb2: "MetaGraphDef TensorInfo",
    event_pb2: "Event LogMessage SessionLog",
    summary_pb2: "Summary SummaryMetadata HistogramProto",
}
_TRAIN: dict[Any, str] = {
    example_pb2: "BytesList FloatList Int64List Feature Features FeatureList FeatureLists Example SequenceExample",
    cluster_pb2: "ClusterDef JobDef",
    server_pb2: "ServerDef",
    training_pb2: "SaverDef",
    checkpoint_pb2: "CheckpointState",
}
for _prefix, _table in (("", _TOP), ("train.", _TRAIN)):
    for _module, _names in _table.items():
        for _name in _names.split():
            publish_as(_prefix + _name, getattr(_module, _name))
