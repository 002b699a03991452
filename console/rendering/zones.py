"""Time zones in which a person reads times."""

from datetime import UTC, tzinfo
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

UTC_NAME: Final = "UTC"


@cache
def zone_names() -> tuple[str, ...]:
    """Returns the zones that may be chosen, by name: UTC first, then those of a region such as `Europe/Berlin`."""
    regional = (name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))
    return (UTC_NAME, *sorted(regional))


def zone_named(name: str) -> tzinfo:
    """Returns the zone of that name; UTC for any other name."""
    return ZoneInfo(name) if name != UTC_NAME and name in zone_names() else UTC
