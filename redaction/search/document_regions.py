"""Infers a document's countries from its language, mail and web addresses, numbers and names of countries."""

import re
from collections.abc import Iterable
from typing import Final

import phonenumbers

from redaction.rules.regional_phones import REGIONS
from redaction.rules.words import countries, languages

MOST_CHARACTERS: Final = 16_384
"""Most characters of a document, from its beginning, that are read."""
_LANGUAGE_OF: Final[dict[str, list[tuple[str, ...]]]] = {}
for _language in languages():
    for _word in _language.frequent:
        _LANGUAGE_OF.setdefault(_word, []).append(_language.countries)
_COUNTRY_OF: Final = countries()
# Characters of a short text, and frequent words that indicate the language of a short and of a longer text.
_SHORT: Final = 400
_FEW: Final = 2
_ENOUGH: Final = 5
_WORD: Final = re.compile(r"[^\W\d_]+")
_DOMAIN: Final = re.compile(r"(?:@|://|\bwww\.)(?:[\w-]{1,63}\.){1,6}([a-z]{2})(?![\w-]|\.\w)")
_GENERIC: Final = frozenset({"AC", "AI", "CC", "CO", "FM", "GG", "IO", "LY", "ME", "SH", "TO", "TV", "WS", "GD", "SC"})
_INTERNATIONAL: Final = re.compile(r"\+([1-9](?:[ ./()-]{0,2}[0-9]){7,14})")
_ZEROS: Final = re.compile(r"(?<![0-9A-Za-z.,-])00([1-9][0-9]{8,13})(?![0-9])")
_IBAN: Final = re.compile(r"([A-Z]{2})[0-9]{2}(?: ?[0-9A-Z]{4}){3,7}")
_COUNTRY_FIELDS: Final = frozenset({"country", "land", "ländercode", "pays", "país", "paese", "kraj", "code"})
_COUNTRY_CODE: Final = re.compile(rf"(?i)(?:{'|'.join(sorted(_COUNTRY_FIELDS))})\W{{1,4}}([A-Z]{{2}})\b")
_SCRIPTS: Final = (
    (re.compile("[\u0370-\u03ff]{4}"), "GR"),
    (re.compile("[\u0456\u0457\u0454\u0491]"), "UA"),
    (re.compile("[\u044b\u044d\u044a]"), "RU"),
    (re.compile("[\u3040-\u30ff]{2}"), "JP"),
    (re.compile("[\uac00-\ud7a3]{2}"), "KR"),
    (re.compile("[\u4e00-\u9fff]{4}"), "CN"),
)


class DocumentRegions:
    """Countries of one document, given by a policy or inferred from the text. Not thread-safe."""

    def __init__(self, given: Iterable[str] = ()) -> None:
        self._found = frozenset(given)
        self._left = MOST_CHARACTERS
        self._unread: list[str] = []

    @property
    def found(self) -> frozenset[str]:
        """ISO 3166 codes of the countries."""
        if self._unread:
            self._found |= _regions_of("\n".join(self._unread))
            self._unread.clear()
        return self._found

    def read(self, text: str) -> None:
        """Takes the next part of the document, which is evaluated only when the countries are needed."""
        if self._left > 0:
            self._unread.append(text[: self._left])
            self._left -= len(text)

    def read_cells(self, cells: Iterable[str], labels: Iterable[str]) -> None:
        """Takes the next cells of the document, with the names of their columns or keys."""
        if self._left <= 0:
            return
        read = set()
        for label, cell in zip(labels, cells, strict=True):
            if (one := f"{label}: {cell}") not in read:
                read.add(one)
                self.read(one)
            if self._left <= 0:
                return


def _regions_of(text: str) -> frozenset[str]:
    lower = text.lower()
    words = set(_WORD.findall(lower))
    found = {_COUNTRY_OF[word] for word in words & _COUNTRY_OF.keys()}
    counts: dict[tuple[str, ...], int] = {}
    for word in words & _LANGUAGE_OF.keys():
        for regions in _LANGUAGE_OF[word]:
            counts[regions] = counts.get(regions, 0) + 1
    if counts:
        most = max(counts.values())
        if most >= (_FEW if len(text) < _SHORT else _ENOUGH):
            found.update(region for regions, count in counts.items() if count == most for region in regions)
    if "@" in lower or "://" in lower or "www." in lower:
        top = {code.upper() for code in _DOMAIN.findall(lower)}
        found |= {"GB" if code == "UK" else code for code in top - _GENERIC}
    found |= set(_IBAN.findall(text))
    if words & _COUNTRY_FIELDS:
        found |= {code.upper() for code in _COUNTRY_CODE.findall(text)}
    numbers = _INTERNATIONAL.findall(text) if "+" in text else []
    for number in numbers + _ZEROS.findall(text):
        found |= _region_of_number(re.sub("[^0-9]", "", number))
    if not text.isascii():
        found |= {region for script, region in _SCRIPTS if script.search(text) is not None}
    return frozenset(found & REGIONS)


def _region_of_number(digits: str) -> set[str]:
    if digits.startswith("1"):
        # Numbers of North America have rules of their own.
        return set()
    for size in (1, 2, 3):
        regions = phonenumbers.COUNTRY_CODE_TO_REGION_CODE.get(int(digits[:size]))
        if regions is not None:
            return {regions[0]}
    return set()
