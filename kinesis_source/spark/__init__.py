"""The only home of pyspark: thin adapters in Spark's camelCase, without decisions."""
