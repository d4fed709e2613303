"""Tests of this folder run where ops run at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.eager import mode


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    with mode.eager_mode():
        mode.EAGER.seed = None
        yield
        mode.EAGER.seed = None
