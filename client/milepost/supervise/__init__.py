"""Runs a Spark job that has no line of Milepost in it: one driver at a time, and each start under an epoch of its own.

`milepost run` is the command for it. The job's checkpoint location is below a URL that is the same for ever, and what
fences it reaches the job's JVM by its environment (`handover`).
"""

from milepost.supervise.command import CannotStart
from milepost.supervise.supervisor import Supervisor, Terms

__all__ = ["Supervisor", "Terms", "CannotStart"]
