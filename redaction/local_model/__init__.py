"""The local model: a token classifier, and the conversion of its word likelihoods to values."""
