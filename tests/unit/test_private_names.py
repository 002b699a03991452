"""No test reaches for a private name of the code: what it needs is public, or can be observed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
OURS = frozenset(
    {
        *("backend", "benchmarks", "console", "contract", "deploy", "edge", "scripts", "telemetry", "tests"),
        *("workflow_api_agent", "workflow_api_channel", "workflow_api_client", "workflow_api_testing"),
    }
)
BY_NAME = frozenset({"attrgetter", "delattr", "getattr", "hasattr", "object", "patch", "setattr"})
"""Calls that take the name of an attribute as a text."""

PRIVATE_IN_NAME_ALONE = frozenset({"_asdict", "_exit", "_fields", "_make", "_replace"})
"""Public names of the standard library: of named tuples, and `os._exit`."""

OF_OTHERS = {
    "tests/contract/test_generated_client.py": {"_parse_response"},
    "tests/documents/commands.py": {"_protected_args"},
}
"""Names of other projects: a client that is generated from the OpenAPI document, and Click."""


def private(name: str) -> bool:
    """Returns whether a name begins with one underscore."""
    return name.startswith("_") and not name.startswith("__") and name != "_"


def private_accesses(source: str) -> Iterator[str]:
    """Yields each private name that a test takes from an object other than its own, from a module, or to patch."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) if private(name) and name not in PRIVATE_IN_NAME_ALONE:
                yield name
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] in OURS:
                yield from filter(private, (*module.split("."), *(each.name for each in names)))
            case ast.Import(names=names):
                modules = [each.name.split(".") for each in names]
                yield from (part for module in modules if module[0] in OURS for part in module if private(part))
            case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called), args=args) if called in BY_NAME:
                texts = [each.value for each in args[:2] if isinstance(each, ast.Constant)]
                parts = [part for text in texts if isinstance(text, str) for part in text.split(".")]
                yield from (part for part in parts if private(part) and part not in PRIVATE_IN_NAME_ALONE)


def test_no_test_reaches_for_a_private_attribute_of_the_code() -> None:
    """Tests go through constructors, public methods and what can be observed."""
    files = TESTS.rglob("*.py")
    found = {path.relative_to(ROOT).as_posix(): set(private_accesses(path.read_text("utf-8"))) for path in files}
    assert {name: names for name, names in found.items() if names} == OF_OTHERS


@pytest.mark.parametrize(
    "source",
    [
        "runs._bytes",
        "runs.latest()._bytes.real",
        "runs._bytes = 0",
        "from edge.waiting.latest_runs import _bytes",
        "import edge._bytes",
        "monkeypatch.setattr('edge.waiting.latest_runs._bytes', 0)",
        "monkeypatch.setattr(latest_runs, '_bytes', 0)",
        "getattr(runs, '_bytes')",
    ],
)
def test_each_way_to_a_private_attribute_is_found(source: str) -> None:
    assert list(private_accesses(source)) == ["_bytes"]
    assert list(private_accesses(source.replace("_bytes", "bytes"))) == []
