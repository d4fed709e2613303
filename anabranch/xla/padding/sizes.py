"""The sizes that a step's shapes follow: at which of them a program is traced, and numbers as functions of them.

A step has one size that changes from run to run (the rows of its batch, the length of its sequences) or two that change
apart (the lengths of sources and of targets, words and sentences). A number that tracing finds to depend on them is a
*line*: the coefficients of a polynomial with whole numbers. Three traces tell a multiple of one product of powers, and
a constant: ``a * n + b``, ``a * n * m + b`` (rows of a matrix that were words of sentences), ``a * n * n + b``
(attention has one score for each two words). Where something is more, such as a sum of both sizes, further traces tell
all coefficients.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Size = tuple[int, ...]
"""One or two sizes of a step."""
Powers = tuple[int, ...]
"""A product of powers of the sizes: the exponent of each."""
Line = tuple[int, ...]
"""Coefficients, one for each product of powers that a program's traces tell apart; the last is the constant."""
Terms = tuple[tuple[int, Powers], ...]
"""A sum of multiples of products; a single multiple of 0 is one that is still to be found."""
LEAST = 32
"""The smallest capacity of a single size: what fewer rows cost is mostly calls."""
LEAST_OF_TWO = 16
"""The smallest capacity of each of two, whose padding multiplies."""
_POWERS: dict[int, tuple[Powers, ...]] = {
    1: ((1,), (2,), (0,)),
    2: ((1, 0), (0, 1), (1, 1), (2, 0), (0, 2), (0, 0)),
}
_STEPS: dict[int, tuple[Size, ...]] = {
    1: ((0,), (1,), (3,), (4,)),
    2: ((0, 0), (1, 3), (3, 1), (1, 0), (0, 1), (4, 4), (3, 0)),
}
"""By how much the sizes of the traces are smaller than the capacity, one more than there are coefficients. They are
close to each other, as kernels choose their code by the size of arrays."""
MOST_OBSERVED = 12
"""So many sizes of a dimension are kept to find out which sum it is."""
_FIRST = 3
"""So many of them tell a multiple and a constant."""


class Refused(Exception):
    """A computation whose batch cannot be padded: ``reason`` says what it does, ``place`` in which op."""

    def __init__(self, reason: str, place: str = ""):
        super().__init__(reason, place)
        self.reason = reason
        self.place = place


class Uneven(Refused):
    """A number that is not a line."""


