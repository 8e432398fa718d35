"""What the program tests share: starting `mroce run`, servers and clients, reading statistics and counting.

No test waits for an amount of time; they wait for a state (a port that listens, a process that ends) and give up, with
an error, after a generous limit.
"""

import contextlib
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

MROCE = pathlib.Path(os.environ["MROCE_BINARY"])
PATIENCE = 120  # seconds until a program that should have ended counts as hanging
ENOUGH_DROPS = 10  # expected ones, from which on a count can be judged: without any once in 22,000 runs
ENOUGH_FOR_SHARES = 400  # packets; four even shares of so many are seven standard deviations above 10 %


def library_folder():
    """The folder of our libibverbs.so.1, as the binary finds it."""
    return pathlib.Path(json.loads(subprocess.check_output([MROCE, "info", "--json"]))["library_folder"])


def is_root():
    return os.geteuid() == 0


def as_nobody(command):
    """The command as an ordinary user; the caller has to be root."""
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", *map(str, command)]


def needs(what, *command):
    """Decorator: skips where the command fails. Containers and plain chroots may not do all that some tests need; with
    MROCE_TEST_COMPLETE set, as in CI, nothing is skipped for that."""
    if os.environ.get("MROCE_TEST_COMPLETE"):
        return lambda test: test
    probe = subprocess.run(command, capture_output=True, text=True, check=False)
    return unittest.skipIf(probe.returncode != 0, f"{what}: {probe.stderr.strip()}")


def needs_network_namespaces(test):
    name = f"mroce-{os.getpid()}-probe"
    return needs("no network namespaces with names can be made here", "sh", "-c",
                 f"ip netns add {name} && ip -n {name} link set lo up; status=$?; ip netns del {name}; exit $status")(test)


def needs_mounts(test):
    return needs("no private mounts can be made here", "unshare", *([] if is_root() else ["-Ur"]), "-m", "true")(test)


def needs_mounts_of_ordinary_users(test):
    return needs("ordinary users may not make mounts here", *(as_nobody(["unshare", "-Urm", "true"])))(test)


def ip(*words):
    return subprocess.run(["ip", *map(str, words)], check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def network_namespaces(*names):
    """Each with its loopback device up. They go, and with them their devices, whatever happens."""
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def environment(**extra):
    """The environment without what could change the outcome."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MROCE_") and k != "LD_LIBRARY_PATH"}
    clean.update(extra)
    return clean


@contextlib.contextmanager
def scratch_folder():
    """A temporary folder that every user may look into."""
    with tempfile.TemporaryDirectory(prefix="mroce-test-") as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


def install_copy(folder):
    """Binary and libraries, copied to where every user may read them, in the layout of an installation."""
    (folder / "bin").mkdir()
    (folder / "lib" / "mroce").mkdir(parents=True)
    shutil.copy2(MROCE, folder / "bin" / "mroce")
    for library in library_folder().glob("lib*.so*"):
        shutil.copy2(library, folder / "lib" / "mroce" / library.name, follow_symlinks=False)
    return folder / "bin" / "mroce"


@contextlib.contextmanager
def user(name):
    """Inside, MROCE is a binary that this user may run. Yields the prefix of a command that runs as "nobody", or, for
    "root", as whoever runs the tests."""
    global MROCE
    if name == "root":
        yield []
        return
    with scratch_folder() as folder:
        ours, MROCE = MROCE, install_copy(folder)
        try:
            yield as_nobody([])
        finally:
            MROCE = ours


def needs_root(test):
    return unittest.skipUnless(is_root(), "becoming somebody else needs root")(test)


def gid_index(address, prefix=()):
    info = json.loads(subprocess.check_output([*prefix, MROCE, "info", "--json"], env=environment()))
    for gid in info["gids"]:
        if gid["address"] == address:
            return gid["index"]
    raise AssertionError(f"{address} is not in the GID table {info['gids']}")


def free_tcp_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def wait_until(condition, what, seconds=30):
    """Polls until the condition holds; the pause only saves processor time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {seconds} s")
        time.sleep(0.01)


def listens(pid, port):
    """Does somebody in the network namespace of process `pid` listen on this TCP port?"""
    for name in ("tcp", "tcp6"):
        try:
            lines = pathlib.Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


def children(pid):
    """All descendants of a process."""
    found = []
    try:
        direct = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return found
    for child in direct:
        found += [int(child), *children(int(child))]
    return found


class Running:
    """One `mroce run` in the background."""

    def __init__(self, program, options=(), prefix=(), folder=None, name="program", env=None):
        self.name = name
        self.log_path = folder / f"{name}.log"
        self.stats_path = folder / f"{name}.json"
        command = [*prefix, MROCE, "run", "--json", self.stats_path, *options, "--", *program]
        self.command = [str(word) for word in command]
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT,
                                            stdin=subprocess.DEVNULL, env=env or environment())

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait(self, seconds=PATIENCE):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise AssertionError(f"{self.name} hangs: {self.command}\n{self.log()}") from error

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def alive(self):
        return self.process.poll() is None

    def stats(self):
        """The statistics of the one process that used the device."""
        everything = json.loads(self.stats_path.read_text())
        if len(everything) != 1:
            raise AssertionError(f"{self.name}: statistics of {len(everything)} processes\n{self.log()}")
        return everything[0]

    def wait_for_listener(self, port):
        def ready():
            if not self.alive():
                raise AssertionError(f"{self.name} ended early: {self.command}\n{self.log()}")
            return listens(self.process.pid, port)
        wait_until(ready, f"{self.name} listening on port {port}")

    def verbs_programs(self):
        """Process id and path of libibverbs, from /proc/PID/maps, of each process that has loaded it."""
        found = {}
        for pid in children(self.process.pid):
            with contextlib.suppress(OSError):
                for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
                    path = line.split(maxsplit=5)[-1]
                    if "libibverbs" in path:
                        found.setdefault(pid, set()).add(path)
        return found

    def wait_for_verbs_programs(self):
        """The kernel's list of children may leave one out while another ends, so that one look is not enough."""
        found = {}

        def ready():
            if not self.alive():
                raise AssertionError(f"{self.name} ended early: {self.command}\n{self.log()}")
            found.update(self.verbs_programs())
            return found
        wait_until(ready, f"{self.name} loading libibverbs")
        return found


