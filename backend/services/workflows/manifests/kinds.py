"""Fields of each kind of manifest with their bounds, and the JSON Schema of a document (contract 24.1, 22.6)."""

import re
from collections.abc import Mapping
from typing import Final

from backend.common.json_text import JsonObject
from backend.services.workflows.agent_tools import MOST_CALLS
from backend.services.workflows.attached_files import LONGEST_PATTERN, MOST_PATTERNS, MUST_BE, PATTERN
from backend.services.workflows.manifests.environment_variables import ENVIRONMENT_VARIABLES
from backend.services.workflows.manifests.names import DEFAULT_ENVIRONMENT
from backend.services.workflows.manifests.packages import PYTHON
from backend.services.workflows.manifests.publishing import GRAPH_STORES
from backend.services.workflows.manifests.python_agent import PYTHON_AGENT
from backend.services.workflows.manifests.records import LONG_TEXT, Field, ListOf, Record, Variant, name_field
from backend.services.workflows.manifests.shapes import HTTP_ADDRESS, SECRET_NAME, Flag, Number, OneOf, Text, Whole
from backend.services.workflows.manifests.tools import TOOLS
from backend.services.workflows.manifests.variables import allow_references
from backend.services.workflows.manifests.workflow_fields import JSON_SCHEMA, WORKFLOW
from backend.services.workflows.model_answers import FORMS, MOST_MODEL_CALLS

LARGEST_DEFINITION_BYTES: Final = 8 * 2**20

ENVIRONMENT: Final = Record(
    {
        "name": name_field("standard"),
        "memory_mb": Field(
            Whole(1_769, 3_008),
            default=DEFAULT_ENVIRONMENT["memory_mb"],
            about="Memory of one attempt of a step, in MiB.",
            example=3_008,
        ),
        "timeout_seconds": Field(
            Whole(1, 900),
            default=DEFAULT_ENVIRONMENT["timeout_seconds"],
            about="Time that one attempt may take.",
            example=300,
        ),
        "workspace_mb": Field(
            Whole(512, 3_008),
            default=DEFAULT_ENVIRONMENT["workspace_mb"],
            about="Disk for workspace, outputs and temporary files, in MiB.",
            example=1_024,
        ),
        "network": Field(
            OneOf("none", "full"),
            default=DEFAULT_ENVIRONMENT["network"],
            about="Whether steps have the machine's network.",
            example="full",
        ),
        "status": Field(
            OneOf("active", "inactive"),
            default=DEFAULT_ENVIRONMENT["status"],
            about="An inactive environment keeps the workflows that use it from starting.",
            example="inactive",
        ),
        "python": Field(
            PYTHON,
            default=DEFAULT_ENVIRONMENT["python"],
            about="Python packages of its steps; the standard library alone without it.",
            example={"packages": ["pandas==2.3.*"]},
        ),
        "variables": Field(
            ENVIRONMENT_VARIABLES,
            default=DEFAULT_ENVIRONMENT["variables"],
            about="Variables in `os.environ` of its steps; plain text that everybody who sees the manifest sees.",
            example={"REPORT_LANGUAGE": "de"},
        ),
    }
)

_S3_CONNECTOR: Final = Record(
    {
        "name": name_field("inbox"),
        "bucket": Field(
            Text(63, 3, re.compile(r"[a-z0-9][a-z0-9.-]*[a-z0-9]"), "lowercase letters, digits, dots and dashes"),
            required=True,
            about="The bucket that may be read.",
            example="company-inbox",
        ),
        # Prefixes end with a slash, because `in` would allow `internal/` too.
        "prefixes": Field(
            ListOf(
                Text(1_024, pattern=re.compile(r"(?!/)(?!(?:.*/)?\.\.?/)[\s\S]*/"), must_be="a prefix as incoming/"),
                most=100,
                unique=True,
            ),
            default=[],
            about="What of the bucket may be read; empty for all of it.",
            example=["incoming/"],
        ),
        "endpoint_url": Field(
            HTTP_ADDRESS, about="Address of a store that is not Amazon's.", example="https://objects.example.org"
        ),
        # A secret with an access key; without one the credentials of the process are used.
        "secret": Field(
            SECRET_NAME,
            about="Name of a secret of the deployment with an access key; without one, the service's own credentials.",
            example="inbox-key",
        ),
        "role_arn": Field(
            Text(2_048, 20, re.compile(r"arn:[a-z-]+:iam::[0-9]{12}:role/[!-~]+"), "the ARN of a role"),
            about="Role that is assumed to read.",
            example="arn:aws:iam::123456789012:role/inbox-reader",
        ),
    }
)

