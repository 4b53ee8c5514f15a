"""The typer application: options and help here, the work in one module a command (imported when it runs)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(name="eqkir", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
rules_app = typer.Typer(no_args_is_help=True, help="The rewrite rules.")
app.add_typer(rules_app, name="rules")
experiment_app = typer.Typer(no_args_is_help=True, help="Experiments with cost models and extractors.")
app.add_typer(experiment_app, name="experiment")

Target = Annotated[str, typer.Option("--target", help="provider:device; `eqkir targets` lists them")]
Rules = Annotated[list[str] | None, typer.Option("--rules", metavar="PATH", help="a rule file or folder besides eqkir's own (repeatable)")]
Without = Annotated[
    list[str] | None, typer.Option("--without", metavar="FAMILY", help="switch a rule family off; `all` for every one (repeatable, or a,b)")
]
Permit = Annotated[
    list[str] | None,
    typer.Option("--permit", metavar="NAME", help="a numerical permission: relaxed_normalization, zero_products (repeatable)"),
]
Extractor = Annotated[
    str, typer.Option("--extractor", help="greedy-dag, greedy-tree, random, worst, one of `eqkir experiment list`, or a plug-in")
]
CostModel = Annotated[str, typer.Option("--cost-model", help="how candidates are compared: roofline, node_count, weighted_ops")]
Seed = Annotated[int, typer.Option("--seed", help="seed of the random extractor and of generated inputs")]
Shape = Annotated[list[str] | None, typer.Option("--shape", metavar="M=4096,…", help="pin symbols, integer scalars or constexprs")]
Limit = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME=N", help="a bound: enodes, matches, iterations, seconds, memory, job_seconds (repeatable)"),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines on standard output")]
OneKernel = Annotated[str | None, typer.Option("--kernel", help="this kernel of the file alone")]


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    """An equality-saturation optimizer for numeric kernels."""
    if version:
        from eqkir.base.resources import version as number

        print(number())
        raise typer.Exit


@app.command()
def optimize(
    paths: Annotated[list[Path], typer.Argument(help="KIR files, or folders of them")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="write the artifacts here, one folder a kernel")] = None,
    target: Target = "triton:nvidia-h200",
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="worker processes")] = 1,
    rules: Rules = None,
    without: Without = None,
    permit: Permit = None,
    extractor: Extractor = "greedy-dag",
    cost_model: CostModel = "roofline",
    seed: Seed = 0,
    shape: Shape = None,
    check: Annotated[str, typer.Option("--check", help="none, static, numeric, compile or all")] = "static",
    limit: Limit = None,
    inputs: Annotated[
        Path | None, typer.Option("--inputs", help="JSON: kernel -> {data, scalars} of the inputs that it is checked with")
    ] = None,
    rows: Annotated[Path | None, typer.Option("--rows", help="JSON: binding rows instead of the target family's (CPU)")] = None,
    winners: Annotated[bool, typer.Option("--winners", help="take and keep what was chosen in the cache of winners")] = False,
    json: AsJson = False,
) -> None:
    """Optimize every kernel of PATHS and emit it."""
    from eqkir.cli import optimize as command
    from eqkir.driver.shapes import parse_shapes

    options = command.options(
        target=target, shapes=parse_shapes(shape or []), rules=rules, without=without, permit=permit, extractor=extractor,
        cost_model=cost_model, seed=seed, check=check, limits=command.parse_limits(limit or []),
        inputs=command.read_inputs(inputs), rows=rows, winners=winners,
    )  # fmt: skip
    raise typer.Exit(command.main(paths, out, jobs, options, json))


@app.command()
def emit(
    program: Annotated[Path, typer.Argument(help="a program.json")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="write here instead of to standard output")] = None,
) -> None:
    """Verify a program and print its source. KIR is not needed."""
    from eqkir.cli import emit as command

    raise typer.Exit(command.main(program, out))


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="KIR files, or folders of them")],
    json: AsJson = False,
) -> None:
    """Read and verify KIR; prints the diagnostics."""
    from eqkir.cli import check as command

    raise typer.Exit(command.main(files, json))


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="a KIR file, or a program.json for the engine `program`")],
    engine: Annotated[str, typer.Option("--engine", help="reference, program, interpreter, gpu or native")] = "reference",
    kernel: OneKernel = None,
    seed: Seed = 0,
    inputs: Annotated[Path | None, typer.Option("--inputs", help="an .npz with one array a view that is read")] = None,
    shape: Shape = None,
    program: Annotated[Path | None, typer.Option("--program", help="run this program.json of the kernel instead of the chosen one")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="write the outputs to this .npz")] = None,
    target: Target = "triton:nvidia-h200",
    without: Without = None,
    permit: Permit = None,
    extractor: Extractor = "greedy-dag",
    json: AsJson = False,
) -> None:
    """Run a kernel and, but for the reference itself, compare its outputs with the reference."""
    from eqkir.cli import optimize as optimizing
    from eqkir.cli import run as command
    from eqkir.driver.shapes import parse_shapes

    options = optimizing.options(target=target, shapes={}, without=without, permit=permit, extractor=extractor, seed=seed, check="none")
    raise typer.Exit(command.main(file, engine, kernel, seed, inputs, parse_shapes(shape or []), save, options, json, program))


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="a KIR file, or a program.json")],
    stage: Annotated[str, typer.Option("--stage", help="kir, initial, chosen, tasks (CPU), source or egraph")] = "chosen",
    kernel: OneKernel = None,
    target: Target = "triton:nvidia-h200",
    rules: Rules = None,
    without: Without = None,
    permit: Permit = None,
    extractor: Extractor = "greedy-dag",
    seed: Seed = 0,
    shape: Shape = None,
    html: Annotated[bool, typer.Option("--html", help="stage egraph: an explorer of the e-graph and its rewriting, as one page")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="--html: write the page here instead of to standard output")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", min=0, help="--html: show at most so many e-nodes, 0 for all [20000]")] = None,
    steps: Annotated[bool, typer.Option("--steps/--no-steps", help="--html: the chain of rules, as `rules explain` (slow)")] = True,
    times: Annotated[bool, typer.Option("--times", help="--html: seconds by rule (the page then differs from run to run)")] = False,
) -> None:
    """Print a stage of a kernel as readable text, or its e-graph as a page."""
    from eqkir.cli import optimize as optimizing
    from eqkir.cli import show as command
    from eqkir.driver.shapes import parse_shapes

    options = optimizing.options(
        target=target, shapes=parse_shapes(shape or []), rules=rules, without=without, permit=permit, extractor=extractor, seed=seed,
        check="none",
    )  # fmt: skip
    raise typer.Exit(command.main(file, stage, kernel, options, command.Page(out, nodes, steps, times) if html else None, out))


@app.command()
def schema() -> None:
    """Print the JSON Schema of KIR."""
    from eqkir.cli import info

    info.schema()


@app.command()
def errors(code: Annotated[str | None, typer.Argument(help="explain this code; without it, list all")] = None) -> None:
    """List the diagnostics, or explain one."""
    from eqkir.cli import info

    raise typer.Exit(info.errors(code))


@app.command()
def targets(json: AsJson = False) -> None:
    """List the targets."""
    from eqkir.cli import info

    info.targets(json)


@rules_app.command("list")
def rules_list(rules: Rules = None, json: AsJson = False) -> None:
    """List the rules by family."""
    from eqkir.cli import info

    info.rules(tuple(rules or ()), json)


@rules_app.command("show")
def rules_show(
    name: Annotated[str, typer.Argument(help="a rule, or a rule file by the name in its header")], rules: Rules = None, json: AsJson = False
) -> None:
    """Print a rule or a rule file."""
    from eqkir.cli import rules as command

    raise typer.Exit(command.show(name, tuple(rules or ()), json))


@rules_app.command("lint")
def rules_lint(
    paths: Annotated[list[Path] | None, typer.Argument(help="rule files or folders; without one, the shipped rules")] = None,
    corpus: Annotated[Path | None, typer.Option("--corpus", help="look for rules that never fire in these KIR files (slow)")] = None,
    json: AsJson = False,
) -> None:
    """Find what an author cannot have meant; exit status 1 on an error."""
    from eqkir.cli import rules as command

    raise typer.Exit(command.lint(paths or [], corpus, json))


@rules_app.command("check")
def rules_check(
    paths: Annotated[list[Path] | None, typer.Argument(help="rule files or folders; without one, the shipped rules")] = None,
    rule: Annotated[list[str] | None, typer.Option("--rule", metavar="NAME", help="this rule alone (repeatable)")] = None,
    corpus: Annotated[Path | None, typer.Option("--corpus", help="KIR files to look into where no probe has a match")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="write counterexamples here, one folder a refuted rule")] = None,
    conditions: Annotated[bool, typer.Option("--conditions", help="check each rule less each of its conditions, too")] = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="worker processes")] = 1,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Prove rules, or try them on programs; a refuted rule comes with a counterexample. Exit status 1 when one is refuted."""
    from eqkir.cli import rules as command

    raise typer.Exit(command.check(paths or [], rule or [], corpus, out, conditions, jobs, seed, json))


