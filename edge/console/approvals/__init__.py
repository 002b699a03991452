"""Parts of the pages of approvals: decisions, and the excerpt of what one is about."""
