"""`mroce doctor suite` with the distribution's perftest over mroce, between three network namespaces with two planes."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import unittest

import support
from support import MROCE, environment, ip, is_root, network_namespaces, scratch_folder, wait_until

PLANES = 2
QUICK = ("--iters", 1500, "--latency-iters", 200)


class Fabric:
    """Hosts a, b, c, each with a port on every plane; a plane is a bridge in a namespace of its own."""

    def __init__(self):
        self.switch = f"mroce-{os.getpid()}-switch"
        self.names = [f"mroce-{os.getpid()}-{host}" for host in "abc"]

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(network_namespaces(self.switch, *self.names))
            self.cable()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def cable(self):
        for plane in range(PLANES):
            ip("-n", self.switch, "link", "add", f"plane{plane}", "mtu", 9000, "type", "bridge")
            ip("-n", self.switch, "link", "set", f"plane{plane}", "up")
        for index, name in enumerate(self.names):
            for plane in range(PLANES):
                ip("-n", name, "link", "add", f"p{plane}", "mtu", 9000, "type", "veth", "peer", "name",
                   f"h{index}p{plane}", "netns", self.switch)
                ip("-n", self.switch, "link", "set", f"h{index}p{plane}", "mtu", 9000, "master", f"plane{plane}", "up")
                ip("-n", name, "addr", "add", f"10.98.{plane}.{index + 1}/24", "dev", f"p{plane}")
                ip("-n", name, "link", "set", f"p{plane}", "up")

    def hosts(self, count):
        return ",".join(f"{name}=10.98.0.{index + 1}" for index, name in enumerate(self.names[:count]))

    def processes(self):
        return "".join(ip("netns", "pids", name) for name in self.names)


def command(fabric, count, *words, prefix=f"{MROCE} run --", launcher="ip netns exec {host}"):
    return [str(word) for word in (MROCE, "doctor", "suite", "--hosts", fabric.hosts(count), "--launcher", launcher,
                                   "--prefix", prefix, *words)]


def suite(fabric, count, *words, status=(0, 1, 5, 6), **more):
    """Standard output. What the rules think of a virtual machine is theirs: the exit code may be any verdict's."""
    result = subprocess.run(command(fabric, count, *words, **more), capture_output=True, text=True, timeout=120,
                            check=False, env=environment())
    if result.returncode not in status:
        raise AssertionError(f"ended with {result.returncode}: {result.stderr}\n{result.stdout[-3000:]}")
    return result.stdout


def metrics_of(results):
    return {(test["name"], metric["name"]): metric for test in results["tests"] for metric in test.get("metrics", ())}


def counters_of(test):
    return {(counter["host"], counter["canonical"]): counter.get("delta") for counter in test["counters"]}


