"""The gRPC server, who may call it, and the wrapper of every RPC."""
