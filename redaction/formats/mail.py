"""Sweeps messages of electronic mail: headers, texts, and attachments as files of their own kinds."""

import base64
import io
import itertools
import mimetypes
import quopri
import re
import tempfile
from collections.abc import Iterator
from email.charset import QP, Charset
from email.errors import HeaderParseError
from email.generator import BytesGenerator
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesParser
from email.policy import Compat32
from email.utils import collapse_rfc2231_value, getaddresses
from pathlib import Path
from typing import BinaryIO, Final

from redaction.formats.file_names import swept_name
from redaction.formats.outcome import ArchiveBounds, SweepMember, WithheldError, parser_failures_withheld
from redaction.rules.rule import Match
from redaction.search.known_names import KnownNames
from redaction.search.spans import resolved
from redaction.sweep import Sweep

WITHHELD: Final = "[This attachment could not be searched for personal data, and was withheld.]\n"
"""Text in place of an attachment that cannot be swept."""

MAILBOX_MARK: Final = b"From "
"""Beginning of each message of a mailbox."""

# A message is held in memory, several times over.
_LARGEST: Final = 100_000_000
_LONGEST_LINE: Final = 1_000_000
# The time distinguishes the line from a sentence that begins with `From`.
_BEGINNING: Final = re.compile(rb"From [^\n]{1,500}[0-9]{2}:[0-9]{2}")
_COMMENT: Final = re.compile(r"\([^()]*\)")
_IDENTITY: Final = frozenset({"", "7bit", "8bit", "binary"})
_KNOWN_ENCODINGS: Final = _IDENTITY | {"base64", "quoted-printable", "x-uuencode", "uuencode", "uue", "x-uue"}
_OVER_BOUNDS: Final = frozenset({"too_many_members", "too_large", "too_deep"})
_ADDRESSES: Final = frozenset(
    {
        "from",
        "to",
        "cc",
        "bcc",
        "sender",
        "reply-to",
        "resent-from",
        "resent-to",
        "resent-cc",
        "resent-bcc",
        "resent-sender",
        "mail-followup-to",
        "disposition-notification-to",
    }
)
# Headers of a part's type and encoding, whose parameters are swept one by one.
_STRUCTURE: Final = frozenset({"content-type", "content-disposition", "content-transfer-encoding"})
# Other headers with a grammar, in which `[` begins no address.
_OF_ADDRESSES: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "return-path delivered-to x-original-to envelope-to errors-to return-receipt-to message-id in-reply-to "
        "references resent-message-id content-id received received-spf authentication-results list-unsubscribe "
        "list-post list-help list-owner list-archive list-subscribe"
    ).split()
)
# The replacement of an address, with the rest of the address on either side.
_ADDRESS: Final = re.compile(r"[0-9A-Za-z_.%+'&~-]{0,64}\[EMAIL_ADDRESS\]")
_REDACTED_ADDRESS: Final = "EMAIL_ADDRESS@redacted.invalid"
# The label of the names beside addresses.
_NAME_LABEL: Final = "full name"
_NAME: Final = "[PERSON]"
_NAME_SCORE: Final = 0.85
_FOLD: Final = re.compile(r"\r?\n[ \t]*")
_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")
# Characters of an encoded word.
_LONGEST_WORD: Final = 60
_QUOTES: Final = str.maketrans("", "", '"\\')
_UTF8: Final = Charset("utf-8")
_UTF8.header_encoding = QP


def sweep_mail(sweep: Sweep, source: Path, target: Path, bounds: ArchiveBounds, sweep_member: SweepMember) -> None:
    """Writes a copy of a message with every header, text and attachment swept, keeping the encoding of each part.

    An attachment that must be withheld is replaced by the text `WITHHELD`.

    Raises:
        WithheldError: the message is broken, or over the bounds.
    """
    with parser_failures_withheld("mail"):
        if source.stat().st_size > min(_LARGEST, bounds.expanded_bytes):
            raise WithheldError("mail", "too_large")
        with bounds.deeper("mail"), tempfile.TemporaryDirectory(dir=target.parent) as folder:
            swept = _swept(sweep, source.read_bytes(), Path(folder), bounds, sweep_member)
        if sweep.redacts:
            target.write_bytes(swept)


