"""Values that are remembered for a while: bounded in bytes, and forgotten soon after their last use."""

from contract import recent_values
from contract.recent_values import RecentValues, remembering


class CallRecorder:
    def __init__(self) -> None:
        self.arguments: list[str] = []

    def __call__(self, argument: str) -> str:
        self.arguments.append(argument)
        return argument.upper()


def test_a_value_is_made_once_while_it_is_used() -> None:
    made = CallRecorder()
    find = remembering(made, len, 100)
    assert [find("a"), find("a"), find("b")] == ["A", "A", "B"]
    assert made.arguments == ["a", "b"]


def test_what_is_not_used_is_forgotten_after_the_second_turn() -> None:
    values = RecentValues[str, str](len, 100)
    values.put("a", "A")
    values.put("b", "B")
    values.turn()
    assert values.get("b") == "B"
    values.turn()
    assert (values.get("a"), values.get("b"), len(values)) == (None, "B", 1)


def test_a_discarded_value_is_forgotten_whenever_it_was_used() -> None:
    values = RecentValues[str, str](len, 100)
    values.put("old", "A")
    values.turn()
    values.put("young", "B")
    for argument in ("old", "young", "unknown"):
        values.discard(argument)
    assert len(values) == 0


def test_the_values_of_the_process_turn_by_themselves() -> None:
    values = RecentValues[str, str](len, 100)
    values.put("a", "A")
    assert values in recent_values._all
    assert recent_values.SECONDS <= 30


def test_kept_values_take_at_most_the_given_bytes() -> None:
    values = RecentValues[str, str](len, 80)
    for number in range(100):
        values.put(f"{number}", "x" * 10)
        assert 10 * len(values) <= 80
    values.put("large", "x" * 11)
    assert values.get("large") is None
