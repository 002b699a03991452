"""Python packages of environments: locked at `apply`, built once a machine, read-only for steps (docs/agents.md)."""
