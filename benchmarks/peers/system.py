"""Which system the cases of ``graph_cases`` run in; set before that module is imported."""

cold = False
"""Whether a case is made to compare its losses: no run before the first one that counts."""

_chosen = []


def choose(tf, hot, cells):
    """Sets the module that serves as ``tf``, the function ``(session, fetch, feed) -> step``, and RNN cells."""
    _chosen[:] = [tf, hot, cells]


def chosen():
    """What was set."""
    return _chosen
