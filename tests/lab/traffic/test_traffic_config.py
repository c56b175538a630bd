"""Settings that can't work are refused with what would be right."""

import pytest
from traffic_channel import FABRIC

from railkeeper.base.errors import InputError
from railkeeper.lab.traffic.config import TrafficConfig


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("node", 4), ("node", -1), ("rate_pps", 0), ("size", 20), ("size", 9000), ("chunk", 0), ("chunk", 1000),
        ("wake_s", 0.0), ("wake_s", 5.0), ("interfaces", ("a", "b", "c")),
    ],
)  # fmt: skip
def test_a_bad_setting_is_named(field, value):
    with pytest.raises(InputError, match=field):
        TrafficConfig(FABRIC, **({"node": 0} | {field: value}))
