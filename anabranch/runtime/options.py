"""Options of sessions and workers."""

from __future__ import annotations

import dataclasses
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public

TIERS = ("auto", "interpreted", "compiled")
CONSISTENCY = ("async", "sync", "serialisable", "('stale', k)", "('sync', b)")
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
        consistency: what steps over several tasks of a cluster promise each other: ``async``, nothing beyond what each
            task promises. Others raise: synchronous steps are ``tf.train.SyncReplicasOptimizer``'s.
        config: a ConfigProto beside these options.

    Raises:
        ValueError: a value is not one of those. UnimplementedError: a consistency that is not there.
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
        if self.consistency != "async":
            kind = self.consistency[0] if isinstance(self.consistency, tuple) else self.consistency
            known = kind in ("stale", "sync", "serialisable")
            text = errors.message(
                f"SessionOptions(consistency={self.consistency!r})",
                "'async', the only one that is there" if known else f"one of {', '.join(CONSISTENCY)}",
                "tf.train.SyncReplicasOptimizer for synchronous steps, with backup workers or without",
            )
            raise errors.UnimplementedError(None, None, text) if known else ValueError(text)
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
