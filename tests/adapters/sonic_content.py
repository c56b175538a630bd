"""Content of a SONiC switch, as large as wanted: names, ids, counters and tables in the form that the databases have."""

from __future__ import annotations

PORT_FIELDS = [
    *(
        f"SAI_PORT_STAT_IF_{way}_{what}"
        for way in ("IN", "OUT")
        for what in ("OCTETS", "UCAST_PKTS", "NON_UCAST_PKTS", "MULTICAST_PKTS", "BROADCAST_PKTS", "DISCARDS", "ERRORS")
    ),
    *(f"SAI_PORT_STAT_PFC_{p}_{way}_PKTS" for p in range(8) for way in ("RX", "TX")),
    "SAI_PORT_STAT_IF_IN_FEC_CORRECTABLE_FRAMES",
    "SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES",
    "SAI_PORT_STAT_IF_IN_FEC_CORRECTED_BITS",
    *(f"SAI_PORT_STAT_IF_IN_FEC_CODEWORD_ERRORS_S{n}" for n in range(16)),
    "SAI_PORT_STAT_TRIM_PACKETS",
    "SAI_PORT_STAT_TX_TRIM_PACKETS",
    "SAI_PORT_STAT_DROPPED_TRIM_PACKETS",
    "SAI_PORT_STAT_IN_DROPPED_PKTS",
    "SAI_PORT_STAT_OUT_DROPPED_PKTS",
]
QUEUE_FIELDS = [f"SAI_QUEUE_STAT_{what}" for what in ("PACKETS", "BYTES", "DROPPED_PACKETS", "DROPPED_BYTES")]
QUEUE_FIELDS += ["SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS", "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES"]
START_NS = 5_000_000_000_000


