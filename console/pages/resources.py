"""The overview of what workflows use, with what needs attention."""

import asyncio
from typing import NamedTuple

from console.pages import secrets
from console.pages.environments import every_build
from console.pages.graphs import every_graph
from console.resources.lookup import CONNECTORS, ENVIRONMENTS, GRAPHS, all_resources
from console.visit import PageResult, View, Visit
from workflow_api.v1.deployment_health_pb2 import SECRET_STATE_SET
from workflow_api.v1.environments_pb2 import ENVIRONMENT_BUILD_STATE_BUILDING, ENVIRONMENT_BUILD_STATE_FAILED


class _Panel(NamedTuple):
    """A kind: how many there are, and what needs attention, as sentences."""

    title: str
    path: str
    number: int
    about: str
    attention: list[str]


async def show(visit: Visit) -> PageResult:
    """Shows how many resources of each kind there are."""
    builds, connectors, graphs, named = await asyncio.gather(
        every_build(visit), all_resources(visit, CONNECTORS), every_graph(visit), secrets.named_secrets(visit)
    )
    failed = sum(each.state == ENVIRONMENT_BUILD_STATE_FAILED for each in builds)
    building = sum(each.state == ENVIRONMENT_BUILD_STATE_BUILDING for each in builds)
    refused = sum(each.status == "failed" for each in connectors)
    untested = sum(each.status == "not tested" for each in connectors)
    unusable = sum(each.state != SECRET_STATE_SET for each in named)
    pending = sum(each.pending for each in graphs)
    panels = [
        _Panel(
            ENVIRONMENTS.plural,
            ENVIRONMENTS.path,
            len(builds),
            "Bounds of steps, and the packages that they may import.",
            _counted((failed, "could not be built"), (building, "being built")),
        ),
        _Panel(
            CONNECTORS.plural,
            CONNECTORS.path,
            len(connectors),
            "Object storage of others that runs may read.",
            _counted((refused, "failed the last test"), (untested, "not tested yet")),
        ),
        _Panel(
            GRAPHS.plural,
            GRAPHS.path,
            len(graphs),
            "What runs publish as RDF, to be queried.",
            _counted((pending, "publications pending")),
        ),
        _Panel(
            "Secrets",
            secrets.PATH,
            len(named),
            "Credentials by name, kept outside of this service.",
            _counted((unusable, "missing or unreadable")),
        ),
    ]
    return View("resources/overview.html", {"panels": panels})


def _counted(*found: tuple[int, str]) -> list[str]:
    return [f"{count:,} {words}" for count, words in found if count]
