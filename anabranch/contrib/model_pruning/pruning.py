"""How many weights are masked at which step, and the ops that move the masks."""

from __future__ import annotations

import re
from typing import Any

import anabranch as tf
from anabranch.contrib.model_pruning import masks
from anabranch.core import errors
from anabranch.core.contract.api import public


@public("contrib.model_pruning.get_pruning_hparams")
def get_pruning_hparams() -> Any:
    """``tf.contrib.training.HParams`` with the defaults of :class:`Pruning`.

    ======================================  ====================================================================
    ``name``                                scope of the ops and of the variable that says when masks moved last
    ``begin_pruning_step``                  first global step at which masks move
    ``end_pruning_step``                    last one; -1 for no last one
    ``weight_sparsity_map``                 texts ``"regex:sparsity"``: another target for some weights
    ``block_dims_map``                      texts ``"regex:HxW"``: other blocks for some weights
    ``do_not_prune``                        parts of names of weights whose masks stay as they are
    ``threshold_decay``                     share of the old threshold in the new one
    ``pruning_frequency``                   steps between two moves
    ``nbins``                               kept for compatibility: thresholds are exact, not of a histogram
    ``block_height``, ``block_width``       masks of matrices are constant over such blocks; -1 for the matrix's size
    ``block_pooling_function``              what stands for a block: ``"AVG"`` or ``"MAX"`` of the absolute values
    ``initial_sparsity``                    share of zeros at the beginning
    ``target_sparsity``                     share of zeros at the end
    ``sparsity_function_begin_step``        where the share begins to grow
    ``sparsity_function_end_step``          where it ends to grow
    ``sparsity_function_exponent``          1 for linear growth; more for growth that is fast first
    ``use_tpu``                             the variable of the last move is a resource
    ======================================  ====================================================================
    """
    return tf.contrib.training.HParams(
        name="model_pruning",
        begin_pruning_step=0,
        end_pruning_step=-1,
        weight_sparsity_map=[""],
        block_dims_map=[""],
        do_not_prune=[""],
        threshold_decay=0.0,
        pruning_frequency=10,
        nbins=256,
        block_height=1,
        block_width=1,
        block_pooling_function="AVG",
        initial_sparsity=0.0,
        target_sparsity=0.5,
        sparsity_function_begin_step=0,
        sparsity_function_end_step=100,
        sparsity_function_exponent=3.0,
        use_tpu=False,
    )


def _refusal(text: str, given: str, expected: str, advice: str) -> ValueError:
    return ValueError(f"{text}\n" + errors.message(given, expected, advice))


def _assigned(variable: Any, value: Any) -> list[Any]:
    """Assign a variable, or each part of a partitioned one."""
    if not isinstance(variable, tf.PartitionedVariable):
        return [variable.assign(value)]
    parts = list(variable)
    pairs = zip(parts[0].shape.as_list(), variable.get_shape().as_list(), strict=True)
    axis = next((axis for axis, (part, whole) in enumerate(pairs) if part != whole), 0)
    values = tf.split(value, [part.shape[axis].value for part in parts], axis)
    return [part.assign(piece) for part, piece in zip(parts, values, strict=True)]


