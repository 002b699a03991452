"""The deployment that faults are injected into: two edges, backends and workers, or one `serve`; and what they need."""

import json
import os
import signal
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from tests.faults import plan
from tests.faults.databases import sqlite_address
from tests.faults.journal import Journal
from tests.faults.releases import FIRST_RELEASE, make_release
from tests.support.admin import Admin
from tests.support.faulty_proxy import FaultyProxy
from tests.support.own_postgresql import OwnPostgresql
from tests.support.part import Part, address_of
from tests.support.poll import until
from tests.support.redis_server import RedisServer
from tests.support.s3_server import S3Server
from tests.support.small_disk import SmallDisk
from tests.support.sparql_server import sparql_server
from tests.support.stepped_clock import SteppedClock, clock_library
from tests.support.webhook_receiver import receiving
from tests.support.wire import Address
from workflow_api.v1 import webhooks_pb2, workflows_pb2

MANIFESTS: Final = tuple(
    Path(__file__).with_name(name)
    for name in (
        "workflows.yaml",
        "content.yaml",
        "packages.yaml",
        "attached.yaml",
        "flows.yaml",
        "schedules.yaml",
        "stored_inputs.yaml",
    )
)
BUCKET: Final = "workflows"
INBOX: Final = "inbox"
STORED_INPUTS: Final = {f"in/{number}.txt": f"stored {number}".encode() * 100 for number in range(6)}
_LOOK_EVERY_SECONDS: Final = 0.2
_DISK_MEGABYTES: Final = 24
# With a database beside the objects.
_EMBEDDED_DISK_MEGABYTES: Final = 96
# The ends of ids of messages that the receiver refuses once: an eighth of them.
_REFUSED_AT_FIRST: Final = ("0", "1", "2", "3")
# On a machine that is busy with other things.
_START_SECONDS: Final = 240


@dataclass
class SupervisedPart:
    """A part that is started again whenever it has ended, as a service manager does."""

    name: str
    part: Part
    clock: SteppedClock
    starts: int = 0


