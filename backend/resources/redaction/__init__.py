"""Sweeps by the library `redaction` in confined processes, with a language model if a policy names one."""
