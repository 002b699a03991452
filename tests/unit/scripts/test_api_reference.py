"""The references that are made for the site have every operation, record and error of this release."""

import re
from pathlib import Path

import orjson

from contract.refusals import BY_REASON
from edge.openapi.document import openapi_document
from edge.settings import NO_DOMAIN
from scripts.api_reference import api_reference, error_reference

CONTRACT = (Path(__file__).parents[3] / "docs" / "contract.md").read_text(encoding="utf-8")


def test_every_operation_and_record_is_there_and_every_link_leads_to_one() -> None:
    document, page = orjson.loads(openapi_document(NO_DOMAIN)), api_reference()
    operations = {f"`{verb.upper()} {path}`" for path, verbs in document["paths"].items() for verb in verbs}
    assert operations <= set(page.splitlines())
    records = {line.removeprefix("### ").lower() for line in page.splitlines() if line.startswith("### ")}
    assert {name.lower() for name in document["components"]["schemas"]} <= records
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= records


def test_causes_of_a_refusal_are_lines_of_a_cell() -> None:
    assert not re.search(r"^\|.*[|.] - `", api_reference(), re.MULTILINE)
    assert "<br>`invalid_cursor`: " in api_reference()


def test_every_error_is_there_and_in_the_contract() -> None:
    codes = re.findall(r"^\| `(\w+)` \|", error_reference(), re.MULTILINE)
    assert sorted(codes) == sorted(rule.code for rule in BY_REASON.values())
    assert [code for code in codes if f"`{code}`" not in CONTRACT] == []
