from backend import metrics
from backend.runs import failure_codes


def test_every_failure_code_begins_at_0() -> None:
    assert set(metrics.FAILURE_CODES) == {value for name, value in vars(failure_codes).items() if name.isupper()}
