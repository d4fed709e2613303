"""The names that the expressions of the table of constants are evaluated with, here and in the tests."""

import array
import collections
import decimal
import enum
import fractions

import ml_dtypes
import numpy as np


class Colour(enum.IntEnum):
    """An enumeration whose members are integers."""

    RED = 1


class Plain(enum.Enum):
    """An enumeration whose members are not integers."""

    A = 1


Pair = collections.namedtuple("Pair", "x y")


def namespace() -> dict:
    """Global names for the expressions."""
    return {
        "np": np,
        "ml_dtypes": ml_dtypes,
        "Colour": Colour,
        "Plain": Plain,
        "Pair": Pair,
        "array": array.array,
        "Fraction": fractions.Fraction,
        "Decimal": decimal.Decimal,
    }
