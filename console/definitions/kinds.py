"""Kinds of definitions: their names, the paths of their pages, and their starter manifests."""

from typing import Final, NamedTuple
from urllib.parse import quote


class DefinitionKind(NamedTuple):
    """A kind of definitions.

    Attributes:
        kind: Name of the kind in manifests.
        noun: Word for a definition of this kind.
        path: Path of the list; a definition's page is below it, by id.
        starter: Manifest with which a new definition begins.
    """

    kind: str
    noun: str
    path: str
    starter: str

    def page_of(self, definition_id: str, more: str = "") -> str:
        """Returns the path of a definition's page, or with `more` of a page below it."""
        return f"{self.path}/{quote(definition_id, safe='')}{more}"


WORKFLOW: Final = DefinitionKind(
    "Workflow",
    "workflow",
    "/workflows",
    """\
kind: Workflow
name: New workflow
description: What it does, for callers.
parameters:
- type: string
  name: language
  required: true
steps:
- step: work
  agent: name-of-an-agent
- step: check
  approval:
    title: Is it right?
  needs:
  - work
result:
  step: work
""",
)
AGENT: Final = DefinitionKind(
    "Agent",
    "agent",
    "/agents",
    """\
kind: Agent
name: new-agent
type: python
code: |
  def run(context):
      return {"answer": 42}
""",
)
ENVIRONMENT: Final = DefinitionKind(
    "Environment",
    "environment",
    "/resources/environments",
    """\
kind: Environment
name: new-environment
memory_mb: 2048
timeout_seconds: 300
python:
  packages:
  - pandas==2.3.*
""",
)
CONNECTOR: Final = DefinitionKind(
    "Connector",
    "connector",
    "/resources/connectors",
    """\
kind: Connector
name: new-connector
type: s3
bucket: name-of-a-bucket
prefixes:
- incoming/
endpoint_url: https://objects.example.org
secret: name-of-a-secret
""",
)
GRAPH: Final = DefinitionKind(
    "KnowledgeGraph",
    "knowledge graph",
    "/resources/graphs",
    """\
kind: KnowledgeGraph
name: new-graph
store: folder
""",
)