def sweep_mailbox(sweep: Sweep, source: Path, target: Path, bounds: ArchiveBounds, sweep_member: SweepMember) -> None:
    """Writes a copy of a mailbox (mbox) with every message swept by itself, and the lines between messages too.

    Raises:
        WithheldError: the mailbox or a message is broken, or over the bounds.
    """
    with (
        parser_failures_withheld("mail"),
        tempfile.TemporaryDirectory(dir=target.parent) as folder,
        (target if sweep.redacts else Path(folder, "unused")).open("wb") as file,
        source.open("rb") as lines,
    ):
        if not lines.read(len(MAILBOX_MARK)) == MAILBOX_MARK:
            raise WithheldError("mail", "broken")
        lines.seek(0)
        members = bounds.members
        for raw in _messages(lines):
            between, _, message = raw.partition(b"\n")
            line = sweep.part()
            file.write(line.text(between.decode("latin-1")).encode("latin-1") + b"\n")
            sweep.counts.add(line.counts)
            # Each message has the bound on parts of a single message.
            bounds.members = members
            one = sweep.with_empty_counts()
            swept = _swept(one, message, Path(folder), bounds, sweep_member)
            file.write(swept.rstrip(b"\r\n") + (b"\r\n\r\n" if b"\r\n" in message[:2_000] else b"\n\n"))
            sweep.counts.add(one.counts)


def _messages(lines: BinaryIO) -> Iterator[bytes]:
    """Yields the messages of a mailbox, each with the line that begins it."""
    held: list[bytes] = []
    size = 0
    blank = True
    while line := lines.readline(_LONGEST_LINE):
        if blank and held and _BEGINNING.match(line):
            yield b"".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line)
        if size > _LARGEST:
            raise WithheldError("mail", "too_large")
        blank = line in {b"\n", b"\r\n"}
    yield b"".join(held)


def _swept(sweep: Sweep, raw: bytes, folder: Path, bounds: ArchiveBounds, sweep_member: SweepMember) -> bytes:
    """Returns the swept copy of a message."""
    message = BytesParser().parsebytes(raw)
    if not message.keys():
        raise WithheldError("mail", "broken")
    _MailCopy(sweep, folder, bounds, sweep_member).sweep(message)
    linesep = "\r\n" if b"\r\n" in raw[:2_000] else "\n"
    file = io.BytesIO()
    BytesGenerator(file, mangle_from_=False, policy=_AsWritten(linesep=linesep)).flatten(message)
    return file.getvalue()


class _AsWritten(Compat32):
    """Policy that writes each header unchanged, in time linear in its length."""

    def fold_binary(self, name: str, value: str) -> bytes:
        """Returns the lines of a header."""
        written = _LINE_BREAK.sub(self.linesep, f"{name}: {value}")
        return f"{written}{self.linesep}".encode("ascii", "surrogateescape")


