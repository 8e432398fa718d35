"""Public cases of slow or failing RDMA jobs, condensed to small inputs with the figures that were reported, and what the doctor
has to say. `python3 cases.py --write` writes them to cases/NAME; the test reads them from there."""

import json
import shutil
import sys

from build import COLUMNS, HEADER, ROOT, Change, both, counters, ibstat, nccl, perftest, ranks, row, table
from rule_cases import IDLE, USING, wc

HIGH, MEDIUM, LOW = ["high"], ["medium", "high"], ["low"]
UNRESOLVED = ["insufficient-evidence"]
CASES = {}


def case(rules, confidence, source, perturb=True):
    def add(make):
        CASES[make.__name__.replace("_", "-")] = {"make": lambda change: make(change), "rules": rules, "confidence": confidence,
                                                  "source": source, "perturb": perturb}
        return make
    return add


def variants(each):
    """Other magnitudes, another vendor, one file missing."""
    for scale in (0.3, 0.6, 3.0):
        yield f"×{scale}", Change(scale=scale)
    for vendor in ("bnxt", "irdma", "ionic"):
        yield f"as {vendor}", Change(vendor=vendor)
    for index in range(min(9, len(each["make"](Change())))):
        for scale in (0.5, 1.0):
            yield f"×{scale} without file {index}", Change(scale=scale, drop=index)


def rails(count, rate, host="nodeA"):
    return {f"{host}/ibstat.txt": "".join(ibstat(rate, f"mlx5_{i}") for i in range(count))}


def ends(rate):
    return {"sender/ibstat.txt": ibstat(rate), "receiver/ibstat.txt": ibstat(rate)}


def run(change, sender=None, receiver=None):
    return both(IDLE | (sender or {}), IDLE | (receiver or {}), change)


def acs(on):
    sign = "+" if on else "-"
    return ("0000:05:08.0 PCI bridge: PLX Technology, Inc.\n"
            f"\t\tACSCtl:\tSrcValid{sign} TransBlk- ReqRedir{sign} CmpltRedir{sign} UpstreamFwd{sign}\n")


def pci(width, width_max, speed, speed_max):
    folder = "/sys/class/infiniband/mlx5_0/device"
    return (f"{folder}/current_link_width:{width}\n{folder}/max_link_width:{width_max}\n{folder}/current_link_speed:{speed} GT/s PCIe\n"
            f"{folder}/max_link_speed:{speed_max} GT/s PCIe\n")


@case(["separate-runs"], HIGH, "nccl-tests#27")
def c01_two_runs_taken_for_one(_):
    rows = row(1 << 27, 3.94)
    return {"out.txt": "mpirun -H h1,h2 -np 2 ./all_reduce_perf -b 128M -e 128M -g 2\n" + HEADER + ranks(["h1"], 2) + HEADER +
            ranks(["h2"], 2) + COLUMNS + COLUMNS + rows + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 3.94145 \n" + rows +
            "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 3.94156 \n"}


@case(["separate-runs"], HIGH, "nccl-tests#213")
def c02_two_runs_one_after_the_other(_):
    return {"out.txt": table([row(1 << 30, 330)], hosts=["h1"], gpus=8) + table([row(1 << 30, 331)], hosts=["h2"], gpus=8)}


@case(["healthy"], HIGH, "byteps#313")
def c03_unit_misread(change):
    return run(change, {"cnp_received": 30}, {"cnp_sent": 30}) | ends(100) | {"p.txt": perftest(97.4, unit="MB/sec", test="Send BW Test")}


@case(["library-regression"], HIGH, "nccl#1272")
def c05_sendrecv_slow_from_eight_nodes(_):
    hosts = [f"gh{i}" for i in range(32)]
    return {"old/sendrecv.txt": table([row(1 << 30, 24.2)], hosts, 1, 24.2382, version=21904),
            "new/sendrecv.txt": table([row(1 << 30, 18.3)], hosts, 1, 18.3153, version=22005)}


