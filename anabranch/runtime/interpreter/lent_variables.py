"""Variables that nested bodies only look at: lookups in a table inside of a loop.

A step that writes rows of a variable where they are (:mod:`rows_in_place`) must know that nobody has kept its value. A
body that does no more with it than gather rows is lent the value while it runs, like an op whose kernel borrows. This
follows the argument that stands for the variable through the ops of the body.
"""

from __future__ import annotations

from anabranch.core.graph.body_ops import bodies_of, passes_through
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.rewrite import reach
from anabranch.runtime.state.borrowing import may_borrow

MOST_FOLLOWED = 256
"""Uses that are followed; a variable with more counts as kept."""


def only_looks(op: Operation, maker: Operation) -> bool:
    """Whether the bodies of an op only look at the variable that ``maker`` makes."""
    places = [
        i
        for i, tensor in enumerate(op._inputs)
        if (tensor.dtype.is_ref or tensor._handle is not None) and reach.known_maker_of(tensor) is maker
    ]
    left = [MOST_FOLLOWED]
    return bool(places) and all(_looked_at_inside(op, i, left) for i in places)


def _looked_at_inside(op: Operation, index: int, left: list[int]) -> bool:
    """Whether an op with bodies only looks at its input ``index``, and nobody takes it from among its outputs."""
    for use in bodies_of(op):
        place = index - use.first
        if not 0 <= place < len(use.body.args):
            continue
        arg = use.body.args[place]
        handed_on = [i for i, output in enumerate(use.body.outputs) if output is arg]
        if handed_on and not (handed_on == [place] and use.first == 0 and passes_through(use.body, place)):
            return False
        if any(op._outputs[i]._consumers for i in handed_on) or not _only_looked_at(arg, left):
            return False
    return True


def _only_looked_at(tensor: Tensor, left: list[int]) -> bool:
    for user in tensor.consumers():
        left[0] -= 1
        if left[0] < 0:
            return False
        definition = user.definition
        if may_borrow(definition):
            continue
        if bodies_of(user):
            places = [i for i, source in enumerate(user._inputs) if source is tensor]
            if not all(_looked_at_inside(user, i, left) for i in places):
                return False
        elif definition.passes is not None and len(user._outputs) == 1:
            output = user._outputs[0]
            if output in user.body.outputs or not _only_looked_at(output, left):
                return False
        else:
            return False
    return True
