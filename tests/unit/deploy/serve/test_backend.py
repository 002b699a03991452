"""Failures of a backend's start."""

import asyncio
from pathlib import Path

import pytest

from deploy.config.addresses import Address
from deploy.config.settings import BackendSection, Objects, Settings
from deploy.failures import CommandError
from deploy.serve.backend import running_backend
from telemetry import MetricsRegistry
from tests.support.s3_server import S3Server


async def serve(settings: Settings, data: Path) -> None:
    async with running_backend(settings, data, MetricsRegistry()):
        pass


def test_an_unusable_bucket_ends_the_start_with_one_sentence(s3_server: S3Server, tmp_path: Path) -> None:
    at_any_port = BackendSection(grpc=Address("127.0.0.1", 0))
    missing = Objects(store="s3", bucket="missing", endpoint_url=s3_server.url)
    with pytest.raises(CommandError, match=r"^Objects cannot be kept in s3://missing/: .*NoSuchBucket") as failed:
        asyncio.run(serve(Settings(backend=at_any_port, objects=missing), tmp_path))
    assert failed.value.code == "cannot_start"
    asyncio.run(serve(Settings(backend=at_any_port), tmp_path))
