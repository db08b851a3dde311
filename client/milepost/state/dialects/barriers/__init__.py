"""Consistent snapshots of a dataflow by barriers, as in "Lightweight Asynchronous Snapshots for Distributed Dataflows"
(Carbone et al. 2015). The package is for learning and for tests: a pipeline runs in one process, one step at a time.
"""

from milepost.state.dialects.barriers.nodes import Alignment, Edge, Graph, Node, Part, Record
from milepost.state.dialects.barriers.running import Pipeline
from milepost.state.dialects.barriers.snapshots import FileSnapshots, SnapshotStore

__all__ = ["Record", "Node", "Edge", "Graph", "Alignment", "Part", "SnapshotStore", "FileSnapshots", "Pipeline"]
