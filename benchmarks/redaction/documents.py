"""Labelled documents not used for writing rules: Faker's values in templates, Presidio's sentences, and handwritten.

The templates under `templates/` are letters, mails, logs, chats, tables, forms, notes and stories in eight languages.
The sentences are the templates of `presidio-evaluator` (MIT), read from the installed package.
The texts under `handwritten/` were written by somebody who had not read the rules: documents, paragraphs, and texts
without a value. Each begins with `=== NAME LANGUAGE`, and each value is `⟦KIND:value⟧`.
"""

import importlib.metadata
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from faker import Faker

_TEMPLATES: Final = Path(__file__).parent / "templates"
_LOCALES: Final = {
    "en": ("en_US", "en_GB"), "de": ("de_DE",), "fr": ("fr_FR",), "es": ("es_ES",), "it": ("it_IT",), "nl": ("nl_NL",),
    "pl": ("pl_PL",), "pt": ("pt_PT", "pt_BR"),
}  # fmt: skip
_FIELD: Final = re.compile(r"\{([a-zA-Z]+)([0-9]?)\}")
_PACKAGE: Final = "presidio-evaluator"
_SENTENCES: Final = "data_generator/raw_data/templates.txt"
_SENTENCE_FIELD: Final = re.compile(r"\{\{([a-z_]+)\}\}")
NEUTRAL: Final = ""
"""Label of a span that counts neither as personal nor as other text: dates of events, names of companies."""

_OF_FIELDS: Final = {
    "person": "PERSON", "first": "PERSON", "last": "PERSON", "LAST": "PERSON", "title": NEUTRAL, "date": NEUTRAL,
    "street": "LOCATION", "city": "LOCATION", "postcode": "LOCATION", "phone": "PHONE_NUMBER",
    "email": "EMAIL_ADDRESS", "iban": "IBAN_CODE", "card": "CREDIT_CARD", "ip": "IP_ADDRESS", "birth": "DATE_TIME",
    "birthwords": "DATE_TIME", "ssn": "NATIONAL_ID", "nif": "NATIONAL_ID",
}  # fmt: skip
# Fields of Presidio's sentences: the method of Faker that makes the value, and its entity type.
_OF_SENTENCES: Final = {
    "person": ("name", "PERSON"), "name": ("name", "PERSON"), "name_male": ("name_male", "PERSON"),
    "name_female": ("name_female", "PERSON"), "first_name": ("first_name", "PERSON"),
    "first_name_male": ("first_name_male", "PERSON"), "first_name_female": ("first_name_female", "PERSON"),
    "first_name_nonbinary": ("first_name", "PERSON"), "last_name": ("last_name", "PERSON"),
    "last_name_male": ("last_name", "PERSON"), "last_name_female": ("last_name", "PERSON"),
    "city": ("city", "LOCATION"), "address": ("address", "LOCATION"), "street_name": ("street_name", "LOCATION"),
    "building_number": ("building_number", "LOCATION"), "secondary_address": ("secondary_address", "LOCATION"),
    "postcode": ("postcode", "LOCATION"), "zipcode": ("postcode", "LOCATION"),
    "credit_card_number": ("credit_card_number", "CREDIT_CARD"), "phone_number": ("phone_number", "PHONE_NUMBER"),
    "email": ("email", "EMAIL_ADDRESS"), "iban": ("iban", "IBAN_CODE"), "ssn": ("ssn", "NATIONAL_ID"),
    "ip_address": ("ipv4", "IP_ADDRESS"), "date_of_birth": ("date", "DATE_TIME"), "url": ("url", "URL"),
    "country": ("country", NEUTRAL), "organization": ("company", NEUTRAL), "age": ("random_int", NEUTRAL),
    "year": ("year", NEUTRAL), "job": ("job", NEUTRAL), "date_time": ("date", NEUTRAL), "prefix": ("prefix", NEUTRAL),
    "prefix_male": ("prefix_male", NEUTRAL), "prefix_female": ("prefix_female", NEUTRAL),
    "day_of_week": ("day_of_week", NEUTRAL), "state_abbr": ("state_abbr", NEUTRAL),
    "nationality": ("country", NEUTRAL), "nation_woman": ("country", NEUTRAL), "nation_plural": ("country", NEUTRAL),
    "us_driver_license": ("bothify", NEUTRAL),
}  # fmt: skip

