"""What the tests of Keras share: Keras, loaded once in the process, and ops that run when they are applied."""

from __future__ import annotations

import importlib.util

import pytest

from anabranch.eager.mode import EAGER


def pytest_collection_modifyitems(items):
    if importlib.util.find_spec("keras") is None:
        for item in items:
            if "tests/keras" in str(item.path):
                item.add_marker(pytest.mark.skip(reason="Keras is not installed: pip install 'anabranch[keras]'"))


@pytest.fixture(scope="session")
def keras():
    """Keras on Anabranch."""
    from anabranch.keras import loader

    return loader.keras()


@pytest.fixture
def eager():
    """A block whose ops run at once."""
    with EAGER.as_default():
        yield
