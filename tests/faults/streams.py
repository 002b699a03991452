"""Follows the stream of a run's events for a while."""

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.faults.journal import digest
from tests.faults.planted import PLANTED

# A comment comes after 15 s without an event.
SILENT_SECONDS: Final = 21.0


@dataclass
class Followed:
    """What came: events as `[segment, seq, type, digest]`, and how it ended."""

    events: list[list[Any]] = field(default_factory=list)
    last_id: str | None = None
    end: str | None = None
    """The status of the run, where the stream ended with it."""
    planted: bool = False
    """Whether an event held a planted value."""
    broken: str | None = None
    """Why it broke off."""


def follow(response: http.client.HTTPResponse, seconds: float) -> Followed:
    """Reads messages until the stream ends, breaks, or so many seconds are over and something comes."""
    followed = Followed()
    until = time.monotonic() + seconds
    try:
        for message in _messages(response):
            if message.get("event") == "end":
                followed.end = json.loads(message["data"])["status"]
                return followed
            if "id" in message:
                segment, _, seq = message["id"].rpartition(":")
                event = json.loads(message["data"])
                followed.events.append([segment, int(seq), event["type"], digest(event)])
                followed.planted |= PLANTED in message["data"]
                followed.last_id = message["id"]
            if time.monotonic() > until:
                return followed
        followed.broken = "ended without an end"
    except (OSError, http.client.HTTPException) as error:
        followed.broken = type(error).__name__
    return followed


def _messages(response: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    """The messages as they come, comments as empty ones."""
    message: dict[str, str] = {}
    for line in response:
        name, found, value = line.decode().rstrip("\n").partition(": ")
        if found and name in {"id", "event", "data"}:
            message[name] = value
        elif not line.strip() or not name:
            yield message
            message = {}
    if message:
        raise http.client.IncompleteRead(b"")
