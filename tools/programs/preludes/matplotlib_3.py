"""Matplotlib 3.3 and later: the preambles of LaTeX are text; before, they could be lists of lines."""

import matplotlib

_update = matplotlib.rcParams.update


def update(*given, **more):
    """`rcParams.update` that joins lists of lines."""
    for options in (*given, more):
        for name in ("pgf.preamble", "text.latex.preamble"):
            if isinstance(options.get(name), list):
                options[name] = "\n".join(options[name])
    return _update(*given, **more)


type(matplotlib.rcParams).update = lambda self, *given, **more: update(*given, **more)
