"""Writes a recorded tree, as `mroce doctor snapshot --root` reads it: a host with mlx5 adapters as large as real ones.

    python3 recorded_tree.py FOLDER [--nics 8] [--host nodeA] [--seconds 0]

Counters move with --seconds, so that two trees are one host at two times. Names are those of the drivers' sources;
numbers are invented.
"""

import argparse
import pathlib
import re

HW_COUNTERS = """rx_write_requests rx_read_requests rx_atomic_requests rx_dct_connect out_of_buffer out_of_sequence
duplicate_request rnr_nak_retry_err packet_seq_err implied_nak_seq_err local_ack_timeout_err resp_local_length_error
resp_cqe_error req_cqe_error req_remote_invalid_request req_remote_access_errors resp_remote_access_errors
resp_cqe_flush_error req_cqe_flush_error roce_adp_retrans roce_adp_retrans_to roce_slow_restart roce_slow_restart_cnps
roce_slow_restart_trans rp_cnp_ignored rp_cnp_handled np_ecn_marked_roce_packets np_cnp_sent rx_icrc_encapsulated
req_transport_retries_exceeded req_rnr_retries_exceeded""".split()
COUNTERS = """port_xmit_data port_rcv_data port_xmit_packets port_rcv_packets port_xmit_wait port_xmit_discards symbol_error
link_downed link_error_recovery port_rcv_errors port_rcv_remote_physical_errors port_rcv_switch_relay_errors
port_xmit_constraint_errors port_rcv_constraint_errors local_link_integrity_errors excessive_buffer_overrun_errors
VL15_dropped unicast_xmit_packets unicast_rcv_packets multicast_xmit_packets multicast_rcv_packets""".split()
NETDEV = """collisions multicast rx_bytes rx_compressed rx_crc_errors rx_dropped rx_errors rx_fifo_errors rx_frame_errors
rx_length_errors rx_missed_errors rx_nohandler rx_over_errors rx_packets tx_aborted_errors tx_bytes tx_carrier_errors
tx_compressed tx_dropped tx_errors tx_fifo_errors tx_heartbeat_errors tx_packets tx_window_errors""".split()
PHYSICAL = """rx_discards_phy tx_discards_phy rx_crc_errors_phy rx_symbol_err_phy rx_pcs_symbol_err_phy rx_corrected_bits_phy
link_down_events_phy rx_out_of_buffer dev_out_of_buffer rx_buffer_passed_thres_phy outbound_pci_stalled_rd
outbound_pci_stalled_wr outbound_pci_stalled_rd_events outbound_pci_stalled_wr_events rx_pci_signal_integrity
tx_pci_signal_integrity tx_pause_storm_warning_events tx_pause_storm_error_events rx_oversize_pkts_phy
module_unplug module_bus_stuck module_high_temp rx_bits_phy rx_vport_rdma_unicast_packets
tx_vport_rdma_unicast_packets rx_vport_rdma_unicast_bytes tx_vport_rdma_unicast_bytes""".split()


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)

    def file(self, path, text):
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text if text.endswith("\n") or not text else text + "\n", encoding="utf-8")

    def link(self, path, target):
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink():
            place.symlink_to(target)

    def command(self, line, text):
        self.file("/commands/" + re.sub(r"[^A-Za-z0-9.-]", "_", line) + ".txt", text)


def ethtool_statistics(packets, rings):
    lines = ["NIC statistics:"]
    for name in NETDEV[:8] + PHYSICAL:
        moving = "vport_rdma" in name
        lines.append(f"     {name}: {packets * (4096 if name.endswith('bytes') else 1) if moving else 0}")
    for priority in range(8):
        for side in ("rx", "tx"):
            for name in ("bytes", "packets"):
                lines.append(f"     {side}_prio{priority}_{name}: {packets if priority == 3 else 0}")
    for side in ("rx", "tx"):
        for name in ("pause", "pause_duration", "pause_transition"):
            lines.append(f"     {side}_prio3_{name}: 0")
    for ring in range(rings):
        for name in ("packets", "bytes", "csum_complete", "lro_packets", "buff_alloc_err", "cqe_compress_blks", "wqe_err"):
            lines.append(f"     rx{ring}_{name}: {packets // rings}")
    return "\n".join(lines)


def mlnx_qos(pfc_priority):
    enabled = "   ".join("1" if p == pfc_priority else "0" for p in range(8))
    return ("DCBX mode: OS controlled\nPriority trust state: dscp\ndscp2prio mapping:\n"
            "\tprio:0 dscp:07,06,05,04,03,02,01,00,\n\tprio:3 dscp:31,30,29,28,27,26,25,24,\n"
            "PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
            f"\tenabled     {enabled}   \n\tbuffer      0   0   0   1   0   0   0   0   \n")


