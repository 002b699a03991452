"""Python agents: their code is text in the manifest, a file beside it, or a folder with an entry point."""

import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from backend.json_text import canonical
from backend.workflows.manifests.attachments import (
    LARGEST_CODE_BYTES,
    MOST_CODE_FILES,
    PATH_SCHEMA,
    Attachments,
    below,
    check_path,
    check_python_path,
)
from backend.workflows.manifests.nodes import Node, Problem
from backend.workflows.manifests.python_code import ENTRY, PythonCode, code_problem, module_file
from backend.workflows.manifests.records import Field, ListOf, Record
from backend.workflows.manifests.shapes import INVALID, SECRET_NAME, Checked, JsonSchema, Text
from backend.workflows.manifests.texts import name_field

_WAYS: Final = ("code", "code_file", "source")
_MOST_SECRETS: Final = 10
_LONGEST_NAME_BYTES: Final = 255
# What the sandbox provides, and what an import of a name in the folder would hide.
_TAKEN: Final = frozenset({*sys.stdlib_module_names, "workflow_api_agent"})


class Code(NamedTuple):
    """The files of an agent's folder, by their path from it."""

    digest: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class _PythonAgent(Record):
    """A record with exactly one of `code`, `code_file` and `source`; `entrypoint` belongs to `source`."""

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Reads an object, without the fields that it does not have."""
        values = super().read(node, name, problems)
        if values is INVALID:
            return INVALID
        given = [way for way in _WAYS if (one := node.value.get(way)) is not None and one.value is not None]
        if not given:
            problems.append(Problem(node.line, "code", "is required, or code_file, or source with entrypoint"))
        for way in given[1:]:
            reason = f"must not be there beside {given[0]}: an agent has one of {', '.join(_WAYS)}"
            problems.append(Problem(node.line_of(way), way, reason))
        entry = node.value.get("entrypoint")
        named = entry is not None and entry.value is not None
        if named and "source" not in given:
            problems.append(Problem(node.line_of("entrypoint"), "entrypoint", "must not be there without source"))
        if not named and "source" in given:
            problems.append(Problem(node.line, "entrypoint", "is required beside source"))
        # Agents that were applied before these fields existed have the same definition as now.
        absent = {*_WAYS, "entrypoint"} - {*given, *(["entrypoint"] if named else [])}
        absent |= set() if values["secrets"] else {"secrets"}
        return {field: value for field, value in values.items() if field not in absent}

    def json_schema(self) -> JsonSchema:
        """Returns the fields, and that one of the three is there."""
        ways = [{"required": [way], "properties": {way: {"type": "string"}}} for way in _WAYS]
        return {**super().json_schema(), "oneOf": ways}


PYTHON_AGENT: Final = _PythonAgent(
    {
        "name": name_field("word-counter"),
        "code": Field(
            PythonCode(),
            about="Python source text that defines `run(context)`; either this, `code_file` or `source`.",
            example="def run(context):\n    return {'words': 1}\n",
        ),
        "code_file": Field(
            Checked(
                check_python_path,
                {**PATH_SCHEMA, "pattern": r"\.py$", "patternErrorMessage": "must be a path as digest.py"},
            ),
            about="Path of a Python file that defines `run(context)`, from the folder of the manifest.",
            example="digest.py",
        ),
        "source": Field(
            Checked(check_path, PATH_SCHEMA),
            about="Path of a folder with Python modules and other files, from the folder of the manifest.",
            example="agents/digest",
        ),
        "entrypoint": Field(
            Text(
                200,
                pattern=re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*"),
                must_be="of the form module:function, as digest.main:run",
            ),
            about="The function of `source` that is called with the context, as `module:function`.",
            example="main:run",
        ),
        "secrets": Field(
            ListOf(SECRET_NAME, most=_MOST_SECRETS, unique=True),
            default=[],
            about="Names of secrets of the deployment, whose values `context.secret(name)` returns.",
            example=["rates-api"],
        ),
    }
)


def add_code(value: dict[str, Any], node: Node, attachments: Attachments) -> Iterator[Problem]:
    """Adds the code in files to an agent's definition: the text of a file, or the digests of a folder's files.

    Yields the problems of these files, each with the line and the field that name them.
    """
    for way in ("code_file", "source"):
        path = value.get(way)
        if path is None:
            continue
        line = node.line_of(way)
        reasons = attachments.unreadable.get(path) or (
            _add_file(value, path, attachments) if way == "code_file" else _add_folder(value, path, attachments)
        )
        yield from (Problem(line, way, reason) for reason in reasons)


def code_of(value: Mapping[str, Any], attachments: Attachments) -> Code | None:
    """Returns the folder of a definition to which `add_code` added its digests; None where it has none."""
    return Code(value["digest"], below(attachments.files, value["source"])) if "digest" in value else None


def _add_file(value: dict[str, Any], path: str, attachments: Attachments) -> Iterator[str]:
    content = attachments.files.get(path)
    if content is None:
        yield f"must name a file that comes with the manifest; {path} did not"
        return
    if (found := code_problem(content, defines=ENTRY)) is not None:
        place = path if found.line is None else f"{path}:{found.line}"
        yield f"{place}: {found.reason}"
        return
    try:
        value["code"] = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield f"{path}: must be UTF-8; byte {error.start} is not"


def _add_folder(value: dict[str, Any], path: str, attachments: Attachments) -> Iterator[str]:
    files = below(attachments.files, path)
    # What is too much is not compiled.
    problems = [*_size_problems(files, path)] or [*_file_problems(files, path)]
    if files and value.get("entrypoint"):
        problems += _entry_problems(files, path, value["entrypoint"])
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    value["files"] = digests
    value["digest"] = hashlib.sha256(canonical(digests).encode()).hexdigest()
    yield from problems


def _size_problems(files: Mapping[str, bytes], path: str) -> Iterator[str]:
    if not files:
        yield f"must name a folder with files that come with the manifest; of {path} none did"
    if len(files) > MOST_CODE_FILES:
        yield f"{path} must have at most {MOST_CODE_FILES:,} files; it has {len(files):,}"
    size = sum(map(len, files.values()))
    if size > LARGEST_CODE_BYTES:
        yield f"{path} must have at most {LARGEST_CODE_BYTES:,} bytes; it has {size:,}"


def _file_problems(files: Mapping[str, bytes], path: str) -> Iterator[str]:
    for name, content in sorted(files.items()):
        if not _is_normal(name):
            yield f"{path}/{name}: must be a path in its normal form, with / and without .. in it"
        if any(len(part.encode(errors="replace")) > _LONGEST_NAME_BYTES for part in name.split("/")):
            yield f"{path}/{name}: each name in it must have at most {_LONGEST_NAME_BYTES} bytes"
        for file in files.keys() & set(map(str, PurePosixPath(name).parents)):
            yield f"{path}/{name}: must not be below {path}/{file}, which is a file"
        first = name.partition("/")[0].removesuffix(".py")
        if name.endswith(".py") and first in _TAKEN:
            yield f"{path}/{name}: must not be named as the module {first}, which the interpreter has"
        elif name.endswith(".py") and (found := code_problem(content)) is not None:
            place = f"{path}/{name}" if found.line is None else f"{path}/{name}:{found.line}"
            yield f"{place}: {found.reason}"


def _entry_problems(files: Mapping[str, bytes], path: str, entrypoint: str) -> Iterator[str]:
    module, _, function = entrypoint.partition(":")
    file = module_file(files, module)
    if file is None:
        place = module.replace(".", "/")
        yield f"{path} must have the module {module} of the entrypoint, as {place}.py or {place}/__init__.py"
    elif code_problem(files[file]) is None and (found := code_problem(files[file], defines=function)) is not None:
        yield f"{path}/{file}: {found.reason}"


def _is_normal(name: str) -> bool:
    try:
        return name != "." and check_path(name) == name
    except ValueError:
        return False
