"""The path half of the tick benchmark, on a fabric of a minute's patience: ten faults, all right, no alarm."""

from __future__ import annotations

from railkeeper.app.bench_paths import measure, ten_faults
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import parse_spec

MEDIUM = """
[fabric]
planes = 8
t0_per_plane = 32
t1_per_plane = 32
nics_per_t0 = 32
nics_per_node = 4
[optics]
nic_ports_per_optic = 4
t0_ports_per_optic = 4
"""


def test_ten_faults_of_mixed_kinds_are_located_and_nothing_else_is_told():
    fabric = Fabric(parse_spec(MEDIUM))
    assert len({f.target_name for f in ten_faults(fabric)}) == 10
    figures = measure(fabric, ticks=12, quiet_ticks=20)
    assert figures["path_rows"] == fabric.n_nics * 8 * 4
    assert figures["missed"] == []
    assert figures["false_targets"] == []
    assert figures["located_right"]
    assert max(figures["ticks_to_locate"]) <= 8
