from contract.cached_answer import CachedAnswer
from contract.routes import RouteTable
from edge.answers import Answers
from edge.codec.routes import codecs_of
from workflow_api.v1.runs_pb2 import Run, RunSummary

ROUTE = RouteTable().match("GET", "/api/v1/runs/run_1").route
CODECS = codecs_of([ROUTE])


def run(reference: str) -> Run:
    return Run(summary=RunSummary(run_id="run_1", client_reference=reference), etag="e")


def test_the_answer_to_the_same_message_is_that_of_an_equal_one() -> None:
    answers = Answers(CODECS)
    cached = CachedAnswer(run("a"))
    answer = answers.of(ROUTE, run("a"))
    for again in (answers.of_cached(ROUTE, cached), answers.of_cached(ROUTE, cached)):
        assert (again.status, again.body, list(again.headers)) == (200, answer.body, [("ETag", '"e"')])


def test_what_is_done_to_an_answer_does_not_change_the_next() -> None:
    answers = Answers(CODECS)
    cached = CachedAnswer(run("a"))
    first = answers.of_cached(ROUTE, cached)
    first.lines, first.keep_alive = "X: y\r\n", False
    second = answers.of_cached(ROUTE, cached)
    assert (second.lines, second.keep_alive) == ("", True)


def test_each_message_has_its_own_answer() -> None:
    answers = Answers(CODECS)
    bodies = [answers.of_cached(ROUTE, CachedAnswer(run(reference))).body for reference in "abcdefgh"]
    assert len(set(bodies)) == 8


def test_a_cached_answer_is_encoded_once() -> None:
    cached, answers = CachedAnswer(run("a")), Answers(CODECS)
    first = answers.of_cached(ROUTE, cached)
    assert cached.encoded == (200, first.body, first.headers)
    assert answers.of_cached(ROUTE, cached).body is first.body
