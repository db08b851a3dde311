"""The OpenAPI description of the service, made from the routes that answer, and a page that shows it."""
