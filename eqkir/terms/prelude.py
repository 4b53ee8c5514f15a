"""The vocabulary as egglog text: declarations, facts and placement, made from the operation table.

Placement (ruleset ``place``) says what a request means, not what is chosen: it carries contexts into values, settles positions and realises
operations that have one form. Everything with alternatives is a rule of `rulesets/`. docs/rules.md describes each relation.
"""

from __future__ import annotations

from typing import Final

from eqkir.program.table import ABSTRACT, ROWS, Row

SORTS: Final = ("IX", "IXL", "AL", "Path", "V", "VL", "St", "G", "GL", "F", "FL", "S", "T", "SG", "SGL")
FAMILIES: Final = ("regroup", "own", "narrow", "realize", "access", "algebra", "implement")
REQUESTS: Final = {
    "At": (("L", "Path", "i64", "V"), "F"),
    "Here": (("L", "Path", "i64", "V"), "F"),
    "Want": (("L", "Path", "i64", "V"), "F"),
    "WantL": (("L", "Path", "i64", "VL"), "FL"),
    "AtS": (("L", "St"), "S"),
    "WantS": (("L", "St"), "S"),
    "Nest": (("L", "Path", "i64", "AL", "St"), "S"),
    "Order": (("L", "AL"), "T"),
    "RealG": (("G",), "SG"),
    "RealGL": (("GL",), "SGL"),
}
PATHS: Final = {"Top": (), "Fn": (), "In": ("Path", "String", "String", "i64")}

_TABLES: Final = """
; facts of the source, written by encode only
(function axlab (String) L :no-merge)      ; an axis' name and all its labels
(function coordlab (String) L :no-merge)   ; what a coordinate depends on: axlab, and the seg axis of a mem axis
(relation lab (String String))             ; axis, label
(relation looped (String))                 ; the label is an ordered loop (L1, LC)
(relation chunked (String))                ; the label is a loop over chunks (LC)
(relation whole (String))                  ; the label is one fragment over the axis (W), or over the members of a slice (M1, MC, MW)
(relation single (String))                 ; the label is a loop by one element (L1)
(relation sliced (String))                 ; the label is a loop over slices (S1, SC)
(relation oneslice (String))               ; the label takes the axis as one slice (SW)
(relation member (String String String))   ; mem axis, label of its seg axis, its own label then
(function bundle (String) L :no-merge)     ; a label and, of a slice, the labels of its members
(relation inslice (String))                ; mem axes: reduced by a fragment, never by a loop
(relation loopable (String))               ; the others
(relation slices (String String String))   ; a loop axis, its seg axis and the mem axis of that: present where a permission may need them
(relation unordered (String))              ; axes whose members may be taken in any order by a store
(relation step-block (String String))      ; O1 -> OB of an axis
(relation step-chunk (String String))      ; L1 -> LC
(relation step-whole (String String))      ; L1 -> W
(relation step-narrow (String String))     ; a loop label -> the loop between the bounds of its axis, where it has any
(relation step-met (String String))        ; a loop label of groups -> the loop over those that the instance's rows may meet
(relation narrows (V String))              ; operation, axis: outside the bounds of the axis it takes in nothing
(relation counted (V V))                   ; a reduction, the same over members counted from its lower bound
(relation narrowslices (String))           ; seg axes with the bounds of the axis that they slice
(relation shared (String))                 ; bound by several operations or stored over: traversed as the context says
(relation private (String))                ; bound by one operation: traversed by any enabled label
(relation en (String))                     ; enabled labels
(relation VEC (L))                         ; labels with more than one lane
(relation INST (L))                        ; labels of instance axes
(relation dmax (i64))                      ; the last stage of a block
(relation late (String i64))               ; stores that wait for every loop of their block
(relation early (String i64))
(relation consumer1 (V V))                 ; authored single use: operand, its only user
(relation orders (St AL))                  ; loop nests of a store
(function vdt (String) String :no-merge)   ; dtype of a view
(function verlab (String i64) L :no-merge) ; labels of the ordered loops inside which a version of a view lives
(function alias (String) String :no-merge) ; alias class of a view
(relation does (String String String String)) ; an implementation, an operation that it does, the forms of the first two operands
(relation formed (String F L Path String)) ; a form that a value has, its labels, its position, the label along which vectors run
; derived facts
(function ixf (IX) L :no-merge) (function ixfL (IXL) L :no-merge)
(function flab (V) L :no-merge) (function flabL (VL) L :no-merge)
(function occ (V) L :merge (set-union old new)) (function occL (VL) L :merge (set-union old new))
(function occS (St) L :merge (set-union old new))
(function dty (V) String :no-merge)
(relation nth (VL i64 V))
(relation hasd (V i64)) (relation hasdL (VL i64)) (relation hasdS (St i64))
(relation ends (V i64))                    ; stages of loops that may finish the value
(function rd (V) L :merge (set-intersect old new)) (function rdL (VL) L :merge (set-intersect old new))
(function rdS (St) L :merge (set-intersect old new)) (function wrS (St) L :merge (set-intersect old new))
(relation onephase (St))                   ; one phase
(function base (G) L :merge (set-union old new)) (relation plan (G L))
(relation bind (V L String))               ; demand: the context must say how the axis that a value binds is traversed
(relation binds (V L String String L))     ; value, context, axis, label, context of the body
"""


