"""`railkeeper locate` and its benchmark as a user calls them."""

from __future__ import annotations

import json
import os

import pytest

from railkeeper.cli.errors import run
from railkeeper.cli.main import app
from railkeeper.health.infer.draw import Scene, as_text, draw
from railkeeper.health.infer.fattree import FatTree

TREE = FatTree(4, 4)
NETWORK = TREE.network()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("locate")
    drawn = draw(TREE, NETWORK, Scene(links=1, low=0.02, high=0.02), 2)
    ends = zip(NETWORK.link_from.tolist(), NETWORK.link_to.tolist(), strict=True)
    cables = [f"{u} {v}\n" for u, v in list(ends)[: NETWORK.first_host_link : 2]]
    hosts = [f"{h}->{NETWORK.switches[r]}\n" for h, r in zip(NETWORK.hosts, NETWORK.rack, strict=True)]
    (folder / "net").write_text("".join(cables + hosts))
    (folder / "trace").write_text("Failing_link 1 2 not a number\n" + as_text(drawn.trace))
    part = drawn.at_fault[0]
    return folder, [int(NETWORK.link_from[part]), int(NETWORK.link_to[part])]


def locate(folder, *more):
    return run(app, ["locate", "--topology", str(folder / "net"), "--evidence", str(folder / "trace"), *more])


@pytest.mark.parametrize("see", ["int", "a2", "a1+p", "a1+a2+p"])
def test_the_answer_for_scripts(files, capsys, see):
    folder, link = files

    assert locate(folder, "--see", see, "--json") == 0

    said = json.loads(capsys.readouterr().out)
    assert [fault["link"] for fault in said["faults"]] == [link]
    assert set(said["faults"][0]) == {"link", "rate", "rate_low", "rate_high", "confidence", "indistinguishable"}
    assert said["load_s"] > 0
    assert said["locate_s"] > 0
    assert said["peak_rss_bytes"] > 1 << 20
    assert said["flows"] == 16 * 2 * 100 + 2 * 16 * 2 * 4 or said["flows"] > 3000


def test_the_answer_for_people(files, capsys):
    folder, link = files

    assert locate(folder) == 0

    out = capsys.readouterr().out
    assert f"link {link[0]} → {link[1]}" in out
    assert "flows read in" in out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "trace").unlink(), "can't be read"),
        (lambda folder: (folder / "net").write_bytes(b"\xff\xfe"), "is not text"),
        (lambda folder: (folder / "trace").write_text("FID 1 2"), "line 1"),
        (lambda folder: (folder / "net").write_text("1 2\n"), "not in the topology"),
    ],
)
def test_what_can_not_be_read(files, tmp_path, capsys, change, said):
    for name in ("net", "trace"):
        (tmp_path / name).write_bytes((files[0] / name).read_bytes())
    change(tmp_path)

    assert locate(tmp_path) == 2
    assert said in capsys.readouterr().err


def test_a_pipe_is_no_file(tmp_path, files, capsys):
    (tmp_path / "net").write_bytes((files[0] / "net").read_bytes())
    (tmp_path / "trace").symlink_to(os.devnull)

    assert locate(tmp_path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["flows"] == 0


def test_the_benchmark(capsys):
    code = run(app, ["bench", "locate", "--k", "4", "--seeds", "1", "--cells", "1.80%-uniform", "--json"])

    assert code == 0
    rows = json.loads(capsys.readouterr().out)["figures"]
    assert {row["method"] for row in rows} == {"int", "a2", "a1+p", "a1+a2+p", "007", "netbouncer"}
    assert rows[0]["f"] == 1.0


@pytest.mark.parametrize("wrong", [["--k", "5"], ["--cells", "nope"], ["--methods", "nope"]])
def test_the_benchmark_refuses(capsys, wrong):
    assert run(app, ["bench", "locate", *wrong]) == 2
    assert capsys.readouterr().err
