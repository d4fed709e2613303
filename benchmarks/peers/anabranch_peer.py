"""The cases in Anabranch, through its public API, in its usual tier."""

import importlib

import anabranch as tf
from anabranch.xla import kernel_context, program
from peers import system

tf.keep_memory()


def hot(session, fetch, feed):
    """A step that runs after the policy has compiled the plan, and in the form in which it will stay."""
    for _ in range(0 if system.cold else 600):
        told = session.explain(fetch, feed)
        if "tier: compiled" in told and "a draft" not in told:
            break
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