def declarations() -> str:
    """Sorts, constructors, requests, tables and rulesets."""
    out = ["(sort L (Set String))", *(f"(sort {s})" for s in SORTS)]
    out += [f"(constructor {n} ({' '.join(a)}) Path)" for n, a in PATHS.items()]
    out += [f"(constructor {r.name} ({' '.join('V' if f == 'K' else f for f in r.fields)}) {r.sort})" for r in ROWS.values()]
    out += [f"(constructor {n} ({' '.join(a)}) {s} :unextractable)" for n, (a, s) in REQUESTS.items()]
    out += [_TABLES] + [f"(ruleset {r})" for r in ("load", "facts", "place", *FAMILIES)]
    return "\n".join(out)


def _union(xs: list[str]) -> str:
    return "(set-empty)" if not xs else xs[0] if len(xs) == 1 else f"(set-union {xs[0]} {_union(xs[1:])})"


def _max(xs: list[str]) -> str:
    return "0" if not xs else xs[0] if len(xs) == 1 else f"(max {xs[0]} {_max(xs[1:])})"


def _pattern(r: Row) -> tuple[str, list[tuple[str, str]], dict[int, str]]:
    """(pattern with variables a0…, [(variable, "" | "L") of value operands], field index -> variable)."""
    names = {i: f"a{i}" for i in range(len(r.fields))}
    kids = [(names[i], "L" if r.fields[i] == "VL" else "") for i in r.child_fields]
    return f"({r.name} {' '.join(names.values())})", kids, names


