"""Spark's drivers and executors as Pods, which share no disk, beside the chart's release."""
