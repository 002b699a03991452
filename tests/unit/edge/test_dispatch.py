from contract.local_context import CachedAnswer
from contract.routes import RouteTable
from edge.dispatch import answer_of, codecs_of
from workflow_api.v1.runs_pb2 import Run, RunSummary

ROUTE = RouteTable().match("GET", "/api/v1/runs/run_1").route
CODECS = codecs_of([ROUTE])


def run(reference: str) -> Run:
    return Run(summary=RunSummary(run_id="run_1", client_reference=reference), etag="e")


def test_the_answer_to_the_same_message_is_that_of_an_equal_one() -> None:
    cached = CachedAnswer(run("a"))
    answer = answer_of(ROUTE, CODECS, CachedAnswer(run("a")))
    for again in (answer_of(ROUTE, CODECS, cached), answer_of(ROUTE, CODECS, cached)):
        assert (again.status, again.body, list(again.headers)) == (200, answer.body, [("ETag", '"e"')])


def test_what_is_done_to_an_answer_does_not_change_the_next() -> None:
    cached = CachedAnswer(run("a"))
    first = answer_of(ROUTE, CODECS, cached)
    first.lines, first.keep_alive = "X: y\r\n", False
    second = answer_of(ROUTE, CODECS, cached)
    assert (second.lines, second.keep_alive) == ("", True)


def test_each_message_has_its_own_answer() -> None:
    bodies = [answer_of(ROUTE, CODECS, CachedAnswer(run(reference))).body for reference in "abcdefgh"]
    assert len(set(bodies)) == 8


def test_a_cached_answer_is_encoded_once() -> None:
    cached = CachedAnswer(run("a"))
    first = answer_of(ROUTE, CODECS, cached)
    assert cached.encoded == (200, first.body, first.headers)
    assert answer_of(ROUTE, CODECS, cached).body is first.body
