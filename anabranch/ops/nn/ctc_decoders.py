"""Decoders of connectionist temporal classification: the best class of each step, and prefix beam search. On the host.

Policy. The beam search keeps, for each prefix, the probability of its paths that end in a blank and of those that end
in its last label (Graves and Jaitly, 2014). One time step looks at all prefixes and all classes of all sequences at
once. Probabilities are normalised by step.
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


class _Beams:
    """The prefixes kept for each sequence ``[batch, width]``: trees of all seen so far, and probabilities of kept ones.

    A place without a prefix has probability 0, and comes behind those that have one.
    """

    def __init__(self, batch: int, width: int, classes: int, dtype: Any) -> None:
        self.width, self.classes, self.dtype = width, classes, dtype
        # The root of each tree is a node of its own; -1 is none.
        self.parents = [-1] * batch
        self.labels = [-1] * batch
        self._children: dict[tuple[int, int], int] = {}
        self.nodes = np.full((batch, width), -1)
        self.above = np.full((batch, width), -2)
        """The parent of each prefix's node."""
        self.last = np.full((batch, width), -1)
        """The label of each prefix's node."""
        self.blank, self.label, self.total = (np.full((batch, width), -np.inf, dtype) for _ in range(3))
        self.nodes[:, 0] = np.arange(batch)
        self.blank[:, 0] = self.total[:, 0] = 0

    def step(self, log_y: np.ndarray, rows: np.ndarray) -> None:
        """Move on by a time step, in some rows, with the classes' log-probabilities ``[rows, classes]``, blank last."""
        spoken, silent = log_y[:, :-1], log_y[:, -1:]
        nodes, above, last = self.nodes[rows], self.above[rows], self.last[rows]
        blank, total = self.blank[rows], self.total[rows]
        at = np.arange(len(rows))[:, None]
        # Where each prefix's own parent is in the beam, if it is.
        is_parent = above[:, :, None] == nodes[:, None, :]
        place = is_parent.argmax(axis=2)
        extended = is_parent[at, np.arange(self.width), place]
        grown = np.where(last == last[at, place], blank[at, place], total[at, place])
        from_parent = np.where(extended, grown, -np.inf)
        spoken_last = spoken[at, last] if self.classes > 1 else np.zeros_like(total)
        lasting = np.where(last >= 0, np.logaddexp(self.label[rows], from_parent) + spoken_last, -np.inf)
        silence = total + silent
        ending = np.logaddexp(silence, lasting)
        # New prefixes: every label after every prefix, but for those that are in the beam already.
        fresh = np.repeat(total[:, :, None], self.classes - 1, axis=2)
        labelled, places = np.nonzero(last >= 0)
        fresh[labelled, places, last[labelled, places]] = blank[labelled, places]
        fresh += spoken[:, None, :]
        children, of = np.nonzero(extended)
        fresh[children, place[children, of], last[children, of]] = -np.inf
        everything, chosen = self._chosen(ending, fresh)
        overtaken = self._overtaken(ending, fresh, np.where(extended, place, -1), last, chosen)
        if overtaken:
            for row in overtaken:
                self._drop_overtaken(ending[row], fresh[row], place[row], extended[row], last[row], chosen[row])
            everything, chosen = self._chosen(ending, fresh)
        likely = everything[at, chosen]
        kept = chosen < self.width
        parent_at = np.where(kept, chosen, (chosen - self.width) // max(self.classes - 1, 1))
        new_above = np.where(kept, above[at, parent_at], nodes[at, parent_at])
        new_last = np.where(kept, last[at, parent_at], (chosen - self.width) % max(self.classes - 1, 1))
        new_nodes = np.where(kept, nodes[at, parent_at], -1)
        possible = likely > -np.inf
        grows = np.nonzero(possible & ~kept)
        grown_from, grown_by = new_above[grows].tolist(), new_last[grows].tolist()
        new_nodes[grows] = [self._child(*child) for child in zip(grown_from, grown_by, strict=True)]
        new_nodes[~possible], new_above[~possible], new_last[~possible] = -1, -2, -1
        self.nodes[rows], self.above[rows], self.last[rows] = new_nodes, new_above, new_last
        self.blank[rows] = np.where(kept, silence[at, parent_at], -np.inf)
        self.label[rows] = np.where(kept, lasting[at, parent_at], likely)
        self.total[rows] = likely

    def _chosen(self, ending: np.ndarray, fresh: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All probabilities, and the places of the greatest, in falling order, the first of equal ones first."""
        everything = np.concatenate([ending, fresh.reshape(len(fresh), -1)], axis=1)
        least = np.partition(everything, -self.width, axis=1)[:, -self.width, None]
        enough = everything >= least
        if (enough.sum(axis=1) != self.width).any():  # some are equal to the last, or are not numbers
            return everything, np.argsort(-everything, axis=1, kind="stable")[:, : self.width]
        rows, places = np.nonzero(enough)
        candidates = places.reshape(len(everything), self.width)
        order = np.argsort(-everything[rows, places].reshape(candidates.shape), axis=1, kind="stable")
        return everything, np.take_along_axis(candidates, order, 1)

    def _doubtful(self, ending: np.ndarray, above: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Which prefixes fall out of the beam and have a parent before them in it, at ``above``."""
        lost = np.zeros((len(ending), self.width * self.classes), bool)
        np.put_along_axis(lost, chosen, True, 1)
        return ~lost[:, : self.width] & (above >= 0) & (above < np.arange(self.width))

    def _overtaken(
        self, ending: np.ndarray, fresh: np.ndarray, above: np.ndarray, last: np.ndarray, chosen: np.ndarray
    ) -> list[int]:
        """The rows in which a prefix may be overtaken before its own parent grows; see :meth:`_drop_overtaken`.

        What is dropped only makes others be overtaken less.
        """
        rows, places = np.nonzero(self._doubtful(ending, above, chosen))
        if not len(rows):
            return []
        own = ending[rows, places][:, None]
        ahead = (ending[rows] > own).sum(1)
        grown = (fresh[rows].reshape(len(rows), -1) > own).cumsum(axis=1)
        until = above[rows, places] * (self.classes - 1) + last[rows, places]
        ahead += np.where(until > 0, grown[np.arange(len(rows)), until - 1], 0)
        return sorted(set(rows[ahead >= self.width].tolist()))

    def _drop_overtaken(
        self,
        ending: np.ndarray,
        fresh: np.ndarray,
        place: np.ndarray,
        extended: np.ndarray,
        last: np.ndarray,
        chosen: np.ndarray,
    ) -> None:
        """Clear, in one row, what grows from prefixes that fell out of the beam before their own parent grew.

        TensorFlow grows prefixes one after another, the likeliest first. One that is overtaken by ``width``
        others before its parent (at ``place``) grows is taken for a new child of it then, found too unlikely,
        and grows no more.
        """
        above = np.where(extended, place, -1)
        doubtful = np.flatnonzero(self._doubtful(ending[None], above[None], chosen[None])[0])
        for at in doubtful[np.argsort(above[doubtful], kind="stable")]:
            row, label = above[at], last[at]
            ahead = np.count_nonzero(ending > ending[at]) + np.count_nonzero(fresh[:row] > ending[at])
            if ahead + np.count_nonzero(fresh[row, :label] > ending[at]) >= self.width:
                fresh[at] = -np.inf

    def _child(self, node: int, label: int) -> int:
        child = self._children.get((node, label))
        if child is None:
            child = self._children[node, label] = len(self.labels)
            self.parents.append(node)
            self.labels.append(label)
        return child

    def best(self, row: int, count: int, merge_repeated: bool) -> list[tuple[list[int], Any]]:
        """The most probable label sequences of a row, and their log-probabilities."""
        paths = []
        for place in np.flatnonzero(self.nodes[row] >= 0)[:count]:
            path: list[int] = []
            node = int(self.nodes[row, place])
            previous = -1
            while self.parents[node] >= 0:
                label = self.labels[node]
                if not merge_repeated or label != previous:
                    path.append(label)
                previous, node = label, self.parents[node]
            paths.append((path[::-1], self.total[row, place]))
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
        beams = _Beams(batch, width, classes, logits.dtype)
        for t in range(int(lengths.max(initial=0))):
            rows = np.flatnonzero(lengths > t)
            beams.step(log_y[t, rows], rows)
        for row in range(batch):
            best = beams.best(row, paths, attrs["merge_repeated"])
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
