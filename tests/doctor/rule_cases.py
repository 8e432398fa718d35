"""For each rule an input on which it fires, and a similar one on which it does not. doctor_test.py sees that none is missing."""

from build import HEADER, COLUMNS, both, counters, ibstat, nccl, perftest, ranks, row, table

GREEN = perftest(392.1)
LINK = {"sender/ibstat.txt": ibstat(400), "receiver/ibstat.txt": ibstat(400)}
IDLE = {"rx_pause_us": 0, "rx_pause_frames": 0, "tx_pause_us": 0, "tx_pause_frames": 0, "nak_seq": 0, "timeout": 0,
        "out_of_sequence": 0, "rx_discard": 0, "cnp_received": 0, "cnp_sent": 0, "ecn_marked": 0, "cnp_ignored": 0}
PCIE = "/sys/class/infiniband/mlx5_0/device/{}:{}\n"


def run(sender=None, receiver=None, **files):
    """A run with counters of both ends, growing as told and quiet otherwise."""
    out = both(IDLE | (sender or {}), IDLE | (receiver or {}))
    return out | {name.replace("__", ".").replace("_in_", "/"): text for name, text in files.items()}


def pcie(width, width_max=16, speed=32, speed_max=32):
    return (PCIE.format("current_link_width", width) + PCIE.format("max_link_width", width_max) +
            PCIE.format("current_link_speed", f"{speed:.1f} GT/s PCIe") + PCIE.format("max_link_speed", f"{speed_max:.1f} GT/s PCIe"))


def aer(before, after):
    """Damaged transfers of the adapter, as sysfs has them."""
    path = "sender/pci-{}.txt"
    return {path.format(phase): PCIE.format("aer_dev_correctable", f"BadTLP {count}") + PCIE.format("aer_dev_fatal", "TOTAL_ERR_FATAL 0")
            for phase, count in (("before", before), ("after", after))}


def queues(before, after):
    """A switch's table of queues, before and after the run."""
    head = "     Port    TxQ    Counter/pkts    Counter/bytes    Drop/pkts    Drop/bytes\n---------  -----  --------------  ---------------  -----------  ------------\n"
    return {f"switch-{phase}.txt": head + f"Ethernet4  {'UC3':>5}  {'1,200,000':>14}  {'4,915,200,000':>15}  {drops:>11,}  {0:>12}\n"
            for phase, drops in (("before", before), ("after", after))}


def qos_buffers(size):
    return (f"Receive buffer size (bytes): 20016,{size},0,0,0,0,0,0,max_buffer_size=1027728\nPFC configuration:\n"
            "\tenabled     0   0   0   1   0   0   0   0   \n\tbuffer      0   0   0   1   0   0   0   0   \n")


def log(*lines):
    return {"nodeA/nccl.log": nccl(*lines)}


def wc(status, extra=""):
    return f"WARN NET/IB : Got completion from peer 10.0.0.2<50000> with status={status} opcode=1 len=0 vendor err 129 (Send) {extra}"


USING = "INFO NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0:10.0.0.1<0>"
BIG = [row(1 << 26, 170), row(1 << 30, 180), row(1 << 33, 185)]
RAILS4 = {"nodeA/ibstat.txt": "".join(ibstat(400, f"mlx5_{i}") for i in range(4))}
WARM = {"result.txt": table(BIG)}
PRIO = {"rx_prio0_bytes": (10, 10), "tx_prio0_bytes": (10, 10)}


def raw(before_after, host="sender"):
    return counters(host, IDLE, raw=before_after)


