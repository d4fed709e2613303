"""Which system the cases of ``graph_cases`` run in; set before that module is imported."""

_chosen = []


def choose(tf, hot):
    """Sets the module that serves as ``tf`` and the function ``(session, fetch, feed) -> step``."""
    _chosen[:] = [tf, hot]


def chosen():
    """What was set."""
    return _chosen
