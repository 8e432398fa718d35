"""mroce doctor export and analyze --report on recorded bundles; Prometheus itself scrapes the exporter."""

import base64
import contextlib
import hashlib
import html
import json
import pathlib
import re
import shutil
import socket
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

from support import MROCE, environment, free_tcp_port, scratch_folder, wait_until

DASHBOARD = pathlib.Path(__file__).parents[2] / "docs" / "grafana" / "mroce-doctor.json"
BEGIN = 1_700_000_000
HOSTILE = '<img src=x onerror="alert(1)">\\'


def ethtool(values):
    return "NIC statistics:\n" + "".join(f"     {name}: {value}\n" for name, value in values.items())


def recorded_bundle(host, sender, seconds=60, device="mlx5_0"):
    """What `doctor run` would have kept: a third of the way in, the receiver begins to send pause."""
    totals = {"bytes": 5 * 10**12, "pause_us": 0, "pause": 0, "cnp": 1000, "ecn": 900, "oos": 3, "timeouts": 0}
    snapshots = []
    for second in range(seconds + 1):
        slow = seconds // 3 <= second < 2 * seconds // 3
        if second:
            totals["bytes"] += (190 if slow else 380) * 10**9 // 8 + second % 5 * 10**8
            totals["pause_us"] += (420_000 + second * 37 % 90_000) if slow else 0
            totals["pause"] += 9000 + second * 53 % 700 if slow else 0
            totals["cnp"] += 3000 + second * 17 % 500 if slow else 40
            totals["ecn"] += 3100 + second * 19 % 500 if slow else 42
            totals["oos"] += 12 if second % 20 == 7 else 0
        way, pause = ("tx", "rx") if sender else ("rx", "tx")
        port = f"/sys/class/infiniband/{device}/ports/1"
        hardware = {"rp_cnp_handled" if sender else "np_cnp_sent": totals["cnp"], "out_of_sequence": 0 if sender else
                    totals["oos"], "packet_seq_err": totals["oos"] if sender else 0, "local_ack_timeout_err": 0}
        if not sender:
            hardware["np_ecn_marked_roce_packets"] = totals["ecn"]
        text = f"{port}/state:4: ACTIVE\n{port}/rate:400 Gb/sec (4X NDR)\n{port}/gid_attrs/ndevs/0:eth0\n"
        text += "".join(f"{port}/hw_counters/{name}:{value}\n" for name, value in hardware.items())
        busy = 55 + second * 7 % 9 if slow else 96 + second % 3
        snapshots.append({
            "phase": "start" if second == 0 else "end" if second == seconds else "sample",
            "time_ns": (BEGIN + second) * 10**9 + (0 if sender else 120_000_000),
            "sources": [
                {"name": f"grep -r . /sys/class/infiniband/{device}", "text": text},
                {"name": "ethtool -S eth0", "netdev": "eth0", "device": device, "text": ethtool({
                    f"{way}_vport_rdma_unicast_bytes": totals["bytes"], f"{pause}_prio3_pause": totals["pause"],
                    f"{pause}_prio3_pause_duration": totals["pause_us"], "rx_discards_phy": 0})},
                {"name": "nvidia-smi --query-gpu=index,utilization.gpu,power.draw,clocks.sm,temperature.gpu --format=csv",
                 "text": "index, utilization.gpu [%], power.draw [W], clocks.current.sm [MHz], temperature.gpu\n" +
                         "".join(f"{gpu}, {busy - gpu} %, {busy * 6}.50 W, 1410 MHz, 60\n" for gpu in range(2))}]})
    return {"schema": "mroce.doctor.bundle/1", "writer": "mroce", "host": host, "boot_id": "",
            "role": "sender" if sender else "receiver", "redacted": False, "snapshots": snapshots}


def write_bundles(folder, **changes):
    files = []
    for host, sender in (("nodeA", True), ("nodeB", False)):
        files.append(folder / f"{host}.json")
        files[-1].write_text(json.dumps(recorded_bundle(host, sender) | changes))
    return files


def mroce(*words, status=0):
    result = subprocess.run([MROCE, "doctor", *map(str, words)], capture_output=True, timeout=60, check=False,
                            env=environment(), stdin=subprocess.DEVNULL)
    if result.returncode != status:
        raise AssertionError(f"{words} ended with {result.returncode}: {result.stderr!r}")
    return result.stdout.decode()


@contextlib.contextmanager
def exporter(*words):
    """`mroce doctor export` on a free port: its URL."""
    with subprocess.Popen([MROCE, "doctor", "export", "--listen", "127.0.0.1:0", *map(str, words)],
                          stdout=subprocess.PIPE, env=environment(), text=True) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            if process.wait(30) != 0:
                raise AssertionError(f"the exporter ended with {process.returncode}")


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def say(url, data):
    """Raw bytes to the exporter: the first line of its answer."""
    where = urllib.parse.urlsplit(url)
    with socket.create_connection((where.hostname, where.port), timeout=30) as connection:
        connection.sendall(data)
        connection.settimeout(30)
        return connection.recv(4096).decode().splitlines()[0]


