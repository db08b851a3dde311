"""Runs a Spark job that contains no code of Milepost: one driver at a time, and each start under its own epoch.

The command `milepost run` uses this package. The job's checkpoint location is below a URL that never changes. The
settings that fence the job reach its JVM through the environment (`handover`).
"""

from milepost.supervise.command import CannotStart
from milepost.supervise.supervisor import Supervisor, Terms

__all__ = ["Supervisor", "Terms", "CannotStart"]
