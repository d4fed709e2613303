"""One program for all sizes of a batch up to a capacity: which rows exist is a number that the program is given.

Policy. A computation is traced at its capacity and at some smaller sizes. The jaxprs are read side by side: where
they have the same equations, each dimension, and each number that is not the same in all of them, is a line
``a * n + b`` in the size ``n``, or a polynomial in two sizes (:mod:`anabranch.xla.padding.sizes`). A dimension that
depends on ``n`` is *padded*: in the array of the program its first ``a * n + b`` places are what the exact computation
has there, the rest has no meaning. :class:`Masked` computes the jaxpr of the capacity so that this stays true, equation
by equation:

- where places do not meet (arithmetic, products and convolutions along other dimensions, gathers of rows) the equation
  stands as it is;
- where they meet (sums and products along a padded dimension, the checks' `all`) the padding is replaced by the neutral
  element first, so that not even a NaN in it is seen;
- numbers that depend on ``n`` are computed from the size that the program is given;
- anything else raises :class:`Refused`.

So what may be padded follows from what an op's kernel does, not from its name, and holds for users' ops as well. What
the traces cannot show, a decision that the *graph* takes by its sizes, is checked for each size that comes; see
:mod:`anabranch.xla.padding.batches`.
"""

from __future__ import annotations

from typing import ClassVar

from anabranch.xla.padding import bodies, meetings, places
from anabranch.xla.padding.equations import Computation, Rules
from anabranch.xla.padding.sizes import Refused, Sizes

__all__ = ["Masked", "Refused", "Sizes"]


class Masked(Computation):
    """A computation at its capacity, for sizes that it is given."""

    rules: ClassVar[Rules] = Rules.joined(places.rules, meetings.rules, bodies.rules)
