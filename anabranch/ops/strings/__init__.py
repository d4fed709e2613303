"""Strings: parts, patterns, hashes, numbers in text, Unicode."""
