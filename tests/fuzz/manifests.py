"""Manifest files: any bytes give definitions that hold, or problems with file, line and field."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from backend.common.errors import ApiError
from backend.services.workflows.manifests.loader import Manifest, load_manifests
from tests.fuzz.target import Target
from tests.support.content_checks import UNBOUNDED
from workflow_api.v1 import errors_pb2

_ROOT = Path(__file__).parents[2]
_PLACE = re.compile(r"(?s:m\.yaml:([0-9]+): (.+))|files")


def check(data: bytes) -> None:
    """Holds what `apply` makes of a file."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return  # the command says so before anything is read
    try:
        manifests = load_manifests([("m.yaml", text)], UNBOUNDED)
    except ApiError as error:
        _check_problems(error, text)
        return
    assert manifests
    for manifest in manifests:
        json.loads(manifest.definition)
        assert 1 <= manifest.line <= _lines(text)
    [*again] = load_manifests(
        [("m.yaml", yaml.dump_all(map(_document, manifests), Dumper=yaml.CSafeDumper))], UNBOUNDED
    )
    assert [(m.kind, m.name, m.definition, m.status) for m in again] == [
        (m.kind, m.name, m.definition, m.status) for m in manifests
    ]


def _check_problems(error: ApiError, text: str) -> None:
    assert error.reason == errors_pb2.ERROR_REASON_INVALID_REQUEST
    assert error.problems
    for name, reason in error.problems:
        place = _PLACE.fullmatch(name)
        assert place, name
        assert reason
        assert place[1] is None or 1 <= int(place[1]) <= _lines(text), (name, _lines(text))
    # The refusal fits into a gRPC message.
    error.to_status().SerializeToString()


def _lines(text: str) -> int:
    # YAML's own line breaks; its end lies on the line after the last one.
    return len(re.findall("\r\n|[\r\n\x85\u2028\u2029]", text)) + 1


def _document(manifest: Manifest) -> dict[str, object]:
    status = {"status": manifest.status} if manifest.kind == "Workflow" and manifest.status else {}
    return {"kind": manifest.kind, **json.loads(manifest.definition), **status}


def project_manifests() -> Iterator[bytes]:
    """The manifests that the project holds."""
    paths = (*sorted((_ROOT / "examples").rglob("*.yaml")), _ROOT / "tests" / "support" / "workflows.yaml")
    return (path.read_bytes() for path in paths)


def seeds() -> Iterator[bytes]:
    """The project's own manifests, whole and by the document, and what must not grow without bound."""
    for content in project_manifests():
        if len(content) < TARGET.longest:
            yield content
        yield from content.split(b"\n---\n")
    yield b"a: &a [x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]\n"
    yield b"&a [*a]"
    yield b"[" * 200
    yield b"? [a]\n: b"
    yield b"kind: !!python/object/apply:os.system [ls]"
    yield b"kind: Environment\nname: 0x1F\nmemory_mb: 1e400\n"
    yield b"kind: Agent\nname: a\ntype: python\ncode: |\n  def run(context:\n    return None\n"
    yield b'%YAML 1.1\n---\nkind: Environment\nname: "\\u0000"\n...\n'


_WORDS = (
    *("kind: ", "name: ", "type: ", "status: ", "Environment", "Connector", "Agent", "KnowledgeGraph", "Workflow"),
    *("python", "llm", "s3", "folder", "sparql", "s3_prefix", "integer", "number", "date", "json", "boolean", "string"),
    *(
        "parameters:\n",
        "steps:\n",
        "settings: {",
        "pii_policy: {",
        "result: {",
        "publish:\n",
        "mapping: {",
        "schema: {",
    ),
    *(
        "default: ",
        "enum: [",
        "minimum: ",
        "maximum: ",
        "pattern: ",
        "min_length: ",
        "needs: [",
        "agent: ",
        "approval: {",
    ),
    *(
        "columns: {",
        "subject: ",
        "files: ",
        "retry: {",
        "attempts: ",
        "$ref: '#/a'",
        "$id: ",
        "$schema: ",
        "type: object",
    ),
    *(
        "\n---\n",
        "- {",
        "&a ",
        "*a",
        "!!str ",
        "|\n  ",
        ">-\n  ",
        "? ",
        "<<: ",
        "~",
        ".inf",
        ".nan",
        "0o7",
        "0x1",
        "1e999",
    ),
    *("2026-02-29", "'", '"', "\\u0000", "\u2028", "\x85", "\ufeff", "%YAML 1.2\n", "def run(context):\n", "\t"),
)
TARGET = Target(
    name="manifests",
    check=check,
    seeds=seeds,
    words=tuple(word.encode() for word in _WORDS),
    longest=8_192,
)