@rules_app.command("explain")
def rules_explain(
    file: Annotated[Path, typer.Argument(help="a KIR file")],
    kernel: OneKernel = None,
    why: Annotated[str | None, typer.Option("--why", metavar="RULE", help="say where the query of this rule ends")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="write the program after each step here")] = None,
    target: Target = "triton:nvidia-h200",
    rules: Rules = None,
    without: Without = None,
    permit: Permit = None,
    shape: Shape = None,
    json: AsJson = False,
) -> None:
    """Print the chain of rules from P0 to the chosen program, or why a rule did not fire."""
    from eqkir.cli import optimize as optimizing
    from eqkir.cli import rules as command
    from eqkir.driver.shapes import parse_shapes

    options = optimizing.options(
        target=target, shapes=parse_shapes(shape or []), rules=rules, without=without, permit=permit, check="none",
    )  # fmt: skip
    raise typer.Exit(command.explain(file, kernel, options, out, why, json))


@rules_app.command("impact")
def rules_impact(
    corpus: Annotated[Path, typer.Option("--corpus", help="KIR files, or a folder of them")],
    rule: Annotated[list[str] | None, typer.Option("--rule", metavar="NAME", help="this rule alone (repeatable)")] = None,
    alone: Annotated[bool, typer.Option("--alone", help="also each rule with none of the others")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="write all rows to this JSON file")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="write the report as one page")] = None,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="worker processes")] = 1,
    target: Target = "triton:nvidia-h200",
    rules: Rules = None,
    without: Without = None,
    permit: Permit = None,
    json: AsJson = False,
) -> None:
    """Measure what each rule changes: choice, cost, e-nodes, seconds. Exit status 1 when one changes nothing."""
    from eqkir.cli import optimize as optimizing
    from eqkir.cli import rules as command

    options = optimizing.options(target=target, shapes={}, rules=rules, without=without, permit=permit, check="none")
    raise typer.Exit(command.impact(corpus, options, rule or [], alone, out, html, jobs, json))


