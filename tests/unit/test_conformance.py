"""Every rule of the contract has a test: docs/conformance.md against the tests that there are."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
DOCUMENT = TESTS.parent / "docs" / "conformance.md"
NAMED = re.compile(r"`([a-z0-9_/]+\.py)::(\w+)`")


def rows() -> list[tuple[str, str]]:
    """The rules with what stands beside them."""
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert all(len(row) == 2 for row in cells), [row for row in cells if len(row) != 2]
    return [(rule, tests) for rule, tests in cells if rule != "Rule" and not set(rule) <= {"-", ":"}]


def names_in(file: Path) -> set[str]:
    """The names of the test functions of a file, those of its classes included."""
    nodes = ast.walk(ast.parse(file.read_text()))
    functions = (node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {name for name in functions if name.startswith("test_")}


@pytest.mark.parametrize(("rule", "tests"), rows())
def test_each_rule_names_tests_that_exist(rule: str, tests: str) -> None:
    named = NAMED.findall(tests)
    assert named, f"no test holds the rule: {rule}"
    assert re.sub(NAMED, "", tests).strip(" ,") == "", f"not a list of tests: {tests}"
    gone = [
        f"{file}::{name}" for file, name in named if not (TESTS / file).is_file() or name not in names_in(TESTS / file)
    ]
    assert gone == []


def test_each_contract_test_holds_a_rule() -> None:
    named = set(NAMED.findall(DOCUMENT.read_text()))
    present = {
        (f"contract/{file.name}", name) for file in (TESTS / "contract").glob("test_*.py") for name in names_in(file)
    }
    unlisted = sorted(f"{file}::{name}" for file, name in present - named if "command_line" not in file)
    assert unlisted == []
