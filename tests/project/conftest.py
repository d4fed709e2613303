"""The syntax trees of the whole package are kept while its rules are checked, and no longer.

They are 1.5 million objects without a circle among them. The collector of garbage would walk through them again and
again while they are made, which takes twice as long as parsing, and in each collection of the tests that follow.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from sources import parsed


@pytest.fixture(scope="package", autouse=True)
def trees_for_this_folder() -> Iterator[None]:
    gc.disable()
    yield
    parsed.cache_clear()
    gc.enable()
