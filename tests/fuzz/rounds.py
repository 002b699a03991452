"""The targets that call a started service: rounds of a seed each, until the time is over.

`python -m tests.fuzz.rounds NAME SECONDS SEED`; a round that fails says its seed and what was called, and the exit code
is 1.
"""

import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fuzz.life.machine import Life
from tests.fuzz.life.world import World
from tests.fuzz.linked_calls import Walks
from tests.support.planted import leaks
from tests.support.service import Service


def live(service: Service, seed: int | None, *, examples: int = 10, steps: int = 60) -> None:
    """Runs the state machine of keys and runs; without a seed the same examples each time."""
    Life.world = World(service, service.admin.apply_test_workflows())
    wide = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=seed is None,
        # Shrinking a failing example takes minutes.
        phases=[Phase.generate] if seed is None else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Life if seed is None else hypothesis.seed(seed)(Life), settings=wide)


def follow_links(service: Service, seed: int, *, walks: int = 20, steps: int = 80) -> set[tuple[str, str]]:
    """Walks along the description's links; returns those that led to a success."""
    walker = Walks(service, seed)
    for number in range(walks):
        walker.walk(seed * walks + number, steps)
    return walker.followed


ROUNDS: Final[Mapping[str, Callable[[Service, int], object]]] = {"life": live, "linked_calls": follow_links}


def main() -> None:
    name, seconds, first_seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    end = time.monotonic() + seconds
    seed = first_seed
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder))
        service.start()
        try:
            while seed == first_seed or time.monotonic() < end:
                ROUNDS[name](service, seed)
                seed += 1
        except BaseException:  # noqa: BLE001 - groups of failures and interrupts too
            traceback.print_exc()
            print(f"failed with seed {seed}")
            raise SystemExit(1) from None
        finally:
            service.stop()
        assert leaks() == []
    print(f"{seed - first_seed} rounds")


if __name__ == "__main__":
    main()
