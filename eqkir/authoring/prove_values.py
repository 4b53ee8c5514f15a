"""Pointwise identities, proved for every value: IEEE floats (NaN, infinities, signed zeros, denormals), integers modulo 2^n.

A dtype that the query leaves open is tried as f16 and f32, and as 8-bit and 32-bit integers: the laws that hold hold at every width, but
the solver answers for these. Functions without a theory (exp, tanh) are uninterpreted. A product whose only reader is a sum may be rounded
with it (kir.md section 5): then the old side has two values, and the new side must be one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from eqkir.authoring.patterns import Pattern, Term, is_variable, pattern, subterms
from eqkir.authoring.prove import TIMEOUT, Proof, Unknown
from eqkir.base.dtypes import FLOATS, bits
from eqkir.rules.load import RuleFile

#: exponent and significand bits
FORMAT = {"f16": (5, 11), "bf16": (8, 8), "f32": (8, 24), "f64": (11, 53)}
OPEN = ("f16", "f32", "i8", "i32")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


def unordered(
    p: Pattern, sort: str, target: str, old: Term, new: Term, sorts: Mapping[str, str], files: Sequence[RuleFile]
) -> Proof | None:
    """Nested reductions by one operation of which the query says that its order does not matter: equal when both combine the same members,
    each once."""
    if ("unordered-fold", target) not in p.atoms:
        return None

    def members(t: Term, bound: tuple[str, ...]) -> Counter[Any]:
        if isinstance(t, tuple) and t[0] == "Red":
            operations.add(str(t[1]))
            return members(t[3], (*bound, str(t[2])))
        if isinstance(t, str) and is_variable(t):
            return Counter({(t, tuple(sorted(bound))): 1})
        raise Unknown

    operations: set[str] = set()
    left, right = members(old, ()), members(new, ())
    if len(operations) != 1 or left != right:
        return Proof(False, "multisets", f"the sides combine different members: {dict(left)} against {dict(right)}")
    return Proof(True, "both sides combine the same members, by one operation whose order does not matter")


# ------------------------------------------------------------------------------------------------ pointwise values
class _Values:
    """Terms as z3 expressions under one assignment of dtypes to variables."""

    def __init__(self, p: Pattern, dtypes: Mapping[str, str], names: Mapping[str, str]) -> None:
        import z3

        self.z, self.p, self.dtypes, self.names = z3, p, dict(dtypes), names
        self.cache: dict[str, Any] = {}

    def sort(self, dtype: str) -> Any:
        if dtype in FORMAT:
            return self.z.FPSort(*FORMAT[dtype])
        if dtype == "bool":
            return self.z.BoolSort()
        if dtype == "index" or dtype[0] in "iu":
            return self.z.BitVecSort(bits(dtype))
        raise Unknown

    def text(self, t: Term) -> str:
        if isinstance(t, str):
            return t.strip('"') if t.startswith('"') else self.names.get(t, "") or _raise()
        raise Unknown

    def dtype(self, t: Term) -> str:
        """The dtype of a value; variables have one by assignment."""
        if isinstance(t, str):
            return self.dtypes.get(t) or _raise()
        match t:
            case ("Un", fn, a):
                return "bool" if self.text(fn).startswith("is") else self.dtype(a)
            case ("Bin", fn, a, _):
                return "bool" if self.text(fn) in COMPARE else self.dtype(a)
            case ("Tri", _, _, _, c):
                return self.dtype(c)
            case ("Cast", d, _) | ("Const", _, d):
                return self.text(d)
            case ("Load", _, _, _, _, z, _):
                return self.dtype(z)
        raise Unknown

    def __call__(self, t: Term) -> Any:
        key = repr(t)
        if key not in self.cache:
            self.cache[key] = self._value(t)
        return self.cache[key]

    def _value(self, t: Term) -> Any:
        z3 = self.z
        if isinstance(t, str):
            return z3.Const(t, self.sort(self.dtypes.get(t) or _raise()))
        rne = z3.RNE()
        match t:
            case ("Un", fn, a):
                f, x, d = self.text(fn), self(a), self.dtype(a)
                if d == "bool" and f in ("neg", "abs"):
                    raise Untyped
                if f == "neg":
                    return z3.fpNeg(x) if d in FLOATS else -x
                if f == "abs" and d in FLOATS:
                    return z3.fpAbs(x)
                if f == "not":
                    return z3.Not(x) if d == "bool" else ~x
                if f == "sqrt" and d in FLOATS:
                    return z3.fpSqrt(rne, x)
                if f == "isnan" and d in FLOATS:
                    return z3.fpIsNaN(x)
                return z3.Function(f"{f} {d}", x.sort(), self.sort(self.dtype(t)))(x)
            case ("Bin", fn, a, b):
                return self.binary(self.text(fn), self.dtype(a), self(a), self(b), self.dtype(b))
            case ("Tri", fn, a, b, c):
                f = self.text(fn)
                if f == "select":
                    return z3.If(self(a), self(b), self(c))
                if f == "fma" and self.dtype(a) in FLOATS:
                    return z3.fpFMA(rne, self(a), self(b), self(c))
                raise Unknown
            case ("Cast", d, a):
                to, of, x = self.text(d), self.dtype(a), self(a)
                if to == of:
                    return x
                if to in FORMAT and of in FORMAT:
                    return z3.fpToFP(rne, x, self.sort(to))
                raise Unknown
            case ("Const", text, d):
                of = self.text(d)
                if is_variable(text):
                    return z3.Const(f"constant {text}", self.sort(of))
                value = self.text(text)
                if of in FORMAT:
                    if value in ("inf", "-inf"):
                        return z3.fpPlusInfinity(self.sort(of)) if value == "inf" else z3.fpMinusInfinity(self.sort(of))
                    return z3.fpMinusZero(self.sort(of)) if value == "-0.0" else z3.FPVal(float(value), self.sort(of))
                if of == "bool":
                    return z3.BoolVal(value == "true")
                return z3.BitVecVal(int(value), bits(of))
            case ("Load", b, n, ix, w, fill, ds):
                where = z3.Const(f"memory {b} {n} {ix} {ds}", self.sort(self.dtype(fill)))
                return z3.If(
                    z3.Const(f"valid {w}", z3.BoolSort()) if isinstance(w, str) and w not in self.dtypes else self(w), where, self(fill)
                )
        raise Unknown

    def binary(self, f: str, d: str, x: Any, y: Any, e: str) -> Any:
        z3 = self.z
        if d != e:
            raise Unknown
        if d in FLOATS:
            rne = z3.RNE()
            table = {
                "add": lambda: z3.fpAdd(rne, x, y), "sub": lambda: z3.fpSub(rne, x, y), "mul": lambda: z3.fpMul(rne, x, y),
                "div": lambda: z3.fpDiv(rne, x, y), "eq": lambda: z3.fpEQ(x, y), "ne": lambda: z3.Not(z3.fpEQ(x, y)),
                "lt": lambda: z3.fpLT(x, y), "le": lambda: z3.fpLEQ(x, y), "gt": lambda: z3.fpGT(x, y), "ge": lambda: z3.fpGEQ(x, y),
            }  # fmt: skip
        elif d == "bool":
            table = {
                "and": lambda: z3.And(x, y),
                "or": lambda: z3.Or(x, y),
                "xor": lambda: z3.Xor(x, y),
                "eq": lambda: x == y,
                "ne": lambda: x != y,
            }
        else:
            less, most = (x < y, x <= y) if d[0] != "u" else (z3.ULT(x, y), z3.ULE(x, y))
            table = {
                "add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y, "and": lambda: x & y, "or": lambda: x | y,
                "xor": lambda: x ^ y, "eq": lambda: x == y, "ne": lambda: x != y, "lt": lambda: less, "le": lambda: most,
                "gt": lambda: z3.Not(most),
                "ge": lambda: z3.Not(less),
                "maximum": lambda: z3.If(less, y, x), "minimum": lambda: z3.If(most, x, y),
            }  # fmt: skip
        if f not in table:
            return z3.Function(f"{f} {d}", x.sort(), y.sort(), x.sort())(x, y)
        return table[f]()

    def same(self, x: Any, y: Any) -> Any:
        """Bit for bit, but for the payload of NaN."""
        return x == y  # equality of terms: zeros differ by sign, NaN equals NaN


class Untyped(Exception):
    """No program has the operation at this dtype."""


def _raise() -> Any:
    raise Unknown


def pointwise(
    p: Pattern, sort: str, target: str, old: Term, new: Term, sorts: Mapping[str, str], files: Sequence[RuleFile]
) -> Proof | None:
    """Both sides hold pointwise operations alone."""
    import z3

    if sort != "V" or not {x for x in _words(new) if sorts.get(x) == "V"} <= _words(old):
        return None
    proved: list[str] = []
    for dtypes, names in _assignments(p, sorts, old, new, target, files):
        v = _Values(p, dtypes, names)
        try:
            if v.dtype(old) != v.dtype(new):
                return Proof(False, "dtypes", f"a {v.dtype(old)} on one side, a {v.dtype(new)} on the other")
            if target in dtypes and dtypes[target] != v.dtype(old):
                continue
            right = v(new)
            lefts = [v(old), *(v(x) for x in _fused(p, target, old, v))]
        except Untyped:
            continue
        except (Unknown, z3.Z3Exception):
            if proved:
                return None
            raise Unknown from None
        differ = [z3.Not(v.same(x, right)) for x in lefts]
        s = z3.Solver()
        s.set("timeout", TIMEOUT)
        s.add(*differ)
        label = ", ".join(f"{k} {d}" for k, d in sorted(dtypes.items()) if not k.startswith("?"))
        if any(z3.eq(x, right) for x in lefts):
            proved.append(label)
            continue
        r = s.check()
        if r == z3.sat:
            m = s.model()
            values = ", ".join(f"{d} = {m[d]}" for d in sorted(m.decls(), key=str) if d.arity() == 0)
            # with uninterpreted functions a model refutes nothing
            return None if any(d.arity() for d in m.decls()) else Proof(False, "values", f"{values} ({label})")
        if r != z3.unsat:
            return None
        proved.append(label)
    return Proof(True, f"equal for all values ({len(proved)} assignments of dtypes)") if proved else None


def _fused(p: Pattern, target: str, old: Term, v: _Values) -> Iterator[Term]:
    """The old side with a product rounded together with its sum, where the query makes that the product's only reader."""
    if not (isinstance(old, tuple) and old[0] == "Bin"):
        return
    held = {str(t[1]) for t in p.atoms if isinstance(t, tuple) and t[0] == "consumer1" and t[2] == target}
    fn = v.text(old[1])
    root = next((d for d in p.defined.get(target, ()) if isinstance(d, tuple) and d[0] == "Bin"), None)
    if root is None or fn not in ("add", "sub"):
        return
    for at, other in ((2, 3), (3, 2)):
        m = old[at]
        if str(root[at]) in held and isinstance(m, tuple) and m[0] == "Bin" and v.text(m[1]) == "mul" and v.dtype(m) in ("f32", "f64"):
            a, c = m[2], old[other]
            if fn == "sub" and at == 3:
                a = ("Un", '"neg"', a)
            if fn == "sub" and at == 2:
                c = ("Un", '"neg"', c)
            yield ("Tri", '"fma"', a, m[3], c)


