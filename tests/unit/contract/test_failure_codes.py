from contract import failure_codes


def test_all_failure_codes_are_listed() -> None:
    codes = {value for name, value in vars(failure_codes).items() if name.isupper() and isinstance(value, str)}
    assert set(failure_codes.ALL) == codes
