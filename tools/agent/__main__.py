"""Builds the jar of the Java agent anew: ``JAVA_HOME=$(tools/java-home) python -m tools.agent``, or ``make agent``."""

from __future__ import annotations

from tools.agent.jar import JAR, build

build(JAR)
