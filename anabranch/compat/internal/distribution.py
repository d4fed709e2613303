"""``distribution_strategy_context``: how a program asks whether it builds replicas of a model. It builds one.

And ``collective_ops``: functions that make the ops of which each belongs to a group of devices.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor


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


def _check_group(group_size: int) -> None:
    if group_size <= 1:
        raise ValueError(
            "Parameter group_size must be at least 2.\n"
            + errors.message(f"group_size={group_size}", "how many devices take part, 2 or more", "group_size=2")
        )


def all_reduce(
    t: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    merge_op: str,
    final_op: str,
    subdiv_offsets: Any = (0,),
    communication_hint: str = "auto",
    timeout: float = 0,
) -> Tensor:
    """What a member of a group gives of the values of all: their sum, product, least or greatest.

    Args:
        t: this member's value.
        group_size: how many members the group has, each on a device of its own.
        group_key: the number of the group of devices.
        instance_key: the number of the ops that meet.
        merge_op: 'Add', 'Mul', 'Min' or 'Max'.
        final_op: 'Id', or 'Div' to divide by the number of members.
        subdiv_offsets: how the work is cut into pieces, which has no effect.
        communication_hint: the way values take, which has no effect.
        timeout: seconds after which the members no longer wait; 0 for no limit.
    """
    _check_group(group_size)
    return build(
        "CollectiveReduce",
        t,
        group_size=group_size,
        group_key=group_key,
        instance_key=instance_key,
        merge_op=merge_op,
        final_op=final_op,
        subdiv_offsets=list(subdiv_offsets),
        communication_hint=communication_hint.lower(),
        timeout_seconds=timeout,
    )


def _of_all(type_name: str, t: Any, shape: Any, group: tuple[int, int, int], hint: str, **more: Any) -> Tensor:
    size, group_key, instance_key = group
    _check_group(size)
    return build(
        type_name,
        *([] if t is None else [t]),
        shape=shape,
        group_size=size,
        group_key=group_key,
        instance_key=instance_key,
        communication_hint=hint.lower(),
        **more,
    )


def all_gather(
    t: Any, group_size: int, group_key: int, instance_key: int, communication_hint: str = "auto", timeout: float = 0
) -> Tensor:
    """The rows of the values of all members; arguments as of :func:`all_reduce`."""
    tensor = convert_to_tensor(t)
    rows, *others = tensor.shape.as_list()
    shape = [None if rows is None else rows * group_size, *others]
    group = (group_size, group_key, instance_key)
    return _of_all("CollectiveGather", tensor, shape, group, communication_hint, timeout_seconds=timeout)


def broadcast_send(
    t: Any,
    shape: Any,
    dtype: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str = "auto",
    timeout: float = 0,
) -> Tensor:
    """The value of this member, which it gives to all others; arguments as of :func:`all_reduce`."""
    group = (group_size, group_key, instance_key)
    return _of_all("CollectiveBcastSend", t, shape, group, communication_hint, T=dtype, timeout_seconds=timeout)


def broadcast_recv(
    shape: Any,
    dtype: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str = "auto",
    timeout: float = 0,
) -> Tensor:
    """The value that another member sends; arguments as of :func:`all_reduce`."""
    group = (group_size, group_key, instance_key)
    return _of_all("CollectiveBcastRecv", None, shape, group, communication_hint, T=dtype, timeout_seconds=timeout)
