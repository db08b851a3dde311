"""What a leader does when a commit did not end well: find out what landed, and put right what did not."""