@contextlib.contextmanager
def stopped(pids):
    """Inside, these processes stand still; their kernel goes on accepting connections."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def libraries_of(programs):
    return set().union(*programs.values())


class Pair:
    """A server and a client of a program that connects over TCP and talks over verbs. The server stands still until the
    client has loaded its libraries, so that the maps of both can be read however short the run is."""

    def __init__(self, server, client, port, server_options=(), client_options=(), server_prefix=(), client_prefix=()):
        self._stack = contextlib.ExitStack()
        folder = self._stack.enter_context(scratch_folder())
        folder.chmod(0o777)  # the programs, whoever they run as, write their statistics here
        self.server = Running(server, server_options, server_prefix, folder, "server")
        self._stack.callback(self.server.kill)
        try:
            self.server.wait_for_listener(port)
            serving = self.server.wait_for_verbs_programs()
            self.server_libraries = libraries_of(serving)
            with stopped(serving):
                self.client = Running(client, client_options, client_prefix, folder, "client")
                self._stack.callback(self.client.kill)
                self.client_libraries = libraries_of(self.client.wait_for_verbs_programs())
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def finish(self, seconds=PATIENCE):
        """Both must end with 0."""
        status = self.client.wait(seconds)
        server_status = self.server.wait(seconds) if status == 0 else None
        if status != 0 or server_status != 0:
            raise AssertionError(f"client ended with {status}, server with {server_status}\n"
                                 f"--- client: {self.client.command}\n{self.client.log()}\n"
                                 f"--- server: {self.server.command}\n{self.server.log()}")


def loopback_pair(common, options, prefix):
    port = free_tcp_port()
    common = [*common, "-p", port]
    return Pair(common, [*common, "127.0.0.1"], port, options, options, prefix, prefix)


def perftest(program, arguments=(), options=(), prefix=()):
    """A perftest program against itself over 127.0.0.1."""
    common = [program, "-d", "mroce0", "-x", gid_index("127.0.0.1"), "-F", *arguments]
    return loopback_pair(common, options, prefix)


def pingpong(program, arguments=(), options=(), prefix=()):
    """A program of ibverbs-utils against itself over 127.0.0.1."""
    return loopback_pair([program, "-d", "mroce0", "-g", gid_index("127.0.0.1"), *arguments], options, prefix)


def busiest(connections):
    """Two ends that open at once may leave a connection that carried next to nothing beside the one they use."""
    return max(connections, key=lambda connection: connection["counters"]["data_packets_sent"])


class Assertions(unittest.TestCase):
    """Checks on statistics."""

    def assert_drops_match(self, impairment, probability):
        """The layer must have dropped what it was told to, within three standard deviations."""
        offered, dropped = impairment["offered"], impairment["dropped"]
        expected = offered * probability
        deviation = math.sqrt(offered * probability * (1 - probability))
        self.assertLessEqual(abs(dropped - expected), 3 * deviation + 1e-9,
                             f"{dropped} of {offered} datagrams dropped, {expected:.1f} expected")

    def assert_paths_share(self, connection, at_least):
        sent = [path["counters"]["sent"] for path in connection["paths"]]
        self.assertGreater(sum(sent), 0)
        for path, count in zip(connection["paths"], sent):
            self.assertGreater(count, at_least * sum(sent), f"path {path['id']} sent {count} of {sum(sent)}: {sent}")

    def assert_pair_used(self, pair, probability, planes=frozenset({0}), share=0.1):
        """What must hold after every run of a pair: the library was ours, drops are as ordered and repaired by sending
        again, and all paths carried that share of the packets. A process is judged by what it sent enough of; one at least must have."""
        for mapped in (pair.client_libraries, pair.server_libraries):
            self.assert_library_is_ours(mapped)
        drops_judged = repairs_judged = shares_judged = 0
        for process in (pair.client.stats(), pair.server.stats()):
            self.assertEqual(process["counters"]["connections_failed"], 0)
            out = process["impairment"]["out"]
            if out["offered"] * probability >= ENOUGH_DROPS or probability == 0:
                self.assert_drops_match(out, probability)
                drops_judged += 1
            for connection in process["connections"]:
                counters = connection["counters"]
                if probability > 0 and counters["data_packets_sent"] * probability >= ENOUGH_DROPS:
                    self.assertGreater(counters["retransmissions"], 0)
                    repairs_judged += 1
                if counters["data_packets_sent"] >= ENOUGH_FOR_SHARES:
                    self.assertEqual(len(connection["paths"]), 4)
                    self.assertEqual({path["plane"] for path in connection["paths"]}, planes)
                    self.assert_paths_share(connection, share)
                    shares_judged += 1
        self.assertGreater(drops_judged, 0, "nobody sent enough to judge the drops")
        self.assertGreater(shares_judged, 0, "nobody sent enough to judge the shares of the paths")
        if probability > 0:
            self.assertGreater(repairs_judged, 0, "nobody sent enough to judge the retransmissions")

    def assert_library_is_ours(self, mapped):
        folder = str(library_folder())
        self.assertTrue(mapped, "no libibverbs in the maps of the program")
        for path in mapped:
            self.assertTrue(path.startswith(folder), f"{path} is not in {folder}")
