"""mroce soak: how it ends when it is stopped, not listened to, or given a command line that makes no sense."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

from support import MROCE, PATIENCE, environment

SMALL = ["--set", "operations=10", "--set", "bytes=100000", "--set", "links=2"]


def soak(*words, **options):
    return subprocess.run([MROCE, "soak", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE,
                          env=environment(), check=False, **options)


def children_of(pid):
    """The processes that it has started, by way of any of its threads."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Stopped(unittest.TestCase):
    """A run that takes minutes, stopped once it has begun."""

    ENDLESS = ["--set", "links=64", "--set", "operations=10000", "--set", "bytes=1000000000"]

    def stop(self, number, *words, whole_group=False):
        process = subprocess.Popen([MROCE, "soak", "--seed", "1", "--seconds", "600", *words], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True)
        self.addCleanup(process.kill)
        children = []
        while not children:
            self.assertIsNone(process.poll(), "it ended before it was stopped")
            children = children_of(process.pid)
        if whole_group:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        out, error = process.communicate(timeout=PATIENCE)
        for child in children:
            self.assertFalse(runs(child), "a run goes on without its parent")
        return process.returncode, out, error

    def test_by_ctrl_c_or_term_it_tells_what_it_has(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            for whole_group in (False, True):  # a terminal sends Ctrl-C to all processes
                with self.subTest(signal=number, whole_group=whole_group):
                    status, out, error = self.stop(number, *self.ENDLESS, whole_group=whole_group)
                    self.assertEqual(status, 128 + number)
                    self.assertIn("stopped before the end", out)
                    self.assertIn("no run of seed 1 has ended", out)
                    self.assertEqual(error, "")

    def test_with_json_it_prints_that(self):
        status, out, error = self.stop(signal.SIGTERM, "--json", *self.ENDLESS)
        told = json.loads(out)
        self.assertEqual((status, told["stopped"], told["runs"], told["violations"], error), (143, True, 0, [], ""))

    def test_what_was_done_before_is_in_the_summary(self):
        process = subprocess.Popen([MROCE, "soak", "--seed", "1", "--seconds", "600", "--verbose", *SMALL], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        self.addCleanup(process.kill)
        for line in process.stdout:
            if line.startswith("seed 2:"):
                break
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, error), (130, ""))
        self.assertIn("stopped before the end", out)
        self.assertRegex(out, r"seeds 1 to \d+: \d+ runs")

    def test_a_killed_one_leaves_no_run_behind(self):
        process = subprocess.Popen([MROCE, "soak", *self.ENDLESS], stdout=subprocess.DEVNULL, env=environment())
        self.addCleanup(process.kill)
        children = []
        while not children:
            children = children_of(process.pid)
        process.kill()
        process.wait()
        while any(runs(child) for child in children):  # the test's time limit is that of this loop
            pass


class Unheard(unittest.TestCase):
    def test_when_the_reader_has_gone_it_ends_quietly(self):
        for words in (["--verbose"], ["--packets"], ["--verbose", "--same-process"]):
            with self.subTest(words):
                process = subprocess.Popen([MROCE, "soak", "--runs", "2", *words], stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, env=environment())
                self.addCleanup(process.kill)
                process.stdout.readline()
                process.stdout.close()
                error = process.stderr.read()
                self.assertEqual((process.wait(PATIENCE), error), (-signal.SIGPIPE, b""))
                process.stderr.close()


class CommandLine(unittest.TestCase):
    def refused(self, *words):
        done = soak(*words)
        self.assertEqual((done.returncode, done.stdout), (2, ""), words)
        return done.stderr

    def test_a_time_that_is_no_number_is_refused_with_the_range(self):
        for bad in ("nan", "-nan", "inf", "0", "-1", "1e10"):
            self.assertIn("is not a number from 0.001 to 1000000000", self.refused(f"--seconds={bad}"))

    def test_other_verbs_refuse_it_too(self):
        for words in (["doctor", "run", "--interval=nan", "--", "true"], ["doctor", "snapshot", "--limit=nan"],
                      ["doctor", "export", "--once", "--interval=nan"], ["doctor", "analyze", "--seconds=nan", "x"]):
            done = subprocess.run([MROCE, *words], capture_output=True, text=True, timeout=PATIENCE, env=environment(),
                                  check=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("is not a number from", done.stderr)

    def test_a_setting_is_explained_when_it_is_refused(self):
        self.assertIn('"2" is no value for loss, which is a number from 0 to 0.9', self.refused("--set", "loss=2"))
        self.assertIn("\"loss\" has no '=': write NAME=VALUE", self.refused("--set", "loss"))
        self.assertIn("loss is set twice", self.refused("--set", "loss=0.1", "--set", "loss=0.2"))

    def test_a_hash_without_letters_is_one_if_it_is_said_so(self):
        first = lambda *words: json.loads(soak("--runs", "1", "--json", *SMALL, *words).stdout)["seed"]
        self.assertEqual(first("--seed", "1234567"), 1234567)
        self.assertEqual(first("--commit", "1234567"), 0x1234567)
        self.assertIn("--commit", self.refused("--commit", "123456"))
        self.assertIn("--commit", self.refused("--commit", "1234567", "--seed", "1"))


if __name__ == "__main__":
    unittest.main()
