"""The processes that sweep, and the model that they ask: what fails for one sweep fails for no other."""

import os
import signal
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backend.common.retry import Backoff
from backend.common.secrets import Secrets
from backend.resources.models import MODEL_RETRY, Models
from backend.resources.redaction.confined_redactor import ConfinedRedactor, RedactionError
from backend.runtime.run_redaction import RunRedaction
from backend.services.workflows.pii_policy import normalise
from backend.settings import ModelProvider, RedactionLimits
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.poll import until

pytestmark = pytest.mark.long

MAIL = "jane.roe@example.com"
POLICY = normalise({"mode": "redact"})
ASKING = normalise({"mode": "redact", "model": "openai-chat:any"})
WITHOUT_DELAY = replace(MODEL_RETRY, backoff=Backoff(0.0, 0.0), attempts=3)
NOTHING = Reply(calls=(ToolCall("final_result", {"mentions": []}),))


@pytest.fixture(name="redactor", scope="module")
def _redactor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfinedRedactor]:
    redactor = ConfinedRedactor(Models(Secrets(), {}), scratch=tmp_path_factory.mktemp("scratch") / "redaction")
    yield redactor
    redactor.close()


@pytest.fixture(name="listening", scope="module")
def _listening() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


@pytest.fixture(name="server")
def _server(listening: OpenAIServer) -> OpenAIServer:
    listening.requests.clear()
    return listening


@pytest.fixture(name="asking", scope="module")
def _asking(listening: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfinedRedactor]:
    models = Models(Secrets(), {"openai-chat": ModelProvider(base_url=listening.base_url)})
    scratch = tmp_path_factory.mktemp("scratch") / "redaction"
    # One process for all tests, because importing the library for models takes long.
    redactor = ConfinedRedactor(models, model_retry=WITHOUT_DELAY, scratch=scratch, limits=RedactionLimits(processes=1))
    yield redactor
    redactor.close()


def kill(redactor: ConfinedRedactor) -> None:
    pids = redactor.pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: all("Z" in Path(f"/proc/{pid}/stat").read_text() for pid in pids), "the end of the processes")


def long_file(folder: Path) -> Path:
    """A file that takes many seconds to sweep."""
    source = folder / "long.txt"
    source.write_text(f"from {MAIL} at 10.0.0.1 on 2024-01-02, call 202-555-0143\n" * 200_000)
    return source


def test_nothing_begins_to_sweep_once_the_service_ends(tmp_path: Path) -> None:
    redactor = ConfinedRedactor(Models(Secrets(), {}), scratch=tmp_path / "scratch")
    redactor.close()
    with pytest.raises(RedactionError, match="the service ends"):
        redactor.values(POLICY, [MAIL], owner="key")


def test_a_sweep_whose_process_died_is_tried_again_in_a_new_one(redactor: ConfinedRedactor) -> None:
    redactor.values(POLICY, [MAIL], owner="key")
    kill(redactor)
    assert redactor.values(POLICY, [MAIL], owner="key")[0] == ["[EMAIL_ADDRESS]"]


def test_a_model_that_cannot_be_used_fails_no_other_sweep(redactor: ConfinedRedactor) -> None:
    with ThreadPoolExecutor(8) as threads:
        unusable = [threads.submit(redactor.values, ASKING, ["Ask Ada"], owner="key") for _ in range(4)]
        others = [threads.submit(redactor.values, POLICY, [MAIL], owner="key") for _ in range(4)]
        for one in unusable:
            with pytest.raises(RedactionError, match="api_key for models of 'openai-chat'"):
                one.result()
        assert [other.result()[0] for other in others] == [["[EMAIL_ADDRESS]"]] * 4


def test_values_do_not_wait_for_files(redactor: ConfinedRedactor, tmp_path: Path) -> None:
    source, target = long_file(tmp_path), tmp_path / "target"
    halt = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        sweeping = threads.submit(redactor.file, POLICY, source, target, "a.txt", halt, owner="key")
        until(lambda: redactor.pids, "the process")
        assert redactor.values(POLICY, [MAIL], owner="key")[0] == ["[EMAIL_ADDRESS]"]
        assert not sweeping.done()
        halt.set()


def test_a_sweep_ends_when_it_is_halted(redactor: ConfinedRedactor, tmp_path: Path) -> None:
    halt = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        source = long_file(tmp_path)
        both = [
            threads.submit(redactor.file, POLICY, source, tmp_path / str(one), "a.txt", halt, owner="key")
            for one in range(2)
        ]
        until(lambda: list(tmp_path.glob("*.partial")), "the sweep")
        halt.set()
        for one in both:
            with pytest.raises(RedactionError, match="the sweep was ended"):
                one.result()
    assert not (tmp_path / "0").exists()


def test_a_file_that_stands_for_more_bytes_than_allowed_is_withheld(redactor: ConfinedRedactor, tmp_path: Path) -> None:
    source = tmp_path / "a.parquet"
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000), ["a " * 3_500_000])
    pq.write_table(
        pa.table({"a": rows}), source, compression="zstd", dictionary_pagesize_limit=2**26, store_schema=False
    )
    outcome, _ = redactor.file(POLICY, source, tmp_path / "b.parquet", "a.parquet", owner="key")
    assert (outcome.kind, outcome.withheld, outcome.reason) == ("parquet", True, "too_large")
    assert redactor.values(POLICY, [MAIL], owner="key")[0] == ["[EMAIL_ADDRESS]"]


