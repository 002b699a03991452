"""Sweeps texts and attributes of a stream of XML or HTML; tags, names and layout stay unchanged.

The text is tokenised without building a document: declared entities are never expanded, and nothing is fetched. Text
that is no tag counts as content, so that malformed documents are swept as well.
"""

import html
import re
from collections.abc import Iterable, Iterator
from typing import Final

from redaction.formats.nested_labels import (
    is_known_label,
    label_score,
    may_be_labelled,
    nested_label,
    stated_label,
    states_label,
)
from redaction.formats.open_elements import OpenElements
from redaction.formats.outcome import BATCH, LONGEST_VALUE, SweepCells

_NAME: Final = r"[A-Za-z_:\u0080-\U0010ffff][-.\w:]*+"
# Comments, CDATA, instructions and declarations are single tokens, without tags inside.
_MARK: Final = re.compile(
    rf"""(?P<raw><!--|-->|<!\[CDATA\[|\]\]>|<\?|\?>|<![A-Za-z][^<>\[]*+[>\[])"""
    rf"""|<(?P<close>/)?(?P<name>{_NAME})(?P<inside>(?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+)>""",
)
_ATTRIBUTE: Final = re.compile(
    rf"""(?<![-.\w:])({_NAME})([ \t\r\n]*+=[ \t\r\n]*+)(?:"([^"]*+)"|'([^']*+)'|([^\s"'=<>`]++))"""
)
# The usual text between values of attributes; other text there is swept.
_ORDINARY: Final = re.compile(rf"""["']?[ \t\r\n]*+(?:{_NAME}[ \t\r\n]*+=[ \t\r\n]*+["']?)?[ \t\r\n]*+/?>?""")
_NAMESPACE: Final = re.compile(r"xmlns(?::.*)?|xsi:(?:noNamespaceS|s)chemaLocation")
# Elements of HTML without an end.
_VOID: Final = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905
# Attributes of HTML that state the label of a value, in addition to those of other formats.
_STATING: Final = frozenset({"id", "itemprop"})
_ENTITY: Final = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{0,31});")


def sweep_xml(blocks: Iterable[str], sweep: SweepCells) -> Iterator[str]:
    """Yields the swept text block by block; a changed text is escaped for XML.

    The label of a value is the name of its attribute or element, with the name of the parent element.
    """
    open_elements = OpenElements()
    rest = ""
    for block in blocks:
        rest += block
        if len(rest) < BATCH:
            continue
        # A tag that may continue in the next block is held back, unless it is too long for a tag.
        end = rest.rfind("<")
        if end <= 0:
            if len(rest) <= LONGEST_VALUE:
                continue
            end = rest.rfind("\n") + 1 or len(rest)
        yield _swept(rest[:end], open_elements, sweep)
        rest = rest[end:]
    yield _swept(rest, open_elements, sweep)


def _swept(text: str, open_elements: OpenElements, sweep: SweepCells) -> str:
    parts = _XmlParts()
    place = 0
    for found in _MARK.finditer(text):
        parts.value(raw := text[place : found.start()], open_elements.label(raw))
        place = found.end()
        name = found["name"]
        if name is None:
            # A declaration may quote anything.
            parts.value(found.group(), "")
            continue
        local = _local(name)
        if found["close"]:
            open_elements.close(local)
            parts.mark(found.group())
            continue
        stated = parts.tag(text, found, local)
        if not found["inside"].endswith("/") and local.lower() not in _VOID:
            open_elements.open(local, stated)
    parts.value(raw := text[place:], open_elements.label(raw))
    return parts.swept(sweep)


class _XmlParts:
    """Pieces of a text, some of which are values."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._cells: list[str] = []
        self._labels: list[str] = []
        self._places: list[int] = []

    def value(self, raw: str, label: str) -> None:
        if raw and not raw.isspace():
            self._cells.append(_plain(raw))
            self._labels.append(label)
            self._places.append(len(self._pieces))
        self._pieces.append(raw)

    def mark(self, raw: str) -> None:
        self._pieces.append(raw)

    def tag(self, text: str, found: re.Match[str], local: str) -> str:
        """Adds a tag with its attributes; returns the label that they state, as `name="surname"` does."""
        at = found.end("name")
        self.mark(text[found.start() : at])
        attributes = list(_ATTRIBUTE.finditer(text, found.start("inside"), found.end("inside")))
        stated = _stated(attributes)
        for attribute in attributes:
            group = attribute.lastindex or 0
            self._between(text[at : attribute.start(group)])
            # Namespaces stay, because all names depend on them.
            if _NAMESPACE.fullmatch(attribute[1]):
                self.mark(attribute[group])
            elif _states(attribute):
                # A label is itself no value.
                self.value(attribute[group], "")
            else:
                label = nested_label(local, name := _local(attribute[1]))
                if stated and may_be_labelled(name):
                    label = stated_label(local, stated, label)
                self.value(attribute[group], label)
            at = attribute.end(group)
        self._between(text[at : found.end()])
        return stated

    def swept(self, sweep: SweepCells) -> str:
        """Returns the text with its values swept."""
        for index, new in sweep(self._cells, self._labels).items():
            place = self._places[index]
            self._pieces[place] = _escaped(new, self._pieces[place])
        return "".join(self._pieces)

    def _between(self, raw: str) -> None:
        if _ORDINARY.fullmatch(raw):
            self.mark(raw)
        else:
            self.value(raw, "")


def _stated(attributes: list[re.Match[str]]) -> str:
    """Returns the label that an element's attributes state, known words before others."""
    found = [attribute[attribute.lastindex or 0] for attribute in attributes if _states(attribute)]
    return max(found, key=label_score, default="")


def _states(attribute: re.Match[str]) -> bool:
    """Returns whether an attribute may state the label of its element's value."""
    name, text = _local(attribute[1]), attribute[attribute.lastindex or 0]
    return states_label(name, text) or (name in _STATING and is_known_label(text))


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _plain(raw: str) -> str:
    """Returns a text with predefined entities decoded; entities that a document declares stay."""
    return _ENTITY.sub(lambda found: html.unescape(found[0]), raw) if "&" in raw else raw


def _escaped(new: str, raw: str) -> str:
    if "&" not in raw:
        return new
    declared = {found for found in _ENTITY.findall(raw) if html.unescape(found) == found}
    escaped = html.escape(new)
    for entity in declared:
        escaped = escaped.replace(html.escape(entity), entity)
    return escaped
