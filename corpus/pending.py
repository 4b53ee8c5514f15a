"""Which kernels later layers do not take yet: a name leaves this list when its kernel passes every check."""

from __future__ import annotations

PENDING: frozenset[str] = frozenset()
