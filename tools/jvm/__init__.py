"""The making of ``milepost.jar``, with the classes that Spark's JVMs load."""
