"""The warnings of a run about files that were not swept in full (docs/redaction.md)."""

from collections.abc import Mapping
from typing import Final

from backend.optional_parts import PARQUET
from backend.redaction.formats.outcome import FileOutcome
from backend.redaction.process.redactor import OVER_LIMIT, SWEEP_FAILED

_REASONS: Final[Mapping[str, str]] = {
    "broken": "it is malformed",
    "not_installed": PARQUET.not_installed,
    "embedded": "it holds pictures or other parts that cannot be searched",
    "too_large": "it expands to more than {expanded_mb} MB",
    "too_many_members": "it has more members than an archive may have",
    "too_deep": "its archives are nested too deep",
    "value_too_long": "it holds a value that is too long",
}


def sweep_warning(outcome: FileOutcome, name: str, limit: str, expanded_mb: int) -> str | None:
    """Returns the warning for a file, by its swept name, that was not swept in full; None for one that was."""
    if outcome.reason == OVER_LIMIT:
        return over_limit_warning(name, limit, outcome.withheld)
    if outcome.reason == SWEEP_FAILED:
        what = "was withheld" if outcome.withheld else "could not be searched"
        return f"The file '{name}' {what}, because its sweep for personal data failed."
    reason = _REASONS.get(outcome.reason or "")
    if reason is None:
        return None
    what = "was withheld, because it could not" if outcome.withheld else "could not"
    return f"The file '{name}' {what} be searched for personal data: {reason.format(expanded_mb=expanded_mb)}."


def over_limit_warning(name: str, limit: str, withheld: bool) -> str:
    """Returns the warning for a file, by its swept name, whose sweep exceeded the bounds that `limit` words."""
    what = "was withheld" if withheld else "could not be searched"
    return f"The file '{name}' {what}, because its sweep for personal data needs more than {limit}."
