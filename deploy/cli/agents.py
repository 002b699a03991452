"""`workflow-api agents`: what does the work of steps."""

import typer

from deploy.cli.resources import add_reads
from workflow_api.v1 import workflows_pb2

command = typer.Typer()
add_reads(command, workflows_pb2.RESOURCE_KIND_AGENT, "agent")
