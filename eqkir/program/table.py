"""The one table of operations: egglog declarations, encode, freeze and decode all read it.

A row gives a constructor's result sort and the sorts of its fields, in order. Field sorts: ``L`` label set, ``Path`` position, ``IX`` /
``IXL``
index expression(s), base sorts ``String`` / ``i64`` (attributes), ``K`` (a value that only names a traversal: an attribute), and term
sorts (children). A row with `realises` is the realised form of that abstract
operation. ``bound`` names the attribute that holds the bound axis (abstract) of a structured operation; `loop` marks realisations whose
body is the loop
at the end of their path (children in `outer` are read where the loop starts).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

BASE: Final = ("String", "i64")
TERM: Final = ("V", "VL", "F", "FL", "St", "S", "G", "GL", "SG", "SGL", "T")


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    sort: str
    fields: tuple[str, ...]
    realises: str = ""
    bound: int = -1  # index into fields
    loop: bool = False
    outer: tuple[int, ...] = ()  # indices into the children (F / FL fields in order)
    region: tuple[int, ...] = ()  # children that are closed combine regions
    by: str = ""  # this row is the operation of that name, done by the implementation that its first field names

    @property
    def attr_fields(self) -> tuple[int, ...]:
        """Indices of the fields that are attributes (base sorts and index expressions)."""
        return tuple(i for i, s in enumerate(self.fields) if s in (*BASE, "IX", "IXL", "K"))

    @property
    def child_fields(self) -> tuple[int, ...]:
        return tuple(i for i, s in enumerate(self.fields) if s in TERM)


def _rows(sort: str, text: str) -> list[Row]:
    out = []
    for line in text.strip().splitlines():
        name, *fields = line.split()
        kw: dict[str, object] = {}
        fs = []
        for f in fields:
            if "=" in f:
                k, v = f.split("=")
                kw[k] = v if k == "realises" else int(v) if k == "bound" else v == "1" if k == "loop" else tuple(map(int, v.split(",")))
            else:
                fs.append(f)
        out.append(Row(name, sort, tuple(fs), **kw))  # type: ignore[arg-type]
    return out


ABSTRACT: Final = _rows("V", """
Const String String
Scalar String String
Index IX String VL
Load String i64 IXL V V VL
Un String V
Bin String V V
Tri String V V V
Cast String V
Bitcast String V
Permit String V
Arg String i64 String
Pick i64 V
Red String String V bound=1
RedN String VL VL VL bound=0 region=2
Con String String V V bound=0
ConAcc String String V V V bound=0
Scan String String V
ScanN String VL VL VL region=2
Fold String K VL VL VL bound=0
While String K VL VL V bound=0
Form K i64 String L
State String K i64 VL VL
WState String K i64 VL VL V
Slice String String V
""")  # fmt: skip

REALISED: Final = _rows("F", """
FConst String String realises=Const
FScalar String String realises=Scalar
FIndex L Path IX String FL realises=Index
FLoad L Path String i64 IXL String F F FL realises=Load
FUn L Path String F realises=Un
FBin L Path String F F realises=Bin
FTri L Path String F F F realises=Tri
FCast L Path String F realises=Cast
FBitcast L Path String F realises=Bitcast
FArg String i64 String realises=Arg
FPick i64 F realises=Pick
FRedTree L Path String String F realises=Red
FRedLoop L Path String String F realises=Red loop=1
FRedNTree L Path String FL FL FL realises=RedN region=2
FRedNLoop L Path String FL FL FL realises=RedN loop=1 outer=0 region=2
FConWhole L Path String String String F F realises=Con
FConLoop L Path String String F F realises=Con loop=1
FConAccWhole L Path String String String F F F realises=ConAcc
FConAccLoop L Path String String F F F realises=ConAcc loop=1 outer=2
FScanWhole L Path String String F realises=Scan
FScanLoop L Path String F realises=Scan
FScanNWhole L Path String FL FL FL realises=ScanN region=2
FScanNLoop L Path FL FL FL realises=ScanN outer=0 region=2
FFoldLoop Path K FL FL realises=Fold loop=1 outer=0
FFoldWhole FL realises=Fold
FWhile Path K FL FL F realises=While loop=1 outer=0
FForm L Path K i64 String realises=Form
FState L Path K i64 FL FL realises=State outer=0
FWState L Path K i64 FL FL F realises=WState outer=0
FReady i64 F
""")  # fmt: skip

#: a value in the form in which an implementation wants an operand: form, label along which vectors run; and each structured operation once
#: more with the name of the implementation that does it (``FRedTreeBy``)
SUPPLY: Final = _rows("F", "FSupply L Path String String F")
#: a value in a loop that is what an earlier loop over the same label, in the same block, made of it and has kept (CPU family)
KEPT: Final = _rows("F", "FKept L Path F")
IMPLEMENTED: Final = [
    replace(r, name=f"{r.name}By", fields=("String", *r.fields), by=r.name)
    for r in REALISED
    if r.name.startswith(("FRed", "FCon", "FScan")) and r.name != "FConst"
]

OTHER: Final = (
    _rows("VL", "VNil\nVCons V VL") + _rows("FL", "FNil\nFCons F FL") + _rows("AL", "ANil\nACons String AL")
    + _rows("IXL", "INil\nICons IX IXL\nILSub String String IXL")
    + _rows("IX", "IInt i64\nISym String\nICoord String\nIDep i64\nIBin String IX IX\nINot IX\nISel IX IX IX\nISub String String IX")
    + _rows("St", "APut String i64 IXL String String String String IXL V V VL\nAPar St St\nASeq St St")
    + _rows("S", "SStore L Path String i64 IXL String String String String IXL F F FL\nSPar S S\nSSeq S S")
    + _rows("G", "Grp AL St") + _rows("GL", "GNil\nGCons G GL")
    + _rows("T", "TUnit\nTAx String\nTProd T T\nTRev T\nTInter T\nTSwz T T")
    + _rows("SG", "Seg String T S") + _rows("SGL", "SGNil\nSGCons SG SGL")
)  # fmt: skip

ROWS: Final[dict[str, Row]] = {r.name: r for r in (*ABSTRACT, *REALISED, *SUPPLY, *KEPT, *IMPLEMENTED, *OTHER)}
#: sorts whose classes an extractor chooses from
REALISED_SORTS: Final = ("F", "FL", "S", "T", "SG", "SGL")
