"""Mutations: the rules of the connector, each switched off once, to see that a test finds it."""
