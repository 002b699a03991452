from edge.admission.rate_limit import LocalRateLimiter, RateWindow

MINUTE = 29_833_333 * 60_000


def count(limiter: LocalRateLimiter, at_ms: int, key_id: str = "ak_a") -> RateWindow:
    return limiter.count(key_id, 2, at_ms)


def test_the_call_after_the_limit_is_one_too_many() -> None:
    limiter = LocalRateLimiter()
    assert [count(limiter, MINUTE).used for _ in range(4)] == [1, 2, 3, 4]


def test_the_count_starts_again_with_the_utc_minute() -> None:
    limiter = LocalRateLimiter()
    assert [count(limiter, MINUTE + 59_999).used for _ in range(3)] == [1, 2, 3]
    assert count(limiter, MINUTE + 60_000) == RateWindow(limit=2, used=1, reset_seconds=60)


def test_keys_do_not_share_a_limit() -> None:
    limiter = LocalRateLimiter()
    assert [count(limiter, MINUTE, key_id).used for key_id in ("ak_a", "ak_b", "ak_a")] == [1, 1, 2]


def test_the_wait_reaches_into_the_next_minute_and_is_never_zero() -> None:
    limiter = LocalRateLimiter()
    waits = {0: 60, 1: 60, 1000: 59, 58_999: 2, 59_000: 1, 59_999: 1}
    assert {at: count(limiter, MINUTE + at).reset_seconds for at in waits} == waits


def test_usage_tells_what_was_counted_and_counts_nothing() -> None:
    limiter = LocalRateLimiter()
    count(limiter, MINUTE)
    assert limiter.usage("ak_a", 2, MINUTE) == limiter.usage("ak_a", 2, MINUTE) == RateWindow(2, 1, 60)
    assert limiter.usage("ak_a", 2, MINUTE + 60_000) == RateWindow(2, 0, 60)
    assert limiter.usage("ak_b", 2, MINUTE) == RateWindow(2, 0, 60)


def test_header_lines_never_tell_of_less_than_none_left() -> None:
    lines = [RateWindow(2, used, 7).header_lines for used in (1, 2, 3)]
    assert [line.split("\r\n")[1] for line in lines] == [
        "RateLimit-Remaining: 1",
        "RateLimit-Remaining: 0",
        "RateLimit-Remaining: 0",
    ]


def test_usage_of_a_call_that_was_held_does_not_outlast_its_minute_after_a_step_of_the_clock_back() -> None:
    window = RateWindow(2, 1, 40)
    assert window.after(10) == RateWindow(2, 1, 30)
    assert (window.after(40), window.after(-600)) == (None, None)
