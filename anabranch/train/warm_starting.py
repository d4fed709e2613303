"""``tf.train.warm_start``: a model begins with the variables of another one's checkpoint, vocabularies carried over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.graph import get_default_graph
from anabranch.platform import logging
from anabranch.train.saving import checkpoint_init, checkpoint_reader, vocabulary_changes
from anabranch.variables.partitioned import PartitionedVariable, PartitionInfo
from anabranch.variables.variable import Variable


@public("train.VocabInfo")
class VocabInfo(NamedTuple):
    """The vocabulary of a variable before and now, for :func:`warm_start`."""

    new_vocab: Any
    """File of the new vocabulary, an entry a line."""
    new_vocab_size: int
    """Number of its entries."""
    num_oov_buckets: int
    """Rows for entries that it does not have."""
    old_vocab: Any
    """File of the old vocabulary."""
    old_vocab_size: int = -1
    """How many of its entries count; all if -1."""
    backup_initializer: Callable[..., Any] | None = None
    """Initializer of new rows; zeros if None."""
    axis: int = 0
    """Which axis the vocabulary stands on; it must be 0 (rows)."""


def _parts(var: Any) -> list[Variable]:
    """A variable, the parts of one, or a partitioned one, as the list of its parts."""
    if isinstance(var, Variable):
        return [var]
    if isinstance(var, PartitionedVariable):
        return list(var)
    if isinstance(var, list) and all(isinstance(part, Variable) for part in var):
        return var
    raise TypeError(
        f"var MUST be one of the following: a Variable, list of Variable or PartitionedVariable, but is {type(var)}\n"
        + errors.message(f"a {type(var).__name__}", "a variable, or the parts of one", "tf.get_variable(...)")
    )


def _infer_var_name(var: Sequence[Variable]) -> str:
    """The name of a variable, or of the whole that parts belong to."""
    names: set[str] = set()
    for part in [item for one in var for item in _parts(one)]:
        info: Any = part._get_save_slice_info()
        names.add(part.op.name if info is None else info.full_name)
    if len(names) != 1:
        raise TypeError(
            f"`var` = {list(var)} passed as arg violates the constraints.\n"
            + errors.message(f"variables {sorted(names)}", "one variable, or the parts of one", "one call for each")
        )
    return str(names.pop())


def _warm_start_var(var: Any, prev_ckpt: Any, prev_tensor_name: str | None = None) -> None:
    """Make the initial value of a variable that of a tensor in a checkpoint, of its own name if none is given."""
    parts = _parts(var)
    name = prev_tensor_name or _infer_var_name(parts)
    checkpoint_init.init_from_checkpoint(prev_ckpt, {name: var if isinstance(var, Variable) else parts})


def _warm_start_var_with_vocab(
    var: Any,
    current_vocab_path: Any,
    current_vocab_size: int,
    prev_ckpt: Any,
    prev_vocab_path: Any,
    previous_vocab_size: int = -1,
    current_oov_buckets: int = 0,
    prev_tensor_name: str | None = None,
    initializer: Callable[..., Any] | None = None,
) -> None:
    """Make the initial value of a variable that of a tensor in a checkpoint, its rows in a new vocabulary's order."""
    if not (current_vocab_path and current_vocab_size and prev_ckpt and prev_vocab_path):
        raise ValueError(
            "Invalid args: Must provide all of [current_vocab_path, current_vocab_size, prev_ckpt, prev_vocab_path}.\n"
            + errors.message("an empty argument", "two vocabularies and a checkpoint", "tf.train.VocabInfo(...)")
        )
    parts = _parts(var)
    name = prev_tensor_name or _infer_var_name(parts)
    for part in parts:
        info: Any = part._get_save_slice_info()
        initial = vocabulary_changes.load_and_remap_matrix_initializer(
            checkpoint_reader.checkpoint_path(prev_ckpt),
            name,
            current_vocab_size,
            int(part.shape.as_list()[1] or 0),
            previous_vocab_size,
            prev_vocab_path,
            current_vocab_path,
            num_row_oov_buckets=current_oov_buckets,
            initializer=initializer,
        )
        place = None if info is None else PartitionInfo(info.full_shape, info.var_offset)
        value = convert_to_tensor(initial(part.shape.as_list(), partition_info=place))
        assigned = part.assign(value)
        part._initializer_op, part._initial_value = getattr(assigned, "op", assigned), value


@public("train.warm_start")
def warm_start(
    ckpt_to_initialize_from: Any,
    vars_to_warm_start: str | None = ".*",
    var_name_to_vocab_info: dict[str, VocabInfo] | None = None,
    var_name_to_prev_var_name: dict[str, str] | None = None,
) -> None:
    """Make the initial values of trainable variables those of a checkpoint.

    Args:
        ckpt_to_initialize_from: the checkpoint, or a folder whose newest is taken.
        vars_to_warm_start: regular expression of variables' names; if None, only those of ``var_name_to_vocab_info``.
        var_name_to_vocab_info: variables whose rows belong to a vocabulary that has changed.
        var_name_to_prev_var_name: names in the checkpoint, where they differ.

    Raises:
        ValueError: a name in one of the dictionaries is not that of a variable.
        UnimplementedError: a vocabulary that does not stand on rows.
    """
    vocabularies, names = var_name_to_vocab_info or {}, var_name_to_prev_var_name or {}
    variables: dict[str, list[Variable]] = {}
    for variable in get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope=vars_to_warm_start):
        variables.setdefault(_infer_var_name([variable]), []).append(variable)
    for name, parts in variables.items():
        previous, vocabulary = names.get(name), vocabularies.get(name)
        logging.info("Warm-starting variable: %s; prev_var_name: %s", name, previous or "Unchanged")
        if vocabulary is not None:
            if vocabulary.axis:
                raise errors.UnimplementedError(
                    None,
                    None,
                    errors.message(
                        f"VocabInfo(axis={vocabulary.axis}) for {name!r}",
                        "a vocabulary of rows, axis=0",
                        "tf.contrib.framework.load_and_remap_matrix_initializer(..., new_col_vocab_file=...)",
                    ),
                )
            _warm_start_var_with_vocab(
                parts,
                vocabulary.new_vocab,
                vocabulary.new_vocab_size,
                ckpt_to_initialize_from,
                vocabulary.old_vocab,
                vocabulary.old_vocab_size,
                vocabulary.num_oov_buckets,
                previous,
                vocabulary.backup_initializer,
            )
        elif vars_to_warm_start:
            whole = len(parts) == 1 and parts[0]._get_save_slice_info() is None
            _warm_start_var(parts[0] if whole else parts, ckpt_to_initialize_from, previous)
    for argument, given in (("var_name_to_prev_var_name", names), ("var_name_to_vocab_info", vocabularies)):
        unused = set(given) - set(variables)
        if unused:
            raise ValueError(
                f"You provided the following variables in {argument} that were not used: {unused}. "
                f"Perhaps you misspelled them? Here is the list of viable variable names: {list(variables)}\n"
                + errors.message(f"{argument} with {sorted(unused)}", "names of variables", "variable.op.name")
            )
