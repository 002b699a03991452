"""The publishing stage with real graphs, in a folder and behind a SPARQL server. (contract 26)"""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.resources.graphs.graph import Bounds
from backend.runtime.publishing import sql
from backend.settings import JobLimits
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.support.poll import until
from tests.support.sparql_server import SparqlServer, sparql_server

FOLDER = {"kind": "KnowledgeGraph", "name": "contracts", "base_iri": "https://graph.example.org/"}
SECRET = "a text that is too long to stand in a key of the database"
WRITER = """
    def run(context):
        (context.outputs / "deep").mkdir()
        (context.outputs / "deep" / "facts.ttl").write_text(context.input_text or "<a> <b> <c>, 'd' .")
        (context.outputs / "table.csv").write_text("id,total\\n1,2.50\\n2,\\n")
        (context.outputs / "notes.txt").write_text("no triples")
"""
ABSOLUTE = "<x:a> <x:b> <x:c> ."
MAPPING = {
    "subject": "https://graph.example.org/invoice/{id}",
    "type": "https://schema.org/Invoice",
    "columns": {"total": "https://schema.org/total"},
}
START = "Publishing to knowledge graph 'contracts'"


@pytest.fixture
def server() -> Iterator[SparqlServer]:
    with sparql_server() as server:
        yield server


def remote(server: SparqlServer) -> dict[str, Any]:
    urls = {"endpoint_url": server.endpoint_url, "update_url": server.update_url}
    return {"kind": "KnowledgeGraph", "name": "contracts", "store": "sparql", **urls}


def apply(world: RuntimeWorld, *documents: dict[str, Any]) -> None:
    agent = {"kind": "Agent", "name": "publisher", "type": "python", "code": textwrap.dedent(WRITER)}
    world.apply("\n---\n".join(json.dumps(document) for document in (agent, *documents)))


def run(world: RuntimeWorld, *entries: dict[str, Any], steps: tuple[str, ...] = ("main",), **fields: Any) -> str:
    publish = [{"knowledge_graph": "contracts", **entry} for entry in entries or ({},)]
    board = [agent_step(step, "publisher") for step in steps]
    return world.run("Publishes", board, workflow={"publish": publish}, **fields)


def warnings(world: RuntimeWorld, run_id: str) -> list[str]:
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("completed", None)
    found: list[str] = json.loads(row.warnings)
    assert world.get(run_id).summary.completed_with_warnings == bool(found)
    messages = [json.loads(event.data)["message"] for event in world.events(run_id).events if event.type == "warning"]
    assert messages == found
    return found


def completed(world: RuntimeWorld, run_id: str) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in world.events(run_id).events if event.type == "publish.completed"]


def published(world: RuntimeWorld) -> dict[str, int]:
    """How many triples each named graph of the folder has."""
    [row] = world.dump("resources WHERE kind = 'knowledge_graph'")
    graph = world.graphs.get(row.resource_id, row.version, json.loads(row.definition))
    text = "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g"
    rows = [row for part in graph.query(text, Bounds()) for row in part.rows]
    return {row["g"]["value"]: int(row["n"]["value"]) for row in rows}


def terms(world: RuntimeWorld) -> set[str]:
    """The values of all subjects and objects in the folder's graphs."""
    [row] = world.dump("resources WHERE kind = 'knowledge_graph'")
    graph = world.graphs.get(row.resource_id, row.version, json.loads(row.definition))
    rows = [row for part in graph.query("SELECT ?s ?o { GRAPH ?g { ?s ?p ?o } }", Bounds()) for row in part.rows]
    return {row[name]["value"] for row in rows for name in ("s", "o")}


def states(world: RuntimeWorld) -> list[str]:
    return [row.state for row in world.dump("publications")]


def until_landed(world: RuntimeWorld) -> None:
    until(lambda: states(world) == ["kept"], "a publication that landed")


def restart(world: RuntimeWorld, folder: Path) -> None:
    world.local_runtime.stop()
    world.local_runtime = world.new_runtime(folder / "data")
    world.local_runtime.start()


def test_triples_are_written_to_a_named_graph_of_the_run(world: RuntimeWorld) -> None:
    apply(world, FOLDER)
    run_id = run(world)
    assert warnings(world, run_id) == []
    name = f"https://graph.example.org/run/{run_id}"
    assert completed(world, run_id) == [{"knowledge_graph": "contracts", "graph": name, "triples": 2}]
    types = world.event_types(run_id)
    assert types.index("step.completed") < types.index("publish.started") < types.index("publish.completed")
    assert types.index("publish.completed") < types.index("run.completed")
    promoted = [place for place, event_type in enumerate(types) if event_type == "output.promoted"]
    assert len(promoted) == world.row(run_id).outputs_count
    assert max(promoted) < types.index("publish.started")
    assert published(world) == {name: 2}
    until_landed(world)


