"""Sweeps the values of a stream of JSON text, and of JSON in its strings, keeping layout and numbers as written.

Keys are kept unless they hold values of exact types, such as mail addresses (`json_keys`).
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from redaction.formats.json_keys import Keys, ReplacedKeys, exact_parts, holds_replacement, is_replaced
from redaction.formats.outcome import BATCH, LONGEST_VALUE, SweepCells
from redaction.rules.labels import PRIVATE_MEMBER
from redaction.search.key_members import KEY_NAMES, KeyObjects
from redaction.search.normalisation import without_exponent

# Deepest nesting of JSON in strings of JSON.
_DEEPEST_JSON: Final = 4
# Possible last characters of a string that holds JSON.
_ENDS: Final = frozenset("}] \t\r\n")
# Tabs are allowed, because some programs do not escape them.
_INSIDE: Final = r'[^"\\\x00-\x08\x0a-\x1f]*+(?:\\.[^"\\\x00-\x08\x0a-\x1f]*+)*+'
_TOKEN: Final = re.compile(rf"""[ \t\r\n{{}}\[\],:]++|"{_INSIDE}"|[-+.0-9A-Za-z]++""", re.ASCII)
_TOKENS: Final = re.compile(rf"{_TOKEN.pattern}|[\s\S]++", re.ASCII)
# Continuations of a text that ends inside a string, in a literal, or in the blanks after a value.
_IN_STRING: Final = re.compile(_INSIDE, re.ASCII)
_IN_LITERAL: Final = re.compile(r"[-+.0-9A-Za-z]*+", re.ASCII)
_IN_BLANKS: Final = re.compile(r"[ \t\r\n]*+", re.ASCII)
_LITERAL: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")

_KEY_NAMES: Final = frozenset(f'"{name}"' for name in KEY_NAMES)
# Made once, because `json.dumps` and `json.loads` would make a coder at each call.
_JSON: Final = json.JSONEncoder(ensure_ascii=False).encode
_ASCII_JSON: Final = json.JSONEncoder().encode
_TEXT: Final = json.JSONDecoder(strict=False).decode


class NotJsonError(ValueError):
    """The text is not JSON."""


class ValueTooLongError(ValueError):
    """A value is longer than LONGEST_VALUE."""


def sweep_json(blocks: Iterable[str], sweep: SweepCells) -> Iterator[str]:
    """Yields the swept text of one or several JSON values, block by block.

    A number that `sweep` changes becomes a string: `4111111111111111` becomes `"[CREDIT_CARD]"`.

    Raises:
        NotJsonError: as soon as the text cannot be JSON; nesting is not checked.
        ValueTooLongError: before more than LONGEST_VALUE of a value is in memory.
    """
    keys = Keys()
    reader = _JsonReader()
    for block in blocks:
        if tokens := reader.tokens(block):
            yield _swept(tokens, keys, sweep)
    yield _swept(reader.last_tokens(), keys, sweep)


class _JsonReader:
    """Tokenizer of a stream of JSON text that reads each character a few times at most.

    The reader holds the last value back, with the blanks after it, until it is known to be complete and no key.
    """

    def __init__(self) -> None:
        self._held: list[str] = []
        self._size = 0
        # Pattern of how the held text's last token may continue in the next block.
        self._inside: re.Pattern[str] | None = None

    def tokens(self, block: str) -> list[str]:
        """Returns the tokens completed by a block."""
        if self._inside is None:
            self._hold(block)
            return self._cut() if self._size >= BATCH else []
        if self._inside is _IN_STRING and self._held[-1] == "\\":
            block = self._held.pop() + block
            self._size -= 1
        if not self._holds_continuation(block):
            self._hold(block)
            return self._cut()
        if self._size > LONGEST_VALUE:
            raise ValueTooLongError
        return []

    def last_tokens(self) -> list[str]:
        """Returns the tokens of the rest of the text."""
        tokens, rest = tokens_of("".join(self._held))
        if rest:
            raise NotJsonError
        return tokens

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._size += len(text)

    def _holds_continuation(self, text: str, start: int = 0) -> bool:
        """Holds a text if all of it continues the last token; returns whether it does."""
        assert self._inside is not None
        found = self._inside.match(text, start)
        assert found is not None, "it matches nothing too"
        end = found.end()
        if end == len(text):
            self._hold(text)
        elif self._inside is _IN_STRING and text[end] == "\\" and end == len(text) - 1:
            # The escaped character begins the next block.
            self._hold(text[:end])
            self._hold("\\")
        else:
            return False
        return True

    def _cut(self) -> list[str]:
        tokens, rest = tokens_of("".join(self._held))
        self._held, self._size, self._inside = [], 0, None
        if rest:
            self._inside = _IN_STRING
            if rest[0] != '"' or not self._holds_continuation(rest, 1):
                raise NotJsonError
            return tokens
        if not tokens or not (text := _undecided(tokens)):
            return tokens
        self._inside = _IN_LITERAL if _IN_LITERAL.fullmatch(text) else _IN_BLANKS
        self._hold(text)
        return tokens


def tokens_of(text: str) -> tuple[list[str], str]:
    """Returns the tokens of a text, and the unreadable rest."""
    # One call for all tokens takes half the time of a call for each.
    tokens = _TOKENS.findall(text)
    rest = tokens.pop() if tokens and _TOKEN.fullmatch(tokens[-1]) is None else ""
    return tokens, rest


def _undecided(tokens: list[str]) -> str:
    """Removes the last value, which may be a key or incomplete, with the blanks after it; returns their text."""
    blanks = tokens.pop() if tokens[-1].isspace() else ""
    if tokens and tokens[-1][0] not in " \t\r\n{}[],:":
        return tokens.pop() + blanks
    if blanks:
        tokens.append(blanks)
    return ""


class Values:
    """Collector of the values of tokens, including JSON inside strings, to be swept together."""

    def __init__(self, replaced_keys: ReplacedKeys | None = None) -> None:
        self._replaced_keys = replaced_keys or ReplacedKeys()
        # Keys that may change: position, key, spans of parts, and index of the first cell.
        self._keys: list[tuple[list[str], int, str, tuple[tuple[int, int], ...], int]] = []
        self.cells: list[str] = []
        self.labels: list[str] = []
        self._places: list[tuple[list[str], int]] = []
        self._inner: list[tuple[list[str], int, list[str]]] = []

    def collect(self, tokens: list[str], keys: Keys, depth: int = 0) -> None:
        """Adds the values of the tokens."""
        if keys.objects is None and not _KEY_NAMES.isdisjoint(tokens):
            keys.objects = KeyObjects()
        # From the first object that may be a cryptographic key on, all objects are tracked across calls.
        private = () if keys.objects is None else _private_places(tokens, keys.objects)
        for place, token in enumerate(tokens):
            if token[0] == '"':
                if _is_key(tokens, place):
                    self._key(tokens, place, key := _text(token))
                    keys.key(key)
                    continue
                text = _text(token)
                if keys.notes:
                    keys.note(text)
                self.string(tokens, place, text, PRIVATE_MEMBER if place in private else keys.label, depth)
                continue
            if token[0] in " \t\r\n{}[],:":
                if keys.follows_rows or token.strip(" \t\r\n,:"):
                    keys.punctuation(token)
                continue
            if _LITERAL.fullmatch(token):
                if len(token) < 5:
                    continue
                text = without_exponent(token) if "e" in token or "E" in token else token
            else:
                raise NotJsonError
            self.value(tokens, place, text, keys.label)

    def _key(self, tokens: list[str], place: int, key: str) -> None:
        """Adds a key that may hold values or replacements."""
        if (parts := exact_parts(key)) or holds_replacement(key):
            self._keys.append((tokens, place, key, parts, len(self.cells)))
            for low, high in parts:
                self.value(tokens, place, key[low:high], "")

    def string(self, tokens: list[str], place: int, text: str, label: str, depth: int = 0) -> None:
        """Adds the string at `place` in `tokens`, or its values if it holds JSON."""
        if text[-1:] in _ENDS and depth < _DEEPEST_JSON and (inner := _inner_tokens(text)):
            self.collect(inner, Keys(label), depth + 1)
            self._inner.append((tokens, place, inner))
        else:
            self.value(tokens, place, text, label)

    def value(self, tokens: list[str], place: int, text: str, label: str) -> None:
        """Adds a value; its new text becomes a JSON string at `place` in `tokens`."""
        self.cells.append(text)
        self.labels.append(label)
        self._places.append((tokens, place))

    def replace(self, changed: Mapping[int, str]) -> None:
        """Puts new texts into the tokens."""
        touched = set()
        of_keys: set[int] = set()
        for tokens, place, key, parts, first in self._keys:
            of_keys.update(range(first, first + len(parts)))
            new = _with_parts(key, parts, [changed.get(first + index, "") for index in range(len(parts))])
            if holds_replacement(new) and (unique := self._replaced_keys.replaced(key, new)) != key:
                tokens[place] = _encoded(unique, tokens[place])
                touched.add(id(tokens))
        for index, new in changed.items():
            if index in of_keys:
                continue
            tokens, place = self._places[index]
            tokens[place] = _encoded(new, tokens[place])
            touched.add(id(tokens))
        # Innermost strings come first.
        for tokens, place, inner in self._inner:
            if id(inner) in touched:
                tokens[place] = _encoded("".join(inner), tokens[place])
                touched.add(id(tokens))


def _is_key(tokens: list[str], place: int) -> bool:
    return place + 1 < len(tokens) and tokens[place + 1].lstrip(" \t\r\n")[:1] == ":"


def _private_places(tokens: list[str], objects: KeyObjects[int]) -> Collection[int]:
    """Returns the positions of tokens that are private members of a cryptographic key."""
    for place, token in enumerate(tokens):
        if token[0] == '"':
            if _is_key(tokens, place):
                objects.name(token[1:-1])
            else:
                objects.value(place)
            continue
        for character in token:
            if character == "{":
                objects.open()
            elif character == "}":
                objects.close()
    return frozenset(objects.private(lambda place: tokens[place][1:-1]))


def _with_parts(key: str, parts: tuple[tuple[int, int], ...], swept: list[str]) -> str:
    """Returns a key with its parts that are values replaced."""
    new = key
    for (low, high), part in reversed(list(zip(parts, swept, strict=True))):
        if is_replaced(part):
            new = new[:low] + part + new[high:]
    return new


def _encoded(text: str, token: str) -> str:
    return (_ASCII_JSON if "\\u" in token else _JSON)(text)


def _inner_tokens(text: str) -> list[str]:
    """Returns the tokens of a string that holds JSON with keys or strings; empty for any other."""
    bare = text.strip(" \t\r\n")
    if bare[:1] + bare[-1:] not in {"{}", "[]"} or '"' not in bare:
        return []
    tokens, rest = tokens_of(text)
    return tokens if not rest and all(map(_is_sound, tokens)) else []


def _is_sound(token: str) -> bool:
    if token[0] in " \t\r\n{}[],:":
        return True
    if token[0] != '"':
        return _LITERAL.fullmatch(token) is not None
    try:
        _text(token)
    except NotJsonError:
        return False
    return True


def _swept(tokens: list[str], keys: Keys, sweep: SweepCells) -> str:
    values = Values(keys.replaced)
    values.collect(tokens, keys)
    values.replace(sweep(values.cells, values.labels))
    return "".join(tokens)


def _text(token: str) -> str:
    if "\\" not in token:
        return token[1:-1]
    try:
        return str(_TEXT(token))
    except ValueError as error:
        raise NotJsonError from error
