"""Numbers with dots that are no addresses: versions of programs, sections of documents."""

import re
from typing import Final

_REACH: Final = 80
_NAMES: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "version versions versión versione versie versão wersja versionsnummer release firmware fw build kernel "
        "revision ver rev"
    ).split()
)
_NUMBERS: Final = frozenset({"code", "number", "no", "name", "string"})
_SECTIONS: Final = frozenset(
    (  # noqa: SIM905 - as above
        "section sections chapter chapters clause clauses article articles paragraph paragraphs para subsection "
        "appendix annex abschnitt abschnitts kapitel kapitels ziffer absatz artikel artikels anhang chapitre alinéa "
        "annexe capítulo sección apartado artículo capitolo sezione articolo paragrafo hoofdstuk paragraaf secção "
        "artigo rozdzia\u00ff punkt"
    ).split()
)
# Programs whose names are written in small letters.
_PROGRAMS: Final = frozenset(
    (  # noqa: SIM905 - as above
        "curl libcurl wget nginx okhttp openssl openssh python python-requests aiohttp httpx urllib3 requests axios "
        "node node-fetch undici npm yarn pip git java php perl libwww-perl ruby go apache httpd boto3 botocore "
        "aws-cli kubectl docker containerd helm terraform postgres redis opr msie"
    ).split()
)
_ADDRESSED: Final = "ip|dns|host|hostname|server|client|peer|addr|address|node|record|gateway|adresse|localhost"
_PRODUCT: Final = re.compile(rf"(?!(?i:{_ADDRESSED})\Z)[A-Z](?=[A-Za-z]*[a-z])[0-9A-Za-z_-]{{1,40}}")
_PIECE: Final = re.compile(r"[_. -]|(?<=[a-z])(?=[A-Z])")
# Read backwards: what stands between a name and a number, and the last word, or the digit before an arrow.
_LETTER: Final = "A-Za-z\xa7\xc0-\xff"
_LAST: Final = re.compile(
    r"([vV]?[\"'(]?[ \t]{0,24}(?:>[-=]|[:=/-]|si(?= ))?[ \t]{0,12}[\"']?)"
    rf"((?:(?<=/)[0-9]|[{_LETTER}.])[0-9{_LETTER}_.-]{{0,60}}|(?<=[-=] )[0-9])"
)
_DOTTED: Final = r"[0-9]{1,5}(?:\.[0-9]{1,6}){1,3}"
# What follows a version is one as well.
_CONNECTORS: Final = frozenset("to and or und auf bis nach à et y a e en naar na".split())  # noqa: SIM905 - as above
_AND: Final = rf"[\"']?,?[ \t](?:{'|'.join(sorted(_CONNECTORS))}|->|=>|-|\xff)[ \t][\"']?[vV]?"
_VERSION_AND: Final = re.compile(
    rf"(?:version[a-z]{{0,8}}|release|firmware|build|kernel|(?<![a-z])ver|(?<![a-z])rev)\.?"
    rf"[\"']?[ \t:=/-]{{1,4}}[\"']?v?{_DOTTED}{_AND}\Z",
    re.IGNORECASE,
)
_FROM: Final = frozenset("from to von auf de a da van naar à".split())  # noqa: SIM905 - as above
_PRIVATE: Final = r"(?:10|127|192\.168|169\.254|172\.(?:1[6-9]|2[0-9]|3[01]))\."
# The verb in one of its forms, and the name of what is changed.
_CHANGED: Final = (
    r"(?<![A-Za-z])(?i:upgrad|downgrad|bump|updat|aktualisier|actualiz|aggiorna|bijgewerkt|mis à jour)[a-z]{0,6}"
    rf"(?: (?!(?i:{_ADDRESSED})(?![a-z]))[0-9A-Za-z_.@-]{{1,30}}){{0,3}}? (?:from|von|de|da|van)"
)
_CHANGED_FROM: Final = re.compile(rf"{_CHANGED} [\"']?[vV]?\Z")
_CHANGED_TO: Final = re.compile(rf"{_CHANGED} [\"']?[vV]?(?!{_PRIVATE}){_DOTTED}{_AND}\Z")
_FROM_TO: Final = re.compile(rf"(?!{_PRIVATE}){_DOTTED}{_AND}{_DOTTED}")
# A port or the length of a prefix shows an address.
_ADDRESS: Final = re.compile(rf"{_DOTTED}(?::[0-9]{{2,5}}|/(?:[89]|[12][0-9]|3[0-2]))(?![0-9A-Za-z.])")


_BETWEEN: Final = _CONNECTORS | _FROM


def is_version(text: str, start: int) -> bool:
    """Returns whether the four numbers from a place of a normalised text on are those of a version or a section."""
    if (found := _LAST.match(text[start - _REACH if start > _REACH else 0 : start][::-1])) is None:
        return False
    sign, word = found[1].strip(), found[2][::-1].strip(".-")
    if _names(sign, word):
        return _ADDRESS.match(text, start) is None
    return (word in _BETWEEN or word.isdigit()) and _follows(text, start)


def _names(sign: str, word: str) -> bool:
    """Returns whether a word before a number, with a sign between, names a version, a program or a section."""
    if sign == "/" and (word.lower() in _PROGRAMS or _PRODUCT.fullmatch(word) is not None):
        return True
    last = _PIECE.split(word)[-1].lower()
    return (not sign and (last in _SECTIONS or last == "\xa7")) or names_version(word)


def names_version(label: str) -> bool:
    """Returns whether the name of a column, key or variable is that of versions."""
    *_, kind, last = ["", *(piece.lower() for piece in _PIECE.split(label))]
    return last in _NAMES or last.endswith("version") or (last in _NUMBERS and kind.endswith("version"))


def _follows(text: str, start: int) -> bool:
    """Returns whether the numbers follow another version, or both are of a program that was changed."""
    before = text[max(start - _REACH, 0) : start].rpartition("\n")[2]
    if _VERSION_AND.search(before) is not None or _CHANGED_TO.search(before) is not None:
        return True
    return _CHANGED_FROM.search(before) is not None and _FROM_TO.match(text, start) is not None