def _value_facts(r: Row) -> list[str]:
    pat, kids, names = _pattern(r)
    out = []
    structured = r.bound >= 0
    axis = names[r.bound] if structured else ""
    extra_free = {"Index": [("(= i0 (ixf a0))", "i0")], "Load": [("(= i0 (ixfL a2))", "i0"), ("(= i1 (verlab a0 a1))", "i1")]}.get(
        r.name, []
    )

    def fact(fn: str, value: str, q: str = "", need: bool = True) -> None:
        qs = " ".join(f"(= x_{v} ({fn}{s} {v}))" for v, s in kids) if need else ""
        out.append(f"(rule ((= v {pat}) {qs} {q}) ((set ({fn} v) {value})) :ruleset facts)")

    if r.name == "Form":
        return [
            "(rule ((= v (Form y i d s))) ((set (flab v) s) (set (occ v) s) (set (rd v) (set-empty)) (set (dty v) d) (hasd v 0)) "
            ":ruleset facts)"
        ]
    if r.name == "Slice":
        return list(_SLICE)
    if r.name in ("State", "WState"):
        extra_free = [("(= i0 (axlab a0))", "i0")]
    xs = [f"x_{v}" for v, _ in kids] + [v for _, v in extra_free]
    q = " ".join(p for p, _ in extra_free)
    if structured:
        out_axis = f"(= s (axlab {axis}))"
        fact("flab", f"(set-diff {_union(xs)} s)", f"{q} {out_axis}")
        fact("occ", _union(xs), f"{q} (shared {axis})")
        fact("occ", f"(set-diff {_union(xs)} s)", f"{q} {out_axis} (private {axis})")
    elif r.name == "Pick":
        for t in ("(RedN c i e f)", "(ScanN c i e f)"):
            fact("flab", "x_a1", f"(= a1 {t})")
        state = "(nth i a0 u) (nth e a0 w) (= s (axlab c)) (= x (flab u)) (= z (flab w))"  # a state varies along axes of its own
        fact("flab", "(set-diff (set-union x z) s)", f"(= a1 (Fold c y i e f)) {state}", need=False)
        fact("flab", "(set-diff (set-union x (set-union z g)) s)", f"(= a1 (While c y i e f)) {state} (= g (flab f))", need=False)
        fact("occ", _union(xs), q)
    else:
        fact("flab", _union(xs), q)
        fact("occ", _union(xs), q)
    reads = [f"x_{v}" for v, _ in kids] + (["(set-of al)"] if r.name == "Load" else [])
    fact("rd", _union(reads), "(= al (alias a0))" if r.name == "Load" else "")
    qs = " ".join(f"(hasd{s} {v} d_{v})" for v, s in kids)
    m = _max([f"d_{v}" for v, _ in kids])
    if structured:
        out.append(f"(rule ((= v {pat}) {qs} (loopable {axis}) (dmax n) (= m {m}) (< m n)) ((hasd v (+ 1 m)) (ends v m)) :ruleset facts)")
        out.append(f"(rule ((= v {pat}) {qs} (inslice {axis})) ((hasd v {m})) :ruleset facts)")
    else:
        out.append(f"(rule ((= v {pat}) {qs}) ((hasd v {m})) :ruleset facts)")
    match r.name:
        case "Const" | "Scalar" | "Index" | "Con" | "ConAcc":
            fact("dty", "a1", need=False)
        case "Arg":
            fact("dty", "a2", need=False)
        case "Load":
            fact("dty", "d", "(= d (vdt a0))", need=False)
        case "Cast" | "Bitcast":
            fact("dty", "a0", need=False)
        case "Permit":
            fact("dty", "d", "(= d (dty a1))", need=False)
        case "Red" | "Scan":
            fact("dty", "d", "(= d (dty a2))", need=False)
        case "RedN" | "ScanN" | "Fold" | "While":
            fact("dty", '"tuple"', need=False)
        case "State" | "WState":
            fact("dty", "d", "(nth a3 a2 w) (= d (dty w))", need=False)
        case "Pick":
            for t in ("(RedN c i e f)", "(ScanN c i e f)", "(Fold c y e i f)", "(While c y e i f)"):
                fact("dty", "d", f"(= a1 {t}) (nth e a0 w) (= d (dty w))", need=False)
        case "Tri":
            fact("dty", "d", "(= d (dty a2))", need=False)
        case "Un":
            fact("dty", "d", '(= d (dty a1)) (!= a0 "isnan") (!= a0 "isinf") (!= a0 "isfinite")', need=False)
            out += [f'(rule ((= v (Un "{f}" a))) ((set (dty v) "bool")) :ruleset facts)' for f in ("isnan", "isinf", "isfinite")]
        case "Bin":
            cmp = ("eq", "ne", "lt", "le", "gt", "ge")
            fact("dty", "d", "(= d (dty a1)) " + " ".join(f'(!= a0 "{f}")' for f in cmp), need=False)
            out += [f'(rule ((= v (Bin "{f}" a b))) ((set (dty v) "bool")) :ruleset facts)' for f in cmp]
    return out


