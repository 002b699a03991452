"""docs/architecture.md has the packages, the layers that import-linter checks, and two lives of one page each."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "architecture.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
LINTER: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
CONTRACTS: list[dict[str, Any]] = LINTER["contracts"]
PARTS = (
    *("backend", "contract", "deploy", "edge", "console", "redaction", "telemetry"),
    *("workflow_api_agent", "workflow_api_channel", "workflow_api_testing"),
)
SOURCES = ("protos", "generated")
BELOW_EVERY_SERVICE = {"storage", "schemas", "confined"}
"""Packages of the backend that its own modules may import."""

CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(rf"(?:{'|'.join([*PARTS, *SOURCES, 'tests'])})/[\w./]*")
LAYERS = re.compile(r"^```layers *(.*)\n((?:.+\n)*?)```$", re.MULTILINE)
LIFE = re.compile(r"^## The life of a (\w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
WORDS_OF_A_PAGE = 500
PARTICIPANT = re.compile(r"^ +participant \w+ as (\S+/\S*)$", re.MULTILINE)


class Layers(NamedTuple):
    """A drawing of layers, the highest first, with names relative to `container` and imports that are exempt."""

    container: str
    lines: tuple[str, ...]
    exceptions: frozenset[str]

    def __str__(self) -> str:
        exceptions = [f"except {exception}" for exception in sorted(self.exceptions)]
        return "\n".join([f"```layers {self.container}".rstrip(), *self.lines, *exceptions, "```"])


class Ban(NamedTuple):
    """A row of the table of forbidden imports."""

    importers: frozenset[str]
    modules: frozenset[str]

    def __str__(self) -> str:
        cells = [", ".join(f"`{name}`" for name in sorted(names)) for names in self]
        return f"| {cells[0]} | {cells[1]} | (why) |"


class Acyclic(NamedTuple):
    """A row of the table of packages whose modules import each other without cycles, with what is exempt from it."""

    packages: frozenset[str]
    exceptions: frozenset[str]

    def __str__(self) -> str:
        cells = [", ".join(f"`{name}`" for name in sorted(names)) or "none" for names in self]
        return f"| No cycles below | Except |\n|---|---|\n| {' | '.join(cells)} |"


def tables(text: str, first_heading: str) -> Iterator[list[str]]:
    """Yields the rows of all tables whose first column has a heading."""
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if cells and inside and not set(cells[0]) <= {"-", "|"}:
            yield cells
        inside = bool(cells) and (inside or cells[0] == first_heading)


def packages() -> set[str]:
    """Returns the folders that hold modules, and everything directly below deploy/; each with a slash at its end."""
    holding = {file.parent for part in PARTS for file in (ROOT / part).rglob("*.py")}
    holding |= {folder for folder in (ROOT / "deploy").iterdir() if folder.is_dir()}
    named = {f"{folder.relative_to(ROOT).as_posix()}/" for folder in holding}
    return {name for name in named if "/__pycache__/" not in name and "/migrations/versions/" not in name}


def described() -> dict[str, str]:
    """Returns the sentences of the tables of packages, by folder."""
    return {CODE.findall(row[0])[0]: row[1] for row in tables(TEXT, "Folder")}


def drawn_layers() -> set[Layers]:
    """Returns the drawings of layers on the page."""
    drawings = set()
    for container, body in LAYERS.findall(TEXT):
        lines = body.splitlines()
        exceptions = {line.removeprefix("except ") for line in lines if line.startswith("except ")}
        layers = tuple(line for line in lines if not line.startswith("except "))
        drawings.add(Layers(container.strip(), layers, frozenset(exceptions)))
    return drawings


def checked_layers() -> set[Layers]:
    """Returns what import-linter checks as layers."""
    return {
        Layers(
            " ".join(contract.get("containers", [])),
            tuple(contract["layers"]),
            frozenset(contract.get("ignore_imports", [])),
        )
        for contract in CONTRACTS
        if contract["type"] == "layers"
    }


def written_bans() -> set[Ban]:
    """Returns the rows of forbidden imports on the page."""
    return {Ban(frozenset(CODE.findall(row[0])), frozenset(CODE.findall(row[1]))) for row in tables(TEXT, "Importer")}


def checked_bans() -> set[Ban]:
    """Returns what import-linter forbids; independent modules never import one another."""
    forbidden = {
        Ban(frozenset(contract["source_modules"]), frozenset(contract["forbidden_modules"]))
        for contract in CONTRACTS
        if contract["type"] == "forbidden"
    }
    independent = [frozenset(contract["modules"]) for contract in CONTRACTS if contract["type"] == "independence"]
    return forbidden | {Ban(modules, modules) for modules in independent}


def written_acyclic() -> set[Acyclic]:
    """Returns the rows of packages without cycles on the page."""
    return {Acyclic(*(frozenset(CODE.findall(cell)) for cell in row)) for row in tables(TEXT, "No cycles below")}


def checked_acyclic() -> set[Acyclic]:
    """Returns the packages that import-linter checks for cycles."""
    return {
        Acyclic(
            frozenset(contract["ancestors"]),
            frozenset([*contract.get("skip_descendants", []), *contract.get("ignore_imports", [])]),
        )
        for contract in CONTRACTS
        if contract["type"] == "acyclic_siblings"
    }


def difference(written: set[Any], checked: set[Any]) -> str:
    """Returns what has to be added to the page and removed from it; empty if it says what is checked."""
    parts = [f"{DOCUMENT.name} lacks this contract of pyproject.toml; add:\n{one}" for one in checked - written]
    parts += [f"{DOCUMENT.name} has this, and pyproject.toml has not; remove:\n{one}" for one in written - checked]
    return "\n\n".join(["", *sorted(parts)]) if parts else ""


def layered_with(name: str) -> set[str]:
    """Returns all modules of the drawing that has a module with this full name."""
    for layers in checked_layers():
        names = {each.strip(" ()") for line in layers.lines for each in re.split("[|:]", line)}
        if name in names and not layers.container:
            return names
    return set()


@cache
def imports_of(path: str) -> frozenset[str]:
    """Returns what a module imports, as dotted names of modules and of what is taken from them."""
    names = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def test_every_package_has_a_sentence() -> None:
    rows = described()
    present = packages() | {f"{folder}/" for folder in SOURCES}
    shallow = {name for name in present if name.count("/") <= 2}
    assert sorted(shallow - rows.keys()) == [], "add a row to the tables of packages: | `folder/` | Purpose. |"
    assert sorted(rows.keys() - present) == [], "remove these rows from the tables of packages"
    assert [name for name, sentence in rows.items() if not sentence.endswith(".")] == []


def test_packages_without_a_row_have_a_docstring() -> None:
    modules = [ROOT / name / "__init__.py" for name in sorted(packages() - described().keys())]
    assert [module for module in modules if not ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))] == []


def test_the_drawn_layers_are_those_that_are_checked() -> None:
    missing = difference(drawn_layers(), checked_layers())
    assert not missing, missing


def test_the_forbidden_imports_are_those_that_are_checked() -> None:
    missing = difference(written_bans(), checked_bans())
    assert not missing, missing


def test_the_packages_without_cycles_are_those_that_are_checked() -> None:
    missing = difference(written_acyclic(), checked_acyclic())
    assert not missing, missing


def test_each_kind_of_contract_is_shown() -> None:
    shown = {"layers", "forbidden", "independence", "acyclic_siblings"}
    assert {contract["type"] for contract in CONTRACTS} <= shown


def test_every_part_is_checked() -> None:
    assert layered_with("deploy") == {*PARTS, "workflow_api"} == set(LINTER["root_packages"])


def test_only_modules_of_sql_may_import_sqlalchemy() -> None:
    [contract] = [
        contract
        for contract in CONTRACTS
        if contract["type"] == "forbidden"
        and contract["source_modules"] == ["backend"]
        and "sqlalchemy" in contract["forbidden_modules"]
    ]
    exempt = {line.split(" -> ")[0] for line in contract["ignore_imports"]}
    assert exempt
    assert sorted(name for name in exempt if not re.fullmatch(r"backend\.storage\..+|.+\.(\w+_)?sql", name)) == []


def test_every_path_on_the_page_exists() -> None:
    paths = {code for code in CODE.findall(TEXT) if PATH.fullmatch(code)} | set(PARTICIPANT.findall(TEXT))
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


@pytest.mark.parametrize("subject", ["call", "run"])
def test_each_life_is_one_page_with_one_picture(subject: str) -> None:
    life = dict(LIFE.findall(TEXT))[subject]
    assert life.count("```mermaid\n") == 1
    assert len(life.split()) <= WORDS_OF_A_PAGE
