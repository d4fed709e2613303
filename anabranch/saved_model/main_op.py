"""Operations that a loaded model runs once: initialisation of what checkpoints do not hold."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Operation
from anabranch.ops.control.public_dependencies import group
from anabranch.ops.lookup.public_tables import tables_initializer
from anabranch.variables.listing import global_variables_initializer, local_variables_initializer


@public("saved_model.main_op.main_op")
def main_op() -> Operation:
    """An operation that initialises all variables and tables."""
    return group(global_variables_initializer(), local_variables_initializer(), tables_initializer())


@public("saved_model.main_op.main_op_with_restore", "saved_model.main_op_with_restore")
def main_op_with_restore(restore_op_name: Any) -> Operation:
    """An operation that waits for ``main_op`` and for the restore operation, whose name or tensor is given."""
    initialised = main_op()
    restore = initialised.graph.as_graph_element(restore_op_name)
    return group(restore, initialised)


__all__ = ["main_op", "main_op_with_restore"]
