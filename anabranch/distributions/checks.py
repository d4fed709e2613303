"""What ``validate_args=True`` checks: parameters when a distribution is made, values when something is asked of them.

Each function gives assertions, to be built by :func:`checked`; what is wrong and known while the graph is built is
refused at once. Words are TensorFlow's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import control_dependencies
from anabranch.core.values import dtypes
from anabranch.ops.math import public_assert

Assertion = Callable[[], Any]


def checked(tensor: Any, ok: bool, *assertions: Assertion) -> Any:
    """``tensor``, after the assertions if ``ok`` says that arguments are to be validated."""
    if not ok:
        return tensor
    with control_dependencies([make() for make in assertions]):
        return build("Identity", tensor)


def positive(x: Any, text: str) -> Assertion:
    """All elements are above 0."""
    return lambda: public_assert.assert_positive(x, message=text)


def not_negative(x: Any, text: str) -> Assertion:
    """No element is below 0."""
    return lambda: public_assert.assert_non_negative(x, message=text)


def less(x: Any, y: Any, text: str) -> Assertion:
    """All elements of ``x`` are below those of ``y``."""
    return lambda: public_assert.assert_less(x, y, message=text)


def equal(x: Any, y: Any, text: str) -> Assertion:
    """The elements are equal."""
    return lambda: public_assert.assert_equal(x, y, message=text)


def near(x: Any, y: Any, text: str) -> Assertion:
    """The elements are equal but for rounding."""
    return lambda: public_assert.assert_near(x, y, message=text)


def whole(x: Any, kind: Any, text: str) -> Assertion:
    """Elements that are floats are whole numbers of the integer type ``kind``."""
    return lambda: public_assert.assert_equal(
        x, build("Cast", build("Cast", x, DstT=kind), DstT=x.dtype.base), message=text
    )


def several_events(x: Any) -> Assertion:
    """The last dimension, of which each entry is an event, has two entries at least."""
    text = "A categorical-distribution parameter must have at least 2 events."
    return lambda: public_assert.assert_greater_equal(build("Shape", x)[-1], 2, message=text)


def counts(x: Any, name: str = "") -> list[Assertion]:
    """The elements are whole numbers from 0 on; a message calls them ``name``, or shows the tensor."""
    name = name or f"'{x}'"
    assertions: list[Assertion] = [
        lambda: public_assert.assert_non_negative(x, message=f"{name} must be non-negative.")
    ]
    if x.dtype.is_floating:
        kind = dtypes.int64 if x.dtype.base == dtypes.float64 else dtypes.int32
        assertions.append(whole(x, kind, f"{name} cannot contain fractional components."))
    return assertions


def classes(x: Any, kind: dtypes.DType) -> list[Assertion]:
    """The elements stand for numbers from 0 on that ``kind`` holds: bools for ``tf.bool``."""
    assertions: list[Assertion] = [
        lambda: public_assert.assert_non_negative(x, message="Elements must be non-negative.")
    ]
    if x.dtype.is_floating:
        assertions.append(whole(x, kind, f"Elements must be {kind.name}-equivalent."))
    else:
        largest = 1 if kind == dtypes.bool else kind.max
        if x.dtype.base.max > largest:
            words = f"Elements cannot exceed {largest}."
            assertions.append(lambda: public_assert.assert_less_equal(x, largest, message=words))
    return assertions
