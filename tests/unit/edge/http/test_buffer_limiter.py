import logging

import pytest
from edge.http.api_connections import Room

BIG = 100_000


class FakeGuest:
    def __init__(self, waiting_since: float = 0.0) -> None:
        self.waiting_since = waiting_since
        self.held = 0
        self.fate = ""

    def evict(self) -> None:
        self.fate = "turned out"

    def lose_patience(self) -> None:
        self.fate = "told"


def room(guests: int = 1000, size: int = 10 * BIG, now: float = 100.0) -> Room:
    return Room(guests, size, lambda: now)


def test_in_a_full_room_who_keeps_us_waiting_longest_goes() -> None:
    full = room(guests=3)
    guests = [FakeGuest(waiting_since) for waiting_since in (30.0, 10.0, 0.0)]
    newcomer = FakeGuest()
    for guest in (*guests, newcomer):
        full.admit(guest)
    assert [guest.fate for guest in (*guests, newcomer)] == ["", "turned out", "", ""]


def test_a_newcomer_goes_where_all_others_have_calls_under_way() -> None:
    full = room(guests=2)
    busy = [FakeGuest(), FakeGuest()]
    newcomer = FakeGuest(50.0)
    for guest in (*busy, newcomer):
        full.admit(guest)
    assert [guest.fate for guest in (*busy, newcomer)] == ["", "", "turned out"]


def test_some_go_together_so_that_a_crowd_is_not_sorted_for_every_newcomer() -> None:
    full = room(guests=100)
    guests = [FakeGuest(1.0 + number) for number in range(101)]
    for guest in guests:
        full.admit(guest)
    assert [guest.fate for guest in guests] == ["turned out"] * 6 + [""] * 95


def test_who_has_left_takes_no_room() -> None:
    full = room(guests=1, size=BIG)
    first, second = FakeGuest(1.0), FakeGuest()
    full.admit(first)
    full.hold(first, BIG)
    full.leave(first)
    full.admit(second)
    assert first.fate == ""
    assert full.hold(second, BIG)


def test_bytes_are_kept_up_to_the_bound() -> None:
    bounded = room()
    guest = FakeGuest()
    bounded.admit(guest)
    assert [bounded.hold(guest, BIG) for _ in range(11)] == [True] * 10 + [False]


def test_for_want_of_room_whose_bytes_have_waited_longest_go() -> None:
    bounded = room()
    slow, slower, busy = FakeGuest(20.0), FakeGuest(10.0), FakeGuest()
    for guest in (slow, slower, busy):
        bounded.admit(guest)
        assert bounded.hold(guest, 3 * BIG)
    newcomer = FakeGuest(99.9)
    bounded.admit(newcomer)
    assert bounded.hold(newcomer, 2 * BIG)
    assert [guest.fate for guest in (slow, slower, busy, newcomer)] == ["", "told", "", ""]
    assert (slow.held, slower.held) == (3 * BIG, 0)


def test_who_is_prompt_is_not_sent_away_and_who_comes_too_much_is() -> None:
    bounded = room(now=100.0)
    prompt = FakeGuest(99.5)
    bounded.admit(prompt)
    assert bounded.hold(prompt, 10 * BIG)
    newcomer = FakeGuest()
    bounded.admit(newcomer)
    assert not bounded.hold(newcomer, BIG)
    assert prompt.fate == ""


def test_there_is_always_room_for_a_small_call() -> None:
    bounded = room()
    busy, small = FakeGuest(), FakeGuest()
    for guest in (busy, small):
        bounded.admit(guest)
    assert bounded.hold(busy, 10 * BIG)
    assert bounded.hold(small, 1000)
    assert not bounded.hold(small, BIG)


def test_what_is_given_back_can_be_held_again() -> None:
    bounded = room()
    guest = FakeGuest()
    bounded.admit(guest)
    assert bounded.hold(guest, 10 * BIG)
    bounded.release(guest, BIG)
    assert bounded.hold(guest, BIG)
    bounded.release(guest)
    assert guest.held == 0
    bounded.release(guest, BIG)
    assert guest.held == 0
    assert bounded.hold(guest, 10 * BIG)


def test_a_crowd_is_told_in_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    full = room(guests=1)
    with caplog.at_level(logging.WARNING):
        for number in range(100):
            full.admit(FakeGuest(1.0 + number))
            full.tell()
    assert 1 < len(caplog.records) < 10
