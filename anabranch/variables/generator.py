"""`tf.random.experimental.Generator`: random numbers from a state that is a variable.

The state of Philox is a counter of two int64 and a key of one. The numbers are those of TensorFlow's generators with
the same state, in graphs and where ops run at once; a draw moves the counter, and checkpoints hold the state.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes
from anabranch.variables.resource_variable import ResourceVariable
from anabranch.variables.tracking import AutoTrackable

RNG_ALG_PHILOX, RNG_ALG_THREEFRY = 1, 2
_STATE_SIZE = 3


def _checked_algorithm(alg: Any) -> int:
    names = {None: RNG_ALG_PHILOX, "philox": RNG_ALG_PHILOX, "auto_select": RNG_ALG_PHILOX}
    chosen = names.get(alg.lower() if isinstance(alg, str) else alg, alg)
    if isinstance(chosen, np.integer):
        chosen = int(chosen)
    if chosen != RNG_ALG_PHILOX:
        raise ValueError(
            f"Unsupported algorithm id: {alg}\n" + errors.message(f"alg={alg!r}", "1, which is Philox", "leave alg out")
        )
    return RNG_ALG_PHILOX


def _wrapped(number: int) -> int:
    """A number of 64 bits without sign as one with a sign."""
    return number - (1 << 64) if number >= 1 << 63 else number


def _state_tensor(state: Any, size: int | None) -> Any:
    if isinstance(state, (list, tuple)):
        state = [_wrapped(int(part)) for part in state]
    elif isinstance(state, int):
        state = _wrapped(state)
    tensor = convert_to_tensor(state, dtypes.int64)
    tensor.shape.assert_is_compatible_with([] if size is None else [size])
    return tensor


@public("random.experimental.create_rng_state", "random.create_rng_state")
def create_rng_state(seed: Any, algorithm: Any) -> np.ndarray:
    """The state of a generator for a seed, an int64 array ``[3]``.

    Args:
        seed: an integer of at most 1,024 bits, or a vector of integers, of which the first three count.
        algorithm: 1, which is Philox.
    """
    _checked_algorithm(algorithm)
    if isinstance(seed, (int, np.integer)):
        number = int(seed)
        parts = [(number >> (64 * place)) & ((1 << 64) - 1) for place in range(_STATE_SIZE)]
    else:
        array = np.asarray(seed)
        if array.ndim != 1:
            raise ValueError(
                f"seed should only have one dimension; got shape: {array.shape}\n"
                + errors.message(f"a seed of shape {array.shape}", "an integer or a vector", "seed=1234")
            )
        parts = [int(part) for part in array[:_STATE_SIZE]]
    signed = [_wrapped(part) for part in parts]
    return np.asarray([0] * (_STATE_SIZE - len(signed)) + signed, np.int64)


@public("random.experimental.Generator", "random.Generator")
class Generator(AutoTrackable):
    """Random numbers from a state of one's own.

    Args:
        copy_from: a generator whose state this one begins with.
        state: an int64 vector ``[3]``: the counter and the key; with ``alg``.
        alg: 1, which is Philox.

    Example:
        >>> import anabranch as tf
        >>> from anabranch.eager import mode
        >>> with mode.eager_mode():
        ...     generator = tf.random.experimental.Generator.from_seed(1)
        ...     generator.normal([2]).numpy()
        array([ 0.43842274, -0.53439844], dtype=float32)
    """

    def __init__(self, copy_from: Generator | None = None, state: Any = None, alg: Any = None) -> None:
        if copy_from is not None:
            if state is not None or alg is not None:
                raise ValueError(
                    errors.message(
                        "copy_from with state or alg",
                        "a generator, or a state with its algorithm",
                        "Generator(copy_from=generator)",
                    )
                )
            start, self._alg = copy_from.state, copy_from.algorithm
        else:
            if state is None or alg is None:
                raise ValueError(
                    errors.message(
                        "a generator without state or alg", "a state and its algorithm", "Generator.from_seed(1234)"
                    )
                )
            self._alg = _checked_algorithm(alg)
            start = _state_tensor(state, _STATE_SIZE)
        self._state_var = ResourceVariable(start, dtype=dtypes.int64, trainable=False, name="StateVar")

    @classmethod
    def from_state(cls, state: Any, alg: Any) -> Generator:
        """A generator that begins with a state."""
        return cls(state=state, alg=alg)

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> Generator:
        """A generator whose state is made of a seed; see :func:`create_rng_state`."""
        return cls(state=create_rng_state(seed, alg), alg=_checked_algorithm(alg))

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """A generator that begins anywhere, by the entropy of the system."""
        return cls(state=[secrets.randbits(64) for _ in range(_STATE_SIZE)], alg=_checked_algorithm(alg))

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any) -> Generator:
        """A generator that begins with a key, a scalar, and a counter ``[2]``."""
        return cls(state=_joined(key, counter), alg=_checked_algorithm(alg))

    def reset(self, state: Any) -> Any:
        """Begin again with a state; in a graph, by the op that is returned."""
        return self._assigned(_state_tensor(state, _STATE_SIZE))

    def reset_from_seed(self, seed: Any) -> Any:
        """Begin again with a seed; in a graph, by the op that is returned."""
        return self._assigned(create_rng_state(seed, self._alg))

    def reset_from_key_counter(self, key: Any, counter: Any) -> Any:
        """Begin again with a key and a counter; in a graph, by the op that is returned."""
        return self._assigned(_joined(key, counter))

    def _assigned(self, state: Any) -> Any:
        op = self._state_var.assign(state, read_value=False)
        return op if current_builder().defers else None

    @property
    def state(self) -> ResourceVariable:
        """The state, a variable ``[3]`` of int64: the counter and the key."""
        return self._state_var

    @property
    def algorithm(self) -> int:
        """The algorithm's number."""
        return self._alg

    @property
    def key(self) -> Any:
        """The key, an int64 scalar."""
        return self._state_var[-1]

    def skip(self, delta: Any) -> Any:
        """Move on as if ``delta`` numbers had been drawn; in a graph, by the op that is returned."""
        steps = convert_to_tensor(delta, dtypes.int64)
        op = build("RngSkip", self._state_var.handle, convert_to_tensor(self._alg, dtypes.int64), steps)
        return op if current_builder().defers else None

    def _drawn(self, type_name: str, shape: Any, dtype: dtypes.DType, *bounds: Any) -> Any:
        sizes = convert_to_tensor(shape, dtypes.int64 if isinstance(shape, (tuple, list)) and not shape else None)
        algorithm = convert_to_tensor(self._alg, dtypes.int64)
        attrs: dict[str, Any] = {} if bounds else {"dtype": dtype}
        return build(type_name, self._state_var.handle, algorithm, sizes, *bounds, **attrs)

    def _scaled(self, type_name: str, name: Any, shape: Any, mean: Any, stddev: Any, dtype: Any) -> Any:
        wanted = dtypes.as_dtype(dtype)
        with name_scope(name, type_name) as scope:
            numbers = self._drawn(type_name, shape, wanted)
            scaled = build("Mul", numbers, convert_to_tensor(stddev, wanted))
            return build("AddV2", scaled, convert_to_tensor(mean, wanted), name=scope)

    def normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: str | None = None
    ) -> Any:
        """Normal numbers of a shape.

        Args:
            shape: the shape.
            mean: their mean.
            stddev: their standard deviation.
            dtype: their dtype.
            name: name of the operation.
        """
        return self._scaled("StatefulStandardNormalV2", name, shape, mean, stddev, dtype)

    def truncated_normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: str | None = None
    ) -> Any:
        """Normal numbers within two standard deviations of the mean; arguments as for :meth:`normal`."""
        return self._scaled("StatefulTruncatedNormal", name, shape, mean, stddev, dtype)

    def uniform(
        self,
        shape: Any,
        minval: Any = 0,
        maxval: Any = None,
        dtype: Any = dtypes.float32,
        name: str | None = None,
    ) -> Any:
        """Uniform numbers in ``[minval, maxval)``.

        Args:
            shape: the shape.
            minval: the least.
            maxval: what is above all; 1 if None, for a floating dtype.
            dtype: their dtype, floating or integer.
            name: name of the operation.

        Raises:
            ValueError: integers without ``maxval``.
        """
        wanted = dtypes.as_dtype(dtype)
        if maxval is None:
            if wanted.is_integer:
                raise ValueError(
                    f"Must specify maxval for integer dtype {wanted!r}\n"
                    + errors.message("integers without a bound", "maxval", "uniform_full_int, for all integers")
                )
            maxval = 1
        with name_scope(name, "stateful_uniform") as scope:
            low, high = convert_to_tensor(minval, wanted), convert_to_tensor(maxval, wanted)
            if wanted.is_integer:
                return self._drawn("StatefulUniformInt", shape, wanted, low, high)
            numbers = self._drawn("StatefulUniform", shape, wanted)
            return build("AddV2", build("Mul", numbers, build("Sub", high, low)), low, name=scope)

    def uniform_full_int(self, shape: Any, dtype: Any = dtypes.uint64, name: str | None = None) -> Any:
        """Integers from the whole range of a dtype."""
        with name_scope(name, "stateful_uniform_full_int"):
            return self._drawn("StatefulUniformFullInt", shape, dtypes.as_dtype(dtype))

    def binomial(self, shape: Any, counts: Any, probs: Any, dtype: Any = dtypes.int32, name: str | None = None) -> Any:
        """Raise UnimplementedError: binomial numbers are not drawn from a state."""
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                "Generator.binomial", "another distribution", "tf.distributions.Bernoulli, summed over the trials"
            ),
        )

    def make_seeds(self, count: int = 1) -> Any:
        """Seeds for stateless random ops, an int64 tensor ``[2, count]``."""
        keys = self.uniform_full_int([count], dtypes.int64)
        return build("Pack", [keys, build("ZerosLike", keys)], axis=0)

    def split(self, count: int = 1) -> list[Generator]:
        """Generators of their own keys, drawn from this one; where ops run at once.

        Raises:
            RuntimeError: a graph is being built.
        """
        if current_builder().defers:
            raise RuntimeError(
                errors.message("split() in a graph", "eager mode", "Generator.from_seed(n), with a seed for each")
            )
        keys = self.uniform_full_int([count], dtypes.int64)
        return [type(self)(state=[0, 0, int(key)], alg=self._alg) for key in keys.numpy()]


def _joined(key: Any, counter: Any) -> Any:
    own = build("Reshape", _state_tensor(key, None), [1])
    return build("ConcatV2", [_state_tensor(counter, _STATE_SIZE - 1), own], 0)


_global: list[Generator] = []


@public("random.experimental.get_global_generator", "random.get_global_generator")
def get_global_generator() -> Generator:
    """The process's generator, which begins anywhere."""
    if not _global:
        with current_builder().init_scope():
            _global.append(Generator.from_non_deterministic_state())
    return _global[0]


@public("random.experimental.set_global_generator", "random.set_global_generator")
def set_global_generator(generator: Generator) -> None:
    """Let another generator be the process's."""
    _global[:] = [generator]


__all__ = ["Generator", "create_rng_state", "get_global_generator", "set_global_generator"]
