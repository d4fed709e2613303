"""The interpreter's own: nested bodies, straight-line code, results of Python functions."""
