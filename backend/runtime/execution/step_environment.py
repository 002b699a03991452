"""The environment of a step: limits that the deployment allows, packages built on this machine, and its root."""

import asyncio

from backend.common.json_text import JsonMapping
from backend.isolation.sandbox import Limits, SandboxUnavailableError, StepPackages, StepRoot
from backend.resources.environments.lock import PackagesError
from backend.resources.roots.tree import RootError
from backend.runtime.agents import StepFailed
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.slots import limits_of, memory_of
from backend.services.workflows.resolved_workflow import ResolvedStep


def limits_within(context: SegmentContext, step: ResolvedStep) -> Limits:
    """Returns the limits of a step; raises StepFailed where this deployment does not allow them."""
    limits = limits_of(step.environment, context.output_limits, step.timeout_seconds)
    if limits.network == "full" and context.network == "none":
        reason = "its environment asks for the network, which this deployment allows no step (runtime.network)"
        raise StepFailed("NetworkNotAllowed", reason, final=True)
    memory_mb, most = memory_of(step), context.slots.memory_mb
    if memory_mb > most:
        reason = f"its environment asks for {memory_mb} MB of memory, and steps may use {most} here (runtime.memory_mb)"
        raise StepFailed("MemoryNotAvailable", reason, final=True)
    return limits


async def built_packages(context: SegmentContext, environment: JsonMapping) -> StepPackages | None:
    """Returns the packages of the environment, built on this machine if they are not yet; raises StepFailed."""
    python = environment.get("python")
    if not python:
        return None
    packages, digest = context.packages, python["lock"]
    try:
        built = await context.in_slow_thread(lambda: packages.find(digest))
        if built is None:
            # A cancelled step stops waiting, and the build goes on.
            built = await asyncio.wrap_future(packages.begin(digest))
    except PackagesError as error:
        reason = f"the packages of its environment could not be built: {error}"
        raise StepFailed("PackagesUnavailable", reason) from error
    return StepPackages(built.folder, tuple(python["preload"]))


async def usable_root(context: SegmentContext, environment: JsonMapping) -> StepRoot | None:
    """Returns the root of the environment, from this machine with the digest of its version; raises StepFailed."""
    name = environment.get("root")
    if name is None:
        return None
    digest = environment["root_digest"]

    def work() -> StepRoot:
        root = context.packages.roots.for_step(name, digest)
        context.sandbox.layer.check_root(root)
        return root

    try:
        return await context.in_slow_thread(work)
    except RootError as error:
        raise StepFailed("RootUnavailable", str(error)) from error
    except SandboxUnavailableError as error:
        raise StepFailed("RootUnavailable", f"the root '{name}' cannot be used: {error}", final=True) from error