@case(["collective-software"], HIGH, "nccl#2409")
def c06_perftest_at_line_rate_collective_at_half(change):
    one = perftest(0, rows=[(16384, 380.0), (131072, 392.1), (1 << 20, 284.4)])
    hosts = ["nodeA", "nodeB"]
    return run(change, {"rx_pause_us": 0}) | rails(8, 400) | {"one-qp.txt": one, "eight-qp.txt": perftest(391.8, qps=8),
                                                             "all_reduce.txt": table([row(1 << 29, 210), row(1 << 30, 216.5)], hosts)}


@case(["gpu-pcie-limit"], MEDIUM, "nccl-tests#232")
def c07_one_gpu_four_adapters(_):
    return rails(4, 400) | {"out.txt": table([row(1 << 28, 41), row(1 << 30, 48), row(1 << 33, 50)], gpus=1)}


@case(["one-rail", "missing-rails"], MEDIUM, "nccl-tests#128")
def c08_one_rail(_):
    return {"nodeA/nccl.log": nccl("INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:10.0.0.1<0>"), "out.txt": table([row(1 << 30, 11)])}


@case(["checker-wrong"], MEDIUM, "azurehpc-health-checks#142")
def c09_the_check_itself(_):
    return rails(8, 400) | {"check.log": "Node health check: NCCL all_reduce FAILED, expected 460\nNCCL_TOPO_FILE=/opt/topo.xml\n",
                            "out.txt": table([row(1 << 30, 360), row(1 << 33, 388)])}


@case(["gdr-off"], HIGH, "nccl#1412")
def c11_no_gpudirect(_):
    return {"nodeA/nccl.log": nccl(USING, "INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0",
                                   "INFO Connected all rings, use ring PXN 0 GDR 0"), "out.txt": table([row(1 << 30, 33.4)], average=33.3227)}


@case(["gdr-off", "acs-on"], MEDIUM, "nccl#489")
def c12_no_gpudirect_and_access_control(_):
    return {"nodeA/nccl.log": nccl(USING, "INFO Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/0"), "nodeA/lspci.txt": acs(True)}


@case(["acs-on", "acs-breaks-gdr"], MEDIUM, "nccl#304")
def c13_access_control_crash(_):
    return {"nodeA/lspci.txt": acs(True), "nodeA/nccl.log": nccl(USING, "INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA", wc(4))}


@case(["acs-breaks-gdr", "acs-on"], MEDIUM, "nccl-tests#252")
def c14_access_control_error(_):
    return {"nodeA/nccl.log": nccl(USING, "INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA", wc(10)),
            "nodeA/lspci.txt": acs(True), "gdr0/env.txt": "NCCL_NET_GDR_LEVEL=0\n"}


@case(["missing-rails", "acs-on", "one-rail"], MEDIUM, "nccl-tests#112")
def c15_two_thirds_of_the_link(_):
    return rails(4, 200) | {"p.txt": perftest(180), "nodeA/env.txt": "NCCL_IB_HCA=mlx5_0\n", "nodeA/nccl.log": nccl(USING),
                            "nodeA/lspci.txt": acs(True), "out.txt": table([row(1 << 30, 9.9)], average=9.84)}


@case(["gpu-path"], HIGH, "perftest#241")
def c17_gpu_memory_half_of_host_memory(_):
    return {"host.txt": perftest(23000 * 8.388608e-3, unit="MB/sec"), "cuda.txt": perftest(11000 * 8.388608e-3, unit="MB/sec", cuda=True)}


@case(UNRESOLVED + ["healthy"], ["low", "high"], "Mooncake#1459")
def c18_gpu_slow_in_a_transfer_engine(_):
    return {"bench.log": "transfer engine: GPU 15 GB/s, CPU 47 GB/s\n", "a/ibstat.txt": ibstat(400)}


@case(["placement"], HIGH, "ompi#6888")
def c20_pinning_halves(_):
    return {"unpinned.txt": perftest(11792.73 * 8.388608e-3, unit="MB/sec", test="RDMA_Read BW Test"),
            "taskset.txt": perftest(5900 * 8.388608e-3, unit="MB/sec", test="RDMA_Read BW Test")}


