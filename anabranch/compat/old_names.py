"""Names from before TensorFlow 1.0, each with one warning; arguments are those that the old function had.

Where a name lives on with another order of arguments (``tf.concat``, ``tf.split``), 1.x's order holds.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import names, publish_as
from anabranch.rnn.wrappers import linear as _linear

dir(tf)  # everything that publishes names is there first, whoever imports this module
_warned: set[str] = set()


def _warn(old: str, new: str) -> None:
    if old not in _warned:
        _warned.add(old)
        warnings.warn(
            errors.message(f"tf.{old}, a name from before TensorFlow 1.0", "TensorFlow 1.x's names", f"tf.{new}"),
            FutureWarning,
            stacklevel=3,
        )


def _old(name: str, instead: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: publishes a function under an old name, with a warning."""

    def publish(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            _warn(name, instead)
            return function(*args, **kwargs)

        called.__name__ = called.__qualname__ = name.rpartition(".")[2]
        if name not in names():
            publish_as(name, called)
        return called

    return publish


@_old("select", "where")
def select(condition: Any, t: Any, e: Any, name: str | None = None) -> Any:
    """Elements of ``t`` where the condition holds, of ``e`` elsewhere; ``tf.where`` today."""
    return tf.where(condition, t, e, name=name)


@_old("batch_matmul", "matmul")
def batch_matmul(x: Any, y: Any, adj_x: bool | None = None, adj_y: bool | None = None, name: str | None = None) -> Any:
    """Products of the matrices in the last two dimensions; ``tf.matmul`` today."""
    return tf.matmul(x, y, adjoint_a=bool(adj_x), adjoint_b=bool(adj_y), name=name)


@_old("listdiff", "setdiff1d")
def listdiff(x: Any, y: Any, out_idx: Any = None, name: str | None = None) -> Any:
    """Values of ``x`` that ``y`` lacks, and where they are; ``tf.setdiff1d`` today."""
    return tf.setdiff1d(x, y, index_dtype=tf.int32 if out_idx is None else out_idx, name=name)


def _one(old: str, new: str) -> None:
    """An old name whose arguments are those of the new one."""

    @_old(old, new)
    def call(*args: Any, **kwargs: Any) -> Any:
        call_of: Any = functools.reduce(getattr, new.split("."), tf)
        return call_of(*args, **kwargs)

    call.__doc__ = f"``tf.{new}`` today."


# Operations on stacks of matrices had names of their own until all took stacks.
for _old_name, _new_name in {
    "batch_cholesky": "cholesky", "batch_cholesky_solve": "cholesky_solve", "batch_fft": "fft", "batch_fft2d": "fft2d",
    "batch_fft3d": "fft3d", "batch_ifft": "ifft", "batch_ifft2d": "ifft2d", "batch_ifft3d": "ifft3d",
    "batch_matrix_band_part": "matrix_band_part", "batch_matrix_determinant": "matrix_determinant",
    "batch_matrix_diag": "matrix_diag", "batch_matrix_diag_part": "matrix_diag_part",
    "batch_matrix_inverse": "matrix_inverse", "batch_matrix_set_diag": "matrix_set_diag",
    "batch_matrix_solve": "matrix_solve", "batch_matrix_solve_ls": "matrix_solve_ls",
    "batch_matrix_transpose": "matrix_transpose", "batch_matrix_triangular_solve": "matrix_triangular_solve",
    "batch_self_adjoint_eig": "self_adjoint_eig", "batch_self_adjoint_eigvals": "self_adjoint_eigvals",
    "batch_svd": "svd", "mul": "multiply", "sub": "subtract", "neg": "negative", "pack": "stack", "unpack": "unstack",
    "inv": "reciprocal", "complex_abs": "abs",
}.items():  # fmt: skip
    _one(_old_name, _new_name)

# Recurrent networks had no kinds yet, and all cells one home.
for _old_name, _new_name in {
    "nn.deconv2d": "nn.conv2d_transpose",
    "nn.rnn": "nn.static_rnn",
    "nn.bidirectional_rnn": "nn.static_bidirectional_rnn",
    "nn.state_saving_rnn": "nn.static_state_saving_rnn",
    "nn.rnn_cell.EmbeddingWrapper": "contrib.rnn.EmbeddingWrapper",
    "nn.rnn_cell.InputProjectionWrapper": "contrib.rnn.InputProjectionWrapper",
    "nn.rnn_cell.OutputProjectionWrapper": "contrib.rnn.OutputProjectionWrapper",
}.items():
    _one(_old_name, _new_name)


@_old("nn.rnn_cell.linear", "layers.dense")
def linear(args: Any, output_size: int, bias: bool, bias_start: float = 0.0, scope: Any = None) -> Any:
    """Inputs, joined along axis 1, times a matrix, with a bias if asked; ``tf.layers.dense`` today."""
    with tf.variable_scope(scope or "Linear"):
        return _linear(args, output_size, bias, tf.constant_initializer(bias_start))


# Sequence models stood in tf.nn.seq2seq; a loss function of one's own took (logits, labels).
for _name in (
    "attention_decoder",
    "basic_rnn_seq2seq",
    "embedding_attention_decoder",
    "embedding_attention_seq2seq",
    "embedding_rnn_decoder",
    "embedding_rnn_seq2seq",
    "embedding_tied_rnn_seq2seq",
    "one2many_rnn_seq2seq",
    "rnn_decoder",
    "tied_rnn_seq2seq",
):
    _one(f"nn.seq2seq.{_name}", f"contrib.legacy_seq2seq.{_name}")


def _swapped(name: str) -> None:
    @_old(f"nn.seq2seq.{name}", f"contrib.legacy_seq2seq.{name}")
    def call(*args: Any, softmax_loss_function: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
        if softmax_loss_function is not None:
            given = softmax_loss_function
            kwargs["softmax_loss_function"] = lambda labels, logits: given(logits, labels)
        return getattr(tf.contrib.legacy_seq2seq, name)(*args, **kwargs)

    call.__doc__ = f"``tf.contrib.legacy_seq2seq.{name}`` today; ``softmax_loss_function(logits, labels)``."


for _name in ("model_with_buckets", "sequence_loss", "sequence_loss_by_example"):
    _swapped(_name)
