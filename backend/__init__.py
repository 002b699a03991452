"""What the service means: its domain services behind gRPC, where they rest, and what makes a run go."""
