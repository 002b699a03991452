"""Deployment record: identity, switches, licence and retention of one installation."""
