"""What all rooms of the service build on: problems, deadlines, work in turns, things that fall due, streams."""
