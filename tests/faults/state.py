"""State of a deployment at the end: its tables, its objects, and the answers of its API."""

import hashlib
import http.client
import json
import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import boto3
from botocore.config import Config

from backend.resources.environments.build import find
from tests.faults.databases import reading
from tests.faults.flow_state import Flows, read_flows
from tests.faults.journal import digest
from tests.faults.planted import GIVEN_TEXT, holds_planted
from tests.faults.schedule_state import Schedules, read_schedules
from tests.support.browsing import Browser
from tests.support.wire import BASE, Address

_THREADS: Final = 4
_READS: Final = 20
_UNAVAILABLE: Final = 502
TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})


class RunRow(NamedTuple):
    """A row of `runs`; `content` counts the columns that hold what an erasure takes."""

    key_id: str
    client_reference: str | None
    status: str
    purged_at: int | None
    content: int
    rows: int
    """What its steps, events, approvals and outputs have left in other tables."""
    open_segments: int
    pending_approvals: int
    parked: int
    """How often it was left waiting for an approval."""
    error_code: str | None = None
    finished_at: int | None = None
    started_at: int | None = None
    resumed_from: str | None = None
    resumed_by: str | None = None
    parent_run_id: str | None = None
    parent_step: str | None = None
    parent_item: int | None = None
    result: str | None = None
    triggered_by: str = "api_key"
    created_at: int = 0


class OutputRow(NamedTuple):
    run_id: str
    path: str
    sha256: str
    size: int
    object_key: str


class Decision(NamedTuple):
    """Where an approval stands, who decided it, and how many ends of it the audit trail has."""

    state: str
    person: str | None
    audited: int
    run_id: str = ""
    step: str = ""
    decided_at: int | None = None
    deadline_at: int | None = None


class BuildFolder(NamedTuple):
    """What is built of a lock: whether it is whole, and the names that should not be beside it."""

    whole: bool
    beside: tuple[str, ...]


class SegmentRow(NamedTuple):
    run_id: str
    last_seq: int
    events: int
    first: int | None
    last: int | None


class StoredObject(NamedTuple):
    """An object, and whether it holds a planted value."""

    size: int
    sha256: str
    planted: bool = False


Events = list[list[Any]]


@dataclass
class State:
    """Everything by its id."""

    runs: dict[str, RunRow] = field(default_factory=dict)
    records: dict[tuple[str, str], str | None] = field(default_factory=dict)
    segments: dict[str, SegmentRow] = field(default_factory=dict)
    approvals: dict[str, Decision] = field(default_factory=dict)
    expired: list[tuple[str, str]] = field(default_factory=list)
    """The approval and the run of each deadline that passed, as the audit trail has them."""
    flows: Flows = field(default_factory=Flows)
    schedules: Schedules = field(default_factory=Schedules)
    outputs: dict[str, OutputRow] = field(default_factory=dict)
    quota: dict[str, int] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    objects: dict[str, StoredObject] = field(default_factory=dict)
    shown_runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What `GET /runs/{run_id}` answers."""
    told_listed: dict[str, list[str]] = field(default_factory=dict)
    """The runs that `GET /runs` lists for a key."""
    shown_keys: dict[str, dict[str, Any]] = field(default_factory=dict)
    shown_events: dict[str, Events] = field(default_factory=dict)
    """The events of a segment, each `[seq, type, digest]`."""
    hooked: set[str] = field(default_factory=set)
    """The keys that had a webhook before their first run."""
    accepted: list[tuple[str, str, str]] = field(default_factory=list)
    """The id, the run and the event of each message that the receiver accepted, in that order."""
    redactions: dict[str, Any] = field(default_factory=dict)
    """The redaction manifests of runs that have one."""
    workflows: dict[str, str] = field(default_factory=dict)
    """The names of workflows by their ids."""
    graphs: dict[str, int] = field(default_factory=dict)
    """How many triples each graph has that something was published to."""
    planted_in: list[str] = field(default_factory=list)
    """Where planted values are that nobody may see: names of logs, and paths of the API."""
    uploads: dict[str, str | None] = field(default_factory=dict)
    """The runs that have taken uploads, None for uploads that wait for one."""
    results_for_people: dict[str, Any] = field(default_factory=dict)
    """The results of completed runs that people started."""
    showing_erased: list[str] = field(default_factory=list)
    """The erased runs whose page in the console shows their inputs, or is not there."""
    environment: dict[str, Any] = field(default_factory=dict)
    """State, message, locked packages and digest of the lock of the environment whose packages change."""
    builds: dict[str, BuildFolder] = field(default_factory=dict)
    """What machines have built, by the digest of the lock."""
    publications: dict[tuple[str, str], str] = field(default_factory=dict)
    """The states of publications by run and knowledge graph."""
    launch_timeout_seconds: float = 60.0
    wall_clock_ahead: float = 0.0
    """Seconds from the journal's clock to the time of day."""
    statuses_of_erased: dict[str, list[int]] = field(default_factory=dict)
    """The statuses of events, steps and approvals of an erased run."""


