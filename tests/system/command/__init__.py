"""The command `milepost` against real deployments with several parts, as those who run one use it."""
