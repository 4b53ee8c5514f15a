"""The operations of KIR, one class each, by topic. A new operation is a class here (or anywhere) under `@operation`."""

from eqkir.kir.ops.atomics import (
    AtomicAdd,
    AtomicAnd,
    AtomicCompareExchange,
    AtomicExchange,
    AtomicLoad,
    AtomicMax,
    AtomicMin,
    AtomicOr,
    AtomicStore,
    AtomicUpdate,
    AtomicXor,
)
from eqkir.kir.ops.control import Break, Continue, For, If, Parallel, While
from eqkir.kir.ops.coords import AssumeInBounds, Domain, ExtentOp, Indices, Subregion
from eqkir.kir.ops.formats import Quantize, QuantizedDot, ScaledContract, SparseContract
from eqkir.kir.ops.memory import Buffer, Gather, Load, ScatterReduce, Store, UniqueScatter, Write
from eqkir.kir.ops.pointwise import BINARY, COMPARE, UNARY, Binary, Bitcast, Cast, Compare, Constant, Fma, Select, Unary
from eqkir.kir.ops.records import Call, GetField, MakeRecord
from eqkir.kir.ops.regions import RegionFold, RegionScan
from eqkir.kir.ops.rng import RandomBits, RandomUniform
from eqkir.kir.ops.shape import Broadcast, Full, Join, Reshape, Transpose
from eqkir.kir.ops.structured import ArgReduce, Contract, Histogram, Reduce, Scan

__all__ = [
    "BINARY", "COMPARE", "UNARY", "ArgReduce", "AssumeInBounds", "AtomicAdd", "AtomicAnd", "AtomicCompareExchange", "AtomicExchange",
    "AtomicLoad", "AtomicMax", "AtomicMin", "AtomicOr", "AtomicStore", "AtomicUpdate", "AtomicXor", "Binary", "Bitcast", "Break",
    "Broadcast", "Buffer", "Call", "Cast", "Compare", "Constant", "Continue", "Contract", "Domain", "ExtentOp", "Fma", "For", "Full",
    "Gather", "GetField", "Histogram", "If", "Indices", "Join", "Load", "MakeRecord", "Parallel", "Quantize", "QuantizedDot",
    "RandomBits", "RandomUniform", "Reduce", "RegionFold", "RegionScan", "Reshape", "ScaledContract", "Scan", "ScatterReduce",
    "Select", "SparseContract", "Store", "Subregion", "Transpose", "Unary", "UniqueScatter", "While", "Write",
]  # fmt: skip
