"""What the tests drive the connector with: Spark's engine without a JVM, histories, their judge."""
