"""Foundations that every stage may use: integer expressions, dtypes, diagnostics."""
