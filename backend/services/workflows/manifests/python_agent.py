"""Python agents in manifests: fields, and checks of code as text, in one file, or in a folder with an entry point."""

import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from backend.common.json_text import JsonMapping, JsonObject, canonical
from backend.resources.schemas.content_checks import ContentChecks
from backend.services.workflows.manifests.attachments import (
    LARGEST_CODE_BYTES,
    MOST_CODE_FILES,
    PATH_SCHEMA,
    PYTHON_PATH_SCHEMA,
    Attachments,
    below,
    check_path,
    check_python_path,
)
from backend.services.workflows.manifests.nodes import DocumentNode, Problem
from backend.services.workflows.manifests.records import Field, ListOf, Record, name_field
from backend.services.workflows.manifests.shapes import INVALID, SECRET_NAME, CheckedValue, JsonSchema, Text
from backend.services.workflows.manifests.workflow_fields import JSON_SCHEMA, check_size

LARGEST_MODULE_BYTES: Final = 2**20
_ENTRY: Final = "run"
_WAYS: Final = ("code", "code_file", "source")
_MOST_SECRETS: Final = 10
_LONGEST_NAME_BYTES: Final = 255
# Modules of the interpreter and the sandbox, which files of the folder must not hide.
_TAKEN: Final = frozenset({*sys.stdlib_module_names, "workflow_api_agent"})


class Code(NamedTuple):
    """The files of an agent's code folder, by relative path, and their digest."""

    digest: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class _SourceText:
    """Python source text of any length, which `add_code` checks."""

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> object:
        """Reads text of any length."""
        if isinstance(node.value, str):
            return node.value
        problems.append(Problem(node.line, name, "must be text"))
        return INVALID

    def json_schema(self) -> JsonSchema:
        """Returns the schema of text."""
        return {"type": "string"}


@dataclass(frozen=True)
class _PythonAgent(Record):
    """A record with exactly one of `code`, `code_file` and `source`; `entrypoint` belongs to `source`."""

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> object:
        """Reads an agent, and leaves out absent fields instead of adding defaults."""
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
        # Absent fields are left out, so that definitions from before these fields existed stay equal.
        absent = {*_WAYS, "entrypoint"} - {*given, *(["entrypoint"] if named else [])}
        absent |= {name for name in ("secrets", "input_schema") if not values[name]}
        return {field: value for field, value in values.items() if field not in absent}

    def json_schema(self) -> JsonSchema:
        """Returns the schema of the fields, with exactly one of the three ways to give code."""
        ways = [{"required": [way], "properties": {way: {"type": "string"}}} for way in _WAYS]
        return {**super().json_schema(), "oneOf": ways}


