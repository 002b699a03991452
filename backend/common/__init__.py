"""Utilities and vocabulary of the backend that every package may use."""
