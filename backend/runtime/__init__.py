"""Executes runs: launcher, run reaper, engines, segments, agents of steps, publishing and final sweeps."""
