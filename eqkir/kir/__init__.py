"""KIR: the language of kernels. Model, loader, builder, verifier, canonical form.

module = load_file("kernel.json")      # or: @kernel def f(k): …; module(f)
types = check(module)                  # raises EqkirError with coded diagnostics
text = canonical(module)
"""

from eqkir.kir import type_rules as _type_rules  # noqa: F401  (registers the rules of the core operations)
from eqkir.kir import type_rules_control as _control  # noqa: F401
from eqkir.kir import type_rules_memory as _memory  # noqa: F401
from eqkir.kir import type_rules_structured as _structured  # noqa: F401
from eqkir.kir.builder import Builder, helper, kernel, module
from eqkir.kir.canonical import canonical, digest, dumps, schema, to_json
from eqkir.kir.extents import Extents
from eqkir.kir.helpers import link
from eqkir.kir.load import Broken, Reading, load_bytes, load_file, read, read_file, survey, survey_file
from eqkir.kir.model import VERSION, Constexpr, Helper, Kernel, Module, Op, Region, Scalar, Symbol, View, operation, refresh
from eqkir.kir.positions import Positions
from eqkir.kir.types import CONSTEXPR_DTYPE, BufferType, DomainType, RecordType, TensorType, Type, infer, type_rule
from eqkir.kir.verify import check, check_kernel, verify, verify_kernel

__all__ = [
    "Broken", "BufferType", "Builder", "CONSTEXPR_DTYPE", "Constexpr", "DomainType", "Extents", "Helper", "Kernel", "Module", "Op",
    "Positions", "Reading", "RecordType", "Region", "Scalar", "Symbol", "TensorType", "Type", "VERSION", "View", "canonical", "check",
    "check_kernel", "digest", "dumps", "helper", "infer", "kernel", "link", "load_bytes", "load_file", "module", "operation", "read",
    "read_file", "refresh", "schema", "survey", "survey_file", "to_json", "type_rule", "verify", "verify_kernel",
]  # fmt: skip
