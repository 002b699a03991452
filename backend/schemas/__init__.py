"""JSON Schemas that manifests bring: checked, and values judged by them, in processes that can be killed."""
