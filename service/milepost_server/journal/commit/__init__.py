"""Group commit: waiting requests are decided in order, combined into groups, and written to the pointer store."""