# A segment that another one follows has parked its run, unless what it waited for was decided before: then the next one
# was made by the same change.
_RUNS: Final = """
WITH ordered AS (
    SELECT run_id, ended_at, lead(created_at) OVER (PARTITION BY run_id ORDER BY ordinal) AS followed_at FROM segments
), parks AS (SELECT run_id FROM ordered WHERE followed_at <> ended_at)
SELECT r.run_id, r.key_id, r.client_reference, r.status, r.data_purged_at,
    (SELECT {content}),
    (SELECT count(*) FROM steps s WHERE s.run_id = r.run_id)
        + (SELECT count(*) FROM step_items i WHERE i.run_id = r.run_id)
        + (SELECT count(*) FROM approvals a WHERE a.run_id = r.run_id)
        + (SELECT count(*) FROM outputs o WHERE o.run_id = r.run_id)
        + (SELECT count(*) FROM events e JOIN segments g USING (segment_id) WHERE g.run_id = r.run_id),
    (SELECT count(*) FROM segments g WHERE g.run_id = r.run_id AND g.state <> 'ended'),
    (SELECT count(*) FROM approvals a WHERE a.run_id = r.run_id AND a.state = 'pending'),
    (SELECT count(*) FROM parks p WHERE p.run_id = r.run_id),
    r.error_code, r.finished_at, r.started_at, r.resumed_from, r.resumed_by, r.parent_run_id, r.parent_step,
    r.parent_item, r.result, r.triggered_by, r.created_at
FROM runs r
"""
_CONTENT: Final = (
    "parameters",
    "input_text",
    "inputs_manifest",
    "result",
    "summary_markdown",
    "error_message",
    "result_error_message",
    "cancel_reason",
)
_APPROVALS: Final = """
SELECT approval_id, state, decided_by,
    (SELECT count(*) FROM audit_records r WHERE r.target = a.approval_id AND r.action LIKE 'approval.%'),
    run_id, step, decided_at, deadline_at
FROM approvals a
"""
_EXPIRED: Final = "SELECT target, details FROM audit_records WHERE action = 'approval.expired'"
_RESULTS_FOR_PEOPLE: Final = """
SELECT run_id, result FROM runs
WHERE key_id = '' AND triggered_by <> 'schedule' AND status = 'completed' AND data_purged_at IS NULL
"""
_IN_FOLDER: Final = re.compile(r"\b(runs|uploads)/.*")
_SEGMENTS: Final = """
SELECT g.segment_id, g.run_id, g.last_seq, count(e.seq), min(e.seq), max(e.seq)
FROM segments g LEFT JOIN events e USING (segment_id) GROUP BY g.segment_id
"""


