"""Tests of `tests/unit` lie where the source lies that they test."""

from pathlib import Path, PurePosixPath

UNIT = Path(__file__).parent
ROOT = UNIT.parent.parent

EXCEPTIONS = {
    "backend/resources/graphs/test_reading.py": "RDF files and rows of tables by the same rules",
    "backend/isolation/sandbox/escapes": "attacks on the sandbox as a whole, a file for each resource",
    "backend/test_point_reads.py": "the RPCs of all services",
    "deploy/cli/test_administration.py": "commands that share one fake backend",
    "redaction/test_cost.py": "what all formats of the redaction cost",
    "test_architecture.py": "docs/architecture.md",
    "test_conformance.py": "docs/conformance.md",
    "test_github.py": "what GitHub reads",
    "test_links.py": "links of all documents",
    "test_mirrors_source.py": "this rule",
    "test_private_names.py": "all tests",
    "test_stands_alone.py": "all texts of the repository",
}
"""Files and folders that mirror none, with what they test instead."""


def mirrors(test: PurePosixPath) -> bool:
    """Tells whether a file has the name of a module, a table or a package of the folder it mirrors, or of its aspect.

    `backend/isolation/sandbox/test_layer_launch.py` tests the launch of `backend/isolation/sandbox/layer.py`. A
    `test_documentation.py` compares a folder with its page in docs/. `support` mirrors `tests/support`.
    """
    folder = (ROOT / "tests" if test.parts[0] == "support" else ROOT) / test.parent
    name = test.stem.removeprefix("test_")
    if name == "documentation" or (name == folder.name and folder != ROOT):
        return folder.is_dir()
    words = name.split("_")
    names = ["_".join(words[: count + 1]) for count in range(len(words))]
    return any(
        (folder / one).is_dir() or any((folder / f"{one}.{end}").is_file() for end in ("py", "toml")) for one in names
    )


def excepted(test: PurePosixPath) -> bool:
    return any(str(test) == each or PurePosixPath(each) in test.parents for each in EXCEPTIONS)


def test_every_file_of_unit_tests_mirrors_a_module_or_a_package() -> None:
    tests = [PurePosixPath(path.relative_to(UNIT)) for path in UNIT.rglob("test_*.py")]
    assert tests
    assert sorted(str(test) for test in tests if not mirrors(test) and not excepted(test)) == []


def test_every_exception_is_there_and_is_one() -> None:
    assert [each for each in EXCEPTIONS if not (UNIT / each).exists()] == []
    assert [each for each in EXCEPTIONS if each.endswith(".py") and mirrors(PurePosixPath(each))] == []
