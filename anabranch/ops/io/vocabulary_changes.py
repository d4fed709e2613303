"""Ops that carry the rows and columns of a saved matrix over to another vocabulary.

A vocabulary is a text file with an entry a line; entry `i` belongs to row (or column) `i` of the matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.opdef import IO, Int, NotDifferentiable, Op
from anabranch.core.file_errors import translated
from anabranch.core.values import dtypes, shapes
from anabranch.ops.io.checkpoints import _text

_NO_GRADIENT = NotDifferentiable("it reads files")


def _lines(path: str) -> list[str]:
    with translated(path), open(path, encoding="utf-8", newline="\n") as file:
        return file.read().removesuffix("\n").split("\n")


class GenerateVocabRemapping(Op):
    """For each entry of the new vocabulary where it is in the old one, -1 if it is not there, ``[num_new_vocab]``.

    Entries begin at line ``new_vocab_offset`` of the new file; of the old one the first ``old_vocab_size`` count (all
    if -1). The second output is the number of entries that are in both.
    """

    signature = "new_vocab_file: string, old_vocab_file: string -> remapping: int64, num_present: int32"
    attrs = {"new_vocab_offset": Int(minimum=0), "num_new_vocab": Int(minimum=0), "old_vocab_size": Int(-1, minimum=-1)}
    effect = IO
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("new_vocab_file", 0)
        c.with_rank("old_vocab_file", 0)
        return [(c.attrs["num_new_vocab"],), ()]

    def host_kernel(ctx, inputs, attrs):
        new, old = (_lines(_text(path)) for path in inputs)
        size, first, count = attrs["old_vocab_size"], attrs["new_vocab_offset"], attrs["num_new_vocab"]
        ctx.check(
            size <= len(old), errors.InvalidArgumentError, "old vocabulary has {0} entries, not {1}", len(old), size
        )
        wanted = new[first : first + count]
        ctx.check(
            len(wanted) == count,
            errors.InvalidArgumentError,
            "new vocabulary has {0} entries, too few for {1} from entry {2} on",
            len(new),
            count,
            first,
        )
        places = {entry: place for place, entry in enumerate(old if size < 0 else old[:size])}
        remapping = np.array([places.get(entry, -1) for entry in wanted], np.int64)
        return remapping, np.array(np.count_nonzero(remapping >= 0), np.int32)


class LoadAndRemapMatrix(Op):
    """The matrix ``old_tensor_name`` of a checkpoint with other rows and columns, ``[num_rows, num_cols]``.

    Row ``i`` is row ``row_remapping[i]`` of the saved matrix, and so for columns, all of which stay where
    ``col_remapping`` is empty. Entries of rows or columns -1 are ``initializing_values`` in their order.
    """

    signature = (
        "ckpt_path: string, old_tensor_name: string, row_remapping: int64, col_remapping: int64, "
        "initializing_values: float -> output_matrix: float"
    )
    attrs = {"num_rows": Int(minimum=0), "num_cols": Int(minimum=1), "max_rows_in_memory": Int(-1)}
    effect = IO
    gradient = _NO_GRADIENT

    def shape(c):
        shapes.with_rank_at_most(c.shape("ckpt_path"), 1)
        c.with_rank("old_tensor_name", 0)
        return (c.attrs["num_rows"], c.attrs["num_cols"])

    def host_kernel(ctx, inputs, attrs):
        path, name, rows, columns, values = inputs
        ctx.check(path.size == 1, errors.InvalidArgumentError, "The `ckpt_path` tensor must have exactly one element")
        path = path.reshape(())
        saved = hooks.read_checkpoint(_text(path), [(_text(name), "", dtypes.float32)])[0]
        ctx.check(
            saved.ndim == 2,
            errors.InvalidArgumentError,
            "Tensor {0} is of rank {1} instead of 2",
            _text(name),
            saved.ndim,
        )
        rows = _places(ctx, "row_remapping", "num_rows", rows, attrs["num_rows"], saved.shape[0])
        if columns.size:
            columns = _places(ctx, "col_remapping", "num_cols", columns, attrs["num_cols"], saved.shape[1])
        else:
            ctx.check(
                attrs["num_cols"] == saved.shape[1],
                errors.InvalidArgumentError,
                "Tensor {0} has {1} columns instead of num_cols={2}",
                _text(name),
                saved.shape[1],
                attrs["num_cols"],
            )
            columns = np.arange(saved.shape[1])
        present = (rows >= 0)[:, None] & (columns >= 0)[None, :]
        missing = present.size - np.count_nonzero(present)
        ctx.check(
            values.size == missing,
            errors.InvalidArgumentError,
            "{0} initializing values for {1} entries that the saved matrix does not have",
            values.size,
            missing,
        )
        matrix = np.empty(present.shape, np.float32)
        matrix[present] = saved[np.ix_(rows[rows >= 0], columns[columns >= 0])].ravel()
        matrix[~present] = values.ravel()
        return matrix


def _places(ctx: Any, what: str, attribute: str, given: Any, count: int, size: int) -> Any:
    """A remapping, checked: as long as it must be, places of the saved matrix, none twice."""
    ctx.check(
        given.size == count,
        errors.InvalidArgumentError,
        "Size of " + what + " is {0} instead of being equal to " + attribute + "={1}",
        given.size,
        count,
    )
    known = given[given >= 0]
    ctx.check(
        known.size == 0 or int(known.max()) < size,
        errors.InvalidArgumentError,
        what + " names {0}, but the saved matrix has {1}",
        int(known.max()) if known.size else -1,
        size,
    )
    ctx.check(
        np.unique(known).size == known.size,
        errors.UnimplementedError,
        what + " names a place twice",
    )
    return given
