"""Group commit: waiting requests are decided in order, folded into groups, and written to the pointer store."""
