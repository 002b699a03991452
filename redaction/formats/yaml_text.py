"""Sweeps the scalars of YAML, labelled by their keys; layout, comments, anchors and styles stay unchanged."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import yaml

from redaction.formats.assignments import Assignments
from redaction.formats.content_lines import decoded_text, encode_base64
from redaction.formats.labelled_text import Labelled, add_counts, as_text, sweep_labelled, swept_values
from redaction.formats.nested_labels import nested_label
from redaction.rules.labels import PRIVATE_MEMBER
from redaction.search.key_members import KeyObjects

if TYPE_CHECKING:
    from redaction.sweep import Sweep

# Characters of the longest file that is parsed; a longer file is swept line by line.
LONGEST: Final = 8 * 1024 * 1024
_PROPERTIES: Final = re.compile(r"(?:[&!][^\s]*\s+)*")
_BLOCK_HEAD: Final = re.compile(r"[|>][^\n]*\n[ ]*")
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_BINARY: Final = "tag:yaml.org,2002:binary"
_DEEPEST: Final = 500


class NotYamlError(ValueError):
    """Raised for a text that is not YAML, or is nested too deep."""


def sweep_yaml(blocks: Iterable[str], sweep: "Sweep") -> Iterator[str]:
    """Yields the swept text; invalid YAML, or text longer than LONGEST, is swept line by line, and then as text."""
    blocks = iter(blocks)
    text = ""
    for block in blocks:
        text += block
        if len(text) > LONGEST:
            break
    else:
        values = sweep.part(redacts=True)
        try:
            swept = swept_values(text, values, _values)
        except NotYamlError:
            pass
        else:
            add_counts(sweep, values)
            yield swept
            return

    def all_blocks() -> Iterator[str]:
        yield text
        yield from blocks

    yield from sweep_labelled(all_blocks(), sweep, Assignments(quotes=False))


def _values(text: str) -> Iterator[Labelled]:
    """Yields every scalar, and the text between scalars.

    Raises:
        NotYamlError: at the first syntax error.
    """
    place = 0
    objects: KeyObjects[yaml.ScalarEvent] = KeyObjects()
    scalars = list(_scalars(text, objects))
    private = set(map(id, objects.private(lambda scalar: str(scalar.value))))
    for label, start, end, scalar, in_flow in scalars:
        if any(map(str.isalnum, text[place:start])):
            yield Labelled(place, start, text[place:start])
        yield _labelled(text, start, end, PRIVATE_MEMBER if id(scalar) in private else label, scalar, in_flow=in_flow)
        place = end
    if any(map(str.isalnum, text[place:])):
        yield Labelled(place, len(text), text[place:])


def _labelled(text: str, start: int, end: int, label: str, scalar: yaml.ScalarEvent, *, in_flow: bool) -> Labelled:
    if scalar.style in {"|", ">"} and scalar.tag != _BINARY:
        head = _BLOCK_HEAD.match(text, start)
        start = min(head.end() if head is not None else start, end)
        return Labelled(start, end, text[start:end], label, as_text)
    if scalar.tag == _BINARY:
        end = start + len(text[start:end].rstrip())
        return Labelled(start, end, decoded_text(scalar.value), label, encode_base64)
    if not scalar.style and "\n" in text[start:end] and not in_flow:
        return Labelled(start, end, text[start:end], label, _plain)
    written = _single_quoted if scalar.style == "'" else _escaped if "\\" in text[start:end] else _quoted
    return Labelled(start, end, str(scalar.value), label, written)


def _scalars(
    text: str, objects: KeyObjects[yaml.ScalarEvent]
) -> Iterator[tuple[str, int, int, yaml.ScalarEvent, bool]]:
    """Yields label, span and event of each scalar, and whether it is in a flow collection; keys have no label."""
    # For each open collection its outer label, and for a mapping whether a key comes next.
    above: list[tuple[str, bool | None]] = []
    label, key_next = "", None
    parent = ""
    in_flow = 0
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.CollectionEndEvent):
                if isinstance(event, yaml.MappingEndEvent):
                    objects.close()
                parent, key_next = above.pop()
                in_flow -= in_flow > 0
                label = parent
            elif isinstance(event, yaml.CollectionStartEvent):
                if len(above) > _DEEPEST:
                    raise NotYamlError
                inside = "" if key_next else label
                above.append((parent, None if key_next is None else not key_next))
                parent = label = inside
                # Collections inside a flow collection have flow style too.
                in_flow += bool(event.flow_style)
                key_next = None
                if isinstance(event, yaml.MappingStartEvent):
                    key_next = True
                    objects.open()
            elif isinstance(event, yaml.NodeEvent):
                if isinstance(event, yaml.ScalarEvent):
                    low, high = _place(event.start_mark), _place(event.end_mark)
                    properties = _PROPERTIES.match(text, low, high)
                    low = low if properties is None else properties.end()
                    yield "" if key_next else label, low, high, event, in_flow > 0
                    if not key_next:
                        objects.value(event)
                    else:
                        objects.name(str(event.value))
                        label = nested_label(parent, str(event.value)[:200])
                if key_next is not None:
                    key_next = not key_next
    except (yaml.YAMLError, UnicodeError, IndexError) as error:
        raise NotYamlError from error


def _place(mark: Any) -> int:
    # The C parser's marks have another class than the Python parser's.
    return int(mark.index)


def _quoted(new: str) -> str:
    return json.dumps(new, ensure_ascii=False)


def _plain(new: str) -> str:
    return _quoted(" ".join(new.split())) if new.startswith("[") else new


def _escaped(new: str) -> str:
    # The file's encoding may lack the character of an escape.
    return _BEYOND_ASCII.sub(lambda found: f"\\U{ord(found[0]):08x}", _quoted(new))


def _single_quoted(new: str) -> str:
    return "'" + new.replace("'", "''") + "'"
