"""What a person sees before they decide an approval, and who decided the others. Never on the public API."""
