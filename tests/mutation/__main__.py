"""``python -m tests.mutation``: the campaign (see tools/mutate.py)."""

import sys

from tools.mutate import main

sys.exit(main())
