#!/usr/bin/env bash
# Prints the path of a Python >= 3.12 that runs and can make virtual environments with pip; exits 1 with a message when there is none.
# Looked at in order: $PYTHON, python3.12/13/14 and python3 on PATH, pyenv's versions, uv's Pythons.
set -u

works() {  # the candidate must really run (a pyenv shim may be on PATH and refuse), be new enough, and have venv + ensurepip
  "$1" - >/dev/null 2>&1 <<'PY'
import sys
import ensurepip, venv  # noqa
raise SystemExit(0 if sys.version_info >= (3, 12) and sys.implementation.name == "cpython" else 1)
PY
}

candidates() {
  [ -n "${PYTHON:-}" ] && echo "$PYTHON"
  for name in python3.12 python3.13 python3.14 python3; do
    type -aP "$name" 2>/dev/null
  done
  for p in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python; do
    [ -x "$p" ] && echo "$p"
  done
  for p in /usr/local/bin/python3.1[2-9] /opt/python*/bin/python3 /opt/homebrew/bin/python3.1[2-9]; do
    [ -x "$p" ] && echo "$p"
  done
  if command -v uv >/dev/null 2>&1; then
    uv python find '>=3.12' 2>/dev/null
  fi
}

while IFS= read -r python; do
  if works "$python"; then
    "$python" -c 'import os, sys; print(os.path.realpath(sys.executable))'
    exit 0
  fi
done < <(candidates)
if command -v uv >/dev/null 2>&1 && uv python install 3.12 >/dev/null 2>&1; then
  python=$(uv python find 3.12 2>/dev/null)
  if works "$python"; then
    echo "$python"
    exit 0
  fi
fi
echo "eqkir needs CPython >= 3.12 with venv and pip; none was found (set PYTHON=/path/to/python)" >&2
exit 1
