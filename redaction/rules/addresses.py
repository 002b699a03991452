"""Checks of mail, web and IP addresses, and of version numbers, which look like IP addresses."""

import re
from typing import Final

from redaction.rules import checksums
from redaction.rules.tables import table

_LOCAL: Final = re.compile(r"[0-9A-Za-z_.%+'&~\x80-\xff-]*+")
# A quoted local part (RFC 5322, 3.2.4), read from right to left.
_QUOTED: Final = re.compile(r'"[0-9A-Za-z_.%+ \x80-\xff-]{1,60}+"(?![0-9A-Za-z])')
_NOT_FIRST: Final = ".%+'&~-"
_TABLE: Final = table("everywhere")
_BEYOND: Final = _TABLE.pieces["beyond"]
ROLES: Final = _TABLE.words["roles"]
"""Local parts of addresses that belong to a role, not to a person."""
_FILE_ENDS: Final = _TABLE.words["file_ends"]
# The labels of a domain, and the last one as a group of its own.
_LABELS: Final = re.compile(
    rf"[^@\s]{{0,64}}?(?:@|%40)((?:[0-9A-Za-z{_BEYOND}_-]{{1,63}}\.){{1,8}})([A-Za-z0-9_-]++)(?!\.[0-9A-Za-z])"
)
_VERSION: Final = re.compile(r"v?[0-9]+(?:\.[0-9]+)+\.")
_URL_ENDS: Final = ".,;:!?*_~"
_BRACKETS: Final = {")": "(", "]": "["}

_REACH: Final = 80
_VERSION_NAMES: Final = _TABLE.words["version_names"]
_VERSION_NUMBERS: Final = _TABLE.words["version_numbers"]
_SECTIONS: Final = _TABLE.words["sections"]
_PROGRAMS: Final = _TABLE.words["programs"]
# Words between two versions.
_CONNECTORS: Final = _TABLE.words["between_versions"]
_BETWEEN: Final = _CONNECTORS | _TABLE.words["before_versions"]
_ADDRESSED: Final = "ip|dns|host|hostname|server|client|peer|addr|address|node|record|gateway|adresse|localhost"
_PRODUCT: Final = re.compile(rf"(?!(?i:{_ADDRESSED})\Z)[A-Z](?=[A-Za-z]*[a-z])[0-9A-Za-z_-]{{1,40}}")
_PIECE: Final = re.compile(r"[_. -]|(?<=[a-z])(?=[A-Z])")
# The text between a name and a number, and the last word, or the digit before an arrow.
_LETTER: Final = "A-Za-z\xa7\xc0-\xff"
_LAST: Final = re.compile(
    r"([vV]?[\"'(]?[ \t]{0,24}(?:>[-=]|[:=/-]|si(?= ))?[ \t]{0,12}[\"']?)"
    rf"((?:(?<=/)[0-9]|[{_LETTER}.])[0-9{_LETTER}_.-]{{0,60}}|(?<=[-=] )[0-9])"
)
_DOTTED: Final = r"[0-9]{1,5}(?:\.[0-9]{1,6}){1,3}"
_AND: Final = rf"[\"']?,?[ \t](?:{'|'.join(sorted(_CONNECTORS))}|->|=>|-|\xff)[ \t][\"']?[vV]?"
_VERSION_AND: Final = re.compile(
    rf"(?:version[a-z]{{0,8}}|release|firmware|build|kernel|(?<![a-z])ver|(?<![a-z])rev)\.?"
    rf"[\"']?[ \t:=/-]{{1,4}}[\"']?v?{_DOTTED}{_AND}\Z",
    re.IGNORECASE,
)
_PRIVATE: Final = r"(?:10|127|192\.168|169\.254|172\.(?:1[6-9]|2[0-9]|3[01]))\."
# Forms of a verb of change, and the name of the changed product.
_CHANGED: Final = (
    r"(?<![A-Za-z])(?i:upgrad|downgrad|bump|updat|aktualisier|actualiz|aggiorna|bijgewerkt|mis à jour)[a-z]{0,6}"
    rf"(?: (?!(?i:{_ADDRESSED})(?![a-z]))[0-9A-Za-z_.@-]{{1,30}}){{0,3}}? (?:from|von|de|da|van)"
)
_CHANGED_FROM: Final = re.compile(rf"{_CHANGED} [\"']?[vV]?\Z")
_CHANGED_TO: Final = re.compile(rf"{_CHANGED} [\"']?[vV]?(?!{_PRIVATE}){_DOTTED}{_AND}\Z")
_FROM_TO: Final = re.compile(rf"(?!{_PRIVATE}){_DOTTED}{_AND}{_DOTTED}")
# A port or the length of a prefix shows an address.
_ADDRESS: Final = re.compile(rf"{_DOTTED}(?::[0-9]{{2,5}}|/(?:[89]|[12][0-9]|3[0-2]))(?![0-9A-Za-z.])")


