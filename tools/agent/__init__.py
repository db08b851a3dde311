"""The making of the Java agent of ``milepost run``."""
