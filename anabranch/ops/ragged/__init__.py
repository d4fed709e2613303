"""Ragged rows."""