@case(["nic-throttled"], ["medium"], "dgx-spark-playbooks#108")
def c22_adapter_came_up_throttled(change):
    return run(change, {"link_flap": 0, "phy_symbol": 0}) | ends(200) | {
        "sender/pci.txt": pci(4, 4, "32.0", "32.0"), "p.txt": perftest(13.23, qps=8),
        "sender/dmesg.txt": "mlx5_core 0000:01:00.0: mlx5_pcie_event: Detected insufficient power on the PCIe slot (27W).\n"}


@case(["read-slow"], ["medium"], "perftest#252")
def c24_read_below_the_link(_):
    return ends(200) | {"r.txt": perftest(160, bytes=65536, test="RDMA_Read BW Test")}


@case(["too-short"], HIGH, "perftest#318")
def c25_default_run_is_short(_):
    return ends(400) | {"default.txt": perftest(310, bytes=65536, iterations=5000)}


@case(UNRESOLVED, LOW, "ucx#11048")
def c26_gpu_rdma_fails_on_another_vendor(_):
    text = perftest(92, cuda=True, device="bnxt_re0")
    return {"nodeA/ibstat.txt": ibstat(100, "bnxt_re0"), "host.txt": perftest(97.8, device="bnxt_re0"),
            "cuda.txt": text[:text.index(" #bytes")] + "Couldn't allocate MR\n"}


@case(["unreachable"], HIGH, "nccl#426")
def c27_error_12_at_once(_):
    return {"nodeA/nccl.log": nccl(USING, "INFO Using network IB", "INFO Init COMPLETE",
                                   "WARN NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129")}


@case(["unreachable"], HIGH, "pytorch#81628")
def c28_hosts_under_different_switches(_):
    return {f"{host}/nccl.log": nccl(USING, "WARN NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129", host=host)
            for host in ("rack1", "rack2")}


@case(["unreachable"], LOW, "nccl#1131")
def c30_one_gid_works(_):
    return {"gid0.txt": perftest(97, gid=0), "nodeA/nccl.log": nccl(USING, wc(12)), "nodeA/env.txt": "NCCL_IB_GID_INDEX=3\n"}


@case(["rdma-unused"], HIGH, "vllm#42075")
def c32_silent_fallback(_):
    return {"nodeA/nccl.log": nccl("INFO NET/IB : No device found.", "INFO NET/Socket : Using [0]eth0:10.0.0.1<0>", "INFO Using network Socket"),
            "nodeA/limits.txt": "Max locked memory         65536                65536                bytes\n"}


@case(["rdma-unused"], HIGH, "nccl#451")
def c33_container_cannot_open_the_device(_):
    return {"nodeA/nccl.log": nccl("WARN Call to ibv_open_device failed", "WARN NET/IB : Unable to open device mlx5_bond_0", "INFO Using network Socket")}


@case(["slow-receiver"] + UNRESOLVED, LOW, "nccl#173")
def c36_adapter_sends_pause(change):
    return counters("node", {"tx_pause_frames": 90_000, "tx_pause_us": 4_000_000}, change)


@case(UNRESOLVED, LOW, "byteps#179")
def c37_totals_without_a_run(_):
    folder = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters"
    values = {"local_ack_timeout_err": 2705, "np_cnp_sent": 1333, "np_ecn_marked_roce_packets": 0, "lifespan": 12}
    return {"worker/counters.txt": "".join(f"{folder}/{name}:{value}\n" for name, value in values.items()),
            "worker/ethtool.txt": "NIC statistics:\n     rx_prio0_bytes: 912837465012\n     tx_prio0_bytes: 812837465012\n     rx_prio3_bytes: 0\n     rx_prio3_pause: 0\n"}


