"""What makes a run go: launcher, sweeper, engines, segments, sandboxed steps."""
