"""The contexts that MetaGraphs of TensorFlow 1 keep of their conditionals and loops: read, looked at, written again.

Policy. Contexts say in names what :mod:`anabranch.core.graph.regions` finds in the ops themselves, so nothing here
runs by them. They are items of the collections ``cond_context`` and ``while_context``, kept so that a MetaGraph that
passes through this package has them afterwards, with names as they are in the graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.collections import GraphKeys, register_proto_function
from anabranch.core.graph.default_graph import get_default_graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.protos import training_pb2


def _inside(name: str, scope: str | None) -> str:
    return f"{scope.rstrip('/')}/{name}" if scope and name else name


def _without(name: str, scope: str | None) -> str:
    return re.sub(rf"^{re.escape(scope.rstrip('/'))}/+", "", name, count=1) if scope else name


def _renamed(definition: Any, rename: Callable[[str], str]) -> Any:
    """A copy of a context's message with all names changed."""
    renamed = type(definition)()
    renamed.CopyFrom(definition)
    for field in renamed.DESCRIPTOR.fields:
        if field.name.endswith("_name"):
            setattr(renamed, field.name, rename(getattr(renamed, field.name)))
        elif field.name.endswith("_names"):
            names = getattr(renamed, field.name)
            names[:] = [rename(name) for name in names]
    values = renamed.values_def
    values.values[:] = [rename(name) for name in values.values]
    external = {rename(outer): rename(inner) for outer, inner in values.external_values.items()}
    values.external_values.clear()
    values.external_values.update(external)
    for nested in renamed.nested_contexts:
        kind = nested.WhichOneof("ctxt")
        if kind is not None:
            inner = getattr(nested, kind)
            inner.CopyFrom(_renamed(inner, rename))
    return renamed


class _Context:
    """A context by its message, whose names are those of the default graph at the time of reading."""

    def __init__(self, context_def: Any, import_scope: str | None = None) -> None:
        self.graph = get_default_graph()
        self.definition = _renamed(context_def, lambda name: _inside(name, import_scope))
        for name in self._checked():
            self.graph.as_graph_element(name)

    def _checked(self) -> list[str]:
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Name of the context."""
        return str(self.definition.context_name)

    @property
    def values(self) -> set[str]:
        """Names of the tensors inside."""
        return set(self.definition.values_def.values)

    @property
    def nested(self) -> list[_Context]:
        """The contexts directly inside."""
        with self.graph.as_default():
            return [
                WhileContext(item.while_ctxt) if item.HasField("while_ctxt") else CondContext(item.cond_ctxt)
                for item in self.definition.nested_contexts
            ]

    def _element(self, name: str) -> Tensor:
        tensor: Tensor = self.graph.as_graph_element(name, allow_operation=False)
        return tensor

    @property
    def pivot(self) -> Tensor:
        """What is alive if and only if the branch, or the loop's body, runs."""
        return self._element(self.definition.pivot_name)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The message, without the prefix ``export_scope``; None if the context is not in that scope."""
        if export_scope and not self.name.startswith(export_scope):
            return None
        return _renamed(self.definition, lambda name: _without(name, export_scope))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


@public("control_flow_ops.CondContext")
class CondContext(_Context):
    """One branch of a conditional made of ``Switch`` and ``Merge``.

    Args:
        context_def: a ``CondContextDef``.
        import_scope: prefix of its names in the default graph.
    """

    def _checked(self) -> list[str]:
        return [self.definition.pred_name, self.definition.pivot_name]

    @property
    def pred(self) -> Tensor:
        """The predicate."""
        return self._element(self.definition.pred_name)

    @property
    def branch(self) -> int:
        """The predicate's value in the branch."""
        return int(self.definition.branch)

    @staticmethod
    def from_proto(context_def: Any, import_scope: str | None = None) -> CondContext:
        """The context that a ``CondContextDef`` describes; KeyError if the graph has no such tensors."""
        return CondContext(context_def, import_scope)


@public("control_flow_ops.WhileContext")
class WhileContext(_Context):
    """A loop made of a frame.

    Args:
        context_def: a ``WhileContextDef``.
        import_scope: prefix of its names in the default graph.
    """

    def _checked(self) -> list[str]:
        definition = self.definition
        return [definition.pivot_name, *definition.loop_exit_names, *definition.loop_enter_names]

    @property
    def parallel_iterations(self) -> int:
        """How many iterations the writer allowed at a time."""
        return int(self.definition.parallel_iterations)

    @property
    def back_prop(self) -> bool:
        """Whether the writer allowed gradients."""
        return bool(self.definition.back_prop)

    @property
    def loop_exits(self) -> list[Tensor]:
        """What the loop gives."""
        return [self._element(name) for name in self.definition.loop_exit_names]

    @property
    def loop_enters(self) -> list[Tensor]:
        """What goes into its first iteration."""
        return [self._element(name) for name in self.definition.loop_enter_names]

    @property
    def condition(self) -> Operation:
        """Its ``LoopCond``."""
        return self.pivot.op

    @staticmethod
    def from_proto(context_def: Any, import_scope: str | None = None) -> WhileContext:
        """The context that a ``WhileContextDef`` describes; KeyError if the graph has no such tensors."""
        return WhileContext(context_def, import_scope)


register_proto_function(
    GraphKeys.COND_CONTEXT, training_pb2.CondContextDef, CondContext.to_proto, CondContext.from_proto
)
register_proto_function(
    GraphKeys.WHILE_CONTEXT, training_pb2.WhileContextDef, WhileContext.to_proto, WhileContext.from_proto
)