@public("contrib.model_pruning.Pruning")
class Pruning:
    """The masks of a graph and when they move: ever more of the smallest weights become zero.

    At step ``t`` the share of zeros is ``target + (initial - target) (1 - p) ** exponent``, where ``p`` goes from 0 to
    1 between two steps (Zhu and Gupta, 2017).

    Args:
        spec: hyperparameters, as of :func:`get_pruning_hparams`, which is the default.
        global_step: the step's number; that of the graph by default.
        sparsity: the share of zeros, a scalar variable or tensor, in place of the one by ``spec``.

    Raises:
        ValueError: hyperparameters that are not possible.
    """

    def __init__(self, spec: Any = None, global_step: Any = None, sparsity: Any = None) -> None:
        self._spec = spec if spec else get_pruning_hparams()
        self._check()
        step = tf.train.get_global_step() if global_step is None else global_step
        self._global_step = tf.cast(step, tf.int32)
        self._sparsity = self._growing() if sparsity is None else sparsity
        with tf.variable_scope(self._spec.name, use_resource=self._spec.use_tpu or None, reuse=tf.AUTO_REUSE):
            self._last_update_step = tf.get_variable(
                "last_mask_update_step", [], tf.int32, tf.zeros_initializer(), trainable=False
            )
        self._sparsities = {regex: float(text) for regex, text in self._map("weight_sparsity_map")}
        self._blocks = {regex: self._block(text) for regex, text in self._map("block_dims_map")}
        for regex, value in self._sparsities.items():
            if value >= 1.0:
                raise _refusal(
                    "Weight sparsity can not exceed 1.0",
                    f"{value} for {regex.pattern!r}",
                    "a share of zeros below 1",
                    f"'{regex.pattern}:0.9'",
                )

    def _check(self) -> None:
        spec = self._spec
        for wrong, text, given, expected, advice in (
            (
                spec.begin_pruning_step < 0,
                "Illegal value for begin_pruning_step",
                f"begin_pruning_step={spec.begin_pruning_step}",
                "a step from 0 on",
                "begin_pruning_step=0",
            ),
            (
                spec.begin_pruning_step >= spec.end_pruning_step != -1,
                f"Pruning must begin before it can end. begin_step={spec.begin_pruning_step}, "
                f"end_step={spec.end_pruning_step}. Set end_pruning_step to -1 if pruning is required till training "
                "stops",
                f"end_pruning_step={spec.end_pruning_step}",
                "a step after begin_pruning_step, or -1",
                "end_pruning_step=-1",
            ),
            (
                spec.sparsity_function_begin_step < 0,
                "Illegal value for sparsity_function_begin_step",
                f"sparsity_function_begin_step={spec.sparsity_function_begin_step}",
                "a step from 0 on",
                "sparsity_function_begin_step=0",
            ),
            (
                spec.sparsity_function_begin_step >= spec.sparsity_function_end_step,
                "Sparsity function requires begin_step < end_step",
                f"sparsity_function_end_step={spec.sparsity_function_end_step}",
                "a step after sparsity_function_begin_step",
                "sparsity_function_end_step=100",
            ),
            (
                not 0.0 <= spec.threshold_decay < 1.0,
                "threshold_decay must be in range [0,1)",
                f"threshold_decay={spec.threshold_decay}",
                "a share from 0 to below 1",
                "threshold_decay=0.0",
            ),
            (
                not 0.0 <= spec.initial_sparsity < 1.0,
                "initial_sparsity must be in range [0,1)",
                f"initial_sparsity={spec.initial_sparsity}",
                "a share from 0 to below 1",
                "initial_sparsity=0.0",
            ),
            (
                not 0.0 <= spec.target_sparsity < 1.0,
                "target_sparsity must be in range [0,1)",
                f"target_sparsity={spec.target_sparsity}",
                "a share from 0 to below 1",
                "target_sparsity=0.5",
            ),
        ):
            if wrong:
                raise _refusal(text, given, expected, advice)

    def _map(self, name: str) -> list[tuple[Any, str]]:
        return [
            (re.compile(regex), value)
            for regex, _, value in (text.rpartition(":") for text in getattr(self._spec, name, ()) if text)
        ]

    @staticmethod
    def _block(text: str) -> list[int]:
        sizes = text.split("x")
        if len(sizes) != 2:
            raise _refusal(f"Expected 2 values for block dim, got {sizes}", f"{text!r}", "HxW", "'dense1:4x4'")
        return [int(size) for size in sizes]

    @staticmethod
    def _of(weight_name: str, by_regex: dict[Any, Any], kind: str, default: Any) -> Any:
        values = [value for regex, value in by_regex.items() if regex.search(weight_name)]
        if len(values) > 1:
            raise _refusal(
                f"Multiple matches in {kind} for weight {weight_name}",
                f"{len(values)} matches of {weight_name!r}",
                "one match",
                f"regular expressions in {kind} that exclude each other",
            )
        return values[0] if values else default

    def _growing(self) -> Any:
        spec = self._spec
        first, last = spec.sparsity_function_begin_step, spec.sparsity_function_end_step
        with tf.name_scope(spec.name):
            share = tf.cast(self._global_step - first, tf.float32) / (last - first)
            left = 1 - tf.minimum(1.0, tf.maximum(0.0, share))
            grown = (spec.initial_sparsity - spec.target_sparsity) * tf.pow(left, spec.sparsity_function_exponent)
            return tf.add(grown, spec.target_sparsity, name="sparsity")

    def _update_mask(self, weights: Any, threshold: Any, name: str | None = None) -> tuple[Any, Any]:
        """The new threshold and the new mask of weights, which may be means over blocks of the weights ``name``."""
        name = name or weights.op.name
        sparsity = self._sparsity
        target = self._of(name, self._sparsities, "weight_sparsity_map", None)
        if target is not None:
            sparsity = sparsity * (target / self._spec.target_sparsity)
        with tf.name_scope(name + "_pruning_ops"):
            sizes = tf.abs(weights)
            count = tf.size(sizes)
            left = tf.cast(tf.round(tf.cast(count, tf.float32) * (1 - sparsity)), tf.int32)
            ordered, _ = tf.nn.top_k(tf.reshape(sizes, [-1]), k=count)
            current = tf.gather(ordered, tf.maximum(left - 1, 0))
            decay = self._spec.threshold_decay
            smooth = tf.add_n([current * (1 - decay), threshold * decay])
            return smooth, tf.cast(sizes >= smooth, weights.dtype.base_dtype)

    def _maybe_update_block_mask(self, weights: Any, threshold: Any) -> tuple[Any, Any]:
        """The new threshold and the new mask of weights, by blocks if they are a matrix and blocks are asked for."""
        name = weights.op.name
        height, width = self._of(
            name, self._blocks, "block_dims_map", [self._spec.block_height, self._spec.block_width]
        )
        matrix = tf.squeeze(weights)
        if matrix.shape.ndims != 2 or (height, width) == (1, 1):
            return self._update_mask(weights, threshold)
        rows, columns = matrix.shape.as_list()
        block = [rows if height == -1 else height, columns if width == -1 else width]
        kind = self._spec.block_pooling_function
        if kind not in ("AVG", "MAX"):
            raise _refusal(
                f"Unknown pooling function for block sparsity: {kind}", f"{kind!r}", "'AVG' or 'MAX'", "'AVG'"
            )
        with tf.name_scope(name + "_pruning_ops"):
            pooled = tf.nn.pool(
                tf.abs(matrix)[None, :, :, None], window_shape=block, pooling_type=kind, strides=block, padding="SAME"
            )[0, :, :, 0]
            smooth, mask = self._update_mask(pooled, threshold, name)
            mask = tf.repeat(tf.repeat(mask, block[0], axis=0), block[1], axis=1)[:rows, :columns]
            return smooth, tf.reshape(mask, tf.shape(weights))

    def _assignments(self) -> list[Any]:
        done = []
        for mask, threshold, weights in zip(
            masks.get_masks(), masks.get_thresholds(), masks.get_weights(), strict=True
        ):
            whole = weights.as_tensor() if isinstance(weights, tf.PartitionedVariable) else weights
            if any(part in whole.op.name for part in getattr(self._spec, "do_not_prune", ()) if part):
                continue
            new_threshold, new_mask = self._maybe_update_block_mask(whole, threshold)
            done += [*_assigned(threshold, new_threshold), *_assigned(mask, new_mask)]
        return done

    def mask_update_op(self) -> Any:
        """An operation that moves the masks now."""
        with tf.name_scope(self._spec.name):
            with tf.control_dependencies([self._last_update_step.assign(self._global_step), *self._assignments()]):
                return tf.no_op("mask_update")

    def conditional_mask_update_op(self) -> Any:
        """An operation that moves the masks if it is time to do so."""
        spec = self._spec
        with tf.name_scope(spec.name):
            step = self._global_step
            within = step >= spec.begin_pruning_step
            if spec.end_pruning_step >= 0:
                within &= step <= spec.end_pruning_step
            due = within & (self._last_update_step + spec.pruning_frequency <= step)
        return tf.cond(due, self.mask_update_op, tf.no_op)

    def add_pruning_summaries(self) -> None:
        """Add scalar summaries of the shares of zeros and of the thresholds."""
        with tf.name_scope(self._spec.name + "_summaries"):
            tf.summary.scalar("sparsity", self._sparsity)
            tf.summary.scalar("last_mask_update_step", self._last_update_step)
            for mask, threshold in zip(masks.get_masks(), masks.get_thresholds(), strict=True):
                tf.summary.scalar(mask.op.name + "/sparsity", tf.nn.zero_fraction(mask))
                tf.summary.scalar(threshold.op.name + "/threshold", threshold)

    def print_hparams(self) -> None:
        """Log the hyperparameters."""
        tf.logging.info(self._spec.to_json())
