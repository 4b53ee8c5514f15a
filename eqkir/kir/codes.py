"""The diagnostics of the KIR front end: one row a code."""

from __future__ import annotations

from eqkir.base.diagnostics import register

STAGE = "kir"
_TABLE: dict[str, tuple[str, str]] = {
    # reading
    "FILE": ("the file cannot be read", "The path does not exist, is a directory, or may not be read."),
    "UTF8": ("the file is not UTF-8", "KIR is JSON in UTF-8 without a byte order mark; the message names the first bad byte."),
    "JSON": ("the file is not JSON", "The text breaks the JSON grammar (RFC 8259), is truncated, or something follows the value."),
    "DEPTH": ("nested too deeply", "Arrays and objects nest at most 200 deep; no kernel needs more than a few dozen."),
    "SIZE": ("the file is too large", "At most 64 MiB, one million JSON values and 4096 kernels are read."),
    "DUPKEY": ("a key occurs twice in one object", "Which of the two values counts is undefined in JSON, so neither is taken."),
    "NUMBER": (
        "a number that KIR does not take",
        "NaN, Infinity and numbers beyond the range of f64 or of 128-bit integers are not JSON numbers; write the strings "
        '"nan", "inf", "-inf" as the value of a float constant.',
    ),
    "VERSION": ("unknown schema version", 'A module starts with "kir": 1. An older version is migrated; a newer one needs a newer eqkir.'),
    "OP": ("unknown operation", "The `op` of an operation must be one of those that `eqkir schema` lists."),
    "KIND": ("unknown kind of parameter", "The `kind` of a parameter is view, scalar or constexpr."),
    "FIELD": ("a field is missing or unknown", "Every object has the fields of the schema (`eqkir schema`) and no others."),
    "VALUE": ("a field holds a value of the wrong kind", "The value has the wrong JSON type or lies outside its range; none is converted."),
    # names
    "NAME": ("a name is defined twice", "Values, parameters and symbols of a kernel share one name space; kernels of a module another."),
    "ID": ("an id that nothing defines", "An operand names a value that neither an operation, a region argument nor a parameter defines."),
    "ORDER": ("used before its definition", "Operations stand in order: an operand is defined by an earlier operation."),
    "CYCLE": ("values that depend on each other", "Values are immutable: no value may depend on itself through other operations."),
    "SCOPE": ("a value used outside its region", "A value defined inside a region (a parallel body, a combine) is visible there only."),
    "SYMBOL": (
        "an unknown or ill-declared symbol",
        "Extents name a declared symbol, an int constexpr or an integer scalar (views: a symbol or an int constexpr). A symbol's min, max "
        "and multiple_of must leave at least one value.",
    ),
    "EXTENT": (
        "a malformed extent",
        'An extent is an int >= 0, a name, or [op, a, b] with op one of add sub mul floordiv mod min max; "floordiv" and "mod" need a '
        "positive constant divisor; a constant extent may not be negative.",
    ),
    "VIEW": ("an unknown view", "Loads, stores and noalias name a parameter of kind view."),
    "NOALIAS": ("a malformed noalias set", "A noalias set holds at least two different views of the kernel."),
    "CONSTEXPR": ("a malformed constexpr", "The default has the declared type; an enum has distinct choices, its default among them."),
    # types
    "KIND-OF-VALUE": ("a domain where a tensor is needed, or the reverse", "Domains are not tensors: `indices` gives their coordinates."),
    "DTYPE": ("operands of the wrong dtype", "No operation converts: the dtypes must be those that the operation states; use `cast`."),
    "SHAPE": (
        "shapes that do not fit",
        "Two extents are equal only if they are one expression after the declared equalities; size 1 broadcasts, aligned from the right.",
    ),
    "AXIS": ("an axis that does not exist, or twice", "Axes are 0 <= axis < rank, each at most once; a permutation names each axis once."),
    "COORDS": ("wrong number of coordinates", "A load or store has one coordinate for each axis of the view."),
    "RESULTS": ("wrong number of results", "The operation defines another number of values than `results` names."),
    "CONSTANT": (
        "a constant that its dtype cannot hold",
        'bool takes true or false, integers an integer in range, floats a number or "nan" "inf" "-inf" (f8e4m3fn has no infinity and a '
        "largest value of 448).",
    ),
    "REGION": (
        "a malformed region",
        "A combine region takes 2n scalars of the operands' dtypes and yields n of them, uses pointwise operations on its own values "
        "only, and n identities of those dtypes stand beside it; a parallel body takes one index point a domain and yields nothing.",
    ),
    "CARRY": (
        "a carried value changes its type",
        "A carry of a loop has one type: of its initial value, of the region's argument, of every yield, `break` and `continue`. Both "
        "regions of an `if` yield the same types.",
    ),
    "LOOP": ("break or continue outside a loop", "They stand in the body of a `for` or `while`, with nothing but `if`s in between."),
    "RECORD": ("misuse of a record", "Fields have distinct names and are tensors or records; what is read is a field that it has."),
    "PURITY": (
        "an effect where none is allowed",
        "The regions of structured operations and the condition of a `while` write nothing; combine and apply regions do not read memory "
        "either. A helper that is declared pure changes nothing.",
    ),
    "SLICE": (
        "the extent of a slice used as a value",
        "The slices of a region fold or scan are the compiler's: their number, extents and boundaries are not observable.",
    ),
    "SUBREGION": ("a part that lies outside its domain", "A subregion never clamps: unless it is empty it lies inside its source."),
    "ATOMIC": (
        "an atomic operation that does not exist",
        "Atomics work on integers and on f16 bf16 f32 f64; and, or, xor on integers; max and min on integers, f32 and f64.",
    ),
    "FORMAT": ("operands that do not fit an encoding", "The operation states dtype, rank and extents of what it decodes or encodes."),
    "APPROXIMATE": (
        "an approximation that does not exist",
        "`approximate` and `flush_to_zero` belong to div, exp2 and tanh of f32 alone.",
    ),
    "HELPER": (
        "an ill-formed helper or call",
        "A call names a helper of the module, gives one value an argument and one view or buffer a view argument, of its types; the "
        "calling kernel has the constexprs that the helper captures.",
    ),
    "RECURSION": ("helpers that call each other in a circle", "Helpers do not recurse."),
    # effects
    "READ-OUT": ("an `out` view is read before it was written", "An `out` view's contents are undefined; declare it `inout` to read it."),
    "WRITE-IN": ("an `in` view is written", "Declare the view `out` or `inout` to store to it."),
    "NO-EFFECT": ("the kernel stores nothing", "A kernel without a store computes nothing that a caller can see."),
    "UNWRITTEN": ("a buffer that nothing has written is read", "A buffer without an initial value has no contents before a write."),
    "CONFLICT": (
        "two points write (or one writes and one reads) one element",
        "Points of a parallel, and elements of one whole-tensor store, are unordered, so each must touch elements of its own: the "
        "coordinates must tell them apart. Here they provably do not.",
    ),
    "BOUNDS": ("a coordinate that lies outside the view", "Coordinates never clamp or wrap: 0 <= coordinate < extent where `valid` holds."),
    "SHIFT": ("a shift amount outside its range", "Shifts need 0 <= n < the width of the dtype."),
    "DIVISION": ("an integer division by zero", "`floordiv` and `mod` by zero are invalid input."),
    "CAST": ("a constant cast that has no result", "Casting NaN, an infinity or an out-of-range value to an integer is invalid."),
    # the builder
    "BUILD": ("the builder cannot express this", "The Python front end was called with something that it does not take."),
}  # fmt: skip

CODES = {key: register(f"EQK-KIR-{key}", title, explanation) for key, (title, explanation) in _TABLE.items()}
