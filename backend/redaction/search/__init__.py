"""Finds where rules match in text of any length."""
