"""Versions that share a dictionary are, each, what a copy would be, in whatever order they are looked at."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.core.values.versions import Version


class Numbers(Version):
    @staticmethod
    def _swap(shared, place):
        key, value = place
        old = shared.pop(key, None)
        if value is not None:
            shared[key] = value
        return key, old

    def with_number(self, *pairs, fails=False):
        new = Numbers({})
        with self.changed(new) as (shared, undo):
            for key, value in pairs:
                undo.append((key, shared.get(key)))
                shared[key] = value
            if fails:
                raise OverflowError("too many")
        return new

    def copy(self):
        with self.held() as shared:
            return dict(shared)


def test_each_version_is_what_a_copy_would_be():
    draw = np.random.RandomState(3)
    versions, copies = [Numbers({})], [{}]
    for _ in range(300):
        at = draw.randint(len(versions))
        pairs = draw.randint(1, 9, (draw.randint(4), 2)).tolist()
        versions.append(versions[at].with_number(*pairs))
        copies.append(copies[at] | dict(pairs))
        seen = draw.randint(len(versions))
        assert versions[seen].copy() == copies[seen]
    assert [version.copy() for version in versions] == copies
    assert len({id(version._shared) for version in versions}) == 1


def test_an_update_that_fails_changes_nothing():
    old = Numbers({}).with_number((1, 2))
    with pytest.raises(OverflowError, match="too many"):
        old.with_number((1, 5), (3, 4), (1, 6), fails=True)
    assert old.copy() == {1: 2}
