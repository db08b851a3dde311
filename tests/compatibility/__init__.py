"""What an earlier version stored, read by this one: files and dumps that `record` made with that version."""
