"""The state APIs of other systems, over the stores of `milepost.state.store`: Beam, Flink, and barriers."""
