"""The gRPC server: what holds for every call of every service."""
