"""Sinks outside of Spark that get each batch exactly once: publishing functions for `Job.exactlyOnce`."""
