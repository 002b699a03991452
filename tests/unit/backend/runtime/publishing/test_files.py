"""Files are parsed for publication where it can be killed, within bounds of their own."""

import io
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from backend.resources.graphs.graph import GraphRefusedError, GraphUnavailableError
from backend.resources.graphs.triple_json import read_triples
from backend.runtime.publishing import files as published_files
from backend.runtime.publishing.files import FileParser, PublishFile
from backend.settings import JobLimits
from tests.support.poll import until

MAPPING = {"subject": "x:{id}", "type": "x:Row", "columns": {}}
ENTRY = {"steps": None, "files": None, "mapping": MAPPING}
CONTENT = b"<x:a> <x:b> <x:c> .\n<x:a> <x:b> <x:d> .\n"
TRIPLES = ["<x:a> <x:b> <x:c>", "<x:a> <x:b> <x:d>"]
SLOW = b"id\n" + b"".join(b"%d\n" % number for number in range(600_000))


@pytest.fixture(name="parser", scope="module")
def _parser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileParser]:
    limits = JobLimits(seconds=0.5, seconds_per_mb=0.01, memory_mb=128, processes=1)
    parser = FileParser(limits, tmp_path_factory.mktemp("spools"))
    yield parser
    parser.close()


@pytest.fixture(name="unlimited", scope="module")
def _unlimited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileParser]:
    parser = FileParser(JobLimits(processes=1), tmp_path_factory.mktemp("spools"))
    yield parser
    parser.close()


def parse(
    parser: FileParser, *files: tuple[str, bytes], halt: threading.Event | None = None, owner: str = ""
) -> list[str]:
    given = [PublishFile(f"main/{name}", partial(io.BytesIO, content)) for name, content in files]
    with parser.parse(given, ENTRY, None, owner=owner, halt=halt or threading.Event()) as spool:
        return [str(triple) for triple in spool.read()]


@pytest.mark.parametrize(("bound", "whole"), [("MAX_TRIPLES", 4), ("MAX_CHARACTERS", 4 * len("<x:a> <x:b> <x:c>"))])
def test_a_publication_is_bounded_over_all_of_its_files(
    parser: FileParser, monkeypatch: pytest.MonkeyPatch, bound: str, whole: int
) -> None:
    files = ("one.nt", CONTENT), ("two.nt", CONTENT)
    monkeypatch.setattr(published_files, bound, whole)
    assert parse(parser, *files) == TRIPLES * 2
    monkeypatch.setattr(published_files, bound, whole - 1)
    with pytest.raises(GraphRefusedError, match=r"'main/two\.nt': with it .* more than"):
        parse(parser, *files)


def test_every_kind_of_term_arrives_as_it_was(parser: FileParser) -> None:
    text = '<x:a> <x:b> "é\\n", "x"@en, "x"@ar--rtl, 5, _:n, <<( <x:a> <x:b> "c" )>> .'
    found = parse(parser, ("one.ttl", text.encode()))
    assert found[:4] == [
        '<x:a> <x:b> "é\\n"',
        '<x:a> <x:b> "x"@en',
        '<x:a> <x:b> "x"@ar--rtl',
        '<x:a> <x:b> "5"^^<http://www.w3.org/2001/XMLSchema#integer>',
    ]
    assert found[4].startswith("<x:a> <x:b> _:")
    assert found[5] == '<x:a> <x:b> <<( <x:a> <x:b> "c" )>>'


def test_triples_nested_too_deeply_for_any_stack_are_refused(parser: FileParser) -> None:
    """A parser overflows its stack when it lets go of them, which ends its process."""
    for depth, reason in ((20, "nested more than 16 deep"), (100_000, "reading it needs more than")):
        text = "<x:a> <x:b> " + "<<( <x:a> <x:b> " * depth + "<x:c>" + " )>>" * depth + " ."
        with pytest.raises(GraphRefusedError, match=rf"^'main/deep\.ttl': .*{reason}"):
            parse(parser, ("deep.ttl", text.encode()))
        assert parse(parser, ("one.nt", CONTENT)) == TRIPLES


def test_a_file_past_its_processor_time_is_refused_with_the_bound(parser: FileParser) -> None:
    with pytest.raises(GraphRefusedError, match=r"^'main/slow\.csv': .*0\.541 seconds of processor time or 128 MB"):
        parse(parser, ("slow.csv", SLOW))
    assert parse(parser, ("one.nt", CONTENT)) == TRIPLES


def test_a_file_past_its_memory_is_refused_with_the_bound(tmp_path: Path) -> None:
    parser = FileParser(JobLimits(memory_mb=32, processes=1), tmp_path)
    document = b'{"@id": "x:a", "x:b": [' + b"1," * 1_500_000 + b"1]}"
    with pytest.raises(GraphRefusedError, match=r"^'main/large\.jsonld': .*32 MB of memory"):
        parse(parser, ("large.jsonld", document))
    parser.close()


def test_a_halted_publication_ends_while_a_file_is_parsed(unlimited: FileParser) -> None:
    halt = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        parsing_slowly = threads.submit(parse, unlimited, ("slow.csv", SLOW), halt=halt)
        until(lambda: unlimited.pids, "the process")
        halt.set()
        assert isinstance(parsing_slowly.exception(), GraphUnavailableError)
    assert parse(unlimited, ("one.nt", CONTENT)) == TRIPLES


def test_another_keys_file_is_parsed_beside_hostile_ones(unlimited: FileParser) -> None:
    halt = threading.Event()
    with ThreadPoolExecutor(4) as threads:
        hostile = [threads.submit(parse, unlimited, ("slow.csv", SLOW), halt=halt, owner="hostile") for _ in range(4)]
        until(lambda: unlimited.pids, "the process")
        assert parse(unlimited, ("one.nt", CONTENT), owner="other") == TRIPLES
        assert not all(one.done() for one in hostile)
        halt.set()


def test_nothing_is_left_in_the_folder_of_what_is_parsed(tmp_path: Path) -> None:
    parser = FileParser(JobLimits(processes=1), tmp_path)
    parse(parser, ("one.nt", CONTENT))
    parser.close()
    assert list(tmp_path.iterdir()) == []


def test_what_runs_when_the_service_ends_is_ended(tmp_path: Path) -> None:
    parser = FileParser(JobLimits(), tmp_path)
    with ThreadPoolExecutor(1) as threads:
        parsing_slowly = threads.submit(parse, parser, ("slow.csv", SLOW))
        until(lambda: parser.pids, "the process")
        parser.close()
        assert isinstance(parsing_slowly.exception(), GraphUnavailableError)
    assert parser.pids == []


@pytest.mark.parametrize(
    "line",
    [
        b'[["x:a","x:b",["c"',
        b'[["x:a","x:b"]]\n',
        b'[["x:a","x:b> <x:c>","x:c"]]\n',
        b'[["x:a","x:b",["c",null,"e n",null]]]\n',
        b'[["x:a","x:b",["c",null,"en","up"]]]\n',
        b'[["x:a","x:b",["b c"]]]\n',
        b'[[["c","x:d"],"x:b","x:c"]]\n',
        b'[["x:a","x:b",' + b'{"triple":["x:a","x:b",' * 20 + b'"x:c"' + b"]}" * 20 + b"]]\n",
        b"[" * 5_000,
        b"5\n",
    ],
)
def test_what_a_process_writes_beside_triples_is_refused(line: bytes) -> None:
    with pytest.raises(GraphRefusedError, match="something else than triples"):
        list(read_triples(io.BytesIO(line)))
