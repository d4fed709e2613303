"""Settings that every test shares.

Hypothesis draws the same examples on every run, so that a failure in continuous integration repeats on a desk;
`HYPOTHESIS_PROFILE=search` looks for new ones.
"""

from __future__ import annotations

import os

import hypothesis

# What one test compiles, no other finds on disk; tests of the cache have folders of their own.
os.environ["ANABRANCH_CACHE"] = "off"

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50, database=None)
hypothesis.settings.register_profile("search", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
