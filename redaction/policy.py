"""PII policies: mode, entity types, least confidence and model, with their checks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from redaction.entity_types import ENTITY_TYPES

MODES: Final = ("off", "detect", "redact")
LOCAL: Final = "local"
"""The model of a policy that runs in this process."""

REGIONS_MUST_BE: Final = "must be a list of countries by their ISO 3166 codes of two capitals, as ES"


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy with all its fields.

    Mode `redact` replaces every value by `[TYPE]`; mode `detect` counts and changes nothing; mode `off` does nothing.
    `model` is LOCAL for names and addresses that no rule finds, and None for the rules alone.
    """

    mode: str = "redact"
    categories: frozenset[str] = ENTITY_TYPES
    min_confidence: float = 0.8
    model: str | None = None
    max_model_calls: int = 200
    parquet_sample_rows: int = 50_000
    phone_regions: frozenset[str] = frozenset()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Reads a policy; a missing or None field has its default.

        Raises:
            ValueError: a field is unknown or not valid; the text is for people.
        """
        checks = {field.name: _CHECKS[field.name] for field in fields(cls)}
        for name in given:
            if name not in checks:
                raise ValueError(f"{name} is not a field of a policy")
        read = {}
        for name, value in given.items():
            if value is not None:
                try:
                    read[name] = checks[name](value)
                except ValueError as error:
                    raise ValueError(f"{name} {error}") from None
        return cls(**read)


def check_mode(value: Any) -> str:
    """Returns a valid mode; raises ValueError for other values, as all checks do."""
    if not isinstance(value, str) or value not in MODES:
        raise ValueError(f"must be one of: {', '.join(MODES)}")
    return value


def check_categories(value: Any) -> str | list[str]:
    """Returns valid categories: "all", or entity types in order."""
    if value == "all":
        return "all"
    if not isinstance(value, list) or not all(isinstance(one, str) and one in ENTITY_TYPES for one in value):
        raise ValueError('must be "all" or a list of the entity types in docs/redaction.md, as EMAIL_ADDRESS')
    return sorted(set(value))


def check_phone_regions(value: Any) -> list[str]:
    """Returns valid countries in order."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(REGIONS_MUST_BE)
    if not value:
        return []
    # Imported late: most policies name none.
    from phonenumbers import SUPPORTED_REGIONS

    for one in value:
        if one not in SUPPORTED_REGIONS:
            raise ValueError(f"{REGIONS_MUST_BE}, and '{one[:20]}' is none with phone numbers of its own")
    return sorted(set(value))


def integer_within(minimum: int, maximum: int) -> Callable[[Any], int]:
    """Returns a check of integers within bounds."""

    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise ValueError(f"must be an integer from {minimum:,} to {maximum:,}")
        return value

    return check


def _confidence(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError("must be a number from 0 to 1")
    return float(value)


def _model(value: Any) -> str:
    if value != LOCAL:
        raise ValueError(f"must be {LOCAL}")
    return LOCAL


def _category_set(value: Any) -> frozenset[str]:
    checked = check_categories(value)
    return ENTITY_TYPES if checked == "all" else frozenset(checked)


MODEL_CALLS: Final = (0, 100_000)
SAMPLE_ROWS: Final = (1, 50_000)

_CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "mode": check_mode,
    "categories": _category_set,
    "min_confidence": _confidence,
    "model": _model,
    "max_model_calls": integer_within(*MODEL_CALLS),
    "parquet_sample_rows": integer_within(*SAMPLE_ROWS),
    "phone_regions": lambda value: frozenset(check_phone_regions(value)),
}
