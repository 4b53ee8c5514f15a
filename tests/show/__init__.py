"""Show lines of issues, run by tools/show.py."""
