"""Values that are remembered for a while: bounded in bytes, and forgotten soon after their last use."""

import subprocess
import sys

from backend.common import caches
from backend.common.caches import RecentValues
from tests.support.poll import LONGEST_WAIT_SECONDS


def test_what_is_not_used_is_forgotten_after_the_second_turn() -> None:
    values = RecentValues[str, str](len, 100)
    values.put("a", "A")
    values.put("b", "B")
    values.drop_unused()
    assert values.get("b") == "B"
    values.drop_unused()
    assert (values.get("a"), values.get("b"), len(values)) == (None, "B", 1)


def test_a_discarded_value_is_forgotten_whenever_it_was_used() -> None:
    values = RecentValues[str, str](len, 100)
    values.put("old", "A")
    values.drop_unused()
    values.put("young", "B")
    for argument in ("old", "young", "unknown"):
        values.discard(argument)
    assert len(values) == 0


OFTENER = """
import time
from backend.common import caches
caches.SECONDS = 0.01
values = caches.RecentValues(len, 100)
values.put("a", "A")
while len(values):
    time.sleep(0.01)
"""


def test_the_values_of_the_process_turn_by_themselves() -> None:
    """In a process of its own, whose thread turns oftener."""
    assert caches.SECONDS <= 30
    subprocess.run([sys.executable, "-c", OFTENER], check=True, timeout=LONGEST_WAIT_SECONDS)


def test_kept_values_take_at_most_the_given_bytes() -> None:
    values = RecentValues[str, str](len, 80)
    for number in range(100):
        values.put(f"{number}", "x" * 10)
        assert 10 * len(values) <= 80
    values.put("large", "x" * 11)
    assert values.get("large") is None
