"""The record of which executor has which state store of a job loaded: a hint, in the leader's memory alone."""
