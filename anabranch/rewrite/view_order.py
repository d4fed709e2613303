"""The elements of a place of a functional view: single ops, and regions of ops that run under one more predicate.

Policy. Ops are listed as they could run, as long as possible outside of regions; when only ops of regions are left, one
region is chosen, preferably one that waits for nothing else, and runs as far as it goes. Each such run is one region of
the result, so no two of them need each other. A region that is left and entered again (by a gradient, by the next
layer) counts as another one, and what only computes goes into that in which it is used.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.regions import SWITCHES, Item, Loop
from anabranch.rewrite.view_place import Place, does_more


class Order:
    """Find elements."""

    def __init__(self) -> None:
        self.parents: dict[Item, list[Item]] = {}

    @staticmethod
    def fits(item: Item, place: Place) -> bool:
        path = place.regions.item_paths[item]
        return path is not None and all(place.value_of(pred) in (None, value) for pred, value in path)

    def _group(self, item: Item, place: Place) -> Tensor | None:
        """The predicate of the region that an element belongs to; None if it stands by itself."""
        regions = place.regions
        for pred, _ in regions.item_paths[item] or ():
            if place.value_of(pred) is None:
                return pred
        if isinstance(item, Loop):
            return None
        if item.type in SWITCHES:
            # It is what stands behind it, so it belongs to a region only if that does.
            root, pivot = regions.root_of(item._inputs[1]), regions.pivots.get(item._inputs[0].op)
            if isinstance(root, Tensor) and isinstance(pivot, tuple) and pivot[0] is root:
                return root if place.value_of(root) is None else None
            return None
        pivot = regions.pivots.get(item)
        if isinstance(pivot, tuple) and place.value_of(pivot[0]) is None:
            return pivot[0]
        return None

    def _parents(self, item: Item, place: Place) -> list[Item]:
        parents = self.parents.get(item)
        if parents is None:
            parents = []
            for parent in place.regions.parents(item, place.frame):
                if not isinstance(parent, Loop) and parent.type == "ControlTrigger":
                    parents += [
                        above for above in self._parents(parent, place) if isinstance(above, Loop) or does_more(above)
                    ]
                else:
                    parents.append(parent)
            self.parents[item] = parents
        return parents

    def elements(self, items: Sequence[Item], place: Place) -> list[tuple[Tensor | None, list[Item]]]:
        """Elements in order: single items, and regions with their predicate."""
        group = {item: self._group(item, place) for item in items}
        if not any(pred is not None for pred in group.values()):
            return [(None, [item]) for item in items]
        parents = {item: [parent for parent in self._parents(item, place) if parent in group] for item in items}
        level = self._levels(items, group, parents)
        waiting = {item: len(parents[item]) for item in items}
        children: dict[Item, list[Item]] = {item: [] for item in items}
        outside: dict[Any, int] = {}
        """Region -> how many edges into it are not done."""
        for item in items:
            for parent in parents[item]:
                children[parent].append(item)
                if group[item] is not None and level[item] != level[parent]:
                    outside[level[item]] = outside.get(level[item], 0) + 1
        place_of = {item: i for i, item in enumerate(items)}
        single: list[int] = []
        ready: dict[Any, list[int]] = {}

        def release(item: Item) -> None:
            if group[item] is None:
                heapq.heappush(single, place_of[item])
            else:
                heapq.heappush(ready.setdefault(level[item], []), place_of[item])

        def done(item: Item) -> None:
            for child in children[item]:
                waiting[child] -= 1
                if group[child] is not None and level[child] != level[item]:
                    outside[level[child]] -= 1
                if not waiting[child]:
                    release(child)

        for item in items:
            if not waiting[item]:
                release(item)
        elements: list[tuple[Tensor | None, list[Item]]] = []
        while single or ready:
            if single:
                item = items[heapq.heappop(single)]
                elements.append((None, [item]))
                done(item)
                continue
            chosen = min(ready, key=lambda region: (outside.get(region, 0) > 0, ready[region][0]))
            members = []
            heap = ready[chosen]
            while heap:
                item = items[heapq.heappop(heap)]
                members.append(item)
                done(item)
            del ready[chosen]
            elements.append((chosen[0], members))
        return elements

    @staticmethod
    def _levels(items: Sequence[Item], group: Any, parents: Any) -> dict[Item, Any]:
        """Region of each item: its predicate, and how often that was left on the way to it."""
        level: dict[Item, Any] = {}
        reach: dict[Item, dict[Tensor, int]] = {}
        for item in items:
            above: dict[Tensor, int] = {}
            for parent in parents[item]:
                counts = reach[parent]
                own = group[parent]
                if own is not None and own is not group[item]:
                    counts = {**counts, own: max(counts.get(own, 0), level[parent][1] + 1)}
                if not above:
                    above = counts
                elif counts is not above:
                    more = {pred: count for pred, count in counts.items() if count > above.get(pred, 0)}
                    if more:
                        above = {**above, **more}
            pred = group[item]
            if pred is not None:
                same = [level[parent][1] for parent in parents[item] if group[parent] is pred]
                level[item] = (pred, max([above.get(pred, 0), *same]))
            else:
                level[item] = (None, item)
            reach[item] = above
        children: dict[Item, list[Item]] = {item: [] for item in items}
        for item in items:
            for parent in parents[item]:
                children[parent].append(item)
        for item in reversed(items):  # what only computes goes where it is used, so that it need not leave its region
            users = children[item]
            if (
                users
                and group[item] is not None
                and all(group[user] is group[item] for user in users)
                and not isinstance(item, Loop)
                and item.definition.effect.kind == "pure"
            ):
                level[item] = (group[item], min(level[user][1] for user in users))
        return level
