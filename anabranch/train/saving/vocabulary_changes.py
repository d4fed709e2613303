"""Matrices of a checkpoint for other vocabularies: ``tf.contrib.framework.load_and_remap_matrix`` and its kin.

Vocabularies are text files with an entry a line. Rows and columns of entries that were there before keep their values;
those of new entries, and of buckets for entries that no vocabulary has, are initialised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes
from anabranch.ops.array.public_shapes import range_
from anabranch.variables import initializers


def _refuse(words: str, given: str, expected: str, instead: str) -> ValueError:
    return ValueError(f"{words}\n{errors.message(given, expected, instead)}")


@public("contrib.framework.load_and_remap_matrix")
def load_and_remap_matrix(
    ckpt_path: str,
    old_tensor_name: str,
    new_row_vocab_offset: int,
    num_rows_to_load: int,
    new_col_vocab_size: int,
    initializer: Callable[..., Any],
    old_row_vocab_size: int = -1,
    old_row_vocab_file: Any = None,
    new_row_vocab_file: Any = None,
    old_col_vocab_file: Any = None,
    new_col_vocab_file: Any = None,
    num_row_oov_buckets: int = 0,
    num_col_oov_buckets: int = 0,
    max_rows_in_memory: int = -1,
) -> Tensor:
    """The matrix of a checkpoint with rows, columns or both in the order of other vocabularies.

    Args:
        ckpt_path: the checkpoint.
        old_tensor_name: name of the matrix.
        new_row_vocab_offset: first line of the new row vocabulary that is loaded: the offset of a part of a variable.
        num_rows_to_load: number of rows.
        new_col_vocab_size: number of columns.
        initializer: function of a shape that gives the values of what is new.
        old_row_vocab_size: how many entries of the old row vocabulary count; all if -1.
        old_row_vocab_file: the old row vocabulary; rows stay in place without it.
        new_row_vocab_file: the new row vocabulary.
        old_col_vocab_file: the old column vocabulary; columns stay in place without it.
        new_col_vocab_file: the new column vocabulary.
        num_row_oov_buckets: rows to append.
        num_col_oov_buckets: columns to append.
        max_rows_in_memory: without effect: the matrix is read whole.

    Returns:
        float32 ``[num_rows_to_load + num_row_oov_buckets, new_col_vocab_size + num_col_oov_buckets]``.

    Raises:
        ValueError: a vocabulary without its counterpart, no vocabulary, or a negative number of buckets.
    """
    for name, count in (("num_row_oov_buckets", num_row_oov_buckets), ("num_col_oov_buckets", num_col_oov_buckets)):
        if count < 0:
            raise _refuse(f"{name} must be >= 0, but received {count}", f"{name}={count}", "0 or more", f"{name}=1")
    for kind, old, new in (
        ("row", old_row_vocab_file, new_row_vocab_file),
        ("col", old_col_vocab_file, new_col_vocab_file),
    ):
        if bool(old) != bool(new):
            raise _refuse(
                f"old_{kind}_vocab_file and new_{kind}_vocab_file must both be specified or left unspecified.",
                f"old_{kind}_vocab_file={old!r}, new_{kind}_vocab_file={new!r}",
                "two vocabularies or none",
                f"old_{kind}_vocab_file=path, new_{kind}_vocab_file=path",
            )
    if not new_row_vocab_file and not new_col_vocab_file:
        raise _refuse(
            "Must provide either row or column vocab files. If no remapping is necessary, consider using "
            "`tf.contrib.framework.init_from_checkpoint` instead.",
            "no vocabulary",
            "vocabularies of rows or columns",
            "tf.train.init_from_checkpoint(path, {name: variable})",
        )
    rows_present: Any = num_rows_to_load
    if new_row_vocab_file:
        rows, rows_present = build(
            "GenerateVocabRemapping",
            new_row_vocab_file,
            old_row_vocab_file,
            new_vocab_offset=new_row_vocab_offset,
            num_new_vocab=num_rows_to_load,
            old_vocab_size=old_row_vocab_size,
        )
    else:
        rows = range_(new_row_vocab_offset, new_row_vocab_offset + num_rows_to_load, dtype=dtypes.int64)
    columns: Any = convert_to_tensor([], dtypes.int64)
    columns_present: Any = new_col_vocab_size
    if new_col_vocab_file:
        columns, columns_present = build(
            "GenerateVocabRemapping",
            new_col_vocab_file,
            old_col_vocab_file,
            new_vocab_offset=0,
            num_new_vocab=new_col_vocab_size,
        )
    missing = num_rows_to_load * new_col_vocab_size - rows_present * columns_present
    matrix: Tensor = build(
        "LoadAndRemapMatrix",
        ckpt_path,
        old_tensor_name,
        rows,
        columns,
        initializer([missing, 1]),
        num_rows=num_rows_to_load,
        num_cols=new_col_vocab_size,
        max_rows_in_memory=max_rows_in_memory,
    )
    if num_row_oov_buckets:
        beyond = convert_to_tensor(initializer([num_row_oov_buckets, new_col_vocab_size]))
        matrix = build("ConcatV2", [matrix, beyond], 0)
    if num_col_oov_buckets:
        beyond = convert_to_tensor(initializer([num_rows_to_load + num_row_oov_buckets, num_col_oov_buckets]))
        matrix = build("ConcatV2", [matrix, beyond], 1)
    return matrix


@public("contrib.framework.load_and_remap_matrix_initializer")
def load_and_remap_matrix_initializer(
    ckpt_path: str,
    old_tensor_name: str,
    new_row_vocab_size: int,
    new_col_vocab_size: int,
    old_row_vocab_size: int = -1,
    old_row_vocab_file: Any = None,
    new_row_vocab_file: Any = None,
    old_col_vocab_file: Any = None,
    new_col_vocab_file: Any = None,
    num_row_oov_buckets: int = 0,
    num_col_oov_buckets: int = 0,
    initializer: Callable[..., Any] | None = None,
    max_rows_in_memory: int = -1,
) -> Callable[..., Tensor]:
    """Initializer of a variable, or of its parts by rows, with a matrix of a checkpoint in another vocabulary's order.

    Arguments are those of :func:`load_and_remap_matrix`; ``initializer`` gives zeros if None.

    Raises:
        TypeError: ``initializer`` is not a function.
    """
    if initializer is None:
        initializer = initializers.Zeros()
    if not callable(initializer):
        raise TypeError(
            f"initializer must be callable, instead of being {initializer} of type {type(initializer)}.\n"
            + errors.message(f"initializer={initializer!r}", "a function of a shape", "tf.zeros_initializer()")
        )
    fill: Callable[..., Any] = initializer

    def initial_value(shape: Any, dtype: Any = dtypes.float32, partition_info: Any = None) -> Any:
        if dtypes.as_dtype(dtype).base != dtypes.float32:
            raise TypeError(
                f"Currently, only float32 is supported. Received dtype: {dtype}\n"
                + errors.message(f"dtype {dtype}", "tf.float32", "tf.cast(variable, dtype)")
            )
        sizes = [int(size) for size in shape]
        width = new_col_vocab_size + num_col_oov_buckets
        height = new_row_vocab_size + num_row_oov_buckets
        if len(sizes) != 2 or sizes[0] <= 0 or sizes[1] != width:
            raise _refuse(
                f"Expected 2-dim shape with 1st dim > 0 and 2nd dim new_col_vocab_size ({new_col_vocab_size}) + "
                f"num_col_oov_buckets ({num_col_oov_buckets}) = {width}, but received shape: {sizes}",
                f"a variable of shape {sizes}",
                f"[rows, {width}]",
                f"tf.get_variable(name, [{height}, {width}])",
            )
        offset = 0 if partition_info is None else partition_info.single_offset(sizes)
        if offset + sizes[0] > height:
            raise _refuse(
                f"Trying to initialize {sizes[0]} additional rows after {offset} rows have already been initialized, "
                f"which would exceed expected total row count of {height}.",
                f"{offset + sizes[0]} rows",
                f"{height}: the vocabulary and its buckets",
                f"new_row_vocab_size={offset + sizes[0]}",
            )
        buckets = min(sizes[0], max(0, offset + sizes[0] - new_row_vocab_size))
        if offset > new_row_vocab_size:
            return fill(sizes)
        return load_and_remap_matrix(
            ckpt_path,
            old_tensor_name,
            offset,
            sizes[0] - buckets,
            new_col_vocab_size,
            fill,
            old_row_vocab_size,
            old_row_vocab_file,
            new_row_vocab_file,
            old_col_vocab_file,
            new_col_vocab_file,
            buckets,
            num_col_oov_buckets,
            max_rows_in_memory,
        )

    return initial_value


@public("contrib.framework.load_embedding_initializer")
def load_embedding_initializer(
    ckpt_path: str,
    embedding_tensor_name: str,
    new_vocab_size: int,
    embedding_dim: int,
    old_vocab_file: Any,
    new_vocab_file: Any,
    old_vocab_size: int = -1,
    num_oov_buckets: int = 0,
    initializer: Callable[..., Any] | None = None,
    max_rows_in_memory: int = -1,
) -> Callable[..., Tensor]:
    """Initializer of an embedding with that of a checkpoint, in another vocabulary's order.

    Args:
        ckpt_path: the checkpoint.
        embedding_tensor_name: name of the embedding.
        new_vocab_size: number of entries of the new vocabulary.
        embedding_dim: width of the embedding.
        old_vocab_file: the old vocabulary.
        new_vocab_file: the new vocabulary.
        old_vocab_size: how many entries of the old vocabulary count; all if -1.
        num_oov_buckets: rows to append.
        initializer: of new rows: truncated normal numbers of deviation ``embedding_dim ** -0.5`` if None.
        max_rows_in_memory: without effect.
    """
    if initializer is None:
        initializer = initializers.TruncatedNormal(stddev=embedding_dim**-0.5)
    return load_and_remap_matrix_initializer(
        ckpt_path,
        embedding_tensor_name,
        new_vocab_size,
        embedding_dim,
        old_vocab_size,
        old_vocab_file,
        new_vocab_file,
        num_row_oov_buckets=num_oov_buckets,
        initializer=initializer,
        max_rows_in_memory=max_rows_in_memory,
    )


@public("contrib.framework.load_linear_multiclass_bias_initializer")
def load_linear_multiclass_bias_initializer(
    ckpt_path: str,
    bias_tensor_name: str,
    new_class_vocab_size: int,
    old_class_vocab_file: Any,
    new_class_vocab_file: Any,
    num_class_oov_buckets: int = 0,
    initializer: Callable[..., Any] | None = None,
    max_rows_in_memory: int = -1,
) -> Callable[..., Tensor]:
    """Initializer of the biases of classes with those of a checkpoint, in another class vocabulary's order.

    Arguments are those of :func:`load_embedding_initializer`, for a column of one bias a class; new ones are 0 if
    ``initializer`` is None.
    """
    return load_and_remap_matrix_initializer(
        ckpt_path,
        bias_tensor_name,
        new_class_vocab_size,
        1,
        old_row_vocab_file=old_class_vocab_file,
        new_row_vocab_file=new_class_vocab_file,
        num_row_oov_buckets=num_class_oov_buckets,
        initializer=initializer,
        max_rows_in_memory=max_rows_in_memory,
    )
