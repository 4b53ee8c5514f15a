"""The explorer page in a real browser: search, links between classes, diagram, rules, steps, keys; hostile and large pages."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eqkir.authoring.explorer import View, contents
from eqkir.authoring.explorer_page import page
from tests.authoring.browser import Browser, missing
from tests.authoring.test_explorer import CORPUS, HOSTILE, chain_of, hostile, softmax

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is there")]


@pytest.fixture(scope="module")
def explained() -> dict[str, Any]:
    return contents(softmax(), View())


@pytest.fixture(scope="module")
def file(explained: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "softmax.html"
    path.write_text(page(explained), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with Browser() as b:
        yield b


@pytest.fixture
def browser(window: Browser, file: Path) -> Iterator[Browser]:
    window.open(Path("/dev/null"))  # a page of its own for every test
    window.open(file)
    yield window
    assert window.messages() == [], "the console is silent: no error, and nothing that the policy refused"


def test_search_by_operation_and_by_origin(browser: Browser, explained: dict[str, Any]) -> None:
    texts = explained["texts"]
    browser.click("#tab-classes")
    browser.type("#search", "op:FRedTree")
    expected = {f"c{c}" for c, _, _, _, alternatives in explained["classes"] if any(texts[a[0]] == "FRedTree" for a in alternatives)}
    assert expected and set(browser.all(".results b")) == expected
    assert browser.text("#found") == f"{len(expected)} classes of {len(explained['classes'])}"
    browser.type("#search", "origin:%v10 is:chosen")
    found = browser.all(".results a")
    assert found and all("%v10" in x for x in found)
    browser.type("#search", "no-such-thing")
    assert browser.text("#found").startswith("0 classes") and browser.all(".results a") == []


def test_from_a_class_to_its_operands_its_users_and_back(browser: Browser, explained: dict[str, Any]) -> None:
    browser.open(browser_file(browser), "classes/1")
    assert browser.text(".detail h2").startswith("c1: SG")
    one = next(x for x in explained["classes"] if x[0] == 1)
    assert len(browser.all(".alternatives tbody tr")) == len(one[4]) > 1
    assert len(browser.all(".alternatives tr.chosen")) == 1 and "costs more" in browser.text(".alternatives")
    kid = browser.js("return document.querySelectorAll('.alternatives .kids a')[1].textContent")
    browser.js("document.querySelectorAll('.alternatives .kids a')[1].focus()")
    browser.press("Enter")
    assert browser.text(".detail h2").startswith(f"{kid}:") and browser.place() == f"#classes/{kid[1:]}"
    assert any(x.startswith("c1 Seg") for x in browser.all(".users a"))
    browser.click(".users a")
    assert browser.text(".detail h2").startswith("c1:")
    browser.back()
    assert browser.text(".detail h2").startswith(f"{kid}:")


def browser_file(b: Browser) -> Path:
    return Path(str(b.js("return decodeURIComponent(location.pathname)")))


def test_an_illegal_alternative_names_its_rule(window: Browser, tmp_path: Path) -> None:
    d = contents(chain_of((CORPUS / "sum_inner_f32.json").read_text()), View(steps=False))
    path = tmp_path / "sum.html"
    path.write_text(page(d), encoding="utf-8")
    chosen = {c for c, _, _ in d["chosen"]}
    at = [(c, a[7]) for c, _, _, _, alternatives in d["classes"] for a in alternatives if a[6] is None and c in chosen]
    rules = [k for k, runs in d["verdicts"][at[0][1]].items() if any(a <= d["row"] <= b for a, b in runs)]
    window.open(path, f"classes/{at[0][0]}")
    assert f"illegal under the chosen row: {rules[0]}, {d['reasons'][rules[0]]}" in window.text(".alternatives")
    window.click(".alternatives details summary")
    assert "rows: 0" in window.text(".alternatives details"), "the rows that refuse it are named"


def test_the_diagram_moves_zooms_collapses_and_is_there_as_text(browser: Browser, explained: dict[str, Any]) -> None:
    browser.click("#tab-diagram")
    boxes = browser.all("svg .node")
    assert len(boxes) > 10 and browser.js("return document.querySelectorAll('svg .node:not(.chosen)').length") == 0
    assert len(browser.all(".as-text > ul > li")) == len(boxes)
    placed = "return document.querySelector('svg.diagram > g').getAttribute('transform')"
    first = browser.js(placed)
    browser.js("document.querySelector('svg.diagram').focus()")
    browser.press("Right", "+")
    second = browser.js(placed)
    assert first != second
    browser.drag("svg.diagram", 80, 40)
    assert browser.js(placed) != second and browser.place() == "#diagram", "a drag opens nothing"
    assert not overlaps(browser), "no box lies on another"
    browser.js("document.querySelector('[data-class=\"1\"]').focus()")
    browser.press(" ")
    assert len(browser.all("svg .node")) < len(boxes)
    assert browser.js("return document.activeElement.dataset.class") == "1", "the focus stays"
    browser.press("n")
    assert browser.place() == "#diagram/1" and browser.js("return document.querySelectorAll('svg .node.centre').length") == 1
    browser.js("document.querySelector('[data-class=\"1\"]').focus()")
    browser.press("Enter")
    assert browser.place() == "#classes/1"


def overlaps(b: Browser) -> int:
    return int(b.js("""
        const r = [...document.querySelectorAll('svg .node .box')].map(e => e.getBoundingClientRect());
        let n = 0;
        r.forEach((a, i) => r.slice(i + 1).forEach(b => {
            n += a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1; }));
        return n;"""))


def test_every_neighbourhood_can_be_drawn(browser: Browser, explained: dict[str, Any]) -> None:
    failed = browser.js("""
        const bad = [];
        for (const c of arguments[0]) {
            location.hash = `diagram/${c}`;
            window.dispatchEvent(new HashChangeEvent('hashchange'));
            const box = document.querySelector(`[data-class="${c}"]`);
            if (!box || /NaN|undefined/.test(document.querySelector('svg.diagram').outerHTML)) bad.push(c);
        }
        return bad;""", [x[0] for x in explained["classes"]])  # fmt: skip
    assert failed == []


def test_rules_by_iteration_and_one_rule(browser: Browser, explained: dict[str, Any]) -> None:
    browser.click("#tab-rules")
    fired = [r for r in explained["rules"] if r["matches"]]
    assert browser.all("#fired tbody td:first-child") == [r["name"] for r in fired]
    browser.click("#fired tbody a")
    assert browser.text("#rule h2") == fired[0]["name"] and fired[0]["text"].strip() in str(browser.all("#rule pre")[0])


def test_steps_one_after_another_by_button_and_by_key(browser: Browser, explained: dict[str, Any]) -> None:
    steps = explained["steps"]["steps"]
    assert len(steps) >= 2
    browser.click("#tab-steps")
    assert browser.text("#step") == f"step 1 of {len(steps)}" and browser.text("h2").startswith(steps[0]["rule"])
    browser.click("#next")
    assert browser.text("#step") == f"step 2 of {len(steps)}" and browser.text("h2").startswith(steps[1]["rule"])
    assert browser.js("return document.querySelectorAll('.diff td.new').length") > 0
    browser.press("[")
    assert browser.text("#step") == f"step 1 of {len(steps)}"
    browser.press("]")
    browser.click("main section label input")
    after = explained["listings"][explained["pairs"][steps[1]["pair"]]["after"]]
    shown = browser.js("return [...document.querySelectorAll('.diff tbody tr')].map(r => r.cells[3] && r.cells[3].textContent)")
    assert [x for x in shown if x] == [x for x in after if x], "the whole listing is there"


def test_p0_stands_beside_the_chosen_program(browser: Browser, explained: dict[str, Any]) -> None:
    browser.click("#tab-programs")
    assert browser.js("return document.querySelectorAll('.diff td.gone').length") > 0
    assert browser.all("pre.text")[0].startswith("kernel softmax_bf16")


def test_keys_and_tabs(browser: Browser) -> None:
    browser.press("/")
    assert browser.place() == "#classes" and browser.js("return document.activeElement.id") == "search"
    browser.js("document.activeElement.blur()")
    browser.press("4")
    assert browser.place() == "#rules"
    browser.js("document.getElementById('tab-rules').focus()")
    browser.press("Right")
    assert browser.place() == "#programs" and browser.js("return document.activeElement.id") == "tab-programs"
    browser.press("?")
    assert "search classes" in browser.text("#keys")
    browser.click("#theme")
    browser.click("#theme")
    assert browser.js("return document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_ground(file: Path, dark: bool) -> None:
    with Browser(dark=dark) as b:
        b.open(file)
        ratios = b.js("""
            const style = getComputedStyle(document.documentElement);
            const light = (v) => { const n = parseInt(style.getPropertyValue(v).trim().slice(1), 16);
                const f = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
                return 0.2126 * f(n >> 16) + 0.7152 * f((n >> 8) & 255) + 0.0722 * f(n & 255); };
            const out = {};
            const grounds = ['--ground', '--panel', '--chosen', '--gone', '--new', '--warn'];
            for (const ink of ['--ink', '--quiet', '--link']) for (const ground of grounds) {
                const [a, c] = [light(ink), light(ground)];
                if (ink === '--ink' || ['--ground', '--panel', '--chosen'].includes(ground)) {
                    out[ink + ground] = (Math.max(a, c) + 0.05) / (Math.min(a, c) + 0.05);
                }
            }
            out.dark = light('--ground') < 0.1;
            return out;""")
        assert ratios.pop("dark") is dark and min(ratios.values()) >= 4.5, ratios


def test_hostile_texts_are_text(window: Browser, tmp_path: Path) -> None:
    d = hostile(tmp_path)
    d["kernel"] = HOSTILE
    path = tmp_path / "hostile.html"
    path.write_text(page(d), encoding="utf-8")
    places = "overview classes/1 diagram/chosen rules/hostile rules/</script><b>x programs steps/1 classes/x diagram/-1 % rules/%"
    for place in places.split():
        window.open(path, place)
        assert window.js("return document.title").startswith("</script>")
        assert window.js("return document.querySelectorAll('img').length") == 0
        assert window.js("return document.getElementById('main').children.length") > 0
    assert window.text("h1").startswith("</script>") and window.messages() == []


def test_a_page_of_thirty_thousand_e_nodes_opens_quickly(window: Browser, explained: dict[str, Any], tmp_path: Path) -> None:
    d = copy.deepcopy(explained)
    n, copies = len(d["classes"]), 1 + 30_000 // d["graph"]["enodes"]
    d["classes"] = [
        [c + n * i, *rest, [[*a[:5], [k + n * i for k in a[5]], *a[6:]] for a in alternatives]]
        for i in range(copies)
        for c, *rest, alternatives in d["classes"]
    ]
    d["graph"] |= {"classes": n * copies, "kept": n * copies, "enodes": d["graph"]["enodes"] * copies}
    path = tmp_path / "large.html"
    path.write_text(page(d), encoding="utf-8")
    assert d["graph"]["enodes"] >= 30_000 and path.stat().st_size < 8 << 20
    started = time.perf_counter()
    window.open(path, "classes/1")
    opened = time.perf_counter() - started
    window.type("#search", "FRedTree")
    assert "200 of" in window.js("return document.querySelector('.results + p').textContent"), "the rest is counted"
    print(f"{d['graph']['enodes']} e-nodes, {path.stat().st_size} bytes, opened in {opened:.2f} s")
    assert opened < 30, "seconds on an idle machine, with room for a busy one"
    assert window.messages() == []