def test_a_round_without_removals_writes_none(world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    removals: list[object] = []
    monkeypatch.setattr(sql, "delete_removed", lambda _, keys: removals.append(keys))
    apply(world, FOLDER)
    assert warnings(world, run(world)) == []
    assert removals == []


@pytest.mark.parametrize(
    ("entry", "triples"),
    [
        ({"mapping": MAPPING}, 10),
        ({"mapping": MAPPING, "files": "*.csv"}, 6),
        ({"mapping": MAPPING, "steps": ["two"]}, 5),
        ({"files": "deep/*.ttl"}, 4),
        ({"files": "shallow/*.ttl"}, 0),
    ],
)
def test_a_publication_selects_steps_and_files(world: RuntimeWorld, entry: dict[str, Any], triples: int) -> None:
    apply(world, FOLDER)
    run_id = run(world, entry, steps=("one", "two"))
    assert warnings(world, run_id) == []
    assert completed(world, run_id)[0]["triples"] == triples


def test_each_run_publishes_to_a_graph_of_its_own(world: RuntimeWorld) -> None:
    apply(world, {"kind": "KnowledgeGraph", "name": "contracts"})
    first, second = run(world), run(world)
    for run_id in (first, second):
        # Without a base the relative names of the file mean nothing.
        [warning] = warnings(world, run_id)
        assert warning.startswith(f"{START} failed: 'main/deep/facts.ttl': ")
    runs = [run(world, input_text=ABSOLUTE) for _ in range(2)]
    for run_id in runs:
        assert warnings(world, run_id) == []
    assert published(world) == {f"urn:workflow-api:run:{run_id}": 1 for run_id in runs}


def test_a_malformed_file_is_a_warning_with_its_name_and_reason(world: RuntimeWorld) -> None:
    apply(world, FOLDER)
    run_id = run(world, {"mapping": MAPPING}, input_text="@prefix x: <x:> .\nx:a x:b .")
    [warning] = warnings(world, run_id)
    assert warning.startswith(f"{START} failed: 'main/deep/facts.ttl': ")
    assert "line 2" in warning
    assert published(world) == {}
    assert states(world) == ["failed"]


def test_a_graph_that_does_not_exist_is_a_warning(world: RuntimeWorld) -> None:
    apply(world, FOLDER)
    run_id = run(world, {}, {"knowledge_graph": "nowhere"})
    assert warnings(world, run_id) == [
        "Publishing to knowledge graph 'nowhere' failed: there is no knowledge graph of that name."
    ]
    assert len(completed(world, run_id)) == 1


@pytest.mark.parametrize("mode", ["detect", "redact"])
def test_publications_are_swept_as_the_policy_says(world: RuntimeWorld, mode: str) -> None:
    apply(world, FOLDER)
    publish = {"publish": [{"knowledge_graph": "contracts"}], "pii_policy": {"mode": mode, "stages": ["outputs"]}}
    facts = '<x:jane@example.com> a <http://www.w3.org/2006/vcard/ns#Individual> ; <x:mail> "jane@example.com"@en .'
    run_id = world.run("Publishes", [agent_step("main", "publisher")], workflow=publish, input_text=facts)
    assert warnings(world, run_id) == []
    found = terms(world)
    published_by_mode = {
        "detect": {"jane@example.com", "x:jane@example.com"},
        "redact": {"[EMAIL_ADDRESS]", "x:%5BEMAIL_ADDRESS%5D"},
    }
    assert found == {"http://www.w3.org/2006/vcard/ns#Individual", *published_by_mode[mode]}


@pytest.mark.parametrize("wait", [0, 1])
def test_a_late_publication_is_a_warning_and_is_written_afterwards(
    world: RuntimeWorld, server: SparqlServer, wait: int
) -> None:
    apply(world, remote(server))
    server.open.clear()
    run_id = run(world, {"wait_seconds": wait}, input_text=ABSOLUTE)
    assert warnings(world, run_id) == [f"{START} was still building when its wait of {wait} seconds expired."]
    last = world.events(run_id)
    server.open.set()
    until_landed(world)
    assert server.graphs() == {f"urn:workflow-api:run:{run_id}"}
    assert world.events(run_id) == last
    assert len(warnings(world, run_id)) == 1


def test_a_failing_store_is_tried_again(world: RuntimeWorld, server: SparqlServer) -> None:
    apply(world, remote(server))
    server.status = 503
    run_id = run(world, {"wait_seconds": 5}, input_text=ABSOLUTE)
    [warning] = warnings(world, run_id)
    assert warning.endswith(" The last attempt failed: the endpoint answered 503: out of order.")
    assert len(server.requests) == 1
    server.status = None
    world.clock.advance(seconds=1)
    until_landed(world)
    assert len(server.store) == 1


def test_a_publication_that_a_clock_ahead_put_off_is_tried_once_that_is_right(
    world: RuntimeWorld, server: SparqlServer
) -> None:
    apply(world, remote(server))
    server.status = 503
    world.clock.advance(seconds=600)
    run(world, {"wait_seconds": 0}, input_text=ABSOLUTE)
    until(lambda: [row.attempts for row in world.dump("publications")] == [1], "a failed attempt")
    server.status = None
    world.clock.advance(seconds=-600)
    until_landed(world)


def test_a_publication_that_no_store_accepted_for_a_day_is_dropped(world: RuntimeWorld, server: SparqlServer) -> None:
    apply(world, remote(server))
    server.status = 503
    warnings(world, run(world, {"wait_seconds": 0}, input_text=ABSOLUTE))
    until(lambda: states(world) == ["pending"] and server.requests, "an attempt")

    def given_up() -> bool:
        # Again and again, for an attempt under way puts off the next by the time that it ends at.
        world.clock.advance(days=1)
        return states(world) == ["failed"]

    until(given_up, "the end of the attempts")


def test_a_late_publication_is_written_once_after_a_restart(
    world: RuntimeWorld, server: SparqlServer, tmp_path: Path
) -> None:
    apply(world, remote(server))
    server.status = 503
    run_id = run(world, {"wait_seconds": 0}, input_text="<x:a> <x:b> [ <x:c> 1 ] .")
    assert len(warnings(world, run_id)) == 1
    world.local_runtime.stop()
    server.status = None
    restart(world, tmp_path)
    until_landed(world)
    assert len(server.store) == 2
    assert server.graphs() == {f"urn:workflow-api:run:{run_id}"}


def test_an_orderly_end_fails_no_run_that_only_waits_for_a_publication(
    world: RuntimeWorld, server: SparqlServer, tmp_path: Path
) -> None:
    apply(world, remote(server))
    server.open.clear()
    run_id = run(world, {"wait_seconds": 600}, input_text=ABSOLUTE)
    until(lambda: server.requests, "the publication")
    world.local_runtime.stop()
    assert warnings(world, run_id) == [f"{START} was still building when its wait of 600 seconds expired."]
    server.open.set()
    # Other processes leave a publication alone while the store may carry out an update that was cut off.
    world.clock.advance(seconds=360)
    restart(world, tmp_path)
    until_landed(world)
    assert len(server.store) == 1


def test_a_run_that_is_cancelled_meanwhile_leaves_nothing(world: RuntimeWorld, server: SparqlServer) -> None:
    apply(world, FOLDER, remote(server) | {"name": "slow"})
    server.open.clear()
    run_id = run(world, {}, {"knowledge_graph": "slow", "wait_seconds": 600}, input_text=ABSOLUTE)
    until(lambda: server.requests and "landed" in states(world), "the publications")
    world.cancel(run_id)
    assert world.until_ended(run_id).status == "cancelled"
    server.open.set()
    until(lambda: states(world) == [], "the removal")
    assert len(server.store) == 0
    [row] = world.dump("resources WHERE name = 'contracts'")
    graph = world.graphs.get(row.resource_id, row.version, json.loads(row.definition))
    assert [part.boolean for part in graph.query("ASK { ?s ?p ?o }", Bounds())] == [False]


def test_an_erased_run_is_removed_from_the_graph_and_its_files(world: RuntimeWorld, tmp_path: Path) -> None:
    apply(world, FOLDER)
    erased = run(world, input_text=f"<a> <b> '{SECRET}' .")
    kept = run(world)
    for run_id in (erased, kept):
        assert warnings(world, run_id) == []
    folder = tmp_path / "data" / "graphs"

    def holding() -> list[Path]:
        return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]

    assert holding()
    world.erase(erased)
    until(lambda: not world.count("publications", f"run_id = '{erased}'"), "the removal")
    assert not holding()
    assert published(world) == {f"https://graph.example.org/run/{kept}": 2}


