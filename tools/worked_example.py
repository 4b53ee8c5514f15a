"""Write docs/example.md: one softmax through every stage, from the real output of the stages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNEL = "corpus/json/softmax_f32.json"
SHAPE = ["--shape", "M=4096,N=4096"]

TEXT = """# One softmax, stage by stage

Written by `python -m tools.worked_example`; every listing is the output of the command above it. The kernel is `{kernel}`, optimized
with `{shape}`.

## KIR JSON

The author writes what is computed (`corpus/normalize.py`):

```python
{builder}
```

The file holds the same as JSON. Its beginning:

```json
{json}
```

`eqkir show --stage kir`:

```
{kir}
```

## P0

Every axis is traversed one element at a time. One instance a row, three loops over the row: the maximum, the sum of exponentials, the
result.

`eqkir show --stage initial`:

```
{initial}
```

## The alternatives in the e-graph

Classes with more than one e-node are choices. `c1` chooses how the segment owns rows (one or a block, in grid or stride mode) together
with how the row is traversed (`L1`, `LC`, `W`); loads choose a cache policy; a chunked reduction chooses between a scalar accumulator
and one a lane (`FReady` of either). The beginning of `eqkir show --stage egraph`:

```
{egraph}
```

## The chosen program

The row fits one fragment, so it is read once and all three loops are gone. The precondition is what `launch` checks.

`eqkir show --stage chosen`:

```
{chosen}
```

## Triton

The kernel of the emitted module (`eqkir show --stage source`); `launch` and its checks follow it in the file.

```python
{source}
```
"""


def show(stage: str, limit: int | None = None) -> str:
    r = subprocess.run(
        [sys.executable, "-m", "eqkir", "show", KERNEL, "--stage", stage, *SHAPE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = r.stdout.rstrip().splitlines()
    return "\n".join(lines if limit is None or len(lines) <= limit else [*lines[:limit], f"… {len(lines) - limit} more lines"])


def builder() -> str:
    """The source of the function that builds the kernel for a dtype."""
    text = (ROOT / "corpus" / "normalize.py").read_text()
    return text[text.index("def softmax(") :].split("\n\n\n")[0].rstrip()


def main() -> None:
    source = show("source")
    kernel = source[source.index("@triton.jit\ndef kernel(") :].split("\n\n\n")[0] if "@triton.jit\ndef kernel(" in source else source
    data = (ROOT / KERNEL).read_text().splitlines()
    text = TEXT.format(
        kernel=KERNEL, shape=" ".join(SHAPE), builder=builder(), json="\n".join([*data[:24], "…"]), kir=show("kir"),
        initial=show("initial"),
        egraph=show("egraph", 60), chosen=show("chosen"), source=kernel.rstrip(),
    )  # fmt: skip
    (ROOT / "docs" / "example.md").write_text(text)


if __name__ == "__main__":
    main()
