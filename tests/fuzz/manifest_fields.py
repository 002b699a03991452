"""Valid manifests with a few changes, so that problems lie deep inside, where random bytes rarely reach."""

import copy
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from backend.services.workflows.manifests.yaml_reader import read_documents
from tests.fuzz import manifests
from tests.fuzz.choices import Choices
from tests.fuzz.target import Target

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 0.25, 0.3, 168, 169, 3_008, 2**31, 2**63 - 1, 2**63, 10**400, 1e308, 5e-324),
    *(
        "",
        "a",
        "A b",
        " a",
        "a" * 80,
        "a" * 81,
        "a\0",
        "a\n",
        "😀",
        "0",
        "null",
        "2026-02-29",
        "2026-02-28",
        "x" * 2_049,
    ),
    *([], [[]], [None], [1, "a"], {}, {"a": None}, {"": 1}, ["a", "a"], [{"step": "a"}], {"$ref": "#"}, {"$id": "a"}),
    *("draft", "active", "inactive", "none", "full", "llm", "python", "s3", "folder", "sparql", "s3_prefix", "all"),
    *("string", "integer", "number", "boolean", "date", "json", "off", "detect", "redact", "basic", "*.csv", "*.ttl"),
    *("(a", "(?=a)", "[a-z]+", "\\ud800", "\\", "(" * 500, "a{1000}", "(a{100}){100}", "https://a/{b}", "https://a.b/"),
    *(
        "def run(context): pass",
        "run = 1",
        "import run",
        "x" * 10_000,
        "(" * 300,
        "lambda: (yield)",
        "a\r\nb",
        "\ufeff",
    ),
    *({"type": "object"}, {"type": "array", "items": {"$ref": "#/a"}}, {"pattern": "(?<a>b)"}, {"type": 1}),
    *({"$schema": "http://json-schema.org/draft-04/schema#", "id": "a"}, {"properties": {"a": {"$ref": "#"}}}),
)


def check(data: bytes) -> None:
    """Takes up to three documents, changes up to eight places, and holds of the file what `manifests` holds of any."""
    choices = Choices(data)
    documents = [copy.deepcopy(choices.one_of(_documents())) for _ in range(1 + choices.below(3))]
    for _ in range(choices.below(9)):
        _change(choices, documents)
    style = choices.below(3)
    text = "\n---\n".join(map(json.dumps, documents)) if style else yaml.dump_all(documents, Dumper=yaml.CSafeDumper)
    try:
        manifests.check(text.encode(errors="surrogatepass"))
    except BaseException as error:
        error.add_note(f"the file: {text!r}")
        raise


@cache
def _documents() -> list[Any]:
    return [node.plain() for text in manifests.project_manifests() for node in read_documents(text.decode(), [])]


def _change(choices: Choices, documents: list[Any]) -> None:
    """Walks down from a document, and changes what it comes to."""
    within: Any = documents
    place: Any = choices.below(len(documents))
    while isinstance(within[place], dict | list) and within[place] and choices.below(4):
        within = within[place]
        place = choices.one_of(list(within)) if isinstance(within, dict) else choices.below(len(within))
    match choices.below(6):
        case 0 if within is not documents:
            del within[place]
        case 1 if isinstance(within, list) and within is not documents:
            within += copy.deepcopy([within[place]] * choices.one_of((1, 20, 100)))
        case 2 if isinstance(within, dict):
            within[str(choices.one_of(_VALUES))] = within.pop(place)
        case 3:
            within[place] = copy.deepcopy(_part(choices, choices.one_of(_documents())))
        case 4 if isinstance(within, dict):
            other = _part(choices, choices.one_of(_documents()))
            within |= copy.deepcopy(other) if isinstance(other, dict) else {"default": other}
        case _:
            within[place] = copy.deepcopy(choices.one_of(_VALUES))


def _part(choices: Choices, value: Any) -> Any:
    while isinstance(value, dict | list) and value and choices.below(4):
        value = choices.one_of(list(value.values()) if isinstance(value, dict) else value)
    return value


def seeds() -> Iterator[bytes]:
    """Rows of choices that lead everywhere."""
    generator = random.Random(0)
    return (generator.randbytes(length) for length in (1, 8, 16, 32, 64) for _ in range(30))


TARGET = Target(name="manifest_fields", check=check, seeds=seeds, words=(), longest=128)
