"""Passkeys by WebAuthn as a second factor after passwords, and recovery codes as a substitute."""