_FOLDER: Final = Path(__file__).parent / "handwritten"
_PARTS: Final = {
    "handwritten documents": ("documents-1", "documents-2"),
    "handwritten paragraphs": ("paragraphs",),
    "handwritten texts without a value": ("without",),
}
_VALUE: Final = re.compile(r"⟦([A-Z]):([^⟧]*)⟧")
_KINDS: Final = {
    "B": "IBAN_CODE", "C": "CREDIT_CARD", "D": "DATE_TIME", "E": "EMAIL_ADDRESS", "I": "NATIONAL_ID", "L": "LOCATION",
    "N": NEUTRAL, "P": "PERSON", "S": "SECRET", "T": "PHONE_NUMBER", "X": "IP_ADDRESS",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Document:
    """A document with (start, end, entity type) of its values; the type of some spans is NEUTRAL."""

    name: str
    language: str
    text: str
    labels: tuple[tuple[int, int, str], ...]


def documents(seed: int, copies: int) -> Iterator[Document]:
    """Yields `copies` of each template, filled with the values of that language's locales."""
    for language, locales in _LOCALES.items():
        for template in (_TEMPLATES / f"{language}.txt").read_text(encoding="utf-8").split("=== ")[1:]:
            name, _, text = template.partition("\n")
            for copy in range(copies):
                fake = Faker(locales[copy % len(locales)])
                fake.seed_instance(f"{seed} {name} {copy}")
                yield _filled(name, language, text, _FIELD, _Values(fake, language))


def sentences(seed: int, copies: int) -> Iterator[Document]:
    """Yields `copies` of each of Presidio's sentences, which are English, with American values.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    fake = Faker("en_US")
    fake.seed_instance(seed)

    def value(field: str, _: str) -> tuple[str, str]:
        method, label = _OF_SENTENCES[field]
        return str(getattr(fake, method)()).replace("\n", ", "), label

    for text in _sentence_templates():
        for _ in range(copies):
            yield _filled("sentence.txt", "en", text, _SENTENCE_FIELD, value)


def _sentence_templates() -> list[str]:
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise FileNotFoundError(f"pip install --no-deps {_PACKAGE}") from None
    [path] = [file for file in files if str(file).endswith(_SENTENCES)]
    text = Path(str(path.locate())).read_bytes().decode("utf-8", "replace")
    lines = [line.strip().replace("\\n", "\n") for line in text.splitlines()]
    return [line for line in lines if line and set(_SENTENCE_FIELD.findall(line)) <= _OF_SENTENCES.keys()]


def _filled(
    name: str, language: str, template: str, field: re.Pattern[str], value: Callable[[str, str], tuple[str, str]]
) -> Document:
    parts: list[str] = []
    labels: list[tuple[int, int, str]] = []
    size = place = 0
    for found in field.finditer(template):
        before = template[place : found.start()]
        written, label = value(found[1], found[2] if field.groups > 1 else "")
        size += len(before)
        labels.append((size, size + len(written), label))
        parts += before, written
        size += len(written)
        place = found.end()
    parts.append(template[place:])
    return Document(name, language, "".join(parts), tuple(labels))


class _Values:
    """Values of one document: a field with a number has one value, and names belong to persons."""

    def __init__(self, fake: Faker, language: str) -> None:
        self._fake: Any = fake
        self._language = language
        self._rng = random.Random(fake.random.random())
        self._known: dict[str, str] = {}

    def __call__(self, field: str, number: str) -> tuple[str, str]:
        """Returns a value and its label."""
        if field in {"person", "first", "last", "LAST"}:
            first = self._remembered(f"first{number}", self._fake.first_name)
            last = self._remembered(f"last{number}", self._fake.last_name)
            named = {"person": f"{first} {last}", "first": first, "last": last, "LAST": last.upper()}
            return named[field], _OF_FIELDS[field]
        return self._remembered(field + number, getattr(self, f"_{field}")), _OF_FIELDS[field]

    def _remembered(self, key: str, make: Callable[[], str]) -> str:
        if key not in self._known:
            self._known[key] = str(make()).replace("\n", " ")
        return self._known[key]

    def _title(self) -> str:
        return str(self._rng.choice({"de": ["Herr", "Frau"], "en": ["Mr", "Mrs", "Ms"]}[self._language]))

    @property
    def _date_pattern(self) -> str:
        return {"en": "%m/%d/%Y", "de": "%d.%m.%Y"}.get(self._language, "%d/%m/%Y")

    def _date(self) -> str:
        return str(
            self._fake.date_between("-2y").strftime(
                {"en": "%m/%d/%Y", "de": "%d.%m.%Y"}.get(self._language, "%d/%m/%Y")
            )
        )

    def _birth(self) -> str:
        born = self._fake.date_of_birth(minimum_age=18)
        return str(born.strftime(self._rng.choice([self._date_pattern, "%Y-%m-%d"])))

    def _birthwords(self) -> str:
        day, year, month = self._rng.randrange(1, 29), self._rng.randrange(1940, 2006), self._fake.month_name()
        return {
            "en": f"{month} {day}, {year}",
            "de": f"{day}. {month} {year}",
            "fr": f"{day} {month.lower()} {year}",
            "es": f"{day} de {month.lower()} de {year}",
        }[self._language]

    def _street(self) -> str:
        return str(self._fake.street_address())

    def _city(self) -> str:
        return str(self._fake.city())

    def _postcode(self) -> str:
        return str(self._fake.postcode())

    def _phone(self) -> str:
        return str(self._fake.phone_number())

    def _email(self) -> str:
        return str(self._fake.email())

    def _iban(self) -> str:
        return str(self._fake.iban())

    def _card(self) -> str:
        return str(self._fake.credit_card_number())

    def _ip(self) -> str:
        return str(self._fake.ipv4_public())

    def _ssn(self) -> str:
        return str(self._fake.ssn())

    def _nif(self) -> str:
        return str(self._fake.nif())


def handwritten() -> dict[str, list[Document]]:
    """Returns the handwritten texts by kind."""
    return {part: [one for file in files for one in _read(file)] for part, files in _PARTS.items()}


def _read(file: str) -> Iterator[Document]:
    content = (_FOLDER / f"{file}.txt").read_text(encoding="utf-8")
    for marked in re.split(r"^=== ", content, flags=re.MULTILINE)[1:]:
        head, _, body = marked.partition("\n")
        name, _, language = head.partition(" ")
        text, labels, place = "", list[tuple[int, int, str]](), 0
        for found in _VALUE.finditer(body):
            text += body[place : found.start()]
            labels.append((len(text), len(text) + len(found[2]), _KINDS[found[1]]))
            text += found[2]
            place = found.end()
        yield Document(name, language, text + body[place:], tuple(labels))
