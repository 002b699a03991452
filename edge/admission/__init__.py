"""Admission of calls: the contract's order of checks."""