RULES = {
    "separate-runs": ({"o.txt": HEADER + ranks(["h1"], 2) + HEADER + ranks(["h2"], 2) + COLUMNS + BIG[0] + BIG[0] +
                       "# Avg bus bandwidth    : 3.94145\n# Avg bus bandwidth    : 3.94156\n"},
                      {"o.txt": table(BIG) + table(BIG)}),
    "wrong-data": ({"o.txt": table([row(1 << 30, 87, wrong=12)], failed=True)}, {"o.txt": table([row(1 << 30, 87)])}),
    "snapshot-invalid": (raw({"tx_vport_rdma_unicast_bytes": (9000000, 12), "rx_discards_phy": (50, 0), "link_down_events_phy": (4, 1)}),
                         run()),
    "too-short": ({"a.txt": ibstat(400) + perftest(300, bytes=65536, iterations=5000)}, {"a.txt": ibstat(400) + perftest(300)}),
    "unit-unknown": ({"p.json": '{"test_info": {"test": "RDMA_Write_BW_Test", Mtu: 4096}, "results": {"MsgSize": 65536, "BW_average": 92.26,}}'},
                     {"p.txt": GREEN}),
    "small-average": (RAILS4 | {"o.txt": table(BIG + [row(8, 0.01), row(1024, 0.1), row(4096, .5)])}, RAILS4 | {"o.txt": table(BIG)}),
    "contaminated": (run({"rdma_tx_bytes": 9e11}, perftest__txt=GREEN), run({"rdma_tx_bytes": 5e11}, perftest__txt=GREEN)),
    "link-down": ({"a.txt": ibstat(10, state="Down", physical="Disabled")}, {"a.txt": ibstat(400)}),
    "wrong-speed": ({"a/ibstat.txt": ibstat(400), "b/ibstat.txt": ibstat(200)}, LINK),
    "link-flap": (run({"link_flap": 1}), run({"link_flap": 0})),
    "bad-phy": (run({"phy_symbol": 5000}), run({"fec_corrected": 5000, "phy_symbol": 0})),
    "corruption": (run({"crc_error": 3}), run({"crc_error": 0})),
    "pcie-degraded": ({"a.txt": pcie(8)}, {"a.txt": pcie(16)}),
    "pcie-errors": (aer(3, 90), aer(3, 5)),
    "pcie-bound": (run(sender_in_pci__txt=ibstat(400) + pcie(16, 16, 16, 16), p__txt=perftest(205)),
                   run(sender_in_pci__txt=ibstat(400) + pcie(16), p__txt=perftest(205))),
    "gpu-pcie-limit": (RAILS4 | {"o.txt": table([row(1 << 30, 48)], gpus=1)}, RAILS4 | {"o.txt": table([row(1 << 30, 48)], gpus=8)}),
    "pcie-stall": (run(None, {"pcie_stall_s": 7}), run(None, {"pcie_stall_s": 0})),
    "nic-throttled": (run({"link_flap": 0}, None, p__txt=ibstat(200) + perftest(13.23, qps=8)),
                      run({"link_flap": 0}, None, p__txt=ibstat(200) + perftest(150, qps=8))),
    "mtu-small": ({"a.txt": ibstat(100) + perftest(92.5, mtu=1024)}, {"a.txt": ibstat(100) + perftest(97.9)}),
    "mtu-mismatch": (run({"oversize": 40}), run({"oversize": 0})),
    "rdma-unused": (log("INFO NET/IB : No device found.", "INFO Using network Socket"), log(USING, "INFO Using network IB")),
    "container-without-devices": ({"a/signs.txt": ibstat(400) + "/.dockerenv:present\n/dev/infiniband:absent\n/proc/self/status:CapEff=00000000a80425fb\n"},
                                  {"a/signs.txt": ibstat(400) + "/.dockerenv:present\n/dev/infiniband:rdma_cm uverbs0\n"}),
    "rdma-flat": (run({"rdma_tx_bytes": 0, "rdma_rx_bytes": 0}, {"rdma_tx_bytes": 0, "rdma_rx_bytes": 0}) | {"o.txt": table([row(1 << 30, 15)])},
                  run({"rdma_tx_bytes": 9e10, "rdma_rx_bytes": 0}, {"rdma_tx_bytes": 0, "rdma_rx_bytes": 9e10}) | {"o.txt": table([row(1 << 30, 15)])}),
    "gdr-off": (log(USING, "INFO Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/0"), log(USING, "INFO Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/0/GDRDMA")),
    "gpu-path": ({"host.txt": perftest(193), "cuda.txt": perftest(92, cuda=True)}, {"host.txt": perftest(193), "cuda.txt": perftest(190, cuda=True)}),
    "acs-breaks-gdr": (log(wc(4)), log(wc(12))),
    "acs-on": ({"nodeA/lspci.txt": "0000:05:08.0 PCI bridge: PLX\n\t\tACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+\n"} | log(USING),
               {"nodeA/lspci.txt": "0000:05:08.0 PCI bridge: PLX\n\t\tACSCtl: SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd-\n"} | log(USING)),
    "missing-rails": (RAILS4 | log(USING), RAILS4 | log("INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [2]mlx5_2:1/RoCE [3]mlx5_3:1/RoCE ; OOB eth0:10.0.0.1<0>")),
    "one-rail": (log(USING) | WARM, log("INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE ; OOB eth0:10.0.0.1<0>") | WARM),
    "placement": ({"pinned.txt": perftest(49), "unpinned.txt": perftest(98)}, {"pinned.txt": perftest(97), "unpinned.txt": perftest(98)}),
    "unreachable": (log(wc(12)), log(wc(12)) | {"o.txt": table([row(1 << 30, 15)])}),
    "flap-timeouts": (run({"link_flap": 1}) | log(wc(12)), run({"link_flap": 0}) | log(wc(12))),
    "black-hole": (log(wc(12)) | {"o.txt": table([row(1 << 30, 15)])}, log(wc(12))),
    "flush-only": (log(wc(5)), log(wc(12), wc(5))),
    "verbs-misuse": (log("WARN NET/IB : Got completion from peer 10.0.0.2<5> with status=IBV_WC_REM_INV_REQ_ERR(9) opcode=IBV_WC_RECV(128) vendor_err=0"), log(wc(12))),
    "receiver-not-posting": (log(wc(13)), log(wc(12))),
    "receiver-late": (run({"rnr": 50, "rnr_exceeded": 0}), run({"rnr": 50, "rnr_exceeded": 3})),
    "out-of-buffer": (run(None, {"out_of_buffer": 50}), run(None, {"out_of_buffer": 0})),
    "fabric-congestion": (run({"rx_pause_us": 2_170_000, "rx_pause_frames": 40_000}, {"ecn_marked": 9000, "cnp_sent": 8000}),
                          run({"rx_pause_us": 3_000, "rx_pause_frames": 40_000}, {"ecn_marked": 9000, "cnp_sent": 8000})),
    "slow-receiver": (run({"rx_pause_us": 2_000_000}, {"tx_pause_us": 2_500_000}), run({"rx_pause_us": 2_000_000}, {"tx_pause_us": 0})),
    "pfc-storm": (run(None, {"pause_storm": 2}), run(None, {"pause_storm": 0})),
    "pfc-storm-switch": ({"switch.txt": "Ethernet4:3  stormed          1/0                      0/0          0/41507426\n"},
                         {"switch.txt": "Ethernet4:3  operational      0/0                      0/0          0/0\n"}),
    "global-pause": (run({"global_pause": 700}), run({"global_pause": 0})),
    "misclassified": (raw({"tx_prio0_bytes": (10, 10**11), "tx_prio3_bytes": (10, 10), "rx_prio3_pause": (1, 1)}),
                      raw({"tx_prio0_bytes": (10, 10), "tx_prio3_bytes": (10, 10**11), "rx_prio3_pause": (1, 1)})),
    "pfc-mismatch": ({"a/mlnx_qos.txt": "Priority trust state: dscp\n\tenabled     0   0   0   1   0   0   0   0   \n", "b/mlnx_qos.txt": "Priority trust state: pcp\n\tenabled     0   0   0   0   0   0   0   0   \n"},
                     {"a/mlnx_qos.txt": "\tenabled     0   0   0   1   0   0   0   0   \n", "b/mlnx_qos.txt": "\tenabled     0   0   0   1   0   0   0   0   \n"}),
    "no-lossless-buffer": ({"a/mlnx_qos.txt": qos_buffers(0)}, {"a/mlnx_qos.txt": qos_buffers(156096)}),
    "pause-without-ecn": (run({"rx_pause_us": 2_000_000}), run({"rx_pause_us": 2_000_000, "cnp_received": 500}, {"ecn_marked": 900})),
    "np-off": (run(None, {"ecn_marked": 900}), run(None, {"ecn_marked": 900, "cnp_sent": 800})),
    "cnp-lost": (run({"cnp_received": 100}, {"cnp_sent": 9000, "ecn_marked": 9000}), run({"cnp_received": 8900}, {"cnp_sent": 9000, "ecn_marked": 9000})),
    "rp-off": (run({"cnp_ignored": 900}), run({"cnp_ignored": 0})),
    "cc-normal": (run({"cnp_received": 900}, p__txt=ibstat(400) + GREEN), run({"cnp_received": 0}, p__txt=ibstat(400) + GREEN)),
    "ecn-low": (run({"cnp_received": 90_000}, {"cnp_sent": 90_000}, p__txt=perftest(200)) | LINK, run({"cnp_received": 90}, {"cnp_sent": 90}, p__txt=perftest(200)) | LINK),
    "incast": (LINK | {"single.txt": perftest(390), "incast-1.txt": perftest(100), "incast-2.txt": perftest(110)}, LINK | {"single.txt": perftest(390), "incast-1.txt": perftest(195), "incast-2.txt": perftest(190)}),
    "packet-loss": (run({"nak_seq": 4000}, {"out_of_sequence": 9000}), run({"nak_seq": 0}, {"out_of_sequence": 9000})),
    "switch-drops": (queues(100, 9000), queues(100, 100)),
    "reordering-normal": (run({}, {"out_of_sequence": 9000}), run({"nak_seq": 4000}, {"out_of_sequence": 9000})),
    "tail-loss": (run({"timeout": 200}), run({"timeout": 3})),
    "adaptive-normal": (run({"adaptive_retrans": 200}, p__txt=ibstat(400) + GREEN), run({"adaptive_retrans": 200}, p__txt=ibstat(400) + perftest(200))),
    "adaptive-recovery": (run({"adaptive_retrans": 200}, p__txt=ibstat(400) + perftest(200)), run({"adaptive_retrans": 0}, p__txt=ibstat(400) + perftest(200))),
    "slow-restart": (run({"slow_restart": 900}), run({"slow_restart": 9})),
    "retransmission-cost": (run({"rdma_tx_bytes": 5.6e11}, p__txt=GREEN), run({"rdma_tx_bytes": 4.98e11}, p__txt=GREEN)),
    "headroom": (run({"rx_pause_us": 2_000_000, "ecn_marked": 50}, {"rx_discard": 800}), run({"rx_pause_us": 2_000_000, "ecn_marked": 50}, {"rx_discard": 0})),
    "nic-overflow": (run(None, {"rx_discard": 800}), run(None, {"rx_discard": 0})),
    "ack-loss": (run(None, {"duplicate": 700}), run({"nak_seq": 800}, {"duplicate": 700, "out_of_sequence": 900})),
    "one-node": ({f"{a}-to-{b}.txt": perftest(120 if "n4" in (a, b) else 390) for a, b in [("n1", "n2"), ("n1", "n3"), ("n2", "n3"), ("n1", "n4"), ("n2", "n4"), ("n3", "n4")]},
                 {f"{a}-to-{b}.txt": perftest(390) for a, b in [("n1", "n2"), ("n1", "n3"), ("n2", "n3"), ("n1", "n4"), ("n2", "n4"), ("n3", "n4")]}),
    "ecmp": (LINK | {"same-rack.txt": perftest(390), "cross-rack.txt": perftest(190)}, LINK | {"same-rack.txt": perftest(390), "cross-rack.txt": perftest(388)}),
    "collective-software": (RAILS4 | {"p.txt": perftest(391.8), "o.txt": table([row(1 << 30, 60)])}, RAILS4 | {"p.txt": perftest(391.8), "o.txt": table(BIG)}),
    "library-regression": ({"old.txt": table(BIG, version=21904, average=24.2), "new.txt": table(BIG, version=22005, average=18.3)},
                           {"old.txt": table(BIG, version=21904, average=24.2), "new.txt": table(BIG, version=22005, average=24.3)}),
    "latency-bound": ({"o.txt": table([row(1 << 10, .1, time=50), row(1 << 16, 4, time=52), row(1 << 19, 19, time=60)])}, {"o.txt": table(BIG)}),
    "straggler": ({"n.txt": "utilization.gpu: 100 %\nDCGM_FI_PROF_SM_ACTIVE: 0.11\n"}, {"n.txt": "utilization.gpu: 100 %\nDCGM_FI_PROF_SM_ACTIVE: 0.9\n"}),
    "gpu-fault": ({"dmesg.txt": "[ 12.0] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n"}, {"smi.txt": "        HW Slowdown                       : Not Active\n"}),
    "checker-wrong": (RAILS4 | {"o.txt": table(BIG), "check.log": "node health check: NCCL all_reduce test FAILED\n"}, RAILS4 | {"o.txt": table(BIG)}),
    "read-slow": (LINK | {"r.txt": perftest(250, test="RDMA_Read BW Test"), "w.txt": perftest(391)}, LINK | {"r.txt": perftest(385, test="RDMA_Read BW Test"), "w.txt": perftest(391)}),
    "unstable-ece": ({"a/env.txt": "NCCL_IB_ECE_ENABLE=1\n", "r1/o.txt": table([row(1 << 30, 350)]), "r2/o.txt": table([row(1 << 30, 170)])},
                     {"a/env.txt": "NCCL_IB_ECE_ENABLE=0\n", "r1/o.txt": table([row(1 << 30, 350)]), "r2/o.txt": table([row(1 << 30, 170)])}),
    "transport-timeouts": ({"u.log": "[Flow 3] RTO retransmission threshold reached for engine 1\nTX 0.06 Gbps\n"}, log(USING)),
    "unit-note": ({"p.txt": perftest(92, unit="MB/sec")}, {"p.txt": GREEN}),
    "healthy": (LINK | {"p.txt": GREEN}, LINK | {"p.txt": perftest(200)}),
}

