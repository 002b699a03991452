"""Every rule of docs/contract.md has a row of tests in docs/conformance.md, and every row has a rule."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent.parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
CONTRACT = DOCS / "contract.md"
CONFORMANCE = DOCS / "conformance.md"
SECTION = re.compile(r"^## ([0-9]+)\. (.+)$", re.MULTILINE)
RULE = re.compile(r"^- \*\*([0-9]+\.[0-9]+) (.+?)\.\*\*", re.MULTILINE | re.DOTALL)
CITED = re.compile(r"\brules? ([0-9]+\.[0-9]+)(?: to ([0-9]+\.[0-9]+))?")
CITATION = re.compile(r"\(contract ([0-9][^)]*)\)")
NUMBER = re.compile(r"\b[0-9]+(?:\.[0-9]+)?\b")
NAMED = re.compile(r"`([a-z0-9_/]+\.py)::(\w+)`")


def sections(document: Path) -> list[tuple[str, str]]:
    """Returns the numbered sections of a document in order."""
    return SECTION.findall(document.read_text())


def rules() -> list[tuple[str, str]]:
    """Returns the rules of the contract in order, each its number and name."""
    return [(number, " ".join(name.split())) for number, name in RULE.findall(CONTRACT.read_text())]


def rows() -> list[tuple[str, str, str]]:
    """Returns the rows of the table in order, each the number and name of a rule with its tests."""
    lines = [line for line in CONFORMANCE.read_text().splitlines() if line.startswith("|")]
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    assert all(len(row) == 3 for row in cells), [row for row in cells if len(row) != 3]
    return [(rule, name, tests) for rule, name, tests in cells if rule != "Rule" and not set(rule) <= {"-", ":"}]


@cache
def names_in(file: Path) -> set[str]:
    """Returns the names of the test functions of a file, those of its classes included."""
    nodes = ast.walk(ast.parse(file.read_text()))
    functions = (node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {name for name in functions if name.startswith("test_")}


def is_present(file: str, name: str) -> bool:
    """Reports whether a file below `tests/` has a test of this name."""
    return (TESTS / file).is_file() and name in names_in(TESTS / file)


def test_rules_and_rows_are_the_same_in_the_same_order() -> None:
    assert sections(CONFORMANCE) == sections(CONTRACT)
    assert [(rule, name) for rule, name, _ in rows()] == rules()


def test_each_rule_is_numbered_within_its_section() -> None:
    parts = re.split(SECTION, CONTRACT.read_text())[1:]
    for section, _, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        numbers = [number for number, _ in RULE.findall(body)]
        assert numbers, f"section {section} has no rule"
        assert all(number.split(".")[0] == section for number in numbers)
    numbers = [tuple(map(int, number.split("."))) for number, _ in rules()]
    assert numbers == sorted(set(numbers))


def test_the_contract_refers_to_rules_that_exist() -> None:
    numbers = {number for number, _ in rules()}
    cited = {number for pair in CITED.findall(CONTRACT.read_text()) for number in pair if number}
    assert cited
    assert cited - numbers == set()


def test_each_citation_names_a_rule_or_section_that_exists() -> None:
    present = {number for number, _ in [*rules(), *sections(CONTRACT)]}
    folders = [folder for folder in ROOT.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
    texts = [file for folder in folders for ending in ("py", "proto", "md") for file in folder.rglob(f"*.{ending}")]
    cited = {
        (str(file.relative_to(ROOT)), number)
        for file in texts
        for citation in CITATION.findall(file.read_text())
        for number in NUMBER.findall(citation.split(";")[0])
    }
    assert cited
    assert sorted((file, number) for file, number in cited if number not in present) == []


def test_each_rule_names_tests_that_exist() -> None:
    gone = []
    for rule, name, tests in rows():
        named = NAMED.findall(tests)
        assert named, f"no test holds the rule: {rule} {name}"
        assert re.sub(NAMED, "", tests).strip(" ,") == "", f"not a list of tests: {tests}"
        gone += [(rule, *test) for test in named if not is_present(*test)]
    assert gone == []


def test_each_contract_test_holds_a_rule() -> None:
    named = set(NAMED.findall(CONFORMANCE.read_text()))
    present = {
        (f"contract/{file.name}", name) for file in (TESTS / "contract").glob("test_*.py") for name in names_in(file)
    }
    unlisted = sorted(f"{file}::{name}" for file, name in present - named if "command_line" not in file)
    assert unlisted == []