def adapter(tree, host, number, options):
    device, netdev, address = f"mlx5_{number}", f"ens{number}f0np0", f"0000:{0x1a + number:02x}:00.0"
    packets = 1_000_000 + 1_000_000 * options.seconds
    pci = f"/sys/devices/pci0000:00/{address}"
    mac = f"0c:42:a1:00:{hash_byte(host):02x}:{number:02x}"
    eui = f"0e42:a1ff:fe00:{hash_byte(host):02x}{number:02x}"
    for name, value in {"current_link_width": "16", "max_link_width": "16", "current_link_speed": "32.0 GT/s PCIe",
                        "max_link_speed": "32.0 GT/s PCIe", "numa_node": str(number // 4), "vendor": "0x15b3",
                        "device": "0x1021", "local_cpulist": "0-31"}.items():
        tree.file(f"{pci}/{name}", value)
    tree.link(f"{pci}/driver", "../../../bus/pci/drivers/mlx5_core")
    tree.file(f"{pci}/infiniband/{device}/.keep", "")
    for irq in range(32):
        tree.file(f"{pci}/msi_irqs/{1000 + 100 * number + irq}", "msix")
        tree.file(f"/proc/irq/{1000 + 100 * number + irq}/effective_affinity_list", str(irq))
    rdma, net = f"/sys/class/infiniband/{device}", f"/sys/class/net/{netdev}"
    tree.link(f"{rdma}/device", f"../../../devices/pci0000:00/{address}")
    tree.link(f"{net}/device", f"../../../devices/pci0000:00/{address}")
    for name, value in {"fw_ver": "28.39.1002", "hca_type": "MT4129", "node_guid": "0c42:a103:0000:0012",
                        "node_desc": f"{host} {device}", "ports/1/state": "4: ACTIVE", "ports/1/rate": "400 Gb/sec (4X NDR)",
                        "ports/1/phys_state": "5: LinkUp", "ports/1/link_layer": "Ethernet"}.items():
        tree.file(f"{rdma}/{name}", value)
    for name in HW_COUNTERS:
        tree.file(f"{rdma}/ports/1/hw_counters/{name}", str(packets if name == "rx_write_requests" else 0))
    for name in COUNTERS:
        tree.file(f"{rdma}/ports/1/counters/{name}", str(packets * 1024 if name.endswith("data") else 0))
    for index in range(256):
        tree.file(f"{rdma}/ports/1/gids/{index}", "0000:" * 7 + "0000")
    gids = [f"fe80:0000:0000:0000:{eui}"] * 2 + [f"0000:0000:0000:0000:0000:ffff:0a{number:02x}:{hash_byte(host):04x}"] * 2
    for index, gid in enumerate(gids):
        tree.file(f"{rdma}/ports/1/gids/{index}", gid)
        tree.file(f"{rdma}/ports/1/gid_attrs/types/{index}", "RoCE v2" if index % 2 else "IB/RoCE v1")
        tree.file(f"{rdma}/ports/1/gid_attrs/ndevs/{index}", netdev)
    for name, value in {"mtu": "9000", "operstate": "up", "carrier": "1", "speed": "400000", "address": mac,
                        "carrier_changes": "2"}.items():
        tree.file(f"{net}/{name}", value)
    for name in NETDEV:
        tree.file(f"{net}/statistics/{name}", str(packets if name.endswith("packets") else 0))
    tree.command(f"ethtool {netdev}", f"Settings for {netdev}:\n\tSpeed: 400000Mb/s\n\tLink detected: yes")
    tree.command(f"ethtool -S {netdev}", ethtool_statistics(packets, 63))
    tree.command(f"ethtool -i {netdev}", f"driver: mlx5_core\nversion: 5.15\nfirmware-version: 28.39.1002 (MT_0000000838)\n"
                 f"bus-info: {address}")
    tree.command(f"ethtool -I -a {netdev}", f"Pause parameters for {netdev}:\nAutonegotiate:\toff\nRX:\t\toff\nTX:\t\toff")
    tree.command(f"mlnx_qos -i {netdev}", mlnx_qos(options.pfc))
    tree.command(f"lspci -vv -s {address}", f"{address[5:]} Ethernet controller: Mellanox\n"
                 "\tLnkSta: Speed 32GT/s (ok), Width x16 (ok)\n\t[SN] Serial number: MT2301X00001")


def hash_byte(host):
    return sum(host.encode()) % 256


def write(folder, host="nodeA", nics=8, seconds=0, pfc=3):
    options = argparse.Namespace(seconds=seconds, pfc=pfc)
    tree = Tree(folder)
    for path, text in {"/proc/sys/kernel/hostname": host, "/proc/sys/kernel/osrelease": "5.15.0-105-generic",
                       "/proc/sys/kernel/random/boot_id": "5ddc4527-cb06-4e47-8f2f-2a4710a7a36e",
                       "/proc/self/limits": "Max locked memory         unlimited            unlimited            bytes",
                       "/proc/self/environ": "NCCL_DEBUG=INFO\0NCCL_IB_HCA=mlx5\0SECRET_TOKEN=hidden\0",
                       "/proc/modules": "nvidia_peermem 16384 0 - Live 0x0\n",
                       "/sys/module/mlx5_core/parameters/prof_sel": "2"}.items():
        tree.file(path, text)
    tree.file("/time_ns", str((1_700_000_000 + seconds) * 10**9))
    for number in range(nics):
        adapter(tree, host, number, options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--host", default="nodeA")
    parser.add_argument("--nics", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--pfc", type=int, default=3)
    words = parser.parse_args()
    write(words.folder, words.host, words.nics, words.seconds, words.pfc)
