"""The final sweep: redacts a finished run's outputs before callers may read them."""
