"""The operations of KIR, one class each, by topic. A new operation is a class here (or anywhere) under `@operation`."""

from eqkir.kir.ops.control import Parallel
from eqkir.kir.ops.coords import Domain, ExtentOp, Indices
from eqkir.kir.ops.memory import Load, Store
from eqkir.kir.ops.pointwise import BINARY, COMPARE, UNARY, Binary, Bitcast, Cast, Compare, Constant, Fma, Select, Unary
from eqkir.kir.ops.shape import Broadcast, Full, Reshape, Transpose
from eqkir.kir.ops.structured import Contract, Reduce

__all__ = [
    "BINARY", "COMPARE", "UNARY", "Binary", "Bitcast", "Broadcast", "Cast", "Compare", "Constant", "Contract", "Domain", "ExtentOp",
    "Fma", "Full", "Indices", "Load", "Parallel", "Reduce", "Reshape", "Select", "Store", "Transpose", "Unary",
]  # fmt: skip