#: facts of a value whose axis is taken as the members of slices: the axis goes, the member axis (and with it the slice) comes
_SLICE: Final = tuple(
    f"(rule ((= v (Slice c m a)) (= x ({fn} a)) (= s (axlab c)) (= n (coordlab m)) (= fa (flab a)) (set-contains fa c)) "
    f"((set ({fn} v) (set-union (set-diff x s) n))) :ruleset facts)"
    for fn in ("flab", "occ")
) + (
    *(
        f"(rule ((= v (Slice c m a)) (= x ({fn} a)) (= fa (flab a)) (set-not-contains fa c)) ((set ({fn} v) x)) :ruleset facts)"
        for fn in ("flab", "occ")
    ),
    "(rule ((= v (Slice c m a)) (= d (dty a))) ((set (dty v) d)) :ruleset facts)",
    "(rule ((= v (Slice c m a)) (= x (rd a))) ((set (rd v) x)) :ruleset facts)",
    "(rule ((= v (Slice c m a)) (hasd a k)) ((hasd v k)) :ruleset facts)",
)

_FACTS: Final = """
(rule ((= e (IInt n))) ((set (ixf e) (set-empty))) :ruleset facts)
(rule ((= e (ISym n))) ((set (ixf e) (set-empty))) :ruleset facts)
(rule ((= e (IDep n))) ((set (ixf e) (set-empty))) :ruleset facts)
(rule ((= e (ICoord a)) (= s (coordlab a))) ((set (ixf e) s)) :ruleset facts)
(rule ((= e (IBin o a b)) (= x (ixf a)) (= y (ixf b))) ((set (ixf e) (set-union x y))) :ruleset facts)
(rule ((= e (INot a)) (= x (ixf a))) ((set (ixf e) x)) :ruleset facts)
(rule ((= e (ISel a b c)) (= x (ixf a)) (= y (ixf b)) (= z (ixf c))) ((set (ixf e) (set-union x (set-union y z)))) :ruleset facts)
(rule ((= e (INil))) ((set (ixfL e) (set-empty))) :ruleset facts)
(rule ((= e (ICons a b)) (= x (ixf a)) (= y (ixfL b))) ((set (ixfL e) (set-union x y))) :ruleset facts)
(rule ((= e (ISub c m a)) (= x (ixf a)) (= s (axlab c)) (= n (coordlab m)) (set-contains x c))
      ((set (ixf e) (set-union (set-diff x s) n))) :ruleset facts)
(rule ((= e (ISub c m a)) (= x (ixf a)) (set-not-contains x c)) ((set (ixf e) x)) :ruleset facts)
(rule ((= e (ILSub c m a)) (= x (ixfL a)) (= s (axlab c)) (= n (coordlab m)) (set-contains x c))
      ((set (ixfL e) (set-union (set-diff x s) n))) :ruleset facts)
(rule ((= e (ILSub c m a)) (= x (ixfL a)) (set-not-contains x c)) ((set (ixfL e) x)) :ruleset facts)
(rule ((= l (VNil))) ((set (flabL l) (set-empty)) (set (occL l) (set-empty)) (set (rdL l) (set-empty)) (hasdL l 0)) :ruleset facts)
(rule ((= l (VCons h t)) (= x (flab h)) (= y (flabL t))) ((set (flabL l) (set-union x y))) :ruleset facts)
(rule ((= l (VCons h t)) (= x (occ h)) (= y (occL t))) ((set (occL l) (set-union x y))) :ruleset facts)
(rule ((= l (VCons h t)) (= x (rd h)) (= y (rdL t))) ((set (rdL l) (set-union x y))) :ruleset facts)
(rule ((= l (VCons h t)) (hasd h m) (hasdL t n)) ((hasdL l (max m n))) :ruleset facts)
(rule ((= l (VCons h t))) ((nth l 0 h)) :ruleset facts)
(rule ((= l (VCons h t)) (nth t i v)) ((nth l (+ i 1) v)) :ruleset facts)
(rule ((= s (APut b n ix md mo sh rb rx v w ds)) (= i (ixfL ix)) (= r (ixfL rx)) (= x (occ v)) (= y (occ w)) (= z (occL ds))
       (= fi (verlab b n)))
      ((set (occS s) (set-union fi (set-union r (set-union i (set-union x (set-union y z))))))) :ruleset facts)
(rule ((= s (APut b n ix md mo sh rb rx v w ds)) (= x (rd v)) (= y (rd w)) (= z (rdL ds)) (= rb "-") (= al (alias b)))
      ((set (rdS s) (set-union x (set-union y z))) (set (wrS s) (set-of al)) (onephase s)) :ruleset facts)
(rule ((= s (APut b n ix md mo sh rb rx v w ds)) (= x (rd v)) (= y (rd w)) (= z (rdL ds)) (= al (alias b)) (= rl (alias rb)))
      ((set (rdS s) (set-union x (set-union y z))) (set (wrS s) (set-of al rl)) (onephase s)) :ruleset facts)
(rule ((= s (APut b n ix md mo sh rb rx v w ds)) (hasd v k) (hasd w l) (hasdL ds m)) ((hasdS s (max k (max l m)))) :ruleset facts)
(rule ((= s (APar a b)) (onephase a) (onephase b)) ((onephase s)) :ruleset facts)
; the context of a body: a shared bound axis is traversed as the context says, a private one by any enabled label
(rule ((bind v x c) (shared c) (lab c l) (set-contains x l)) ((binds v x c l x)) :ruleset facts)
(rule ((bind v x c) (private c) (loopable c) (lab c l) (en l)) ((binds v x c l (set-insert x l))) :ruleset facts)
; the members of a slice: as the context takes slices
(rule ((bind v x c) (member c l m) (set-contains x l)) ((binds v x c m (set-insert x m))) :ruleset facts)
"""