class SwitchContent:
    """Writes a switch into a Redis, and remembers what it wrote."""

    def __init__(self, server, ports: int, *, queues: int = 8, epoch: int = 1) -> None:
        self.server = server
        self.ports = [f"Ethernet{4 * n}" for n in range(ports)]
        self.queues = queues
        self.epoch = epoch  # object ids differ after each start of the orchestration agent

    def oid(self, kind: int, n: int) -> str:
        return f"oid:0x{kind:x}{self.epoch:06x}{n:08x}"

    def port_oid(self, port: str) -> str:
        return self.oid(0x10, self.ports.index(port))

    def queue_oid(self, port: str, queue: int) -> str:
        return self.oid(0x15, self.ports.index(port) * 64 + queue)

    def pg_oid(self, port: str, pg: int) -> str:
        return self.oid(0x1A, self.ports.index(port) * 64 + pg)

    def port_counters(self, port: str) -> dict[str, int]:
        n = self.ports.index(port)
        return {field: 1_000_000 * (n + 1) + at for at, field in enumerate(PORT_FIELDS)}

    def queue_counters(self, port: str, queue: int) -> dict[str, int]:
        n = self.ports.index(port)
        return {field: 10_000 * (n + 1) + 100 * queue + at for at, field in enumerate(QUEUE_FIELDS)}

    def write(self, stamp_ns: int = START_NS) -> None:
        self._counters(stamp_ns)
        self._config()
        self._states()

    def _counters(self, stamp_ns: int) -> None:
        pipe = self.server.client(2).pipeline(transaction=False)
        pipe.hset("COUNTERS_PORT_NAME_MAP", mapping={p: self.port_oid(p) for p in self.ports})
        indices = [(p, q) for p in self.ports for q in range(self.queues)]
        if indices:
            pipe.hset("COUNTERS_QUEUE_NAME_MAP", mapping={f"{p}:{q}": self.queue_oid(p, q) for p, q in indices})
            pipe.hset("COUNTERS_PG_NAME_MAP", mapping={f"{p}:{q}": self.pg_oid(p, q) for p, q in indices})
        pipe.hset("COUNTERS_BUFFER_POOL_NAME_MAP", "ingress_lossless_pool", self.oid(0x18, 1))
        pipe.hset("COUNTERS_SWITCH_NAME_MAP", "ASIC", self.oid(0x21, 0))
        pipe.hset(f"COUNTERS:{self.oid(0x21, 0)}", "SAI_SWITCH_STAT_DROPPED_TRIM_PACKETS", "5")
        pipe.hset(f"PERIODIC_WATERMARKS:{self.oid(0x18, 1)}", "SAI_BUFFER_POOL_STAT_WATERMARK_BYTES", "123456")
        pipe.hset(f"COUNTERS:{self.oid(0x18, 1)}", "SAI_BUFFER_POOL_STAT_WATERMARK_BYTES", "99")
        for port in self.ports:
            stamps = {
                "PORT_STAT_COUNTER_time_stamp": stamp_ns,
                "PORT_BUFFER_DROP_STAT_time_stamp": stamp_ns - 40_000_000_000,
            }
            pipe.hset(f"COUNTERS:{self.port_oid(port)}", mapping={**self.port_counters(port), **stamps})
            pipe.hset(f"RATES:{self.port_oid(port)}", mapping={"RX_BPS": "2.e9", "TX_BPS": "1.5e9"})
        for port, queue in indices:
            pipe.hset(f"COUNTERS:{self.queue_oid(port, queue)}", mapping=self.queue_counters(port, queue))
            pipe.hset(
                f"PERIODIC_WATERMARKS:{self.queue_oid(port, queue)}", "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", "60"
            )
            pipe.hset(f"COUNTERS:{self.pg_oid(port, queue)}", "SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS", "7")
        pipe.execute()

    def _config(self) -> None:
        pipe = self.server.client(4).pipeline(transaction=False)
        pipe.hset("DEVICE_METADATA|localhost", mapping={"hostname": "t0-7", "hwsku": "X-800", "type": "ToRRouter"})
        for group, state in (("PORT", "enable"), ("QUEUE", "enable"), ("PG_WATERMARK", "disable")):
            pipe.hset(f"FLEX_COUNTER_TABLE|{group}", mapping={"FLEX_COUNTER_STATUS": state, "POLL_INTERVAL": "1000"})
        pipe.hset("WRED_PROFILE|AZURE_LOSSLESS", mapping={"ecn": "ecn_all", "green_min_threshold": "1048576"})
        pipe.hset("CABLE_LENGTH|AZURE", mapping=dict.fromkeys(self.ports, "40m"))
        for n, port in enumerate(self.ports):
            pipe.hset(f"PORT|{port}", mapping={"alias": f"etp{n + 1}", "index": n, "speed": 800000, "lanes": "1,2,3,4"})
            pipe.hset(f"DEVICE_NEIGHBOR|{port}", mapping={"name": f"host{n}", "port": "eth0"})
            pipe.hset(f"PORT_QOS_MAP|{port}", mapping={"pfc_enable": "3,4"})
        pipe.execute()

    def _states(self) -> None:
        pipe = self.server.client(6).pipeline(transaction=False)
        pipe.hset("SWITCH_CAPABILITY|switch", mapping={"MIRROR": "true", "SWITCH_TRIMMING_CAPABLE": "true"})
        pipe.hset("QUEUE_COUNTER_CAPABILITIES|WRED_ECN_QUEUE_ECN_MARKED_PKT_COUNTER", "isSupported", "false")
        for n, port in enumerate(self.ports):
            pipe.hset(f"PORT_TABLE|{port}", mapping={"state": "ok", "netdev_oper_status": "up", "speed": "800000"})
            optics = {"temperature": "41.5", "voltage": "3.28", "last_update_time": "Mon Nov 30 10:00:00 2026"}
            optics |= {f"rx{lane}power": f"-0.{lane}71" for lane in range(1, 9)}
            optics |= {f"tx{lane}power": "N/A" for lane in range(1, 9)}
            pipe.hset(f"TRANSCEIVER_DOM_SENSOR|{port}", mapping=optics)
            pipe.hset(
                f"TRANSCEIVER_INFO|{port}", mapping={"manufacturer": "Vendor", "serial": f"00{n}", "type": "OSFP"}
            )
        pipe.execute()
        pipe = self.server.client(0).pipeline(transaction=False)
        for n, port in enumerate(self.ports):
            state = {"oper_status": "up", "admin_status": "up", "speed": "800000", "flap_count": "3", "fec": "rs"}
            pipe.hset(f"PORT_TABLE:{port}", mapping=state)
            neighbour = {"lldp_rem_sys_name": f"host{n}", "lldp_rem_port_id": "eth0", "lldp_rem_port_id_subtype": "5"}
            pipe.hset(f"LLDP_ENTRY_TABLE:{port}", mapping=neighbour)
        pipe.hset("ROUTE_TABLE:10.0.0.0/24", "nexthop", "10.1.1.1")
        pipe.execute()

    def restart_agent(self) -> None:
        """New ids for everything, as after a cold restart of the orchestration agent."""
        with self.server.client(2) as c:
            c.flushdb()
        self.epoch += 1
        self.write()


def set_counter(server, oid: str, field: str, value: int, **more: int) -> None:
    with server.client(2) as c:
        c.hset(f"COUNTERS:{oid}", mapping={field: value, **more})
