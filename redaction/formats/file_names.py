"""Names of files: known extensions, and names swept into legal paths of which no two are equal."""

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

# Leaves room for the number that keeps two names apart.
_LONGEST_PART: Final = 240
_WORDS: Final = str.maketrans("_+", "  ")


def extension_of(name: str) -> str:
    """Returns the extension of the name of a file in small letters; a name `.env` or `.env.local` has `.env`."""
    base = name.rpartition("/")[2].lower()
    return ".env" if base.startswith(".env") else os.path.splitext(base)[1]  # noqa: PTH122 - not a path


def swept_name(path: str, find: Callable[[str], Sequence[Match]]) -> tuple[str, list[str]]:
    """Returns the path with the values in every part replaced, and their entity types.

    The extension of a known kind of file is not searched, so that an address before it does not include it.
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
        # Underscores are read as letters first, for addresses, then as spaces, for numbers.
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
    """Registry of names that are in use: where `a/b.csv` is taken, it gives `a/b-2.csv`, then `a/b-3.csv`.

    `identity` returns what names have in common that count as one; without it, only equal names do.
    """

    def __init__(self, identity: Callable[[str], str] = str) -> None:
        self._identity = identity
        self._taken: set[str] = set()
        self._next_number: dict[str, int] = {}

    def claim(self, path: str) -> str:
        """Returns the path, or the next numbered one that is free; in constant time on average."""
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