def is_file_or_version(text: str, start: int) -> bool:
    """Returns whether the domain shows a text to be no mail address: `logo@2x.png`, `pkg@1.2.3.Final`."""
    if (found := _LABELS.match(text, start)) is None:
        return False
    labels, last = found.groups()
    if last == "invalid" and labels == "redacted.":
        return True
    version = _VERSION.match(labels) if labels[0] in "v0123456789" else None
    if version is not None and version.end() == len(labels) and last[0].isalpha():
        return True
    if last.lower() not in _FILE_ENDS:
        return False
    # A file may be named after an address: `jane@example.org.csv`.
    domain = labels[:-1].split(".")
    while len(domain) > 1 and domain[-1].lower() in _FILE_ENDS:
        domain.pop()
    return version is not None or len(domain) == 1 or len(domain[-1]) == 1 or not domain[-1].isalpha()


def email_start(text: str, at: int) -> int:
    """Returns the start of the local part before the `@` at a position; the position itself if of no person."""
    before = text[at - 64 if at > 64 else 0 : at][::-1]
    if (quoted := _QUOTED.match(before)) is not None:
        return at - quoted.end()
    backwards = _LOCAL.match(before)
    if backwards is None:
        return at
    start = at - len(backwards[0].rstrip(_NOT_FIRST))
    return at if text[start:at].lower() in ROLES else start


def url_length(text: str) -> int:
    """Returns the length of a URL without a sentence's punctuation and unmatched closing brackets."""
    if text[-1] not in _URL_ENDS and text[-1] not in _BRACKETS:
        return len(text)
    open_brackets = {one: text.count(other) - text.count(one) for one, other in _BRACKETS.items()}
    end = len(text)
    while end:
        last = text[end - 1]
        if last in open_brackets:
            if open_brackets[last] >= 0:
                break
            open_brackets[last] += 1
        elif last not in _URL_ENDS:
            break
        end -= 1
    return end


def is_strong_ipv4(text: str) -> bool:
    """Checks for four octets, not all of one digit, which could be a version."""
    return len(text) > len("1.1.1.1") and checksums.ipv4(text)


def is_version(text: str, start: int) -> bool:
    """Returns whether the four numbers at a position of a normalised text are a version or a section."""
    if (found := _LAST.match(text[start - _REACH if start > _REACH else 0 : start][::-1])) is None:
        return False
    sign, word = found[1].strip(), found[2][::-1].strip(".-")
    if _names(sign, word):
        return _ADDRESS.match(text, start) is None
    return (word in _BETWEEN or word.isdigit()) and _follows(text, start)


def _names(sign: str, word: str) -> bool:
    """Returns whether the word before a number, with a sign between, names a version, a program or a section."""
    if sign == "/" and (word.lower() in _PROGRAMS or _PRODUCT.fullmatch(word) is not None):
        return True
    last = _PIECE.split(word)[-1].lower()
    return (not sign and (last in _SECTIONS or last == "\xa7")) or names_version(word)


def names_version(label: str) -> bool:
    """Returns whether the name of a column, key or variable is one of versions."""
    *_, kind, last = ["", *(piece.lower() for piece in _PIECE.split(label))]
    return last in _VERSION_NAMES or last.endswith("version") or (last in _VERSION_NUMBERS and kind.endswith("version"))


def _follows(text: str, start: int) -> bool:
    """Returns whether the numbers follow another version, or are part of a change between two versions."""
    before = text[max(start - _REACH, 0) : start].rpartition("\n")[2]
    if _VERSION_AND.search(before) is not None or _CHANGED_TO.search(before) is not None:
        return True
    return _CHANGED_FROM.search(before) is not None and _FROM_TO.match(text, start) is not None
