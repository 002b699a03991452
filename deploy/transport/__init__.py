"""gRPC between the parts: channels, credentials and certificate files."""