@case(UNRESOLVED, LOW, "nccl#306")
def c39_hiccups(change):
    return {"nodeA/nccl.log": nccl(USING, "INFO Using network IB", "INFO Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/0/GDRDMA")} | counters(
        "nodeA", {"rx_pause_frames": 12, "rx_pause_us": 90}, change)


@case(["pfc-mismatch"], HIGH, "ucx#2934")
def c40_pfc_not_configured(change):
    qos = "DCBX mode: OS controlled\nPriority trust state: {}\nPFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n\tenabled     0   0   0   {}   0   0   0   0   \n"
    return run(change, {"timeout": 300}) | {"sender/mlnx_qos.txt": qos.format("pcp", 0), "receiver/mlnx_qos.txt": qos.format("dscp", 1)}


@case(["black-hole", "packet-loss", "tail-loss"], ["medium"], "ucx#6000")
def c41_transport_retry_exceeded(_):
    return {"nodeA/app.log": " Completion with error at client\n Failed status transport retry counter exceeded (12): wr_id 0 syndrom 0x81\n",
            "nodeA/p.txt": perftest(60)}


@case(["headroom"], ["medium"], "perftest#284")
def c43_pause_works_and_packets_drop(change):
    return both(IDLE | {"rx_pause_frames": 90_000, "rx_pause_us": 900_000, "cnp_received": 30}, IDLE | {"rx_discard": 7000, "ecn_marked": 40, "cnp_sent": 40}, change, vendor="mlx5")


@case(["ecmp"], ["medium"], "ucx#10430, nccl-tests#265")
def c45_bond_gives_half(_):
    return {"a/ibstat.txt": ibstat(200, "mlx5_bond_0"), "p.txt": perftest(98, device="mlx5_bond_0")}


@case(["ecmp"], HIGH, "uccl#153")
def c46_collisions_across_racks(_):
    return ends(400) | {"same-rack.txt": perftest(391), "cross-rack.txt": perftest(180)}


@case(["unstable-ece"], ["medium"], "nccl#1403")
def c47_unstable_with_ece(_):
    return {"nodeA/env.txt": "NCCL_IB_ECE_ENABLE=1\n", "run1/out.txt": table([row(1 << 30, 340)]), "run2/out.txt": table([row(1 << 30, 150)])}


@case(["pfc-storm-switch"], HIGH, "sonic-buildimage#8483")
def c49_watchdog_storm(_):
    return {"switch.txt": "        QUEUE       STATUS    STORM DETECTED/RESTORED    TX OK/DROP    RX OK/DROP    TX LAST OK/DROP    RX LAST OK/DROP\n"
            "-------------  -----------  -------------------------  ------------  ------------  -----------------  -----------------\n"
            "  Ethernet4:3      stormed                        1/0           0/0           0/0         0/41507426                0/0\n"}


@case(UNRESOLVED, LOW, "sonic-buildimage#19067")
def c50_watchdog_counters_say_nothing(_):
    return {"switch.txt": "  Ethernet8:3  operational                        0/0           0/0           0/0                0/0                0/0\n"}


@case(["transport-timeouts"], ["medium"], "uccl#117")
def c52_software_transport_dies(_):
    return {"uccl.log": "RTO retransmission threshold reached, flow 3\nTX 0.06 Gbps\nSegmentation fault\n"}


@case(["tail-loss"] + UNRESOLVED, LOW, "EFA, 17,852 and 30,104 packets sent again")
def c54_efa_stalls(_):
    folder = "/sys/class/infiniband/rdmap0s31/ports/1/hw_counters"
    def listing(packets, events):
        return f"{folder}/retrans_pkts:{packets}\n{folder}/retrans_timeout_events:{events}\n{folder}/unresponsive_remote_events:0\n{folder}/rdma_write_bytes:{packets}000\n"
    return {"a/counters-before.txt": listing(100, 10), "a/counters-after.txt": listing(17952, 1021), "notes.txt": "duration: 60 s\n"}


