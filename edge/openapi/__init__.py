from edge.openapi.document import openapi_document

__all__ = ["openapi_document"]
