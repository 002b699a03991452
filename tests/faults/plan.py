"""Plan of a campaign, determined by a seed: which operations in which order, and which faults between them.

A seed repeats the plan. The outcome of an operation also depends on timing.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

MIX: Final[Mapping[str, int]] = {
    "start": 19,
    "start_again": 6,
    "start_twice_at_once": 4,
    "start_with_another_body": 2,
    "read_run": 12,
    "read_events": 14,
    "read_outputs": 11,
    "read_zip": 3,
    "wait_for_run": 4,
    "wait_for_events": 3,
    "follow_events": 4,
    "read_redaction": 1,
    "read_board": 3,
    "list_runs": 3,
    "read_key": 2,
    "decide": 3,
    "decide_at_deadline": 2,
    "resume": 4,
    "plan_start": 4,
    "cancel_planned": 1,
    "trigger_schedule": 2,
    "cancel": 4,
    "erase": 3,
    "use_revoked_key": 1,
    "make_key": 1,
    "rotate_key": 1,
    "revoke_key": 1,
    "change_environment": 2,
    "read_environment": 1,
    "see_page": 3,
    "see_run": 3,
    "decide_in_console": 3,
    "start_in_console": 2,
    "sign_in": 1,
}
"""How often each kind of operation comes beside the others."""

# So few are slow that others find slots beside them.
WORKFLOWS: Final[Mapping[str, int]] = {
    "Quick": 24,
    "Files": 12,
    "Asked": 11,
    "Redacts": 8,
    "Publishes": 6,
    "Reads": 4,
    "AskedReads": 5,
    "Imports": 6,
    "Slow": 3,
    "FansOut": 8,
    "Calls": 8,
    "Branches": 8,
    "Expires": 6,
    "Lapses": 5,
}

S3: Final = "s3"
FOLDER: Final = "folder"
EMBEDDED: Final = "embedded"
"""One `serve`, its database and its objects on a small disk."""
EMBEDDED_S3: Final = "embedded-s3"
"""One `serve` with edge processes and SQLite, its objects in S3."""
MACHINES: Final = "machines"
"""As with S3, each part on a disk of its own, with few slots and a short time-out for launches."""

LAUNCH_TIMEOUT_SECONDS: Final[Mapping[str, int]] = {MACHINES: 15}
"""Where it is not a minute."""
STEP_SLOTS: Final = 2
"""Of each worker of such machines."""

_LOCKS: Final[Mapping[str, int]] = {
    "postgresql table lock": 5,
    "postgresql row locks": 5,
    "postgresql advisory locks": 4,
    "postgresql cancels statements": 5,
    "postgresql long reader": 3,
}
CONTENTIONS: Final = frozenset({*_LOCKS, "sqlite long reader"})
"""Faults after which no call fails: another session holds what statements need, or cancels them."""

AMID_FLOWS: Final = frozenset({"kill workers amid flows", "kill service amid flows", "kill backend at a deadline"})
"""Faults that wait for steps to be executed, which a backlog would keep from that."""

FAULTS: Final[Mapping[str, Mapping[str, int]]] = {
    S3: {
        "kill edge": 6,
        "kill backend": 6,
        "kill worker": 6,
        "kill console": 3,
        "stop worker past its lease": 3,
        "stop worker past its lease, then kill it": 3,
        "restart postgresql": 5,
        "postgresql away": 4,
        "redis away": 4,
        "step clock of edge": 3,
        "step clock of backend": 3,
        "step clock of worker": 3,
        "step clock of postgresql": 2,
        "edge loses backend": 5,
        "edge hears nothing from backend": 4,
        "edge cut off for minutes": 1,
        "s3 answers 500": 5,
        "s3 answers 503": 5,
        "s3 cuts connections": 5,
        "graph cuts connections": 4,
    },
    FOLDER: {"disk full": 12, "kill backend": 4, "kill worker": 4, "restart postgresql": 3},
    EMBEDDED: {
        "kill service amid flows": 5,
        "kill service at a due time": 4,
        "disk full": 5,
        "step clock of service": 4,
        "sqlite long reader": 3,
    },
    EMBEDDED_S3: {
        "sqlite long reader": 3,
        "kill service": 5,
        "step clock of service": 3,
        "s3 answers 500": 2,
        "s3 answers 503": 2,
        "s3 cuts connections": 2,
    },
    MACHINES: {
        **_LOCKS,
        "stop worker past its lease": 4,
        "suspend worker past its lease": 4,
        "kill worker, then decide": 5,
        "fill pool": 4,
        "restart workers behind a backlog": 3,
        "kill workers behind a backlog": 3,
        "kill workers amid flows": 5,
        "kill backend at a deadline": 4,
        "kill backend at a due time": 4,
        "restart postgresql": 2,
        "graph cuts connections": 4,
        "graph answers late": 4,
    },
}
"""Kinds of faults by the store of objects, with how often each comes beside the others."""

# What takes long, or is in another bounded form.
_ONLY_AT_LENGTH: Final[Mapping[str, frozenset[str]]] = {
    S3: frozenset({"edge cut off for minutes", "stop worker past its lease"})
}

# Not so far that a key expires, or the old secret of one that was rotated.
_CLOCK_STEPS: Final = (-7200.0, -600.0, -45.0, -1.5, 1.5, 45.0, 600.0, 7200.0)
# Whose clock several processes go by is set by less: their leases are counted by it.
_DATABASE_STEPS: Final = (-8.0, -1.5, 1.5, 8.0)
_SERVICE_STEPS: Final = (-600.0, -8.0, 8.0, 600.0)


def kinds_of(store: str, pace: float) -> list[str]:
    """The kinds of faults of a campaign at a pace."""
    return [kind for kind in FAULTS[store] if pace >= 1 or kind not in _ONLY_AT_LENGTH.get(store, ())]


def embedded(store: str) -> bool:
    """Whether the deployment is one command."""
    return store in {EMBEDDED, EMBEDDED_S3}


def in_s3(store: str) -> bool:
    """Whether objects are in S3, else in a folder."""
    return store in {S3, EMBEDDED_S3, MACHINES}


def workflows(store: str) -> dict[str, int]:
    """The workflows that the load starts, with how often each comes beside the others."""
    # Where slots are few, long steps come with a fault.
    return {name: weight for name, weight in WORKFLOWS.items() if name != "Slow" or store != MACHINES}


def launch_timeout_seconds(store: str) -> int:
    return LAUNCH_TIMEOUT_SECONDS.get(store, 60)


@dataclass(frozen=True)
class Operation:
    """One act of the load; `chances` in [0, 1) choose what it is about."""

    number: int
    kind: str
    chances: tuple[float, ...]


@dataclass(frozen=True)
class Fault:
    """Begins when so many operations were answered; `target` chooses between two of a kind, `chance` in [0, 1) more."""

    number: int
    kind: str
    after: int
    target: int
    seconds: float
    step: float = 0.0
    chance: float = 0.0


@dataclass(frozen=True)
class Extent:
    """How much; outages last `pace` times as long as at length."""

    operations: int
    faults: int
    rate: float
    pace: float = 1.0


def operations(seed: int) -> Iterator[Operation]:
    """Operations without end."""
    chance = random.Random(f"operations {seed}")
    kinds, weights = list(MIX), list(MIX.values())
    number = 0
    while True:
        number += 1
        (kind,) = chance.choices(kinds, weights)
        yield Operation(number, kind, tuple(chance.random() for _ in range(6)))


def faults(seed: int, store: str, extent: Extent) -> list[Fault]:
    """Faults in the order of their beginnings; each kind comes once before any comes again.

    Contentions come once before the others, which excuse calls that fail long after them; then those amid flows.
    """
    chance = random.Random(f"faults {store} {seed}")
    weights = FAULTS[store]
    kinds = kinds_of(store, extent.pace)
    chance.shuffle(kinds)
    more = chance.choices(kinds, [weights[kind] for kind in kinds], k=extent.faults)
    kinds.sort(key=lambda kind: (kind not in CONTENTIONS, kind not in AMID_FLOWS))
    kinds = (kinds + more)[: extent.faults]
    first, last = round(0.04 * extent.operations), round(0.85 * extent.operations)
    moments = sorted(chance.randint(first, last) for _ in kinds)
    return [
        Fault(
            number,
            kind,
            after,
            chance.randrange(2),
            _seconds(kind, extent.pace, chance),
            _step(kind, chance),
            chance.random(),
        )
        for number, (kind, after) in enumerate(zip(kinds, moments, strict=True), 1)
    ]


def _seconds(kind: str, pace: float, chance: random.Random) -> float:
    """How long it lasts."""
    match kind:
        case _ if kind.startswith(("stop worker past its lease", "suspend worker past its lease")):
            # A lease lasts 20 s from when it was last renewed.
            return chance.uniform(21, 23) if pace < 1 else chance.uniform(22, 30)
        case "postgresql table lock" | "postgresql row locks" | "postgresql advisory locks":
            # Half of them longer than a statement waits for a lock.
            return chance.choice((chance.uniform(0.5, 4), chance.uniform(8.2, 9)))
        case "postgresql cancels statements":
            # While connections open and prepare their statements, and after.
            return chance.uniform(5, 10)
        case "graph answers late":
            # Several attempts of a publication.
            return chance.uniform(8, 12)
        case "postgresql away":
            return 20 * pace
        case "edge cut off for minutes":
            # So long that its copy of the keys admits nobody any more.
            return 135
        case _ if kind.startswith(("kill", "restart")):
            return chance.uniform(0, 2) * pace
        case _:
            return chance.uniform(5, 15) * pace


def _step(kind: str, chance: random.Random) -> float:
    if not kind.startswith("step clock"):
        return 0.0
    if kind.endswith("service"):
        return chance.choice(_SERVICE_STEPS)
    return chance.choice(_DATABASE_STEPS if kind.endswith("postgresql") else _CLOCK_STEPS)
