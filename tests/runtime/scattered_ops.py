"""A plugin of pytest that puts ops which name no device on four of them, by a hash of their names."""

from __future__ import annotations

import zlib

from anabranch.placement.devices import Device
from anabranch.placement.placer import Placer

_place = Placer.place


def _scattered(self, ops, owner, uses):
    placement = _place(self, ops, owner, uses)
    for op in ops:
        if not op._device:
            placement[op] = Device("cpu", zlib.crc32(op.name.encode()) % 4)
    for op in ops:
        maker = owner(op)
        if maker in placement:
            placement[op] = placement[maker]
    return placement


Placer.place = _scattered
