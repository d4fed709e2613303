"""What the leaves of a growing tree count: candidates for a split, and the classes or sums on both sides of each.

A leaf has a slot, a row of each array. It collects candidates first, one from each example, and counts after that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from anabranch.contrib.tensor_forest.examples import EQUAL, Examples, goes_left, read_test, test_message
from anabranch.contrib.tensor_forest.parameters import at_depth
from anabranch.contrib.tensor_forest.trees import read_vector, write_vector
from anabranch.contrib.tensor_forest.versions import Arrays, Change, Versioned
from anabranch.core.protos import decision_forest_pb2 as pb

_NONE = -1
_TEST = "feature", "middle", "test"
_PRUNED = {pb.SPLIT_PRUNE_HALF: 0.5, pb.SPLIT_PRUNE_QUARTER: 0.25, pb.SPLIT_PRUNE_10_PERCENT: 0.1}
_PER_SLOT = {
    "node": "i4",
    "depth": "i4",
    "splits": "i4",
    "weight": "f4",
    "finish_epoch": "i4",
    "prune_epoch": "i4",
    "early": "?",
}
_PER_SPLIT = {"feature": "i4", "threshold": "f4", "middle": "f4", "test": "i1", "half": "i4", "count": "f4"}
_PER_OUTPUT = {"total": "f4", "total_square": "f4"}
_PER_SPLIT_AND_OUTPUT = {"left": "f4", "left_square": "f4"}


class Split(NamedTuple):
    """The best candidate of a leaf."""

    test: tuple[int, float, int]
    left: np.ndarray
    """What the new left leaf says: counts of classes, or means."""
    right: np.ndarray


def _smoothed_gini(counts: np.ndarray) -> np.ndarray:
    """The impurity of counts ``[..., classes]``, each class with one example more, times their sum."""
    classes = np.float32(counts.shape[-1])
    total = counts.sum(axis=-1, dtype=np.float32)
    square = (counts * counts).sum(axis=-1, dtype=np.float32)
    impurity = 1 - (square + 2 * total + classes) / ((classes + total) * (classes + total))
    return total * impurity


class Statistics(Versioned):
    """One version of what the leaves of a tree have counted."""

    def __init__(self, params: Any) -> None:
        super().__init__({})
        self.params = params
        self.made = False
        self.slots: dict[int, int] = {}
        """The slot of each leaf that has one."""
        self.free: list[int] = []
        self.used = 0
        self.seed = 0
        self.drawn = 0
        """How many random numbers were drawn."""

    def _successor(self) -> Statistics:
        new = Statistics(self.params)
        new.made, new.seed, new.drawn = self.made, self.seed, self.drawn
        new.slots, new.free, new.used = self.slots, self.free, self.used
        return new

    @property
    def _classifies(self) -> bool:
        return not self.params.is_regression

    def _wanted(self, depth: int) -> int:
        return max(int(at_depth(self.params.num_splits_to_consider, depth)), 0)

    # ------------------------------------------------------------------------------------------------------------ slots
    def allocate(self, change: Change, node: int, depth: int) -> int:
        """Give a leaf a slot, with nothing counted."""
        slot = self.free.pop() if self.free else self.used
        self.used = max(self.used, slot + 1)
        self.slots[node] = slot
        outputs, splits = self.params.num_outputs, self._wanted(depth)
        for names, sizes in (
            (_PER_SLOT, ()),
            (_PER_SPLIT, (splits,)),
            (_PER_OUTPUT, (outputs,)),
            (_PER_SPLIT_AND_OUTPUT, (splits, outputs)),
        ):
            for name, dtype in names.items():
                if name not in change.arrays:
                    change.arrays[name] = np.zeros((0, *sizes), dtype)
                change.reserve(name, slot + 1, *sizes)
                change.put(name, slot, 0)
        change.put("node", slot, node)
        change.put("depth", slot, depth)
        change.put("half", slot, _NONE)
        change.put("finish_epoch", slot, self._first_finish_epoch(depth))
        change.put("prune_epoch", slot, 1)
        return slot

    def _first_finish_epoch(self, depth: int) -> int:
        if self.params.finish_type.type == pb.SPLIT_FINISH_BASIC:
            return 1
        every = max(int(at_depth(self.params.finish_type.check_every_steps, depth)), 1)
        return int(at_depth(self.params.min_split_samples, depth)) // every

    def _release(self, node: int) -> None:
        self.free.append(self.slots.pop(node))

    # --------------------------------------------------------------------------------------------------------- examples
    def fed(
        self, examples: Examples, labels: np.ndarray, weights: np.ndarray, leaves: np.ndarray, seed: int
    ) -> tuple[Statistics, np.ndarray]:
        """The version that has seen these examples, and the leaves that are ready for a split.

        Args:
            examples: their features.
            labels: int32 classes ``[n]``, or float32 targets ``[n, outputs]``.
            weights: float32 ``[n]``.
            leaves: int32 ``[n]``, the leaf of each, all with a slot.
            seed: of the features that candidates are of, used the first time.
        """
        new = self._successor()
        new.seed = self.seed or seed
        with self.changed(new) as kept:
            change = Change(*kept)
            arrays = change.arrays
            unique, places = np.unique(leaves, return_inverse=True)
            slots = np.array([new.slots[leaf] for leaf in unique.tolist()], np.int64)
            for name in (*_PER_SLOT, *_PER_SPLIT, *_PER_OUTPUT, *_PER_SPLIT_AND_OUTPUT):
                change.keep(name, slots)
            plain = (
                self.params.finish_type.type == pb.SPLIT_FINISH_BASIC
                and self.params.pruning_type.type == pb.SPLIT_PRUNE_NONE
                and not self.params.initialize_average_splits
            )
            of_example = slots[places.reshape(-1)]
            numbers = new._random(len(leaves))
            if plain:
                new._feed_together(arrays, examples, labels, weights, of_example, numbers)
                ready = new._finished(arrays, slots)
            else:
                ready = np.zeros(len(slots), bool)
                opened = np.zeros(len(slots), bool)
                for row, place in enumerate(places.reshape(-1).tolist()):
                    if self.params.collate_examples and opened[place] and new._is_open(arrays, int(slots[place])):
                        continue
                    opened[place] |= not new._is_open(arrays, int(slots[place]))
                    one = slice(row, row + 1)
                    new._feed_one(arrays, examples, row, labels[one], weights[one], int(slots[place]), numbers[one])
                    ready[place] |= new._finished(arrays, slots[place : place + 1])[0]
        return new, unique[ready].astype(np.int32)

    def _random(self, count: int) -> np.ndarray:
        """The next random numbers, uint64."""
        generator = np.random.Philox(key=self.seed, counter=self.drawn)
        self.drawn += count
        return generator.random_raw(4 * count)[::4]

    def _feed_together(
        self,
        arrays: Arrays,
        examples: Examples,
        labels: np.ndarray,
        weights: np.ndarray,
        slots: np.ndarray,
        numbers: np.ndarray,
    ) -> None:
        """Have each leaf take its examples in their order: candidates first, counts after that."""
        wanted = np.array([self._wanted(depth) for depth in arrays["depth"][slots].tolist()])
        missing = np.where(arrays["weight"][slots] > 0, 0, wanted - arrays["splits"][slots])
        order = np.argsort(slots, kind="stable")
        sorted_slots = slots[order]
        starts = np.flatnonzero(np.r_[True, sorted_slots[1:] != sorted_slots[:-1]]) if len(order) else order
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
        opens = rank < missing
        rows = np.flatnonzero(opens)
        if len(rows):
            self._add_candidates(
                arrays, examples, rows, slots[rows], arrays["splits"][slots[rows]] + rank[rows], numbers[rows]
            )
            np.add.at(arrays["splits"], slots[rows], 1)
        rows = np.flatnonzero(~opens & (missing <= 0) if self.params.collate_examples else ~opens)
        if len(rows):
            self._count(arrays, examples, rows, labels[rows], weights[rows], slots[rows])

    def _add_candidates(
        self,
        arrays: Arrays,
        examples: Examples,
        rows: np.ndarray,
        slots: np.ndarray,
        places: np.ndarray,
        numbers: np.ndarray,
    ) -> None:
        features, categories = examples.drawn(rows, numbers)
        arrays["feature"][slots, places] = features
        values = examples.value(rows, features)
        arrays["threshold"][slots, places] = arrays["middle"][slots, places] = values
        arrays["test"][slots, places] = np.where(categories, EQUAL, self.params.inequality_test_type)

    def _count(
        self,
        arrays: Arrays,
        examples: Examples,
        rows: np.ndarray,
        labels: np.ndarray,
        weights: np.ndarray,
        slots: np.ndarray,
    ) -> None:
        width = arrays["feature"].shape[1]
        splits = np.arange(width)
        values = examples.value(rows[:, None], arrays["feature"][slots])
        left = goes_left(values, arrays["threshold"][slots], arrays["test"][slots])
        left &= splits < arrays["splits"][slots][:, None]
        if self._classifies:
            at, split = np.nonzero(left)
            np.add.at(arrays["left"], (slots[at], split, labels[at]), weights[at])
            np.add.at(arrays["total"], (slots, labels), weights)
            np.add.at(arrays["weight"], slots, weights)
            return
        square = labels * labels
        sides = left[:, :, None]
        np.add.at(arrays["left"], slots, sides * labels[:, None])
        np.add.at(arrays["left_square"], slots, sides * square[:, None])
        np.add.at(arrays["count"], slots, left.astype(np.float32))
        np.add.at(arrays["total"], slots, labels)
        np.add.at(arrays["total_square"], slots, square)
        np.add.at(arrays["weight"], slots, np.float32(1))

    def _feed_one(
        self,
        arrays: Arrays,
        examples: Examples,
        row: int,
        label: np.ndarray,
        weight: np.ndarray,
        slot: int,
        number: np.ndarray,
    ) -> None:
        """One example at a time, where leaves look at what they have after each."""
        wanted, have = self._wanted(int(arrays["depth"][slot])), int(arrays["splits"][slot])
        averages = self._classifies and self.params.initialize_average_splits
        rows, slots = np.array([row]), np.array([slot])
        if self._is_open(arrays, slot):
            self._count(arrays, examples, rows, label, weight, slots)
            if self._classifies:
                self._look_for_an_early_end(arrays, slot)
                self._prune(arrays, slot)
            return
        if have < wanted:
            self._add_candidates(arrays, examples, rows, slots, np.array([have]), number)
            arrays["splits"][slot] += 1
            if averages and arrays["test"][slot, have] != EQUAL:
                arrays["half"][slot, have] = label[0]
        if averages:
            self._average(arrays, examples, rows, slot, int(label[0]))

    def _is_open(self, arrays: Arrays, slot: int) -> bool:
        """Whether a leaf has its candidates, and counts."""
        have = int(arrays["splits"][slot])
        waiting = (arrays["half"][slot, :have] != _NONE).any()
        return arrays["weight"][slot] > 0 or (have == self._wanted(int(arrays["depth"][slot])) and not waiting)

    @staticmethod
    def _average(arrays: Arrays, examples: Examples, rows: np.ndarray, slot: int, label: int) -> None:
        """Move splits that wait for an example of another class to the middle between both.

        As in TensorFlow that is where a leaf is split; what is counted is on both sides of the first example.
        """
        half = arrays["half"][slot]
        others = np.flatnonzero((half != _NONE) & (half != label))
        values = examples.value(rows, arrays["feature"][slot, others])
        arrays["middle"][slot, others] = (arrays["middle"][slot, others] + values) / 2
        half[others] = _NONE

    def _is_pure(self, arrays: Arrays, slots: np.ndarray) -> np.ndarray:
        return (arrays["total"][slots] != 0).sum(axis=1) <= 1

    def _finished(self, arrays: Arrays, slots: np.ndarray) -> np.ndarray:
        after = np.array(
            [int(at_depth(self.params.split_after_samples, depth)) for depth in arrays["depth"][slots].tolist()]
        )
        enough = arrays["weight"][slots] >= after
        return (enough & ~self._is_pure(arrays, slots)) | arrays["early"][slots] if self._classifies else enough

    def _scores(self, arrays: Arrays, slot: int) -> np.ndarray:
        left = arrays["left"][slot, : arrays["splits"][slot]]
        return _smoothed_gini(left) + _smoothed_gini(arrays["total"][slot] - left)

    def _look_for_an_early_end(self, arrays: Arrays, slot: int) -> None:
        """End a leaf whose best candidate is ahead of the second by more than Hoeffding's bound."""
        params, depth, weight = self.params, int(arrays["depth"][slot]), float(arrays["weight"][slot])
        if params.finish_type.type != pb.SPLIT_FINISH_DOMINATE_HOEFFDING:
            return
        every = at_depth(params.finish_type.check_every_steps, depth)
        if weight < at_depth(params.min_split_samples, depth) or weight < arrays["finish_epoch"][slot] * every:
            return
        arrays["finish_epoch"][slot] += 1
        two = np.sort(self._scores(arrays, slot))[:2]
        sure = at_depth(params.dominate_fraction, depth)
        bound = 0.25 * params.num_outputs * weight * math.sqrt(math.log(1 / (1 - sure)) / (2 * weight))
        arrays["early"][slot] = len(two) == 2 and two[1] - two[0] > bound

    def _prune(self, arrays: Arrays, slot: int) -> None:
        """Drop the candidates that are behind."""
        params, depth, weight = self.params, int(arrays["depth"][slot]), float(arrays["weight"][slot])
        kind = params.pruning_type.type
        if kind == pb.SPLIT_PRUNE_NONE or self._finished(arrays, np.array([slot]))[0]:
            return
        if weight < arrays["prune_epoch"][slot] * at_depth(params.pruning_type.prune_every_samples, depth):
            return
        arrays["prune_epoch"][slot] += 1
        scores = self._scores(arrays, slot)
        if kind == pb.SPLIT_PRUNE_HOEFFDING:
            sure = at_depth(params.dominate_fraction, depth)
            spread = weight * (1 - 1 / params.num_outputs)
            bound = spread * math.sqrt(0.5 * math.log(1 / (1 - sure)) / weight)
            kept = np.flatnonzero(scores - scores.min(initial=np.inf) <= bound)
        else:
            worst = np.argsort(-scores, kind="stable")[: int(len(scores) * _PRUNED[kind])]
            kept = np.setdiff1d(np.arange(len(scores)), worst)
        for name in (*_PER_SPLIT, *_PER_SPLIT_AND_OUTPUT):
            row = arrays[name][slot]
            row[: len(kept)] = row[kept]
            row[len(kept) : len(scores)] = 0
        arrays["splits"][slot] = len(kept)

    # ----------------------------------------------------------------------------------------------------------- splits
    def grown(self, nodes: Iterable[int], size: int) -> tuple[Statistics, list[tuple[int, Split]]]:
        """The version in which leaves were split, and how each was, while the tree has less than ``max_nodes``.

        A leaf none of whose candidates tells examples apart begins anew.
        """
        new = self._successor()
        new.slots, new.free = dict(self.slots), list(self.free)
        splits: list[tuple[int, Split]] = []
        with self.changed(new) as kept:
            change = Change(*kept)
            for node in nodes:
                if size + 2 * len(splits) >= self.params.max_nodes or node not in new.slots:
                    continue
                slot = new.slots[node]
                depth = int(change.arrays["depth"][slot])
                best = new._best(change.arrays, slot)
                new._release(node)
                if best is None:
                    new.allocate(change, node, depth)
                    continue
                first = size + 2 * len(splits)
                splits.append((node, best))
                for child in (first, first + 1):
                    new.allocate(change, child, depth + 1)
        return new, splits

    def _best(self, arrays: Arrays, slot: int) -> Split | None:
        count = int(arrays["splits"][slot])
        left, total = arrays["left"][slot, :count], arrays["total"][slot]
        if self._classifies:
            useful = (left.sum(axis=1) > 0) & ((total - left).sum(axis=1) > 0)
            scores = self._scores(arrays, slot)
        else:
            on_left = arrays["count"][slot, :count]
            on_right = arrays["weight"][slot] - on_left
            useful = (on_left > 0) & (on_right > 0)
            scores = self._variances(arrays, slot, on_left, on_right)
        scores = np.where(useful, scores, np.inf)
        if not useful.any():
            return None
        best = int(np.argmin(scores))
        test = tuple(arrays[name][slot, best].item() for name in _TEST)
        sides = left[best].copy(), total - left[best]
        if self._classifies:
            return Split(test, *sides)
        return Split(test, sides[0] / on_left[best], sides[1] / on_right[best])

    @staticmethod
    def _variances(arrays: Arrays, slot: int, on_left: np.ndarray, on_right: np.ndarray) -> np.ndarray:
        count = len(on_left)
        left, square = arrays["left"][slot, :count], arrays["left_square"][slot, :count]
        scores = np.zeros(count, np.float32)
        with np.errstate(divide="ignore", invalid="ignore"):
            for sums, squares, examples in (
                (left, square, on_left),
                (arrays["total"][slot] - left, arrays["total_square"][slot] - square, on_right),
            ):
                mean = sums / examples[:, None]
                scores += (squares / examples[:, None] - mean * mean).sum(axis=1)
        return scores

    # --------------------------------------------------------------------------------------------------------- messages
    def written(self) -> bytes:
        """The statistics as a message ``FertileStats``: what was counted only if the forest's parameters ask for it."""
        message = pb.FertileStats()
        with self.held() as arrays:
            for node, slot in sorted(self.slots.items()):
                row = message.node_to_slot.add(node_id=node, depth=int(arrays["depth"][slot]))
                if self.params.checkpoint_stats:
                    self._write(arrays, slot, row)
        return message.SerializeToString()

    def _write(self, arrays: Arrays, slot: int, row: Any) -> None:
        row.post_init_leaf_stats.weight_sum = float(arrays["weight"][slot])
        self._write_counts(row.post_init_leaf_stats, arrays["total"][slot], arrays["total_square"][slot])
        for split in range(arrays["splits"][slot]):
            candidate = row.candidates.add()
            test = (arrays[name][slot, split].item() for name in _TEST)
            candidate.split.CopyFrom(test_message(*test))
            self._write_counts(candidate.left_stats, arrays["left"][slot, split], arrays["left_square"][slot, split])
            if not self._classifies:
                candidate.left_stats.weight_sum = float(arrays["count"][slot, split])

    def _write_counts(self, stat: Any, sums: np.ndarray, squares: np.ndarray) -> None:
        if self._classifies:
            counts = stat.classification
            sparse = self.params.stats_type == pb.STATS_SPARSE_GINI
            write_vector(sums, sparse=sparse, dense=counts.dense_counts, mapping=counts.sparse_counts)
        else:
            for values, vector in ((sums, stat.regression.mean_output), (squares, stat.regression.mean_output_squares)):
                write_vector(values, sparse=False, dense=vector, mapping=None)

    @classmethod
    def read(cls, message: bytes, params: Any) -> Statistics:
        """The statistics that `written` wrote; those of one leaf, the root, if the message is empty.

        Raises:
            ValueError: it is no such message.
        """
        try:
            rows = list(pb.FertileStats.FromString(message).node_to_slot)
        except Exception as error:
            raise ValueError("Unable to parse stats config.") from error
        made = cls(params)
        made.made = True
        change = Change(made._shared, [])
        for row in rows or [pb.FertileSlot()]:
            slot = made.allocate(change, row.node_id, row.depth)
            if row.HasField("post_init_leaf_stats"):
                made._read(change, slot, row)
        return made

    def _read(self, change: Change, slot: int, row: Any) -> None:
        arrays = change.arrays
        arrays["weight"][slot] = row.post_init_leaf_stats.weight_sum
        arrays["total"][slot], arrays["total_square"][slot] = self._read_counts(row.post_init_leaf_stats)
        for name in (*_PER_SPLIT, *_PER_SPLIT_AND_OUTPUT):
            change.reserve(name, slot + 1, len(row.candidates), *arrays[name].shape[2:])
        for split, candidate in enumerate(row.candidates):
            for name, value in zip(_TEST, read_test(candidate.split), strict=True):
                arrays[name][slot, split] = value
            arrays["threshold"][slot, split] = arrays["middle"][slot, split]
            arrays["left"][slot, split], arrays["left_square"][slot, split] = self._read_counts(candidate.left_stats)
            arrays["count"][slot, split] = candidate.left_stats.weight_sum
        arrays["splits"][slot] = len(row.candidates)

    def _read_counts(self, stat: Any) -> tuple[np.ndarray, np.ndarray]:
        outputs = self.params.num_outputs
        if self._classifies:
            counts = read_vector(stat.classification.dense_counts, stat.classification.sparse_counts, outputs)
            return counts, np.zeros(outputs, np.float32)
        none = pb.SparseTreeVector()
        vectors = stat.regression.mean_output, stat.regression.mean_output_squares
        sums, squares = (read_vector(vector, none, outputs) for vector in vectors)
        return sums, squares
