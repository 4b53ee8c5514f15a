"""The command line: `main` is the console script ``eqkir``."""

from __future__ import annotations


def main() -> None:
    """Run the command line; ends the process with 0 (all fine), 1 (some kernel failed) or 2 (usage)."""
    import sys

    from eqkir.cli.app import main as status

    sys.exit(status())