class Cluster:
    """Everything on loopback, in processes of its own; edge n is in front of backend n, and a proxy is between them.

    An embedded one is a single command, which stands for both edges and both backends.
    """

    def __init__(self, store: str, journal: Journal) -> None:
        self._journal = journal
        self._held = ExitStack()
        self._stopping = threading.Event()
        self.store = store
        try:
            self._set_up()
        except BaseException:
            self._held.close()
            raise

    def _set_up(self) -> None:
        folder = self._folder = Path(
            self._held.enter_context(tempfile.TemporaryDirectory(prefix="workflow-api-faults-"))
        )
        # The user of PostgreSQL reads its clock there.
        folder.chmod(0o711)
        self._library = clock_library(folder)
        self.receiver = self._held.enter_context(receiving())
        self.receiver.refuses = lambda message: (
            message.message_id.endswith(_REFUSED_AT_FIRST)
            and (sum(each.message_id == message.message_id for each in self.receiver.received) == 1)
        )
        self._hooked: list[str] = []
        graph = self._graph = self._held.enter_context(sparql_server())
        graph_port = int(graph.endpoint_url.split("/")[2].rpartition(":")[2])
        self.graph_link = self._held.enter_context(FaultyProxy(lambda: graph_port))
        self.wheels = folder / "wheels"
        make_release(self.wheels, FIRST_RELEASE)
        self._variables = self._shared_settings()
        self.parts: dict[str, list[SupervisedPart]] = {}
        self.links: list[FaultyProxy] = []
        self.admins: list[Admin] = []
        self._keepers: list[threading.Thread] = []
        self._held.callback(self._end_parts)
        if plan.embedded(self.store):
            self._set_up_service()
        else:
            self._set_up_parts()
        for keeper in self._keepers:
            keeper.start()
        until(self.whole, "every part to serve", seconds=300, every=0.1)
        self.flows: dict[str, str] = {}
        for path in MANIFESTS if plan.in_s3(self.store) else MANIFESTS[:-1]:
            text = path.read_text().replace("http://graph.example.org", self.graph_link.url)
            if plan.in_s3(self.store):
                text = text.replace("http://s3.example.org", self.s3.url)
            self.flows |= self.admins[0].apply(text, path.name)
        if plan.in_s3(self.store):
            # No run starts before its connector was tested.
            tested = self.admins[0].workflows.TestConnector(workflows_pb2.TestConnectorRequest(name="inbox"))
            assert tested.passed, tested.message

    def _set_up_service(self) -> None:
        """One command, which is both edges and both backends."""
        folder = self._folder / "data" if plan.in_s3(self.store) else self.disk.folder / "data"
        self.database = sqlite_address(folder / "workflow-api.sqlite3")
        listening = ("--http", "127.0.0.1:0", "--console", "127.0.0.1:0")
        service = self._keep("serve", 0, *listening, "--grpc", "127.0.0.1:0", data=folder)
        self.packages = [folder / "packages"]
        self.parts = {"service": [service]}
        proxy = self._proxy_of(service)
        for _ in range(2):
            self.admins.append(Admin(f"127.0.0.1:{proxy.port}"))
            self._held.callback(self.admins[-1].close)

    def _set_up_parts(self) -> None:
        for number in range(2):
            backend = self._keep("backend", number, "--grpc", "127.0.0.1:0")
            self.links.append(self._proxy_of(backend))
            self.admins.append(Admin(f"127.0.0.1:{self._proxy_of(backend).port}"))
            self._held.callback(self.admins[-1].close)
        for number in range(2):
            self._keep("worker", number)
            self._keep("edge", number, "--http", "127.0.0.1:0", "--grpc", f"127.0.0.1:{self.links[number].port}")
        self._keep("console", 0, "--http", "127.0.0.1:0", "--grpc", f"127.0.0.1:{self.links[0].port}")

    def _shared_settings(self) -> dict[str, str]:
        settings = {
            "LOG_LEVEL": "warning",
            # Callers wait less for an edge that hears nothing.
            "EDGE_BACKEND_SECONDS": "5",
            "RUNTIME_LAUNCH_TIMEOUT_SECONDS": str(plan.launch_timeout_seconds(self.store)),
            "WEBHOOKS_PRIVATE_NETWORKS": "127.0.0.0/8",
            "WEBHOOKS_TIMEOUT_SECONDS": "5",
            "PACKAGES_INDEX_URL": "none",
            "PACKAGES_WHEELS": str(self.wheels),
        }
        variables = {
            "AWS_ACCESS_KEY_ID": "root",
            "AWS_SECRET_ACCESS_KEY": "not-a-secret",
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1",
        }
        if not plan.embedded(self.store):
            variables |= self._databases()
            settings |= {"BACKEND_DATABASE": "env:DATABASE", "EDGE_REDIS_URL": "env:REDIS", "RUNTIME_ENGINE": "dbos"}
        if plan.in_s3(self.store):
            server = S3Server()
            self._held.callback(server.stop)
            server.fill(BUCKET, {})
            server.fill(INBOX, STORED_INPUTS)
            port = int(server.url.rpartition(":")[2])
            self.s3 = self._held.enter_context(FaultyProxy(lambda: port))
            self.objects = {"url": server.url, "bucket": BUCKET}
            settings |= {"OBJECTS_STORE": "s3", "OBJECTS_BUCKET": BUCKET, "OBJECTS_ENDPOINT_URL": self.s3.url}
        else:
            megabytes = _EMBEDDED_DISK_MEGABYTES if plan.embedded(self.store) else _DISK_MEGABYTES
            self.disk = SmallDisk(self._folder / "disk", megabytes)
            self._held.callback(self.disk.close)
            self.objects = {"folder": str(self.disk.folder / "objects")}
            settings |= {"OBJECTS_FOLDER": self.objects["folder"]}
        if self.store == plan.MACHINES:
            self.packages = [self._folder / f"worker-{number}" / "data" / "packages" for number in range(2)]
            settings |= {"RUNTIME_STEP_SLOTS": str(plan.STEP_SLOTS)}
        elif not plan.embedded(self.store):
            # Of both workers, as if they were on one machine; on the disk that fills, where there is one.
            self.packages = [(self._folder if plan.in_s3(self.store) else self.disk.folder) / "packages"]
            settings |= {"PACKAGES_FOLDER": str(self.packages[0])}
        return {f"WORKFLOW_API_{name}": value for name, value in settings.items()} | variables

    def _databases(self) -> dict[str, str]:
        """Starts PostgreSQL and Redis; gives the variables that say where they are."""
        self.redis = RedisServer()
        self._held.callback(self.redis.close)
        self.redis.start()
        self.postgresql_clock = SteppedClock(self._library, self._folder / "postgresql.clock")
        self.postgresql = OwnPostgresql(self.postgresql_clock.variables)
        self._held.callback(self.postgresql.close)
        self.database = self.postgresql.url
        return {"DATABASE": self.postgresql.url, "REDIS": self.redis.url}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.close()

    def edge_address(self, number: int) -> Address:
        """Where an edge listens.

        Raises:
            ConnectionRefusedError: it does not, until it has been started again.
        """
        ready = self.part("service" if plan.embedded(self.store) else "edge", number).part.ready
        if not ready:
            raise ConnectionRefusedError
        return address_of(ready["base_address"])

    def console_address(self) -> Address:
        """Where the console listens; raises as `edge_address`."""
        ready = self.part("service" if plan.embedded(self.store) else "console", 0).part.ready
        if not ready:
            raise ConnectionRefusedError
        url = urlsplit(ready["console"])
        return "127.0.0.1", url.port or 0

    def part(self, name: str, number: int) -> SupervisedPart:
        """A part by its kind; the number counts round where there is only one."""
        parts = self.parts[name]
        return parts[number % len(parts)]

    def hook(self, key_id: str) -> None:
        """Makes a webhook of a key that has no run yet."""
        request = webhooks_pb2.CreateWebhookRequest(key_id=key_id, url=self.receiver.url)
        self.admins[0].webhooks.CreateWebhook(request, timeout=60)
        self._hooked.append(key_id)

    def whole(self) -> bool:
        """Whether every part is there and serves."""
        return all(kept.part.alive and kept.part.ready for parts in self.parts.values() for kept in parts)

    def restarts(self) -> int:
        """How often parts were started again."""
        return sum(kept.starts - 1 for parts in self.parts.values() for kept in parts)

    def scene(self) -> dict[str, Any]:
        """What the auditor needs to look at the state by itself."""
        return {
            "database": self.database,
            "flows": self.flows,
            "graphs": self._graph.sizes(),
            "logs": self.logs(),
            "objects": self.objects,
            "packages": [str(folder) for folder in self.packages],
            "launch_timeout_seconds": plan.launch_timeout_seconds(self.store),
            "wall_clock_ahead": time.time() - time.monotonic(),
            "console": self.console_address(),
            "edges": [self.edge_address(number) for number in range(2)],
            "hooked": self._hooked,
            "accepted": [
                (each.message_id, each.json["data"]["run_id"], each.json["type"]) for each in self.receiver.accepted
            ],
        }

    def logs(self) -> dict[str, str]:
        return {kept.name: kept.part.log() for parts in self.parts.values() for kept in parts}

    def _proxy_of(self, kept: SupervisedPart) -> FaultyProxy:
        return self._held.enter_context(FaultyProxy(lambda: int(kept.part.ready["grpc"].rpartition(":")[2])))

    def _keep(self, command: str, number: int, *arguments: str, data: Path | None = None) -> SupervisedPart:
        folder = self._folder / f"{command}-{number}"
        folder.mkdir()
        clock = SteppedClock(self._library, folder / "clock")
        stored = () if command in {"edge", "console"} else ("--data", str(data or folder / "data"))
        part = Part(folder, command, *arguments, *stored, variables=self._variables | clock.variables)
        part.start_seconds = _START_SECONDS
        kept = SupervisedPart(f"{command} {number}", part, clock)
        self.parts.setdefault(command, []).append(kept)
        self._keepers.append(threading.Thread(target=self._keep_alive, args=(kept,), name=kept.name, daemon=True))
        return kept

    def _keep_alive(self, kept: SupervisedPart) -> None:
        while not self._stopping.wait(_LOOK_EVERY_SECONDS if kept.starts else 0):
            if kept.part.alive:
                continue
            kept.part.ready = {}
            try:
                kept.starts += 1
                if kept.starts > 1:
                    self._journal.part(kept.name, serves=False)
                kept.part.start()
                self._journal.part(kept.name, serves=True)
            except AssertionError:
                # What it stands on is away too: a service manager tries again as well.
                kept.part.kill()

    def _end_parts(self) -> None:
        self._stopping.set()
        for parts in self.parts.values():
            for kept in parts:
                if kept.part.alive:
                    kept.part.signal(signal.SIGCONT)
                    kept.part.signal(signal.SIGKILL)
        for keeper in self._keepers:
            keeper.join(timeout=90)
        for parts in self.parts.values():
            for kept in parts:
                kept.part.kill()


def write_scene(path: Path, scene: dict[str, Any]) -> None:
    """Leaves it where only its owner reads it: it holds credentials."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(scene, file)
