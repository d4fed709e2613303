"""Decoders of connectionist temporal classification: the best class of each step, and prefix beam search. On the host.

Policy. The beam search keeps, for each prefix, the probability of its paths that end in a blank and of those that end
in its last label (Graves and Jaitly, 2014). One time step looks at all prefixes and all classes at once.
Probabilities are normalised by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Bool, Int, NotDifferentiable, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.ops.nn.ctc_loss import check_inputs, check_lengths

_CHOICE = NotDifferentiable("which labels are decoded is a choice")


def _sparse(paths: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices, values and dense shape of label sequences."""
    indices = [(row, column) for row, path in enumerate(paths) for column in range(len(path))]
    values = [label for path in paths for label in path]
    longest = max((len(path) for path in paths), default=0)
    return (
        np.array(indices, np.int64).reshape(-1, 2),
        np.array(values, np.int64),
        np.array([len(paths), longest], np.int64),
    )


class CTCGreedyDecoder(Op):
    """The best class of each step without blanks, sparse, and minus the sum of its logits ``[batch, 1]``."""

    signature = (
        "inputs: T, sequence_length: int32 -> decoded_indices: int64, decoded_values: int64, decoded_shape: int64, "
        "log_probability: T"
    )
    attrs = {"merge_repeated": Bool(False), "blank_index": Int(-1), "T": Type("float double", "float")}
    effect = PURE
    gradient = _CHOICE

    def shape(c):
        _, batch, _ = check_inputs(c)
        return [(None, 2), (None,), (2,), (batch, 1)]

    def bound(c):
        time, batch, _ = check_inputs(c)
        size = None if time is None or batch is None else time * batch
        return [(size, 2), (size,), (2,), (batch, 1)]

    def host_kernel(ctx, inputs, attrs):
        logits, lengths = inputs
        time, batch, classes = logits.shape
        check_lengths(ctx, lengths, time, batch)
        blank = attrs["blank_index"]
        blank = blank + classes if blank < 0 else blank
        ctx.check(
            0 <= blank < classes,
            errors.InvalidArgumentError,
            f"blank_index expected to be between {-classes} and {classes - 1}, got {attrs['blank_index']}",
        )
        best = logits.argmax(axis=2)
        inside = np.arange(time)[:, None] < lengths
        total = -np.where(inside, logits.max(axis=2), 0).sum(0, dtype=logits.dtype)[:, None]
        keep = inside & (best != blank)
        if attrs["merge_repeated"]:
            keep[1:] &= best[1:] != best[:-1]
        return *_sparse([best[keep[:, row], row].tolist() for row in range(batch)]), total


