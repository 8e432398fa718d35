"""mroce run: exit status, signals, environment, the view of devices, as root and as an ordinary user."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import support
from support import MROCE, environment

VIEW_SCRIPT = """
set -e
cat /sys/class/infiniband/mroce0/node_type /sys/class/infiniband/mroce0/ports/1/state
cat /sys/class/infiniband/mroce0/ports/1/gid_attrs/types/0 /sys/class/infiniband_verbs/uverbs0/ibdev
for d in uverbs0 mroce0; do test -c /dev/infiniband/$d -a -r /dev/infiniband/$d -a -w /dev/infiniband/$d; done
test ! -e /dev/infiniband/rdma_cm
test -e /sys/class/net/lo/mtu -a -c /dev/null -a -d /dev/pts -a -e /dev/ptmx
echo x > /dev/null
id -u
"""


def run(*words, **more):
    more.setdefault("env", environment())
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False, **more)


LUA = pathlib.Path(__file__).resolve().parents[2] / "tools/wireshark/mroce.lua"


@unittest.skipUnless(shutil.which("tshark"), "no tshark on this host")
class Trace(unittest.TestCase):
    def test_datagrams_stand_in_the_order_of_their_sending_with_the_dropped_ones_among_them(self):
        check = support.library_folder() / "../verbs/verbs_check"
        data = dropped = 0
        with support.scratch_folder() as folder:
            done = run(MROCE, "run", "--loss", "5", "--set", "addresses=127.0.0.1", "--trace", folder / "%p.pcapng", "--",
                       check, "--case", "write", "--seed", "1", "--iterations", "1")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for capture in folder.glob("*.pcapng"):
                columns = ("frame.time_epoch", "frame.packet_flags_direction", "frame.comment", "mroce.late", "mroce.missing")
                shown = run("tshark", "-X", f"lua_script:{LUA}", "-r", capture, "-Y", "mroce.type == 4", "-T", "fields",
                            *(word for column in columns for word in ("-e", column)))
                self.assertEqual(shown.returncode, 0, shown.stderr)
                rows = [line.split("\t") for line in shown.stdout.splitlines()]
                times = [row[0] for row in rows]
                self.assertEqual(times, sorted(times))
                sent = [row for row in rows if row[1] == "0x00000002"]
                self.assertEqual([row for row in sent if row[3] or row[4]], [], "no datagram overtook another, none is missing")
                data += len(sent)
                dropped += sum(row[2] == "dropped by impairment" for row in sent)
        self.assertGreater(dropped, 10)
        self.assertGreater(data, 10 * dropped)


class ExitStatus(unittest.TestCase):
    def test_the_status_of_the_program_is_passed_on(self):
        for status in (0, 1, 7, 255):
            self.assertEqual(run(MROCE, "run", "--", "sh", "-c", f"exit {status}").returncode, status)

    def test_death_by_signal_n_is_128_plus_n(self):
        self.assertEqual(run(MROCE, "run", "--", "sh", "-c", "kill -11 $$").returncode, 128 + 11)

    def test_a_missing_program_is_127_and_one_that_cannot_run_126(self):
        missing = run(MROCE, "run", "--", "mroce-no-such-program")
        self.assertEqual(missing.returncode, 127)
        self.assertIn("mroce-no-such-program", missing.stderr)
        self.assertEqual(len(missing.stderr.splitlines()), 1)
        self.assertEqual(run(MROCE, "run", "--", "/etc/passwd").returncode, 126)

    def test_usage_errors_are_2_and_name_cause_and_hint(self):
        for words in (["run"], ["run", "--no-such-option", "--", "true"], ["run", "--loss", "x", "--", "true"],
                      ["run", "--set", "paths", "--", "true"], ["run", "--set", "no_such=1", "--", "true"], ["nonsense"], []):
            result = run(MROCE, *words)
            self.assertEqual(result.returncode, 2, (words, result.stderr))
            self.assertEqual(len(result.stderr.splitlines()), 1, (words, result.stderr))
            self.assertEqual(result.stdout, "")

    def refused(self, *words, status=2):
        """The one line on standard error."""
        result = run(MROCE, *words)
        self.assertEqual((result.returncode, result.stdout), (status, ""), (words, result.stderr))
        self.assertEqual(len(result.stderr.splitlines()), 1, (words, result.stderr))
        return result.stderr.strip()

    def test_senseless_values_are_refused_with_cause_and_hint(self):
        for words, cause in ((["--loss", ""], "--loss: its value is empty"), (["--paths", ""], "--paths: its value is empty"),
                             (["--json", ""], "--json: its value is empty"), (["--trace", ""], "--trace: its value is empty"),
                             (["--impair", ""], "--impair: its value is empty"), (["--impair", ";"], "no clause"),
                             (["--loss", "1%%"], "--loss 1%%: not a percentage"), (["--impair", "loss=1%,path=40"], "0 to 31"),
                             (["--impair", "loss=1%,loss=90%"], "stands twice"),
                             (["--impair", "rate=1G queue=1M"], "separate items by commas: rate=1G,queue=1M"),
                             (["--set", "addresses=127.0.0.1,127.0.0.1"], "named twice"),
                             (["--set", "foo=1"], "no setting 'foo'; `mroce run --help` lists them"),
                             (["--set", "loss=1"], "write impair=loss=1%")):
            self.assertIn(cause, self.refused("run", *words, "--", "true"), words)

    def test_a_verb_that_there_is_not_is_named(self):
        self.assertEqual(self.refused("foo"), "mroce: there is no verb 'foo'; mroce --help lists them")
        self.assertIn("did you mean mroce soak?", self.refused("soal"))
        self.assertEqual(self.refused("run"), "mroce: which program? write mroce run -- PROGRAM ARGUMENTS, see mroce run --help")

    def test_files_that_cannot_be_written_are_found_out_before_the_program_runs(self):
        with support.scratch_folder() as folder:
            line = self.refused("run", "--json", "/nonexistent/x", "--", "touch", folder / "ran", status=3)
            self.assertIn("cannot write /nonexistent/x", line)
            self.assertEqual(list(folder.iterdir()), [])

    def test_help_ends_in_three_examples(self):
        for verb in ([], ["run"], ["info"], ["demo"], ["bench"], ["bench", "endpoint"]):
            result = run(MROCE, *verb, "--help")
            self.assertEqual(result.returncode, 0, result.stderr)
            lines = result.stdout.rstrip().splitlines()
            self.assertEqual(lines[-4], "Examples:", verb)


class ClosedStreams(unittest.TestCase):
    """Nobody listens, or the disk is full: the exit status is what it would have been, and nothing else is written to."""

    def test_a_closed_or_full_standard_error_ends_nothing(self):
        for stderr in ("2>&-", "2>/dev/full"):
            for words, status in (("run --stats -- true", 0), ("sim --fabric foo", 2), ("nonsense", 2), ("soak --runs 0", 2),
                                  ("run -- /etc/passwd", 126), ("doctor analyze /nonexistent", 5)):
                result = run("sh", "-c", f"exec {MROCE} {words} {stderr}")
                self.assertEqual(result.returncode, status, (words, stderr, result.stderr))

    def test_both_closed_is_an_error_of_the_output(self):
        self.assertEqual(run("sh", "-c", f"exec {MROCE} info >&- 2>&-").returncode, 3)

    def test_what_is_meant_for_a_closed_stream_does_not_go_into_a_file(self):
        with support.scratch_folder() as folder:
            for redirection in ("<&- >&- 2>&-", "2>&-"):
                run("sh", "-c", f"exec {MROCE} run --stats --json out.json -- true {redirection}", cwd=folder)
                self.assertEqual(json.loads((folder / "out.json").read_text()), [])

    def test_the_program_finds_closed_what_its_user_has_closed(self):
        for redirection, expected in (("", "0 1 2"), ("2>&-", "0 1"), ("<&-", "1 2")):
            script = "for fd in 0 1 2; do test -e /proc/$$/fd/$fd && printf '%s ' $fd; done; true"
            result = run("sh", "-c", f'exec "$0" run --no-view -- sh -c "$1" {redirection}', MROCE, script)
            self.assertEqual(result.stdout.strip(), expected)


class Signals(unittest.TestCase):
    def test_signals_reach_the_program(self):
        script = ("import signal, sys\n"
                  "caught = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}\n"
                  "signal.pthread_sigmask(signal.SIG_BLOCK, caught)\n"
                  "print('ready', flush=True)\n"
                  "sys.exit(100 + signal.sigwait(caught))\n")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            with subprocess.Popen([MROCE, "run", "--", sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                                  env=environment()) as process:
                self.assertEqual(process.stdout.readline(), "ready\n")
                process.send_signal(number)
                self.assertEqual(process.wait(30), 100 + number)

    def test_the_program_does_not_outlive_a_killed_launcher(self):
        with subprocess.Popen([MROCE, "run", "--", "sh", "-c", "echo ready; exec cat"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, env=environment()) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            program = support.children(process.pid)[0]
            process.kill()
            process.wait()
            support.wait_until(lambda: not pathlib.Path(f"/proc/{program}/exe").exists(), "the end of the program")

    def test_standard_input_belongs_to_the_program(self):
        result = subprocess.run([MROCE, "run", "--", "cat"], input="hello", capture_output=True, text=True, timeout=60,
                                env=environment(), check=True)
        self.assertEqual(result.stdout, "hello")


class Environment(unittest.TestCase):
    def test_our_library_comes_before_what_is_set_already(self):
        result = run(MROCE, "run", "--", "sh", "-c", "echo $LD_LIBRARY_PATH", env=environment(LD_LIBRARY_PATH="/elsewhere"))
        self.assertEqual(result.stdout.strip(), f"{support.library_folder()}:/elsewhere")

    def test_flags_become_settings(self):
        result = run(MROCE, "run", "--paths", "2", "--planes", "3", "--loss", "1.5", "--set", "window=2M", "--", "env")
        for line in ("MROCE_PATHS=2", "MROCE_PLANES=3", "MROCE_IMPAIR=loss=1.5%", "MROCE_WINDOW=2M"):
            self.assertIn(line, result.stdout.splitlines())

    def test_the_trace_file_does_not_depend_on_where_the_program_goes(self):
        result = run(MROCE, "run", "--trace", "t.pcapng", "--", "env", cwd="/")
        self.assertIn("MROCE_TRACE=/t.pcapng", result.stdout.splitlines())

    def test_statistics_of_a_program_without_a_device_are_an_empty_list(self):
        with support.scratch_folder() as folder:
            result = run(MROCE, "run", "--stats", "--json", folder / "out.json", "--", "true",
                         env=environment(TMPDIR=str(folder)))
            self.assertEqual(result.returncode, 0)
            self.assertEqual(json.loads((folder / "out.json").read_text()), [])
            self.assertIn("no statistics", result.stderr)
            self.assertEqual([entry.name for entry in folder.iterdir()], ["out.json"], "something was left behind")

    def test_a_loss_with_and_without_its_sign_is_the_same(self):
        for loss in ("1", "1%"):
            self.assertIn("MROCE_IMPAIR=loss=1%", run(MROCE, "run", "--loss", loss, "--", "env").stdout.splitlines())

    def test_a_program_without_statistics_leaves_an_empty_list_and_a_sentence(self):
        with support.scratch_folder() as folder:
            result = run(MROCE, "run", "--json", folder / "out.json", "--", "sh", "-c", "kill -INT $$")
            self.assertEqual(result.returncode, 128 + signal.SIGINT)
            self.assertEqual(json.loads((folder / "out.json").read_text()), [])
            self.assertEqual(len(result.stderr.splitlines()), 1)
            self.assertIn("no statistics: the program used no mroce device, or a signal ended it", result.stderr)

    def test_a_trace_that_the_disk_does_not_take_is_reported_once_and_in_the_statistics(self):
        check = support.library_folder() / "../verbs/verbs_check"
        with support.scratch_folder() as folder:
            result = run(MROCE, "run", "--set", "addresses=127.0.0.1", "--trace", "/dev/full", "--stats", "--json",
                         folder / "out.json", "--", check, "--case", "write", "--seed", "1", "--iterations", "1")
            self.assertEqual(result.returncode, 0, result.stderr)
            processes = json.loads((folder / "out.json").read_text())
            self.assertGreater(len(processes), 1)
            for process in processes:
                trace = process["trace"]
                self.assertEqual((trace["file"], trace["packets"], trace["bytes"]), ("/dev/full", 0, 0))
                self.assertGreater(trace["left_out"], 0)
                self.assertEqual(trace["error"], "cannot write it: No space left on device")
            said = [line for line in result.stderr.splitlines() if line.startswith("mroce: packets are missing in the trace /dev/full")]
            self.assertEqual(len(said), len(processes), result.stderr)
            self.assertIn("packets are missing: cannot write it: No space left on device", result.stderr)

    def test_a_trace_that_is_whole_is_counted_in_the_statistics(self):
        check = support.library_folder() / "../verbs/verbs_check"
        with support.scratch_folder() as folder:
            result = run(MROCE, "run", "--set", "addresses=127.0.0.1", "--trace", folder / "%p.pcapng", "--json",
                         folder / "out.json", "--", check, "--case", "write", "--seed", "1", "--iterations", "1")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            for process in json.loads((folder / "out.json").read_text()):
                trace = process["trace"]
                self.assertIsNone(trace["error"])
                self.assertEqual(trace["left_out"], 0)
                self.assertGreater(trace["packets"], 0)
                self.assertEqual(trace["file"], str(folder / f"{process['pid']}.pcapng"))
                self.assertEqual(trace["bytes"], os.stat(trace["file"]).st_size)

    def test_a_folder_that_the_linker_cannot_be_told_of_is_an_error_and_not_a_program_without_a_device(self):
        with support.scratch_folder() as folder:
            (folder / "v1:2").mkdir()
            mroce = support.install_copy(folder / "v1:2")
            result = run(mroce, "run", "--", "ibv_devices")
            self.assertEqual((result.returncode, result.stdout), (3, ""))
            self.assertEqual(len(result.stderr.splitlines()), 1)
            self.assertIn("with ':' in its name", result.stderr)
            info = run(mroce, "info")
            self.assertEqual(info.returncode, 0, info.stderr)
            self.assertRegex(info.stdout, r"verbs library +mroce lies in .*':'")

    def test_the_program_that_lists_devices_loads_our_library(self):
        result = run(MROCE, "run", "--", "ibv_devices")
        self.assertIn("mroce0", result.stdout, result.stderr)


@support.needs_mounts
class View(unittest.TestCase):
    def check(self, mroce, uid, wrap=lambda command: command):
        result = run(*wrap([mroce, "run", "--", "sh", "-c", VIEW_SCRIPT]), cwd="/")
        self.assertEqual(result.stderr, "")
        self.assertEqual(result.stdout.splitlines(), ["1: CA", "4: ACTIVE", "RoCE v2", "mroce0", str(uid)])

    def test_it_is_there_for_root_or_whoever_runs_this(self):
        self.check(MROCE, os.geteuid())

    @unittest.skipUnless(support.is_root(), "becoming somebody else needs root")
    @support.needs_mounts_of_ordinary_users
    def test_it_is_there_for_an_ordinary_user_who_stays_who_he_is(self):
        with support.scratch_folder() as folder:
            mroce = support.install_copy(folder)
            self.check(mroce, 65534, support.as_nobody)
            # Owning files, and nothing more: all capabilities are gone.
            result = run(*support.as_nobody([mroce, "run", "--", "grep", "CapEff", "/proc/self/status"]), cwd="/")
            self.assertEqual(result.stdout.split()[1], "0" * 16)

    def check_connection_manager(self, mroce, wrap=lambda command: command):
        """There is none, and a program that asks for it ends by itself and says so: run() gives up on one that hangs."""
        for program in (["ib_write_bw", "-R", "-x", "0"], ["ib_write_bw", "-R", "-x", "0", "127.0.0.1"]):
            result = run(*wrap([mroce, "run", "--", *program]), cwd="/")
            self.assertGreater(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn("rdma_create_event_channel failed", result.stdout + result.stderr)

    @unittest.skipUnless(shutil.which("ib_write_bw"), "no perftest on this host")
    def test_programs_that_want_a_connection_manager_end_and_say_so(self):
        self.check_connection_manager(MROCE)

    @unittest.skipUnless(shutil.which("ib_write_bw"), "no perftest on this host")
    @unittest.skipUnless(support.is_root(), "becoming somebody else needs root")
    @support.needs_mounts_of_ordinary_users
    def test_programs_of_ordinary_users_that_want_a_connection_manager_end_and_say_so(self):
        with support.scratch_folder() as folder:
            self.check_connection_manager(support.install_copy(folder), support.as_nobody)

    def test_nothing_of_it_is_visible_outside(self):
        before = (set(os.listdir("/dev")), set(os.listdir("/sys/class")), pathlib.Path("/proc/self/mounts").read_text())
        self.check(MROCE, os.geteuid())
        after = (set(os.listdir("/dev")), set(os.listdir("/sys/class")), pathlib.Path("/proc/self/mounts").read_text())
        self.assertEqual(before, after)

    def test_shared_memory_is_the_same_inside_and_outside(self):
        with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="mroce-test-") as file:
            file.write(b"outside")
            file.flush()
            result = run(MROCE, "run", "--", "sh", "-c", f"cat {file.name}; echo inside > {file.name}")
            self.assertEqual(result.stdout, "outside")
            self.assertEqual(pathlib.Path(file.name).read_text(), "inside\n")

    def test_ibstat_sees_an_active_port(self):
        result = run(MROCE, "run", "--", "ibstat")
        self.assertIn("State: Active", result.stdout, result.stderr)
        self.assertIn("Link layer: Ethernet", result.stdout)

    def test_no_view_means_none(self):
        result = run(MROCE, "run", "--no-view", "--", "ls", "/sys/class/infiniband/mroce0")
        self.assertNotEqual(result.returncode, 0)

    @unittest.skipUnless(support.is_root(), "taking a capability away needs root")
    def test_without_the_permission_the_program_runs_all_the_same_and_one_line_says_so(self):
        result = run("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", MROCE, "run", "--", "echo", "ran")
        self.assertEqual((result.returncode, result.stdout), (0, "ran\n"))
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn("/sys/class/infiniband", result.stderr)


if __name__ == "__main__":
    unittest.main()
