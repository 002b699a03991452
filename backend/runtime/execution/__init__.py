"""Executes segments: leases, steps, results, and the journal that makes them durable."""
