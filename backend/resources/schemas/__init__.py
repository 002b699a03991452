"""Validation of JSON Schemas, of values by them, and of the Python of agents, in processes that can be killed."""
