"""KIR: the language of kernels. Model, builder, verifier, canonical form."""

from eqkir.kir import type_rules as _type_rules  # registers the rules of the core operations
from eqkir.kir.builder import Builder, kernel, module
from eqkir.kir.model import Kernel, Module
from eqkir.kir.types import DomainType, TensorType, Type, infer
from eqkir.kir.verify import check, verify

__all__ = ["Builder", "DomainType", "Kernel", "Module", "TensorType", "Type", "check", "infer", "kernel", "module", "verify"]
