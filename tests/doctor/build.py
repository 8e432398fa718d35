"""Inputs of the doctor, made from a few numbers: dumps of counters as ethtool and rdma print them, tables of perftest and
nccl-tests, logs. A `Change` makes variants of the same input: other magnitudes, another vendor, a file that is missing."""

import pathlib
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENDORS = tomllib.loads((ROOT / "doctor/data/counters.toml").read_text())["vendor"]
DEVICES = {"mlx5": "mlx5_0", "bnxt": "bnxt_re0", "irdma": "irdma0", "ionic": "ionic_0", "mana": "mana_0", "rxe": "rxe0",
           "efa": "efa_0", "hns": "hns_0", "qede": "qedr0"}


class Change:
    def __init__(self, scale=1.0, vendor=None, drop=None):
        self.scale, self.vendor, self.drop = scale, vendor, drop

    def apply(self, files):
        names = sorted(files)
        if self.drop is None or not names:
            return files
        gone = names[self.drop % len(names)]
        return {name: text for name, text in files.items() if name != gone}


def names_of(vendor, canonical):
    """Where this vendor counts it: (place, name), of the first name only; nothing if it does not."""
    for place in ("ethtool", "hw_counters", "dev_hw_counters"):
        for entry in VENDORS[vendor].get(place, []):
            if entry["is"] == canonical:
                return [(place, entry["name"])]
    for entry in VENDORS["ib"]["counters"] if canonical in ("credit_stall",) else []:
        if entry["is"] == canonical:
            return [("counters", entry["name"])]
    return []


def dump(place, device, values):
    if place == "ethtool":
        return "NIC statistics:\n" + "".join(f"     {name}: {value}\n" for name, value in values.items())
    folder = f"/sys/class/infiniband/{device}/ports/1/hw_counters"
    return "".join(f"{folder}/{name}:{value}\n" for name, value in values.items())


def counters(host, deltas, change=Change(), vendor="mlx5", raw=None, prio=3):
    """Two dumps of each kind on one host. `deltas`: canonical name → growth over the run. `raw`: ethtool names as they are,
    name → (before, after)."""
    vendor = change.vendor or vendor
    places = {}
    for number, (canonical, growth) in enumerate(deltas.items()):
        grown = round(growth * change.scale) if growth else 0
        for place, name in names_of(vendor, canonical):
            before = 1000 + 37 * number
            places.setdefault(place, []).append((name.replace("{N}", str(prio)), before, before + grown))
    for name, (before, after) in (raw or {}).items():
        places.setdefault("ethtool", []).append((name, before, after))
    files = {}
    for place, entries in places.items():
        kind = "ethtool" if place == "ethtool" else "counters"
        for phase, index in (("before", 1), ("after", 2)):
            key = f"{host}/{kind}-{phase}.txt"
            text = dump(place, DEVICES[vendor], {entry[0]: entry[index] for entry in entries})
            files[key] = files.get(key, "") + text
    return files


def both(sender, receiver, change=Change(), vendor="mlx5"):
    """Both ends, with traffic of 10 s at 90 Gb/s."""
    traffic = {"tx_packets": 27_000_000, "rx_packets": 1_000_000}
    back = {"tx_packets": 1_000_000, "rx_packets": 27_000_000}
    steady = Change(1.0, change.vendor)
    out = {}
    for host, growths, usual in (("sender", sender, traffic), ("receiver", receiver, back)):
        merged = {}
        for part in (counters(host, usual, steady, vendor), counters(host, growths, change, vendor)):
            for name, text in part.items():
                merged[name] = merged.get(name, "") + text
        out.update(merged)
    out["notes.txt"] = "duration: 10 s\n"
    return out


def perftest(gbps, bytes=1 << 20, seconds=10.0, qps=1, mtu=4096, test="RDMA_Write BW Test", unit="Gb/sec", device="mlx5_0",
             gid=3, cuda=False, rows=None, iterations=None):
    shown = {"Gb/sec": 1.0, "MiB/sec": 1 / 8.388608e-3, "MB/sec": 1 / 8.388608e-3}[unit]
    lines = ["-" * 87]
    if cuda:
        lines = ["initializing CUDA", "Listing all CUDA devices in system:"] + lines
    lines += [f"                    {test}",
              f" Dual-port       : OFF\t\tDevice         : {device}", f" Number of qps   : {qps}\t\tTransport type : IB",
              " Connection type : RC\t\tUsing SRQ      : OFF", f" Mtu             : {mtu}[B]", " Link type       : Ethernet",
              f" GID index       : {gid}", "-" * 87,
              " local address: LID 0000 QPN 0x0123 PSN 0x8a1b2c RKey 0x1 VAddr 0x2", "-" * 87,
              f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]"]
    for row_bytes, row_gbps in rows or [(bytes, gbps)]:
        count = iterations or max(1, round(row_gbps * 1e9 * seconds / 8 / row_bytes))
        lines.append(f" {row_bytes:<10} {count:<14} 0.00               {row_gbps * shown:.2f}  \t\t     {row_gbps / row_bytes / 8e-3:.6f}")
    return "\n".join(lines + ["-" * 87]) + "\n"


def ibstat(rate, device="mlx5_0", state="Active", physical="LinkUp"):
    return (f"CA '{device}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.39.1002\n\tPort 1:\n\t\tState: {state}\n"
            f"\t\tPhysical state: {physical}\n\t\tRate: {rate}\n\t\tBase lid: 0\n\t\tLink layer: Ethernet\n")


def ranks(hosts, gpus, first=0):
    lines = []
    for host in hosts:
        for gpu in range(gpus):
            lines.append(f"#  Rank {first:2d} Group  0 Pid  {4242 + first} on {host:>10} device {gpu:2d} [0000:1b:00] NVIDIA H100 80GB HBM3")
            first += 1
    return "\n".join(lines) + "\n"


HEADER = ("# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n"
          "# Using devices\n")
COLUMNS = ("#\n#                                                              out-of-place                       in-place          \n"
           "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
           "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n")


def row(size, busbw, wrong=0, time=None):
    algbw = busbw / 1.875
    micros = time if time is not None else size / algbw / 1e3
    return (f"{size:12d}  {size // 4:12d}     float     sum      -1   {micros:.1f}   {algbw:.2f}   {busbw:.2f}      {wrong}   {micros:.1f}   {algbw:.2f}"
            f"   {busbw:.2f}      0\n")


def table(rows, hosts=("nodeA", "nodeB"), gpus=8, average=None, failed=False, head=HEADER, version=None):
    text = f"# nccl-tests version 2.17.4 nccl-headers={version} nccl-library={version}\n" if version else ""
    text += head + ranks(hosts, gpus) + COLUMNS + "".join(rows)
    if average is None:
        average = sum(float(each.split()[7]) for each in rows) / max(1, len(rows))
    return text + f"# Out of bounds values : {'1 FAILED' if failed else '0 OK'}\n# Avg bus bandwidth    : {average} \n#\n"


def nccl(*lines, host="nodeA"):
    return "".join(f"{host}:4242:4260 [0] NCCL {line}\n" for line in lines)
