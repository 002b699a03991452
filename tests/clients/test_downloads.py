"""Downloads: resumed by ranges, checked by digests, and kept where they are whole."""

import asyncio
import hashlib
import io
import zipfile
from pathlib import Path

import httpx
import pytest

from workflow_api_client import CorruptDownloadError, Progress, Run, UnexpectedAnswerError, errors
from workflow_api_client.operations.outputs import target_in
from workflow_api_client.testing import FakeApi, complete

LARGE = bytes(range(256)) * 1000
FILES = {"digest/summary.md": b"# Three pages", "digest/deep/er/all.bin": LARGE, "digest/empty.txt": b""}


@pytest.fixture
def run(api: FakeApi) -> Run:
    api.workflow("Digest", script=[complete({"pages": 3}, outputs=FILES)])
    return api.client().runs.start("Digest").wait()


def files_in(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def downloads_of(api: FakeApi) -> list[dict[str, str]]:
    return [dict(each.headers) for each in api.requests if each.path.endswith(("/content", ".zip"))]


def test_a_folder_has_every_output_under_its_path(run: Run, tmp_path: Path) -> None:
    files = run.outputs.download(tmp_path / "made")
    assert files_in(tmp_path / "made") == {**FILES, "result.json": b'{"pages": 3}'}
    assert sorted(files) == sorted(path for path in (tmp_path / "made").rglob("*") if path.is_file())


def test_a_download_goes_on_where_it_broke_off(api: FakeApi, run: Run, tmp_path: Path) -> None:
    api.cut(100_000)
    run.outputs.download(tmp_path)
    digest = hashlib.sha256(LARGE).hexdigest()
    assert files_in(tmp_path)["digest/deep/er/all.bin"] == LARGE
    asked = [headers for headers in downloads_of(api) if "range" in headers]
    assert [(headers["range"], headers["if-range"]) for headers in asked] == [("bytes=100000-", f'"{digest}"')]


def test_a_later_program_goes_on_too(api: FakeApi, run: Run, tmp_path: Path) -> None:
    part = tmp_path / "digest/deep/er" / f".all.bin.{hashlib.sha256(LARGE).hexdigest()[:16]}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(LARGE[:200_000])
    run.outputs.download(tmp_path)
    assert files_in(tmp_path)["digest/deep/er/all.bin"] == LARGE
    assert not part.exists()
    assert [headers["range"] for headers in downloads_of(api) if "range" in headers] == ["bytes=200000-"]


def test_what_is_there_and_whole_is_kept_and_what_differs_is_replaced(api: FakeApi, run: Run, tmp_path: Path) -> None:
    run.outputs.download(tmp_path)
    (tmp_path / "digest/summary.md").write_text("changed")
    before = len(downloads_of(api))
    run.outputs.download(tmp_path)
    assert len(downloads_of(api)) == before + 1
    assert files_in(tmp_path)["digest/summary.md"] == FILES["digest/summary.md"]


def test_bytes_of_another_digest_are_refused_and_not_left_behind(api: FakeApi, run: Run, tmp_path: Path) -> None:
    digest = hashlib.sha256(LARGE).hexdigest()
    part = tmp_path / "digest/deep/er" / f".all.bin.{digest[:16]}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"\xff" * 1000)
    with pytest.raises(CorruptDownloadError, match=r"all\.bin"):
        run.outputs.download(tmp_path)
    assert "digest/deep/er/all.bin" not in files_in(tmp_path)
    assert not part.exists()
    run.outputs.download(tmp_path)
    assert files_in(tmp_path)["digest/deep/er/all.bin"] == LARGE


def test_what_is_too_large_for_a_download_of_its_own_is_taken_from_the_zip(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflow_api_client.testing.calls.BUNDLE_ONLY_BYTES", 100_000)
    api.workflow("Digest", script=[complete(outputs=FILES)])
    run = api.client().runs.start("Digest").wait()
    run.outputs.download(tmp_path)
    assert files_in(tmp_path) == FILES
    with pytest.raises(errors.UseBundleError):
        run.outputs.read("digest/deep/er/all.bin")


def test_progress_moves_within_a_file_that_is_taken_from_the_zip(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflow_api_client.testing.calls.BUNDLE_ONLY_BYTES", 100_000)
    api.workflow("Digest", script=[complete(outputs=FILES)])
    seen: list[Progress] = []
    api.client().runs.start("Digest").wait().outputs.download(tmp_path, progress=seen.append)
    inside = [each.done_bytes for each in seen if each.path == "digest/deep/er/all.bin"]
    total = sum(map(len, FILES.values()))
    assert len({done for done in inside if done < total}) > 2
    assert inside == sorted(inside)
    assert (seen[-1].done_bytes, {each.total_bytes for each in seen}) == (total, {total})


def test_a_read_goes_on_where_it_broke_off(api: FakeApi, run: Run) -> None:
    for cut in (100_000, 50_000):
        api.cut(cut)
    assert run.outputs.read("digest/deep/er/all.bin") == LARGE
    ranges = [headers.get("range") for headers in downloads_of(api)]
    assert ranges[-3:] == [None, "bytes=100000-", "bytes=150000-"]


def test_a_window_of_an_output_is_fetched_alone_and_goes_on_where_it_broke_off(api: FakeApi, run: Run) -> None:
    output = run.outputs.get("digest/deep/er/all.bin")
    api.cut(1000)
    before = len(api.requests)
    assert run.outputs.read(output, begin=70, end=5000) == LARGE[70:5000]
    assert [headers["range"] for headers in downloads_of(api)] == ["bytes=70-4999", "bytes=1070-4999"]
    assert len(api.requests) == before + 2
    assert run.outputs.read(output, begin=len(LARGE) - 3) == LARGE[-3:]
    assert run.outputs.read(output, end=3) == LARGE[:3]
    assert run.outputs.read(output, begin=5, end=5) == b""
    with pytest.raises(ValueError, match="from 0 to 4, which 5 is not"):
        run.outputs.read(output, begin=5, end=4)


def test_a_window_is_of_the_bytes_that_are_listed_also_where_no_range_is_served(
    api: FakeApi, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, handle = run.outputs.get("digest/deep/er/all.bin"), api.handle
    changed: dict[str, str] = {}

    def without_ranges(request: httpx.Request, content: bytes) -> httpx.Response:
        request.headers.pop("range", None)
        answer = handle(request, content)
        answer.headers.update(changed)
        return answer

    monkeypatch.setattr(api, "handle", without_ranges)
    assert run.outputs.read(output, begin=70, end=5000) == LARGE[70:5000]
    changed["etag"] = '"other"'
    with pytest.raises(CorruptDownloadError):
        run.outputs.read(output, begin=70, end=5000)


def test_what_broke_off_after_its_last_byte_is_whole(api: FakeApi, run: Run) -> None:
    api.cut(len(LARGE))
    assert run.outputs.read("digest/deep/er/all.bin") == LARGE
    assert [headers.get("range") for headers in downloads_of(api)][-1] is None


def test_the_zip_is_checked_against_the_digests_of_its_files(api: FakeApi, run: Run, tmp_path: Path) -> None:
    api.cut(1000)
    path = run.download_zip(tmp_path / "all.zip")
    with zipfile.ZipFile(path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {**FILES, "result.json": b'{"pages": 3}'}
    assert files_in(tmp_path).keys() == {"all.zip"}


def test_a_zip_goes_on_where_it_broke_off_also_in_a_later_program(api: FakeApi, run: Run, tmp_path: Path) -> None:
    def killed(progress: Progress) -> None:
        if progress.done_bytes > 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.download_zip(tmp_path / "all.zip", progress=killed)
    [part] = tmp_path.iterdir()
    left = part.stat().st_size
    api.cut(50_000)
    run.download_zip(tmp_path / "all.zip")
    assert files_in(tmp_path).keys() == {"all.zip"}
    asked = [headers for headers in downloads_of(api) if "range" in headers]
    assert [headers["range"] for headers in asked] == [f"bytes={left}-", f"bytes={left + 50_000}-"]
    assert asked[1]["if-range"]


@pytest.mark.parametrize("left", [b"of something else", bytes(300_000)], ids=["short", "long"])
def test_what_was_left_of_another_zip_is_fetched_again(run: Run, tmp_path: Path, left: bytes) -> None:
    stop: list[Progress] = []
    with pytest.raises(ZeroDivisionError):
        run.download_zip(tmp_path / "all.zip", progress=lambda _: stop.append(1 / 0))  # type: ignore[arg-type]
    [part] = tmp_path.iterdir()
    part.write_bytes(left)
    run.download_zip(tmp_path / "all.zip")
    assert files_in(tmp_path).keys() == {"all.zip"}


def test_a_zip_of_other_bytes_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        for name in [*FILES, "result.json"]:
            archive.writestr(name, b"changed")
    monkeypatch.setattr("workflow_api_client.testing.calls.zip_of", lambda _: other.getvalue())
    with pytest.raises(CorruptDownloadError, match="another digest"):
        run.download_zip(tmp_path / "again.zip")
    assert not list(tmp_path.iterdir())


def test_progress_counts_the_bytes_of_all_files(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Progress] = []
    run.outputs.download(tmp_path / "a", progress=seen.append)
    total = sum(map(len, FILES.values())) + len(b'{"pages": 3}')
    assert [each.done_bytes for each in seen] == sorted(each.done_bytes for each in seen)
    assert (seen[-1].done_bytes, {each.total_bytes for each in seen}) == (total, {total})
    assert capsys.readouterr().err == ""
    run.outputs.download(tmp_path / "b", progress=True)
    assert "100%" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["../up", "/etc/passwd", "a/../../up", "", "a/..\\up", "link/file"])
def test_no_output_lies_outside_the_folder(path: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path)
    with pytest.raises(UnexpectedAnswerError, match="outside the folder"):
        target_in(tmp_path / "in", path)


def test_one_output_is_read_by_its_path(run: Run) -> None:
    assert run.outputs.read("digest/summary.md") == b"# Three pages"
    assert [output.path for output in run.outputs.list()] == sorted([*FILES, "result.json"])
    with pytest.raises(errors.OutputNotFoundError, match=r"missing\.txt"):
        run.outputs.read("missing.txt")


def test_outputs_that_are_still_swept_are_waited_for(api: FakeApi, run: Run) -> None:
    api.refuse("redaction_pending", retry_after=2, times=3)
    assert len(run.outputs.list()) == 4


def test_a_task_downloads_the_same(api: FakeApi, tmp_path: Path) -> None:
    async def download() -> None:
        api.workflow("Digest", script=[complete(outputs=FILES)])
        async with api.async_client() as client:
            run = await (await client.runs.start("Digest")).wait()
            api.cut(100_000)
            await run.outputs.download(tmp_path / "files")
            await run.download_zip(tmp_path / "all.zip")

    asyncio.run(download())
    assert files_in(tmp_path / "files") == FILES
    assert zipfile.is_zipfile(tmp_path / "all.zip")
