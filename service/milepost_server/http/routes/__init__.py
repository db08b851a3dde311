"""The routes of the API, in one file for each resource."""
