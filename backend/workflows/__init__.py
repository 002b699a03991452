"""Workflows and the resources that their steps use, in versions that never change."""