class Sizes:
    """The sizes at which a program is traced, its capacity first.

    Args:
        capacity: the largest sizes that it serves.
        sums: whether lines may be any polynomials, which takes more traces.
    """

    def __init__(self, capacity: Iterable[int], sums: bool = False) -> None:
        self.capacity: Size = tuple(capacity)
        self.sums = sums
        self.powers = _POWERS[len(self.capacity)]
        steps = _STEPS[len(self.capacity)][: None if sums else _FIRST]
        self.points = [tuple([c - s for c, s in zip(self.capacity, step, strict=True)]) for step in steps]
        self._products = np.array([[float(product(powers, p)) for powers in self.powers] for p in self.points])
        if sums:
            self._rows = _independent(self._products)
            self._inverse = np.linalg.inv(self._products[self._rows])
        self.line = functools.cache(self._line)
        """The line through a tuple of whole numbers, one for each of the traces; None if they are the same.

        Raises:
            Uneven: there is none.
        """

    def _line(self, values: tuple[int, ...]) -> Line | None:
        if all(value == values[0] for value in values):
            return None
        fitted = self.fit([np.asarray(value, np.float64) for value in values])
        if fitted is None:
            raise Uneven(f"sizes {values} for batches of {', '.join(map(str, self.points))}")
        return tuple([int(coefficient) for coefficient in fitted])

    def fit(self, values: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """Per product of powers an array of coefficients for arrays of float64 from each of the traces; None if they
        are not whole numbers.
        """
        stacked = np.stack(values)
        flat = stacked.reshape(len(values), -1)
        if not np.isfinite(flat).all():
            return None
        coefficients = np.round(self._inverse @ flat[self._rows]) if self.sums else self._multiples(flat)
        if not np.array_equal(self._products @ coefficients, flat) or not np.array_equal(
            coefficients[-1], np.round(coefficients[-1])
        ):
            return None
        return list(coefficients.reshape(len(self.powers), *stacked.shape[1:]))

    def _multiples(self, values: np.ndarray) -> np.ndarray:
        """The coefficients of a multiple of one product, and a constant, for each column of values that has such."""
        coefficients = np.zeros((len(self.powers), values.shape[1]))
        coefficients[-1] = values[0]
        open_ = (values != values[0]).any(0)
        for i in range(len(self.powers) - 1):
            products = self._products[:, i]
            times = np.round((values[0] - values[1]) / (products[0] - products[1]))
            constant = values[0] - times * products[0]
            fits = open_ & (values == times * products[:, None] + constant).all(0)
            coefficients[i, fits], coefficients[-1, fits] = times[fits], constant[fits]
            open_ &= ~fits
        return coefficients

    def at(self, line: Line, size: Size) -> int:
        """The number that a line gives for some sizes."""
        return sum(a * product(powers, size) for a, powers in zip(line, self.powers, strict=True))

    def lowest(self, line: Line, least: Size) -> int:
        """What a line is at least, for sizes from ``least`` up to the capacity."""
        ends = [least if a > 0 else self.capacity for a in line]
        return sum(a * product(powers, end) for a, powers, end in zip(line, self.powers, ends, strict=True))


def _independent(products: np.ndarray) -> list[int]:
    """The first rows of a matrix that determine all of its columns."""
    rows: list[int] = []
    for i in range(len(products)):
        if np.linalg.matrix_rank(products[[*rows, i]]) > len(rows):
            rows.append(i)
    return rows


def product(powers: Powers, size: Sequence[Any]) -> Any:
    """A product of powers of some sizes."""
    result: Any = 1
    for value, power in zip(size, powers, strict=True):
        for _ in range(power):
            result = value if isinstance(result, int) and result == 1 else result * value
    return result


def multiples(sizes: int) -> tuple[Powers, ...]:
    """The products that a dimension may be a multiple of."""
    return ((1,),) if sizes == 1 else ((1, 0), (0, 1), (1, 1))


def total(terms: Terms, size: Sequence[Any]) -> Any:
    """The sum of multiples of products of some sizes."""
    return sum(times * product(powers, size) for times, powers in terms)


class Observed:
    """What has been seen of a dimension in steps of ever new sizes."""

    __slots__ = ("_follows", "_lengths", "_multiples", "same")

    def __init__(self) -> None:
        self.same: int | None = None
        """The size that it has had in all steps; -1 if there is none."""
        self._multiples: dict[Powers, int] | None = None
        self._lengths: dict[Size, int] = {}
        self._follows = True

    def note(self, length: int, size: Size) -> bool:
        """Note one step; whether what the dimension has been in all of them may follow from their sizes."""
        self.same = length if self.same in (None, length) else -1
        times = {}
        for powers in multiples(len(size)):
            whole, rest = divmod(length, product(powers, size))
            if not rest:
                times[powers] = whole
        known = times if self._multiples is None else dict(self._multiples.items() & times.items())
        self._multiples = known
        self._follows = self._follows and self._lengths.get(size, length) == length
        if len(self._lengths) < MOST_OBSERVED:
            self._lengths[size] = length
        if self.same >= 0 or known:
            return True
        terms = self._sum() if self._follows else ()
        self._follows = terms is None or bool(terms and total(terms, size) == length)
        return self._follows

    def terms(self) -> tuple[Terms, ...]:
        """The sums that it may be; empty if that is not known."""
        if self._multiples:
            return tuple([((times, powers),) for powers, times in self._multiples.items()])
        terms = self._sum() if self._follows else ()
        return (terms,) if terms else ()

    def _sum(self) -> Terms | None:
        """The one sum that gives all lengths; empty if there is none, None if too little has been seen."""
        sizes = list(self._lengths)
        powers = (*multiples(len(sizes[0])), (0,) * len(sizes[0]))
        products = np.array([[float(product(one, size)) for one in powers] for size in sizes])
        if len(sizes) <= len(powers) or np.linalg.matrix_rank(products) < len(powers):
            return None
        lengths = np.array([self._lengths[size] for size in sizes], np.float64)
        found: Any = np.round(np.linalg.lstsq(products, lengths, rcond=None)[0])
        if not np.array_equal(products @ found, lengths):
            return ()
        return tuple([(int(a), one) for a, one in zip(found, powers, strict=True) if a])


def capacity(size: Size) -> Size:
    """The capacity of the program that serves some sizes.

    Of a single one: 32, 64, and from there powers of two and their halfway points.
    """
    if len(size) > 1:
        return tuple([max(LEAST_OF_TWO, _power(n)) for n in size])
    (n,) = size
    if n <= LEAST:
        return (LEAST,)
    power = _power(n)
    halfway = power // 4 * 3
    return (halfway if n <= halfway and power > 2 * LEAST else power,)


def least(of: Size) -> Size:
    """The smallest sizes that a capacity serves."""
    if len(of) > 1:
        return tuple([1 if n <= LEAST_OF_TWO else n // 2 + 1 for n in of])
    (n,) = of
    if n <= LEAST:
        return (1,)
    below = n // 3 * 2 if n % 3 == 0 else n // 4 * 3 if n > 2 * LEAST else n // 2
    return (below + 1,)


def _power(n: int) -> int:
    """The power of two that is not less than a number."""
    return 1 << max(n - 1, 0).bit_length()