@rules_app.command("test")
def rules_test(
    path: Annotated[Path, typer.Argument(help="a rule file")],
    kernels: Annotated[list[Path], typer.Argument(help="KIR files, or folders of them")],
    target: Target = "triton:nvidia-h200",
    permit: Permit = None,
) -> None:
    """Lint a rule file and use it: each kernel with it and without it, verified and compared with the reference."""
    from eqkir.cli import optimize as optimizing
    from eqkir.cli import rules as command

    options = optimizing.options(target=target, shapes={}, permit=permit, check="none")
    raise typer.Exit(command.test(path, kernels, options))


@rules_app.command("new")
def rules_new(
    path: Annotated[Path, typer.Argument(help="the file to write; its stem names the ruleset")],
    kind: Annotated[str, typer.Option("--kind", help="algebra, realize or regroup")] = "algebra",
) -> None:
    """Write a rule file to start from."""
    from eqkir.cli import rules as command

    raise typer.Exit(command.new(path, kind))


Corpus = Annotated[list[Path], typer.Option("--corpus", help="KIR files, extraction-gym e-graphs, or folders of them (repeatable)")]


@experiment_app.command("run")
def experiment_run(
    corpus: Corpus,
    out: Annotated[Path, typer.Option("-o", "--out", help="folder of the experiment; what it holds already is not run again")],
    cost_models: Annotated[str, typer.Option("--cost-models", help="names, or FILE.py:FUNCTION, by commas")] = "roofline",
    extractors: Annotated[str, typer.Option("--extractors", help="names by commas; `eqkir experiment list`")] = "greedy-dag,ilp",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="seeds of extractors that draw")] = 1,
    limit: Annotated[float, typer.Option("--limit", min=0.0, help="CPU seconds a cell")] = 0.5,
    rows: Annotated[int, typer.Option("--rows", min=0, help="at most so many binding rows a kernel; 0 for all")] = 0,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="worker processes")] = 1,
    target: Target = "triton:nvidia-h200",
    shape: Shape = None,
    json: AsJson = False,
) -> None:
    """Run every extractor under every cost model on every instance."""
    from eqkir.cli import experiment as command
    from eqkir.driver.shapes import parse_shapes

    shapes = parse_shapes(shape or [])
    raise typer.Exit(command.run(corpus, out, cost_models, extractors, seeds, limit, rows, jobs, target, shapes, json))


