"""Extensions of file names by which kinds of file are known."""

import os
from collections.abc import Mapping
from typing import Final

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


def extension_of(name: str) -> str:
    """Returns the extension of the name of a file in small letters; a name `.env` or `.env.local` has `.env`."""
    base = name.rpartition("/")[2].lower()
    return ".env" if base.startswith(".env") else os.path.splitext(base)[1]  # noqa: PTH122 - not a path
