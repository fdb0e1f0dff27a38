"""Real Spark, real SIGKILLs: `python -m tests.crash --kills 50 --seed 1`."""
