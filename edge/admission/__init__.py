"""Decides which calls are let through, in the contract's order of checks."""
