"""How long a newcomer takes to the first handle. These limits are promises to users, and so the only timed checks."""
