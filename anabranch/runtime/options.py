"""Options of sessions and workers."""

from __future__ import annotations

import dataclasses
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public

TIERS = ("auto", "interpreted", "compiled")
CONSISTENCY = ("'async'", "('stale', k)", "'sync'", "('sync', b)", "'serialisable'")
ISOLATION = ("serializable", "read_committed")


@public("SessionOptions")
@dataclasses.dataclass(frozen=True)
class SessionOptions:
    """Options of a session that TensorFlow's ConfigProto has no field for; pass as ``config=``.

    Args:
        tier: ``auto`` (the policy picks, see ``Session.explain``), ``interpreted`` or ``compiled``.
        isolation: ``serializable``, or ``read_committed``: a step does not insist that what it read is still current
            when it commits (Hogwild).
        recoverable: never give variables' buffers to a program, so that a device failure loses nothing; costs memory.
        deterministic: change tiers by a schedule over graph, shapes and number of runs, never by the clock, like a
            program whose graph has a seed, and split kernels into as many threads on any number of cores;
            ``docs/reliability.md`` says which bits this promises. To be asked for before anything is compiled.
        seed: entropy for ops without a seed; random if None (the environment variable ANABRANCH_SEED is a default).
        precision: matmul and convolution precision: None (platform default), ``"highest"``, ``"high"`` or
            ``"default"``.
        plan_cache_size: how many plans are kept.
        consistency: what the steps of a session on a cluster promise each other (``docs/cluster.md``): ``"async"``,
            nothing beyond what each task promises; ``("stale", k)``, training steps at most ``k`` ahead of the slowest
            worker's; ``"sync"``, training steps in rounds of all workers; ``("sync", b)``, of all but ``b``;
            ``"serialisable"``, steps over several tasks commit together or not at all. On a session of one process
            every step keeps all of these.
        config: a ConfigProto beside these options.

    Raises:
        ValueError: a value is not one of those.
    """

    tier: str = "auto"
    isolation: str = "serializable"
    recoverable: bool = False
    deterministic: bool = False
    seed: int | None = None
    precision: str | None = None
    plan_cache_size: int = 256
    consistency: Any = "async"
    config: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.consistency, list):  # as it comes from another process
            object.__setattr__(self, "consistency", tuple(self.consistency))
        kind, number = self.mode
        takes_number = isinstance(self.consistency, tuple)
        known = kind in ("stale", "sync") if takes_number else kind in ("async", "sync", "serialisable")
        if not known or isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ValueError(
                errors.message(
                    f"SessionOptions(consistency={self.consistency!r})",
                    f"one of {', '.join(CONSISTENCY)}, with a number that is not negative",
                    "consistency='sync'",
                )
            )
        for name, allowed in (
            ("tier", TIERS),
            ("isolation", ISOLATION),
            ("precision", (None, "highest", "high", "default")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    errors.message(
                        f"SessionOptions({name}={getattr(self, name)!r})", f"one of {allowed}", f"{name}={allowed[0]!r}"
                    )
                )

    @property
    def mode(self) -> tuple[Any, Any]:
        """The kind of consistency, and its number; 0 where it has none."""
        given = self.consistency
        if not isinstance(given, tuple):
            return given, 0
        return (given[0], given[1]) if len(given) == 2 else (given, None)
