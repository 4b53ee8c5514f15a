"""The explorer page: nothing breaks out of its data, what is left out is counted, equal input gives equal bytes, nothing is fetched."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eqkir.authoring.explain import Choices
from eqkir.authoring.explorer import View, contents
from eqkir.authoring.explorer_choice import Why, _compare, _shares, _verdicts, why
from eqkir.authoring.explorer_graph import LONGEST, Texts, kept_classes
from eqkir.authoring.explorer_page import embedded, page
from eqkir.authoring.explorer_text import LINES, Listings
from eqkir.base.diagnostics import EqkirError
from eqkir.cli import show
from eqkir.cli.app import app
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.extract.choose import problem
from eqkir.extract.cost import cost_model
from eqkir.extract.greedy import greedy, selection
from eqkir.kir.helpers import link
from eqkir.kir.load import load_bytes
from tests.extract.graphs import random_problem

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "corpus" / "json"
HOSTILE = "</script><script>document.title='broken'</script><!--<img src=x onerror=alert(1)>&amp;\u2028"


def chain_of(text: str, options: Options | None = None) -> Chain:
    k = link(load_bytes(text.encode(), "kernel.json")).kernels[0]
    return Chain(k, options or Options(check="none"), Outcome(k.name, "kernel.json"))


@cache
def softmax() -> Chain:
    return chain_of((CORPUS / "softmax_bf16.json").read_text())


@cache
def shown() -> dict[str, Any]:
    return contents(softmax(), View(steps=False))


def data_of(html: str) -> Any:
    return json.loads(html.split('<script type="application/json" id="data">')[1].split("</script>")[0])


def test_the_page_holds_the_graph_and_the_choice() -> None:
    d, c = shown(), softmax()
    g = c.saturated.graph
    assert len(d["classes"]) == len(g.classes) and sum(len(x[4]) for x in d["classes"]) == g.enodes and not d["left_out"]
    assert c.choice.selection and {c_: j for c_, j, _ in d["chosen"]} == c.choice.selection
    for number, sort, _, _, alternatives in d["classes"]:
        assert d["texts"][sort] == g.sorts[number]
        assert [(d["texts"][a[0]], tuple(a[5])) for a in alternatives] == [(n.op, n.kids) for n in g.classes[number]]
    assert data_of(page(d)) == json.loads(json.dumps(d))


def test_rounds_add_up_to_matches_and_iterations() -> None:
    r = softmax().saturated.report
    assert len(r.rounds) == r.iterations > 1
    for rule in shown()["rules"]:
        assert sum(n for _, n in rule["rounds"]) == rule["matches"] == r.matches[rule["name"]]
    assert "rounds" not in softmax().outcome.saturation, "reports keep the totals"


def test_shares_of_the_chosen_classes_add_up_to_the_additive_cost() -> None:
    d = shown()
    assert sum(x[2] for x in d["chosen"]) == pytest.approx(d["choice"]["additive"], rel=1e-4)
    assert d["choice"]["additive"] == pytest.approx(softmax().choice.proxy, rel=1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_shares_and_differences_of_random_problems(seed: int) -> None:
    p = random_problem(random.Random(seed), 14, nrows=1, cycles=0.2 * (seed % 3))
    s = selection(p, greedy(p), 0)
    if s is None:
        return
    assert sum(_shares(p, s).values()) == pytest.approx(p.cost(s, 0), rel=1e-4)
    weights = [None if w == float("inf") else w for w in p.weight[:, 0].tolist()]
    out = Why(weights, [], [], {}, 0, [], p.first, total=p.cost(s, 0))
    _compare(p, s, out, 10_000)
    assert len(out.differences) == out.legal_others
    assert {(c, j) for c, j in out.differences} == {
        (c, j) for c in s for j in range(len(p.graph.classes[c])) if j != s[c] and weights[p.first[c] + j] is not None
    }
    for (c, j), (kind, added) in out.differences.items():
        if kind == "cycle":
            assert p.graph.classes[c][j].kids
        elif kind == "other" and all(k in s for k in p.graph.classes[c][j].kids):
            assert added == pytest.approx(p.cost({**s, c: j}, 0) - out.total, rel=1e-4, abs=1e-6)


def test_every_refused_pair_of_an_e_node_and_a_row_has_one_rule() -> None:
    c = softmax()
    p, _ = problem(c.saturated.graph, c.abstract, c.target, {}, cost_model("roofline"))
    table, verdict = _verdicts(p, "weight")
    for e in range(p.graph.enodes):
        rows = [r for runs in table[verdict[e]].values() for a, b in runs for r in range(a, b + 1)]
        assert sorted(rows) == [r for r in range(len(p.rows)) if p.weight[e, r] == float("inf")]
    assert why(c, most=3).legal_others > len(why(c, most=3).differences) == 3


def test_a_page_of_few_e_nodes_counts_what_it_leaves_out() -> None:
    c = softmax()
    g, chosen = c.saturated.graph, c.choice.selection or {}
    d = contents(c, View(nodes=90, steps=False))
    left = {x["what"]: x for x in d["left_out"]}
    kept = sum(len(x[4]) for x in d["classes"])
    assert kept <= 90 < kept + max(map(len, g.classes)) and {x[0] for x in d["classes"]} >= set(chosen)
    assert left["e-nodes"]["shown"] == kept and left["e-nodes"]["left"] == g.enodes - kept
    assert left["classes"]["left"] == len(g.classes) - len(d["classes"]) > 0 and left["classes"]["how"] == "--nodes 0"
    assert f"{left['classes']['left']} of {len(g.classes)} classes left out" in page(d)
    few = contents(c, View(nodes=20, steps=False))
    assert any(x["what"] == "classes of the chosen program" and x["left"] > 0 for x in few["left_out"])
    assert kept_classes(g, chosen, 0) == list(range(len(g.classes)))


def test_long_texts_and_listings_are_cut_and_counted() -> None:
    t, l = Texts(), Listings()
    assert t.table == [] and t.add("a" * (LONGEST + 7)) == t.add("a" * (LONGEST + 7)) == 0
    assert t.cut == 1 and t.table[0].endswith("… (7 more characters)")
    l.add("\n".join(map(str, range(LINES + 5))))
    assert l.lost == [5] and len(l.texts[0]) == LINES
    n = l.pair("a\nb\nc", "a\nx\nc\nd")
    assert l.pairs[n]["runs"] == [["=", 0, 1, 0, 1], ["~", 1, 2, 1, 2], ["=", 2, 3, 2, 3], ["+", 3, 3, 3, 4]]


def hostile(tmp_path: Path) -> dict[str, Any]:
    kir = json.loads((CORPUS / "add_in_place.json").read_text())

    def spoil(x: Any) -> None:
        for v in x.values() if isinstance(x, dict) else x if isinstance(x, list) else ():
            spoil(v)
        if isinstance(x, dict) and isinstance(x.get("op"), str):
            x["loc"] = {"file": HOSTILE, "line": 1}

    spoil(kir)
    rule = tmp_path / "hostile.egg"
    comment = HOSTILE.replace("\u2028", "")
    rule.write_text(f'; name: hostile\n; family: hostile\n\n; {comment} => a\n(rule ((= v (Un "abs" a))) ((union v a)) :name "hostile")\n')
    c = chain_of(json.dumps(kir), Options(check="none", rules=(str(rule),)))
    return contents(c, View(steps=False))


def test_no_text_of_kernels_or_rules_breaks_out_of_the_data(tmp_path: Path) -> None:
    d = hostile(tmp_path)
    assert any("</script>" in x for x in d["texts"]) and any("</script>" in r["rewrite"] for r in d["rules"])
    d["kernel"] = HOSTILE
    made = page(d)
    assert made.count("</script") == 2 and made.count("<script") == 2 and "<img" not in made and "<!--" not in made
    assert data_of(made) == json.loads(json.dumps(d))
    assert not re.search(r"[<>&\u2028\u2029]", embedded([HOSTILE, {HOSTILE: "\u2029"}]))


def test_the_page_asks_for_nothing_outside_itself() -> None:
    made = page(shown())
    assert set(re.findall(r"(?:https?:)?//[a-z][^\s'\"<>)]*", made)) <= {"http://www.w3.org/2000/svg"}
    fetched = r"\ssrc=|@import|url\((?!#)|<link|<iframe|fetch\(|XMLHttpRequest|sendBeacon|WebSocket"
    assert not re.search(fetched, made) and not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(", made)
    assert "default-src &#x27;none&#x27;" in made


def test_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    pages = []
    for seed in ("1", "2"):
        out = tmp_path / f"{seed}.html"
        words = ["show", CORPUS / "add_in_place.json", "--stage", "egraph", "--html", "--no-steps", "-o", out]
        command = [sys.executable, "-m", "eqkir", *map(str, words)]
        subprocess.run(command, check=True, capture_output=True, timeout=300, env={**os.environ, "PYTHONHASHSEED": seed})
        pages.append(out.read_bytes())
    assert pages[0] == pages[1]


def test_seconds_are_shown_on_request_alone() -> None:
    assert "seconds" not in shown()["saturation"] and not any("seconds" in r for r in shown()["rules"])
    timed = contents(softmax(), View(steps=False, times=True))
    assert timed["saturation"]["seconds"] > 0
    assert all(len(r["round_seconds"]) == len(r["rounds"]) for r in timed["rules"])


@pytest.mark.parametrize("stage", ["chosen", "kir", "initial", "source"])
def test_a_page_of_another_stage_is_a_usage_error(stage: str) -> None:
    with pytest.raises(EqkirError) as e:
        show.main(CORPUS / "add_in_place.json", stage, None, Options(check="none"), show.Page())
    assert e.value.diagnostics[0].code == "EQK-RUN-USAGE" and "--stage egraph" in str(e.value)


def test_a_place_for_text_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(EqkirError) as e:
        show.main(CORPUS / "add_in_place.json", "egraph", None, Options(check="none"), None, tmp_path / "x.html")
    assert e.value.diagnostics[0].code == "EQK-RUN-USAGE"


def test_where_p0_is_chosen_nothing_is_marked() -> None:
    c = chain_of((CORPUS / "add_in_place.json").read_text(), Options(check="none"))
    c.choice.row, c.choice.selection = None, None
    d = contents(c, View(steps=False))
    assert d["chosen"] == [] and d["row"] is None and not d["choice"]["selected"] and len(d["classes"]) == len(c.saturated.graph.classes)


def test_a_page_for_a_cpu_has_its_rules_and_reasons() -> None:
    c = chain_of((CORPUS / "sum_inner_f32.json").read_text(), Options(check="none", target="mojo:x86-64-v3"))
    d = contents(c, View(steps=False))
    assert d["choice"]["illegal"] and {*d["choice"]["illegal"], *(k for v in d["verdicts"] for k in v)} <= set(d["reasons"])
    assert any(r["family"] == "implement" and r["matches"] for r in d["rules"])
    assert {"implement"} <= {f.family for f in Choices(c.kernel, c.options).files}, "the chain of rules knows them, too"


@pytest.mark.parametrize("given", ["--nodes 5", "--times", "--no-steps"])
def test_an_option_of_the_page_without_a_page_is_a_usage_error(given: str) -> None:
    got = CliRunner().invoke(app, ["show", str(CORPUS / "add_in_place.json"), *given.split()])
    assert got.exit_code != 0 and isinstance(got.exception, EqkirError)
    assert (
        got.exception.diagnostics[0].code == "EQK-RUN-USAGE" and given.split()[0] in str(got.exception) and "--html" in str(got.exception)
    )
