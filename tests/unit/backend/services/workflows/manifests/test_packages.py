import json
from typing import Any

import pytest

from backend.common.errors import ApiError
from backend.resources.environments.lock import LARGEST_FILE_BYTES
from backend.services.workflows.manifests.attachments import Attachments, attached_paths
from backend.services.workflows.manifests.loader import Manifest, ManifestText, check_manifests, load_manifests
from backend.services.workflows.manifests.packages import all_packages
from tests.support.content_checks import UNBOUNDED


def environment(**python: Any) -> Manifest:
    document = {"kind": "Environment", "name": "tables", "python": python}
    (manifest,) = load_manifests([("f", json.dumps(document))], UNBOUNDED)
    return manifest


def test_packages_are_kept_in_their_standard_spelling() -> None:
    python = json.loads(environment(packages=["pandas >=2,  <3"], preload=["os.path"]).definition)["python"]
    assert python == {"packages": ["pandas<3,>=2"], "requirements": None, "preload": ["os.path"]}


def test_an_environment_without_packages_has_no_such_field() -> None:
    (manifest,) = load_manifests([("f", "{kind: Environment, name: plain}")], UNBOUNDED)
    assert "python" not in json.loads(manifest.definition)


@pytest.mark.parametrize(
    ("python", "field", "reason"),
    [
        ({}, "python.packages", "is required, unless requirements names a file"),
        ({"packages": []}, "python.packages", "is required, unless requirements names a file"),
        ({"packages": [f"p{number}" for number in range(201)]}, "python.packages", "must have at most 200 entries"),
        ({"requirements": None}, "python.packages", "is required, unless requirements names a file"),
        ({"requirements": "../r.txt"}, "python.requirements", "below the manifest's own folder"),
        ({"requirements": "/r.txt"}, "python.requirements", "below the manifest's own folder"),
        ({"packages": ["a" * 301]}, "python.packages[0]", "must have 1 to 300 characters"),
        ({"packages": ["a", "a"]}, "python.packages[1]", "must not be there twice"),
        ({"packages": ["a", 2.3]}, "python.packages[1]", "put it in quotes"),
        ({"packages": ["a=1"]}, "python.packages[0]", "must be a requirement as pandas==2.3.*"),
        ({"packages": ["a @ https://example.org/a.whl"]}, "python.packages[0]", "no URL, path or option"),
        ({"packages": ["a"], "preload": ["not a module"]}, "python.preload[0]", "must be the name of a module"),
        ({"packages": ["a"], "preload": [f"m{number}" for number in range(51)]}, "python.preload", "at most 50"),
        ({"packages": ["a"], "version": "3.12"}, "python.version", "is not a known field"),
    ],
)
def test_a_requirement_beyond_its_bounds_is_refused_by_its_field(
    python: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(ApiError) as refused:
        environment(**python)
    ((place, told),) = refused.value.problems
    assert place == f"f:1: {field}"
    assert reason in told


def python(requirements: str | None, *packages: str) -> dict[str, Any]:
    return {"packages": list(packages), "requirements": requirements, "preload": []}


def test_the_requirements_of_a_file_are_added_once_each() -> None:
    files = {"r.txt": b"# tables\npandas >=2\nalpha\n"}
    assert all_packages(python("r.txt", "alpha"), Attachments(files)) == (["alpha", "pandas>=2"], [])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "must name a file that comes with the manifest; r.txt did not"),
        (b"# nothing\n", "r.txt must name at least one package"),
        (b"alpha\n-r other.txt\n", "r.txt:2: must name a package of the index: no URL, path or option"),
        (b"alpha==1 --hash=sha256:0\n", "r.txt:1: must have no --hash: the lock of the environment has the hashes"),
        (b"\xff", "r.txt is not UTF-8 at byte 0"),
        (b"#" * (LARGEST_FILE_BYTES + 1), "r.txt must have at most 65,536 bytes"),
        (b"".join(b"p%d\n" % number for number in range(201)), "must have at most 200 entries together"),
    ],
)
def test_a_requirements_file_is_refused_with_its_line(content: bytes | None, reason: str) -> None:
    _, problems = all_packages(python("r.txt"), Attachments({} if content is None else {"r.txt": content}))
    ((place, told),) = problems
    assert place == "requirements"
    assert reason in told


def test_the_files_that_a_manifest_names_are_found() -> None:
    text = "kind: Environment\npython: {requirements: ./a/r.txt}\n---\nkind: Agent\n---\nkind: Environment\n"
    assert list(attached_paths(text)) == [("requirements", "a/r.txt")]


@pytest.mark.parametrize(
    ("attachments", "reason"),
    [
        (Attachments({"r.txt": b"alpha\n"}), None),
        (
            Attachments({"r.txt": b"alpha\n-r other.txt\n"}),
            "r.txt:2: must name a package of the index: no URL, path or option",
        ),
        (Attachments({}, {"r.txt": ["r.txt cannot be read"]}), "r.txt cannot be read"),
    ],
)
def test_a_requirements_file_is_checked_with_the_manifest(attachments: Attachments, reason: str | None) -> None:
    text = "kind: Environment\nname: e\npython:\n  requirements: ./r.txt\n"
    problems = check_manifests([ManifestText("f", text, attachments)], UNBOUNDED).problems
    assert problems == ([] if reason is None else [("f:4: python.requirements", reason)])


def test_a_requirements_file_may_begin_with_a_byte_order_mark() -> None:
    files = {"r.txt": b"\xef\xbb\xbfpandas==2.3.1\r\nrequests>=2\r\n"}
    assert all_packages(python("r.txt"), Attachments(files)) == (["pandas==2.3.1", "requests>=2"], [])