class _Beam:
    """The prefixes kept for one sequence: a tree of all seen so far, and the probabilities of the kept ones."""

    def __init__(self, width: int, classes: int, dtype: Any) -> None:
        self.width, self.classes, self.dtype = width, classes, dtype
        self.parents = [-1]
        self.labels = [-1]
        self._children: dict[tuple[int, int], int] = {}
        self.nodes = np.zeros(1, np.int64)
        self.blank = np.zeros(1, dtype)
        self.label = np.full(1, -np.inf, dtype)
        self.total = np.zeros(1, dtype)

    def step(self, log_y: np.ndarray) -> None:
        """Move on by a time step with the classes' log-probabilities, the blank's last."""
        spoken, silent = log_y[:-1], log_y[-1]
        nodes = self.nodes
        last = np.array([self.labels[node] for node in nodes])
        # Where each prefix's own parent is in the beam, if it is.
        order = np.argsort(nodes)
        own = np.array([self.parents[node] for node in nodes])
        place = order[np.minimum(np.searchsorted(nodes, own, sorter=order), len(nodes) - 1)]
        extended = nodes[place] == own
        grown = np.where(last == last[place], self.blank[place], self.total[place])
        from_parent = np.where(extended, grown, -np.inf)
        lasting = np.where(last >= 0, np.logaddexp(self.label, from_parent) + spoken[last], -np.inf)
        silence = self.total + silent
        total = np.logaddexp(silence, lasting)
        # New prefixes: every label after every prefix, but for those that are in the beam already.
        fresh = (
            np.where(np.arange(self.classes - 1) == last[:, None], self.blank[:, None], self.total[:, None]) + spoken
        )
        fresh[place[extended], last[extended]] = -np.inf
        everything, chosen = self._chosen(total, fresh)
        if self._drop_overtaken(total, fresh, np.where(extended, place, -1), last, chosen):
            everything, chosen = self._chosen(total, fresh)
        chosen = chosen[everything[chosen] > -np.inf]
        count = len(nodes)
        grown_labels = max(self.classes - 1, 1)
        self.nodes = np.array(
            [
                nodes[i]
                if i < count
                else self._child(int(nodes[(i - count) // grown_labels]), (i - count) % grown_labels)
                for i in chosen.tolist()
            ],
            np.int64,
        )
        nothing = np.full(fresh.size, -np.inf)
        self.blank = np.concatenate([silence, nothing])[chosen].astype(self.dtype)
        self.label = np.concatenate([lasting, fresh.ravel()])[chosen].astype(self.dtype)
        self.total = everything[chosen].astype(self.dtype)

    def _chosen(self, total: np.ndarray, fresh: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All probabilities, and the places of the greatest, in falling order."""
        everything = np.concatenate([total, fresh.ravel()])
        return everything, np.argsort(-everything, kind="stable")[: self.width]

    def _drop_overtaken(
        self, total: np.ndarray, fresh: np.ndarray, above: np.ndarray, last: np.ndarray, chosen: np.ndarray
    ) -> bool:
        """Clear what grows from prefixes that fell out of the beam before their own parent grew.

        TensorFlow grows prefixes one after another, the likeliest first. One that is overtaken by ``width``
        others before its parent (at ``above``) grows is taken for a new child of it then, found too unlikely,
        and grows no more.
        """
        lost = np.ones(len(total), bool)
        lost[chosen[chosen < len(total)]] = False
        doubtful = np.flatnonzero(lost & (above >= 0) & (above < np.arange(len(total))))
        dropped = False
        for place in doubtful[np.argsort(above[doubtful], kind="stable")]:
            row, label = above[place], last[place]
            ahead = np.count_nonzero(total > total[place]) + np.count_nonzero(fresh[:row] > total[place])
            if ahead + np.count_nonzero(fresh[row, :label] > total[place]) >= self.width:
                fresh[place] = -np.inf
                dropped = True
        return dropped

    def _child(self, node: int, label: int) -> int:
        child = self._children.get((node, label))
        if child is None:
            child = self._children[node, label] = len(self.labels)
            self.parents.append(node)
            self.labels.append(label)
        return child

    def best(self, count: int, merge_repeated: bool) -> list[tuple[list[int], Any]]:
        """The most probable label sequences, and their log-probabilities."""
        paths = []
        for place in np.argsort(-self.total, kind="stable")[:count]:
            path: list[int] = []
            node = int(self.nodes[place])
            previous = -1
            while node:
                label = self.labels[node]
                if not merge_repeated or label != previous:
                    path.append(label)
                previous, node = label, self.parents[node]
            paths.append((path[::-1], self.total[place]))
        return paths


class CTCBeamSearchDecoder(Op):
    """The most probable label sequences that a beam search finds, and their log-probabilities ``[batch, paths]``.

    With ``merge_repeated`` equal labels in a row of the result become one.
    """

    signature = (
        "inputs: T, sequence_length: int32 -> decoded_indices: top_paths * int64, decoded_values: top_paths * int64, "
        "decoded_shape: top_paths * int64, log_probability: T"
    )
    attrs = {
        "beam_width": Int(minimum=1),
        "top_paths": Int(minimum=1),
        "merge_repeated": Bool(True),
        "T": Type("float double", "float"),
    }
    effect = PURE
    gradient = _CHOICE

    def shape(c):
        _, batch, _ = check_inputs(c)
        paths = c.attrs["top_paths"]
        return [(None, 2)] * paths + [(None,)] * paths + [(2,)] * paths + [(batch, paths)]

    def bound(c):
        time, batch, _ = check_inputs(c)
        size = None if time is None or batch is None else time * batch
        paths = c.attrs["top_paths"]
        return [(size, 2)] * paths + [(size,)] * paths + [(2,)] * paths + [(batch, paths)]

    def host_kernel(ctx, inputs, attrs):
        logits, lengths = inputs
        time, batch, classes = logits.shape
        check_lengths(ctx, lengths, time, batch)
        paths, width = attrs["top_paths"], attrs["beam_width"]
        ctx.check(
            paths <= width,
            errors.InvalidArgumentError,
            "requested more paths than the beam width.\n"
            + errors.message(
                f"top_paths={paths}, beam_width={width}", "no more paths than beams", f"top_paths={width}"
            ),
        )
        top = logits.max(axis=2, keepdims=True)
        log_y = logits - (top + np.log(np.exp(logits - top).sum(axis=2, keepdims=True)))
        scores = np.zeros((batch, paths), logits.dtype)
        decoded: list[list[list[int]]] = [[] for _ in range(paths)]
        for row in range(batch):
            beam = _Beam(width, classes, logits.dtype)
            for t in range(int(lengths[row])):
                beam.step(log_y[t, row])
            best = beam.best(paths, attrs["merge_repeated"])
            ctx.check(
                len(best) == paths,
                errors.InvalidArgumentError,
                f"Less leaves in the beam search than requested. {len(best)} label sequences are possible, "
                f"top_paths is {paths}",
            )
            for i, (path, score) in enumerate(best):
                decoded[i].append(path)
                scores[row, i] = score
        parts = [_sparse(path) for path in decoded]
        return *(part[0] for part in parts), *(part[1] for part in parts), *(part[2] for part in parts), scores


@public("nn.ctc_greedy_decoder")
def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None
) -> Any:
    """The best class of each time step, without blanks.

    Args:
        inputs: logits ``[time, batch, classes]``, the last class of which is the blank.
        sequence_length: int32 ``[batch]``.
        merge_repeated: whether equal classes in a row of time steps are one label.
        blank_index: the blank, if it is another class; from the end if negative.

    Returns:
        A list with one ``SparseTensor`` ``[batch, length]`` of int64, and minus the sum of the best logits
        ``[batch, 1]``.
    """
    outputs = build(
        "CTCGreedyDecoder",
        convert_to_tensor(inputs),
        sequence_length,
        merge_repeated=merge_repeated,
        blank_index=-1 if blank_index is None else blank_index,
    )
    return [SparseTensor(*outputs[:3])], outputs[3]


@public("nn.ctc_beam_search_decoder")
def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1, merge_repeated: bool = True
) -> Any:
    """The label sequences that a beam search finds most probable.

    Args:
        inputs: logits ``[time, batch, classes]``, the last class of which is the blank.
        sequence_length: int32 ``[batch]``.
        beam_width: how many prefixes are kept.
        top_paths: how many sequences are returned.
        merge_repeated: whether equal labels in a row of a result become one: "A B B B B" is then returned as "A B".

    Returns:
        A list of ``top_paths`` ``SparseTensor`` ``[batch, length]`` of int64, and ``[batch, top_paths]``
        log-probabilities.
    """
    outputs = build(
        "CTCBeamSearchDecoder",
        convert_to_tensor(inputs),
        sequence_length,
        beam_width=beam_width,
        top_paths=top_paths,
        merge_repeated=merge_repeated,
    )
    return [SparseTensor(*parts) for parts in zip(*outputs[:3], strict=True)], outputs[3]


@public("nn.ctc_beam_search_decoder_v2")
def ctc_beam_search_decoder_v2(inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1) -> Any:
    """``tf.nn.ctc_beam_search_decoder`` whose results keep equal labels in a row."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, merge_repeated=False)
