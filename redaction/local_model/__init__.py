"""The local model: a token classifier, and what turns its likelihoods of words into values."""
