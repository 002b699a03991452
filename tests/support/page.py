"""A page of the documents as a script: its blocks of commands and files in order, and what it says that they print."""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLLOWED: Final = (
    ROOT / "README.md",
    ROOT / "docs" / "start.md",
    ROOT / "docs" / "tutorial.md",
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("agents", "command-line", "console", "knowledge-graphs", "manifests", "traces")
    ),
    ROOT / "clients" / "python" / "README.md",
    ROOT / "clients" / "protos" / "README.md",
)
"""Pages whose commands people run one after the other."""
SHELL: Final = ("bash", "sh")
OUTPUT: Final = ("text", "json")
"""Languages of blocks that show what the commands before them print; `…` stands for any text."""
LONGEST_SECONDS: Final = 120

_BLOCK: Final = re.compile(
    r"(?:^ *<!-- not run: (?P<reason>[^\n]+?) -->\n+)?^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
_TITLE: Final = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: What stands behind the fence; empty without it.
        title: Name of the file that it is, if it is one.
        reason: Why it is not run, where the page says that it is not.
        line: Where in the page it begins, from 1.
    """

    language: str
    title: str | None
    body: str
    reason: str | None
    line: int

    @property
    def runs(self) -> bool:
        """Whether it is a file or commands that are run."""
        return self.reason is None and (self.title is not None or self.language in (*SHELL, "python"))

    @property
    def is_output(self) -> bool:
        """Whether it shows what the commands before it print."""
        return self.reason is None and self.title is None and self.language in OUTPUT


def blocks_of(page: Path) -> list[Block]:
    """Returns the fenced blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    return [_block(found, text) for found in _BLOCK.finditer(text)]


def _block(found: re.Match[str], text: str) -> Block:
    language, _, rest = found["info"].strip().partition(" ")
    title = _TITLE.search(rest)
    indent = len(found["indent"])
    body = "".join(line[indent:] if line.strip() else line for line in found["body"].splitlines(keepends=True))
    line = text.count("\n", 0, found.start("info")) + 1
    return Block(language, title and title[1], body, found["reason"], line)


def follow(
    page: Path, folder: Path, variables: Mapping[str, str], replaced: Mapping[str, str], before: str = ""
) -> None:
    """Runs a page as one script that ends at the first failure.

    Args:
        page: The document.
        folder: Where its commands run and its files are written.
        variables: The environment.
        replaced: What the page names and the test has elsewhere, such as addresses.
        before: Commands before those of the page.

    Raises:
        AssertionError: a command failed, or printed something else than the page says; the message names the line.
    """
    blocks = blocks_of(page)
    script = "\n".join(["set -euo pipefail", before, *_commands(blocks)])
    for old, new in replaced.items():
        script = script.replace(old, new)
    with (folder / ".printed").open("w+", encoding="utf-8") as printed:
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env={**variables, "PAGE_FOLDER": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            ended = process.wait(LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            ended = None
        finally:
            # With what the page left in the background.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        printed.seek(0)
        said = printed.read()
    begun = [int(path.suffix[1:]) for path in folder.glob(".block.*")]
    outputs = {line: (folder / f".block.{line}").read_text(encoding="utf-8") for line in begun}
    if ended != 0:
        line = max(begun, default=0)
        how = "takes too long" if ended is None else f"ended with {ended}"
        raise AssertionError(f"{page.name}:{line} {how}:\n{outputs.get(line, '')}{said}")
    for line, expected, got in _expectations(blocks, outputs):
        assert _prints(expected, got), f"{page.name}:{line} says\n{expected}but this was printed:\n{got}"


def _commands(blocks: list[Block]) -> Iterator[str]:
    for block in blocks:
        if not block.runs:
            continue
        output = f"$PAGE_FOLDER/.block.{block.line}"
        if block.title is not None:
            place = shlex.quote(block.title)
            yield f"mkdir -p \"$(dirname {place})\" && cat >{place} <<'END OF FILE'\n{block.body}END OF FILE"
        elif block.language == "python":
            yield f"python - >\"{output}\" <<'END OF FILE'\n{block.body}END OF FILE"
        else:
            yield f'{{\n{block.body}}} >"{output}"'


def _expectations(blocks: list[Block], outputs: Mapping[int, str]) -> Iterator[tuple[int, str, str]]:
    got = ""
    for block in blocks:
        if block.line in outputs:
            got = outputs[block.line]
        elif block.is_output:
            yield block.line, block.body, got


def _prints(expected: str, got: str) -> bool:
    """Tells whether the lines of a page are among those that were printed, blanks and line ends put aside."""
    pattern = ".*?".join(re.escape(_words(part)) for part in expected.split("…"))
    return re.search(pattern, _words(got), re.DOTALL) is not None


def _words(text: str) -> str:
    return re.sub(r"\s+", "", text)
