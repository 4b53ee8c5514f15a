PENDING: frozenset[str] = frozenset()
