"""Checks the parameters of a local run before anything that takes long."""

from collections.abc import Mapping, Sequence
from typing import Any

from backend.errors import ApiError
from backend.json_text import parse
from backend.workflows.parameters import effective_parameters
from deploy.failures import CommandError


def check_parameters(parameters: str, declared: Sequence[Mapping[str, Any]]) -> None:
    """Checks a JSON object by the rules of a start.

    Raises:
        CommandError: values do not fit their declarations; the details name every problem.
    """
    try:
        effective_parameters(declared, parse(parameters))
    except ApiError as refusal:
        folders = {each["name"] for each in declared if each["type"] == "s3_prefix"}
        hints = {name: f": give --input {name}=DIR to read a folder" for name in folders}
        problems = [{"name": name, "reason": f"{reason}{hints.get(name, '')}"} for name, reason in refusal.problems]
        raise CommandError(refusal.message, code="invalid_parameters", details=problems) from None
