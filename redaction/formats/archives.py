"""Sweeps zip archives member by member, within bounds on the number of members and their expanded size."""

import tempfile
import zipfile
from pathlib import Path
from typing import Final

from redaction.formats.file_names import UniqueNames, swept_name
from redaction.formats.outcome import ArchiveBounds, SweepMember, WithheldError, parser_failures_withheld
from redaction.safe_paths import safe_member
from redaction.sweep import Sweep

_CHUNK: Final = 256 * 1024
_ENCRYPTED: Final = 0x1
# Bytes of the record at an archive's end with the longest comment, and of the longest list of members.
_LONGEST_END: Final = 65_557 + 20
_LONGEST_DIRECTORY: Final = 8_000_000
_OVER_BOUNDS: Final = frozenset({"too_many_members", "too_large", "too_deep"})


def sweep_zip(sweep: Sweep, source: Path, target: Path, bounds: ArchiveBounds, sweep_member: SweepMember) -> None:
    """Writes a new archive with every member and its name swept; members that must be withheld are left out.

    Members whose path leads upwards are left out too; other paths are made safe to unpack. Comments, times and
    permissions of the old archive are not copied.

    Raises:
        WithheldError: the archive is broken, or over the bounds.
    """
    with bounds.deeper("zip"), parser_failures_withheld("zip"):
        _sweep_members(sweep, source, target, bounds, sweep_member)


def _sweep_members(sweep: Sweep, source: Path, target: Path, bounds: ArchiveBounds, sweep_member: SweepMember) -> None:
    check_directory(source)
    with zipfile.ZipFile(source) as archive, tempfile.TemporaryDirectory(dir=target.parent) as folder:
        members = archive.infolist()
        bounds.members -= len(members)
        if bounds.members < 0:
            raise WithheldError("zip", "too_many_members")
        if sum(member.file_size for member in members) > bounds.expanded_bytes:
            raise WithheldError("zip", "too_large")
        _ZipCopy(sweep, archive, Path(folder), bounds, sweep_member).write(target)


def check_directory(source: Path) -> None:
    """Refuses an archive whose list of members is too long for memory, before the list is read."""
    with source.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LONGEST_END))
        end = file.read()
    place = end.rfind(b"PK\x05\x06")
    if place < 0:
        raise WithheldError("zip", "broken")
    if (
        b"PK\x06\x07" in end[max(0, place - 20) : place]
        or int.from_bytes(end[place + 12 : place + 16], "little") > _LONGEST_DIRECTORY
    ):
        raise WithheldError("zip", "too_many_members")


class _ZipCopy:
    """Writer of the swept copy of one archive."""

    def __init__(
        self, sweep: Sweep, archive: zipfile.ZipFile, folder: Path, bounds: ArchiveBounds, sweep_member: SweepMember
    ) -> None:
        self._sweep = sweep
        self._archive = archive
        self._folder = folder
        self._bounds = bounds
        self._sweep_member = sweep_member
        self._names = UniqueNames()

    def write(self, target: Path) -> None:
        if not self._sweep.redacts:
            for member in self._archive.infolist():
                self._swept(member)
            return
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as copy:
            for member in self._archive.infolist():
                path = safe_member(member.filename)
                if path is None:
                    self._withhold(member)
                    continue
                name = self._name(path)
                if member.is_dir():
                    copy.mkdir(name)
                elif (swept := self._swept(member)) is not None:
                    copy.write(swept, name)
                    swept.unlink()

    def _withhold(self, member: zipfile.ZipInfo) -> None:
        files = int(not member.is_dir())
        self._sweep.counts.files += files
        self._sweep.counts.withheld_files += files

    def _swept(self, member: zipfile.ZipInfo) -> Path | None:
        """Returns a file with the member's swept content; None if it is withheld or the policy only detects."""
        if member.is_dir():
            return None
        counts = self._sweep.counts
        counts.files += 1
        plain, swept = self._folder / "plain", Path(tempfile.mkdtemp(dir=self._folder)) / "swept"
        try:
            self._expand(member, plain)
            _, part = self._sweep_member(self._sweep.with_empty_counts(), plain, swept, member.filename)
        except WithheldError as error:
            if error.reason in _OVER_BOUNDS:
                raise
            counts.add_unswept(binary=error.kind == "binary", redacts=self._sweep.redacts)
            return None
        counts.add(part.counts)
        return swept if self._sweep.redacts else None

    def _expand(self, member: zipfile.ZipInfo, plain: Path) -> None:
        if member.flag_bits & _ENCRYPTED:
            raise WithheldError("binary", "binary")
        with self._archive.open(member) as content, plain.open("wb") as file:
            # Sizes stated in an archive may be false.
            while block := content.read(_CHUNK):
                self._bounds.expanded_bytes -= len(block)
                if self._bounds.expanded_bytes < 0:
                    raise WithheldError("zip", "too_large")
                file.write(block)

    def _name(self, name: str) -> str:
        swept, entities = swept_name(name, self._sweep.matches)
        self._sweep.counts.categories.update(entities)
        return self._names.claim(swept)
