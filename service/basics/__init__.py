"""What all rooms of the service build on: problems, waiting with a deadline, work in slices, things that fall due."""
