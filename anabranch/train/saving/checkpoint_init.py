"""`tf.train.init_from_checkpoint`: variables whose initial values stand in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.values.shapes import TensorShape
from anabranch.platform import logging
from anabranch.train.saving import checkpoint_reader, saveable
from anabranch.variables.partitioned import PartitionedVariable
from anabranch.variables.store import variable_store
from anabranch.variables.variable import Variable


@public("train.init_from_checkpoint")
def init_from_checkpoint(ckpt_dir_or_file: Any, assignment_map: Any) -> None:
    """Make the initial values of variables those of a checkpoint; their initializers then read it.

    Args:
        ckpt_dir_or_file: the checkpoint, or a folder whose newest is taken.
        assignment_map: names in the checkpoint to variables, to names of variables, to lists of the parts of one; or
            scopes that end with ``/`` (``"/"`` for all) to scopes. A dict, or a list of pairs.

    Raises:
        ValueError: a tensor or variable is not there, or shapes differ.

    Example:
        >>> import anabranch as tf, tempfile
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     v = tf.get_variable("old/w", initializer=[1.0, 2.0])
        ...     session.run(v.initializer)
        ...     path = tf.train.Saver().save(session, tempfile.mkdtemp() + "/model")
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     w = tf.get_variable("new/w", [2])
        ...     tf.train.init_from_checkpoint(path, {"old/": "new/"})
        ...     session.run(w.initializer)
        ...     session.run(w).tolist()
        [1.0, 2.0]
    """
    path = checkpoint_reader.checkpoint_path(ckpt_dir_or_file)
    shapes = checkpoint_reader.CheckpointReader(path).get_variable_to_shape_map()
    pairs: Iterable[tuple[str, Any]] = assignment_map.items() if hasattr(assignment_map, "items") else assignment_map
    known = variable_store()._vars
    for name, target in sorted(pairs, key=lambda pair: pair[0]):
        variable = _variable(target, known)
        if variable is not None:
            absence = f"Tensor {name} is not found in {ckpt_dir_or_file} checkpoint {shapes}"
            _take(variable, path, name, shapes, absence)
            continue
        _take_scope(name, target, known, path, shapes, ckpt_dir_or_file)


def _variable(target: Any, known: dict[str, Variable]) -> Any:
    """A variable, the list of the parts of one, or None if ``target`` names neither."""
    if isinstance(target, Variable):
        return target
    if isinstance(target, PartitionedVariable):
        return list(target)
    if isinstance(target, (list, tuple)) and target and all(isinstance(item, Variable) for item in target):
        return list(target)
    if not isinstance(target, str):
        raise TypeError(
            errors.message(
                f"{target!r} in assignment_map", "a variable, a list of its parts, or a name", "{'name in file': v}"
            )
        )
    if target in known:
        return known[target]
    parts: list[Variable] = []
    while f"{target}/part_{len(parts)}" in known:
        parts.append(known[f"{target}/part_{len(parts)}"])
    return parts or None


def _take_scope(
    source: str, target: str, known: dict[str, Variable], path: str, shapes: dict[str, list[int]], place: Any
) -> None:
    scope = target.rpartition("/")[0]
    if not source.endswith("/"):
        raise ValueError(
            f"Assignment map with scope only name {scope or target} should map to scope only {source}. "
            "Should be 'scope/': 'other_scope/'.\n"
            + errors.message(
                f"{source!r} to {target!r}, which is not a variable",
                "a variable that tf.get_variable made, or two scopes that end with '/'",
                f"the variable itself: {{{source!r}: variable}}",
            )
        )
    names = {name.partition("/part_")[0] for name in known if not scope or name.startswith(scope + "/")}
    for name in sorted(names):
        below_scope = name[len(scope) :]
        if target != "/":
            below_scope = below_scope[1:]
        wanted = (below_scope if source == "/" else source + below_scope).removesuffix("/")
        absence = f"Tensor {wanted} ({below_scope} in {source}) is not found in {place} checkpoint"
        _take(_variable(name, known), path, wanted, shapes, absence)


def _take(variable: Any, path: str, name: str, shapes: dict[str, list[int]], absence: str) -> None:
    parts = variable if isinstance(variable, list) else [variable]
    if name not in shapes:
        raise ValueError(
            f"{absence}\n"
            + errors.message(
                f"{name!r} for variable {parts[0].name!r}",
                "a tensor of the checkpoint",
                "tf.train.list_variables(path) lists them",
            )
        )
    for part in parts:
        info = part._get_save_slice_info() if isinstance(variable, list) else None
        whole = part.shape.as_list() if info is None else info.full_shape
        if len(whole) != len(shapes[name]) or any(
            a is not None and a != b for a, b in zip(whole, shapes[name], strict=True)
        ):
            raise ValueError(
                f"Shape of variable {part.name} ({TensorShape(whole)}) doesn't match with shape of tensor {name} "
                f"({shapes[name]}) from checkpoint reader.\n"
                + errors.message(
                    f"a variable of shape {whole}",
                    f"a variable of shape {shapes[name]}, as saved",
                    "use another tensor or shape",
                )
            )
        _set_initializer(part, path, name, "" if info is None else info.spec)
        logging.info("Initialize variable %s from checkpoint %s with %s", part.name, path, name)


def _set_initializer(variable: Variable, path: str, name: str, spec: str) -> None:
    """Make the initializer of a variable read a checkpoint."""
    graph = get_default_graph()
    with graph.control_dependencies(None), graph.device(variable.device), graph.device("/device:CPU:0"):
        restored = build("RestoreV2", path, [name], [spec], dtypes=[variable.dtype.base], name="checkpoint_initializer")
        value = restored[0] if isinstance(restored, (list, tuple)) else restored
        value.set_shape(variable.shape)
        (item,) = saveable.saveables_for([variable] if spec else variable, name)
        assigned = item.restore([value], None)
        variable._initializer_op = getattr(assigned, "op", assigned)
        variable._initial_value = value


__all__ = ["init_from_checkpoint"]
