"""The backend: domain services behind gRPC, their storage, and the runtime that executes runs."""