class Export(unittest.TestCase):
    def test_both_formats_are_served_and_hostile_requests_refused(self):
        with scratch_folder() as folder, exporter(*write_bundles(folder)) as url:
            kind, text = get(url)
            self.assertEqual(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8")
            self.assertTrue(text.endswith("\n# EOF\n"))
            self.assertRegex(text, r'mroce_doctor_rx_pause_seconds_total\{host="nodeA",device="mlx5_0",port="1",'
                                   r'netdev="eth0",priority="3",vendor_name="rx_prio3_pause_duration",'
                                   r'source="ethtool"\} [0-9.]+\n')
            self.assertIn('mroce_doctor_gpu_busy_ratio{host="nodeB",gpu="1"} 0.9', text)
            kind, text = get(url, Accept="text/plain")
            self.assertTrue(kind.startswith("text/plain; version=0.0.4"))
            for request, status in ((b"GET /etc/passwd HTTP/1.1\r\n\r\n", 404), (b"PUT /metrics HTTP/1.1\r\n\r\n", 405),
                                    (b"\x00\xff\r\n\r\n", 400), (b"GET /metrics HTTP/1.1\r\n" + b"a" * 40000, 431)):
                self.assertEqual(say(url, request).split()[1], str(status), request[:40])

    def test_files_are_read_anew(self):
        with scratch_folder() as folder:
            file = folder / "a-ethtool-eth0.txt"
            file.write_text(ethtool({"rx_prio3_pause": 7}))
            with exporter(file, "--interval", "0.01") as url:
                self.assertIn('vendor_name="rx_prio3_pause",source="ethtool"} 7\n', get(url)[1])
                file.write_text(ethtool({"rx_prio3_pause": 8}))
                wait_until(lambda: 'vendor_name="rx_prio3_pause",source="ethtool"} 8\n' in get(url)[1], "a new reading")

    def test_this_machine_is_read_without_files(self):
        text = mroce("export", "--once")
        self.assertIn("mroce_doctor_exporter_info{version=", text)
        interfaces = [name for name in pathlib.Path("/sys/class/net").iterdir() if name.name != "lo"]
        for interface in interfaces:
            self.assertIn(f'netdev="{interface.name}"', text)

    def test_a_text_file_is_written_whole(self):
        with scratch_folder() as folder:
            files = write_bundles(folder)
            mroce("export", *files, "--textfile", folder / "mroce.prom", "--once")
            text = (folder / "mroce.prom").read_text()
            self.assertIn("# TYPE mroce_doctor_rx_pause_frames_total counter\n", text)
            self.assertNotIn("# EOF", text)
            self.assertEqual(sorted(p.name for p in folder.iterdir()), ["mroce.prom", "nodeA.json", "nodeB.json"])

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_promtool_accepts_the_metrics(self):
        with scratch_folder() as folder:
            text = mroce("export", *write_bundles(folder, host=f'{HOSTILE}\n"}} 1'), "--once", "--format", "text")
        check = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, timeout=60,
                               check=False)
        self.assertEqual((check.returncode, check.stdout + check.stderr), (0, ""))

    @unittest.skipUnless(shutil.which("prometheus"), "Prometheus is not installed")
    def test_prometheus_scrapes_the_exporter(self):
        with scratch_folder() as folder, exporter(*write_bundles(folder)) as url, prometheus(folder, url) as ask:
            wait_until(lambda: [r["value"][1] for r in ask('up{job="mroce"}')] == ["1"], "a scrape")
            found = ask('sum by (host) (mroce_doctor_cnp_received_packets_total{device="mlx5_0"})')
            expected = recorded_bundle("nodeA", True)["snapshots"][-1]["sources"][0]["text"]
            expected = re.search(r"rp_cnp_handled:(\d+)", expected).group(1)
            self.assertEqual([(r["metric"], r["value"][1]) for r in found], [({"host": "nodeA"}, expected)])
            wait_until(lambda: ask("job:pause:max"), "the recording rule")
            self.assertGreater(float(ask("job:pause:max")[0]["value"][1]), 1)
            for title, expression in dashboard_expressions({"host": "node[AB]", "device": ".*", "__rate_interval": "1m"}):
                if "payload" in expression:
                    continue  # of endpoints of mroce, which these hosts do not have
                if title in ("RDMA throughput", "GPU activity", "ECN marks", "Out of sequence"):
                    wait_until(lambda e=expression: ask(e), f"{title}: an answer")
                else:
                    ask(expression)