@pytest.mark.parametrize(
    ("name", "begin", "unit"),
    [
        ("a.sql", "COPY t", " "),
        ("a.sql", "", "CREATE TABLE t (a int," + "\n" * 45_000 + ";"),
        ("a.sql", "CREATE TABLE t (", "a "),
        ("a.toml", "a = [_", "1"),
        ("a.toml", "a = [", "a-"),
        ("a.toml", "a = [", '\\"'),
        ("a.toml", 'a = "b"', " "),
        ("a.html", "<x ", "a"),
        ("a.html", "<x ", "a="),
        ("a.yaml", "a: ", "- "),
        ("a.md", "|a|\n|-|\n", "|"),
        ("a.vcf", "N:", ";"),
        ("a.json", "{", '"'),
        ("a.csv", '"', '"'),
        ("a.eml", "From: ", "a@b, "),
    ],
)
def test_a_hostile_file_is_swept_within_the_bounds_of_its_size(
    redactor: ConfinedRedactor, tmp_path: Path, name: str, begin: str, unit: str
) -> None:
    source = tmp_path / name
    source.write_text(begin + unit * (400_000 // len(unit)) + f"_>\n{MAIL}\n")
    outcome, _ = redactor.file(POLICY, source, tmp_path / "swept", name, owner="key")
    assert not outcome.withheld, outcome.reason
    assert MAIL not in (tmp_path / "swept").read_text()


@pytest.mark.parametrize("ending", ["zip", "parquet"])
def test_what_a_file_may_expand_to_is_a_setting(tmp_path: Path, ending: str) -> None:
    source, text = tmp_path / f"a.{ending}", "a " * 750_000
    if ending == "zip":
        with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.txt", text)
    else:
        pq.write_table(pa.table({"a": [text]}), source)
    for expanded_mb, reason in ((1, "too_large"), (2, None)):
        limits = RedactionLimits(expanded_mb=expanded_mb, processes=1)
        redactor = ConfinedRedactor(Models(Secrets(), {}), scratch=tmp_path / "scratch", limits=limits)
        try:
            outcome, _ = redactor.file(POLICY, source, tmp_path / "swept", source.name, owner="key")
            assert outcome.reason == reason
        finally:
            redactor.close()


def test_a_model_is_asked_for_what_rules_cannot_find(asking: ConfinedRedactor, server: OpenAIServer) -> None:
    found = {"mentions": [{"type": "PERSON", "quote": "Ada Lovelace", "confidence": 0.9}]}
    server.will(Reply(calls=(ToolCall("final_result", found),)))
    values, counts = asking.values(
        {**ASKING, "max_model_calls": 1}, ["Ask Ada Lovelace", "Ask Ada Lovelace"], owner="key"
    )
    assert values == ["Ask [PERSON]", "Ask Ada Lovelace"]
    assert (counts.model_calls, counts.model_skipped, len(server.requests)) == (1, 1, 1)


@pytest.mark.parametrize("status", [429, 500])
def test_a_model_that_fails_for_a_while_is_asked_again(
    asking: ConfinedRedactor, server: OpenAIServer, status: int
) -> None:
    server.will(Reply(status=status), Reply(status=status), NOTHING)
    assert asking.values(ASKING, [f"Ask {MAIL}"], owner="key")[0] == ["Ask [EMAIL_ADDRESS]"]
    assert len(server.requests) == 3


@pytest.mark.parametrize(("status", "asked", "cause"), [(500, 3, "failed"), (401, 1, "refused the api_key")])
def test_a_model_that_fails_leaves_nothing_swept(
    asking: ConfinedRedactor, server: OpenAIServer, status: int, asked: int, cause: str
) -> None:
    server.will(*[Reply(status=status, message=f"about {MAIL}")] * 3)
    with pytest.raises(RedactionError) as error:
        asking.values(ASKING, ["Ask Ada Lovelace"], owner="key")
    assert str(error.value) == f"the model's provider {cause} (HTTP {status})"
    assert len(server.requests) == asked


def test_the_parallel_sweeps_of_a_run_share_its_calls(asking: ConfinedRedactor, server: OpenAIServer) -> None:
    server.will(NOTHING)
    redaction = RunRedaction(asking, {**ASKING, "max_model_calls": 3}, calls_made=1, owner="key")
    with ThreadPoolExecutor(5) as threads:
        swept = list(threads.map(redaction.value, [f"Ask number {number}" for number in "abcde"]))
    assert len(server.requests) == 2
    assert sum(counts.model_calls for _, counts in swept) == 2
    assert sum(counts.model_skipped for _, counts in swept) == 3


def test_the_calls_of_a_sweep_that_failed_count(asking: ConfinedRedactor, server: OpenAIServer) -> None:
    server.will(Reply(status=401), NOTHING)
    redaction = RunRedaction(asking, {**ASKING, "max_model_calls": 3}, calls_made=0, owner="key")
    with pytest.raises(RedactionError):
        redaction.value("Ask Ada")
    assert [redaction.value("Ask Ada")[1].model_calls for _ in range(3)] == [2, 1, 0]
