"""Names of TensorFlow 2 that Keras asks for besides ops: its view of tensors, of strategies and of the machine.

A strategy. There is one replica, on the devices that ops are placed on, so ``get_strategy`` and ``get_replica_context``
answer for it and ``has_strategy`` is false. What would make more replicas raises UnimplementedError.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NoReturn

import anabranch as tf
from anabranch.compat import eager_names
from anabranch.compat.internal import distribution, tracking
from anabranch.compat.internal.ops import inside_function
from anabranch.compat.v2 import raw_ops
from anabranch.compat.v2.namespaces import version_2 as _v2
from anabranch.core import errors
from anabranch.core.graph.builder import current_stack
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.tensor import TensorLike
from anabranch.core.values.composite_tensor import CompositeTensor
from anabranch.eager.concrete_function import ConcreteFunction
from anabranch.eager.function import Function
from anabranch.eager.function_graph import FunctionGraph
from anabranch.eager.tensor import EagerTensor
from anabranch.ragged import strings as ragged_strings
from anabranch.saved_model.object_writer import functions_of
from anabranch.variables.tracking import children as tracking_children

_v2("raw_ops")(raw_ops)

# -------------------------------------------------------------------------------------------------------- __internal__
_v2("__internal__.EagerTensor")(EagerTensor)
_v2("__internal__.types.Tensor")(TensorLike)
_v2("__internal__.tracking.Trackable")(tracking.Trackable)
_v2("__internal__.tracking.AutoTrackable")(tracking.AutoTrackable)
_v2("__internal__.tracking.no_automatic_dependency_tracking")(tracking.no_automatic_dependency_tracking)
_v2("__internal__.eager_context.eager_mode")(eager_names.eager_mode)


_v2("__internal__.CompositeTensor")(CompositeTensor)


@_v2("__internal__.FuncGraph")
class FuncGraph(FunctionGraph):
    """A graph in which a function is applied to see what it gives; tensors of graphs around it become arguments."""

    def among(self, values: Any) -> Any:
        """The graph itself, whatever graphs around it the operands are of."""
        del values
        return self

    def adopt(self, tensor: Any) -> Any:
        """A tensor from outside as one of the graph."""
        if isinstance(tensor, EagerTensor):
            return super().adopt(tensor)
        if tensor.graph is self or tensor.graph not in current_stack():  # that of a stranger is refused later
            return tensor
        known: dict[Any, Any] = self.library_state("tensors_of_graphs_around", dict)
        if tensor not in known:
            with self.as_default(), Graph.init_scope(self), self.bare_scopes(), self.name_scope(None):
                known[tensor] = self.placeholder(tensor.dtype, tensor._shape, "captured")
            known[tensor]._handle = tensor._handle
        return known[tensor]

    def _create(self, definition: Any, inputs: Any, attrs: Any, name: Any = None, **rest: Any) -> Any:
        return super()._create(definition, [self.adopt(tensor) for tensor in inputs], attrs, name, **rest)


_v2("inside_function")(inside_function)
_v2("strings.split")(ragged_strings.split)


@_v2("__internal__.tf2.enabled")
def enabled() -> bool:
    """True: who asks has version 2's names."""
    return True


def _refuse(what: str, instead: str) -> NoReturn:
    raise errors.UnimplementedError(None, None, errors.message(what, "a part of TensorFlow 2 that is here", instead))


# -------------------------------------------------------------------------------------------------------- distribution
for _name in ("has_strategy", "get_strategy", "get_replica_context", "in_cross_replica_context"):
    _v2(f"distribute.{_name}")(getattr(distribution, _name))


@_v2("distribute.ReduceOp")
class ReduceOp(enum.Enum):
    """How values of replicas are reduced."""

    SUM = "SUM"
    MEAN = "MEAN"


def _strategy_class(name: str) -> type:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        _refuse(f"tf.distribute.{name}", "train in one process: one replica uses all cores of the machine")

    kind = type(name, (distribution._Strategy,), {"__init__": refuse, "__doc__": "Several replicas; not here."})
    return _v2(f"distribute.{name}")(kind)


for _name in ("MirroredStrategy", "MultiWorkerMirroredStrategy", "TPUStrategy", "OneDeviceStrategy"):
    _strategy_class(_name)
_v2("distribute.Strategy")(distribution._Strategy)


class _OfReplicas:
    """What only several replicas give; nothing is an instance."""