AGENT_TYPES: Final[Mapping[str, Record]] = {
    "python": PYTHON_AGENT,
    "llm": Record(
        {
            "name": name_field("writer"),
            "model": Field(
                Text(200, pattern=re.compile(r"[a-z0-9-]+:[!-~]+"), must_be="a model as openai:gpt-5"),
                required=True,
                about="The model, as `provider:model`.",
                example="openai:gpt-5",
            ),
            "instructions": Field(
                LONG_TEXT,
                required=True,
                about="Instructions for the model.",
                example="Write a digest of the input text.",
            ),
            "api_key": Field(
                SECRET_NAME, about="Name of a secret with the key; the deployment's without one.", example="openai"
            ),
            "base_url": Field(
                HTTP_ADDRESS,
                about="Address of a server that speaks the provider's protocol; the deployment's without one.",
                example="https://models.example.org/v1",
            ),
            "output_schema": Field(
                JSON_SCHEMA,
                about="JSON Schema of type `object` that the answer must fit; a text without one.",
                example={"type": "object", "required": ["title"]},
            ),
            "structured": Field(
                OneOf(*FORMS),
                about="How the model is asked for an answer that fits `output_schema`; as the provider's profile says "
                "without it.",
                example="json_schema",
            ),
            "max_model_calls": Field(
                Whole(1, MOST_MODEL_CALLS),
                about="Most calls to the model in one attempt, corrections of its answer included; without it 50, and "
                "two corrections.",
                example=5,
            ),
            "attach": Field(
                ListOf(Text(LONGEST_PATTERN, pattern=PATTERN, must_be=MUST_BE), most=MOST_PATTERNS, unique=True),
                default=[],
                about="Pictures and PDF of the step that go to the model with the prompt, by patterns below `inputs/` "
                "and `files/<step>/`.",
                example=["inputs/uploads/*.png", "files/extract/*.pdf"],
            ),
            "tools": Field(
                TOOLS,
                default=[],
                about="What the model may list and read, by a word, and what it may call: agents as `{agent: NAME}`, "
                "tools of MCP servers as `{mcp: URL, secret: NAME, only: [NAME]}`.",
                example=["inputs", {"agent": "exchange-rates"}],
            ),
            "max_tool_calls": Field(
                Whole(1, MOST_CALLS),
                about="Most calls of tools in one attempt; 50 without it, or 200 where all tools are words.",
                example=20,
            ),
            "max_tokens": Field(
                Whole(1, 1_000_000), about="Most tokens of one answer; the provider's without it.", example=4_000
            ),
            "temperature": Field(Number(0, 2), about="The provider's without it.", example=0.2),
            "request_timeout_seconds": Field(
                Whole(1, 900), about="Most seconds of one call to the model; the whole step's without it.", example=120
            ),
            "stream": Field(
                Flag(), default=False, about="Whether answers are streamed, with progress events.", example=True
            ),
            "keep_transcript": Field(
                Flag(),
                default=False,
                about="Whether the messages and calls of tools of each attempt are kept for people, as logs are.",
                example=True,
            ),
        }
    ),
}

CONNECTOR_TYPES: Final[Mapping[str, Record]] = {"s3": _S3_CONNECTOR}

KNOWLEDGE_GRAPH_STORES: Final[Mapping[str, Record]] = {
    store: Record({"name": name_field("company-facts"), **record.fields}) for store, record in GRAPH_STORES.items()
}

KINDS: Final[Mapping[str, Record | Variant]] = {
    "Environment": ENVIRONMENT,
    "Connector": Variant("type", CONNECTOR_TYPES, about="Type of the object storage."),
    "Agent": Variant("type", AGENT_TYPES, about="Python code in a sandbox, or a language model."),
    "KnowledgeGraph": Variant(
        "store", KNOWLEDGE_GRAPH_STORES, default="folder", about="A folder of the deployment, or a SPARQL endpoint."
    ),
    "Workflow": WORKFLOW,
}

DOCUMENT: Final = Variant("kind", KINDS, about="What the document describes.")


def manifest_schema() -> JsonObject:
    """Returns the JSON Schema (draft 2020-12) of one document of a manifest file.

    The schema is made from the records that read manifests, and accepts every document that they accept. It does not
    check rules between fields, the syntax of code and patterns, nor values of variables.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Manifest of the Programmatic Workflow API",
        **allow_references(DOCUMENT.json_schema()),
    }
