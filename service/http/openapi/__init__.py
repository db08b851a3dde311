"""The OpenAPI description and its page, made of the very routes that answer."""
