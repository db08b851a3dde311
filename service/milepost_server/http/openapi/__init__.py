"""The OpenAPI description of the service, generated from the routes, and a page that shows the description."""