@unittest.skipUnless(is_root(), "network namespaces need root")
@support.needs_network_namespaces
class Suite(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fabric = cls.enter_class(Fabric())
        cls.folder = pathlib.Path(cls.enter_class(scratch_folder()))
        cls.page = suite(cls.fabric, 3, *QUICK, "--repeat", 2, "-o", cls.folder / "baseline.json", "--bundles",
                         cls.folder / "bundles")
        cls.results = json.loads((cls.folder / "baseline.json").read_text())

    @classmethod
    def enter_class(cls, context):
        value = context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)
        return value

    def tearDown(self):
        self.assertEqual(self.fabric.processes(), "", "what the suite started is over")

    def test_every_test_has_a_figure_or_a_reason(self):
        self.assertEqual(self.results["schema"], "mroce.doctor.suite/1")
        metrics = metrics_of(self.results)
        for name in ("single", "multi", "incast", "bidir", "rails"):
            metric = metrics[name, "goodput"]
            self.assertEqual(len(metric["values"]), 2)
            self.assertLessEqual(0 < metric["min"] and metric["min"], metric["median"])
            self.assertLessEqual(metric["median"], metric["max"])
        self.assertGreater(metrics["single", "latency"]["median"], 0)
        collective = self.results["tests"][-1]
        self.assertEqual(collective["name"], "collective")
        if "skipped" in collective:
            self.assertRegex(collective["skipped"], "not in PATH|neither all_reduce_perf")

    def test_the_flows_are_those_of_the_test(self):
        commands = {test["name"]: test.get("commands", []) for test in self.results["tests"]}
        self.assertEqual([line.split()[3] for line in commands["incast"]],
                         [self.fabric.names[host] for host in (0, 0, 1, 2)])
        rails = [re.search(r"-x (\d+)", line)[1] for line in commands["rails"]]
        self.assertEqual(rails[:2], rails[2:], "both ends of a rail")
        self.assertNotEqual(rails[0], rails[1])
        self.assertIn(" -q 8 ", commands["multi"][0])
        self.assertIn(" -b ", commands["bidir"][1])

    def test_counters_of_both_ends_are_there(self):
        single = self.results["tests"][0]
        counters = counters_of(single)
        receiver, sender = self.fabric.names[:2]
        payload = single["payload_bytes"]
        self.assertEqual(payload, 2 * 1500 * 65536)
        # The endpoint counts what perftest moved, and the latency test's few bytes.
        self.assertGreaterEqual(counters[sender, "payload_tx_bytes"], payload)
        self.assertLess(counters[receiver, "payload_rx_bytes"], 1.5 * payload)

    def test_the_bundles_are_input_for_analyze(self):
        phases = {}
        for name in ("single", "multi", "incast", "bidir", "rails"):
            for host in self.fabric.names[:3 if name == "incast" else 2]:
                bundle = json.loads((self.folder / "bundles" / name / f"{host}.json").read_text())
                self.assertEqual(bundle["host"], host)
                self.assertIn("ib_write_bw", bundle["command"]["argv"])
                phases.setdefault(host, []).extend(snapshot["phase"] for snapshot in bundle["snapshots"])
        self.assertEqual(phases[self.fabric.names[0]], ["start", *["sample"] * 8, "end"])
        self.assertEqual(phases[self.fabric.names[2]], ["start", "end"])
        again = subprocess.run([MROCE, "doctor", "analyze", self.folder / "bundles", "--json"], capture_output=True,
                               text=True, timeout=60, check=False, env=environment())
        # Which of several tests the sentence names depends on the order of the files.
        for part in ("rule", "layer", "confidence"):
            self.assertEqual(json.loads(again.stdout)["verdict"][part], self.results["diagnosis"]["verdict"][part])
        self.assertNotEqual(self.results["diagnosis"]["verdict"]["rule"], "snapshot-invalid")

    def test_the_page_has_the_figures_and_the_verdict(self):
        self.assertRegex(self.page, r"(?m)^single +goodput +[\d.]+ +[\d.]+ +[\d.]+ +Gbit/s")
        self.assertIn(self.results["diagnosis"]["verdict"]["sentence"][:30], self.page.replace("\n", " "))

    def quiet_baseline(self):
        """One in which the machine's own stalls have not made the endpoint send hundreds of packets again."""
        file = self.folder / "baseline.json"
        for _ in range(6):
            single = json.loads(file.read_text())["tests"][0]
            if counters_of(single).get((self.fabric.names[1], "retransmits"), 0) < 120:
                return file
            file = self.folder / "again.json"
            suite(self.fabric, 2, *QUICK, "--tests", "single", "--repeat", 2, "-o", file)
        raise AssertionError("this machine is too busy for a baseline")

    def test_a_lossy_network_is_told_from_the_baseline(self):
        page = suite(self.fabric, 2, *QUICK, "--tests", "single", "--repeat", 2, "--baseline", self.quiet_baseline(), "-o",
                     self.folder / "lossy.json", prefix=f"{MROCE} run --loss 1 --")
        results = json.loads((self.folder / "lossy.json").read_text())
        comparison = results["comparison"]
        shifts = {(shift["host"], shift["counter"]): shift for shift in comparison["counters"]}
        retransmits = shifts[self.fabric.names[1], "retransmits"]
        self.assertGreater(retransmits["now_per_gib"], 2 * retransmits["before_per_gib"])
        self.assertTrue(shifts[self.fabric.names[1], "impairment_drop"]["new"])
        self.assertRegex(page, r"(?m)^retransmits +")
        self.assertIn("suite: prefix: ", page)
        goodput = next(each for each in comparison["metrics"] if each["metric"] == "goodput")
        self.assertEqual(goodput["change"] != "same", abs(goodput["relative"]) > goodput["threshold"])

    def test_nothing_changed_without_a_reason(self):
        page = suite(self.fabric, 3, *QUICK, "--tests", "multi", "--repeat", 2, "--baseline",
                     self.folder / "baseline.json", "--json")
        comparison = json.loads(page)["comparison"]
        self.assertEqual([shift["name"] for shift in comparison["settings"]], ["tests"])
        self.assertNotIn("impairment_drop", [shift["counter"] for shift in comparison["counters"]])

    def test_a_dry_run_shows_commands_that_work(self):
        text = suite(self.fabric, 2, "--dry-run", "--tests", "multi,incast", "--device", "mroce0@1", *QUICK, status=(0,))
        lines = text.splitlines()
        self.assertEqual(lines[0], "# multi")
        self.assertEqual(lines[-1], "# incast: skipped, N:1 takes three hosts or more")
        self.assertEqual(sum("doctor snapshot" in line for line in lines), 4)
        server, client = [line for line in lines if "ib_write_bw" in line]
        receiver = subprocess.Popen(server, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                    env=environment())
        try:
            port = int(re.search(r"-p (\d+)", server)[1])
            wait_until(lambda: f":{port} " in subprocess.check_output(
                ["ip", "netns", "exec", self.fabric.names[0], "ss", "-ltn"], text=True), "the server listens")
            out = subprocess.run(client, shell=True, capture_output=True, text=True, timeout=60, check=True,
                                 env=environment()).stdout
            self.assertIn("BW average", out)
            self.assertEqual(receiver.wait(60), 0)
        finally:
            receiver.kill()
            receiver.wait()

    def test_a_device_that_is_not_there_is_a_failure_with_its_reason(self):
        page = suite(self.fabric, 2, "--tests", "multi", "--device", "mlx9_9", *QUICK, status=(1,))
        self.assertRegex(page, r"multi: failed, bandwidth: the server on \S+ ended with 1 before it listened: .*mlx9_9|"
                               r"multi: failed, bandwidth: the server on \S+ ended with 1 before it listened: .*device")

    def test_without_mroce_on_the_hosts_figures_remain(self):
        page = suite(self.fabric, 2, "--tests", "multi", "--mroce", "/nowhere/mroce", "--device", "mroce0@1", *QUICK,
                     "--repeat", 1)
        self.assertRegex(page, r"(?m)^multi +goodput +[\d.]+")
        self.assertIn(f"{self.fabric.names[0]} gives no snapshots: ended with 127", page)

    def test_a_launcher_like_ssh_hands_over_one_line_for_a_shell(self):
        with scratch_folder() as folder:
            # As sshd does: what it gets is given to the user's shell, with the words joined.
            (folder / "ssh").write_text('#!/bin/sh\nname="$1"; shift\nexec ip netns exec "$name" sh -c "$*"\n')
            (folder / "ssh").chmod(0o755)
            (folder / "a prefix").write_text('#!/bin/sh\nshift\nexec "$@"\n')
            (folder / "a prefix").chmod(0o755)
            page = suite(self.fabric, 2, "--tests", "multi", "--repeat", 1, *QUICK, launcher=f"{folder}/ssh {{host}}",
                         prefix=f"'{folder}/a prefix' '$HOME; false' {MROCE} run --")
        self.assertRegex(page, r"(?m)^multi +goodput +[\d.]+")

    def test_a_collective_of_one_s_own_is_read(self):
        with scratch_folder() as folder:
            (folder / "table").write_text("# OSU MPI Allreduce Latency Test\n# Size       Avg Latency(us)\n8  1.5\n64  7.25\n")
            results = json.loads(suite(self.fabric, 2, "--tests", "collective", "--repeat", 2, "--json", "--collective",
                                       f"cat {folder}/table"))
        self.assertEqual(metrics_of(results)["collective", "collective_latency"]["values"], [7.25, 7.25])

    def test_an_interrupt_ends_all_that_was_started(self):
        with subprocess.Popen(command(self.fabric, 2, "--tests", "single", "--seconds", 50, "--limit", 100),
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()) as running:
            try:
                wait_until(lambda: self.client_runs(running), "the client runs")
                running.send_signal(signal.SIGINT)
                self.assertEqual(running.wait(30), 128 + signal.SIGINT)
                self.assertIn("interrupted", running.stderr.read())
            finally:
                running.kill()

    def client_runs(self, running):
        self.assertIsNone(running.poll())
        for pid in ip("netns", "pids", self.fabric.names[1]).split():
            try:
                if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "ib_write_bw":
                    return True
            except OSError:
                continue
        return False


class Usage(unittest.TestCase):
    def test_what_makes_no_sense_is_refused(self):
        for words in (("--hosts", "A"), ("--hosts", "A,-oProxyCommand=id"), ("--hosts", "A,B", "--tests", "singel"),
                      ("--hosts", "A,B", "--prefix", "'"), ("--hosts", "A,B", "--device", "mlx5_0@x"),
                      ("--hosts", "A,B", "--seconds", "60", "--limit", "60")):
            result = subprocess.run([MROCE, "doctor", "suite", *words, "--dry-run"], capture_output=True, text=True,
                                    check=False, env=environment())
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(words[-2], result.stderr)

    def test_over_ssh_the_command_is_one_quoted_word(self):
        text = subprocess.check_output([MROCE, "doctor", "suite", "--hosts", "A,B", "--tests", "single", "--prefix",
                                        "taskset -c '0 1'", "--dry-run"], text=True, env=environment())
        self.assertIn("ssh A 'timeout -k 2 60 taskset -c '\\''0 1'\\'' ib_write_bw ", text)


if __name__ == "__main__":
    unittest.main()
