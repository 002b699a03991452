"""Passkeys as the second factor of passwords, by WebAuthn, and recovery codes in their place."""
