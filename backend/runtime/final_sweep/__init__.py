"""The final sweep: a finished run's outputs are given out only once they were redacted."""
