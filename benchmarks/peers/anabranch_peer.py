"""The cases in Anabranch, through its public API, in its usual tier."""

import importlib
import time

import anabranch as tf
from anabranch.xla import kernel_context, program
from peers import system

tf.keep_memory()
MOST_SECONDS = 60
"""Seconds after which a step is measured in the tier that it is in."""


def hot(session, fetch, feed):
    """A step that runs after the policy has compiled the plan."""
    end = time.monotonic() + (0 if system.cold else MOST_SECONDS)
    while time.monotonic() < end and "tier: compiled" not in session.explain(fetch, feed):
        session.run(fetch, feed)
    return lambda: session.run(fetch, feed)


system.choose(tf, hot, tf.nn.rnn_cell)
graph_cases = importlib.import_module("peers.graph_cases")


def without_checks(make):
    """The case with the engine's checks left out: what they cost is the difference."""

    def made():
        program._shared.clear()  # the checked program has the same structure
        kept = kernel_context.TraceContext.check
        kernel_context.TraceContext.check = lambda *args, **kwargs: None
        try:
            return make()
        finally:
            kernel_context.TraceContext.check = kept

    return made


loop_cases = importlib.import_module("peers.loop_cases")

CASES = {**graph_cases.CASES, **loop_cases.CASES, "embedding_unchecked": without_checks(graph_cases.embedding)}