class _MailCopy:
    """Sweeper of the parts of one message, in place."""

    def __init__(self, sweep: Sweep, folder: Path, bounds: ArchiveBounds, sweep_member: SweepMember) -> None:
        self._sweep = sweep
        self._folder = folder
        self._bounds = bounds
        self._sweep_member = sweep_member
        # Names beside addresses, which are looked for in file names too, because rules alone find no names there.
        self._names = KnownNames()

    def sweep(self, part: "Message[str, str]") -> None:
        """Sweeps a message, or a part of a message with its inner parts."""
        self._bounds.members -= 1
        if self._bounds.members < 0:
            raise WithheldError("mail", "too_many_members")
        self._headers(part)
        name = self._structure(part)
        _encode_plainly(part)
        if part.is_multipart():
            with self._bounds.deeper("mail"):
                for inner in part.get_payload():
                    assert isinstance(inner, Message)
                    self.sweep(inner)
            part.preamble = self._text(part.preamble)
            part.epilogue = self._text(part.epilogue)
        else:
            self._content(part, name)

    def _text(self, text: str | None) -> str | None:
        if not text:
            return text
        swept = self._sweep.part()
        new = swept.text(_readable(text))
        self._sweep.counts.add(swept.counts)
        return new if self._sweep.redacts and swept.counts.values else text

    def _headers(self, part: "Message[str, str]") -> None:
        """Sweeps the headers together, each labelled by its name; unchanged headers stay as written."""
        headers = list(part.raw_items())
        texts: list[str] = []
        labels: list[str] = []
        owners: list[int] = []
        for index, (name, value) in enumerate(headers):
            if name.lower() not in _STRUCTURE:
                for label, text in _header_texts(name, str(value)):
                    texts.append(text)
                    labels.append(label)
                    owners.append(index)
        # Changes are computed in every mode, so that nothing is counted twice.
        sweep = self._sweep.part(redacts=True)
        changed = sweep.cells(texts, labels)
        self._sweep.counts.add(sweep.counts)
        named = [index for index, new in changed.items() if labels[index] == _NAME_LABEL and new == _NAME]
        self._names.learn((texts[index], _NAME_SCORE) for index in named)
        touched = {owners[index] for index in changed}
        rest = {
            index: self._rest(name, str(value)) for index, (name, value) in enumerate(headers) if index not in touched
        }
        if not self._sweep.redacts or not (touched or any(rest.values())):
            return
        swept = [changed.get(index, text) for index, text in enumerate(texts)]
        for unique in {name.lower() for name, _ in headers}:
            del part[unique]
        for index, (name, value) in enumerate(headers):
            new = rest.get(index) or str(value)
            if index in touched:
                new = _encoded(name, [text for owner, text in zip(owners, swept, strict=True) if owner == index])
            part[name] = new

    def _rest(self, name: str, value: str) -> str | None:
        """Returns an address header swept as a whole, to cover text outside its parts; None if unchanged."""
        if name.lower() not in _ADDRESSES:
            return None
        text = _decoded(value)
        swept = self._text(text)
        return None if swept is None or swept == text else _word(_ADDRESS.sub(_REDACTED_ADDRESS, swept))

    def _structure(self, part: "Message[str, str]") -> str:
        """Sweeps the parameters of a part's type and encoding headers; returns the name of its file, or ""."""
        original = _decoded(part.get_filename() or "")
        for header in ("Content-Type", "Content-Disposition"):
            if part[header] is None:
                continue
            kind, *parameters = part.get_params(failobj=[], header=header)
            if self._sweep.matches(_decoded(kind[0])):
                # Dropped, because a type with a value in it is no media type.
                del part[header]
                continue
            for key, value in parameters:
                text = _decoded(collapse_rfc2231_value(value))
                if key in {"name", "filename"}:
                    new, entities = swept_name(text, self._matches_in_name)
                else:
                    found = self._sweep.matches(text)
                    if key == "boundary":
                        # Digits alone do not count, because random digits in a boundary may look like a card number.
                        found = [match for match in found if any(map(str.isalpha, text[match.start : match.end]))]
                    new, entities = ("withheld" if found else text), [match.entity for match in found]
                self._sweep.counts.categories.update(entities)
                if self._sweep.redacts and entities:
                    part.set_param(key, new, header=header, charset=None if new.isascii() else "utf-8")
        return original

    def _matches_in_name(self, name: str) -> list[Match]:
        return resolved([*self._sweep.matches(name), *self._names.find(name)])

    def _content(self, part: "Message[str, str]", name: str) -> None:
        if part.get_content_maintype() == "multipart" or _encoding(part) not in _KNOWN_ENCODINGS:
            # A message that the parser cannot split, or an encoding that only other readers of mail know.
            self._not_searched(part, binary=False)
            return
        content = part.get_payload(decode=True)
        raw = content if isinstance(content, bytes) else b""
        if not raw:
            return
        self._bounds.expanded_bytes -= len(raw)
        if self._bounds.expanded_bytes < 0:
            raise WithheldError("mail", "too_large")
        charset = _charset(part, raw)
        plain, swept = self._folder / "plain", self._folder / "swept"
        plain.write_bytes(raw if charset is None else raw.decode(charset).encode())
        counts = self._sweep.counts
        attached = bool(name) or part.get_content_maintype() != "text"
        counts.files += attached
        try:
            _, done = self._sweep_member(self._sweep.part(), plain, swept, name or _file_name(part))
        except WithheldError as error:
            if error.reason in _OVER_BOUNDS:
                raise
            self._not_searched(part, binary=error.kind == "binary")
            return
        counts.add(done.counts)
        if self._sweep.redacts:
            new = swept.read_bytes()
            _set_content(part, new if charset is None else new.decode().encode(charset))
            swept.unlink()

    def _not_searched(self, part: "Message[str, str]", *, binary: bool) -> None:
        self._sweep.counts.add_unswept(binary=binary, redacts=self._sweep.redacts)
        if self._sweep.redacts:
            _withhold(part)


def _encoding(part: "Message[str, str]") -> str:
    """Returns the transfer encoding that a part names, without comments and quotes."""
    return _COMMENT.sub("", str(part.get("Content-Transfer-Encoding", ""))).strip(' \t\r\n;"').lower()