def look(scene: Mapping[str, Any]) -> State:
    """Reads it all, by SQL, from the store, and through the API."""
    state = State(
        hooked=set(scene["hooked"]),
        accepted=[(message, run, event) for message, run, event in scene["accepted"]],
        workflows={workflow_id: name for name, workflow_id in scene["flows"].items()},
        graphs=scene["graphs"],
        environment=scene["environment"],
        builds=_builds(scene["packages"]),
        launch_timeout_seconds=scene["launch_timeout_seconds"],
        wall_clock_ahead=scene["wall_clock_ahead"],
    )
    state.planted_in += [f"the log of {name}" for name, log in scene["logs"].items() if holds_planted(log.encode())]
    content = " + ".join(f"CASE WHEN r.{column} IS NULL THEN 0 ELSE 1 END" for column in _CONTENT)
    with reading(scene["database"]) as database:
        state.runs = {row[0]: RunRow(*row[1:]) for row in database.execute(_RUNS.format(content=content))}
        state.segments = {row[0]: SegmentRow(*row[1:]) for row in database.execute(_SEGMENTS)}
        records = database.execute("SELECT key_id, idempotency_key, run_id FROM idempotency_records")
        state.records = {(key, name): run for key, name, run in records}
        state.approvals = {row[0]: Decision(*row[1:]) for row in database.execute(_APPROVALS)}
        state.expired = [(target, json.loads(details)["run_id"]) for target, details in database.execute(_EXPIRED)]
        state.flows = read_flows(database)
        state.schedules = read_schedules(database)
        state.uploads = dict(database.execute("SELECT upload_id, run_id FROM uploads").fetchall())
        results = database.execute(_RESULTS_FOR_PEOPLE).fetchall()
        state.results_for_people = {run_id: json.loads(result or "null") for run_id, result in results}
        outputs = database.execute("SELECT output_id, run_id, path, sha256, size_bytes, object_key FROM outputs")
        state.outputs = {row[0]: OutputRow(*row[1:]) for row in outputs}
        quota = database.execute("SELECT key_id, CAST(sum(runs_started) AS integer) FROM daily_usage GROUP BY key_id")
        state.quota = dict(quota.fetchall())
        published = database.execute("SELECT run_id, graph_id, state FROM publications").fetchall()
        state.publications = {(run_id, graph_id): kept for run_id, graph_id, kept in published}
        revoked = database.execute("SELECT key_id FROM api_keys WHERE revoked_at IS NOT NULL")
        state.revoked = {row[0] for row in revoked}
    state.objects = dict(_objects(scene["objects"]))
    state.showing_erased = list(_showing_erased(scene, state))
    _ask(scene, state)
    return state


def _builds(folders: list[str]) -> dict[str, BuildFolder]:
    """Everything that machines have built, or were to build: whole where one of them has it whole."""
    builds: dict[str, BuildFolder] = {}
    for place in (place for folder in folders for place in Path(folder).glob("*-*/*")):
        if not place.is_dir():
            continue
        built = find(place)
        own = set() if built is None else {built.folder.name, "built.json", "used"}
        beside = {each.name for each in place.iterdir()} - own
        other = builds.get(place.name)
        if other is None or (built is not None and not other.whole):
            builds[place.name] = BuildFolder(built is not None, tuple(sorted(beside)))
        elif built is not None:
            builds[place.name] = BuildFolder(whole=True, beside=tuple(sorted({*other.beside, *beside})))
    return builds


def _showing_erased(scene: Mapping[str, Any], state: State) -> Iterator[str]:
    """Looks at the page of each erased run in the console."""
    host, port = scene["console"]
    browser = Browser((host, port))
    browser.cookies = scene["cookies"]
    for run_id, row in state.runs.items():
        if row.purged_at is not None:
            seen = browser.get(f"/runs/{run_id}")
            if seen.status != 200 or GIVEN_TEXT.search(seen.text):
                yield run_id


def _objects(objects: Mapping[str, str]) -> Iterator[tuple[str, StoredObject]]:
    """Every object that is kept for runs."""
    if "folder" in objects:
        root = Path(objects["folder"])
        for path in root.rglob("*"):
            if path.is_file():
                # Below `objects` of the folder, or of the data folder.
                key = _IN_FOLDER.search(str(path.relative_to(root)))
                yield key[0] if key else str(path), _stored(path.read_bytes())
        return
    client = boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=objects["url"],
        aws_access_key_id="root",
        aws_secret_access_key="not-a-secret",
        config=Config(proxies={}, s3={"addressing_style": "path"}),
    )
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=objects["bucket"]):
        for each in page.get("Contents", ()):
            data = client.get_object(Bucket=objects["bucket"], Key=each["Key"])["Body"].read()
            yield each["Key"], _stored(data)


