"""What tests of compiled programs share."""

from __future__ import annotations

import pytest

from anabranch.core import cache
from anabranch.xla import program as programs


@pytest.fixture
def compiled(monkeypatch):
    """The programs that are compiled from now on; what other tests compiled is not found."""
    found = []
    plain = programs.Program._compile

    def noted(self, *args, **options):
        made = plain(self, *args, **options)
        found.append(self)
        return made

    monkeypatch.setattr(programs.Program, "_compile", noted)
    monkeypatch.setattr(programs, "_shared", cache.Cache("executables", 1024))
    return found
