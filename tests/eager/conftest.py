"""Tests of this folder run where ops run at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import anabranch as tf
from anabranch.eager import mode


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    with mode.eager_mode():
        mode.EAGER.seed = None
        yield
        tf.reset_default_graph()  # whose collections variables of an eager store are in
        mode.EAGER.seed = None
