"""What `mroce doctor analyze` makes of inputs that are broken, mixed, huge or hostile, and of this very machine's tools.

Each must end with one of the verdicts' exit codes, name what was wrong with file and line, and write nothing.
"""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import time
import unittest

import recorded_tree
from support import MROCE, environment, scratch_folder

VERDICTS = (0, 1, 5, 6)
KIB_OF_MEMORY = 1536 * 1024  # of address space, for any input
BEFORE = "NIC statistics:\n     rx_prio3_pause: 5\n     rx_discards_phy: 100\n     tx_vport_rdma_unicast_bytes: 1000\n"
AFTER = "NIC statistics:\n     rx_prio3_pause: 5\n     rx_discards_phy: 900\n     tx_vport_rdma_unicast_bytes: 9000000\n"


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (KIB_OF_MEMORY * 1024, KIB_OF_MEMORY * 1024))


def analyze(folder, *words, stdin=subprocess.DEVNULL):
    """The diagnosis, of a process that may not use more memory than any input is worth."""
    sanitized = b"__asan_init" in MROCE.read_bytes() or b"__tsan_init" in MROCE.read_bytes()
    result = subprocess.run([MROCE, "doctor", "analyze", *map(str, words or (folder,)), "--json"], capture_output=True, timeout=100,
                            check=False, stdin=stdin, env=environment(), preexec_fn=None if sanitized else limited)
    if result.returncode not in VERDICTS:
        raise AssertionError(f"ended with {result.returncode}: {result.stderr[-2000:]!r}")
    return json.loads(result.stdout.decode("utf-8"))


def files_of(folder):
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in pathlib.Path(folder).rglob("*")}


