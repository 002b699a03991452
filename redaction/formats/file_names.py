"""File names: known extensions, and swept names as legal, unique paths."""

import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from redaction.rules.rule import Match
from redaction.safe_paths import plain_part, safe_part
from redaction.search.spans import replaced

TABLES: Final[Mapping[str, str | None]] = {".csv": None, ".tsv": "\t", ".tab": "\t", ".psv": "|"}
"""Extensions of tables of text, each with the separator of its cells if that is fixed."""
JSON: Final = frozenset({".json", ".jsonl", ".ndjson", ".geojson", ".ipynb", ".jsonld"})
XML: Final = frozenset(
    {
        ".xml",
        ".html",
        ".htm",
        ".xhtml",
        ".svg",
        ".rss",
        ".atom",
        ".kml",
        ".gpx",
        ".xsd",
        ".xsl",
        ".xslt",
        ".rdf",
        ".owl",
    }
)
YAML: Final = frozenset({".yaml", ".yml"})
ASSIGNMENTS: Final = frozenset({".toml", ".ini", ".cfg", ".conf", ".env", ".properties"})
CONTENT_LINES: Final = frozenset({".vcf", ".ics", ".ifb", ".ldif"})
MARKDOWN: Final = frozenset({".md", ".markdown"})
SQL: Final = frozenset({".sql"})
TURTLE: Final = frozenset({".ttl", ".nt", ".nq", ".trig", ".n3"})
OFFICE: Final = frozenset({".docx", ".xlsx"})
MAIL: Final = frozenset({".eml", ".mht", ".mhtml"})
MAILBOX: Final = frozenset({".mbox", ".mbx"})
EXTENSIONS: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        ".txt .text .md .rst .log .csv .tsv .tab .psv .json .jsonl .ndjson .geojson .jsonld .ipynb .parquet "
        ".zip .gz .bz2 .xz .zst .tar .tgz .7z .pdf .png .jpg .jpeg .gif .webp .svg .bmp .tif .tiff .html .htm "
        ".xml .yaml .yml .toml .ini .doc .docx .xls .xlsx .ppt .pptx .odt .ods .rtf .eml .mht .mhtml .mbox "
        ".msg .ics .vcf .ldif .env .cfg .conf .properties .sql "
        ".db .sqlite .py .js .ts .css .r .sh .ttl .nq .nt .trig .n3 .mp3 .mp4 .wav .mov .avro .orc .feather .arrow "
        ".pkl .npy .npz .bin .dat"
    ).split()
)

# Leaves space for the number that makes a name unique.
_LONGEST_PART: Final = 240
_WORDS: Final = str.maketrans("_+", "  ")


def extension_of(name: str) -> str:
    """Returns a file name's extension in small letters; `.env` for `.env` and `.env.local`."""
    base = name.rpartition("/")[2].lower()
    return ".env" if base.startswith(".env") else os.path.splitext(base)[1]  # noqa: PTH122 - not a path


def swept_name(path: str, find: Callable[[str], Sequence[Match]]) -> tuple[str, list[str]]:
    """Returns a path with the values in every part replaced, and the values' entity types.

    Known extensions are not searched, so that an address before an extension does not include it.
    """
    parts = []
    entities: list[str] = []
    for part in path.split("/"):
        swept, matches = _swept_part(part, find)
        parts.append(swept)
        entities += [match.entity for match in matches]
    return "/".join(parts), entities


def _swept_part(part: str, find: Callable[[str], Sequence[Match]]) -> tuple[str, Sequence[Match]]:
    stem, extensions = split_extensions(part)
    # A value may begin or end at an encoded character.
    for text in dict.fromkeys((plain_part(stem), stem)):
        # Underscores are letters in a first search, for addresses, and spaces in a second, for numbers.
        matches = find(text) or find(text.translate(_WORDS))
        if matches:
            return safe_part(_shortened(replaced(text, matches), extensions)), matches
    return part, ()


def _shortened(stem: str, extensions: str) -> str:
    # A replacement may be longer than its value, and file systems allow 255 bytes.
    room = _LONGEST_PART - len(extensions.encode())
    return stem.encode()[:room].decode(errors="ignore") + extensions


def split_extensions(name: str) -> tuple[str, str]:
    """Splits a name from the extensions of known kinds of file: `a.csv.gz` is `a` and `.csv.gz`."""
    stem, extension = posixpath.splitext(name)
    if not stem or extension.lower() not in EXTENSIONS:
        return name, ""
    stem, more = split_extensions(stem)
    return stem, more + extension


class UniqueNames:
    """Registry of names in use: gives `a/b-2.csv`, then `a/b-3.csv`, where `a/b.csv` is taken.

    `identity` returns an equal key for names that count as equal; by default the name itself.
    """

    def __init__(self, identity: Callable[[str], str] = str) -> None:
        self._identity = identity
        self._taken: set[str] = set()
        self._next_number: dict[str, int] = {}

    def claim(self, path: str) -> str:
        """Returns the path, or the next free numbered path; in constant time on average."""
        same = self._identity(path)
        free, number = path, self._next_number.get(same, 2)
        while self._identity(free) in self._taken:
            free, number = _numbered(path, number), number + 1
        self._next_number[same] = number
        self._taken.add(self._identity(free))
        return free


def _numbered(path: str, number: int) -> str:
    folder, slash, name = path.rpartition("/")
    stem, extensions = split_extensions(name)
    return f"{folder}{slash}{stem}-{number}{extensions}"
