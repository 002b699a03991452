"""Validates PII policies of workflows, and applies overrides of starts, which only tighten (contract 21.1, 21.4).

A policy is `{mode, categories, stages, min_confidence, model, max_model_calls, parquet_sample_rows, phone_regions}`,
every field present; `categories` is "all" or a list of entity types.
"""

import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from backend.common.errors import ApiError
from backend.common.json_text import JsonMapping, JsonObject
from backend.common.optional_parts import PII_MODEL, REDACTION
from redaction.entity_types import ENTITY_TYPES
from redaction.policy import (
    LOCAL,
    MODEL_CALLS,
    MODES,
    REGIONS_MUST_BE,
    SAMPLE_ROWS,
    check_categories,
    check_mode,
    check_phone_regions,
    integer_within,
)
from workflow_api.v1 import errors_pb2

Policy = JsonObject

STAGES: Final = ("inputs", "steps", "outputs")

_LONGEST_NAME_SHOWN: Final = 200
_MODEL_PATTERN: Final = rf"^(?:{LOCAL}|(?=.{{1,200}}$)[a-z0-9-]+:[!-~]+)$"
_MODEL: Final = re.compile(_MODEL_PATTERN)
_MODEL_MUST_BE: Final = f"must be {LOCAL}, or the name of a model, as openai:gpt-5"
_REGION_PATTERN: Final = "^[A-Z]{2}$"
_CONFIDENCE_STEPS: Final = tuple(range(10, 21))


@dataclass(frozen=True, slots=True)
class PolicyField:
    """A field of a policy: its default, its normal form, and whether a new value is at least as tight as another.

    `normalise` raises ValueError, with a text for a person, if the value is invalid; every valid value fits the JSON
    Schema `schema`. `about` describes the field; `example` is a valid value.
    """

    default: Any
    normalise: Callable[[Any], Any]
    tightens: Callable[[Any, Any], bool]
    schema: JsonMapping
    about: str
    example: Any


def normalise(policy: JsonMapping | None) -> Policy:
    """Returns the policy of a manifest with defaults filled in; without a policy the mode is `off`.

    Raises:
        ValueError: a field is unknown or invalid; the text is for a person.
    """
    given = policy or {}
    unknown = [name for name in given if name not in FIELDS]
    if unknown:
        raise ValueError(f"{unknown[0]} is not a field of a PII policy")
    return {
        name: field.default if given.get(name) is None else field.normalise(given[name])
        for name, field in FIELDS.items()
    }


def apply_override(policy: JsonMapping, override: object, providers: AbstractSet[str]) -> Policy:
    """Returns the effective policy of a run: `policy` with the fields of the override; null counts as absent.

    `providers` are the providers whose models this deployment can call.

    Raises:
        ApiError: `invalid_pii_policy` with the first invalid field, in the order of the policy's fields, or the first
            unknown one; else `policy_not_tightening` with the first field that loosens the policy.
    """
    if override is None:
        return dict(policy)
    if not isinstance(override, Mapping):
        raise _refusal(errors_pb2.ERROR_REASON_INVALID_PII_POLICY, "pii_policy_override", "must be an object")
    changes: Policy = {}
    for name, field in FIELDS.items():
        value = override.get(name)
        if value is not None:
            try:
                changes[name] = field.normalise(value)
                if name == "model":
                    _check_usable(changes, providers)
            except ValueError as error:
                raise _refusal(errors_pb2.ERROR_REASON_INVALID_PII_POLICY, name, str(error)) from None
    for name in override:
        if name not in FIELDS:
            unknown = name[:_LONGEST_NAME_SHOWN]
            raise _refusal(errors_pb2.ERROR_REASON_INVALID_PII_POLICY, unknown, "is not a field of a PII policy")
    # A policy that is off searches nothing, so the override may set its other fields freely.
    compared = {"mode"} if policy.get("mode", "off") == "off" else FIELDS.keys()
    for name, value in changes.items():
        if name in compared and not FIELDS[name].tightens(policy.get(name, FIELDS[name].default), value):
            raise _refusal(
                errors_pb2.ERROR_REASON_POLICY_NOT_TIGHTENING, name, "must not be looser than in the workflow's policy"
            )
    effective = {**policy, **changes}
    reasons = {"mode": why_not_applicable(effective), "model": why_unusable(effective, providers)}
    for name in filter(reasons.get, reasons):
        raise _refusal(errors_pb2.ERROR_REASON_INVALID_PII_POLICY, name, f"cannot be used: {reasons[name]}")
    return effective


