"""Listing and queries of knowledge graphs for administrators."""

import json
from collections.abc import Iterable, Iterator
from typing import Final

from backend.errors import ApiError, invalid
from backend.graphs.graph import Bounds, Graph, GraphRefusedError, GraphUnavailableError, check_query
from backend.workflows.publications_sql import PublicationRow
from backend.workflows.resources_sql import KnowledgeGraphRow
from contract.defaults import given_or_default, given_or_default_duration
from contract.times import to_timestamp
from workflow_api.v1 import errors_pb2, workflows_pb2

_PUBLISHED: Final = frozenset({"landed", "kept"})


def knowledge_graph_message(row: KnowledgeGraphRow) -> workflows_pb2.KnowledgeGraph:
    """Converts a row of `resources_sql.knowledge_graphs` to a message."""
    return workflows_pb2.KnowledgeGraph(
        graph_id=row.resource_id,
        name=row.name,
        version=row.version,
        store=json.loads(row.definition).get("store", "folder"),
        runs=row.runs,
        pending=row.pending,
        created_at=to_timestamp(row.created_at),
        updated_at=to_timestamp(row.updated_at),
    )


def publications_message(rows: Iterable[PublicationRow]) -> workflows_pb2.KnowledgeGraphPublications:
    """Converts rows of `publications_sql` to a message."""
    return workflows_pb2.KnowledgeGraphPublications(
        items=[
            workflows_pb2.KnowledgeGraphPublication(
                run_id=row.run_id,
                state="published" if row.state in _PUBLISHED else row.state,
                requested_at=to_timestamp(row.requested_at),
            )
            for row in rows
        ]
    )


def answer(
    graph: Graph, request: workflows_pb2.QueryKnowledgeGraphRequest
) -> Iterator[workflows_pb2.KnowledgeGraphAnswer]:
    """Evaluates a query within its limits; yields the answer part by part.

    Raises:
        ApiError: `invalid_request`, the query cannot be evaluated; `runtime_error`, its store does not answer.
    """
    timeout = given_or_default_duration(request, "timeout")
    bounds = Bounds(rows=given_or_default(request, "limit"), seconds=timeout.seconds)
    try:
        check_query(request.query)
        for part in graph.query(request.query, bounds):
            yield workflows_pb2.KnowledgeGraphAnswer(
                form=part.form,
                variables=part.variables,
                boolean=part.boolean,
                rows=[json.dumps(row, ensure_ascii=False) for row in part.rows],
                triples=part.triples,
                truncated=part.truncated,
            )
    except GraphRefusedError as error:
        raise invalid("query", str(error)) from error
    except GraphUnavailableError as error:
        message = f"The knowledge graph does not answer: {error}."
        raise ApiError(errors_pb2.ERROR_REASON_RUNTIME_ERROR, message) from error
