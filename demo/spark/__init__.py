"""What runs on Spark in a demo: the drivers with Milepost and without, and the reader of what they published."""
