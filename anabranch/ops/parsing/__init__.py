"""Parsing of examples, CSV, JSON and raw bytes."""
