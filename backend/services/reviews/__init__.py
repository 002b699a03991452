"""Reviews of approvals: the material for a decision, and decisions made. Never on the public API."""
