"""Metrics in the Prometheus text format."""

import threading

import pytest

from deploy.serve.metrics_server import exposition
from telemetry import Counter, Gauge, Histogram, MetricsRegistry, NamedCounter, NamedGauge, TimedCounter, UpDownCounter
from telemetry.metrics import MOST_NAMED_SERIES, Labels


def lines(*families: object) -> list[str]:
    text = exposition(families).decode()  # type: ignore[arg-type]  # families, or tuples of them
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_counter_without_labels_begins_at_0() -> None:
    assert lines(Counter("calls_total", "Calls.").collect()) == ["workflow_api_calls_total 0.0"]


def test_a_counter_begins_at_0_for_known_labels() -> None:
    counter = Counter("calls_total", "Calls.", ("code",), known=[("OK",)])
    counter.add("INTERNAL")
    assert lines(counter.collect()) == [
        'workflow_api_calls_total{code="OK"} 0.0',
        'workflow_api_calls_total{code="INTERNAL"} 1.0',
    ]


def test_names_beyond_the_bound_are_counted_together() -> None:
    counter = NamedCounter("calls_total", "Calls.", ("key_id",))
    for number in range(MOST_NAMED_SERIES + 5):
        counter.add(f"key_{number}")
    counter.add("key_0")
    series = lines(counter.collect())
    assert len(series) == MOST_NAMED_SERIES + 1
    assert series[0] == 'workflow_api_calls_total{key_id="key_0"} 2.0'
    assert series[-1] == 'workflow_api_calls_total{key_id="other"} 5.0'


def test_an_up_down_counter_goes_down() -> None:
    level = UpDownCounter("streams", "Streams.", ("method",))
    level.add("a")
    level.add("a")
    level.add_many(-1, "a")
    assert lines(level.collect()) == ['workflow_api_streams{method="a"} 1.0']


def test_a_metric_without_values_has_its_name_and_help() -> None:
    text = exposition([Gauge("age_seconds", "Age.").with_values({})]).decode()
    assert text == "# HELP workflow_api_age_seconds Age.\n# TYPE workflow_api_age_seconds gauge\n"


def test_a_bucket_includes_its_bound() -> None:
    histogram = Histogram("wait_seconds", "Wait.", bounds=(0.5, 1.0))
    for seconds in (0.5, 0.75, 4.0):
        histogram.observe(seconds)
    assert lines(histogram.collect()) == [
        'workflow_api_wait_seconds_bucket{le="0.5"} 1.0',
        'workflow_api_wait_seconds_bucket{le="1"} 2.0',
        'workflow_api_wait_seconds_bucket{le="+Inf"} 3.0',
        "workflow_api_wait_seconds_count 3.0",
        "workflow_api_wait_seconds_sum 5.25",
    ]


def test_a_timed_counter_counts_by_more_labels_than_it_times() -> None:
    timed = TimedCounter(
        Counter("calls_total", "Calls.", ("method", "code")),
        Histogram("call_seconds", "Time.", ("method",), bounds=(1.0,)),
    )
    timed.observe(0.5, ("a", "OK"))
    timed.observe(2.0, ("a", "INTERNAL"))
    assert lines(*timed.collect()) == [
        'workflow_api_calls_total{code="OK",method="a"} 1.0',
        'workflow_api_calls_total{code="INTERNAL",method="a"} 1.0',
        'workflow_api_call_seconds_bucket{le="1",method="a"} 1.0',
        'workflow_api_call_seconds_bucket{le="+Inf",method="a"} 2.0',
        'workflow_api_call_seconds_count{method="a"} 2.0',
        'workflow_api_call_seconds_sum{method="a"} 2.5',
    ]


def test_every_label_needs_a_value() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Gauge("runs", "Runs.", ("status",)).with_value(1)


def test_no_count_is_lost_between_threads() -> None:
    counter = Counter("calls_total", "Calls.")
    timed = TimedCounter(Counter("x_total", "X."), Histogram("x_seconds", "X."))

    def count() -> None:
        for _ in range(20_000):
            counter.add()
            timed.observe(0.0, ())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.collect().samples[0].value == 80_000
    assert timed.collect()[0].samples[0].value == 80_000


def test_a_family_of_several_sources_is_one_family_with_the_samples_of_all() -> None:
    gauge = Gauge("things", "Things.", ("place",))
    registry = MetricsRegistry()
    with (
        registry.registered(lambda: [gauge.with_values({("a",): 1})]),
        registry.registered(lambda: [gauge.with_values({("b",): 2})]),
    ):
        (family,) = registry.collect()
    assert [(sample.labels, sample.value) for sample in family.samples] == [({"place": "a"}, 1), ({"place": "b"}, 2)]


def test_a_gauge_of_names_adds_up_the_smallest_values_beyond_its_most_series() -> None:
    gauge = NamedGauge("runs_of_keys", "Runs.", ("key_id",))
    values: dict[Labels, float] = {(f"key_{number}",): float(number) for number in range(MOST_NAMED_SERIES + 3)}
    samples = {sample.labels["key_id"]: sample.value for sample in gauge.with_values(values).samples}
    assert len(samples) == MOST_NAMED_SERIES + 1
    assert samples["other"] == 0 + 1 + 2
    assert sum(samples.values()) == sum(values.values())
