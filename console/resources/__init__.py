"""Parts of the pages of what workflows use: one version of a resource, answers of knowledge graphs."""
