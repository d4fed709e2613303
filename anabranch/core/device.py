"""Device names: `/job:worker/replica:0/task:1/device:GPU:0`, parts of them, and how nested `tf.device` scopes merge.

Policy. A device name constrains: a part that is not given is free, and the placer chooses it. `/gpu:0` and `/cpu` are
short for `/device:GPU:0` and `/device:CPU:*`; `*` stands for a free part. Operations hold the *canonical* text (job,
replica, task, `/device:TYPE:INDEX`). Names recur for each operation, so parsing and merging are cached by text.

Scopes merge from the inside out: what an inner scope says stands, outer scopes fill in what is missing. A function
scope sees the operation with the device that the scopes within gave it, and its answer *replaces* that device; scopes
further out still fill in. `tf.device(None)` hides all scopes outside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from anabranch.core.cache import memoized
from anabranch.core.errors import message

__all__ = ["DeviceScope", "DeviceSpec", "canonical_name", "check_valid", "merge_device", "merge_names"]

_SHORT_TYPES = ("CPU", "GPU", "TPU")


class Fields(NamedTuple):
    """The parts of a device name; None for a part that is free."""

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None


@memoized("parts of device names", 4096)
def parse(name: str) -> Fields:
    """Return the parts of a device name; ValueError if it is none."""
    parts: dict[str, Any] = {}
    for part in name.split("/"):
        if not part:
            continue
        key, *values = part.split(":")
        short = key.upper() if key.upper() in _SHORT_TYPES else None
        if short or (key == "device" and 1 <= len(values) <= 2):
            if "device_type" in parts:
                raise _invalid(
                    name,
                    "it names two devices",
                    "one device per name; use tf.device for each operation",
                    "Cannot specify multiple device types. "
                    f"Multiple device types are not allowed while parsing the device spec: {name}.\n",
                )
            values = [short, *values] if short else [_spelled(values[0]), *values[1:]]
            if len(values) > 2 or not values[0]:
                raise _invalid(name, f"'{part}' is not a device", "'/device:GPU:0'")
            parts["device_type"] = values[0]
            parts["device_index"] = _index(name, part, values[1]) if len(values) == 2 else None
        elif key in ("job", "replica", "task") and len(values) == 1 and values[0]:
            if key in parts:
                raise _invalid(name, f"it gives the {key} twice", f"one /{key}:")
            parts[key] = values[0] if key == "job" else _index(name, part, values[0])
        elif len(values) == 1 and key not in ("job", "replica", "task", "device"):
            raise _invalid(
                name,
                f"'{part}' is not a part of a device name",
                f"'/device:{key.upper()}:{values[0]}' for a device of that type",
                f"Unknown attribute: '{key}' is used in specification of device: '{name}'\n",
            )
        else:
            raise _invalid(
                name, f"'{part}' is not complete", "'/job:worker/replica:0/task:0/device:GPU:0' or parts of it"
            )
    fields = {key: None if value == "*" else value for key, value in parts.items()}
    return Fields(**fields)


def _index(name: str, part: str, text: str) -> int | None:
    if text == "*":
        return None
    if not (text.isascii() and text.isdigit()):
        key = part.rpartition(":")[0]
        reason = f"invalid literal for int() with base 10: {text!r}\n"
        raise _invalid(name, f"'{text}' in '{part}' is not a number", f"'/{key}:0', or '/{key}:*' for any", reason)
    return int(text)


def _spelled(device_type: str) -> str:
    return device_type.upper() if device_type.upper() in _SHORT_TYPES else device_type


def _invalid(name: str, why: str, instead: str, first: str = "") -> ValueError:
    return ValueError(
        first
        + message(
            f"the device name {name!r}: {why}",
            "parts such as /job:NAME, /replica:N, /task:N and /device:TYPE:N (or /cpu:N, /gpu:N, /tpu:N)",
            instead,
        )
    )


def _text(fields: Fields) -> str:
    job, replica, task, device_type, index = fields
    text = ""
    if job is not None:
        text = f"/job:{job}"
    if replica is not None:
        text += f"/replica:{replica}"
    if task is not None:
        text += f"/task:{task}"
    if device_type is not None:
        text += f"/device:{device_type}:{'*' if index is None else index}"
    return text


def _merge(outer: Fields, inner: Fields) -> Fields:
    parts: list[Any] = [o if i is None else i for o, i in zip(outer, inner, strict=True)]
    return Fields(*parts)


@memoized("merged device names", 4096)
def merge_names(outer: str, inner: str) -> str:
    """Return the canonical name that has the parts of `inner` and, where it has none, those of `outer`."""
    return _text(_merge(parse(outer), parse(inner)))


@memoized("canonical device names", 4096)
def _canonical(name: str) -> str:
    return _text(parse(name))


def canonical_name(device: Any) -> str:
    """Return the canonical text of a device name, a DeviceSpec or None ('')."""
    if isinstance(device, str):
        return _canonical(device)
    if device is None:
        return ""
    if isinstance(device, DeviceSpec):
        return device.to_string()
    if isinstance(device, bytes):
        return _canonical(device.decode())
    raise TypeError(_not_a_device(device))


def _not_a_device(device: object) -> str:
    return message(
        f"{device!r} of type {type(device).__name__} as a device",
        "a device name, a tf.DeviceSpec, a function of an operation that returns one of them, or None",
        "tf.device('/gpu:0')",
    )


def check_valid(spec: str) -> None:
    """Raise ValueError if the text is not a device name."""
    parse(spec)


class DeviceSpec:
    """A device, or some parts of its name: job, replica, task, device type and device index. None: free."""

    def __init__(
        self,
        job: str | None = None,
        replica: int | None = None,
        task: int | None = None,
        device_type: str | None = None,
        device_index: int | None = None,
    ) -> None:
        """Create a specification from its parts, for example `DeviceSpec(job="ps", device_type="CPU")`."""
        self._fields = Fields(
            None if job is None else str(job),
            _part_number("replica", replica),
            _part_number("task", task),
            None if device_type is None else _spelled(str(device_type)),
            _part_number("device_index", device_index),
        )

    @classmethod
    def _of(cls, fields: Fields) -> DeviceSpec:
        spec = cls.__new__(cls)
        spec._fields = fields
        return spec

    @classmethod
    def from_string(cls, spec: str | None) -> DeviceSpec:
        """Return the specification that a device name stands for."""
        return cls._of(parse(spec or ""))

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Replace all parts by those of a device name, and return this specification."""
        self._fields = parse(spec or "")
        return self

    def to_string(self) -> str:
        """Return the canonical text, '' if all parts are free."""
        return _text(self._fields)

    def merge_from(self, dev: DeviceSpec) -> None:
        """Replace the parts that `dev` gives by those of `dev`."""
        self._fields = _merge(self._fields, dev._fields)

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """Return a specification with the parts of `dev` and, where it has none, those of this one."""
        return self._of(_merge(self._fields, dev._fields))

    def replace(self, **parts: Any) -> DeviceSpec:
        """Return a specification with some parts changed, for example `spec.replace(task=1)`."""
        return DeviceSpec(**{**self._fields._asdict(), **parts})

    @property
    def job(self) -> str | None:
        """The name of the job."""
        return self._fields.job

    @job.setter
    def job(self, job: str | None) -> None:
        self._fields = self._fields._replace(job=None if job is None else str(job))

    @property
    def replica(self) -> int | None:
        """The number of the replica."""
        return self._fields.replica

    @replica.setter
    def replica(self, replica: int | None) -> None:
        self._fields = self._fields._replace(replica=_part_number("replica", replica))

    @property
    def task(self) -> int | None:
        """The number of the task within its job."""
        return self._fields.task

    @task.setter
    def task(self, task: int | None) -> None:
        self._fields = self._fields._replace(task=_part_number("task", task))

    @property
    def device_type(self) -> str | None:
        """The type of the device: 'CPU', 'GPU' and 'TPU' in capitals, others as they were given."""
        return self._fields.device_type

    @device_type.setter
    def device_type(self, device_type: str | None) -> None:
        self._fields = self._fields._replace(device_type=None if device_type is None else _spelled(str(device_type)))

    @property
    def device_index(self) -> int | None:
        """The number of the device among those of its type."""
        return self._fields.device_index

    @device_index.setter
    def device_index(self, device_index: int | None) -> None:
        self._fields = self._fields._replace(device_index=_part_number("device_index", device_index))

    def __copy__(self) -> DeviceSpec:
        return self._of(self._fields)

    def __eq__(self, other: object) -> bool:
        return self._fields == other._fields if isinstance(other, DeviceSpec) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields)

    def __repr__(self) -> str:
        return f"DeviceSpec({', '.join(f'{k}={v!r}' for k, v in self._fields._asdict().items() if v is not None)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceSpec, tuple(self._fields)