STATS = '{{"schema": "mroce-stats-1", "pid": {}, "elapsed_ns": 10000000000, "receive_buffer_bytes": {}, "counters": {{"drop_crc": 0, "socket_overflows": 0, "connections_failed": 0}}, ' \
        '"connections": [{{"counters": {{"data_packets_sent": 100000, "lost": {}, "spurious": 0, "retransmissions": {}, "rnr": 0}}, ' \
        '"paths": [{{"state": "active", "counters": {{"failures": {}, "ce_marked": 0}}}}]}}]}}'
RULES["mroce-loss"] = ({"s.json": STATS.format(7, 16777216, 9000, 9000, 0)}, {"s.json": STATS.format(7, 16777216, 12, 12, 0)})
RULES["mroce-path"] = ({"s.json": STATS.format(7, 16777216, 50, 50, 1)}, {"s.json": STATS.format(7, 16777216, 50, 50, 0)})
SENDER = '{{"schema": "mroce-stats-1", "pid": 7, "elapsed_ns": 10000000000, "receive_buffer_bytes": 16777216, "connections": [{{"peer_receive_buffer_bytes": {}, ' \
         '"counters": {{"data_packets_sent": 100000, "payload_bytes_sent": {}, "lost": 50, "spurious": 0, "acks_received": 8000, "penalized_acks": {}}}, "paths": []}}]}}'
RULES["mroce-peer-receive-buffer"] = ({"s.json": SENDER.format(131072, 4096, 0)}, {"s.json": SENDER.format(131072, 0, 0)})
RULES["mroce-overflow"] = ({"s.json": STATS.replace('"socket_overflows": 0', '"socket_overflows": 5000').format(7, 16777216, 12, 12, 0)}, {"s.json": STATS.format(7, 16777216, 12, 12, 0)})
RULES["mroce-slow-host"] = ({"s.json": SENDER.format(16777216, 4096, 900)}, {"s.json": SENDER.format(16777216, 4096, 9)})
RULES["mroce-receive-buffer"] = ({"s.json": STATS.format(7, 131072, 12, 12, 0)}, {"s.json": STATS.format(7, 16777216, 12, 12, 0)})
