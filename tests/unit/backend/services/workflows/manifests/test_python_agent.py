"""The code of Python agents: in the manifest, in a file, or in a folder."""

import json
from typing import Any

import jsonschema_rs
import pytest

from backend.services.workflows.manifests.attachments import (
    LARGEST_CODE_BYTES,
    MOST_CODE_FILES,
    Attachments,
    attached_paths,
)
from backend.services.workflows.manifests.kinds import manifest_schema
from backend.services.workflows.manifests.loader import LoadedManifests, ManifestText, check_manifests
from backend.services.workflows.manifests.python_agent import LARGEST_MODULE_BYTES
from tests.support.content_checks import UNBOUNDED
from tests.unit.backend.services.workflows.manifests.documents import allowed

RUN = b"def run(context):\n    return 1\n"
LONG = RUN + b"#" * LARGEST_MODULE_BYTES
WIDE = "\u00fc"
FOLDER: dict[str, Any] = {"source": "agents", "entrypoint": "main:run"}


def check(
    files: dict[str, bytes] | None = None, unreadable: dict[str, list[str]] | None = None, **fields: Any
) -> LoadedManifests:
    document = json.dumps({"kind": "Agent", "name": "a", "type": "python", **fields})
    attachments = Attachments(files or {}, unreadable or {})
    return check_manifests([ManifestText("f", document, attachments)], UNBOUNDED)


def problems(files: dict[str, bytes] | None = None, **fields: Any) -> list[tuple[str, str]]:
    return [(name.removeprefix("f:1: "), allowed(reason)) for name, reason in check(files, **fields).problems]


def definition(files: dict[str, bytes] | None = None, **fields: Any) -> dict[str, Any]:
    loaded = check(files, **fields)
    assert loaded.problems == []
    found: dict[str, Any] = json.loads(loaded.manifests[0].definition)
    return found


def test_code_in_the_manifest_is_defined_as_before_there_were_files() -> None:
    assert definition(code=RUN.decode()) == {"name": "a", "type": "python", "code": RUN.decode()}


def test_without_secrets_it_is_defined_as_before_there_were_any() -> None:
    assert "secrets" not in definition(code=RUN.decode(), secrets=[])
    assert definition(code=RUN.decode(), secrets=["b", "a"])["secrets"] == ["b", "a"]


@pytest.mark.parametrize(
    ("secrets", "found"),
    [
        ("api", ("secrets", "must be a list")),
        (["a", "a"], ("secrets[1]", "must not be there twice")),
        (["two words"], ("secrets[0]", "must be the name of a secret, of A-Z a-z 0-9 _ -")),
        (["x" * 65], ("secrets[0]", "must have 1 to 64 characters")),
        ([f"s{number}" for number in range(11)], ("secrets", "must have at most 10 entries")),
    ],
)
def test_secrets_are_up_to_ten_different_names(secrets: Any, found: tuple[str, str]) -> None:
    assert problems(code=RUN.decode(), secrets=secrets) == [found]


def test_a_file_is_part_of_the_definition() -> None:
    assert definition({"sub/digest.py": b"\xef\xbb\xbf" + RUN}, code_file="./sub/digest.py") == {
        "name": "a",
        "type": "python",
        "code": RUN.decode(),
        "code_file": "sub/digest.py",
    }


def test_a_folder_is_known_by_the_digests_of_its_files() -> None:
    files = {"agents/main.py": RUN, "agents/data/t.bin": bytes(range(256)), "elsewhere.py": b"("}
    loaded = check(files, **FOLDER)
    (manifest,) = loaded.manifests
    found = json.loads(manifest.definition)
    assert (found["source"], found["entrypoint"], sorted(found["files"])) == (
        "agents",
        "main:run",
        ["data/t.bin", "main.py"],
    )
    assert manifest.code is not None
    assert manifest.code.digest == found["digest"]
    assert manifest.code.files == {"main.py": RUN, "data/t.bin": bytes(range(256))}
    assert definition(dict(reversed(files.items())), **FOLDER) == found
    assert definition(files | {"agents/main.py": RUN + b"\n"}, **FOLDER)["digest"] != found["digest"]


def test_the_folder_of_the_manifest_itself_may_be_the_source() -> None:
    assert list(definition({"main.py": RUN}, source="./", entrypoint="main:run")["files"]) == ["main.py"]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, ["code"]),
        ({"code": None}, ["code"]),
        ({"code": RUN.decode(), "code_file": "main.py"}, ["code_file"]),
        ({"code": RUN.decode(), **FOLDER}, ["source"]),
        ({"code": RUN.decode(), "entrypoint": "main:run"}, ["entrypoint"]),
        ({"source": "agents"}, ["entrypoint"]),
        ({"source": "agents", "entrypoint": "run"}, ["entrypoint"]),
        ({"source": "agents", "entrypoint": "agents/main:run"}, ["entrypoint"]),
        ({"code_file": "main.txt"}, ["code_file"]),
        ({"code_file": 1}, ["code_file"]),
    ],
)
def test_an_agent_has_exactly_one_of_code_file_and_folder(fields: dict[str, Any], found: list[str]) -> None:
    assert [field for field, _ in problems({"main.py": RUN, "agents/main.py": RUN}, **fields)] == found