def _stored(data: bytes) -> StoredObject:
    return StoredObject(len(data), hashlib.sha256(data).hexdigest(), holds_planted(data))


class _Api:
    """Reads with the keys that may."""

    def __init__(self, scene: Mapping[str, Any]) -> None:
        self._edges: list[Address] = [(host, port) for host, port in scene["edges"]]
        self.planted_in: list[str] = []
        self.headers = {key["key"]: key["headers"] for key in scene["keys"] if not key["revoked"]}

    def get(self, key_id: str, path: str, edge: int = 0) -> tuple[int, Any]:
        """Returns status and body of what is at rest, which a starved machine may not be able to read at once."""
        for _ in range(_READS - 1):
            status, body = self._get(key_id, path, edge)
            if status != _UNAVAILABLE:
                return status, body
            time.sleep(1)
        return self._get(key_id, path, edge)

    def _get(self, key_id: str, path: str, edge: int) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(*self._edges[edge], timeout=60)
        try:
            connection.request("GET", BASE + path, headers=self.headers[key_id])
            response = connection.getresponse()
            body = response.read()
            if holds_planted(body):
                self.planted_in.append(path)
            return response.status, json.loads(body)
        finally:
            connection.close()

    def events(self, key_id: str, run_id: str, segment_id: str) -> Events:
        """Every event of a segment, page by page."""
        events: Events = []
        while True:
            after = events[-1][0] if events else 0
            path = f"/runs/{run_id}/events?segment={segment_id}&after_seq={after}&limit=500"
            status, page = self.get(key_id, path, 1)
            if status != 200 or not page["events"]:
                return events
            events += [[event["seq"], event["type"], digest(event)] for event in page["events"]]


def _ask(scene: Mapping[str, Any], state: State) -> None:
    api = _Api(scene)
    with ThreadPoolExecutor(_THREADS) as pool:
        mine = {run_id: row for run_id, row in state.runs.items() if row.key_id in api.headers}
        shown = pool.map(lambda item: api.get(item[1].key_id, f"/runs/{item[0]}")[1], mine.items())
        state.shown_runs = dict(zip(mine, shown, strict=True))
        erased = {run_id: row for run_id, row in mine.items() if row.purged_at is not None}
        for what in ("events", "steps", "approvals"):
            statuses = pool.map(lambda item: api.get(item[1].key_id, f"/runs/{item[0]}/{what}")[0], erased.items())  # noqa: B023
            for run_id, status in zip(erased, statuses, strict=True):
                state.statuses_of_erased.setdefault(run_id, []).append(status)
        kept = {
            segment_id: row for segment_id, row in state.segments.items() if row.run_id in mine.keys() - erased.keys()
        }
        events = pool.map(lambda item: api.events(mine[item[1].run_id].key_id, item[1].run_id, item[0]), kept.items())
        state.shown_events = dict(zip(kept, events, strict=True))
        swept = [
            run_id for run_id, shown in state.shown_runs.items() if _redacts(state, shown) and run_id not in erased
        ]
        manifests = pool.map(lambda run_id: api.get(mine[run_id].key_id, f"/runs/{run_id}/pii-redaction")[1], swept)
        state.redactions = dict(zip(swept, manifests, strict=True))
    for key_id in api.headers:
        state.shown_keys[key_id] = api.get(key_id, "/me")[1]
        state.told_listed[key_id] = list(_listed(api, key_id))
    state.planted_in += api.planted_in


def _redacts(state: State, shown: Mapping[str, Any]) -> bool:
    return state.workflows.get(shown.get("workflow_id", "")) == "Redacts"


def _listed(api: _Api, key_id: str) -> Iterator[str]:
    cursor = ""
    while True:
        status, page = api.get(key_id, f"/runs?limit=100&cursor={cursor}", 1)
        if status != 200:
            return
        yield from (run["run_id"] for run in page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return