@experiment_app.command("report")
def experiment_report(
    folder: Annotated[Path, typer.Argument(help="folder of an experiment")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="write here instead of to FOLDER/report")] = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="write the tables as Parquet, too (extra parquet)")] = False,
) -> None:
    """Write an offline report: tables, plots (SVG), and the rows behind them."""
    from eqkir.cli import experiment as command

    raise typer.Exit(command.report(folder, out, parquet))


@experiment_app.command("list")
def experiment_list(json: AsJson = False) -> None:
    """List extractors and cost models with what they claim."""
    from eqkir.cli import experiment as command

    raise typer.Exit(command.listing(json))


@experiment_app.command("export")
def experiment_export(
    corpus: Corpus,
    out: Annotated[Path, typer.Option("-o", "--out", help="folder of the e-graphs")],
    cost_model: CostModel = "roofline",
    row: Annotated[str, typer.Option("--row", help="a binding row by number, or `best`")] = "best",
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="worker processes")] = 1,
    target: Target = "triton:nvidia-h200",
    shape: Shape = None,
) -> None:
    """Write the e-graphs of kernels as extraction-gym JSON."""
    from eqkir.cli import experiment as command
    from eqkir.driver.shapes import parse_shapes

    raise typer.Exit(command.export(corpus, out, cost_model, row, jobs, target, parse_shapes(shape or [])))


@experiment_app.command("correlate")
def experiment_correlate(
    corpus: Corpus,
    out: Annotated[Path, typer.Option("-o", "--out", help="folder of the experiment")],
    cost_models: Annotated[str, typer.Option("--cost-models", help="names by commas")] = "roofline,node_count,weighted_ops,fitted,measured",
    measured: Annotated[list[Path] | None, typer.Option("--measured", help="a table of the GPU benchmark (repeatable)")] = None,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="worker processes")] = 1,
    target: Target = "triton:nvidia-h200",
) -> None:
    """Cost every measured candidate under every model, for rank correlations in the report."""
    from eqkir.cli import experiment as command

    raise typer.Exit(command.correlate(corpus, out, cost_models, measured or [], jobs, target))


@experiment_app.command("scale")
def experiment_scale(
    out: Annotated[Path, typer.Option("-o", "--out", help="folder of the experiment")],
    links: Annotated[str, typer.Option("--links", help="lengths of the grown kernel, by commas")] = "1,2,4,8,16,32,64",
    extractors: Annotated[str, typer.Option("--extractors", help="names by commas")] = "greedy-dag,greedy-tree,beam,frontier,ilp,cpsat",
    limit: Annotated[float, typer.Option("--limit", min=0.0, help="CPU seconds an extractor")] = 10.0,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="worker processes")] = 1,
    target: Target = "triton:nvidia-h200",
) -> None:
    """Grow an e-graph and time saturation and extraction, for fitted exponents in the report."""
    from eqkir.cli import experiment as command

    raise typer.Exit(command.scale(links, out, extractors, limit, jobs, target))


def main() -> int:
    """The exit status of the command line; what no command handled goes to standard error as coded lines."""
    from eqkir.cli.guard import guarded

    return guarded(app)
