"""State APIs of other systems on the stores of `milepost.state.store`: Beam's, Flink's, and snapshots by barriers."""
