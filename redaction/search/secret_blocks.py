"""Finds private keys and other secrets of many lines, in all usual forms.

A block reaches from its begin mark to its end mark, with any text between: line breaks, also escaped, blanks, quotes
and comment marks. A block without one of the marks reaches as far as key data goes on.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from redaction.rules.rule import Value
from redaction.search.linear_search import search_for

ENTITY: Final = "SECRET"
SCORE: Final = 0.95
LONGEST_BLOCK: Final = 20_000
"""Most characters between begin and end mark that may hold any text; longer blocks must hold key data only."""

_BLANK: Final = "(?:[ _+]|%20)"
_LABEL: Final = (
    rf"(?:(?:[0-9A-Z.-]{{1,20}}{_BLANK}){{0,5}}PRIVATE{_BLANK}KEY(?:{_BLANK}BLOCK)?"
    rf"|OpenVPN{_BLANK}(?:Static{_BLANK}key{_BLANK}V[0-9]|tls-crypt-v2{_BLANK}(?:client|server){_BLANK}key))"
)
_DASHES: Final = "(?:-{2,5}|(?:%2[Dd]){2,5})"
_MARK: Final = re.compile(
    rf"(?P<begin>{_DASHES}{_BLANK}?BEGIN{_BLANK}{_LABEL}{_BLANK}?{_DASHES}"
    r"|PuTTY-User-Key-File-[0-9]{1,2}:)|(?P<lines>(?<![A-Za-z-])Private-Lines:)"
    rf"|(?P<end>{_DASHES}{_BLANK}?END{_BLANK}{_LABEL}{_BLANK}?{_DASHES}|Private-(?:MAC|Hash): ?[0-9a-f]{{8,128}})"
    # A block in base 64, which counts if its data is a key's.
    r"|(?P<encoded>(?<![0-9A-Za-z+/])(?:LS0tL[SC]|UHVUVFktVXNlci1LZX))"
    # Beginnings of key data: OpenSSH, PKCS #1, PKCS #8 (RSA, EC, Ed25519) and SEC 1.
    r"|(?P<data>(?<![0-9A-Za-z+/])(?:b3BlbnNzaC1rZXktdjE"
    r"|MI[0-9A-Za-z+/]{2,6}AAKC|MI[0-9A-Za-z+/]{2,8}BADANBgkqhkiG9w0BAQEF"
    r"|MI[0-9A-Za-z+/]{1,8}AMB[MA]GByqGSM49|M[CE][0-9A-Za-z+/]{1,4}AQAwBQYDK2"
    r"|M[HI][0-9A-Za-z+/]{1,5}(?:CAQEE|AgEBB[DE])"
    # Keys of minisign and signify.
    r"|RW(?:RTY0Iy|QAAEIy|RCS[w-z])[0-9A-Za-z+/]{80}))"
)
# Finds at least every mark, without lookaround, which RE2 lacks.
_any_mark: Final = search_for(
    re.sub(r"\(\?<![^)]*\)|\?P<[a-z]+>", lambda found: "?:" if found[0][1] == "P" else "", _MARK.pattern)
)
# Fields within a key, with the rest of their line.
_FIELD: Final = (
    "(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID|Subject|Encryption|Public-Lines|Private-Lines|"
    r"Key-Derivation|Argon2-[A-Z][a-z]{2,12}):[^\r\n\\%]{0,200}+"
)
_GAP: Final = re.compile(
    r"(?:\\{1,4}(?:[nrt]|u000[aAdD])|%0[AaDd]|&#(?:1[03]|x[aAdD]);|<[bB][rR] ?/?>|[^0-9A-Za-z+/=]){0,200}+"
)
_WORD: Final = r"(?:[0-9A-Za-z+/]|%2[BbFf]|\\{1,3}/)++(?:=|%3[Dd]){0,2}"
_PIECE: Final = re.compile(rf"(?P<field>{_FIELD})|{_WORD}|=[0-9A-Za-z+/]{{4}}(?![0-9A-Za-z+/])")
# The patterns above, for text from right to left.
_GAP_BACK: Final = re.compile(
    r"(?:(?:[nrt]|[aAdD]000u)\\{1,4}|[AaDd]0%|;(?:3|0)1#&|>/? ?[rR][bB]<|[^0-9A-Za-z+/=]){0,200}+"
)
_PIECE_BACK: Final = re.compile(r"(?:=|[Dd]3%){0,2}(?:[FfBb]2%|/\\{1,3}|[0-9A-Za-z+/])++=?")
# Most short words at the end of a key: its last line, and the checksum of OpenPGP.
_MOST_SHORT: Final = 2
_LONG: Final = 16
_LONG_HEX: Final = 32
_HEX: Final = re.compile("[0-9a-f]+")
_LONGEST_PREFIX: Final = 80
_LAST_WORD: Final = re.compile(r"(?<![0-9A-Za-z+/=])([0-9A-Za-z+/]{4,100}+={0,2})[^0-9A-Za-z\n]{0,8}$", re.MULTILINE)
# Characters before a line of data: indents, quotes and comment marks.
_AROUND: Final = " \t>#*/|;\"',"
_DIGITS: Final = str.maketrans("123456789", "0" * 9)
_NO_BASE_64: Final = re.compile("[^0-9A-Za-z+/]+")


def find_blocks(text: str, piece_at: Callable[[int], int] | None = None) -> list[Value]:
    """Returns the blocks of a text, in order and disjoint.

    `piece_at` returns the piece of a joined text at a position; a block may continue in other pieces, as its lines.
    """
    marks = list(_marks(text))
    following: list[re.Match[str] | None] = [None] * len(marks)
    for index in range(len(marks) - 2, -1, -1):
        after = marks[index + 1]
        following[index] = after if after["begin"] or after["end"] else following[index + 1]
    blocks: list[Value] = []
    done = looked = 0
    for mark, closing in zip(marks, following, strict=True):
        start = mark.start()
        if start < done:
            continue
        if mark["end"]:
            start, end = _data_start(text, done, start), mark.end()
            if start == mark.start():
                continue
        elif mark["begin"] or mark["lines"]:
            ending = closing if closing is not None and closing["end"] else None
            end = _block_end(text, mark, ending, piece_at)
            if end > mark.end():
                blocks.append((start, end, ENTITY, SCORE))
                done = end
            if ending is None and (
                lines := _lone_lines(text, mark, end, len(text) if closing is None else closing.start())
            ):
                blocks += lines
                done = lines[-1][1]
            continue
        else:
            if start < looked:
                # Base 64 without a key.
                continue
            end = _data_end(text, start, start)
            if not mark["data"] and not _encodes_key(text[start : min(end, start + LONGEST_BLOCK)]):
                looked = end
                continue
        if end > start:
            blocks.append((start, end, ENTITY, SCORE))
            done = end
    return blocks


def open_block(text: str, start: int, end: int) -> int:
    """Returns the start of a block after `start` that may go on behind `end`; `end` for none."""
    low = max(start, end - LONGEST_BLOCK)
    begun = end
    for mark in _marks(text[low:end]):
        if mark["end"]:
            begun = end
        elif begun == end and not mark["encoded"]:
            begun = low + mark.start()
    return begun if begun == end else max(text.rfind("\n", low, begun) + 1, low)


def _marks(text: str) -> Iterator[re.Match[str]]:
    raw = text.encode("latin-1", "replace")
    place = _any_mark(raw, 0)
    while place >= 0:
        mark = _MARK.match(text, place)
        if mark is not None:
            yield mark
        place = _any_mark(raw, place + 1 if mark is None else mark.end())


def _block_end(text: str, mark: re.Match[str], end: re.Match[str] | None, piece_at: Callable[[int], int] | None) -> int:
    """Returns the end of a block; the end of its mark if no data follows."""
    place = mark.end()
    if end is not None and end.start() - place <= LONGEST_BLOCK:
        between = text[place : end.start()]
        whole = piece_at is None or piece_at(place) == piece_at(end.start()) or " " not in re.sub(_FIELD, "", between)
        if whole:
            return end.end() if any(map(str.isalnum, between)) else place
    stop = _data_end(text, mark.start(), place)
    if end is not None and stop > place and end.start() - stop <= _LONGEST_PREFIX:
        return end.end()
    return stop


def _lone_lines(text: str, mark: re.Match[str], low: int, high: int) -> list[Value]:
    """Returns the lines of data among other lines, in a block whose end is unknown."""
    prefix = _prefix(text, mark.start())
    if low == mark.end():
        head = text.find("\n", low, low + _LONGEST_PREFIX)
        if head < 0 or any(map(str.isalnum, text[low:head])):
            # The mark is only the name of a key.
            return []
    found: list[Value] = []
    for line in _LAST_WORD.finditer(text, low, min(high, low + LONGEST_BLOCK)):
        begun = max(text.rfind("\n", low, line.start()), low)
        word = line[1]
        before = text[begun : line.start()].lstrip("\n")
        alike = not before.strip(_AROUND) or before.translate(_DIGITS) == prefix
        if alike and (word[-1] == "=" or (len(word) >= _LONG and _ends_key(word))):
            found.append((*line.span(1), ENTITY, SCORE))
    return found


def _prefix(text: str, start: int) -> str:
    """Returns the text before a mark on its line, which all lines of a log share except for digits."""
    line = max(text.rfind("\n", max(start - _LONGEST_PREFIX, 0), start) + 1, start - _LONGEST_PREFIX, 0)
    return text[line:start].translate(_DIGITS)


def _data_end(text: str, start: int, place: int) -> int:
    """Returns the end of the data that begins at `place`, in a block that begins at `start`."""
    prefix = _prefix(text, start)
    end, short = place, _MOST_SHORT
    while True:
        at = _end_of(_GAP, text, place)
        if prefix and (broken := text.rfind("\n", place, at) + 1) and _begins(text, broken, prefix):
            at = _end_of(_GAP, text, broken + len(prefix))
        if (piece := _PIECE.match(text, at)) is None:
            return end
        place = piece.end()
        if piece["field"] is None:
            if _is_data(piece[0]):
                short = 0
            elif short == _MOST_SHORT or not (place == len(text) or _ends_key(piece[0])):
                return end
            else:
                short += 1
        end = place


def _data_start(text: str, low: int, end: int) -> int:
    """Returns the start of the data that ends at `end`; `end` for none."""
    low = max(low, end - LONGEST_BLOCK)
    back = text[low:end][::-1]
    start = place = short = 0
    while (piece := _PIECE_BACK.match(back, _end_of(_GAP_BACK, back, place))) is not None:
        place = piece.end()
        if _is_data(piece[0]):
            short, start = _MOST_SHORT, place
        elif short == _MOST_SHORT:
            break
        else:
            short += 1
    found = end - start
    # The letter of an escaped line break.
    return found + 1 if 0 < found < end and text[found] in "nrt" and text[found - 1] == "\\" else found


def _end_of(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return place if found is None else found.end()


def _begins(text: str, place: int, prefix: str) -> bool:
    return text[place : place + len(prefix)].translate(_DIGITS) == prefix


def _is_data(word: str) -> bool:
    """Returns whether a word is a line of key data: long, with letters of both cases, or hexadecimal."""
    if len(word) < _LONG:
        return False
    if word.lower() != word != word.upper():
        return any(map(str.isdigit, word)) or len(word) >= _LONG_HEX
    return len(word) >= _LONG_HEX and _HEX.fullmatch(word) is not None


def _ends_key(word: str) -> bool:
    """Returns whether a short word may end a key, because it does not look like a word of a language."""
    return not word.isalpha() or word[1:].lower() != word[1:]


def _encodes_key(data: str) -> bool:
    """Returns whether base 64 begins with a private key, perhaps behind parameters or certificates."""
    encoded = _NO_BASE_64.sub("", re.sub(r"\\+(?:[nrt]|u000[aAdD])", "", data))
    content = base64.b64decode(encoded[: len(encoded) // 4 * 4])
    return any(name in content for name in (b"PRIVATE KEY", b"PuTTY-User-Key", b"OpenVPN"))


def split_by_pieces(
    text: str, values: Iterable[Value], starts: Sequence[int], piece_at: Callable[[int], int]
) -> Iterable[Value]:
    """Returns the values of a joined text, in order, with blocks divided at the bounds of pieces."""
    split: list[Value] = []
    divided = False
    for value in values:
        start, end, entity, score = value
        if entity != ENTITY or (first := piece_at(start)) == (last := piece_at(end - 1)):
            split.append(value)
            continue
        divided = True
        bounds = [start, *starts[first + 1 : last + 1], end]
        for low, high in pairwise(bounds):
            blanks = len(text[low:high]) - len(text[low:high].lstrip())
            high = low + len(text[low:high].rstrip())  # noqa: PLW2901 - without trailing blanks
            if low + blanks < high:
                split.append((low + blanks, high, entity, score))
    return sorted(split) if divided else split
