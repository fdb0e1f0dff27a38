"""The simulated engine held to real Spark, and the local stream to independent ones."""
