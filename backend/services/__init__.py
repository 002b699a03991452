"""Domain services: one package for each gRPC service, with its servicer, its rules and its SQL."""
