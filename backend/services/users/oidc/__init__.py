"""Sign-in by OpenID Connect: authorization code flow with PKCE, at one provider."""
