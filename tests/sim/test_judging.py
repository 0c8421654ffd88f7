"""Scores, reports, pictures and the commands that make them."""

import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from headgate.errors import HeadgateError, UsageError
from headgate.sim import commands, compare, report, scenario
from headgate.sim.compare import GOVERNORS, ORACLE, Case, Score, run, score, score_all
from headgate.sim.plot import draw
from headgate.sim.scenario import Agents, Scenario, built_in
from headgate.sim.upstream import ProviderPlan
from headgate.sim.virtual_time import Result
from tests.cli.golden.compare import Ask, asking
from tests.support import HEADGATE, Box

TINY = Scenario("tiny", "a tiny one", "steady", 0.05, Agents(6, 8.0), ProviderPlan(cap=((0, 3),)))
FILE = """
title = "a tiny one"
kind = "{kind}"
hours = {hours}
{more}
[agents]
number = 6
seconds = 8
[provider]
cap = {cap}
penalty = {penalty}
"""


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    return asking(capsys)


def scenario_file(folder: Path, name: str, **said: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    usual = {"kind": "steady", "hours": 0.05, "cap": 3, "penalty": 60, "more": ""}
    path = folder / f"{name}.toml"
    path.write_text(FILE.format(**usual | said))
    return path


def case(governor: str = "learn", **changes: Any) -> Case:  # noqa: ANN401 - the fields of a case
    return Case(TINY, governor, 1)._replace(**changes)


_AT_WORK = r"""
from headgate.sim.compare import process_pool
import os, time
def work(number):
    os.write(1, b"at work\n")
    time.sleep(600)
try:
    with process_pool(2) as pool:
        pool.map(work, [1, 2], chunksize=1)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def test_ctrl_c_ends_all_runs_without_a_word(box: Box) -> None:
    """A terminal sends it to every process of the command; only the first has to mind."""
    program = box.start(sys.executable, "-c", _AT_WORK, start_new_session=True)
    assert [program.line(), program.line()] == ["at work", "at work"]
    os.killpg(program.pid, signal.SIGINT)
    assert program.line() == "stopped"
    assert program.wait() == 0
    assert program.line(stream="stderr") == ""


def test_a_score_is_a_share_of_what_an_oracle_gets_done() -> None:
    """Under the same dice and without a punishment; 429s are counted by the thousand."""
    plan = TINY.plan._replace(penalty=60_000)
    found = score(case("backoff", scenario=TINY._replace(plan=plan)))
    assert found.result == run(found.case)
    best = run(found.case._replace(governor=ORACLE, penalty=False)).work
    assert found.goodput == pytest.approx(found.result.work / best)
    assert found.refusals == pytest.approx(1000 * found.result.refused / found.result.sent)
    assert found.refusals > 0
    assert found.goodput < 1
    assert score(found.case) == found


def test_an_oracle_is_run_for_each_scenario() -> None:
    """Two of one name, of other lengths or other caps, are not judged by each other's oracle."""
    short, long = case(), case(scenario=TINY._replace(hours=0.1))
    wide = case(scenario=TINY._replace(plan=ProviderPlan(cap=((0, 6),))))
    for one in (short, long, wide, short):
        assert 0.7 < score(one).goodput <= 1.05


def test_processes_change_nothing() -> None:
    """Two processes come to what one does, in the same order."""
    todo = [
        case(governor, seed=seed, usage=usage)
        for governor in ("learn", "fixed", "backoff")
        for seed in (1, 2)
        for usage in ({False, governor == "learn"})
    ]
    alone = score_all(todo)
    compare._best.clear()
    assert score_all(iter(todo), 2) == alone
    assert [found.case for found in alone] == todo


def test_no_work_at_all_is_a_score() -> None:
    """Where not even an oracle gets anything done, nothing is divided by it."""
    found = score(case(scenario=TINY._replace(plan=ProviderPlan(cap=((0, 0),)))))
    assert (found.goodput, found.result.work) == (0, 0)
    nobody = TINY._replace(agents=Agents(0))
    assert score(case(scenario=nobody)).result.sent == 0


def made(
    name: str,
    governor: str,
    goodput: float,
    refusals: float = 0.0,
    *,
    kind: str = "steady",
    penalty: bool = False,
    usage: bool = False,
) -> Score:
    """A score as it might come out."""
    told = TINY._replace(name=name, kind=kind, plan=ProviderPlan(penalty=1))
    result = Result(1.0, 100, 1, 0.0, None, 3.0, {"normal": (1.0, 2.0)}, 1.0, 0)
    return Score(Case(told, governor, 1, penalty, usage), goodput, refusals, result)


def verdicts(text: str) -> dict[tuple[str, str, str], bool]:
    """Which rows of the table of aims are marked as missed."""
    rows = re.findall(r"^\| (\S+) \| (yes|no) \| (yes|no) \| ≥.*\| (.*) \|$", text, re.MULTILINE)
    return {(name, usage, hurt): mark == "**missed**" for name, usage, hurt, mark in rows}


def test_a_missed_aim_is_marked() -> None:
    """Too little done, or too many refused; the rows that meet theirs are not marked."""
    scores = []
    for name, goodput, refusals in (("good", 0.951, 2.0), ("lazy", 0.94, 0.0), ("rude", 0.99, 2.1)):
        for governor in GOVERNORS:
            done = goodput if governor == "learn" else 0.5
            scores.append(made(name, governor, done, refusals))
    for governor in ("learn", "learn-blind"):
        scores.append(made("good", governor, 0.98, 0.4, penalty=True, usage=True))
        scores.append(made("lazy", governor, 0.96, 0.0, penalty=True, usage=True))
        scores.append(made("people", governor, 0.75, 99.0, kind="humans", penalty=True))
        scores.append(made("free", governor, 0.1, 99.0, kind="odd"))
    text = report.write(scores, ["a.svg"])
    assert verdicts(text) == {
        ("good", "no", "no"): False,
        ("lazy", "no", "no"): True,
        ("rude", "no", "no"): True,
        ("good", "yes", "yes"): False,
        ("lazy", "yes", "yes"): True,
        ("people", "no", "yes"): False,
    }
    assert text.endswith("![a.svg](a.svg)\n")


def test_a_baseline_that_is_ahead_is_named() -> None:
    """The last row of a comparison has the best of the others, and says if it beats us."""
    scores = [
        made("one", governor, {"learn": 0.8, "fixed": 0.9}.get(governor, 0.1))
        for governor in GOVERNORS
    ] + [
        made("two", governor, {"learn": 0.9, "aimd": 0.8}.get(governor, 0.1))
        for governor in GOVERNORS
    ]
    assert "| best baseline | fixed .90 **ahead** | aimd .80 |" in report.write(scores, [])


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a Markdown text, as rows of cells."""
    blocks = [block for block in text.strip().split("\n\n") if block.startswith("|")]
    return [
        [[cell.strip() for cell in row.strip("|").split("|")] for row in block.split("\n")]
        for block in blocks
    ]


def test_a_report_has_everything(tmp_path: Path) -> None:
    """Every scenario, every governor, with readings and without; all rows as long as their head."""
    scenarios = [
        scenario.load(scenario_file(tmp_path, "calm")),
        scenario.load(scenario_file(tmp_path, "falls", kind="moving", cap="[[0, 4], [60, 2]]")),
        scenario.load(scenario_file(tmp_path, "cheap", kind="odd", penalty=0)),
        scenario.load(scenario_file(tmp_path, "blind", kind="odd", more="only_usage = true")),
    ]
    done: list[tuple[int, int]] = []
    scores = report.everything(scenarios, [7, 8], 2, lambda *said: done.append(said))
    assert done[-1] == (len(scores), len(scores))
    assert [n for n, _ in done] == list(range(1, len(scores) + 1))
    for found in scores:
        assert not (found.case.usage and found.case.governor not in compare.OURS)
        assert found.case.usage or not found.case.scenario.only_usage
        assert not (found.case.penalty and not found.case.scenario.plan.penalty)
    text = report.write(scores, [])
    aims, punished, free, readings = tables(text)
    assert {row[0] for row in aims[2:]} == {"calm", "falls", "cheap", "blind"}
    assert punished[0][1:] == ["calm", "falls"]
    assert free[0][1:] == ["calm", "falls", "cheap"]
    assert set(readings[0][1:]) == {"calm", "falls", "cheap", "blind"}
    for table in (punished, free):
        assert [row[0] for row in table[2:-1]] == list(GOVERNORS)
    for table in (aims, punished, free, readings):
        assert {len(row) for row in table} == {len(table[0])}
        assert all(cell for row in table[2:] for cell in row[1:-1])
    assert f"{len(scores)} runs, 2 seeds each" in text


def test_a_line_is_the_mean_of_its_seeds() -> None:
    """As `sim run` prints it."""
    scores = [score(case(seed=seed)) for seed in (1, 2)]
    words = report.line("tiny", "learn", scores).split()
    assert words[:2] == ["tiny", "learn"]
    assert float(words[2]) == pytest.approx(fmean(one.goodput for one in scores), abs=0.001)
    assert "never" in report.line("tiny", "learn", [made("tiny", "learn", 1.0)])


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    """A PNG with its signature and a size, and an SVG that is XML; one panel per case."""
    cases = [case(), case("step-down"), case("fixed-bare", usage=True)]
    draw(cases, tmp_path / "run.png")
    data = (tmp_path / "run.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    assert min(width, height) > 300
    draw(cases, tmp_path / "run.svg")
    root = ET.parse(tmp_path / "run.svg").getroot()  # noqa: S314 - we wrote it
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    panels = [one for one in root.iter() if re.fullmatch(r"axes_\d+", one.get("id", ""))]
    assert len(panels) == 3
    again = tmp_path / "again.svg"
    draw(cases, again)
    assert again.read_bytes() == (tmp_path / "run.svg").read_bytes()


def test_a_picture_says_what_it_cannot_be(tmp_path: Path) -> None:
    """Another kind of file, or a folder that is not there."""
    with pytest.raises(UsageError, match=r"bad plot 'run.gif': expected a file that ends in"):
        draw([case()], tmp_path / "run.gif")
    with pytest.raises(HeadgateError, match="cannot write"):
        draw([case()], tmp_path / "none" / "run.png")


def test_long_runs_are_thinned_for_the_picture(tmp_path: Path) -> None:
    """What shows is kept: every refusal, every move of the limit."""
    from headgate.sim.plot import _thinned
    from headgate.sim.virtual_time import Point

    points = [Point(n, 4 - (n > 5_001), n % 3, 4, n // 4_999) for n in range(9_000)]
    found = _thinned(points)
    assert len(found) < 1_005
    for n in (0, 4_999, 5_002, 8_999):
        assert points[n] in found
    restless = [Point(n, n % 7, n % 3, 4, n) for n in range(90_000)]
    found = _thinned(restless)
    assert len(found) < 1_005
    assert (found[0], found[-1]) == (restless[0], restless[-1])
    assert _thinned(points[:1_000]) == points[:1_000]


def test_run_prints_a_line_for_each(ask: Ask, tmp_path: Path) -> None:
    """Scenario and governor, with figures under their names."""
    path = scenario_file(tmp_path, "mine")
    words = ("--governor", "learn", "--governor", "fixed", "--hours", "0.1", "--jobs", "1")
    said = ask("sim", "run", str(path), "steady-4", *words)
    assert (said.code, said.err) == (0, "")
    head, *rows = said.out.splitlines()
    assert head.split()[:4] == ["scenario", "governor", "goodput", "429s/1000"]
    assert [row.split()[:2] for row in rows] == [
        [name, governor] for name in ("mine", "steady-4") for governor in ("learn", "fixed")
    ]
    assert all(0.5 < float(row.split()[2]) <= 1.1 for row in rows)
    assert len({len(row) for row in rows}) == 1


def test_run_as_json(ask: Ask, tmp_path: Path) -> None:
    """One object per run, with all figures; seeds are counted up from the first."""
    path = scenario_file(tmp_path, "mine")
    words = ("--seeds", "2", "--first-seed", "5", "--usage", "--no-penalty", "--json")
    said = ask("sim", "run", str(path), *words, "--jobs", "2")
    assert (said.code, said.err) == (0, "")
    rows = json.loads(said.out)["runs"]
    assert [(row["scenario"], row["governor"], row["seed"]) for row in rows] == [
        ("mine", "learn", 5),
        ("mine", "learn", 6),
    ]
    for row in rows:
        assert (row["usage"], row["penalty"]) == (True, False)
        assert set(Result._fields) < set(row)
        assert 0 < row["goodput"] < 1.1
        assert row["polls"] > 0


def test_a_scenario_that_needs_readings_gets_them(ask: Ask, tmp_path: Path) -> None:
    """Whether they were asked for or not."""
    path = scenario_file(tmp_path, "mine", more="only_usage = true")
    rows = json.loads(ask("sim", "run", str(path), "--json", "--jobs", "1").out)["runs"]
    assert [row["usage"] for row in rows] == [True]


def test_list_names_everything(ask: Ask) -> None:
    """Scenarios with kind and length, governors with what they are."""
    said = ask("sim", "run", "--list")
    assert (said.code, said.err) == (0, "")
    for name, one in built_in().items():
        assert f"  {name:<16} {one.title} ({one.kind}, {one.hours:g} h)\n" in said.out
    for name, (title, _) in GOVERNORS.items():
        assert f"  {name:<16} {title}\n" in said.out


@pytest.mark.parametrize(
    "words, said",
    [
        (("run", "nothing"), "there is no scenario 'nothing': name a .toml file, or one of "),
        (("run", "none.toml"), "none.toml: cannot be read as a scenario"),
        (("run", "steady-4", "--hours", "0"), "bad --hours 0.0: expected"),
        (("run", "steady-4", "--hours", "nan"), "bad --hours nan: expected"),
        (("run", "steady-4", "--hours", "x"), "argument --hours"),
        (("run", "steady-4", "--seeds", "0"), "bad --seeds 0: expected"),
        (("run", "steady-4", "--governor", "me"), "argument --governor"),
        (("run", "steady-4", "--hours", "0.02", "--plot", "x.gif"), "bad plot 'x.gif'"),
        (("report", "--seeds", "-1"), "bad --seeds -1: expected"),
        (("report", "steady-4"), "unrecognized arguments"),
        (("dance",), "argument ACTION"),
    ],
)
def test_bad_usage_is_two(ask: Ask, words: tuple[str, ...], said: str) -> None:
    """One line that names it, nothing on stdout."""
    found = ask("sim", *words)
    assert (found.code, found.out) == (2, "")
    assert said in found.err


def test_a_wrong_file_is_named(ask: Ask, tmp_path: Path) -> None:
    """File and key, and 2."""
    path = scenario_file(tmp_path, "mine", cap='"many"')
    found = ask("sim", "run", str(path))
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"headgate: {path}: provider.cap: found 'many', expected ")


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small scenarios in place of those that come with headgate."""
    folder = tmp_path / "scenarios"
    scenario_file(folder, "steady")
    scenario_file(folder, "moving", kind="moving", cap="[[0, 4], [60, 2]]")
    scenario_file(folder, "humans", kind="humans", more="humans = [2, 30]", cap=4)
    scenario_file(folder, "long", hours=3)
    monkeypatch.setattr(scenario, "FOLDER", folder)


@pytest.mark.usefixtures("few")
def test_report_writes_a_page_and_its_pictures(ask: Ask, tmp_path: Path) -> None:
    """Markdown, and beside it what it shows; how far it is goes to stderr."""
    page = tmp_path / "out" / "report.md"
    page.parent.mkdir()
    said = ask("sim", "report", "--quick", "--jobs", "2", "--out", str(page))
    assert (said.code, said.out) == (0, "")
    assert said.err.endswith(f"headgate: wrote {page}\n")
    assert re.search(r"headgate: (\d+) of \1 runs\n", said.err)
    text = page.read_text()
    assert "1 seeds each" in text
    for name in ("steady", "moving", "humans"):
        assert f"| {name} |" in text
    assert "long" not in text
    shown = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert shown
    assert all((page.parent / name).exists() for name in shown)
    assert {path.suffix for path in page.parent.iterdir()} == {".md", ".svg", ".png"}


@pytest.mark.usefixtures("few")
def test_report_to_stdout(ask: Ask) -> None:
    """Without a file it is printed, and nothing is drawn."""
    said = ask("sim", "report", "--quick", "--jobs", "2")
    assert said.code == 0
    assert "## Against the aims" in said.out
    assert "![" not in said.out


def test_as_many_processes_as_asked_for() -> None:
    """At least one; all cores if nobody says."""
    assert [commands._jobs(n) for n in (0, -1, 3)] == [1, 1, 3]
    assert commands._jobs(None) == os.cpu_count()


def test_the_real_command(box: Box, tmp_path: Path) -> None:
    """In processes of its own, whose sets and dicts are shuffled otherwise: the same figures."""
    path, picture = scenario_file(tmp_path, "mine"), tmp_path / "mine.svg"
    argv = [HEADGATE, "sim", "run", str(path), "humans", "--hours", "0.1", "--json", "--usage"]
    said = []
    for shuffle, more in (("1", ["--jobs", "2"]), ("2", ["--jobs", "1", "--plot", str(picture)])):
        done = subprocess.run(
            [*argv, *more],
            env={**box.env, "PYTHONHASHSEED": shuffle},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        said.append(json.loads(done.stdout))
    assert said[0] == said[1]
    assert [row["scenario"] for row in said[0]["runs"]] == ["mine", "humans"]
    assert ET.parse(picture).getroot().tag.endswith("svg")  # noqa: S314 - we wrote it
    bad = subprocess.run(
        [HEADGATE, "sim", "run", "-x"], env=box.env, capture_output=True, check=False
    )
    assert (bad.returncode, bad.stdout) == (2, b"")