_PAIRS: Final = """
(rule ((= s ({n} a b)) (= x (occS a)) (= y (occS b))) ((set (occS s) (set-union x y))) :ruleset facts)
(rule ((= s ({n} a b)) (= x (rdS a)) (= y (rdS b))) ((set (rdS s) (set-union x y))) :ruleset facts)
(rule ((= s ({n} a b)) (= x (wrS a)) (= y (wrS b))) ((set (wrS s) (set-union x y))) :ruleset facts)
"""

_PLACE: Final = """
; ---- a group under every plan is a segment; the program is the list of its segments
(rule ((= g (Grp al s)) (= x (base g))) ((plan g x)) :ruleset place :name "base-plan")
(rule ((= g (Grp al s)) (plan g x) (INST il)) ((union (RealG g) (Seg "grid" (Order (set-intersect x il) al) (WantS x s)))) :ruleset place :name "segment")
(rule ((= f (RealGL l)) (= l (GCons g t))) ((union f (SGCons (RealG g) (RealGL t)))) :ruleset place :name "program")
(rule ((= f (RealGL l)) (= l (GNil))) ((union f (SGNil))) :ruleset place :name "program-end")
(rule ((= t (Order x al)) (= al (ANil))) ((union t (TUnit))) :ruleset place :name "order-unit")
(rule ((= t (Order x al)) (= al (ACons a r)) (= r (ANil)) (lab a l) (set-contains x l)) ((union t (TAx l))) :ruleset place :name "order-axis")
(rule ((= t (Order x al)) (= al (ACons a r)) (= r (ACons b q)) (lab a l) (set-contains x l)) ((union t (TProd (TAx l) (Order x r)))) :ruleset place :name "order-product")
; ---- statements
(rule ((= f (WantS x s)) (= o (occS s))) ((union f (AtS (set-intersect x o) s))) :ruleset place :name "statement")
(rule ((= f (AtS x s)) (= s (APar a b))) ((union f (SPar (WantS x a) (WantS x b)))) :ruleset place :name "statement-par")
(rule ((= f (AtS x s)) (= s (ASeq a b))) ((union f (SSeq (WantS x a) (WantS x b)))) :ruleset place :name "statement-seq")
(rule ((= f (AtS x s)) (= s (APut b n ix md mo sh rb rx v w ds)) (early b n) (hasdS s k) (orders s al)) ((union f (Nest x (Top) k al s))) :ruleset place :name "store-when-ready")
(rule ((= f (AtS x s)) (= s (APut b n ix md mo sh rb rx v w ds)) (late b n) (dmax k) (orders s al)) ((union f (Nest x (Top) k al s))) :ruleset place :name "store-last")
(rule ((= f (Nest x p k al s)) (= al (ACons a r)) (lab a l) (set-contains x l) (looped l)) ((union f (Nest x (In p a l k) k r s))) :ruleset place :name "store-loop")
(rule ((= f (Nest x p k al s)) (= al (ACons a r)) (lab a l) (set-contains x l) (whole l)) ((union f (Nest x p k r s))) :ruleset place :name "store-whole")
(rule ((= f (Nest x p k al s)) (= al (ANil)) (= s (APut b n ix md mo sh rb rx v w ds)) (= i (ixfL ix)) (= r (ixfL rx)) (= fv (flab v)) (= fw (flab w)) (= fd (flabL ds)) (= fi (verlab b n)))
      ((union f (SStore (set-intersect x (set-union fi (set-union (set-union (set-union i r) fv) (set-union fw fd)))) p b n ix md mo sh rb rx (Want x p k v) (Want x p k w) (WantL x p k ds)))) :ruleset place :name "store")
; ---- positions: a value without the innermost loop's axis belongs to the block outside, at the stage of that loop
(rule ((= f (Want x p k v)) (= o (occ v))) ((union f (At (set-intersect x o) p k v))) :ruleset place :name "want")
(rule ((= f (WantL x p k l)) (= l (VCons h t))) ((union f (FCons (Want x p k h) (WantL x p k t)))) :ruleset place :name "want-list")
(rule ((= f (WantL x p k l)) (= l (VNil))) ((union f (FNil))) :ruleset place :name "want-nil")
(rule ((= f (At x p k v)) (= p (Top))) ((union f (Here x p k v))) :ruleset place :name "here-top")
(rule ((= f (At x p k v)) (= p (Fn))) ((union f (Here x p k v))) :ruleset place :name "here-region")
(rule ((= f (At x p k v)) (= p (In b a l q)) (= s (flab v)) (set-contains s a)) ((union f (Here x p k v))) :ruleset place :name "here-loop")
(rule ((= f (At x p k v)) (= p (In b a l q)) (= s (flab v)) (set-not-contains s a)) ((union f (At x b q v))) :ruleset place :name "hoist")
; ---- operations with one form
(rule ((= f (Here x p k v)) (= v (Const z d))) ((union f (FReady k (FConst z d)))) :ruleset place :name "const")
(rule ((= f (Here x p k v)) (= v (Scalar n d))) ((union f (FReady k (FScalar n d)))) :ruleset place :name "scalar")
(rule ((= f (Here x p k v)) (= v (Arg s i d))) ((union f (FReady k (FArg s i d)))) :ruleset place :name "formal")
(rule ((= f (Here x p k v)) (= v (Index e d ds)) (= fv (flab v))) ((union f (FReady k (FIndex (set-intersect x fv) p e d (WantL x p k ds))))) :ruleset place :name "index")
(rule ((= f (Here x p k v)) (= v (Load b n ix w z ds)) (= fv (flab v)))
      ((union f (FReady k (FLoad (set-intersect x fv) p b n ix "ptr" (Want x p k w) (Want x p k z) (WantL x p k ds))))) :ruleset place :name "load")
(rule ((= f (Here x p k v)) (= v (Un o a)) (= fv (flab v))) ((union f (FUn (set-intersect x fv) p o (Want x p k a)))) :ruleset place :name "unary")
(rule ((= f (Here x p k v)) (= v (Bin o a b)) (= fv (flab v))) ((union f (FBin (set-intersect x fv) p o (Want x p k a) (Want x p k b)))) :ruleset place :name "binary")
(rule ((= f (Here x p k v)) (= v (Tri o a b c)) (= fv (flab v)))
      ((union f (FTri (set-intersect x fv) p o (Want x p k a) (Want x p k b) (Want x p k c)))) :ruleset place :name "ternary")
(rule ((= f (Here x p k v)) (= v (Cast d a)) (= fv (flab v))) ((union f (FCast (set-intersect x fv) p d (Want x p k a)))) :ruleset place :name "cast")
(rule ((= f (Here x p k v)) (= v (Bitcast d a)) (= fv (flab v))) ((union f (FBitcast (set-intersect x fv) p d (Want x p k a)))) :ruleset place :name "bitcast")
; what one value is permitted is permitted to no other: the exact value, as a value of its own
(rule ((= f (Here x p k v)) (= v (Permit o a))) ((union f (FReady -1 (Want x p k a)))) :ruleset place :name "permit")
(rule ((= f (Here x p k v)) (= v (Form y i d s))) ((union f (FReady k (FForm (set-intersect x s) p y i d)))) :ruleset place :name "form")
; a state before the current step: carried by the loop that the value stands in, over single elements or slices
(rule ((= f (Here x p k v)) (= v (State c y i ii yy)) (= p (In b c l q)) (single l) (= fv (flab v)))
      ((union f (FReady k (FState (set-intersect x fv) p y i (WantL x b q ii) (WantL x p k yy))))) :ruleset place :name "state")
(rule ((= f (Here x p k v)) (= v (State c y i ii yy)) (= p (In b c l q)) (sliced l) (= fv (flab v)))
      ((union f (FReady k (FState (set-intersect x fv) p y i (WantL x b q ii) (WantL x p k yy))))) :ruleset place :name "state-slices")
; the same of a while loop, which runs while the condition holds
(rule ((= f (Here x p k v)) (= v (WState c y i ii yy w)) (= p (In b c l q)) (single l) (= fv (flab v)))
      ((union f (FReady k (FWState (set-intersect x fv) p y i (WantL x b q ii) (WantL x p k yy) (Want x p k w))))) :ruleset place :name "state-while")
(rule ((= f (Here x p k v)) (= v (Pick i a))) ((union f (FPick i (Want x p k a)))) :ruleset place :name "pick")
"""  # noqa: E501


def facts() -> str:
    """Bottom-up facts of values, statements and index expressions."""
    out = [line for r in ABSTRACT for line in _value_facts(r)]
    return "\n".join([*out, _FACTS, *(_PAIRS.replace("{n}", n) for n in ("APar", "ASeq"))])


def placement() -> str:
    """Placement rules, and the demand for how a structured operation's axis is traversed."""
    demand = [
        f"(rule ((= f (Here x p k v)) (= v {_pattern(r)[0]})) ((bind v x a{r.bound})) :ruleset place)" for r in ABSTRACT if r.bound >= 0
    ]
    return "\n".join([_PLACE, *demand])


def vocabulary() -> str:
    """Everything that is declared before a program is loaded."""
    return "\n".join([declarations(), facts(), placement()])