@contextlib.contextmanager
def prometheus(folder, target):
    """A Prometheus that scrapes the URL each second: a function that answers queries."""
    where = urllib.parse.urlsplit(target)
    (folder / "rules.yml").write_text("groups: [{name: pause, interval: 1s, rules: [{record: 'job:pause:max', "
                                      "expr: 'max(mroce_doctor_rx_pause_seconds_total)'}]}]\n")
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n"
        f"scrape_configs: [{{job_name: mroce, honor_labels: true, static_configs: [{{targets: ['{where.netloc}']}}]}}]\n")
    port = free_tcp_port()
    with open(folder / "prometheus.log", "wb") as log, subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log, cwd=folder) as process:
        def ask(query):
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
            try:
                return json.loads(get(url)[1])["data"]["result"]
            except (urllib.error.URLError, ConnectionError) as error:
                if getattr(error, "code", 503) != 503:  # not yet ready
                    raise
                if process.poll() is not None:
                    raise AssertionError((folder / "prometheus.log").read_text(errors="replace")) from None
                return []
        try:
            yield ask
        finally:
            process.terminate()
            process.wait(60)


def dashboard_expressions(variables):
    """Title and expression of each line of the dashboard, with its variables replaced."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], re.sub(r"\$(\w+)", lambda m: variables[m.group(1)], target["expr"])


class Dashboard(unittest.TestCase):
    def setUp(self):
        self.dashboard = json.loads(DASHBOARD.read_text())
        self.panels = [panel for panel in self.dashboard["panels"] if panel["type"] != "row"]

    def test_every_metric_that_it_names_can_be_exported(self):
        names = {line.split()[0] for line in mroce("export", "--names").splitlines()[1:]}
        named = set(re.findall(r"mroce_doctor_\w+", json.dumps(self.dashboard)))
        self.assertGreater(len(named), 15)
        self.assertEqual(named - names, set())

    def test_it_shows_what_a_roce_job_suffers_from(self):
        text = json.dumps(self.panels)
        for metric in ("rx_pause_seconds", "tx_pause_seconds", "cnp_sent", "cnp_received", "ecn_marked", "retransmits",
                       "out_of_sequence", "rdma_tx_bytes", "rdma_rx_bytes", "gpu_busy_ratio"):
            self.assertIn("mroce_doctor_" + metric, text)

    def test_its_form_is_sound(self):
        self.assertEqual([v["name"] for v in self.dashboard["templating"]["list"]], ["datasource", "host", "device"])
        ids = [panel["id"] for panel in self.dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        taken = set()
        for panel in self.dashboard["panels"]:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}
            self.assertTrue(all(x < 24 for x, _ in cells) and not cells & taken, panel["title"])
            taken |= cells
        for panel in self.panels:
            self.assertTrue(panel["targets"] and panel["description"], panel["title"])
            for target in panel["targets"]:
                for variable in re.findall(r"\$(\w+)", target["expr"]):
                    self.assertIn(variable, ("host", "device", "__rate_interval"))

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_its_expressions_are_valid(self):
        with scratch_folder() as folder:
            lines = dashboard_expressions({"host": ".*", "device": ".*", "__rate_interval": "1m"})
            rules = [{"record": f"r:{i}", "expr": expression} for i, (_, expression) in enumerate(lines)]
            (folder / "rules.json").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
            check = subprocess.run(["promtool", "check", "rules", folder / "rules.json"], capture_output=True, text=True,
                                   timeout=60, check=False)
            self.assertEqual(check.returncode, 0, check.stdout + check.stderr)


class Report(unittest.TestCase):
    def report_of(self, **changes):
        with scratch_folder() as folder:
            command = [MROCE, "doctor", "analyze", *write_bundles(folder, **changes), "--json", "--report",
                       folder / "r.html"]
            result = subprocess.run(command, capture_output=True, timeout=60, check=False, env=environment())
            self.assertIn(result.returncode, (0, 1, 5, 6), result.stderr)
            return (folder / "r.html").read_text(), json.loads(result.stdout)

    def test_it_shows_all_that_was_sampled_on_one_axis(self):
        page, diagnosis = self.report_of()
        self.assertIn(f"<h1>{html.escape(diagnosis['verdict']['sentence'])}</h1>", page)
        for title in ("Throughput", "Time stopped by pause", "Pause frames", "CNP", "ECN marks", "Retransmissions",
                      "GPU activity"):
            self.assertIn(f"<strong>{title}", page)
        self.assertIn("All charts share one time axis", page)
        self.assertLess(len(page), 500_000)

    def test_it_needs_nothing_and_its_policy_fits_its_style(self):
        page, _ = self.report_of()
        style = re.search(r"<style>(.*?)</style>", page, re.S).group(1)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        self.assertIn(f"style-src 'sha256-{digest}'", page)
        for forbidden in ("<script", "src=", "href=", "url(", "@import", " style=", "http:", " onload"):
            self.assertNotIn(forbidden, page)

    def test_hostile_names_stay_text(self):
        page, _ = self.report_of(host=HOSTILE)
        self.assertNotIn("<img", page)
        self.assertIn("&lt;img src=x onerror=&quot;alert(1)&quot;&gt;", page)


if __name__ == "__main__":
    unittest.main()