def _encode_plainly(part: "Message[str, str]") -> None:
    """Normalises the transfer encoding of a part for the parser, and decodes a message that is encoded as a whole."""
    encoding = _encoding(part)
    if part["Content-Transfer-Encoding"] is None or (encoding not in _KNOWN_ENCODINGS and not part.is_multipart()):
        return
    del part["Content-Transfer-Encoding"]
    if not part.is_multipart() or encoding in _IDENTITY:
        part["Content-Transfer-Encoding"] = encoding
    elif encoding in _KNOWN_ENCODINGS and part.get_content_maintype() == "message":
        inner = next(iter(part.get_payload()))
        assert isinstance(inner, Message)
        encoded = inner.as_bytes().lstrip()
        raw = base64.b64decode(encoded) if encoding == "base64" else quopri.decodestring(encoded)
        part.set_payload([BytesParser().parsebytes(raw)])


def _header_texts(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Yields the texts of a header with labels: alternately names and addresses, or the whole header."""
    if name.lower() not in _ADDRESSES:
        yield name, _decoded(value)
        return
    # Encoded words may hold commas, and so are decoded after the parts are separated.
    for shown, address in getaddresses([_FOLD.sub(" ", _readable(value))]):
        yield _NAME_LABEL, _decoded(shown)
        yield name, address


def _encoded(name: str, texts: list[str]) -> str:
    if name.lower() in _ADDRESSES | _OF_ADDRESSES:
        texts = [_ADDRESS.sub(_REDACTED_ADDRESS, text) for text in texts]
    if name.lower() not in _ADDRESSES:
        return _word(" ".join(texts))
    pairs = zip(texts[::2], texts[1::2], strict=True)
    # A name with a comma needs quotes, and a replaced address is no longer valid.
    return ", ".join(f"{_phrase(shown)} <{address}>" if shown else _word(address) for shown, address in pairs)


def _phrase(shown: str) -> str:
    return f'"{shown.translate(_QUOTES)}"' if shown.isascii() else _word(shown)


def _word(text: str) -> str:
    if text.isascii():
        return text
    # Bounded, because `Header` takes time quadratic in the length.
    return " ".join(filter(None, _UTF8.header_encode_lines(text, itertools.repeat(_LONGEST_WORD))))


def _readable(text: str) -> str:
    """Returns text that the parser left undecoded, decoded as UTF-8, else Latin-1."""
    raw = text.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _decoded(value: str) -> str:
    """Returns a header on one line, with its encoded words as text."""
    line = _FOLD.sub(" ", _readable(str(value)))
    try:
        return str(make_header(decode_header(line)))
    except (HeaderParseError, LookupError, ValueError):
        return line


def _charset(part: "Message[str, str]", raw: bytes) -> str | None:
    """Returns the codec that a text part names, if its content is valid in it; None to detect the codec by content."""
    if part.get_content_maintype() != "text":
        return None
    charset = part.get_content_charset()
    try:
        return charset if charset and raw.decode(charset).encode(charset) == raw else None
    except (LookupError, UnicodeError):
        return None


def _file_name(part: "Message[str, str]") -> str:
    return f"part{mimetypes.guess_extension(part.get_content_type()) or '.txt'}"


def _set_content(part: "Message[str, str]", content: bytes) -> None:
    """Sets the content of a part in the part's transfer encoding, or in another that can hold it."""
    encoding = _encoding(part)
    if encoding == "base64" or (encoding != "quoted-printable" and not _is_text(content)):
        encoding, payload = "base64", base64.encodebytes(content).decode("ascii")
    elif encoding == "quoted-printable":
        payload = quopri.encodestring(content).decode("ascii")
    elif content.isascii():
        encoding, payload = encoding if encoding in {"7bit", "8bit", "binary"} else "", content.decode("ascii")
    else:
        encoding, payload = "8bit", content.decode("ascii", "surrogateescape")
    del part["Content-Transfer-Encoding"]
    if encoding:
        part["Content-Transfer-Encoding"] = encoding
    part.set_payload(payload)


def _is_text(content: bytes) -> bool:
    return b"\0" not in content and max(map(len, content.splitlines()), default=0) < 1_000


def _withhold(part: "Message[str, str]") -> None:
    for header in ("Content-Type", "Content-Transfer-Encoding", "Content-Disposition"):
        del part[header]
    part["Content-Type"] = "text/plain"
    part.set_payload(WITHHELD)
