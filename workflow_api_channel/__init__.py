"""Channels of callers of the gRPC services: options with retries, and the identity of each call."""

from workflow_api_channel.identity import identified, identity_interceptors
from workflow_api_channel.options import channel_options, service_config

__all__ = ["channel_options", "identified", "identity_interceptors", "service_config"]
