"""Fixtures of the runtime's tests: a fresh default graph, and sessions of each tier."""

from __future__ import annotations

import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture(params=["interpreted", "compiled"])
def tier(request):
    return request.param


@pytest.fixture
def session(tier):
    with tf.Session(config=tf.SessionOptions(tier=tier)) as found:
        yield found
