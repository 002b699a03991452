"""Client of the backend's gRPC services, for the administrator's commands and the demonstration."""
