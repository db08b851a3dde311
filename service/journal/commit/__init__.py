"""The way of requests into the pointer store: decided in order, put together in groups, committed."""
