"""Resources that workflows use: environments, connectors, knowledge graphs, models, schemas, redaction."""
