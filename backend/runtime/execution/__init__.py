"""Executes segments: leases, steps, results, and the journal that records them."""
