"""mroce sim: its output, its errors, and what must be true of every simulated transport."""

import csv
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

from support import MROCE, environment

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import dcqcn_loss  # noqa: E402  (tests/models)

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "sim"
TRANSPORTS = ["mroce", "tcp", "dctcp", "rocev2", "rocev2-lossy", "hpcc", "conweave", "cx", "irn", "conweave-irn", "ib"]
ROCEV2 = TRANSPORTS[3:]
PERMUTATION = ["--topo", DATA / "ft128_400.topo", "--cm", DATA / "perm128_2M.cm"]
INCAST = ["--topo", DATA / "ft128_400.topo", "--cm", DATA / "incast64_2M.cm"]
SMALL = ["--fabric", "leaf-spine:leaves=4,hosts_per_leaf=4,spines=4", "--load", "permutation:size=256K"]
TWO_HOSTS = ["--fabric", "leaf-spine:leaves=2,hosts_per_leaf=1,spines=1"]
AS_HTSIM = ["--set", "header_bytes=64"]
OF_THE_MACHINE = ("cpu_s", "peak_rss_bytes")


def sim(*words):
    return subprocess.run([MROCE, "sim", *map(str, words)], capture_output=True, text=True, timeout=60,
                          env=environment(), check=False)


def result_of(*words, code=0):
    done = sim(*words, "--json")
    if done.returncode != code:
        raise AssertionError(f"{words} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


class EveryTransport(unittest.TestCase):
    def test_a_permutation_completes_and_nothing_is_lost_or_made_up(self):
        for transport in TRANSPORTS:
            with self.subTest(transport):
                out = result_of(*PERMUTATION, "--transport", transport)
                self.assertEqual(out["flows"], {"total": 128, "finished": 128})
                self.assertEqual(out["bytes"], 128 * 2097152)
                self.assertEqual(out["counters"]["payload_bytes"], 128 * 2097152)
                self.assertEqual(out["drops"], sum(out["drops_by_reason"].values()))
                self.assertGreaterEqual(out["counters"]["data_packets"] - out["counters"]["retransmissions"], 128 * 512)
                self.assertEqual(out["trouble"], "")

    def test_the_output_is_the_same_on_one_thread_and_on_two(self):
        for transport in TRANSPORTS:
            with self.subTest(transport):
                words = [*SMALL, "--transport", transport, "--loss", "0.1%", "--json"]
                one, two = (sim(*words, "--threads", n) for n in (1, 2))
                keep = lambda text: [line for line in text.splitlines() if not any(key in line for key in OF_THE_MACHINE)]
                self.assertEqual(one.returncode, 0, one.stderr)
                self.assertEqual(keep(one.stdout), keep(two.stdout))

    def test_a_packet_takes_what_the_closed_form_says(self):
        # Four links of 1 us: 4160 bytes out, 64 bytes back.
        wanted = 4 * (4160 * 8 / 400e3 + 1) + 4 * (64 * 8 / 400e3 + 1)
        for transport in TRANSPORTS:
            with self.subTest(transport):
                out = result_of(*TWO_HOSTS, "--load", "single:size=4096", "--transport", transport, *AS_HTSIM)
                self.assertAlmostEqual(out["fct_us"]["max"], wanted, delta=0.001)

    def test_a_long_flow_fills_the_link(self):
        packets = (20 << 20) // 4096
        wanted = (packets - 1) * 4160 * 8 / 400e3 + 8.33792
        for transport in TRANSPORTS:
            with self.subTest(transport):
                out = result_of(*TWO_HOSTS, "--load", "single:size=20M", "--transport", transport, *AS_HTSIM)
                self.assertGreater(out["fct_us"]["max"], wanted - 0.001)
                # TCP begins with ten packets and doubles them each round trip.
                self.assertLess(out["fct_us"]["max"], wanted + (4 * 8.34 if "tcp" in transport else 0.1))

    def test_all_planes_are_used_by_those_that_can(self):
        out = result_of("--fabric", "leaf-spine:leaves=2,hosts_per_leaf=1,spines=1", "--planes", "4", "--load",
                        "single:size=200M", "--transport", "mroce", *AS_HTSIM)
        self.assertGreater(out["goodput_gbps"], 0.95 * 4 * 400 * 4096 / 4160)


class LosslessFabrics(unittest.TestCase):
    def test_pfc_and_credits_lose_nothing_in_an_incast(self):
        for transport in ("rocev2", "hpcc", "conweave", "ib"):
            with self.subTest(transport):
                out = result_of(*INCAST, "--transport", transport, *AS_HTSIM)
                self.assertEqual(out["drops"], 0)
                self.assertEqual(out["retransmissions"], 0)
                self.assertEqual(out["pause"]["frames"] > 0, transport != "ib")

    def test_without_pfc_the_same_incast_loses_packets(self):
        out = result_of(*INCAST, "--transport", "irn", *AS_HTSIM)
        self.assertGreater(out["drops_by_reason"]["shared_buffer"], 0)

    def test_a_credit_fabric_loses_nothing_with_small_buffers_and_adaptive_routing(self):
        out = result_of(*PERMUTATION, "--transport", "ib", *AS_HTSIM, "--set", "credit_buffer=64K")
        self.assertEqual(out["drops"], 0)


class Peers(unittest.TestCase):
    """Mean completion times within 15 % of those that the published simulators gave for the same scenario files."""

    def test_the_presets_come_near_the_models_that_they_are_named_after(self):
        for transport, scenario, mean in (("hpcc", PERMUTATION, 119.5), ("hpcc", INCAST, 2130),
                                          ("conweave", PERMUTATION, 107.5), ("conweave", INCAST, 2126),
                                          ("conweave-irn", PERMUTATION, 104.5)):
            with self.subTest(f"{transport} {scenario[3].name}"):
                out = result_of(*scenario, "--transport", transport, *AS_HTSIM)
                self.assertAlmostEqual(out["fct_us"]["mean"] / mean, 1, delta=0.15)


class LossCurve(unittest.TestCase):
    """The preset `conweave` against a model of the same rules that shares no code with it."""

    def test_go_back_n_with_dcqcn_loses_what_an_independent_model_says(self):
        with tempfile.TemporaryDirectory() as folder:
            for loss in (1e-4, 1e-3, 3e-3, 1e-2):
                with self.subTest(loss=loss):
                    star = pathlib.Path(folder) / f"star_{loss}.txt"
                    star.write_text(f"3 1 2\n2\n0 2 400Gbps 3000ns {loss}\n1 2 400Gbps 3000ns 0\n")
                    ours = statistics.median(
                        result_of("--topo", star, "--cm", DATA / "hpcc_one100M.txt", "--transport", "conweave",
                                  "--set", "header_bytes=64", "--limit", "1s", "--seed", seed)["goodput_gbps"]
                        for seed in range(1, 8))
                    model = dcqcn_loss.median_gbps(loss)
                    self.assertLess(abs(ours / model - 1), 0.15, f"{ours:.1f} and {model:.1f} Gbit/s")


class Output(unittest.TestCase):
    def test_json_begins_with_the_agreed_keys(self):
        out = result_of(*SMALL)
        agreed = ["fct_us", "flows", "goodput_gbps", "hops", "events", "drops", "ce_marks", "pause", "cnps",
                  "retransmissions", "duplicates", "max_queue_bytes", "simulated_us", "cpu_s", "peak_rss_bytes", "seed"]
        self.assertEqual(list(out)[:len(agreed)], agreed)
        self.assertEqual(list(out["fct_us"]), ["mean", "p50", "p99", "max"])
        self.assertEqual(list(out["pause"]), ["frames", "us"])

    def test_csv_is_a_header_and_a_line_with_the_figures_of_json(self):
        rows = list(csv.DictReader(sim(*SMALL, "--csv", "--seed", 7).stdout.splitlines()))
        self.assertEqual(len(rows), 1)
        out = result_of(*SMALL, "--seed", 7)
        self.assertEqual(float(rows[0]["fct_us_p99"]), out["fct_us"]["p99"])
        self.assertEqual(rows[0]["topology"], "leaf-spine:leaves=4,hosts_per_leaf=4,spines=4")
        self.assertEqual(int(rows[0]["hops"]), out["hops"])

    def test_the_table_fits_a_terminal(self):
        for transport in TRANSPORTS:
            for line in sim(*PERMUTATION, "--transport", transport).stdout.splitlines():
                self.assertLessEqual(len(line), 100, line)
        for line in sim("--help").stdout.splitlines():
            self.assertLessEqual(len(line), 100, line)

    def test_the_flow_table_has_each_flow_and_agrees_with_the_summary(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "flows.csv"
            out = result_of(*PERMUTATION, "--flows", path)
            flows = list(csv.DictReader(path.read_text().splitlines()))
        self.assertEqual(len(flows), 128)
        self.assertEqual((flows[0]["src"], flows[0]["dst"], flows[0]["bytes"]), ("0", "14", "2097152"))
        times = [float(flow["fct_us"]) for flow in flows]
        self.assertAlmostEqual(max(times), out["fct_us"]["max"], places=4)
        self.assertAlmostEqual(sum(times) / 128, out["fct_us"]["mean"], places=4)
        self.assertTrue(all(float(flow["received_us"]) < float(flow["fct_us"]) for flow in flows))
        self.assertTrue(all(float(flow["slowdown"]) >= 1 for flow in flows))

    def test_the_seed_decides(self):
        a, b, c = (result_of(*SMALL, "--seed", seed) for seed in (1, 1, 2))
        self.assertEqual(a["fct_us"], b["fct_us"])
        self.assertNotEqual(a["fct_us"], c["fct_us"])

    def test_the_files_of_htsim_and_hpcc_are_told_apart_by_their_content(self):
        htsim = result_of(*PERMUTATION, "--transport", "rocev2")
        hpcc = result_of("--topo", DATA / "hpcc_ft128_400.txt", "--cm", DATA / "hpcc_perm128_2M.txt", "--transport", "rocev2")
        self.assertEqual(htsim["bytes"], hpcc["bytes"])
        self.assertEqual(htsim["base_rtt_us"], hpcc["base_rtt_us"])


class Unfinished(unittest.TestCase):
    def test_the_limit_is_named(self):
        done = sim(*SMALL, "--limit", "10us", "--json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("flows did not finish", done.stderr)
        self.assertIn("the limit of simulated time was reached", done.stderr)
        self.assertLess(json.loads(done.stdout)["flows"]["finished"], 16)

    def test_flows_that_gave_up_are_named(self):
        for transport in ("mroce", "rocev2"):
            done = sim(*TWO_HOSTS, "--load", "single:size=1M", "--transport", transport, "--fault", "down host 1 at 10us")
            self.assertEqual(done.returncode, 1)
            self.assertIn("1 were given up by the transport", done.stderr)

    def test_nothing_left_to_happen_is_named(self):
        done = sim(*TWO_HOSTS, "--load", "single:size=1M", "--transport", "ib", "--set", "timeout=0", "--fault",
                   "down host 1 at 10us")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing was left to happen", done.stderr)


class Faults(unittest.TestCase):
    def test_each_does_what_it_says(self):
        plain = result_of(*SMALL)
        for sentence, drops, slower in (("down leaf 2 spine 1 at 2us until 1ms", True, True),
                                        ("flap spine 0 period 20us down 5us until 1ms", True, True),
                                        ("rate host 3 10% at 0", False, True), ("rate host 3 at 0 10%", False, True),
                                        ("loss spine 0 1%", True, False), ("down plane 0 at 1s until 2s", False, False)):
            with self.subTest(sentence):
                out = result_of(*SMALL, "--fault", sentence)
                self.assertEqual(out["drops_by_reason"]["link"] > 0, drops)
                if slower:
                    self.assertGreater(out["fct_us"]["max"], 1.05 * plain["fct_us"]["max"])

    def test_loss_hits_every_link_in_both_directions(self):
        out = result_of(*TWO_HOSTS, "--load", "single:size=20M", "--loss", "1%")
        # Four links for each data packet (those lost on the way take fewer), and the ACKs.
        sent = out["counters"]["data_packets"] + out["counters"]["acks"]
        self.assertAlmostEqual(out["drops_by_reason"]["link"] / sent, 1 - 0.99 ** 4, delta=0.008)


def tshark(path, *fields, only=""):
    """The fields of the packets of a capture, a tuple for each packet."""
    done = subprocess.run(["tshark", "-r", path, "-o", "ip.check_checksum:TRUE", "-Y", only, "-T", "fields", "-E",
                           "separator=|", *(word for field in fields for word in ("-e", field))],
                          capture_output=True, text=True, timeout=60, check=True)
    return [tuple(line.split("|")) for line in done.stdout.splitlines()]


class Traces(unittest.TestCase):
    # Host 0 is the bottleneck; its leaf pauses others.
    INCAST = ["--fabric", "leaf-spine:leaves=4,hosts_per_leaf=4,spines=4", "--load", "incast:senders=12,size=256K"]
    PAUSING = [*INCAST, "--transport", "rocev2", "--set", "shared_buffer=400K"]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def traces(self, name="t"):
        return ["--pcapng", self.folder / f"{name}.pcapng", "--capture", "host 0", "--capture", "leaf 1 -> spine 2",
                "--queues", self.folder / f"{name}.csv", "--perfetto", self.folder / f"{name}.json"]

    def events(self, *words, **more):
        result = result_of(*words, "--perfetto", self.folder / "t.json", **more)
        trace = json.loads((self.folder / "t.json").read_text())
        self.assertEqual(trace["otherData"]["seed"], 1)
        return result, trace["traceEvents"]

    def test_they_change_nothing_and_are_the_same_on_one_thread_and_on_two(self):
        for transport in ("mroce", "dctcp", "rocev2", "irn"):
            with self.subTest(transport):
                words = [*self.INCAST, "--transport", transport, "--loss", "0.1%"]
                plain = result_of(*words)
                for threads in (1, 2):
                    traced = result_of(*words, *self.traces(threads), "--threads", threads)
                    for key in OF_THE_MACHINE:
                        traced[key] = plain[key]
                    self.assertEqual(json.dumps(traced), json.dumps(plain))
                for kind in ("pcapng", "csv", "json"):
                    one, two = ((self.folder / f"{threads}.{kind}").read_bytes() for threads in (1, 2))
                    self.assertGreater(len(one), 1000)
                    self.assertEqual(one == two, True, kind)

    @unittest.skipUnless(shutil.which("tshark"), "no tshark on this host")
    def test_wireshark_reads_rocev2_as_infiniband_and_pauses_as_mac_control(self):
        path = self.folder / "t.pcapng"
        result = result_of(*self.PAUSING, "--pcapng", path, "--capture", "host 0", "--capture", "host 6", "--snaplen", "9000")
        packets = tshark(path, "infiniband.bth.opcode", "ip.checksum.status", "frame.len", "frame.cap_len", only="infiniband")
        self.assertEqual({packet[1] for packet in packets}, {"1"})
        self.assertTrue(all(packet[2] == packet[3] for packet in packets))
        writes = [packet for packet in packets if packet[0] in ("6", "7", "8")]
        # Those of all hosts to host 0, and once more those that host 6 sends.
        self.assertEqual(len(writes), result["counters"]["data_packets"] * 13 // 12)
        self.assertEqual(len(tshark(path, "frame.number", only="_ws.malformed or _ws.expert.severity == error")), 0)
        pauses = tshark(path, "macc.opcode", "macc.cbfc.enbv", "macc.cbfc.pause_time.c3", "frame.interface_name", only="macc")
        self.assertGreaterEqual(len(pauses), 2)
        self.assertEqual({pause[:2] for pause in pauses}, {("0x0101", "0x0008")})
        self.assertEqual([pause[2] for pause in pauses], ["65535", "0"] * (len(pauses) // 2))
        self.assertEqual({pause[3] for pause in pauses}, {"leaf 1 -> host 6"})

    @unittest.skipUnless(shutil.which("tshark"), "no tshark on this host")
    def test_a_capture_has_headers_lengths_marks_and_losses(self):
        path = self.folder / "t.pcapng"
        result = result_of(*self.INCAST[:2], "--load", "incast:senders=12,size=1M", "--transport", "dctcp", "--pcapng", path,
                           "--capture", "leaf 0 -> host 0", "--fault", "loss host 0 1%")
        data = tshark(path, "tcp.len", "frame.len", "frame.cap_len", "ip.dsfield.ecn", "frame.comment", only="tcp.len > 0")
        self.assertEqual(len(data), result["counters"]["data_packets"])
        self.assertEqual({packet[:3] for packet in data}, {("4096", str(14 + 20 + 32 + 4096), "66")})
        self.assertEqual(sum(packet[3] == "3" for packet in data), result["ce_marks"])
        lost = [packet for packet in data if packet[4] == "lost on this link"]
        self.assertGreater(len(lost), 5)
        self.assertEqual(len(data) - len(lost) - result["duplicates"], 12 * 256)

    @unittest.skipUnless(shutil.which("tshark"), "no tshark on this host")
    def test_a_packet_is_stamped_when_its_last_byte_arrives(self):
        path = self.folder / "t.pcapng"
        result_of(*TWO_HOSTS, "--load", "single:size=4096", *AS_HTSIM, "--pcapng", path, "--capture", "host 0", "--capture",
                  "host 1")
        times = [(name, float(at) * 1e9) for name, at in tshark(path, "frame.interface_name", "frame.time_epoch")]
        data, ack = 4160 * 8 / 400 + 1000, 64 * 8 / 400 + 1000
        wanted = [("host 0 -> leaf 0", data), ("leaf 1 -> host 1", 4 * data), ("host 1 -> leaf 1", 4 * data + ack),
                  ("leaf 0 -> host 0", 4 * data + 4 * ack)]
        self.assertEqual([name for name, _ in times], [name for name, _ in wanted])
        for (_, at), (_, expected) in zip(times, wanted):
            self.assertAlmostEqual(at, expected, delta=1)

    def test_slices_of_a_track_do_not_overlap_and_are_those_of_the_run(self):
        flows_file = self.folder / "flows.csv"
        result, events = self.events(*self.PAUSING, "--flows", flows_file)
        processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        tracks = {}
        for event in events:
            self.assertIn(event["pid"], processes)
            if event["ph"] in "Xi":
                self.assertIn((event["pid"], event["tid"]), threads)
            if event["ph"] == "X":
                tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
        for slices in tracks.values():
            slices.sort()
            self.assertTrue(all(a[1] <= b[0] + 1e-9 for a, b in zip(slices, slices[1:])))
        flows = {e["name"]: (processes[e["pid"]], e["ts"], e["dur"]) for e in events if e.get("cat") == "flow"}
        table = {f"flow {f['id']} to host {f['dst']}": (f"host {f['src']}", float(f["start_us"]), float(f["fct_us"]))
                 for f in csv.DictReader(flows_file.read_text().splitlines())}
        self.assertEqual(flows, table)
        pauses = [e for e in events if e.get("cat") == "pause"]
        self.assertEqual(len(pauses), result["pause"]["frames"])
        of_switches = sum(e["dur"] for e in pauses if not processes[e["pid"]].startswith("host"))
        self.assertAlmostEqual(of_switches, result["pause"]["us"], places=3)

    def test_drops_and_marks_are_all_there(self):
        result, events = self.events(*self.INCAST, "--transport", "conweave-irn", "--set", "shared_buffer=400K", "--set",
                                     "ecn_kmin=20K", "--set", "ecn_kmax=60K", "--loss", "0.5%")
        self.assertGreater(result["drops_by_reason"]["shared_buffer"], 0)
        instants = [e for e in events if e["ph"] == "i"]
        self.assertEqual(sum(e["cat"] == "mark" for e in instants), result["ce_marks"])
        drops = [e["name"] for e in instants if e["cat"] == "drop"]
        self.assertEqual({name: drops.count(name) for name in set(drops)},
                         {name: count for name, count in result["drops_by_reason"].items() if count})

    def test_what_does_not_fit_is_said_loudly(self):
        done = sim(*PERMUTATION, "--loss", "6%", "--perfetto", self.folder / "t.json", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        drops = json.loads(done.stdout)["drops"]
        self.assertIn(f"t.json has the first 20,000 of {drops:,} drops only", done.stderr)
        done = sim(*TWO_HOSTS, "--load", "single:size=20M", "--queues", self.folder / "q.csv", "--sample", "100ps")
        self.assertIn("us apart, not 0.0001: there would have been too many", done.stderr)

    def test_the_queue_table_is_regular_and_adds_up(self):
        path = self.folder / "q.csv"
        result = result_of(*self.PAUSING, "--queues", path, "--sample", "500ns", "--watch", "leaf 0 -> host 0", "--watch",
                           "leaf 1")
        rows = list(csv.DictReader(path.read_text().splitlines()))
        links = {row["link"] for row in rows}
        self.assertEqual(len(links), 1 + 2 * 8)
        times = sorted({float(row["time_us"]) for row in rows})
        self.assertEqual(times, [i / 2 for i in range(len(times))])
        self.assertEqual(len(rows), len(links) * len(times))
        self.assertEqual(len(times), int(result["simulated_us"] * 2) + 1)
        last = [row for row in rows if row["link"] == "leaf 0 -> host 0"]
        bytes_in = sum(float(row["gbps"]) for row in last) * 500 / 8
        self.assertAlmostEqual(bytes_in, 12 * 64 * (4096 + 82) + 12 * 16, delta=100)  # the first packet has a RETH
        self.assertLessEqual(max(float(row["gbps"]) for row in last), 400 + 4300 * 8 / 500)
        self.assertTrue(any(float(row["paused_us"]) > 0 for row in rows))
        busiest = self.folder / "b.csv"
        result_of(*self.PAUSING, "--queues", busiest, "--watch", "3")
        rows = list(csv.DictReader(busiest.read_text().splitlines()))
        self.assertEqual(len({row["link"] for row in rows}), 3)
        self.assertGreater(max(int(row["queue_bytes"]) for row in rows), 0.8 * result["max_queue_bytes"])
        self.assertLessEqual(max(int(row["queue_bytes"]) for row in rows), result["max_queue_bytes"])

    def test_the_report_names_the_files(self):
        done = sim(*self.INCAST, *self.traces())
        self.assertRegex(done.stdout, r"wrote +\S+/t.pcapng: [0-9,]+ packets on 3 links")
        self.assertRegex(done.stdout, r"wrote +\S+/t.csv: 8 links at [0-9,]+ times")
        self.assertEqual(done.stderr, "")

    def test_what_cannot_be_written_is_known_before_the_run(self):
        for option in (["--pcapng", "/nonexistent/x", "--capture", "host 0"], ["--queues", "/nonexistent/x"],
                       ["--perfetto", "/nonexistent/x"]):
            done = sim("--fabric", "fat-tree:hosts=1024", "--load", "permutation:size=1G", *option)  # would take minutes
            self.assertEqual(done.returncode, 3)
            self.assertIn("cannot write /nonexistent/x: No such file or directory", done.stderr)
        done = sim(*SMALL, "--queues", "/dev/full")
        self.assertEqual(done.returncode, 3)
        self.assertIn("cannot write /dev/full", done.stderr)


class Errors(unittest.TestCase):
    TABLE = [
        (2, "which network?", []),
        (2, "which flows?", ["--fabric", "leaf-spine"]),
        (2, "which network?", ["--fabric", "leaf-spine", "--topo", DATA / "ls64_400.topo", "--load", "single"]),
        (3, "cannot be opened", ["--topo", "/nonexistent.topo", "--load", "single"]),
        (2, "no such fabric", ["--fabric", "torus", "--load", "single"]),
        (2, "no such load", ["--fabric", "leaf-spine", "--load", "storm"]),
        (2, "unknown key 'host'; it has hosts=N", ["--fabric", "fat-tree:host=128", "--load", "single"]),
        (2, "multiple of 16 up to 128", ["--fabric", "fat-tree:hosts=100", "--load", "single"]),
        (2, "is not key=value", ["--fabric", "fat-tree:128", "--load", "single"]),
        (2, "is there twice", ["--fabric", "fat-tree:hosts=128,hosts=16", "--load", "single"]),
        (2, "not a size", ["--fabric", "leaf-spine", "--load", "permutation:size=2X"]),
        (2, "not a size", ["--fabric", "leaf-spine", "--load", "permutation:size=nan"]),
        (2, "number from 1 to 63", ["--fabric", "leaf-spine", "--load", "incast:senders=64"]),
        (2, "two different hosts", ["--fabric", "leaf-spine", "--load", "single:from=1,to=1"]),
        (2, "one cable each; several planes need", ["--topo", DATA / "hpcc_star.txt", "--planes", "2", "--load", "single"]),
        (2, "is for 128 hosts, but the topology has 64", ["--topo", DATA / "ls64_400.topo", "--cm", DATA / "perm128_2M.cm"]),
        (2, "'connections' is not known", ["--topo", DATA / "perm128_2M.cm", "--load", "single"]),
        (2, "no such transport; there are mroce, tcp", [*SMALL, "--transport", "roce"]),
        (2, "the fabric has mtu", [*SMALL, "--set", "foo=1"]),
        (2, "mroce has paths", [*SMALL, "--set", "foo=1"]),
        (2, "is not a value of paths", [*SMALL, "--set", "paths=99"]),
        (2, "is not SHARE", [*SMALL, "--set", "ecn_pmax=200%"]),
        (2, "no key=value", [*SMALL, "--set", "mtu"]),
        (2, "not a time", [*SMALL, "--limit", "soon"]),
        (2, "not a probability below 1", [*SMALL, "--loss", "1"]),
        (2, "--json and --csv", [*SMALL, "--json", "--csv"]),
        (2, "no link of this topology", [*SMALL, "--fault", "down leaf 99"]),
        (2, "no time behind 'at'", [*SMALL, "--fault", "down leaf 1 at dusk"]),
        (2, "is not down, flap, rate or loss", [*SMALL, "--fault", "burn leaf 1"]),
        (2, "flap needs period and down", [*SMALL, "--fault", "flap leaf 1 period 10us"]),
        (2, "needs a share", [*SMALL, "--fault", "loss leaf 1"]),
        (2, "ends before it begins", [*SMALL, "--fault", "down leaf 1 at 2us until 1us"]),
        (2, "say until when", [*SMALL, "--fault", "flap leaf 1 period 2ns down 1ns"]),
        (3, "cannot write", [*SMALL, "--flows", "/nonexistent/flows.csv"]),
        (2, "is not N", [*SMALL, "--set", "mtu=64"]),
        (2, "is less than a packet", [*SMALL, "--set", "queue_bytes=1K"]),
        (2, "is less than a packet", [*SMALL, "--transport", "ib", "--set", "credit_buffer=1K"]),
        (2, "not in range", [*SMALL, "--planes", "9"]),
        (2, "--capture without --pcapng", [*SMALL, "--capture", "host 3"]),
        (2, "--pcapng without --capture", [*SMALL, "--pcapng", "/dev/null"]),
        (2, "--snaplen without --pcapng", [*SMALL, "--snaplen", "100"]),
        (2, "--watch without a file", [*SMALL, "--watch", "8"]),
        (2, "--sample without a file", [*SMALL, "--sample", "1us"]),
        (2, "not a time above 0", [*SMALL, "--queues", "/dev/null", "--sample", "0"]),
        (2, "no links", [*SMALL, "--queues", "/dev/null", "--watch", "0"]),
        (2, "links are named \"leaf 2 spine 1\", \"host 3\"", [*SMALL, "--pcapng", "/dev/null", "--capture", "host 99"]),
        (2, "links are named", [*SMALL, "--pcapng", "/dev/null", "--capture", "eth0"]),
        (2, "links are named", [*SMALL, "--perfetto", "/dev/null", "--watch", "tor 3"]),
        (2, "links are named", [*SMALL, "--perfetto", "/dev/null", "--watch", "8", "--watch", "host 3"]),
        (2, "no link of this topology", [*SMALL, "--pcapng", "/dev/null", "--capture", "leaf 1 -> leaf 2"]),
        (2, "names no link", [*SMALL, "--pcapng", "/dev/null", "--capture", "-> leaf"]),
    ]

    def test_each_says_what_is_wrong_and_ends_with_its_code(self):
        for code, text, words in self.TABLE:
            with self.subTest(" ".join(map(str, words))):
                done = sim(*words)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(text, done.stderr)
                self.assertTrue(done.stderr.startswith("mroce: "))

    def test_files_that_are_no_topologies_and_no_flows(self):
        with tempfile.TemporaryDirectory() as folder:
            bad = pathlib.Path(folder) / "bad"
            for content in (b"", b"\x00\xff\x00", b"Nodes", b"Nodes 99999999999\n", b"1 2", b"3 1 2\n9\n", b"-1\n",
                            b"Nodes 2\nConnections 1\n0->0 start 0 size 1\n", b"5\n0 1 3 100 10 2\n"):
                bad.write_bytes(content)
                for words in (["--topo", bad, "--load", "single"], ["--fabric", "leaf-spine", "--cm", bad]):
                    with self.subTest(f"{content} {words[0]}"):
                        done = sim(*words)
                        self.assertEqual(done.returncode, 2, done.stdout)
                        self.assertIn(str(bad), done.stderr)


class Bench(unittest.TestCase):
    def test_the_rows_have_their_names_and_figures_above_zero(self):
        done = subprocess.run([MROCE, "bench", "sim", "--quick", "--runs", "1", "--json"], capture_output=True, text=True,
                              timeout=60, env=environment(), check=True)
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual([row["name"] for row in rows],
                         ["blaster/mroce", "mroce", "blaster/rocev2", "rocev2", "blaster/dctcp", "dctcp"])
        for row in rows:
            for key in ("hosts", "hops", "events", "mhops_per_s", "peak_bytes_per_host", "transport_bytes_per_connection"):
                self.assertGreater(row[key], 0, key)
            self.assertEqual(row["transport_ns_per_packet"] is None, row["name"].startswith("blaster"))


if __name__ == "__main__":
    unittest.main()
