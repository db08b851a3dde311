"""What all rooms of the service build on: problems, deadlines, work in slices, things that fall due, streams."""
