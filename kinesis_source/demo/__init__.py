"""`make demo`: a real Spark query on a stream that is being split and merged, killed on the way."""
