"""Other systems' ways to write stateful programs, over the stores of `milepost.state.store`: Beam's, Flink's, and barriers."""
