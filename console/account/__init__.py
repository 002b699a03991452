"""Pages of a visitor's own account: signing in and out, second factors, passkeys, preferences."""
