"""Loading and calling native kernels: ctypes and numpy alone, no compiler, nothing of the optimizer."""
