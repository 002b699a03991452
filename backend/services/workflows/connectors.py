"""Connectors: records connection tests, and lists the objects that an `s3_prefix` parameter may name."""

from typing import TYPE_CHECKING, Final

from backend.common.errors import ApiError, invalid
from backend.common.json_text import JsonMapping
from backend.common.secrets import Secrets
from backend.resources.connectors.connection_tests import ConnectionTestOutcome, PrefixTest
from backend.resources.connectors.object_storage import explain, failures, list_page, s3_client
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.workflows import resources_sql
from backend.services.workflows.parameters import may_read, parse_s3_prefix
from backend.services.workflows.resolved_workflow import ResolvedWorkflow
from backend.services.workflows.resources_sql import ResourceRow
from backend.storage.database import Tx
from contract.times import to_duration, to_timestamp
from workflow_api.v1 import errors_pb2, workflows_pb2

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client


def record_connection_test(
    services: Services, row: ResourceRow, outcome: ConnectionTestOutcome, actor: str
) -> workflows_pb2.ConnectorTest:
    """Records the outcome for the tested version of a connector, audits it, and returns it with all its checks."""
    now = services.clock()

    def work(tx: Tx) -> None:
        resources_sql.record_test(
            tx,
            connector_id=row.resource_id,
            version=row.version,
            passed=outcome.passed,
            message=outcome.message,
            now=now,
        )
        details = {"name": row.name, "version": row.version, "passed": outcome.passed}
        audit.record(tx, at=now, actor=actor, action="connector.tested", target=row.resource_id, details=details)

    services.database.write(work)
    return workflows_pb2.ConnectorTest(
        connector_id=row.resource_id,
        name=row.name,
        version=row.version,
        passed=outcome.passed,
        message=outcome.message,
        tested_at=to_timestamp(now),
        checks=[_check(check) for check in outcome.checks],
    )


def _check(check: PrefixTest) -> workflows_pb2.ConnectorCheck:
    return workflows_pb2.ConnectorCheck(
        place=check.place,
        passed=check.passed,
        empty=check.empty,
        http_status=check.http_status or None,
        code=check.code,
        answer=check.answer,
        remedy=check.remedy,
        took=to_duration(check.milliseconds),
    )


MOST: Final = 200

_LONGEST_MESSAGE: Final = 1_000


def connector_of(workflow: ResolvedWorkflow | None, parameter: str) -> JsonMapping:
    """Returns the connector of an `s3_prefix` parameter.

    Raises:
        ApiError: `workflow_not_found` or `version_not_found`; `not_found` where the connector does not exist;
            `invalid_request` where there is no such parameter.
    """
    if workflow is None:
        raise ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_FOUND)
    if workflow.version is None:
        raise ApiError(errors_pb2.ERROR_REASON_VERSION_NOT_FOUND)
    declared = next((one for one in workflow.inputs if one.parameter == parameter), None)
    if declared is None:
        raise invalid("parameter", "must be a parameter of type s3_prefix")
    if declared.connector is None:
        message = f"There is no connector named '{declared.connector_name}'."
        raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, message)
    return declared.connector


def browse(connector: JsonMapping, uri: str, secrets: Secrets) -> workflows_pb2.BrowseInputsResponse:
    """Lists folders and objects at `uri`, or the allowed prefixes without one; a failure becomes `problem`."""
    bucket = connector["bucket"]
    try:
        if not uri and connector["prefixes"]:
            return _list_allowed(connector, secrets)
        prefix = parse_s3_prefix(uri)[1] if uri else ""
        if not may_read(connector, parse_s3_prefix(uri)[0] if uri else bucket, prefix):
            raise ValueError("it lies outside of what the connector may read")
        found = _list(s3_client(connector, secrets), bucket, prefix)
    except failures() as error:
        return workflows_pb2.BrowseInputsResponse(
            problem=f"{uri or f's3://{bucket}/'} could not be listed: {explain(error, connector)}"[:_LONGEST_MESSAGE]
        )
    if prefix:
        above = prefix[:-1].rpartition("/")[0]
        above = f"{above}/" if above else ""
        # A connector without prefixes allows the whole bucket.
        found.parent = f"s3://{bucket}/{above}" if above and may_read(connector, bucket, above) else ""
    return found


def _list_allowed(connector: JsonMapping, secrets: Secrets) -> workflows_pb2.BrowseInputsResponse:
    """Returns the folders that the connector's prefixes name, or that begin with a prefix."""
    answer = workflows_pb2.BrowseInputsResponse()
    client = s3_client(connector, secrets)
    for prefix in connector["prefixes"]:
        if prefix.endswith("/"):
            answer.folders.append(_folder(connector["bucket"], prefix, prefix))
        else:
            begun = _list(client, connector["bucket"], prefix, cut=prefix.rpartition("/")[0])
            answer.folders.extend(begun.folders)
            answer.more |= begun.more
    return answer


def _list(client: "S3Client", bucket: str, prefix: str, cut: str | None = None) -> workflows_pb2.BrowseInputsResponse:
    """Lists objects and folders below a prefix; names are shown without `cut`, by default the prefix."""
    skipped = len(prefix if cut is None else cut)
    page = list_page(client, bucket, prefix, Delimiter="/", MaxKeys=MOST)
    folders = [_folder(bucket, each["Prefix"], each["Prefix"][skipped:]) for each in page.get("CommonPrefixes", ())]
    objects = [
        workflows_pb2.BrowsedObject(name=each["Key"][skipped:], size_bytes=each["Size"])
        for each in page.get("Contents", ())
        if each["Key"] != prefix
    ]
    return workflows_pb2.BrowseInputsResponse(folders=folders, objects=objects, more=page["IsTruncated"])


def _folder(bucket: str, prefix: str, name: str) -> workflows_pb2.BrowsedFolder:
    return workflows_pb2.BrowsedFolder(name=name, uri=f"s3://{bucket}/{prefix}")