def _part_number(part: str, value: Any) -> int | None:
    if value is None:
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(
            message(f"{value!r} as the {part} of a device", "a number or None", f"DeviceSpec({part}=0)")
        ) from None


def merge_device(spec: Any) -> Callable[[Any], str]:
    """Return a function for `tf.device` that fills in an operation's device with the parts of `spec`."""
    outer = canonical_name(spec)

    def merge(op: Any) -> str:
        return merge_names(outer, op.device or "")

    return merge


class DeviceScope:
    """One `tf.device` scope within others. Scopes are immutable and linked, so that any moment's stack can be kept."""

    __slots__ = ("entry", "merged", "outer")

    def __init__(self, outer: DeviceScope | None, device_name_or_function: Any) -> None:
        """Enter a scope (a device name, a DeviceSpec, a function of an operation, or None) within `outer`."""
        entry = device_name_or_function
        self.outer = outer
        self.entry: str | Callable[[Any], Any] | None
        # What an operation without a device of its own gets; None where a function must be asked for each operation.
        self.merged: str | None = None
        if entry is None:
            self.entry, self.merged = None, ""
        elif isinstance(entry, (str, bytes, DeviceSpec)):
            self.entry = canonical_name(entry)
            if outer is None:
                self.merged = self.entry
            elif outer.merged is not None:
                self.merged = merge_names(outer.merged, self.entry)
        elif callable(entry):
            self.entry = entry
        else:
            raise TypeError(_not_a_device(entry))

    def resolve(self, op: Any) -> str:
        """Return the device of a new operation that stands in this scope.

        `op.device` is what the operation has already ('' or None for nothing). Functions among the scopes see `op`
        with `op.device` as the scopes within gave it; for that, `op._set_device(text)` is called before each.
        """
        device = op.device or ""
        if self.merged is not None:
            return merge_names(self.merged, device) if device else self.merged
        scope: DeviceScope | None = self
        while scope is not None and scope.entry is not None:
            if isinstance(scope.entry, str):
                device = merge_names(scope.entry, device)
            else:
                op._set_device(device)
                answer = scope.entry(op)
                if not isinstance(answer, (str, bytes, DeviceSpec)):
                    raise TypeError(
                        message(
                            f"a device function that returned {answer!r} for operation {getattr(op, 'name', op)!r}",
                            "a device name or a tf.DeviceSpec",
                            "return op.device to leave the operation's device as it is",
                        )
                    )
                device = canonical_name(answer)
            scope = scope.outer
        return device


def resolve(scope: DeviceScope | None, op: Any) -> str:
    """Return the device of a new operation within `scope`, which may be none."""
    return (op.device or "") if scope is None else scope.resolve(op)
