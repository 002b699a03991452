"""Reviews of approvals: the material for a decision, and past decisions. Never on the public API."""
