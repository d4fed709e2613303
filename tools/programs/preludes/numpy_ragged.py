"""NumPy 1.24 and later refuse rows of different lengths in `np.array`; before, they were an array of objects."""

import numpy as np

_array = np.array


def array(value, *args, **kwargs):
    """`np.array` that makes objects of rows of different lengths, and copies only if it must on copy=False."""
    if kwargs.get("copy") is False:
        kwargs["copy"] = None
    try:
        return _array(value, *args, **kwargs)
    except ValueError as problem:
        if args or "dtype" in kwargs or "inhomogeneous" not in str(problem):
            raise
        return _array(value, dtype=object, **kwargs)


np.array = array
