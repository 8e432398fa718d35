"""What `mroce doctor` collects: snapshots, runs, differences, merged files, inventories."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import recorded_tree
from support import MROCE, environment, free_tcp_port, gid_index, listens, scratch_folder, wait_until

PHRASE = ("--redact", "--redact-key", "a phrase")


def doctor(*words, status=0, stdin=None, env=None, text=True):
    """Standard output of a call that must end with this status."""
    result = subprocess.run([MROCE, "doctor", *map(str, words)], capture_output=True, text=text, timeout=120, check=False,
                            input=stdin, env=env or environment())
    if result.returncode != status:
        raise AssertionError(f"{words} ended with {result.returncode}: {result.stderr}\n{result.stdout[-3000:]}")
    return result.stdout


def bundle_of(*words, **more):
    return json.loads(doctor("snapshot", *words, **more))


def sources_of(bundle, index=0):
    return {source["name"]: source for source in bundle["snapshots"][index]["sources"]}


STACK = contextlib.ExitStack()
FOLDER = None  # of recorded hosts and their bundles


def setUpModule():
    """Thousands of small files: in memory, and once for all tests."""
    global FOLDER  # pylint: disable=global-statement
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    FOLDER = pathlib.Path(STACK.enter_context(tempfile.TemporaryDirectory(prefix="mroce-test-", dir=memory)))
    for name, host, seconds, pfc in (("before", "nodeA", 0, 3), ("after", "nodeA", 10, 3), ("peer", "nodeB", 0, 4)):
        recorded_tree.write(FOLDER / name, host, 8, seconds, pfc)
        doctor("snapshot", "--root", FOLDER / name, "-o", FOLDER / f"{name}.json")


def tearDownModule():
    STACK.close()


class WithTrees(unittest.TestCase):
    @property
    def folder(self):
        return FOLDER

    def text(self, name):
        return (self.folder / f"{name}.json").read_text()


class Snapshot(WithTrees):
    def test_eight_adapters_take_less_than_a_second(self):
        took = []
        for _ in range(3):
            begin = time.monotonic()
            doctor("snapshot", "--root", self.folder / "before", "-o", self.folder / "again.json")
            took.append(time.monotonic() - begin)
        self.assertLess(min(took), 1.0)

    def test_ports_gids_and_counters_are_in_it(self):
        bundle = json.loads(self.text("before"))
        self.assertEqual((bundle["schema"], bundle["host"]), ("mroce.doctor.bundle/1", "nodeA"))
        sources = sources_of(bundle)
        port = sources["grep -r . /sys/class/infiniband/mlx5_7"]["text"]
        for part in ("ports/1/hw_counters/out_of_sequence:0", "ports/1/gid_attrs/types/3:RoCE v2",
                     "device/current_link_width:16", "ports/1/state:4: ACTIVE"):
            self.assertIn(part, port)
        self.assertNotIn("gids/200", port, "an empty GID")
        self.assertIn("NCCL_IB_HCA=mlx5", sources["env"]["text"])
        self.assertNotIn("hidden", self.text("before"))

    def test_what_is_not_there_is_missing_with_a_reason(self):
        sources = sources_of(json.loads(self.text("before")))
        self.assertEqual(sources["ibstat"], {"name": "ibstat", "missing": "not in the recorded tree"})

    def test_this_machine_is_read(self):
        bundle = bundle_of()
        self.assertEqual(bundle["host"], socket.gethostname())
        sources = sources_of(bundle)
        self.assertIn("Max locked memory", sources["/proc/self/limits"]["text"])
        for source in sources.values():
            self.assertTrue(("text" in source) != ("missing" in source), source)
            self.assertTrue(source.get("text") or source.get("missing"), source)

    def test_programs_that_hang_are_stopped(self):
        with scratch_folder() as folder:
            for program in ("ethtool", "dcb", "nvidia-smi"):
                (folder / program).write_text("#!/bin/sh\nsleep 1000\n")
                (folder / program).chmod(0o755)
            begin = time.monotonic()
            bundle = bundle_of("--limit", "0.3", env=environment(PATH=f"{folder}:{os.environ['PATH']}"))
            self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(sources_of(bundle)["nvidia-smi -q"]["missing"], "stopped at the limit of 0.3 s")

    def test_a_hostile_tree_is_read_as_far_as_it_goes(self):
        with scratch_folder() as folder:
            tree = folder / "tree"
            recorded_tree.write(tree, nics=1)
            counters = tree / "sys/class/infiniband/mlx5_0/ports/1/counters"
            (counters / "port_xmit_data").write_bytes(b"\xff\xfe\x00" * 3000)
            (counters / "symbol_error").unlink()
            (counters / "symbol_error").mkdir()
            os.mkfifo(counters / "fifo")
            (counters / "loop").symlink_to("loop")
            (tree / "proc/sys/kernel/hostname").write_text("x" * 100_000)
            self.assertEqual(len(bundle_of("--root", tree)["host"]), 256)


class Redact(WithTrees):
    def test_no_name_address_or_serial_number_is_left(self):
        text = doctor("snapshot", "--root", self.folder / "before", *PHRASE)
        for secret in ("nodeA", "0c:42:a1:00:", "0a07:", "MT2301X00001", "5ddc4527"):
            self.assertIn(secret, doctor("snapshot", "--root", self.folder / "before"), secret)
            if secret != "0c:42:a1:00:":
                self.assertNotIn(secret, text, secret)
        self.assertTrue(json.loads(text)["redacted"])

    def test_analysis_is_the_same(self):
        with scratch_folder() as folder:
            for name in ("before", "after"):
                doctor("snapshot", "--root", self.folder / name, *PHRASE, "-o", folder / f"{name}.json")
            redacted = json.loads(doctor("diff", folder / "before.json", folder / "after.json", "--json"))
        plain = json.loads(doctor("diff", self.folder / "before.json", self.folder / "after.json", "--json"))
        self.assertEqual([port["counters"] for port in redacted["ports"]], [port["counters"] for port in plain["ports"]])
        self.assertEqual(redacted["remarks"], [])

    def test_without_a_key_two_bundles_do_not_match(self):
        hosts = {bundle_of("--root", self.folder / "before", "--redact")["host"] for _ in range(2)}
        self.assertEqual(len(hosts), 2)


class Diff(WithTrees):
    def test_counters_have_change_rate_and_both_names(self):
        answer = json.loads(doctor("diff", self.folder / "before.json", self.folder / "after.json", "--json"))
        self.assertEqual(len(answer["ports"]), 8)
        by_name = {change["vendor_name"]: change for change in answer["ports"][0]["counters"]}
        change = by_name["port_xmit_data"]
        self.assertEqual(change["canonical"], "rdma_tx_bytes")
        self.assertEqual((change["delta"], change["per_second"]), (10_000_000 * 1024 * 4, 1_000_000 * 1024 * 4))
        self.assertNotIn("out_of_sequence", by_name)

    def test_all_shows_what_stayed(self):
        answer = json.loads(doctor("diff", self.folder / "before.json", self.folder / "after.json", "--json", "--all"))
        self.assertIn("out_of_sequence", {change["vendor_name"] for change in answer["ports"][0]["counters"]})

    def test_backwards_everything_was_reset(self):
        answer = json.loads(doctor("diff", self.folder / "after.json", self.folder / "before.json", "--json"))
        self.assertEqual({change["state"] for change in answer["ports"][0]["counters"]}, {"reset"})

    def test_raw_statistics_can_be_compared(self):
        with scratch_folder() as folder:
            for name, packets in (("one", 1), ("two", 1000)):
                (folder / f"{name}.txt").write_text(recorded_tree.ethtool_statistics(packets, 8) + "\n")
            text = doctor("diff", folder / "one.txt", folder / "two.txt")
        self.assertIn("tx_vport_rdma_unicast_packets", text)

    def test_a_file_that_is_not_there_is_an_error(self):
        doctor("diff", "/no/such/file", self.folder / "after.json", status=3)


class Merge(WithTrees):
    def merged_hosts(self, text):
        with scratch_folder() as folder:
            doctor("merge", "-o", folder / "all.json", stdin=text)
            return [bundle["host"] for bundle in json.loads((folder / "all.json").read_text())["bundles"]]

    def labelled(self, one, two):
        a = [one + line for line in self.text("before").splitlines(True)]
        b = [two + line for line in self.text("peer").splitlines(True)]
        mixed = []
        while a or b:
            mixed += a[:7] + b[:5]
            a, b = a[7:], b[5:]
        return "".join(mixed)

    def test_launchers_outputs_are_taken_apart(self):
        for one, two in (("nodeA: ", "nodeB: "), ("0: ", "1: "), ("[1,0]<stdout>:", "[1,1]<stdout>:"), ("", "")):
            with self.subTest(one):
                text = self.labelled(one, two) if one else self.text("before") + self.text("peer")
                self.assertEqual(self.merged_hosts(text), ["nodeA", "nodeB"])

    def test_what_is_merged_is_analysed_like_the_files(self):
        with scratch_folder() as folder:
            doctor("merge", self.folder / "before.json", self.folder / "peer.json", "-o", folder / "all.json")
            merged = doctor("inventory", folder / "all.json", "--json", status=1)
        self.assertEqual(merged, doctor("inventory", self.folder / "before.json", self.folder / "peer.json", "--json", status=1))

    def test_a_broken_file_is_named_and_the_others_are_kept(self):
        with scratch_folder() as folder:
            (folder / "broken.json").write_text(self.text("peer")[:5000])
            (folder / "words.txt").write_text("no bundle at all\n")
            doctor("merge", folder / "broken.json", folder / "words.txt", self.folder / "before.json", "-o", folder / "all.json",
                   status=1)
            hosts = [bundle["host"] for bundle in json.loads((folder / "all.json").read_text())["bundles"]]
        self.assertEqual(hosts[-1], "nodeA")

    def test_a_file_that_is_read_is_not_overwritten(self):
        before = self.text("before")
        doctor("merge", self.folder / "before.json", "-o", self.folder / "before.json", status=2)
        self.assertEqual(self.text("before"), before)

    def test_redacting_makes_one_name_of_one_host(self):
        with scratch_folder() as folder:
            doctor("merge", self.folder / "before.json", self.folder / "after.json", self.folder / "peer.json", "--redact", "-o",
                   folder / "all.json")
            text = (folder / "all.json").read_text()
        hosts = [bundle["host"] for bundle in json.loads(text)["bundles"]]
        self.assertEqual((hosts[0], len(set(hosts))), (hosts[1], 2))
        self.assertNotIn("nodeB", text)


class Inventory(WithTrees):
    def test_ends_that_differ_are_marked(self):
        answer = json.loads(doctor("inventory", self.folder / "before.json", self.folder / "peer.json", "--json", status=1))
        port = answer["ports"][0]
        self.assertEqual(port["pfc"], [False, False, False, True, False, False, False, False])
        self.assertEqual((port["trust"], port["mismatches"]), ("dscp", ["pfc"]))
        self.assertEqual(port["dcqcn"], [None] * 8, "what was not read is not off")

    def test_the_same_on_both_ends_is_fine(self):
        self.assertIn("mlx5_7/1", doctor("inventory", self.folder / "before.json", self.folder / "after.json"))

    def test_nothing_is_not_enough(self):
        doctor("inventory", stdin="hello\n", status=5)


class Run(unittest.TestCase):
    def run_command(self, *command, options=(), status=5):
        with scratch_folder() as folder:
            page = doctor("run", "-o", folder / "run.json", "--interval", "0.2", *options, "--", *command, status=status)
            return page, json.loads((folder / "run.json").read_text())

    def test_output_passes_through_unchanged_and_is_kept(self):
        page, bundle = self.run_command("printf", "a\\tb\\n\\033[1mc")
        self.assertTrue(page.startswith("a\tb\n\033[1mc"), page[:40])
        self.assertEqual(bundle["command"]["output"], "a\tb\n\033[1mc")
        self.assertEqual([bundle["snapshots"][i]["phase"] for i in (0, -1)], ["start", "end"])

    def test_samples_are_taken_while_it_runs(self):
        _, bundle = self.run_command("sleep", "1")
        phases = [snapshot["phase"] for snapshot in bundle["snapshots"]]
        self.assertGreaterEqual(phases.count("sample"), 3)
        times = [snapshot["time_ns"] for snapshot in bundle["snapshots"]]
        self.assertEqual(times, sorted(times))

    def test_a_failing_command_s_status_becomes_ours(self):
        for command, status in ((("sh", "-c", "exit 42"), 42), (("sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM)):
            _, bundle = self.run_command(*command, status=status)
            self.assertEqual(bundle["command"]["exit_status"], status)
        doctor("run", "--", "no-such-program-anywhere", status=127)
        doctor("run", status=2)

    def test_standard_output_is_json_alone_if_asked_for(self):
        result = subprocess.run([MROCE, "doctor", "run", "--json", "--", "echo", "from the command"], capture_output=True, text=True,
                                timeout=60, check=False, env=environment())
        self.assertEqual(json.loads(result.stdout)["schema"], "mroce.doctor.diagnosis/1")
        self.assertIn("from the command", result.stderr)

    def test_a_signal_reaches_the_command(self):
        process = subprocess.Popen([MROCE, "doctor", "run", "--", "sh", "-c", "trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.05; done"],
                                   stdout=subprocess.PIPE, text=True, env=environment())
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        self.assertTrue(out.startswith("caught\n"), out[:100])
        self.assertEqual(process.returncode, 7)

    @unittest.skipUnless(shutil.which("ib_write_bw"), "perftest is not installed")
    def test_endpoints_of_mroce_are_asked(self):
        port, gid = free_tcp_port(), gid_index("127.0.0.1")
        perftest = f"ib_write_bw -d mroce0 -x {gid} -p {port} -s 256K -D 2 -F --report_gbits"
        script = (f"{MROCE} run -- {perftest} & server=$!\n"
                  f"until grep -q :$(printf %04X {port}) /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done\n"
                  f"{MROCE} run --loss 1 --json $0 -- {perftest} 127.0.0.1 && wait $server\n")
        with scratch_folder() as folder:
            result = subprocess.run([MROCE, "doctor", "run", "-o", folder / "run.json", "--interval", "0.3", "--json", "--", "bash", "-c",
                                     script, folder / "own.json"], capture_output=True, text=True, timeout=100, check=False,
                                    env=environment())
            self.assertIn(result.returncode, (0, 1, 5), result.stderr)
            bundle = json.loads((folder / "run.json").read_text())
            own = json.loads((folder / "own.json").read_text())
        self.assertIn("BW average[Gb/sec]", bundle["command"]["output"])
        last = sources_of(bundle, -1)["mroce statistics"]["text"]
        self.assertEqual(last.count('"schema": "mroce-stats-1"'), 2)
        self.assertIn(str(own[0]["pid"]), last)
        sampled = [s for s in bundle["snapshots"] if s["phase"] == "sample" and "mroce statistics" in str(s["sources"])]
        self.assertGreater(len(sampled), 1)

    @unittest.skipUnless(shutil.which("ib_write_bw"), "perftest is not installed")
    def test_a_snapshot_sees_endpoints_that_run(self):
        with scratch_folder() as folder:
            port = free_tcp_port()
            env = environment(MROCE_STATS_FILE=str(folder / "%p.json"), MROCE_STATS_INTERVAL="50")
            with subprocess.Popen([MROCE, "run", "--", "ib_write_bw", "-d", "mroce0", "-p", str(port)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, env=env) as server:
                try:
                    wait_until(lambda: list(folder.glob("*.json")), "statistics of the server")
                    text = sources_of(bundle_of())["mroce endpoints"]["text"]
                finally:
                    server.terminate()
        self.assertIn("ib_write_bw", text)
        self.assertIn("mroce-stats-1", text)
        self.assertRegex(text, r"socket port 6\d+ local \S+ queued \S+ drops \d+")


@unittest.skipUnless(shutil.which("ib_write_bw"), "perftest is not installed")
class EndpointsOfMroce(unittest.TestCase):
    """What is wrong on purpose is named by the page of one end, whichever it is."""

    def verdict(self, client=(), server_environment=None, at_the_receiver=False):
        port, gid = free_tcp_port(), gid_index("127.0.0.1")
        perftest = ["ib_write_bw", "-d", "mroce0", "-x", str(gid), "-p", str(port), "-s", "64K", "-D", "2", "-F"]
        watched = [MROCE, "doctor", "run", "--json", "--"]
        server = ["env", *(server_environment or ["A=1"]), *(watched if at_the_receiver else []), MROCE, "run", "--", *perftest]
        sender = [*([] if at_the_receiver else watched), MROCE, "run", *client, "--", *perftest, "127.0.0.1"]
        with subprocess.Popen(server, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment()) as receiver:
            try:
                wait_until(lambda: listens(receiver.pid, port), "the server")
                ran = subprocess.run(sender, capture_output=True, text=True, timeout=100, check=False, env=environment())
                answer, _ = receiver.communicate(timeout=100)
            finally:
                receiver.kill()
        return json.loads(answer if at_the_receiver else ran.stdout)["verdict"]

    def test_a_network_that_drops(self):
        verdict = self.verdict(client=["--loss", "5"])
        self.assertEqual((verdict["rule"], verdict["layer"], verdict["confidence"]), ("mroce-loss", "network", "high"))

    def test_a_path_that_dies(self):
        verdict = self.verdict(client=["--impair", "path=2,down=300ms-"])
        self.assertEqual((verdict["rule"], verdict["layer"]), ("mroce-path", "network"))

    def test_a_slow_receiver_as_its_sender_sees_it(self):
        verdict = self.verdict(server_environment=["MROCE_RECEIVE_BUFFER=128K"])
        self.assertIn(verdict["rule"], ("mroce-slow-host", "mroce-peer-receive-buffer"))
        self.assertEqual(verdict["layer"], "host")

    def test_a_slow_receiver_as_it_sees_itself(self):
        verdict = self.verdict(server_environment=["MROCE_RECEIVE_BUFFER=128K"], at_the_receiver=True)
        self.assertEqual((verdict["rule"], verdict["layer"]), ("mroce-receive-buffer", "host"))


class Help(unittest.TestCase):
    def test_every_part_has_examples(self):
        for part in ("snapshot", "run", "diff", "merge", "inventory", "analyze"):
            self.assertIn("Examples:", doctor(part, "--help"), part)


if __name__ == "__main__":
    unittest.main()
