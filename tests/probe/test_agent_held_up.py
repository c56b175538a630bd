"""An agent that was held up between stamping and sending says so: its losses are no path's."""

import time

import numpy as np
from probe_fabrics import fabric

from railkeeper.probe import agent as agent_module
from railkeeper.probe.agent import Agent, AgentConfig
from railkeeper.probe.sockets import Sent


def test_probes_that_were_held_up_make_the_tick_unclean(monkeypatch):
    config = AgentConfig(
        fabric=fabric(), node=0, keeper="ipc:///nonexistent/k.sock", interfaces=("lo", "lo"), port=39117
    )
    said = []
    with Agent(config) as agent:
        monkeypatch.setattr(agent._window, "sent", lambda _tick, rows, unsent: said.append((len(rows), unsent)))
        for pause_s in (0.0, config.grace_s):
            monkeypatch.setattr(
                agent._udp,
                "send",
                lambda packets, *_a, pause_s=pause_s, **_k: (
                    time.sleep(pause_s),
                    Sent(np.ones(len(packets), dtype=bool), 0, 0),
                )[1],
            )
            agent._send(np.arange(3), agent_module.PROBE_BYTES)

    assert said == [(3, 0), (3, 3)]
