"""Objects that several makers mean by one ``shared_name``: each must have asked for the same one."""

from __future__ import annotations

import weakref
from typing import Any

from anabranch.core.contract.kernels import of_kind

_checked: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def shared_object(ctx: Any, handle: Any, kind: str, of: type) -> Any:
    """The object of a class behind the first operand of an op, a ``handle`` to a resource of a kind.

    If the handle comes straight from the op that makes it, that op is checked against the object, once.
    """
    shared = of_kind(ctx, ctx.resource(handle), of, f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}")
    inputs = getattr(ctx.op, "_inputs", None)
    if inputs:
        maker = inputs[0]._made_by
        if maker is not None and maker.definition.makes == kind:
            known = _checked.get(maker)
            if known is None or known() is not shared:
                shared.check_maker(maker.type, maker._attrs, ctx.op)
                _checked[maker] = weakref.ref(shared)
    return shared
