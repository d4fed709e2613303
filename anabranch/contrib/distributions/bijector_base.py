"""The base of bijectors: what is computed once, which determinant follows from which, sums over an event.

Policy. In a graph, a bijector remembers what it has built: ``inverse(y)`` of a ``y`` that ``forward(x)`` gave is ``x``
itself, and the determinant at one is minus the one at the other. So a sample's density needs no inverse, which is
cheaper, and exact where the inverse loses digits. Where ops run at once nothing is remembered, lest all values be kept.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public

_HOME = "contrib.distributions.bijectors."


class _Pair:
    """A value of ``x`` with that of ``y``, as far as they are built, and determinants of the inverse for events."""

    def __init__(self, x: Any, y: Any, kwargs: dict[str, Any]) -> None:
        self.x, self.y, self.kwargs = x, y, kwargs
        self.determinants: dict[Any, Any] = {}


@public(_HOME + "Bijector")
class Bijector:
    """An invertible function; the base of the others, and of those that a program adds.

    Args:
        graph_parents: tensors that it depends on.
        is_constant_jacobian: whether the determinant is the same everywhere.
        validate_args: whether arguments are checked when they are used.
        dtype: of arguments; that of what is given if None.
        forward_min_event_ndims: how many last dimensions ``forward`` works on.
        inverse_min_event_ndims: how many last dimensions ``inverse`` works on; those of ``forward`` if None.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        graph_parents: Sequence[Any] | None = None,
        is_constant_jacobian: bool = False,
        validate_args: bool = False,
        dtype: Any = None,
        forward_min_event_ndims: int | None = None,
        inverse_min_event_ndims: int | None = None,
        name: str | None = None,
    ) -> None:
        if forward_min_event_ndims is None and inverse_min_event_ndims is None:
            raise ValueError(
                "Must specify at least one of `forward_min_event_ndims` and `inverse_min_event_ndims`.\n"
                + errors.message("neither of both", "numbers of dimensions", "forward_min_event_ndims=0")
            )
        self._graph_parents = list(graph_parents or ())
        self._is_constant_jacobian, self._validate_args = is_constant_jacobian, validate_args
        self._dtype = None if dtype is None else tf.as_dtype(dtype)
        ndims = forward_min_event_ndims, inverse_min_event_ndims
        self._forward_min_event_ndims = int(ndims[0] if ndims[0] is not None else ndims[1] or 0)
        self._inverse_min_event_ndims = int(ndims[1] if ndims[1] is not None else ndims[0] or 0)
        self._name = name or _snake(type(self).__name__.lstrip("_"))
        self._from_x: dict[Any, _Pair] = {}
        self._from_y: dict[Any, _Pair] = {}
        """What was built, by the identity of a tensor that the pair holds."""

    # ------------------------------------------------------------------------------------------------------ what it is
    @property
    def graph_parents(self) -> list[Any]:
        """Tensors that it depends on."""
        return list(self._graph_parents)

    @property
    def forward_min_event_ndims(self) -> int:
        """How many last dimensions ``forward`` works on."""
        return self._forward_min_event_ndims

    @property
    def inverse_min_event_ndims(self) -> int:
        """How many last dimensions ``inverse`` works on."""
        return self._inverse_min_event_ndims

    @property
    def is_constant_jacobian(self) -> bool:
        """Whether the determinant is the same everywhere."""
        return self._is_constant_jacobian

    @property
    def validate_args(self) -> bool:
        """Whether arguments are checked when they are used."""
        return self._validate_args

    @property
    def dtype(self) -> Any:
        """Of arguments; None if any fits."""
        return self._dtype

    @property
    def name(self) -> str:
        """Name of the scope of its ops."""
        return self._name

    def forward_event_shape(self, input_shape: Any) -> Any:
        """The shape that ``forward`` makes of a shape."""
        return self._forward_event_shape(tf.TensorShape(input_shape))

    def inverse_event_shape(self, output_shape: Any) -> Any:
        """The shape that ``inverse`` makes of a shape."""
        return self._inverse_event_shape(tf.TensorShape(output_shape))

    def forward_event_shape_tensor(self, input_shape: Any, name: str = "forward_event_shape_tensor") -> Any:
        """The shape that ``forward`` makes of a shape, as a tensor."""
        with self._scope(name):
            return self._forward_event_shape_tensor(tf.convert_to_tensor(input_shape, tf.int32))

    def inverse_event_shape_tensor(self, output_shape: Any, name: str = "inverse_event_shape_tensor") -> Any:
        """The shape that ``inverse`` makes of a shape, as a tensor."""
        with self._scope(name):
            return self._inverse_event_shape_tensor(tf.convert_to_tensor(output_shape, tf.int32))

    # ------------------------------------------------------------------------------------------------- what it computes
    def forward(self, x: Any, name: str = "forward") -> Any:
        """The function of ``x``."""
        return self._call_forward(x, name)

    def inverse(self, y: Any, name: str = "inverse") -> Any:
        """The ``x`` whose function is ``y``; a tuple of all if the function gives one ``y`` for several."""
        return self._call_inverse(y, name)

    def forward_log_det_jacobian(self, x: Any, event_ndims: int, name: str = "forward_log_det_jacobian") -> Any:
        """The logarithm of the determinant of the Jacobian at ``x``, for events of ``event_ndims`` dimensions.

        Raises:
            ValueError: events have fewer dimensions than the function works on.
            NotImplementedError: the class has neither determinant, or its function gives one ``y`` for several ``x``.
        """
        return self._call_forward_log_det_jacobian(x, event_ndims, name)

    def inverse_log_det_jacobian(self, y: Any, event_ndims: int, name: str = "inverse_log_det_jacobian") -> Any:
        """The logarithm of the determinant of the inverse's Jacobian at ``y``; errors as above."""
        return self._call_inverse_log_det_jacobian(y, event_ndims, name)

    def _call_forward(self, x: Any, name: str, **kwargs: Any) -> Any:
        with self._scope(name):
            x = self._given(x)
            if not self._is_injective:
                return self._forward(x, **kwargs)
            pair = self._pair(x, None, kwargs)
            if pair.y is None:
                pair.y = self._forward(x, **kwargs)
                self._remember(pair)
            return pair.y

    def _call_inverse(self, y: Any, name: str, **kwargs: Any) -> Any:
        with self._scope(name):
            y = self._given(y)
            if not self._is_injective:
                return self._inverse(y, **kwargs)
            pair = self._pair(None, y, kwargs)
            if pair.x is None:
                pair.x = self._inverse(y, **kwargs)
                self._remember(pair)
            return pair.x

    def _call_forward_log_det_jacobian(self, x: Any, event_ndims: int, name: str, **kwargs: Any) -> Any:
        if not self._is_injective:
            raise NotImplementedError(
                "forward_log_det_jacobian cannot be implemented for non-injective transforms.\n"
                + errors.message(
                    f"the Jacobian of {self._name}", "that of its inverse", "inverse_log_det_jacobian(y, event_ndims)"
                )
            )
        with self._scope(name):
            x = self._given(x)
            extra, own = self._extra(event_ndims, self._forward_min_event_ndims), self._forward_min_event_ndims
            pair = self._pair(x, None, kwargs)
            if extra not in pair.determinants:
                try:
                    found = -self._summed(self._forward_log_det_jacobian(x, **kwargs), x, extra, own)
                except NotImplementedError as missing:
                    try:
                        y = self._forward(x, **kwargs) if pair.y is None else pair.y
                        value = self._inverse_log_det_jacobian(y, **kwargs)
                    except NotImplementedError:
                        raise missing from None
                    found, pair.y = self._summed(value, y, extra, self._inverse_min_event_ndims), y
                pair.determinants[extra] = found
                self._remember(pair)
            return -pair.determinants[extra]

    def _call_inverse_log_det_jacobian(self, y: Any, event_ndims: int, name: str, **kwargs: Any) -> Any:
        with self._scope(name):
            y = self._given(y)
            extra, own = self._extra(event_ndims, self._inverse_min_event_ndims), self._inverse_min_event_ndims
            if not self._is_injective:
                return tuple(
                    self._summed(value, y, extra, own) for value in self._inverse_log_det_jacobian(y, **kwargs)
                )
            pair = self._pair(None, y, kwargs)
            if extra not in pair.determinants:
                try:
                    found = self._summed(self._inverse_log_det_jacobian(y, **kwargs), y, extra, own)
                except NotImplementedError as missing:
                    try:
                        x = self._inverse(y, **kwargs) if pair.x is None else pair.x
                        value = self._forward_log_det_jacobian(x, **kwargs)
                    except NotImplementedError:
                        raise missing from None
                    found, pair.x = -self._summed(value, x, extra, self._forward_min_event_ndims), x
                pair.determinants[extra] = found
                self._remember(pair)
            return pair.determinants[extra]

    def _pair(self, x: Any, y: Any, kwargs: dict[str, Any]) -> _Pair:
        if tf.executing_eagerly():
            return _Pair(x, y, kwargs)
        value, pairs = (x, self._from_x) if x is not None else (y, self._from_y)
        return pairs.get(_key(value, kwargs)) or _Pair(x, y, kwargs)

    def _remember(self, pair: _Pair) -> None:
        if tf.executing_eagerly():
            return
        if isinstance(pair.x, tf.Tensor):
            self._from_x[_key(pair.x, pair.kwargs)] = pair
        if isinstance(pair.y, tf.Tensor):
            self._from_y[_key(pair.y, pair.kwargs)] = pair

    # ------------------------------------------------------------------------------------------------------ for classes
    def _forward(self, x: Any) -> Any:
        raise NotImplementedError("forward not implemented.")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError("inverse not implemented.")

    def _forward_event_shape(self, shape: Any) -> Any:
        return shape

    def _inverse_event_shape(self, shape: Any) -> Any:
        return shape

    def _forward_event_shape_tensor(self, shape: Any) -> Any:
        return shape

    def _inverse_event_shape_tensor(self, shape: Any) -> Any:
        return shape

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        raise NotImplementedError("forward_log_det_jacobian not implemented.")

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        raise NotImplementedError("inverse_log_det_jacobian not implemented.")

    @property
    def _is_injective(self) -> bool:
        """Whether each ``y`` has one ``x``; if not, ``_inverse`` and its determinant give tuples."""
        return True

    @contextlib.contextmanager
    def _scope(self, name: str) -> Iterator[None]:
        with tf.name_scope(self._name), tf.name_scope(name):
            yield

    def _given(self, value: Any) -> Any:
        if not isinstance(value, tf.Tensor):
            return tf.convert_to_tensor(value, self._dtype)
        if self._dtype is not None and self._dtype.base_dtype != value.dtype.base_dtype:
            raise TypeError(
                f"Input had dtype {self._dtype} but expected {value.dtype}.\n"
                + errors.message(f"a {value.dtype.name} for {self._name}", self._dtype.name, "tf.cast(x, dtype)")
            )
        return value

    def _extra(self, event_ndims: Any, own: int) -> int:
        number = int(event_ndims)
        if number < own:
            raise ValueError(
                f"event_ndims ({number}) must be larger than min_event_ndims ({own})\n"
                + errors.message(f"event_ndims={number} of {self._name}", f"at least {own}", f"event_ndims={own}")
            )
        return number - own

    @staticmethod
    def _summed(value: Any, x: Any, extra: int, own: int) -> Any:
        """A determinant summed over the further dimensions of an event, over which it is broadcast first."""
        value = tf.convert_to_tensor(value)
        if not extra:
            return value
        rank = tf.rank(x)
        further = tf.shape(x)[rank - own - extra : rank - own]
        return tf.reduce_sum(value * tf.ones(further, value.dtype), list(range(-extra, 0)))


def _snake(name: str) -> str:
    """``BareBones`` as ``bare_bones``."""
    return re.sub("([a-z0-9])([A-Z])", r"\1_\2", re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)).lower()


def _key(value: Any, kwargs: dict[str, Any]) -> Any:
    """What a value is known by: itself, further arguments, and the branch or loop that its tensors must not leave."""
    body = getattr(tf.get_default_graph(), "current_body", None)
    return id(value), id(body), tuple(sorted((name, id(item)) for name, item in kwargs.items()))
