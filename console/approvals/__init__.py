"""Parts of the pages of approvals: decisions, and what one is about, as far as a page has room."""