def test_a_removal_that_a_store_refuses_stays_pending(world: RuntimeWorld, server: SparqlServer) -> None:
    apply(world, remote(server))
    run_id = run(world, input_text=ABSOLUTE)
    assert warnings(world, run_id) == []
    server.status = 500
    asked = len(server.requests)
    world.erase(run_id)
    until(lambda: len(server.requests) > asked, "an attempt")
    assert states(world) == ["removing"]
    server.status = None

    def removed() -> bool:
        # The pause counts from the attempt's end, which comes after its request.
        world.clock.advance(seconds=1)
        return states(world) == []

    until(removed, "the removal")
    assert len(server.store) == 0


def limited(world: RuntimeWorld, folder: Path, **limits: Any) -> None:
    world.local_runtime = world.new_runtime(folder / "limited", publishing=JobLimits(processes=1, **limits))
    world.local_runtime.start()


def hostile(world: RuntimeWorld) -> None:
    """Has an agent `hostile` leave a file that takes long to read, and more where it gets an input text."""
    code = """
        def run(context):
            if not context.input_text:
                (context.outputs / "a.nt").write_text("<x:a> <x:b> <x:c> .")
                return
            (context.outputs / "slow.csv").write_text("id\\n" + "".join(f"{one}\\n" for one in range(900_000)))
    """
    agent = {"kind": "Agent", "name": "hostile", "type": "python", "code": textwrap.dedent(code)}
    world.apply("\n---\n".join(json.dumps(document) for document in (agent, FOLDER)))


