"""Runs a Spark job that contains no line of Milepost code: one driver at a time, and each start under its own epoch.

`milepost run` is the command for it. The job's checkpoint location is below a URL that never changes, and the settings
that fence it reach the job's JVM through its environment (`handover`).
"""

from milepost.supervise.command import CannotStart
from milepost.supervise.supervisor import Supervisor, Terms

__all__ = ["Supervisor", "Terms", "CannotStart"]
