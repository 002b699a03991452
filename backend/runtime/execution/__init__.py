"""Executes one segment: claims it, runs its steps, records what changes, and parks or closes its run."""
