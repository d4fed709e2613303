"""Lists that memory does not hold."""

from __future__ import annotations

import pytest

import anabranch as tf
from anabranch.core.values import dtypes, host_list


def test_a_list_that_memory_does_not_hold(monkeypatch):
    def refuse(*_, **__):
        raise MemoryError

    monkeypatch.setattr(host_list.HostList, "__init__", refuse)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="a list of 3 elements"):
        host_list.HostList.blank(dtypes.float32, (2,), 3)
