"""`milepost` as a data source of Spark."""
