"""Variables that a transaction over several tasks holds on this one, from its first read to its commit or undoing.

Policy. A step that runs on several tasks is several steps, each of which commits by itself. For the whole to commit
together or not at all, a claim on all that they touch here is held around them: what they publish is hidden from others
by it, and the versions that were there before are pinned, so that no program is given their buffers and they can be
put back. The price is a copy of each variable that is written.
"""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.core.cancellation import CancellationToken
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import Claim, RandomCounter, Slot, Version


class Held:
    """What a transaction holds of a manager; steps whose token names it as their holder are part of it.

    Args:
        manager: whose variables they are.
        reads: variables that are only read.
        writes: variables that are written.
        counters: random streams that are drawn from.
    """

    def __init__(
        self,
        manager: ResourceManager,
        reads: Iterable[Slot],
        writes: Iterable[Slot],
        counters: Iterable[RandomCounter],
    ) -> None:
        self._manager = manager
        self._writes = tuple(dict.fromkeys(writes))
        self._counters = tuple(dict.fromkeys(counters))
        exclusive = frozenset((*self._writes, *self._counters))
        self._claim = Claim(frozenset(reads) - exclusive, exclusive, self)
        self._before: list[tuple[Slot, Version | None]] = []
        self._positions: list[tuple[RandomCounter, int]] = []

    def begin(self, token: CancellationToken) -> None:
        """Wait until nobody else holds any of it.

        Raises:
            OpError: that of the token.
        """
        manager = self._manager
        try:
            manager.begin(self._claim, token)
            with manager.changed:
                for slot in self._writes:
                    if slot.version is not None:
                        slot.version.pins += 1
                    self._before.append((slot, slot.version))
                self._positions = [(counter, counter.position) for counter in self._counters]
                manager.held.append(self._claim)
        except BaseException:
            self.keep()
            raise

    def keep(self) -> None:
        """Let others see what has been written."""
        manager = self._manager
        with manager.changed:
            if self._claim in manager.held:
                manager.held.remove(self._claim)
            for _, version in self._before:
                if version is not None:
                    version.pins -= 1
            self._before = []
            manager.changed.notify_all()
        manager.end(self._claim)

    def undo(self) -> None:
        """Put back what was there before."""
        with self._manager.changed:
            for slot, version in self._before:
                current = slot.version
                if current is version:
                    continue
                if current is None or version is None or current.value.shape != version.value.shape:
                    slot.end_layouts()
                slot.version, slot.lost = version, False
            for counter, position in self._positions:
                counter.position = position
        self.keep()
