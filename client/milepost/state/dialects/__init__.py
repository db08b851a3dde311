"""APIs of other systems over the state stores of `milepost.state.store`: Beam's state and timers, Flink's keyed and
operator state, and the snapshots of a dataflow that barriers separate (`barriers`).
"""
