"""One kernel's job: through all stages, in this process, to an `Outcome`. Nothing escapes but the end of the process itself."""

from __future__ import annotations

import resource
import sys
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.driver import codes
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.driver.scan import Task, located

if TYPE_CHECKING:
    from eqkir.kir.model import Kernel


def optimize(task: Task, options: Options) -> Outcome:
    """Optimize, emit and check one kernel (checks that need a provider's tools are left to the batch)."""
    o = Outcome(task.kernel, task.file, kir=task.kir)
    o.seconds["read"] = task.seconds
    _guarded(o, task, lambda: _optimize(task, options, o))
    o.memory_bytes = peak_memory()
    return o


def _guarded(o: Outcome, task: Task, work: Callable[[], None]) -> None:
    try:
        work()
    except EqkirError as e:
        o.fail(*e.diagnostics)
        o.diagnostics = [located(d, task) if d["file"] in (None, task.file) else d for d in o.diagnostics]
    except ModuleNotFoundError as e:
        extra = codes.EXTRAS.get((e.name or "").partition(".")[0])
        if extra is None:
            unexpected(o, e)
        else:
            o.fail(Diagnostic(codes.EXTRA, f"{e.name} is not installed", accepted=f"pip install 'eqkir[{extra}]'"))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # a native panic is no Exception
        unexpected(o, e)


def unexpected(o: Outcome, e: BaseException) -> None:
    """Record an exception that is no diagnosis; called while it is handled."""
    o.traceback = traceback.format_exc()
    o.fail(Diagnostic(codes.INTERNAL, f"{type(e).__name__}: {e}"[:500]))
    o.status = "error"


def kernel_of(task: Task) -> Kernel:
    """The verified kernel of a task."""
    from eqkir.kir.load import load_bytes

    return load_bytes(task.kir.encode(), task.file).kernels[0]


def _optimize(task: Task, options: Options, o: Outcome) -> None:
    chain = Chain(kernel_of(task), options, o)
    emit(chain, o)
    if "static" in options.checks:
        with chain.stage("checks"):
            static_check(chain, o)
    if "numeric" in options.checks:
        with chain.stage("checks"):
            numeric_check(chain, o)
    if "tasks" in options.checks:
        with chain.stage("checks"):
            tasks_check(chain, o)
    if o.ok:
        o.stage = "done"


def emit(chain: Chain, o: Outcome) -> None:
    """Source, program text and manifest of the chosen program."""
    from eqkir.driver.manifest import manifest
    from eqkir.driver.programs import dumps
    from eqkir.kir import digest

    program = chain.program
    with chain.stage("emit"):
        o.source, o.file_name = chain.provider.spell(program).source, chain.provider.file
        o.program = dumps(program)
        o.manifest = manifest(program, chain.options, digest(chain.kernel), o.program, o.source, chain.rule_digests)
        if chain.options.top > 1:
            from eqkir.driver.variants import best

            o.candidates = best(chain, chain.options.top, lambda p: chain.provider.spell(p).source, digest(chain.kernel))
        else:
            o.candidates = [{"source": o.source, "program_json": o.program, "manifest": o.manifest, "cost": o.cost}]


def static_check(chain: Chain, o: Outcome) -> None:
    """The written program reads back as the same program, verifies, and the source is Python."""
    from eqkir.driver.programs import dumps, loads
    from eqkir.program.verify import verify

    start = time.perf_counter()
    again = loads(o.program)
    fault = "; ".join(map(str, verify(again)[:3]))
    if dumps(again) != o.program:
        fault = "program.json does not read back as the same program"
    fault = fault or chain.provider.syntax(o.source)
    if chain.winner is None:  # else nothing was searched
        o.extraction["legal_structures"] = chain.legal_structures()
    record(o, "static", not fault, {"seconds": time.perf_counter() - start}, fault)


def numeric_check(chain: Chain, o: Outcome) -> None:
    """Program interpreter against the reference's envelope."""
    from eqkir.driver import numeric

    start = time.perf_counter()
    engine, steps = numeric.interpreter(chain.program), numeric.scalar_steps(chain.initial)
    v = numeric.check(
        chain.kernel, chain.program, chain.constexprs, chain.extents, chain.options.seed, engine, steps, permit=chain.options.permit,
        described=chain.options.described(chain.kernel.name),
    )  # fmt: skip
    details = {**v.to_json(), "seconds": time.perf_counter() - start}
    record(o, "numeric", v.ok, details, "; ".join(v.mistakes) or "no case could be compared", codes.NUMERIC)


def tasks_check(chain: Chain, o: Outcome) -> None:
    """Interpreter of the task program against the reference's envelope."""
    from eqkir.driver import numeric
    from eqkir.driver.native import interpreted
    from eqkir.driver.provider import MojoProvider

    assert isinstance(chain.provider, MojoProvider)
    start = time.perf_counter()
    engine, steps = interpreted(chain.provider.spell(chain.program).tasks), numeric.scalar_steps(chain.initial)
    v = numeric.check(
        chain.kernel, chain.program, chain.constexprs, chain.extents, chain.options.seed, engine, steps, permit=chain.options.permit,
        described=chain.options.described(chain.kernel.name),
    )  # fmt: skip
    details = {**v.to_json(), "seconds": time.perf_counter() - start}
    record(o, "tasks", v.ok, details, "; ".join(v.mistakes) or "no case could be compared", codes.NUMERIC)


def record(o: Outcome, name: str, ok: bool, details: dict[str, Any], message: str = "", code: str = codes.CHECK) -> None:
    """Note a check's verdict; a failed one fails the kernel."""
    o.checks[name] = "ok" if ok else "failed"
    o.details[name] = details
    if not ok:
        o.fail(Diagnostic(code, f"{name}: {message}"))


def peak_memory() -> int:
    """Peak resident bytes of this process or of the largest of its ended children."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
