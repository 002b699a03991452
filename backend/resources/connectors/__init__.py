"""Access to object storage of others, as manifests of kind Connector allow it."""
