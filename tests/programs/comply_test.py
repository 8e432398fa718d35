"""mroce comply: the suite against our own engine, in virtual time and over UDP, and against targets that are none."""

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree

from support import MROCE, environment

ROOT = pathlib.Path(__file__).resolve().parents[2]


def comply(*words, timeout=150):
    return subprocess.run([MROCE, "comply", *words], capture_output=True, text=True, timeout=timeout, env=environment(),
                          check=False)


def results_of(run, statuses=(0, 1)):
    if run.returncode not in statuses:
        raise AssertionError(f"status {run.returncode}: {run.stderr}")
    return json.loads(run.stdout)


@contextlib.contextmanager
def tcp_server(serve):
    """A port of loopback whose connections `serve` gets, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def run():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        serve(connection)
        threading.Thread(target=run, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def hello_line(features=()):
    return json.dumps({"ok": True, "protocol": 1, "implementation": "a fake", "features": list(features)}).encode() + b"\n"


class Suite(unittest.TestCase):
    def all_pass(self, *words, seconds, least):
        began = time.monotonic()
        run = comply(*words, "--json")
        report = results_of(run)
        bad = [(a["id"], a["reason"]) for a in report["assertions"] if a["result"] == "fail"]
        self.assertEqual(bad, [])
        self.assertEqual(run.returncode, 0)
        self.assertGreaterEqual(report["summary"]["pass"], least)
        self.assertLess(time.monotonic() - began, seconds)
        return report

    def test_core_passes_all(self):
        report = self.all_pass("--strict", seconds=30, least=240)
        self.assertEqual(report["schema"], "mroce-comply-1")
        self.assertEqual(report["target"], "core")
        self.assertEqual(report["summary"]["skip"], 0)

    def test_udp_passes_what_it_has(self):
        self.all_pass("--udp", seconds=90, least=200)

    def test_every_assertion_quotes_a_rule_that_exists(self):
        rules = {rule["id"]: rule for rule in json.loads(subprocess.check_output(
            [sys.executable, ROOT / "tests" / "docs" / "spec_rules.py", "--json"]))}
        listed = json.loads(comply("--list", "--json").stdout)["assertions"]
        self.assertGreaterEqual(len(listed), 80)
        self.assertEqual(len({a["id"] for a in listed}), len(listed))
        for assertion in listed:
            rule = rules[assertion["rule"]]
            self.assertGreater(len(assertion["sentence"]), 12, assertion["id"])
            self.assertIn(assertion["sentence"], rule["sentence"], assertion["id"])
            self.assertEqual(assertion["level"], rule["level"].split()[0], assertion["id"])
            self.assertEqual(assertion["section"], rule["section"], assertion["id"])

    def test_the_list_as_text_counts_itself(self):
        run = comply("--list", "--section", "5.3")
        count = int(re.search(r"(\d+) assertions", run.stdout).group(1))
        self.assertEqual(run.stdout.count("§5.3-"), count)
        self.assertGreater(count, 3)

    def test_the_whole_list_ends_with_how_many_rules_it_covers(self):
        rules = json.loads(subprocess.check_output([sys.executable, ROOT / "tests" / "docs" / "spec_rules.py", "--json"]))
        listed = json.loads(comply("--list", "--json").stdout)["assertions"]
        last = comply("--list").stdout.splitlines()[-1]
        words = [f"{len(listed)} assertions of"]
        for level in ("MUST", "SHOULD"):
            covered = len({a["rule"] for a in listed if a["level"] == level})
            words.append(f"{covered} of the {sum(each['level'].startswith(level) for each in rules)} {level} rules")
        words.append(f"{sum('virtual time' in a['needs'] for a in listed)} need virtual time")
        for each in words:
            self.assertIn(each, last)

    def test_output_that_cannot_be_written_is_a_failure_of_the_environment(self):
        for words in (["comply", "--list"], ["comply", "--section", "5.3"], ["comply", "--section", "5.3", "--json"], ["--help"],
                      ["soak", "--runs", "1"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                run = subprocess.run([MROCE, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                                     env=environment(), check=False)
            self.assertEqual(run.returncode, 3, (words, run.stderr))
            self.assertIn("cannot write", run.stderr, words)
            self.assertNotIn("bug", run.stderr, words)

    def test_what_makes_no_sense_together_is_refused(self):
        for words in (["--seed", "-1"], ["--seed", "18446744073709551616"], ["--seed", "1x"], ["--from", "127.0.0.1"],
                      ["--udp", "--serve", "127.0.0.1:0"], ["--json", "-", "--junit", "-"]):
            run = comply(*words)
            self.assertEqual(run.returncode, 2, words)
            self.assertIn(";", run.stderr, words)  # a cause and a hint
        self.assertEqual(comply("--seed", "18446744073709551615", "--section", "5.3").returncode, 0)

    def test_an_address_that_the_tester_does_not_have_is_named(self):
        run = comply("--udp", "--from", "198.51.100.7")
        self.assertEqual(run.returncode, 3)
        self.assertIn("198.51.100.7: Cannot assign requested address", run.stderr)
        self.assertIn("--from", run.stderr)

    def test_selections_and_their_errors(self):
        report = results_of(comply("--section", "5.3", "--json"))
        self.assertEqual({a["section"] for a in report["assertions"]}, {"5.3"})
        name = report["assertions"][0]["id"]
        self.assertEqual([a["id"] for a in results_of(comply("--only", name, "--json"))["assertions"]], [name])
        for words in (["--section", "99"], ["--only", "5.3/nothing"], ["--udp", "--target", "127.0.0.1:1"],
                      ["--target", "nowhere"], ["--serve", "here"], ["--from", "x", "--udp"]):
            run = comply(*words)
            self.assertEqual(run.returncode, 2, words)
            self.assertTrue(run.stderr.strip(), words)

    def test_files_of_packets_and_junit(self):
        with tempfile.TemporaryDirectory() as folder:
            run = comply("--section", "5.3", "--pcapng", folder, "--junit", f"{folder}/junit.xml")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("passed", run.stdout)
            suite = xml.etree.ElementTree.parse(f"{folder}/junit.xml").getroot()
            captures = sorted(pathlib.Path(folder).glob("*.pcapng"))
            self.assertEqual(len(captures), int(suite.get("tests")))
            for capture in captures:
                self.assertEqual(capture.read_bytes()[:4], b"\x0a\x0d\x0d\x0a")


STARTED = {"ok": True, "address": "127.0.0.1", "port": 61440 + 200, "slot": 200, "planes": 1, "mr": 1, "addr": "0x1000", "rkey": 1,
           "qp": 1, "qpn": 200 << 16 | 16, "state": "rts", "completions": []}


def false_target(answers):
    """A target on loopback without packets: `answers` gives the answer to a command."""
    def serve(connection):
        for line in connection.makefile("rb"):
            command = json.loads(line)["cmd"]
            connection.sendall(json.dumps(answers(command)).encode() + b"\n")
    return tcp_server(serve)


def hello_then(answer):
    return lambda command: json.loads(hello_line()) if command == "hello" else answer


class ForeignTargets(unittest.TestCase):
    def check_not_run(self, answers, *words):
        """Exit status 3 with `words` as the reason, and no assertion that failed or passed."""
        with false_target(answers) as address:
            run = comply("--target", address, "--json", timeout=60)
        summary = results_of(run, (3,))["summary"]
        self.assertEqual((summary["pass"], summary["fail"]), (0, 0))
        for each in words:
            self.assertIn(each, run.stderr)

    def test_a_target_without_the_mandatory_commands_is_not_tested(self):
        unsupported = {"ok": False, "error": "no such thing", "unsupported": True}
        self.check_not_run(hello_then(unsupported), "start, which is mandatory", "no such thing")
        self.check_not_run(lambda command: unsupported if command in ("create_qp", "create_mr") else
                           json.loads(hello_line()) if command == "hello" else STARTED, "mandatory")

    def test_only_skips_are_no_success(self):
        with false_target(hello_then(STARTED)) as address:
            run = comply("--target", address, "--section", "10.3", "--json", timeout=60)
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertIn("nothing was tested", run.stderr)

    def test_the_answer_to_start_is_checked_member_by_member(self):
        for member, value in (("address", "nowhere"), ("address", "::1"), ("port", 70000), ("port", 0), ("slot", 256),
                              ("planes", 0), ("planes", "one")):
            self.check_not_run(hello_then(STARTED | {member: value}), f"`{member}`")
        self.check_not_run(hello_then(STARTED | {"port": 100}), "`slot`")

    def test_the_answer_to_hello_is_checked_member_by_member(self):
        for member, value in (("protocol", 2), ("protocol", None), ("features", "read")):
            with false_target(lambda _, change={member: value}: json.loads(hello_line()) | change) as address:
                run = comply("--target", address, timeout=30)
            self.assertEqual(run.returncode, 3)
            self.assertIn(f"`{member}`", run.stderr)

    def test_our_own_server_is_a_target(self):
        with subprocess.Popen([MROCE, "comply", "--serve", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True,
                              env=environment()) as server:
            try:
                port = re.search(r"port (\d+)", server.stdout.readline()).group(1)
                report = results_of(comply("--target", f"127.0.0.1:{port}", "--section", "9", "--json"))
                self.assertEqual(report["summary"]["fail"], 0)
                self.assertGreater(report["summary"]["pass"], 40)
            finally:
                server.kill()

    def test_nobody_there(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        run = comply("--target", f"127.0.0.1:{port}")
        self.assertEqual(run.returncode, 3)
        self.assertIn("cannot connect", run.stderr)

    def test_garbage_at_once(self):
        for garbage in (b"SSH-2.0-whatever\r\n", b"[" * 60000 + b"\n", b"\x00\xff\n", b"a" * 200000, b"{}\n", b""):
            with tcp_server(lambda connection, garbage=garbage: connection.sendall(garbage)) as address:
                run = comply("--target", address, timeout=30)
            self.assertEqual(run.returncode, 3, garbage[:20])
            self.assertTrue(run.stderr.strip())

    def test_a_target_that_stops_half_way(self):
        def serve(connection):
            stream = connection.makefile("rb")
            stream.readline()
            connection.sendall(hello_line())
            stream.readline()  # start: no answer, the connection ends

        with tcp_server(serve) as address:
            run = comply("--target", address, "--json", timeout=60)
        report = results_of(run, (3,))
        self.assertEqual((report["summary"]["pass"], report["summary"]["fail"]), (0, 0))
        self.assertTrue(all(a["reason"] for a in report["assertions"]))
        self.assertIn("not run: start: the control connection ended", {a["reason"] for a in report["assertions"]})

    def test_a_target_without_packets(self):
        """Answers every command, and never sends a datagram: after three assertions the rest is not run."""
        with false_target(hello_then(STARTED)) as address, tempfile.TemporaryDirectory() as folder:
            run = comply("--target", address, "--section", "5.3", "--json", "--junit", f"{folder}/junit.xml", timeout=60)
            suite = xml.etree.ElementTree.parse(f"{folder}/junit.xml").getroot()
        report = results_of(run, (3,))
        self.assertEqual(report["summary"]["pass"], 0)
        self.assertEqual(report["summary"]["fail"], 3)
        self.assertEqual(int(suite.get("errors")), report["summary"]["skip"])
        self.assertIn("INIT_ACK did not come", {a["reason"] for a in report["assertions"]})
        self.assertIn("not one datagram of the target came", run.stderr)


if __name__ == "__main__":
    unittest.main()
