"""The demonstration that ships with the package: what people see who can't have real packets."""

from __future__ import annotations

from importlib import resources

from railkeeper.app import demo
from railkeeper.app.compose import recording_keeper
from railkeeper.app.recording import Digest, open_recording
from railkeeper.cli.errors import run
from railkeeper.cli.main import app


def recorded():
    return resources.as_file(resources.files("railkeeper.data") / "demo.rkrec")


def test_every_answer_is_as_recorded_and_every_fault_of_the_scenario_is_told():
    digest, told = Digest(), set()
    with recorded() as path, recording_keeper(path) as (keeper, world):
        while (given := world.next_tick()) is not None:
            outcome = keeper.answer(given)
            assert world.expected == digest.add(outcome.events)
            told |= {(f.kind, f.target, f.direction) for f in outcome.faults}
    assert told == {(f["kind"], f["target"], f.get("direction", "both")) for f in demo.SCENARIO}


def test_it_is_small_and_holds_notes_for_people():
    notes = []
    with recorded() as path:
        assert path.stat().st_size < 2 << 20
        for _ in open_recording(path).ticks(notes.append):
            pass
    assert sum("located" in note for note in notes) == len(demo.SCENARIO)


def test_the_command_replays_it(capsys):
    assert run(app, ["demo", "--replay", "--speed", "1000"]) == 0
    seen = capsys.readouterr()
    assert "blackhole on p1/t1-0" in seen.out
    assert "bit for bit" in seen.err
