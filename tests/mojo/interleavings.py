"""The task pool under every interleaving: ``pool.mojo`` read as Python coroutines that stop before each access to shared words.

The functions of the pool are translated line by line (`translate`), so that what is explored is the text that is compiled. A word access
is one step, as they are sequentially consistent; a scheduler picks whose step comes next, and `explore` tries all picks with a bounded
number of preemptions (Musuvathi and Qadeer, "Iterative context bounding for systematic testing of multithreaded programs", 2007). A thread
that pauses gives way. Spinning is cut to a few rounds so that sleeping and waking take part.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

POOL: Final = Path(__file__).resolve().parents[2] / "eqkir" / "emit" / "mojo" / "pool.mojo"
#: functions that are explored; the rest of the file is the machine's side (clocks, futex, floating-point state)
FUNCTIONS: Final = ("kt_task", "kt_step", "kt_worker", "kt_alone", "kt_together", "kt_run", "kt_stop")
STATE: Final = 1 << 40  # address of the pool's words
PLAN: Final = 1 << 20  # addresses of plans, each this far from the next
#: steps of one run beyond which threads are said to make no progress
STEPS: Final = 4000

_REPLACE: Final[list[tuple[str, str | Callable[[re.Match[str]], str]]]] = [
    (r"\bvar ", ""),
    (r"P64\(unsafe_from_address=(Int\(\w+\)|\w+)\)", r"\1"),
    (r"\b\w+\.unsafe_offset\((\d+)\)\.unsafe_bitcast\[Atomic\[Int64\]\]\(\)\[\]\.compare_exchange\((.+?), (.+?)\)(?=:|$)",
     r"(yield ('cas', \1, \2, \3))"),
    (r"\bst\.unsafe_bitcast\[Atomic\[Int64\]\]\(\)\[\]\.compare_exchange\((.+?), (.+?)\)(?=:|$)", r"(yield ('cas', 0, \1, \2))"),
    (r"Atomic\[Int64\]\.fetch_add\(st\.unsafe_offset\((\d+)\), (-?\d+)\)", r"(yield ('add', \1, \2))"),
    (r"\bkt_get\(st, (\d+)\)", r"(yield ('get', \1))"),
    (r"\bkt_set\(st, (\d+), (.*)\)$", r"yield ('set', \1, \2)"),
    (r"\bkt_futex\(st, 128, (.*)\)$", r"yield ('wait', \1)"),
    (r"\bkt_futex\(st, 129, .*\)$", "yield ('wake',)"),
    (r"\bkt_pause\(\)|_ = external_call\[\"sched_yield\", Int32\]\(\)", "yield ('pause',)"),
    (r"\bkt_clock\(\)", "(yield ('clock',))"),
    (r"_ = external_call\[\"pthread_join\".*$", "yield ('join',)"),
    (r"\bkt_call\((.*)\)$", r"yield from call(\1)"),
    (r"\bkt_(strict_float|set_float_state)\(.*\)$", "pass"),
    (r"\bkt_float_state\(\)", "0"),
    (r"^(?!def )(.*)\b(kt_task|kt_step|kt_alone|kt_together)\(", r"\1yield from \2("),
    (r"(?<=while )yield from (\w+\([^)]*\))|(?<=if )yield from (\w+\([^)]*\))", lambda m: f"(yield from {m[1] or m[2]})"),
    (r"\b(\w+)\[unsafe_offset=([^\]]+)\]", r"read(\1, \2)"),
    (r"\b(\w+)\.unsafe_offset\(", r"offset(\1, "),
    (r"\bInt64\(|\bInt\(", "int("),
]  # fmt: skip


def translate(text: str) -> str:
    """The functions of `FUNCTIONS` as Python. Raises ValueError where one is missing or a line keeps something of Mojo's memory."""
    out = []
    for name in FUNCTIONS:
        found = re.search(rf"^def {name}\(.*?(?=\n\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
        if found is None:
            raise ValueError(f"{name} is not there")
        for line in found[0].split("\n"):
            if head := re.match(r"def (\w+)\(([^)]*)\)", line):
                line = f"def {head[1]}({', '.join(a.split(':')[0].strip() for a in head[2].split(','))}):"
            for pattern, new in _REPLACE:
                line = re.sub(pattern, new, line)
            if re.search(r"unsafe|Atomic|external_call|Pointer|\bkt_(get|set|futex)\b", line):
                raise ValueError(f"{name}: {line.strip()} is not understood")
            out.append(line)
        out.append("")
    return "\n".join(out)


Step = Generator[tuple[Any, ...], Any, Any]


@dataclass
class Fault(Exception):
    what: str


@dataclass
class Run:
    """One execution. `plans`: for each caller the plans that it runs one after the other, each a list of stages of groups (instances,
    instances of a task)."""

    code: dict[str, Any]
    plans: Sequence[Sequence[Sequence[Sequence[tuple[int, int]]]]]
    workers: int
    words: dict[int, int] = field(default_factory=dict)
    done: dict[tuple[int, ...], int] = field(default_factory=dict)  # (caller, plan, stage, group, instance) -> times that it ended
    asleep: set[int] = field(default_factory=set)
    finished: set[int] = field(default_factory=set)
    now: int = 0

    def __post_init__(self) -> None:
        self.memory: dict[int, int] = {}
        self.tasks: dict[int, tuple[int, ...]] = {}
        self.starts: list[list[int]] = []
        self.space: dict[str, Any] = {
            "read": lambda p, i: self.memory[p + i], "offset": lambda p, i: p + i, "call": self.call, "LOW": 0xFFFFFFFF, "SPIN": 1,
            "LATE": 0,
        }  # fmt: skip
        exec(self.code["code"], self.space)
        for c, plans in enumerate(self.plans):
            self.starts.append([self._plan(c, n, p) for n, p in enumerate(plans)])
        self.words = {48: self.workers, 49: self.workers}
        self.threads: list[Step] = [self.caller(c) for c in range(len(self.plans))]
        self.threads += [self.space["kt_worker"](STATE) for _ in range(self.workers)]
        self.callers = set(range(len(self.plans)))
        self.stopping = False
        self.answer: list[Any] = [None] * len(self.threads)
        self.pending: list[tuple[Any, ...] | None] = [None] * len(self.threads)
        for t in range(len(self.threads)):
            self._advance(t)

    def _plan(self, caller: int, number: int, plan: Sequence[Sequence[tuple[int, int]]]) -> int:
        at = start = PLAN * (1 + 16 * caller + number)
        words: list[int] = [len(plan), number % 2]
        for s, groups in enumerate(plan):
            record: list[int] = []
            first = 0
            for g, (n, grain) in enumerate(groups):
                entry = len(self.tasks) + 1
                self.tasks[entry] = caller, number, s, g
                record += [entry, n, grain, first]
                first += -(-n // grain)
            words += [len(groups), first, *record]
        for k, w in enumerate(words):
            self.memory[at + k] = w
        return start

    def caller(self, c: int) -> Step:
        for start in self.starts[c]:
            yield from self.space["kt_run"](STATE, start, start)
            number = (start // PLAN - 1) % 16
            self._complete(c, number, len(self.plans[c][number]))
        if c == 0:
            while self.callers - self.finished - {0}:
                yield ("pause",)
            self.stopping = True
            yield from self.space["kt_stop"](STATE)

    def _complete(self, c: int, number: int, stages: int) -> None:
        """Every instance of the first stages of a plan has ended, once."""
        for s, groups in enumerate(self.plans[c][number][:stages]):
            for g, (n, _) in enumerate(groups):
                for i in range(n):
                    if self.done.get((c, number, s, g, i), 0) != 1:
                        times = self.done.get((c, number, s, g, i), 0)
                        raise Fault(f"instance {i} of group {g}, stage {s}, call {number} of caller {c} ended {times} times at the join")

    def call(self, entry: int, context: int, lo: int, hi: int) -> Step:
        caller, number, s, g = self.tasks[entry]
        if context != self.starts[caller][number]:
            raise Fault("a task sees another call's words")
        self._complete(caller, number, s)
        yield ("task",)
        for i in range(lo, hi):
            key = caller, number, s, g, i
            self.done[key] = self.done.get(key, 0) + 1
            if self.done[key] > 1:
                raise Fault(f"instance {i} of group {g}, stage {s}, call {number} of caller {caller} runs twice")

    # ------------------------------------------------------------------------------------------------ steps
    def enabled(self) -> list[int]:
        return [t for t in range(len(self.threads)) if t not in self.finished and t not in self.asleep]

    def step(self, t: int) -> bool:
        """One step of a thread; whether it gives way by itself."""
        what = self.pending[t]
        assert what is not None
        answer: Any = None
        match what:
            case "get", i:
                answer = self.words.get(i, 0)
            case "set", i, v:
                self.words[i] = int(v)
            case "add", i, v:
                answer = self.words.get(i, 0)
                self.words[i] = answer + v
            case "cas", i, old, new:
                answer = self.words.get(i, 0) == old
                if answer:
                    self.words[i] = new
            case "wait", value:
                if self.words.get(0, 0) >> 32 == value:
                    self.asleep.add(t)
            case ("wake",):
                self.asleep.clear()
            case ("clock",):
                self.now += 1
                answer = self.now
        self.answer[t] = answer
        self._advance(t)
        return what[0] in ("pause", "wait") or t in self.finished

    def _advance(self, t: int) -> None:
        try:
            self.pending[t] = self.threads[t].send(self.answer[t])
        except StopIteration:
            self.finished.add(t)


def execute(make: Callable[[], Run], pick: Callable[[list[int], int, bool], int]) -> list[tuple[int, int]]:
    """Run to the end; `pick` gets the threads that can go on, the last one's number and whether it gave way. Raises Fault."""
    run = make()
    last, gave_way = 0, False
    trace: list[tuple[int, int]] = []
    for _ in range(STEPS):
        able = run.enabled()
        if not able:
            if len(run.finished) == len(run.threads):
                return trace
            raise Fault("everyone sleeps: a lost wake-up")
        t = pick(able, last, gave_way)
        trace.append((t, len(able)))
        gave_way = run.step(t)
        last = t
    raise Fault("no progress")


def following(able: list[int], last: int, gave_way: bool) -> int:
    """Without preemptions: the same thread until it gives way, then the next one."""
    if last in able and not gave_way:
        return last
    return next((t for t in able if t > last), able[0])


def explore(make: Callable[[], Run], preemptions: int, limit: int = 1 << 30) -> int:
    """All schedules with at most so many preemptions; how many there were. Raises Fault."""
    count = 0
    todo: list[dict[int, int]] = [{}]
    while todo and count < limit:
        p = _Forced(todo.pop(), preemptions)
        execute(make, p.pick)
        count += 1
        todo += p.branches
    return count


class _Forced:
    """Picks that are forced at some steps; `branches`: the same and one more, at every later step."""

    def __init__(self, forced: dict[int, int], preemptions: int) -> None:
        self.forced, self.more = forced, len(forced) < preemptions
        self.start, self.at = max(forced, default=-1) + 1, 0
        self.branches: list[dict[int, int]] = []

    def pick(self, able: list[int], last: int, gave_way: bool) -> int:
        chosen = self.forced.get(self.at, -1)
        if chosen not in able:
            chosen = following(able, last, gave_way)
        if self.more and self.at >= self.start:
            self.branches += [{**self.forced, self.at: t} for t in able if t != chosen]
        self.at += 1
        return chosen


def at_random(make: Callable[[], Run], seed: int, switch: float) -> None:
    """One schedule that changes threads with a given probability. Raises Fault."""
    rng = random.Random(seed)

    def pick(able: list[int], last: int, gave_way: bool) -> int:
        return rng.choice(able) if gave_way or last not in able or rng.random() < switch else last

    execute(make, pick)


def runs(text: str, plans: Any, workers: int) -> Callable[[], Run]:
    code = {"code": compile(translate(text), str(POOL), "exec")}
    return lambda: Run(code, plans, workers)
