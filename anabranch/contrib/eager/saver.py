"""``tf.contrib.eager.Saver``, and variables that take their first value from a checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.eager.mode import EAGER
from anabranch.train.saving import saver
from anabranch.train.saving.checkpoint_reader import load_checkpoint


@public("contrib.eager.Saver")
class Saver:
    """A `tf.train.Saver` for where ops run at once; files are the same.

    Args:
        var_list: variables, or names with variables.

    Raises:
        RuntimeError: a graph is being built.
    """

    def __init__(self, var_list: Any) -> None:
        if current_builder().defers:
            raise RuntimeError(
                "tfe.Saver can only be used when eager execution is enabled. Use tf.train.Saver when building graphs.\n"
                + errors.message("tf.contrib.eager.Saver in a graph", "eager mode", "tf.train.Saver(var_list)")
            )
        self._saver = saver.Saver(var_list=var_list)

    def save(self, file_prefix: Any, global_step: Any = None) -> str | None:
        """Save the variables, and return the path of the checkpoint.

        Args:
            file_prefix: the path; the checkpoint is ``file_prefix-STEP`` if a step is given.
            global_step: the step: a number, tensor or variable.
        """
        return self._saver.save(None, file_prefix, write_meta_graph=False, global_step=global_step)

    def restore(self, file_prefix: Any) -> None:
        """Give the variables the values of a checkpoint: all of them, or none if one does not fit."""
        self._saver.restore(None, file_prefix)


@public("contrib.eager.restore_variables_on_create")
@contextlib.contextmanager
def restore_variables_on_create(save_path: Any, map_func: Callable[[str], str] | None = None) -> Iterator[None]:
    """A block in which each variable that is made begins with its value of a checkpoint.

    Args:
        save_path: the checkpoint; None restores nothing.
        map_func: from the name of a variable to that in the checkpoint.

    Raises:
        ValueError: a graph is being built, or ``map_func`` cannot be called.
        NotFoundError: from a variable: the checkpoint lacks it.
    """
    if current_builder().defers:
        raise ValueError(
            "Currently, restore_variables_on_create can only be used with eager execution enabled.\n"
            + errors.message("restore_variables_on_create in a graph", "eager mode", "saver.restore(session, path)")
        )
    if not save_path:
        yield
        return
    if map_func is not None and not callable(map_func):
        raise ValueError(
            "map_func must be callable.\n" + errors.message(f"map_func={map_func!r}", "a function", "leave it out")
        )
    reader = load_checkpoint(save_path)
    known = set(reader.get_variable_to_shape_map())
    restored: set[str] = set()

    def restore(variable: Any) -> None:
        name = variable._shared_name if map_func is None else map_func(variable._shared_name)
        if name not in known:
            raise errors.NotFoundError(None, None, f"{name} not found in checkpoint")
        if name not in restored:
            restored.add(name)
            variable.assign(reader.get_tensor(name))

    with EAGER.telling_of_values(restore):
        yield


@public("contrib.eager.get_optimizer_variables")
def get_optimizer_variables(optimizer: Any) -> list[Any]:
    """The variables that an optimizer has made."""
    variables: list[Any] = optimizer.variables()
    return variables


__all__ = ["Saver", "restore_variables_on_create"]
