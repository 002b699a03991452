"""Tokens and prices of calls to models: recorded by attempt of a step, added up by run and by day."""