def run_hostile(world: RuntimeWorld, **fields: Any) -> str:
    mapping = {"subject": "x:{id}", "type": "x:Row", "columns": {}}
    publish = [{"knowledge_graph": "contracts", "wait_seconds": 600, "mapping": mapping}]
    return world.run("Floods", [agent_step("main", "hostile")], workflow={"publish": publish}, **fields)


def test_a_hostile_file_is_a_warning_that_names_its_bound(idle_world: RuntimeWorld, tmp_path: Path) -> None:
    limited(idle_world, tmp_path, seconds=0.2, seconds_per_mb=0.01)
    try:
        hostile(idle_world)
        [warning] = warnings(idle_world, run_hostile(idle_world, input_text="much"))
        assert warning.startswith(f"{START} failed: 'main/slow.csv': reading it needs more than 0.2")
        assert "seconds of processor time" in warning
        assert warnings(idle_world, run_hostile(idle_world)) == []
    finally:
        idle_world.local_runtime.stop()


def test_another_key_publishes_to_the_same_graph_beside_a_hostile_file(
    idle_world: RuntimeWorld, tmp_path: Path
) -> None:
    limited(idle_world, tmp_path, seconds=1_000.0)
    try:
        hostile(idle_world)
        held = [run_hostile(idle_world, input_text="much")]
        held += [idle_world.started("Floods", input_text="much") for _ in range(2)]
        for run_id in held:
            idle_world.until_event(run_id, "publish.started")
        guilty, idle_world.key = idle_world.key, idle_world.new_key(name="other")
        assert warnings(idle_world, idle_world.started("Floods")) == []
        idle_world.key = guilty
        assert not {idle_world.status(run_id) for run_id in held} & {"completed", "failed"}
        for run_id in held:
            idle_world.cancel(run_id)
        for run_id in held:
            assert idle_world.until_ended(run_id).status == "cancelled"
    finally:
        idle_world.local_runtime.stop()


def test_a_publication_ends_when_another_process_erases_its_run(idle_world: RuntimeWorld, tmp_path: Path) -> None:
    limited(idle_world, tmp_path, seconds=1_000.0)
    try:
        hostile(idle_world)
        publisher = idle_world.local_runtime.executor.publisher
        run_id = run_hostile(idle_world, input_text="much")
        until(lambda: publisher.publishing, "the publication")
        idle_world.services.database.write(
            lambda tx: sql.remove(tx, run_id, idle_world.clock()), lock_key="publications"
        )
        until(lambda: not publisher.publishing, "the end of the publication")
        until(lambda: states(idle_world) == [], "the removal")
        assert published(idle_world) == {}
        idle_world.cancel(run_id)
        assert idle_world.until_ended(run_id).status == "cancelled"
    finally:
        idle_world.local_runtime.stop()
