"""A cell with attention: what it attends to is joined to its inputs and outputs."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.contrib.seq2seq.attention import AttentionMechanism
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import nest
from anabranch.rnn.cells import RNNCell, assert_like_rnncell, zero_state_tensors

_State = collections.namedtuple(  # type: ignore[name-match]
    "AttentionWrapperState", ("cell_state", "attention", "time", "alignments", "alignment_history", "attention_state")
)


@public("contrib.seq2seq.AttentionWrapperState")
class AttentionWrapperState(_State):
    """State of an :class:`AttentionWrapper`.

    ``cell_state`` is that of the wrapped cell; ``attention`` what was attended to last; ``time`` the number of steps;
    ``alignments`` ``[batch, memory time]``, ``alignment_history`` a `TensorArray` of them (or ``()``), and
    ``attention_state`` belong to the mechanism, and are tuples if there are several mechanisms.
    """

    def clone(self, **kwargs: Any) -> AttentionWrapperState:
        """A copy with other parts, which must be shaped as those they replace.

        Args:
            kwargs: parts by name, such as ``cell_state``.

        Example:
            >>> state = cell.zero_state(batch, tf.float32).clone(cell_state=encoder_state)  # doctest: +SKIP
        """

        def like(old: Any, new: Any) -> Any:
            if not isinstance(old, tf.Tensor) or not isinstance(new, tf.Tensor):
                return new
            if not old.shape.is_compatible_with(new.shape):
                raise ValueError(
                    f"The shape of the AttentionWrapperState is expected to be same as the one to clone. "
                    f"self.shape: {old.shape}, input.shape: {new.shape}\n"
                    + errors.message(
                        f"{new.name!r} of shape {new.shape}",
                        f"a state of shape {old.shape}, as the cell had it",
                        "return the state of this cell",
                    )
                )
            same = tf.identity(new)
            same.set_shape(old.shape)
            return same

        return nest.map_structure(like, self, super()._replace(**kwargs))


def compute_attention(
    attention_mechanism: Any, cell_output: Any, attention_state: Any, attention_layer: Any
) -> tuple[Any, Any, Any]:
    """``(attention, alignments, next_state)`` of a mechanism for the output of a cell.

    The context is the mean of the mechanism's values weighted by the alignments; the layer, if there is one, sees it
    joined to the output.
    """
    attended = attention_mechanism(cell_output, attention_state)
    # Mechanisms of programs for TensorFlow 1.3 and older give alignments alone, and these are their state.
    alignments, following = attended if isinstance(attended, tuple) else (attended, attended)
    context = tf.squeeze(tf.matmul(tf.expand_dims(alignments, 1), attention_mechanism.values), [1])
    attention = context if attention_layer is None else attention_layer(tf.concat([cell_output, context], 1))
    return attention, alignments, following


def _joined(inputs: Any, attention: Any) -> Any:
    return tf.concat([inputs, attention], -1)


@public("contrib.seq2seq.AttentionWrapper")
class AttentionWrapper(RNNCell):
    """A cell that attends to a memory.

    At each step the cell sees its inputs joined to the last attention; each mechanism is asked by the cell's output;
    the attention is the context (joined to the output and put through a layer, if ``attention_layer_size`` is given).

    Args:
        cell: the cell inside.
        attention_mechanism: an :class:`AttentionMechanism`, or a list of them, whose attentions are joined.
        attention_layer_size: size of the attention layer, one for each mechanism of a list; no layer if None.
        alignment_history: keep all alignments in a `TensorArray` of the state.
        cell_input_fn: function of inputs and attention that gives what the cell sees; joined if None.
        output_attention: the output is the attention; that of the cell if False (as Bahdanau et al. do).
        initial_cell_state: the cell's state in :meth:`zero_state`; zeros if None.
        name: name of the variable scope.
        attention_layer: layer in place of the one that ``attention_layer_size`` makes, or a list of them.
        attention_fn: function of ``(mechanism, cell_output, attention_state, attention_layer)`` that gives
            ``(attention, alignments, next_state)``, for another way to attend.
        dtype: dtype of the attention layer; that of the first input if None.

    Raises:
        TypeError: an argument is of another kind. ValueError: sizes, layers and mechanisms do not fit together.
    """

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[..., Any] | None = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
        attention_fn: Callable[..., Any] | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        assert_like_rnncell("cell", cell)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        mechanisms = tuple(attention_mechanism) if self._is_multi else (attention_mechanism,)
        for mechanism in mechanisms:
            if not isinstance(mechanism, AttentionMechanism):
                raise TypeError(
                    "attention_mechanism must be an AttentionMechanism or list of multiple AttentionMechanism "
                    f"instances, saw type: {type(mechanism).__name__}\n"
                    + errors.message(f"{mechanism!r}", "a mechanism", "tf.contrib.seq2seq.LuongAttention(n, memory)")
                )
        for argument, function in (("cell_input_fn", cell_input_fn), ("attention_fn", attention_fn)):
            if function is not None and not callable(function):
                raise TypeError(
                    f"{argument} must be callable, saw type: {type(function).__name__}\n"
                    + errors.message(f"{argument}={function!r}", "a function", f"leave {argument} out")
                )
        self._cell = cell
        self._attention_mechanisms = mechanisms
        self._cell_input_fn = cell_input_fn or _joined
        self._attention_fn = attention_fn or compute_attention
        self._output_attention = output_attention
        self._alignment_history = alignment_history
        self._attention_layers = self._layers(attention_layer_size, attention_layer, dtype)
        if self._attention_layers is None:
            sizes = [mechanism.values.shape[-1].value for mechanism in mechanisms]
        else:
            sizes = [self._size_of(i, layer) for i, layer in enumerate(self._attention_layers)]
        self._attention_layer_size = sum(sizes)
        with tf.name_scope(name, "AttentionWrapperInit"):
            self._initial_cell_state = None
            if initial_cell_state is not None:
                first = nest.flatten(initial_cell_state)[-1]
                batch = first.shape[0].value or tf.shape(first)[0]
                self._initial_cell_state = self._checked(
                    batch, initial_cell_state, "constructing", "the initial_cell_state"
                )

    def _layers(self, size: Any, layer: Any, dtype: Any) -> list[Any] | None:
        """The attention layers, one for each mechanism, or None."""
        if size is not None and layer is not None:
            raise ValueError(
                "Only one of attention_layer_size and attention_layer should be set\n"
                + errors.message(
                    "attention_layer_size and attention_layer",
                    "one of the two arguments",
                    "leave attention_layer_size out",
                )
            )
        for argument, given in (("attention_layer_size", size), ("attention_layer", layer)):
            if given is None:
                continue
            parts = list(given) if isinstance(given, (list, tuple)) else [given]
            if len(parts) != len(self._attention_mechanisms):
                raise ValueError(
                    f"If provided, {argument} must contain exactly one item per attention_mechanism, saw: "
                    f"{len(parts)} vs "
                    f"{len(self._attention_mechanisms)}\n"
                    + errors.message(
                        f"{argument}={given!r}", f"{len(self._attention_mechanisms)} items", "a list of them"
                    )
                )
            if given is layer:
                return parts
            return [tf.layers.Dense(n, name="attention_layer", use_bias=False, dtype=dtype) for n in parts]
        return None

    def _size_of(self, place: int, layer: Any) -> int:
        """Size of the attention that a layer makes."""
        units = getattr(layer, "units", None)
        if isinstance(units, int):
            return units
        inputs = self._cell.output_size + self._attention_mechanisms[place].values.shape[-1].value
        return int(layer.compute_output_shape([None, inputs])[-1].value)

    def _checked(self, batch: Any, parts: Any, doing: str, what: str) -> Any:
        """``parts``, once the memories are known to have the batch size."""
        checks = [
            tf.assert_equal(
                mechanism.batch_size,
                batch,
                message=f"When {doing} AttentionWrapper {self._base_name}: Non-matching batch sizes between the memory "
                f"(encoder output) and {what}. Are you using the BeamSearchDecoder? If so, tile the memory, and what "
                "comes with it, by tf.contrib.seq2seq.tile_batch with multiplier=beam_width, and ask for states of "
                "batch_size * beam_width.",
            )
            for mechanism in self._attention_mechanisms
        ]
        with tf.control_dependencies([check for check in checks if check is not None]):
            return nest.map_structure(lambda part: part if hasattr(part, "flow") else tf.identity(part), parts)

    def _item_or_tuple(self, items: Any) -> Any:
        as_tuple = tuple(items)
        return as_tuple if self._is_multi else as_tuple[0]

    @property
    def output_size(self) -> Any:
        return self._attention_layer_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        sizes = [mechanism.alignments_size for mechanism in self._attention_mechanisms]
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            attention=self._attention_layer_size,
            time=tf.TensorShape([]),
            alignments=self._item_or_tuple(sizes),
            alignment_history=self._item_or_tuple(sizes if self._alignment_history else [()] * len(sizes)),
            attention_state=self._item_or_tuple(mechanism.state_size for mechanism in self._attention_mechanisms),
        )

    def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
        """The state before the first step.

        Args:
            batch_size: number of sequences, that of the memory (times the width of a beam, as the memory is tiled).
            dtype: dtype of the state.
        """
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            known = tf.get_static_value(batch_size) if isinstance(batch_size, tf.Tensor) else batch_size
            batch = batch_size if known is None else int(known)
            cell_state = self._initial_cell_state
            if cell_state is None:
                cell_state = self._cell.zero_state(batch, dtype)
            cell_state = self._checked(batch, cell_state, "calling zero_state of", "the requested batch size")
            alignments = [mechanism.initial_alignments(batch, dtype) for mechanism in self._attention_mechanisms]
            histories = [
                tf.TensorArray(dtype, size=0, dynamic_size=True, element_shape=item.shape, name="alignment_history")
                if self._alignment_history
                else ()
                for item in alignments
            ]
            return AttentionWrapperState(
                cell_state=cell_state,
                time=tf.zeros([], tf.int32),
                attention=zero_state_tensors(self._attention_layer_size, batch, dtype),
                alignments=self._item_or_tuple(alignments),
                alignment_history=self._item_or_tuple(histories),
                attention_state=self._item_or_tuple(
                    mechanism.initial_state(batch, dtype) for mechanism in self._attention_mechanisms
                ),
            )

    def call(self, inputs: Any, state: Any) -> tuple[Any, AttentionWrapperState]:
        """One step."""
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(
                f"Expected state to be instance of AttentionWrapperState. Received type {type(state)} instead.\n"
                + errors.message(f"{state!r}", "the state of this cell", "cell.zero_state(batch, tf.float32)")
            )
        output, cell_state = self._cell(self._cell_input_fn(inputs, state.attention), state.cell_state)
        batch = output.shape[0].value or tf.shape(output)[0]
        output = self._checked(batch, output, "applying", "the query (decoder output)")
        states = state.attention_state if self._is_multi else [state.attention_state]
        histories = state.alignment_history if self._is_multi else [state.alignment_history]
        layers = self._attention_layers or [None] * len(self._attention_mechanisms)
        attended = [
            self._attention_fn(mechanism, output, old, layer)
            for mechanism, old, layer in zip(self._attention_mechanisms, states, layers, strict=True)
        ]
        attentions, alignments, following = zip(*attended, strict=True)
        attention = attentions[0] if len(attentions) == 1 else tf.concat(attentions, 1)
        count_more(2 * (len(attentions) == 1))  # one is joined, too
        new = AttentionWrapperState(
            time=state.time + 1,
            cell_state=cell_state,
            attention=attention,
            attention_state=self._item_or_tuple(following),
            alignments=self._item_or_tuple(alignments),
            alignment_history=self._item_or_tuple(
                history.write(state.time, item) if self._alignment_history else ()
                for history, item in zip(histories, alignments, strict=True)
            ),
        )
        return (attention if self._output_attention else output), new
