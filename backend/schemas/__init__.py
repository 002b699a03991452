"""JSON Schemas of manifests: their validation, and that of values by them, in processes that can be killed."""
