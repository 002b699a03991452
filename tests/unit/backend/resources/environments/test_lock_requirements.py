import pytest
from packaging.requirements import Requirement

from backend.resources.environments.lock import lines_of_file, normalised_requirement


@pytest.mark.parametrize(
    ("given", "standard"),
    [
        ("pandas==2.3.*", "pandas==2.3.*"),
        ("  requests[socks] >=2, <3 ", "requests[socks]<3,>=2"),
        ("tzdata; sys_platform == 'win32'", 'tzdata; sys_platform == "win32"'),
    ],
)
def test_a_requirement_gets_its_standard_spelling(given: str, standard: str) -> None:
    assert normalised_requirement(given) == standard


@pytest.mark.parametrize("given", ["pandas==2.3.*", "zope.interface==7", "a==1.10.0", "A_b-1==2024.1.*", "a==0.5"])
def test_a_pinned_release_is_in_its_standard_spelling(given: str) -> None:
    assert normalised_requirement(given) == str(Requirement(given)) == given


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("", "must have 1 to 300 characters"),
        ("a" * 301, "must have 1 to 300 characters"),
        ("pandas=2", "must be a requirement as pandas==2.3.*"),
        ("two words", "must be a requirement as pandas==2.3.*"),
        ("-r other.txt", "must name a package of the index: no URL, path or option"),
        ("--index-url=https://example.org", "must name a package of the index"),
        (f"pandas==2.3.1 --hash=sha256:{'0' * 64} --hash=sha256:{'1' * 400}", "must have no --hash: the lock of"),
        ("./local", "must name a package of the index"),
        ("thing @ https://example.org/thing.whl", "must name a package of the index"),
        ("git+https://example.org/thing", "must name a package of the index"),
    ],
)
def test_anything_but_a_package_of_the_index_is_refused(given: str, reason: str) -> None:
    with pytest.raises(ValueError, match="must") as refused:
        normalised_requirement(given)
    assert reason in str(refused.value)


def test_lines_of_a_file_lose_comments_and_are_joined_where_they_continue() -> None:
    text = "# all of them\npandas==2.3.*  # tables\n\nrequests \\\n  >=2\nyaml#not-a-comment\n"
    assert [tuple(one) for one in lines_of_file(text)] == [
        (2, "pandas==2.3.*"),
        (4, "requests >=2"),
        (6, "yaml#not-a-comment"),
    ]