class Inputs(unittest.TestCase):
    def diagnosis_of(self, **files):
        """Of files with these names ("__" is a dot, "_in_" a slash) and contents."""
        with scratch_folder() as folder:
            for name, content in files.items():
                path = folder / name.replace("__", ".").replace("_in_", "/")
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
            before = files_of(folder)
            diagnosis = analyze(folder)
            self.assertEqual(files_of(folder), before, "something was written")
            return diagnosis

    def assert_problem(self, diagnosis, file, line, *words):
        found = [p for p in diagnosis["problems"] if p["file"].endswith(file) and (line is None or p["line"] == line)]
        self.assertTrue(any(all(word in p["reason"] for word in words) for p in found), diagnosis["problems"])

    def assert_discards_are_seen(self, diagnosis):
        self.assertIn("nic-overflow", {finding["rule"] for finding in diagnosis["findings"]}, diagnosis["problems"])

    def test_utf16_and_line_ends_of_other_systems_are_read_as_if_they_were_plain(self):
        for name, convert in {"UTF-16": lambda t: t.encode("utf-16"), "big": lambda t: b"\xfe\xff" + t.encode("utf-16-be"),
                              "without a mark": lambda t: t.encode("utf-16-le"), "CRLF": lambda t: t.replace("\n", "\r\n").encode(),
                              "UTF-8 with a mark": lambda t: t.encode("utf-8-sig")}.items():
            with self.subTest(name):
                diagnosis = self.diagnosis_of(receiver_in_before__txt=convert(BEFORE), receiver_in_after__txt=convert(AFTER))
                self.assert_discards_are_seen(diagnosis)
                self.assertEqual(diagnosis["problems"], [])

    def test_bytes_that_are_no_text_are_named_and_the_rest_is_read(self):
        zeros = BEFORE.replace("rx_discards", "\0\0rx_discards").encode()
        latin = ("# K\xfchlschrank\n" + AFTER).encode("latin-1")
        diagnosis = self.diagnosis_of(receiver_in_before__txt=zeros, receiver_in_after__txt=latin)
        self.assert_discards_are_seen(diagnosis)
        self.assert_problem(diagnosis, "before.txt", 3, "NUL")
        self.assert_problem(diagnosis, "after.txt", 1, "not UTF-8")

    def test_what_is_cut_off_is_named_where_it_ends(self):
        bundle = json.dumps({"schema": "mroce.doctor.bundle/1", "host": "a", "snapshots": [
            {"phase": "start", "time_ns": 1, "sources": [{"name": "ethtool -S eth0", "text": BEFORE}]}]}, indent=1)
        diagnosis = self.diagnosis_of(a__json=bundle[:bundle.index("rx_discards")], receiver_in_after__txt=AFTER[:-20])
        self.assert_problem(diagnosis, "a.json", bundle[:bundle.index("rx_discards")].count("\n") + 1, "not quite JSON")
        self.assert_problem(diagnosis, "after.txt", 4, "middle of a line")

    def test_empty_and_foreign_files_are_named(self):
        diagnosis = self.diagnosis_of(empty__txt="", blank__txt="\n \n", poem__txt="roses are red\n", picture__png=b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
        self.assertEqual(diagnosis["verdict"]["outcome"], "insufficient-evidence")
        for name, reason in (("empty.txt", "empty"), ("blank.txt", "empty"), ("poem.txt", "nothing in here"), ("picture.png", "NUL")):
            self.assert_problem(diagnosis, name, None, reason)

    def test_files_that_are_none_are_named(self):
        with scratch_folder() as folder:
            os.mkfifo(folder / "fifo")
            (folder / "loop").symlink_to("loop")
            for name, reason in ((folder / "no-such-file", "no such file"), ("/dev/null", "not a file"), (folder / "loop", "no such file")):
                diagnosis = analyze(folder, name)
                self.assert_problem(diagnosis, str(name), None, reason)
            self.assertEqual(analyze(folder, folder)["problems"], [], "a folder's pipes are not opened: nobody may write into them")

    def test_readings_that_deny_each_other_lower_the_confidence_and_say_so(self):
        counters = {"before": "link mlx5_0/1 np_cnp_sent 0 np_ecn_marked_roce_packets 5 packet_seq_err 0\n",
                    "after": "link mlx5_0/1 np_cnp_sent 9000 np_ecn_marked_roce_packets 5 packet_seq_err 0\n"}
        pause = {"before": BEFORE, "after": AFTER.replace("rx_prio3_pause: 5", "rx_prio3_pause: 90000")}
        qos = "PFC configuration:\n\tenabled     0   0   0   0   0   0   0   0   \n"
        diagnosis = self.diagnosis_of(**{f"{host}_in_{phase}__txt": counters[phase] + pause[phase] + qos for host in ("sender", "receiver")
                                         for phase in ("before", "after")})
        because = json.dumps(diagnosis["findings"])
        self.assertIn("contradiction", because)
        for finding in diagnosis["findings"]:
            if "contradiction" in json.dumps(finding):
                self.assertEqual(finding["confidence"], "low", finding)

    def test_one_file_may_hold_everything(self):
        mixed = ("root@receiver:~# ethtool -S eth0\n" + BEFORE + "\nadmin@leaf1:~$ show pfc counters\n"
                 "  Port Rx    PFC0    PFC3\n---------  ------  ------\nEthernet0       0      12\n\n"
                 "nodeB:77:78 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0:10.0.0.1<0>\n"
                 + json.dumps([{"ifname": "mlx5_0", "port": 1, "state": "ACTIVE", "physical_state": "LINK_UP", "netdev": "eth0"}]) +
                 "\n{ \"no\": such thing\n")
        diagnosis = self.diagnosis_of(all__txt=mixed)
        self.assertNotIn("nothing in here", json.dumps(diagnosis["problems"]))
        self.assertNotIn("link-down", json.dumps(diagnosis["findings"]))

    def test_hostile_texts_end_soon(self):
        many = 200_000
        texts = {"nested__json": "[" * many, "objects__json": "{\"a\":" * many, "lines__json": "[ \"x\n" * many, "braces__json": "{a\n" * many,
                 "values__json": "[" + "1," * 4_000_000, "numbers__txt": "link mlx5_0/1 packet_seq_err " + "9" * 100_000 + "\n",
                 "words__txt": "a " * 8_000_000, "newlines__txt": "\n" * 6_000_000, "heads__txt": "NIC statistics:\n" * many,
                 "tables__txt": "Port  PG0  PG1\n----  ---  ---\n" * many, "dcgm__txt": "#Entity GPUTL SMACT\n" * many,
                 "queuing__txt": "Egress Queuing for Ethernet1/1 [System]\n" * many, "cas__txt": "CA 'mlx5_0'\n" * many,
                 "escapes__txt": "\x1b]0;title\x07\x1b[2J\u202egnp.exe\n" * many, "gpus__txt": "GPU[0] : GPU use (%): 5\nx\n" * many,
                 "gids__txt": "".join(f"mlx5_0\t1\t{i}\tfe80::{i}\tv2\teth0\n" for i in range(50_000)),
                 "ports__txt": "".join(f"/sys/class/net/e{i}/mtu:1500\n" for i in range(20_000)),
                 "hosts__txt": "".join(f"h{i % 50_000}: NIC statistics:\n" for i in range(100_000))}
        for name, text in texts.items():
            with self.subTest(name):
                begin = time.monotonic()
                self.diagnosis_of(**{name: text})
                self.assertLess(time.monotonic() - begin, 20)

    def test_a_gibibyte_is_read_as_far_as_the_bound_goes(self):
        with scratch_folder() as folder:
            sparse = folder / "sparse.txt"
            with open(sparse, "wb") as file:
                file.write(BEFORE.encode())
                file.truncate(1 << 30)
            begin = time.monotonic()
            diagnosis = analyze(folder, sparse)
            self.assertLess(time.monotonic() - begin, 30)
            self.assert_problem(diagnosis, "sparse.txt", 0, "longer than 64 MiB")

    @unittest.skipUnless(shutil.which("yes"), "coreutils' yes is not installed")
    def test_a_pipe_that_never_ends_is_read_as_far_as_the_bound_goes(self):
        for line in ("     rx_prio3_pause: 5", "n1: ", "nothing that anybody knows"):
            with self.subTest(line), subprocess.Popen(["yes", line], stdout=subprocess.PIPE) as endless:
                begin = time.monotonic()
                diagnosis = analyze(None, "-", stdin=endless.stdout)
                endless.stdout.close()
                endless.terminate()
                self.assertLess(time.monotonic() - begin, 60)
                self.assert_problem(diagnosis, "-", 0, "longer than 64 MiB")


def output_of(*command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment(LC_ALL="C"))
    return result.stdout + result.stderr


class ThisMachine(unittest.TestCase):
    """No RDMA device is needed: what the tools print without one must be understood, too."""

    def analyze_outputs(self, outputs):
        with scratch_folder() as folder:
            for name, text in outputs.items():
                (folder / name).write_text(text)
            return analyze(folder)

    @unittest.skipUnless(shutil.which("ethtool"), "ethtool is not installed")
    def test_ethtool_s_statistics_of_every_interface_are_understood(self):
        outputs = {f"here-ethtool-{name}.txt": output_of("ethtool", "-S", name) for name in os.listdir("/sys/class/net")}
        self.assertTrue(outputs)
        diagnosis = self.analyze_outputs(outputs)
        for problem in diagnosis["problems"]:
            self.assertNotIn("nothing in here", problem["reason"], (problem, outputs))
        bundle = json.loads(subprocess.check_output([MROCE, "doctor", "snapshot"], env=environment()))
        sources = {source["name"]: source for source in bundle["snapshots"][0]["sources"]}
        for name in os.listdir("/sys/class/net"):
            source = sources.get(f"ethtool -S {name}")
            if source and "text" in source:
                self.assertTrue(source["text"].startswith("NIC statistics:"), source)

    def test_ethtool_s_statistics_of_a_veth_pair_are_understood(self):
        script = "ip link add v0 type veth peer name v1 && ethtool -S v0 && ethtool -S lo"
        result = subprocess.run(["unshare", "-rn", "sh", "-c", script], capture_output=True, text=True, timeout=60, check=False,
                                env=environment(LC_ALL="C", PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")) if shutil.which("unshare") else None
        if result is None or "NIC statistics" not in result.stdout:
            self.skipTest("no veth pair can be made here: " + ("no unshare" if result is None else result.stderr.strip()))
        diagnosis = self.analyze_outputs({"here.txt": result.stdout + result.stderr})
        self.assertNotIn("nothing in here", json.dumps(diagnosis["problems"]))

    @unittest.skipUnless(shutil.which("rdma"), "iproute2's rdma is not installed")
    def test_rdma_s_outputs_and_errors_are_understood(self):
        for command in (("rdma", "link"), ("rdma", "-j", "link", "show"), ("rdma", "statistic"), ("rdma", "-j", "statistic", "show")):
            with self.subTest(command):
                text = output_of(*command)
                diagnosis = self.analyze_outputs({"here.txt": text})
                for problem in diagnosis["problems"]:
                    self.assertNotIn("nothing in here", problem["reason"], text)

    @unittest.skipUnless(shutil.which("ibstat"), "infiniband-diags is not installed")
    def test_ibstat_s_outputs_and_errors_are_understood(self):
        for command in (("ibstat",), ("ibstat", "no_such_device")):
            with self.subTest(command):
                text = output_of(*command)
                diagnosis = self.analyze_outputs({"here.txt": text})
                for problem in diagnosis["problems"]:
                    self.assertNotIn("nothing in here", problem["reason"], text)

    def test_a_snapshot_keeps_what_tools_say_without_a_device(self):
        outputs = {"rdma -j link show": "", "rdma -j statistic show": "Failed to open NETLINK_RDMA socket\n", "ibstat": ""}
        with scratch_folder() as folder:
            tree = recorded_tree.Tree(folder / "tree")
            tree.file("/proc/sys/kernel/hostname", "nodeA")
            for command, text in outputs.items():
                tree.command(command, text)
            subprocess.check_call([MROCE, "doctor", "snapshot", "--root", folder / "tree", "-o", folder / "a.json"], env=environment())
            diagnosis = analyze(folder, folder / "a.json")
        reasons = {problem["source"]: problem["reason"] for problem in diagnosis["problems"]}
        self.assertEqual(reasons["ibstat"], "not collected: empty")
        self.assertIn("RDMA", reasons["rdma -j statistic show"])


if __name__ == "__main__":
    unittest.main()
