"""Executor side: reads the shard ranges of one input partition, from themselves alone."""
