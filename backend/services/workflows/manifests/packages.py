"""Field `python` of an environment: the packages of its steps (contract 22.6)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from backend.common.json_text import JsonMapping
from backend.resources.environments.lock import (
    LARGEST_FILE_BYTES,
    LONGEST_REQUIREMENT,
    MOST_REQUIREMENTS,
    lines_of_file,
    normalised_requirement,
)
from backend.services.workflows.manifests.attachments import PATH_SCHEMA, Attachments, check_path
from backend.services.workflows.manifests.nodes import DocumentNode, Problem, member
from backend.services.workflows.manifests.records import Field, ListOf, Record
from backend.services.workflows.manifests.shapes import CheckedValue, JsonSchema, Text

_MODULE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")

_REQUIREMENT: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_REQUIREMENT,
    "patternErrorMessage": "must be a requirement as pandas==2.3.*",
}


def _requirement(value: object) -> str:
    if isinstance(value, str):
        return normalised_requirement(value)
    raise ValueError("must be a requirement as pandas==2.3.*; put it in quotes")


@dataclass(frozen=True)
class _Python(Record):
    """A record with `packages`, `requirements` or both."""

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> object:
        """Reads the field `python`, and requires one of both fields."""
        values = super().read(node, name, problems)
        if isinstance(values, dict) and not _given(node, "packages"):
            values["packages"] = []
            if not _given(node, "requirements"):
                reason = "is required, unless requirements names a file"
                problems.append(Problem(node.line, member(name, "packages"), reason))
        return values

    def json_schema(self) -> JsonSchema:
        """Returns the schema of the fields, with one of both required."""
        packages = {"required": ["packages"], "properties": {"packages": {"type": "array", "minItems": 1}}}
        requirements = {"required": ["requirements"], "properties": {"requirements": {"type": "string"}}}
        return {**super().json_schema(), "anyOf": [packages, requirements]}


def _given(python: DocumentNode, name: str) -> bool:
    """Returns whether a field has a non-empty value, valid or not."""
    field = python.value.get(name)
    return field is not None and field.value not in (None, [])


PYTHON: Final = _Python(
    {
        "packages": Field(
            ListOf(CheckedValue(_requirement, _REQUIREMENT), most=MOST_REQUIREMENTS, unique=True),
            about="Requirements, each a package with its versions as pip takes them; these, `requirements` or both.",
            example=["pandas==2.3.*", "openpyxl"],
        ),
        "requirements": Field(
            CheckedValue(check_path, PATH_SCHEMA),
            about="Path of a file with such requirements, from the folder of the manifest.",
            example="requirements.txt",
        ),
        "preload": Field(
            ListOf(Text(200, pattern=_MODULE, must_be="the name of a module as pandas"), most=50, unique=True),
            default=[],
            about="Modules that are imported before a step needs them.",
            example=["pandas"],
        ),
    }
)


def package_problems(python: JsonMapping, attachments: Attachments) -> Iterator[tuple[str, str]]:
    """Yields the problems of the requirements file of the field `python`; see `all_packages`."""
    readable = [package for package in python["packages"] or () if package is not None]
    yield from all_packages({**python, "packages": readable}, attachments)[1]


def all_packages(python: JsonMapping, attachments: Attachments) -> tuple[list[str], list[tuple[str, str]]]:
    """Returns the requirements of the field `python` and of its file, and the problems of the file.

    `attachments` are the files sent with the manifest. A problem is a place within the field, and a reason.
    """
    packages: list[str] = list(python["packages"])
    path = python["requirements"]
    if path is None:
        return packages, []
    if path in attachments.unreadable:
        return packages, [("requirements", reason) for reason in attachments.unreadable[path]]
    files = attachments.files
    if path not in files:
        return packages, [("requirements", f"must name a file that comes with the manifest; {path} did not")]
    if len(files[path]) > LARGEST_FILE_BYTES:
        return packages, [("requirements", f"{path} must have at most {LARGEST_FILE_BYTES:,} bytes")]
    try:
        # Windows editors may begin a file with a byte order mark.
        text = files[path].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return packages, [("requirements", f"{path} is not UTF-8 at byte {error.start}")]
    problems: list[tuple[str, str]] = []
    for line, requirement in lines_of_file(text):
        try:
            packages.append(normalised_requirement(requirement))
        except ValueError as error:
            problems.append(("requirements", f"{path}:{line}: {error}"))
    packages = list(dict.fromkeys(packages))
    if len(packages) > MOST_REQUIREMENTS:
        problems.append(("requirements", f"{path} and packages must have at most {MOST_REQUIREMENTS} entries together"))
    if not packages and not problems:
        problems.append(("requirements", f"{path} must name at least one package"))
    return packages, problems
