from contract.times import milliseconds_of, set_milliseconds, to_duration, to_timestamp
from workflow_api.v1.runs_pb2 import Event


def test_a_time_keeps_its_milliseconds() -> None:
    time = to_timestamp(1_763_820_000_123)

    assert (time.seconds, time.nanos) == (1_763_820_000, 123_000_000)
    assert milliseconds_of(time) == 1_763_820_000_123


def test_a_time_span_keeps_its_milliseconds() -> None:
    assert milliseconds_of(to_duration(3_661_007)) == 3_661_007


def test_the_epoch_itself_is_a_time_that_is_set() -> None:
    event = Event()

    set_milliseconds(event.at, 0)

    assert event.HasField("at")
