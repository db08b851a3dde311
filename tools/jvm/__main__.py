"""Builds ``milepost.jar`` anew: ``JAVA_HOME=$(tools/java-home) python -m tools.jvm``, or ``make jar``."""

from __future__ import annotations

from tools.jvm.jar import JAR, build

build(JAR)
