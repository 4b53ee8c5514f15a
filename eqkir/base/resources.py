"""Where the data that goes with the package lies: beside the package in a wheel, in the repository's folders in a checkout."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


def data_dir(name: str) -> Path:
    """The folder of package data `name` (``"rulesets"``): ``eqkir/_<name>`` of a wheel, else ``<repository>/<name>``.

    Raises FileNotFoundError when neither exists.
    """
    for p in (PACKAGE / f"_{name}", PACKAGE.parent / name):
        if p.is_dir():
            return p
    raise FileNotFoundError(f"eqkir's {name} are missing from the installation: {PACKAGE / f'_{name}'}")


def version() -> str:
    """The version of the installed distribution, or that of the checkout's pyproject."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("eqkir")
    except PackageNotFoundError:
        import tomllib

        with open(PACKAGE.parent / "pyproject.toml", "rb") as f:
            v: str = tomllib.load(f)["project"]["version"]
            return v
