"""Diagnostics of the driver."""

from __future__ import annotations

from eqkir.base.diagnostics import register

EXTRA = register(
    "EQK-RUN-EXTRA",
    "an optional dependency is missing",
    "The stage needs a package of an optional extra. The message gives the install line, for instance `pip install 'eqkir[triton]'`.",
)
WORKER = register(
    "EQK-RUN-WORKER",
    "the worker of this kernel died",
    "The process that worked on this kernel ended by a signal or an exit (out of memory, a crash of a native library). Other kernels are "
    "not affected. The bundle holds what is needed to run it again.",
)
TIME = register(
    "EQK-RUN-TIME",
    "the kernel took longer than its time limit",
    "The whole job of one kernel is bounded (limit `job_seconds`, default 600). The worker was ended; other kernels are not affected.",
)
INTERNAL = register(
    "EQK-RUN-INTERNAL",
    "an unexpected failure",
    "A stage raised something that is not a diagnosis: a defect of eqkir. The bundle directory named in the message holds the KIR, the "
    "rules, the seed, the versions and the traceback, and the command that replays it.",
)
NUMERIC = register(
    "EQK-RUN-NUMERIC",
    "the chosen program computes something else than the reference",
    "The numeric check ran the reference interpreter and the program on equal inputs and an element lies outside the reference's error "
    "envelope. The artifacts are not to be used.",
)
CHECK = register(
    "EQK-RUN-CHECK",
    "a check of the emitted kernel failed",
    "The emitted source was refused or gave a wrong result in the provider's interpreter, did not compile, spilled registers, exceeded a "
    "limit of the target, or its machine code holds a form that KIR does not permit.",
)
MACHINE = register(
    "EQK-RUN-MACHINE",
    "the emitted code cannot run on this machine",
    "A check was to run native code for a target whose architecture or instructions this machine does not have. Check it there, or with "
    "`--check compile` here.",
)
SHAPE = register(
    "EQK-RUN-SHAPE",
    "a malformed shape or value",
    "`--shape` takes NAME=VALUE pairs separated by commas; the names are symbols, integer scalars or constexprs of the kernel.",
)
PATH = register("EQK-RUN-PATH", "nothing to read", "The path does not exist, or the directory holds no KIR file (`*.json`).")
USAGE = register("EQK-RUN-USAGE", "an option that is not known", "The message lists what would be accepted.")
INPUTS = register(
    "EQK-RUN-INPUTS",
    "inputs that do not fit the kernel",
    "An .npz of inputs holds one array for each view that is read, named like the view, of the view's shape and dtype. A JSON file of "
    "--inputs says what inputs are like: kernel -> {data: {view: entry}, scalars: {name: number}}.",
)
CAPABILITY = register(
    "EQK-RUN-CAPABILITY",
    "the target lacks what the kernel needs",
    "The kernel uses a dtype that the target's hardware does not have (f8e4m3fn needs sm_89 or newer). Another target takes it.",
)
OUTPUT = register(
    "EQK-RUN-OUTPUT",
    "nothing can be written there",
    "The folder of `-o`, or the file of `-o` or `--save`, cannot be made or written. It is looked at before any work is done.",
)
IO = register("EQK-RUN-IO", "reading or writing failed", "The operating system refused to read or write; the message says why.")
MEMORY = register(
    "EQK-RUN-MEMORY",
    "not enough memory",
    "The command needs more memory than this machine has, or may use. Running a kernel needs its arrays at the given `--shape`, and more.",
)
PROGRAM = register(
    "EQK-RUN-PROGRAM", "a malformed program file", "The file is not a `program.json` written by this version of eqkir, or it was changed."
)
ARTIFACT = register(
    "EQK-RUN-ARTIFACT",
    "artifacts that do not belong together",
    "A folder of artifacts holds kernel.py, program.json, report.json and manifest.json of one run; the manifest has their digests.",
)

#: module that an import may miss -> the extra that brings it
EXTRAS = {"triton": "triton", "highspy": "ilp", "ortools": "cpsat"}
