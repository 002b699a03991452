"""Executes runs: launcher, sweeper, engines, segments, agents of steps, publishing and final sweeps."""