PYTHON_AGENT: Final = _PythonAgent(
    {
        "name": name_field("word-counter"),
        "code": Field(
            _SourceText(),
            about="Python source text that defines `run(context)`; either this, `code_file` or `source`.",
            example="def run(context):\n    return {'words': 1}\n",
        ),
        "code_file": Field(
            CheckedValue(check_python_path, PYTHON_PATH_SCHEMA),
            about="Path of a Python file that defines `run(context)`, from the folder of the manifest.",
            example="digest.py",
        ),
        "source": Field(
            CheckedValue(check_path, PATH_SCHEMA),
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
        "input_schema": Field(
            JSON_SCHEMA,
            about="JSON Schema of type `object` that `context.input` fits where the agent is a tool of a model; "
            "its `description` tells the model what the tool does. "
            "Without it the annotations of the function are read.",
            example={"type": "object", "required": ["currency"]},
        ),
    }
)


def add_code(
    value: JsonObject, node: DocumentNode, attachments: Attachments, checks: ContentChecks
) -> Iterator[Problem]:
    """Checks the code of an agent, and adds code in files to its definition: a file's text, or a folder's digests.

    Yields the problems, each with the line and the field that contain the code or name its file.
    """
    if isinstance(value.get("code"), str):
        yield from _text_problems(value["code"], node, checks)
    for way in ("code_file", "source"):
        path = value.get(way)
        if path is None:
            continue
        line = node.line_of(way)
        reasons = attachments.unreadable.get(path) or (
            _add_file(value, path, attachments, checks)
            if way == "code_file"
            else _add_folder(value, path, attachments, checks)
        )
        yield from (Problem(line, way, reason) for reason in reasons)
    if not value.get("input_schema"):
        yield from _add_input_schema(value, node, attachments, checks)


def _add_input_schema(
    value: JsonObject, node: DocumentNode, attachments: Attachments, checks: ContentChecks
) -> Iterator[Problem]:
    """Adds the schema of the input by the annotations of the function, where it has parameters after the context."""
    source: str | bytes | None = value.get("code")
    way, function = ("code" if "code" in node.value else "code_file"), _ENTRY
    if "digest" in value:
        files = below(attachments.files, value["source"])
        entry = _EntryPoint.of(files, value.get("entrypoint"))
        if entry is None or entry.file is None:
            return
        way, source, function = "source", files[entry.file], entry.function
    # Most functions take the context alone, and need no process that parses them.
    if source is None or len(source) > LARGEST_MODULE_BYTES or not _may_take_input(source, function):
        return
    found = checks.signature(source, function)
    if found.problem is not None:
        yield Problem(node.line_of(way), way, found.problem)
    elif found.schema is not None:
        try:
            value["input_schema"] = check_size(found.schema)
        except ValueError as error:
            yield Problem(
                node.line_of(way), way, f"must annotate {function} so that the schema of its input fits: it {error}"
            )


def _may_take_input(source: str | bytes, function: str) -> bool:
    """Returns whether a function may have more than one parameter; may be true of one that has not."""
    text = source if isinstance(source, str) else source.decode(errors="replace")
    return re.search(rf"\bdef\s+{function}\s*\([^,)]*,", text) is not None


def code_of(value: JsonMapping, attachments: Attachments) -> Code | None:
    """Returns the code folder of a definition after `add_code`; None if its code is no folder."""
    return Code(value["digest"], below(attachments.files, value["source"])) if "digest" in value else None


def _text_problems(text: str, node: DocumentNode, checks: ContentChecks) -> Iterator[Problem]:
    found = checks.code_problem(text, defines=_ENTRY)
    if found is not None:
        # In a `|` block, the line of a syntax error is added to the line of the field.
        literal = node.value["code"].literal
        yield Problem(node.line_of("code") + (found.line or 0 if literal else 0), "code", found.reason)


def _add_file(value: JsonObject, path: str, attachments: Attachments, checks: ContentChecks) -> Iterator[str]:
    content = attachments.files.get(path)
    if content is None:
        yield f"must name a file that comes with the manifest; {path} did not"
    elif (problem := _module_problem(path, content, checks, defines=_ENTRY)) is not None:
        yield problem
    else:
        try:
            value["code"] = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            yield f"{path}: must be UTF-8; byte {error.start} is not"


def _add_folder(value: JsonObject, path: str, attachments: Attachments, checks: ContentChecks) -> Iterator[str]:
    files = below(attachments.files, path)
    entry = _EntryPoint.of(files, value.get("entrypoint"))
    # Folders that are too large are not compiled.
    problems = [*_size_problems(files, path)] or [*_file_problems(files, path, entry, checks)]
    if files and entry is not None and entry.file is None:
        problems.append(f"{path} must have the module {entry.module} of the entrypoint, as {entry.expected}")
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


def _file_problems(
    files: Mapping[str, bytes], path: str, entry: "_EntryPoint | None", checks: ContentChecks
) -> Iterator[str]:
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
        elif name.endswith(".py"):
            defines = entry.function if entry is not None and entry.file == name else None
            if (problem := _module_problem(f"{path}/{name}", content, checks, defines=defines)) is not None:
                yield problem


def _module_problem(path: str, content: bytes, checks: ContentChecks, *, defines: str | None) -> str | None:
    if len(content) > LARGEST_MODULE_BYTES:
        return f"{path}: must have at most {LARGEST_MODULE_BYTES:,} bytes of Python"
    found = checks.code_problem(content, defines=defines)
    if found is None:
        return None
    return f"{path if found.line is None else f'{path}:{found.line}'}: {found.reason}"


class _EntryPoint(NamedTuple):
    """An entry point of a folder: its module and function, and the module's file if the folder has it."""

    module: str
    function: str
    file: str | None

    @classmethod
    def of(cls, files: Mapping[str, bytes], entrypoint: str | None) -> "_EntryPoint | None":
        """Parses an entry point, as `module:function`; None without one."""
        if not entrypoint:
            return None
        module, _, function = entrypoint.partition(":")
        place = module.replace(".", "/")
        file = next((path for path in (f"{place}/__init__.py", f"{place}.py") if path in files), None)
        return cls(module, function, file)

    @property
    def expected(self) -> str:
        """The possible paths of the module, for a message."""
        place = self.module.replace(".", "/")
        return f"{place}.py or {place}/__init__.py"


def _is_normal(name: str) -> bool:
    try:
        return name != "." and check_path(name) == name
    except ValueError:
        return False