@pytest.mark.parametrize(
    "path", ["/etc/a.py", "../a.py", "a/../../a.py", "a/../b.py", "a\\b.py", "a\n.py", "", "x" * 1_025, 7]
)
@pytest.mark.parametrize("field", ["code_file", "source"])
def test_a_path_stays_below_the_folder_of_the_manifest(field: str, path: Any) -> None:
    fields = {field: path} | ({"entrypoint": "main:run"} if field == "source" else {})
    ((name, reason),) = problems({}, **fields)
    assert name == field
    assert reason == "must be a path below the manifest's own folder, with /, and without .. in it"
    assert list(attached_paths(json.dumps({"kind": "Agent", **fields}))) == []


@pytest.mark.parametrize(
    ("files", "fields", "reason"),
    [
        ({}, {"code_file": "a.py"}, "must name a file that comes with the manifest; a.py did not"),
        ({"a.py": b"def run(:"}, {"code_file": "a.py"}, "a.py:1: must be Python: invalid syntax"),
        ({"a.py": b"x = 1"}, {"code_file": "a.py"}, "a.py: must define run(context)"),
        ({"a.py": b"\xff"}, {"code_file": "a.py"}, None),
        ({}, FOLDER, "must name a folder with files that come with the manifest; of agents none did"),
        (
            {"agents/other.py": RUN},
            FOLDER,
            "agents must have the module main of the entrypoint, as main.py or main/__init__.py",
        ),
        ({"agents/main.py": b"x = 1"}, FOLDER, "agents/main.py: must define run(context)"),
        ({"agents/main.py": RUN, "agents/b.py": b"\nx ="}, FOLDER, "agents/b.py:2: must be Python: invalid syntax"),
        (
            {"agents/main.py": RUN, "agents/json.py": b""},
            FOLDER,
            "agents/json.py: must not be named as the module json, which the interpreter has",
        ),
        (
            {"agents/main.py": RUN, "agents/workflow_api_agent/x.py": b""},
            FOLDER,
            (
                "agents/workflow_api_agent/x.py: must not be named as the module workflow_api_agent, which the "
                "interpreter has"
            ),
        ),
        (
            {"agents/main.py": RUN, "agents/big": bytes(LARGEST_CODE_BYTES)},
            FOLDER,
            f"agents must have at most 10,485,760 bytes; it has {LARGEST_CODE_BYTES + len(RUN):,}",
        ),
        (
            {"agents/main.py": RUN, **{f"agents/{n}": b"" for n in range(MOST_CODE_FILES)}},
            FOLDER,
            "agents must have at most 1,000 files; it has 1,001",
        ),
        (
            {"agents/main.py": RUN, "agents/../x": b""},
            FOLDER,
            "agents/../x: must be a path in its normal form, with / and without .. in it",
        ),
        ({"a.py": LONG}, {"code_file": "a.py"}, "a.py: must have at most 1,048,576 bytes of Python"),
        ({"agents/main.py": LONG}, FOLDER, "agents/main.py: must have at most 1,048,576 bytes of Python"),
        (
            {"agents/main.py": RUN, "agents/data": b"", "agents/data/t.bin": b""},
            FOLDER,
            "agents/data/t.bin: must not be below agents/data, which is a file",
        ),
        (
            {"agents/main.py": RUN, f"agents/{128 * WIDE}": b""},
            FOLDER,
            f"agents/{128 * WIDE}: each name in it must have at most 255 bytes",
        ),
    ],
)
def test_what_is_wrong_with_files_is_told_with_their_paths(
    files: dict[str, bytes], fields: dict[str, Any], reason: str | None
) -> None:
    ((name, told),) = problems(files, **fields)
    assert name in fields
    assert reason is None or told == reason


def test_every_problem_of_a_folder_is_told_beside_those_of_the_manifest() -> None:
    files = {"agents/main.py": b"(", "agents/b.py": b"(", "agents/re.py": b""}
    assert [name for name, _ in problems(files, name=7, **FOLDER)] == ["name", "source", "source", "source"]


def test_what_could_not_be_read_is_told_where_it_is_named() -> None:
    loaded = check({}, {"agents": ["a cannot be read", "b neither"]}, **FOLDER)
    assert loaded.problems == [("f:1: source", "a cannot be read"), ("f:1: source", "b neither")]


@pytest.mark.parametrize(
    ("fields", "valid"),
    [
        ({"code": "x"}, True),
        ({"code_file": "a.py", "code": None}, True),
        (FOLDER, True),
        ({}, False),
        ({"code": "x", "code_file": "a.py"}, False),
        ({"code_file": "a.txt"}, False),
        ({"code_file": "sub/./a.py/"}, True),
        ({"code_file": "../a.py"}, False),
        ({"code_file": "a/../b.py"}, False),
        ({"code_file": "/a.py"}, False),
        ({"code_file": "a\\b.py"}, False),
        ({**FOLDER, "source": "./agents/..more/"}, True),
        ({**FOLDER, "source": "agents/.."}, False),
    ],
)
def test_the_json_schema_knows_the_three_ways(fields: dict[str, Any], *, valid: bool) -> None:
    validator = jsonschema_rs.Draft202012Validator(manifest_schema())
    assert validator.is_valid({"kind": "Agent", "name": "a", "type": "python", **fields}) is valid
    refused = {name for name, _ in problems({"sub/a.py": RUN, "agents/..more/main.py": RUN, "a.py": RUN}, **fields)}
    assert valid or refused


def test_annotations_have_the_bounds_of_a_schema_in_the_manifest() -> None:
    many = ", ".join(f"parameter_{number}: int" for number in range(1_000))
    ((place, reason),) = problems(code=f"def run(context, {many}): pass")
    assert place == "code"
    assert reason.endswith("the schema of its input fits: it must have at most 32,768 bytes as JSON")
