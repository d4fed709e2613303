"""``distribution_strategy_context``: how a program asks whether it builds replicas of a model. It builds one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any


class _Extended:
    """What a strategy says about variables: each is one."""

    @staticmethod
    def variable_created_in_scope(v: Any) -> bool:
        """Whether the strategy made the variable: it leaves them alone."""
        return True

    @staticmethod
    def colocate_vars_with(colocate_with_variable: Any) -> Any:
        """A block in which variables are made; each stays where its device scope says."""
        return contextlib.nullcontext()

    @staticmethod
    def update(var: Any, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, group: bool = True) -> Any:
        """``fn(var, ...)``."""
        return fn(var, *args, **(kwargs or {}))

    @staticmethod
    def reduce_to(reduce_op: Any, value: Any, destinations: Any) -> Any:
        """The value, of one replica."""
        return value


class _Strategy:
    """One replica, on the devices that the graph says."""

    num_replicas_in_sync = 1
    extended = _Extended()

    @staticmethod
    def scope() -> Any:
        """A block in which the strategy holds, as it does anyway."""
        return contextlib.nullcontext()

    @staticmethod
    def run(fn: Callable[..., Any], args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
        """``fn(*args)``, in the one replica."""
        return fn(*args, **(kwargs or {}))

    @staticmethod
    def experimental_distribute_dataset(dataset: Any, options: Any = None) -> Any:
        """The dataset: the one replica gets all of it."""
        return dataset

    @staticmethod
    def gather(value: Any, axis: int) -> Any:
        """The value, of one replica."""
        return value

    @staticmethod
    def reduce(reduce_op: Any, value: Any, axis: Any = None) -> Any:
        """The value, of one replica."""
        return value

    @staticmethod
    def experimental_local_results(value: Any) -> tuple[Any, ...]:
        """The value of each replica of this machine."""
        return (value,)

    unwrap = experimental_local_results


class _ReplicaContext:
    """The one replica."""

    num_replicas_in_sync = 1
    replica_id_in_sync_group = 0
    strategy = _Strategy()

    @staticmethod
    def merge_call(merge_fn: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """``merge_fn(strategy, ...)``."""
        return merge_fn(_strategy, *args, **(kwargs or {}))

    @staticmethod
    def all_reduce(reduce_op: Any, value: Any) -> Any:
        """The value, of one replica."""
        return value


_strategy = _Strategy()
_context = _ReplicaContext()


def has_strategy() -> bool:
    """Whether the program chose a strategy: there is none to choose."""
    return False


def get_strategy() -> _Strategy:
    """The strategy of one replica."""
    return _strategy


def get_replica_context() -> _ReplicaContext:
    """The context of the one replica."""
    return _context


def in_cross_replica_context() -> bool:
    """False: there is one replica, and this is in it."""
    return False


get_distribution_strategy = get_strategy
has_distribution_strategy = has_strategy
get_tower_context = get_replica_context
in_cross_tower_context = in_cross_replica_context
