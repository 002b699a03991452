"""The TypeScript client as others install it, against the real service."""

import json
import tarfile
from pathlib import Path

import pytest

from tests.support.client import Caller
from tests.support.npm_package import SOURCE, Package, npm, run
from tests.support.page import blocks_of
from tests.support.service import Service

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "clients" / "typescript" / "README.md"
# Every call of the client; prints one JSON object.
STEPS = """\
import { ApiError, Client, RunFailedError, TimedOutError } from "workflow-api-client";

const client = Client.fromEnv();
const codeOf = (call: Promise<unknown>) => call.then(
  () => "none",
  (error: unknown) => (error instanceof ApiError ? error.code : (error as Error).name),
);
const key = crypto.randomUUID();
const labels = { team: "blue" };
const started = await client.runs.start("Echo", { inputText: "hello", labels, clientReference: key });
const seen: string[] = [];
const ids: string[] = [];
for await (const event of started.events({ live: true })) {
  ids.push(event.id);
  seen.push(event.type === "step.completed" ? `${event.type} ${event.data.outputs}` : event.type);
}
const again: string[] = [];
for await (const event of started.events({ after: ids[2] })) again.push(event.id);
await started.wait({ timeoutSeconds: 60 });
const listed: string[] = [];
for await (const each of client.runs.list({ clientReference: key })) listed.push(each.run_id);
const part = await started.outputs.read("echo/echo.txt", { begin: 1, end: 4 });
const files = await started.outputs.download("made");
await started.downloadZip("all.zip");
const once = [1, 2].map(() => client.runs.start("Echo", { inputText: "once", idempotencyKey: key }));
const parked = await (await client.runs.start("Park")).wait({ timeoutSeconds: 60, orApproval: true });
const approvals = (await parked.approvals()).map((each) => each.title);
const late = await codeOf(parked.wait({ timeoutSeconds: 0.5 }));
await parked.cancel("enough");
await parked.wait({ timeoutSeconds: 60 });
let cancelled = "";
try { void parked.result; } catch (error) { if (error instanceof RunFailedError) cancelled = error.code; }
const large = await (await client.runs.start("Long answer", { parameters: { size: 300_000 } })).wait();
console.log(JSON.stringify({
  keyId: (await client.me()).key_id,
  parameters: (await client.workflows.parameters("Sleep")).map((each) => each.name),
  seen, ids, again, runId: started.id, listed, result: started.result, summary: started.summary,
  steps: (await started.steps()).map((each) => each.status),
  part: new TextDecoder().decode(part), files,
  once: new Set((await Promise.all(once)).map((each) => each.id)).size,
  conflict: await codeOf(client.runs.start("Echo", { inputText: "twice", idempotencyKey: key })),
  approvals, late: late === TimedOutError.name, cancelled,
  unknown: await codeOf(client.runs.get("run_/../me")),
  invalid: await codeOf(client.runs.start("Sleep", { parameters: { seconds: "many" } })),
  large: String(await large.fetchResult()).length, cut: large.result,
  erased: (await started.erase("done")).data_purged_at !== null,
  twice: await codeOf(started.erase()),
}));
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return Package(tmp_path_factory.mktemp("typescript"))


@pytest.fixture
def project(package: Package, tmp_path: Path) -> Path:
    return package.project(tmp_path / "project")


def environment_of(caller: Caller) -> dict[str, str]:
    host, port = caller.address
    return {
        "WORKFLOW_API_URL": f"http://{host}:{port}",
        "WORKFLOW_API_KEY": caller.key,
        "WORKFLOW_API_EXTERNAL_ID": caller.external_id,
    }


def test_its_own_tests_pass(package: Package) -> None:
    assert "\n# fail 0\n" in npm(package.folder, "test")


def test_the_package_holds_modules_types_and_licence_and_needs_no_other(package: Package) -> None:
    with tarfile.open(package.archive) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
    assert {"LICENSE", "README.md", "package.json", "dist/index.js", "dist/index.d.ts"} <= names
    assert {name for name in names if not name.startswith("dist/")} == {"LICENSE", "README.md", "package.json"}
    manifest = json.loads((SOURCE / "package.json").read_text())
    assert "dependencies" not in manifest
    locked = json.loads((SOURCE / "package-lock.json").read_text())["packages"]
    assert not any("resolved" in each for each in locked.values())


def test_a_run_is_started_by_name_followed_downloaded_and_erased(
    package: Package, project: Path, caller: Caller
) -> None:
    (project / "steps.ts").write_text(STEPS)
    package.compile(project)
    told = json.loads(run(project, "node", "steps.js", environment=environment_of(caller)))
    assert told["keyId"] == caller.key_id
    assert told["parameters"] == ["seconds"]
    assert {"segment.started", "step.completed 1", "run.completed"} <= set(told["seen"])
    assert told["seen"][-1] == "segment.ended"
    assert told["again"] == told["ids"][3:]
    assert told["listed"] == [told["runId"]]
    assert (told["result"]["text"], told["summary"], told["part"]) == ("hello", "# Echo", "ell")
    assert told["steps"] == ["completed"]
    assert sorted(told["files"]) == ["made/echo/echo.txt", "made/result.json"]
    assert (project / "made/echo/echo.txt").read_text() == "hello"
    assert (project / "all.zip").stat().st_size > 0
    assert (told["once"], told["conflict"]) == (1, "idempotency_conflict")
    assert (told["approvals"], told["late"], told["cancelled"]) == (["May it go on?"], True, "cancelled")
    assert (told["unknown"], told["invalid"]) == ("run_not_found", "invalid_parameters")
    assert (told["large"], told["cut"]) == (299_998, None)
    assert (told["erased"], told["twice"]) == (True, "already_purged")


def test_the_page_does_what_it_says(package: Package, project: Path, service: Service, caller: Caller) -> None:
    service.admin.apply((ROOT / "examples" / "text-digest.yaml").read_text(encoding="utf-8"))
    first, second = [block.body for block in blocks_of(PAGE) if block.language == "typescript"]
    (project / "start.ts").write_text(first)
    (project / "receive.ts").write_text(f"declare const request: Request;\n{second}")
    package.compile(project)
    printed = run(project, "node", "start.js", environment=environment_of(caller))
    assert "run.completed" in printed
    assert "words: 6" in printed
    assert (project / "made" / "digest" / "digest.md").is_file()


def test_types_tell_events_and_codes_apart(package: Package, project: Path) -> None:
    use = 'import { ApiError, type records } from "workflow-api-client";\nexport const'
    good = [
        f'{use} f = (event: records.AnyEvent) => event.type === "step.failed" && event.data.retry_at?.length;',
        f'{use} f = (error: ApiError) => error.code === "rate_limited" && error.retryAfter;',
    ]
    for at, line in enumerate(good):
        (project / f"good{at}.ts").write_text(line)
    package.compile(project, "--noEmit")
    (project / "bad.ts").write_text(good[0].replace("retry_at", "retried_at"))
    with pytest.raises(AssertionError, match="retried_at"):
        package.compile(project, "--noEmit")