@case(["verbs-misuse"], HIGH, "rocm-systems#11174")
def c56_flush_regression(_):
    return {"nodeA/rccl.log": nccl("INFO NET/IB : Using [0]bnxt_re0:1/RoCE ; OOB eth0:10.0.0.1<0>",
                                   "WARN NET/IB : Got completion from peer 10.0.0.2<4> with status=IBV_WC_REM_INV_REQ_ERR(9) opcode=IBV_WC_RECV(128) reqSize=0 vendor_err=0 req_type=Recv",
                                   "WARN NET/IB : bnxt_re0:1 Got async fatal event: local work queue catastrophic error")}


PAUSE = ["fabric-congestion", "slow-receiver", "pfc-storm", "pause-without-ecn", "global-pause", "pfc-mismatch", "misclassified"]
LOSS = ["packet-loss", "tail-loss", "ack-loss", "nic-overflow", "headroom", "black-hole", "adaptive-recovery"]
FALSE_FRIENDS = {
    "01 notifications grow and the rate is right": (run(Change(), {"cnp_received": 50_000}, {"cnp_sent": 50_000, "ecn_marked": 50_000}) | ends(400) | {"p.txt": perftest(390)}, PAUSE + LOSS + ["ecn-low"]),
    "02 pause sent is not pause received": (run(Change(), {"rx_pause_us": 3_000_000}, {"tx_pause_us": 3_000_000, "pcie_stall_s": 4}), ["fabric-congestion"]),
    "03 many frames, little time": (run(Change(), {"rx_pause_frames": 5_000_000, "rx_pause_us": 900}), PAUSE),
    "04 out of order on many paths": (run(Change(), {}, {"out_of_sequence": 500_000}), LOSS),
    "05 adaptive retransmission is recovery": (run(Change(), {"adaptive_retrans": 900}) | ends(400) | {"p.txt": perftest(390)}, LOSS),
    "06 flushed at the end": (run(Change(), {"cqe_flush": 5000}), LOSS + ["verbs-misuse", "flush-only"]),
    "07 recoverable errors of bnxt are broadcasts": ({f"n/counters-{p}.txt": f"/sys/class/infiniband/bnxt_re0/ports/1/hw_counters/recoverable_errors:{v}\n" for p, v in (("before", 7), ("after", 90_000))}, LOSS),
    "08 32 bits wrap": ({f"n/counters-{p}.txt": f"/sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err:{v}\n/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence:{v}\n" for p, v in (("before", 4294967290), ("after", 3))}, ["snapshot-invalid", "packet-loss"]),
    "09 one adapter's notifications on both ports of a bond": ({f"{host}/counters-{p}.txt": "".join(f"/sys/class/infiniband/mlx5_bond_0/ports/{port}/hw_counters/{name}:{v}\n" for port in (1, 2) for name in ("rp_cnp_handled", "np_cnp_sent")) for host in ("sender", "receiver") for p, v in (("before", 5), ("after", 50_005))} | ends(400) | {"p.txt": perftest(390)}, PAUSE + LOSS + ["ecn-low"]),
    "10 absent pause counters prove nothing": ({f"vm/ethtool-{p}.txt": "NIC statistics:\n     rx_packets: 5\n     tx_vport_rdma_unicast_bytes: 900\n" for p in ("before", "after")}, PAUSE),
    "11 E810 counts pause for the whole traffic class": ({f"{host}/ethtool-{p}.txt": "NIC statistics:\n" + "".join(f"     {way}_priority_{n}_xoff.nic: {v}\n" for n in range(8) for way in ("rx", "tx")) for host in ("sender", "receiver") for p, v in (("before", 5), ("after", 905))}, ["misclassified", "pfc-mismatch"]),
    "12 totals of a lifetime": ({"n/ethtool.txt": "NIC statistics:\n     rx_prio3_pause: 132000000\n     rx_prio3_pause_duration: 99000000000\n     rx_discards_phy: 4711\n"}, PAUSE + LOSS),
    "13 corrected bits are normal": (run(Change(), {"fec_corrected": 90_000_000, "phy_symbol": 0}), ["bad-phy", "corruption"]),
    "14 a busy GPU": ({"g.txt": "utilization.gpu: 100 %\n"}, ["straggler", "gpu-fault"]),
    "15 marks of other traffic": ({f"{host}/ethtool-{p}.txt": f"NIC statistics:\n     rx_ecn_mark: {v}\n     rx_packets: {v}\n" for host in ("sender", "receiver") for p, v in (("before", 5), ("after", 9_000_005))} | {"sender/sysctl.txt": "net.ipv4.tcp_ecn = 1\n"}, PAUSE + LOSS + ["ecn-low", "np-off", "rp-off"]),
    "16 ethtool -a off": ({"n/ethtool-a.txt": "Pause parameters for eth0:\nAutonegotiate:\toff\nRX:\t\toff\nTX:\t\toff\n"}, PAUSE),
    "17 zero discards do not exclude loss": (run(Change(), {"nak_seq": 9000}, {"out_of_sequence": 9000, "rx_discard": 0}), ["healthy"]),
    "18 timeouts because the peer died": (run(Change(), {"timeout": 40}, {"nak_seq": 0}) | {"receiver/nccl.log": nccl("INFO NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0:10.0.0.1<0>") + "Segmentation fault (core dumped)\n"}, ["packet-loss", "black-hole", "nic-overflow", "headroom"]),
    "19 good bandwidth over sockets": ({"nodeA/nccl.log": nccl("INFO NET/IB : No device found.", "INFO Using network Socket"), "nodeA/ibstat.txt": ibstat(200), "out.txt": table([row(1 << 30, 22)], average=22)}, ["healthy"]),
    "20 EFA sends again by design": ({f"n/counters-{p}.txt": f"/sys/class/infiniband/efa_0/ports/1/hw_counters/retrans_pkts:{v}\n/sys/class/infiniband/efa_0/ports/1/hw_counters/retrans_timeout_events:0\n" for p, v in (("before", 7), ("after", 30_104))}, LOSS),
    "21 watchdog drop counters": ({"switch.txt": "  Ethernet4:3  operational  0/0  0/41507426  0/0  0/41507426  0/0\n"}, PAUSE + LOSS),
    "22 gauges that fall": ({f"n/ethtool-{p}.txt": f"NIC statistics:\n     outbound_pci_stalled_rd: {v}\n     outbound_pci_stalled_wr: {v}\n" for p, v in (("before", 2), ("after", 0))}, ["snapshot-invalid", "pcie-stall"]),
    "23 numbers beside the status of a completion": ({"nodeA/nccl.log": nccl("INFO NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0:10.0.0.1<0>", "WARN NET/IB : Got completion from peer 10.0.0.2<4> with status=12 opcode=5 len=10 vendor err 4 (Send)")}, ["flush-only", "verbs-misuse"]),
    "24 bus bandwidth above the adapters, by in-network reduction": (ends(400) | {"o.txt": table([row(1 << 30, 480), row(1 << 33, 483)])}, ["separate-runs", "unit-unknown", "small-average", "wrong-data", "contaminated"]),
    "25 lifespan is no counter": ({f"n/counters-{p}.txt": f"/sys/class/infiniband/mlx5_0/ports/1/hw_counters/lifespan:{v}\n" for p, v in (("before", 12), ("after", 10))}, ["snapshot-invalid"]),
    "26 the warning of 27 W": ({"n/dmesg.txt": "mlx5_core 0000:01:00.0: mlx5_pcie_event: Detected insufficient power on the PCIe slot (27W).\n"} | ends(200) | {"p.txt": perftest(194)}, ["nic-throttled", "pcie-degraded"]),
}


def write():
    target = ROOT / "tests/doctor/cases"
    shutil.rmtree(target, ignore_errors=True)
    for name, each in CASES.items():
        for file, text in each["make"](Change()).items():
            path = target / name / "files" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        expected = {"rules": each["rules"], "confidence": each["confidence"], "source": each["source"]}
        (target / name / "expect.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__" and "--write" in sys.argv:
    write()
