"""mroce sim: its output, its errors, and what must be true of every simulated transport."""

import csv
import json
import pathlib
import subprocess
import tempfile
import unittest

from support import MROCE, environment

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
