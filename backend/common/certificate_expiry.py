"""Thresholds and wording of warnings before a certificate expires, shared by logs, findings and `doctor`."""

from datetime import timedelta
from typing import Final

SOON: Final = timedelta(days=14)
VERY_SOON: Final = timedelta(days=1)

_HOUR: Final = timedelta(hours=1)
_MINUTE: Final = timedelta(minutes=1)


def time_left(left: timedelta) -> str:
    """Returns the time until a certificate expires in whole hours, within the last hour in minutes."""
    if left < _MINUTE:
        return "less than a minute"
    count, unit = (left // _HOUR, "hour") if left >= _HOUR else (left // _MINUTE, "minute")
    return f"{count:,} {unit}{'' if count == 1 else 's'}"
