"""Connections to the object storage of others, as manifests of kind Connector allow them."""
