"""Objects that several makers mean by one ``shared_name``: each must have asked for the same one."""

from __future__ import annotations

import weakref
from typing import Any

_checked: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def shared_object(ctx: Any, handle: Any, kind: str) -> Any:
    """The object behind the first operand of an op, a ``handle`` to a resource of a kind.

    If the handle comes straight from the op that makes it, that op is checked against the object, once.
    """
    shared = ctx.resource(handle)
    inputs = getattr(ctx.op, "_inputs", None)
    if inputs:
        maker = inputs[0].op
        if maker.definition.makes == kind:
            known = _checked.get(maker)
            if known is None or known() is not shared:
                shared.check_maker(maker.type, maker._attrs, ctx.op)
                _checked[maker] = weakref.ref(shared)
    return shared
