"""Summaries, as messages and as files."""
