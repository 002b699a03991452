"""Levels of log lines, for all and for parts."""

import logging

import pytest

from telemetry.logs import LevelSetter, parse_levels


def test_parts_may_have_levels_of_their_own() -> None:
    levels = parse_levels("warning, edge=debug,backend.rpc=error,edge.requests=info", ["edge.requests"])
    assert levels.default == "warning"
    assert levels.by_logger == {"edge": "debug", "backend.rpc": "error", "edge.requests": "info"}
    assert parse_levels("edge=debug").default == "info"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("loud", "must be debug or info or warning or error"),
        ("info,debug", "must have one level for all"),
        ("info,edge=", "must be debug or info"),
        ("info,backend.redactoin=debug", "names backend.redactoin, which is no part"),
        ("info,botocore=debug", "names botocore, which is no part"),
        ("info,edge./etc=debug", "which is no part"),
    ],
)
def test_what_is_not_allowed_is_said(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_levels(text)


def test_levels_take_the_place_of_those_before() -> None:
    setter = LevelSetter()
    try:
        setter.apply(parse_levels("info,edge=debug"))
        edge, backend = logging.getLogger("edge.x"), logging.getLogger("backend.services.runs.x")
        assert (edge.isEnabledFor(logging.DEBUG), backend.isEnabledFor(logging.INFO)) == (True, True)
        setter.apply(parse_levels("error,backend.services.runs=debug"))
        assert (edge.isEnabledFor(logging.WARNING), backend.isEnabledFor(logging.DEBUG)) == (False, True)
        setter.apply(parse_levels("warning"))
        assert (edge.isEnabledFor(logging.WARNING), backend.isEnabledFor(logging.INFO)) == (True, False)
    finally:
        setter.reset()
