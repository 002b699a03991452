import pytest

from backend.resources.graphs.graph import GraphRefusedError, check_query


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { SERVICE <http://127.0.0.1/> { ?s ?p ?o } }",
        "SELECT * { service silent ?where { ?s ?p ?o } }",
        "SELECT * { ?s ?p ?o.SERVICE<x:y>{} }",
        "SELECT * { ?s ?p 1SERVICE ?v {} }",
        "SELECT * { ?s ?p trueSERVICE ?v {} }",
        r"SELECT * { \u0053ERVICE <x:y> {} }",
        r"SELECT * { S\U00000045RVICE <x:y> {} }",
        "SELECT * { FILTER(?x<1)SERVICE#>\n?v {} }",
        "SELECT * { ?s <x:#'> ?o SERVICE <x:y> { ?s ?p '#' } }",
        '# "\nSELECT * { SERVICE <x:y> {} }\n# "',
    ],
)
def test_service_is_refused_however_it_is_written(text: str) -> None:
    with pytest.raises(GraphRefusedError, match="SERVICE is not allowed"):
        check_query(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?service { ?service a <http://example.org/service/Customer#service> }",
        "PREFIX ex: <http://example.org/> SELECT ?customer_service { ?s ex:Service $service }",
        r"SELECT * { ?s ?p '\U00110000' }",
    ],
)
def test_names_may_hold_the_word(text: str) -> None:
    check_query(text)
