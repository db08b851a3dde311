"""A server that is killed at random points, over and over, under clients that write."""