def why_not_applicable(policy: JsonMapping) -> str | None:
    """Returns why this deployment cannot apply a policy, for a person; None if it can, or the policy is off."""
    return None if REDACTION.installed or policy.get("mode", "off") == "off" else REDACTION.not_installed


def why_unusable(policy: JsonMapping, providers: AbstractSet[str]) -> str | None:
    """Returns why this deployment cannot call the model of a policy, for a person; None if it can or none is needed.

    An unknown model or a refused key shows only in a call.
    """
    model = policy.get("model")
    if model is None or policy.get("mode") == "off":
        return None
    if model == LOCAL:
        return None if LOCAL in providers else PII_MODEL.not_installed
    provider = model.partition(":")[0]
    return None if provider in providers else f"this deployment names no api_key for models of '{provider}'"


def _check_usable(policy: JsonMapping, providers: AbstractSet[str]) -> None:
    if (reason := why_unusable(policy, providers)) is not None:
        raise ValueError(f"cannot be used: {reason}")


def _refusal(reason: errors_pb2.ErrorReason.ValueType, field: str, why: str) -> ApiError:
    return ApiError(reason, f"The PII policy override is refused: {field} {why}.", metadata={"field": field})


def _stages(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one in STAGES for one in value):
        raise ValueError(f"must be a list of: {', '.join(STAGES)}")
    return [stage for stage in STAGES if stage in value]


def _confidence(value: object) -> float:
    steps = value * 20 if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
    if not _CONFIDENCE_STEPS[0] <= steps <= _CONFIDENCE_STEPS[-1] or abs(steps - round(steps)) > 1e-9:
        raise ValueError("must be from 0.5 to 1 in steps of 0.05")
    return round(steps) / 20


def _model(value: object) -> str:
    if not isinstance(value, str) or not _MODEL.fullmatch(value):
        raise ValueError(_MODEL_MUST_BE)
    return value


def _covers(present: str | list[str], new: str | list[str]) -> bool:
    return new == "all" or (present != "all" and set(new) >= set(present))


def _whole_field(
    bounds: tuple[int, int], default: int, tightens: Callable[[Any, Any], bool], about: str, example: int
) -> PolicyField:
    minimum, maximum = bounds
    schema = {"type": "integer", "minimum": minimum, "maximum": maximum}
    return PolicyField(default, integer_within(minimum, maximum), tightens, schema, about, example)


FIELDS: Final[Mapping[str, PolicyField]] = {
    "mode": PolicyField(
        "off",
        check_mode,
        lambda present, new: MODES.index(new) >= MODES.index(present),
        {"enum": list(MODES)},
        "Whether personal data is left alone, counted, or counted and replaced.",
        "redact",
    ),
    "categories": PolicyField(
        "all",
        check_categories,
        _covers,
        {"anyOf": [{"const": "all"}, {"type": "array", "items": {"enum": sorted(ENTITY_TYPES)}}]},
        "What is searched for: `all`, or entity types.",
        ["EMAIL_ADDRESS", "PHONE_NUMBER"],
    ),
    "stages": PolicyField(
        list(STAGES),
        _stages,
        _covers,
        {"type": "array", "items": {"enum": list(STAGES)}},
        "Where it is searched for.",
        ["inputs", "outputs"],
    ),
    "min_confidence": PolicyField(
        0.8,
        _confidence,
        lambda present, new: new <= present,
        {"enum": [step / 20 for step in _CONFIDENCE_STEPS]},
        "Least confidence of what counts as found.",
        0.5,
    ),
    # Another model may find less than the workflow's model; an additional model only finds more.
    "model": PolicyField(
        None,
        _model,
        lambda present, new: present in {None, new},
        {"type": "string", "pattern": _MODEL_PATTERN, "patternErrorMessage": _MODEL_MUST_BE},
        "Model that searches too: `local`, or a language model as `openai:gpt-5`; none without it.",
        LOCAL,
    ),
    "max_model_calls": _whole_field(
        MODEL_CALLS, 200, lambda present, new: new >= present, "Most calls of that model in a run.", 1_000
    ),
    "parquet_sample_rows": _whole_field(
        SAMPLE_ROWS, 50_000, lambda present, new: new >= present, "Rows of a Parquet file that are searched.", 10_000
    ),
    "phone_regions": PolicyField(
        [],
        check_phone_regions,
        lambda present, new: set(new) >= set(present),
        {
            "type": "array",
            "items": {"type": "string", "pattern": _REGION_PATTERN, "patternErrorMessage": REGIONS_MUST_BE},
        },
        "Countries whose national phone numbers are found everywhere, by ISO 3166 codes.",
        ["ES", "PL"],
    ),
}
