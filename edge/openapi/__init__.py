"""The OpenAPI description and its page, made from the descriptors when they are asked for."""