def _assignments(
    p: Pattern, sorts: Mapping[str, str], old: Term, new: Term, target: str, files: Sequence[RuleFile]
) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Assignments of dtypes to value variables (and of texts to variables of attributes) that the query and the typing rules allow."""
    values = list(dict.fromkeys(str(y) for side in (old, new) for t in subterms(side) for y in ([t] if is_variable(t) else [])))
    values = [x for x in values if sorts.get(x) == "V"]
    texts_of = {str(t[1]) for side in (old, new) for t in subterms(side) if isinstance(t, tuple) and t[0] == "Const"}
    places = {str(x) for side in (old, new) for t in subterms(side) if isinstance(t, tuple) and t[0] == "Load" for x in t[1:4]}
    strings = [
        x for x, s in sorts.items() if s == "String" and x not in texts_of | places and any(x in _words(side) for side in (old, new))
    ]
    relations = literal_rows(files)
    told: dict[str, list[str]] = {}  # variable of text -> what it may be
    for x in strings:
        said = [d.strip('"') for d in p.defined.get(x, ()) if isinstance(d, str) and d.startswith('"')]
        told[x] = said or [*OPEN]
    linked = {str(d[1]): v for v, ds in p.defined.items() for d in ds if isinstance(d, tuple) and d[0] == "dty"}
    for v in linked.values():
        if v not in told and sorts.get(v) == "String":
            said = [d.strip('"') for d in p.defined.get(v, ()) if isinstance(d, str) and d.startswith('"')]
            told[v] = said or [*OPEN]
    conditions = [t for t in p.atoms if isinstance(t, tuple) and t[0] in relations and all(x in told for x in t[1:])]
    if conditions:
        for t in conditions:
            for i, v in enumerate(map(str, t[1:])):
                told[v] = sorted({r[i] for r in relations[str(t[0])]})
    if len(told) > 4 or len(values) > 6:
        raise Unknown
    seen = 0
    for texts in product(*told.values()):
        names = dict(zip(told, texts, strict=True))
        if any(tuple(names[str(x)] for x in t[1:]) not in relations[str(t[0])] for t in conditions):
            continue
        dtypes = {v: names[linked[v]] for v in linked if linked[v] in names}
        for base in [dtypes[target]] if target in dtypes else dict.fromkeys((*OPEN, "bool", *(x for x in texts if x in FORMAT))):
            full = _typed(old, new, values, dtypes, names, base)
            if full is not None:
                seen += 1
                yield {**dtypes, **full}, names
    if not seen:
        raise Unknown


def _words(t: Term) -> set[str]:
    return {x for x in subterms(t) if isinstance(x, str)}


def _typed(old: Term, new: Term, values: list[str], given: Mapping[str, str], names: Mapping[str, str], base: str) -> dict[str, str] | None:
    """dtypes of the value variables when the result is a `base`: operands of one operation have one dtype."""
    out = dict(given)

    def text(x: Term) -> str:
        return str(x).strip('"') if str(x).startswith('"') else names.get(str(x), "")

    def push(t: Term, d: str) -> bool:
        if isinstance(t, str):
            if out.get(t, d) != d:
                return False
            out[t] = d
            return True
        match t:
            case ("Un", fn, a):
                return push(a, "f32" if text(fn).startswith("is") else d)
            case ("Bin", fn, a, b):
                inner = d
                if text(fn) in COMPARE:
                    constants = [text(x[2]) for x in (a, b) if isinstance(x, tuple) and x[0] == "Const"]
                    known = [out[x] for x in (a, b) if isinstance(x, str) and x in out]
                    inner = (constants or known or [base if base != "bool" else "f32"])[0]
                    if d != "bool":
                        return False
                return push(a, inner) and push(b, inner)
            case ("Tri", fn, a, b, c):
                return push(a, "bool" if text(fn) == "select" else d) and push(b, d) and push(c, d)
            case ("Cast", to, a):
                if text(to) != d:
                    return False
                return a in out if isinstance(a, str) else a[0] == "Cast" and push(a, text(a[1]))
            case ("Const", _, of):
                return text(of) == d
            case ("Load", _, _, _, w, z, _):
                return push(w, "bool") and push(z, d)
        return True

    if not push(old, base) or not push(new, base):
        return None
    return {v: out[v] for v in values if v in out} if all(v in out for v in values) else None


def literal_rows(files: Sequence[RuleFile]) -> dict[str, set[tuple[str, ...]]]:
    """Rows of the files' own relations over texts that their fact rules give as literals (``(contracts "f32")``)."""
    out: dict[str, set[tuple[str, ...]]] = {}
    whole: set[str] = set()
    for f in files:
        for r in f.rules:
            for ast in r.asts:
                p = pattern(ast)
                for t, _ in p.inserts:
                    if not isinstance(t, tuple) or t[0] == "set":
                        continue
                    row = [
                        next((d for d in (x, *p.defined.get(str(x), ())) if isinstance(d, str) and d.startswith('"')), "") for x in t[1:]
                    ]
                    if all(row):
                        out.setdefault(str(t[0]), set()).add(tuple(x.strip('"') for x in row))
                    else:
                        whole.add(str(t[0]))
    return {k: v for k, v in out.items() if k not in whole}
