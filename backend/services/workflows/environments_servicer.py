"""EnvironmentsService over gRPC: states and logs of package builds by machine, and requests to build again."""

import json
from typing import Final

import grpc

from backend.common.errors import ApiError
from backend.common.paging import Paging
from backend.resources.environments import sql as builds_sql
from backend.resources.environments.lock import lock_digest
from backend.rpc.callers import principal_of
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.workflows.resource_reads import named_resource
from backend.services.workflows.rules import package_reasons
from backend.services.workflows.sql import EnvironmentRow, environments, roots_in_use, touch
from backend.storage.database import Tx
from contract.times import to_timestamp
from workflow_api.v1 import environments_pb2, environments_pb2_grpc, errors_pb2

_STATES: Final = {
    "building": environments_pb2.ENVIRONMENT_BUILD_STATE_BUILDING,
    "built": environments_pb2.ENVIRONMENT_BUILD_STATE_BUILT,
    "failed": environments_pb2.ENVIRONMENT_BUILD_STATE_FAILED,
}


class EnvironmentsServicer(environments_pb2_grpc.EnvironmentsServiceServicer):
    """Shows the builds of environments' packages on each machine, and requests new builds."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def ListEnvironmentBuilds(
        self, request: environments_pb2.ListEnvironmentBuildsRequest, context: grpc.ServicerContext
    ) -> environments_pb2.ListEnvironmentBuildsResponse:
        """Returns the builds of environments, by name."""
        paging = Paging(self._services.cursors, request)
        (name,) = paging.after or ("",)

        def work(tx: Tx) -> environments_pb2.ListEnvironmentBuildsResponse:
            rows = environments(tx, after=str(name), limit=paging.rows_to_read)
            shown, token = paging.cut(rows, lambda row: (row.name,))
            items = [_message(tx, row) for row in shown]
            return environments_pb2.ListEnvironmentBuildsResponse(
                items=items, next_page_token=token, roots_in_use=sorted(roots_in_use(tx))
            )

        return self._services.database.snapshot(work)

    def GetEnvironmentBuild(
        self, request: environments_pb2.GetEnvironmentBuildRequest, context: grpc.ServicerContext
    ) -> environments_pb2.EnvironmentBuild:
        """Returns the builds of one environment."""
        return self._services.database.snapshot(lambda tx: _message(tx, _require_environment(tx, request.name)))

    def GetEnvironmentBuildLog(
        self, request: environments_pb2.GetEnvironmentBuildLogRequest, context: grpc.ServicerContext
    ) -> environments_pb2.EnvironmentBuildLog:
        """Returns the output of uv on one machine."""

        def work(tx: Tx) -> environments_pb2.EnvironmentBuildLog:
            digest = lock_digest(json.loads(_require_environment(tx, request.name).definition))
            row = None if digest is None else builds_sql.build_log(tx, digest, request.machine)
            if row is None:
                message = f"'{request.machine}' has not begun to build the packages of '{request.name}'."
                raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, message)
            return environments_pb2.EnvironmentBuildLog(text=row.log, updated_at=to_timestamp(row.updated_at))

        return self._services.database.snapshot(work)

    def BuildEnvironment(
        self, request: environments_pb2.BuildEnvironmentRequest, context: grpc.ServicerContext
    ) -> environments_pb2.EnvironmentBuild:
        """Requests a build; the processes that execute steps poll for requests."""
        actor = principal_of(context).audit_name
        now = self._services.clock()

        def work(tx: Tx) -> environments_pb2.EnvironmentBuild:
            row = _require_environment(tx, request.name)
            digest = lock_digest(json.loads(row.definition))
            if digest is not None:
                builds_sql.request_build(tx, digest, now)
                touch(tx)
                details = {"name": row.name, "version": row.version, "lock": digest}
                audit.record(
                    tx,
                    at=now,
                    actor=actor,
                    action="environment.build_requested",
                    target=row.resource_id,
                    details=details,
                )
            return _message(tx, row)

        return self._services.database.write(work)


def _require_environment(tx: Tx, name: str) -> EnvironmentRow:
    row = named_resource(tx, "environment", name)
    return EnvironmentRow(row.resource_id, row.name, row.version, row.definition)


def _message(tx: Tx, row: EnvironmentRow) -> environments_pb2.EnvironmentBuild:
    definition = json.loads(row.definition)
    python = definition.get("python")
    made = environments_pb2.EnvironmentBuild(
        environment_id=row.resource_id,
        name=row.name,
        version=row.version,
        status=definition["status"],
        state=environments_pb2.ENVIRONMENT_BUILD_STATE_NO_PACKAGES,
        root=definition.get("root") or "",
        root_digest=definition.get("root_digest") or "",
    )
    if not python:
        return made
    digest = python["lock"]
    state = builds_sql.package_state(tx, digest)
    made.state = _STATES["built" if state.modules is not None else "failed" if state.failure else "building"]
    if made.state != _STATES["building"]:
        made.message = " ".join(package_reasons(row.name, python, state))
    made.packages.extend(python["packages"])
    made.locked.extend(python["versions"])
    made.lock_digest = digest
    made.interpreter = python["interpreter"]
    made.machines.extend(
        environments_pb2.MachineBuild(
            machine=one.machine,
            state=_STATES[one.state],
            message=one.message,
            bytes=one.size,
            updated_at=to_timestamp(one.updated_at),
        )
        for one in builds_sql.builds(tx, digest)
    )
    return made
