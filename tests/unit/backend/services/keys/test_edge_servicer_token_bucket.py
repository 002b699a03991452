from backend.services.keys.edge_servicer import TokenBucket


def test_what_is_done_rarely_is_not_held_up_and_what_is_done_often_keeps_to_the_pace() -> None:
    now = 100.0
    bucket = TokenBucket(1.0, 3, clock=lambda: now)
    assert [bucket.take() for _ in range(5)] == [0.0, 0.0, 0.0, 1.0, 2.0]
    now += 2.0
    assert bucket.take() == 1.0
    # However long nothing was done, no more than these follow at once.
    now += 1_000.0
    assert [bucket.take() for _ in range(5)] == [0.0, 0.0, 0.0, 1.0, 2.0]
