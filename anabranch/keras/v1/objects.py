"""Objects by name: how configs name classes and functions, and how they are looked up again.

A config names an object by ``{"class_name": ..., "config": {...}}``, or by a string alone. Each namespace of
``tf.keras`` that has ``get``, ``serialize`` and ``deserialize`` is a :class:`Registry`; what a program adds by
``custom_object_scope`` or ``get_custom_objects()`` is looked up first everywhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from anabranch.core import errors

_custom: dict[str, Any] = {}


def get_custom_objects() -> dict[str, Any]:
    """The objects that the program has added, by name; the dict may be changed."""
    return _custom


class CustomObjectScope:
    """A block in which the given dicts of objects are looked up first."""

    def __init__(self, *args: Mapping[str, Any]) -> None:
        self.custom_objects = args
        self.backup: dict[str, Any] | None = None

    def __enter__(self) -> CustomObjectScope:
        self.backup = dict(_custom)
        for objects in self.custom_objects:
            _custom.update(objects)
        return self

    def __exit__(self, *args: object) -> None:
        _custom.clear()
        _custom.update(self.backup or {})


def custom_object_scope(*args: Mapping[str, Any]) -> CustomObjectScope:
    """A block in which the given dicts of objects are looked up first."""
    return CustomObjectScope(*args)


def serialize_keras_object(instance: Any) -> Any:
    """What a config says of an object: its class and config, or the name of a function."""
    if instance is None:
        return None
    if hasattr(instance, "get_config"):
        name = getattr(type(instance), "_keras_name", type(instance).__name__)
        return {"class_name": name, "config": instance.get_config()}
    if hasattr(instance, "__name__"):
        return instance.__name__
    raise ValueError(
        f"Cannot serialize {instance}\n"
        + errors.message(f"{instance!r}", "an object with get_config, or a function with a name", "a function by def")
    )


def _lookup(name: str, objects: Mapping[str, Any], custom: Mapping[str, Any] | None, kind: str) -> Any:
    for place in (custom or {}, _custom, objects):
        if name in place:
            return place[name]
    raise ValueError(
        f"Unknown {kind}: {name}\n"
        + errors.message(
            f"{kind} {name!r}",
            f"a {kind} of tf.keras, or one of the program's own that was named",
            f"custom_objects={{{name!r}: ...}}, or tf.keras.utils.get_custom_objects()[{name!r}] = ...",
        )
    )


def deserialize_keras_object(
    identifier: Any,
    module_objects: Mapping[str, Any] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    printable_module_name: str = "object",
) -> Any:
    """The object that a config names."""
    if identifier is None:
        return None
    objects = module_objects or {}
    if isinstance(identifier, Mapping):
        if "class_name" not in identifier or "config" not in identifier:
            raise ValueError(
                f"Improper config format: {identifier}\n"
                + errors.message(repr(identifier), "a dict with class_name and config", "what serialize(x) returns")
            )
        cls = _lookup(identifier["class_name"], objects, custom_objects, printable_module_name)
        config = dict(identifier["config"])
        if not hasattr(cls, "from_config"):
            return cls(**config)
        if "custom_objects" in inspect.signature(cls.from_config).parameters:
            return cls.from_config(config, custom_objects={**_custom, **(custom_objects or {})})
        with CustomObjectScope(custom_objects or {}):
            return cls.from_config(config)
    if isinstance(identifier, str):
        item = _lookup(identifier, objects, custom_objects, printable_module_name)
        return item() if inspect.isclass(item) else item
    if callable(identifier):
        return identifier
    raise ValueError(
        f"Could not interpret serialized {printable_module_name}: {identifier}\n"
        + errors.message(repr(identifier), "a config, a name or a function", "what serialize(x) returns")
    )


class Registry:
    """The objects of one namespace, by name; ``makers`` if a name alone stands for what a call gives."""

    def __init__(self, kind: str, makers: bool = False) -> None:
        self.kind, self.makers = kind, makers
        self.objects: dict[str, Any] = {}

    def add(self, *names: str) -> Callable[[Any], Any]:
        """Decorator: gives an object its own name and these."""

        def put(item: Any) -> Any:
            for name in (item.__name__, *names):
                self.objects[name] = item
            return item

        return put

    def deserialize(self, config: Any, custom_objects: Mapping[str, Any] | None = None) -> Any:
        """The object that a config names."""
        return deserialize_keras_object(config, self.objects, custom_objects, self.kind)

    def serialize(self, item: Any) -> Any:
        """What a config says of an object."""
        return serialize_keras_object(item)

    def get(self, identifier: Any) -> Any:
        """An object by its name or config; objects and None as they are."""
        if identifier is None:
            return None
        if isinstance(identifier, str) and self.makers:
            return self.deserialize({"class_name": identifier, "config": {}})
        if isinstance(identifier, (str, Mapping)):
            return self.deserialize(identifier)
        if callable(identifier):
            return identifier
        raise ValueError(
            f"Could not interpret {self.kind} identifier: {identifier}\n"
            + errors.message(repr(identifier), f"a name, a config or a function ({self.kind})", "a name as a string")
        )

    def public_functions(self, item: str, config: str = "config") -> tuple[Callable[..., Any], Callable[..., Any]]:
        """``serialize`` and ``deserialize`` as TensorFlow has them in the namespace: what they call their argument."""

        def serialize(*args: Any, **kwargs: Any) -> Any:
            return self.serialize(*serialized.bind(*args, **kwargs).args)

        def deserialize(*args: Any, **kwargs: Any) -> Any:
            return self.deserialize(*deserialized.bind(*args, **kwargs).args)

        one = inspect.Parameter.POSITIONAL_OR_KEYWORD
        custom = inspect.Parameter("custom_objects", one, default=None)
        serialized = inspect.Signature([inspect.Parameter(item, one)])
        deserialized = inspect.Signature([inspect.Parameter(config, one), custom])
        for function, signature in ((serialize, serialized), (deserialize, deserialized)):
            function.__signature__ = signature  # type: ignore[attr-defined]
            function.__doc__ = getattr(self, function.__name__).__doc__
        return serialize, deserialize