for _name in ("DistributedValues", "DistributedIterator", "DistributedDataset"):
    _v2(f"distribute.{_name}")(type(_name, (_OfReplicas,), {"__doc__": _OfReplicas.__doc__}))
_v2("types.experimental.distributed.PerReplica")(type("PerReplica", (_OfReplicas,), {"__doc__": _OfReplicas.__doc__}))


@_v2("__internal__.distribute.interim.maybe_merge_call")
def maybe_merge_call(fn: Callable[..., Any], strategy: Any, *args: Any, **kwargs: Any) -> Any:
    """``fn(strategy, ...)``, of the one replica."""
    return fn(strategy, *args, **kwargs)


@_v2("__internal__.distribute.strategy_supports_no_merge_call")
def strategy_supports_no_merge_call() -> bool:
    """True: there is one replica."""
    return True


# ------------------------------------------------------------------------------------------------------------- machine
@_v2("config.list_logical_devices")
def list_logical_devices(device_type: str | None = None) -> list[Any]:
    """The devices that ops run on, of one type if it is given."""
    listed = tf.config.list_physical_devices(device_type)
    return [device._replace(name=device.name.replace("/physical_device:", "/device:")) for device in listed]


@_v2("sysconfig.get_build_info")
def get_build_info() -> dict[str, Any]:
    """What the build has: no kernels of cuDNN's or of ROCm's own, as XLA compiles all."""
    return {"is_cuda_build": False, "is_rocm_build": False, "is_tensorrt_build": False}


@_v2("function")
def function(
    func: Any = None,
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: Any = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: Any = None,
) -> Any:
    """Make a function of tensors a graph that is called as one step; what of it is compiled follows what it costs."""
    del jit_compile, experimental_implements, experimental_attributes, experimental_follow_type_hints
    relax = bool(reduce_retracing or experimental_relax_shapes)
    return tf.function(func, input_signature, autograph, experimental_autograph_options, relax, experimental_compile)


@_v2("dtensor.Mesh", "experimental.dtensor.Mesh")
class Mesh:
    """Devices in a grid; not here."""


@_v2("dtensor.Layout", "experimental.dtensor.Layout")
class Layout:
    """How a tensor lies on a grid of devices; not here."""


# ------------------------------------------------------------------------------------------------------- saved models
_v2("types.experimental.GenericFunction")(Function)
_v2("types.experimental.ConcreteFunction")(ConcreteFunction)


@_v2("saved_model.experimental.TrackableResource")
class TrackableResource:
    """What a program keeps a resource in, for a model to be saved with it; tables need none here."""


@_v2("train.TrackableView")
class TrackableView:
    """The objects that one leads to.

    Args:
        root: the object.
    """

    def __init__(self, root: Any) -> None:
        self._root = root

    @classmethod
    def children(cls, obj: Any, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        """The children of an object, by name: those that a checkpoint saves; in a SavedModel functions, too.

        Args:
            obj: the object.
            save_type: ``"checkpoint"`` or ``"savedmodel"``.
            **kwargs: ``cache``, which has no effect.
        """
        unknown = sorted(set(kwargs) - {"cache"})
        if save_type not in ("checkpoint", "savedmodel") or unknown:
            raise NotImplementedError(
                errors.message(
                    f"save_type={save_type!r} and the options {unknown}",
                    "'checkpoint' or 'savedmodel', and cache",
                    "tf.train.TrackableView.children(obj)",
                )
            )
        return {**tracking_children(obj), **(functions_of(obj) if save_type == "savedmodel" else {})}

    def descendants(self) -> list[Any]:
        """The object and all that it leads to, breadth first."""
        found, seen = [self._root], {id(self._root)}
        for item in found:
            for child in self.children(item).values():
                if id(child) not in seen:
                    seen.add(id(child))
                    found.append(child)
        return found


# ---------------------------------------------------------------------------------------------------------------- data
_v2("experimental.Optional")(tf.data.experimental.Optional)
for _name in ("AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY"):
    _v2(f"data.{_name}")(getattr(tf.data.experimental, _name))


@_v2("initializers.serialize")
def serialize(initializer: Any) -> Any:
    """The config of an initializer."""
    return tf.keras.initializers.serialize(initializer)


@_v2("initializers.deserialize")
def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """The initializer that a config describes."""
    return tf.keras.initializers.deserialize(config, custom_objects)
