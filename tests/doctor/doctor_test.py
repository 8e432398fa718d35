"""mroce doctor analyze: every rule fires where it should and only there; public cases get their true verdict."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cases  # noqa: E402
import rule_cases  # noqa: E402
from build import ROOT, Change  # noqa: E402

MROCE = os.environ["MROCE_BINARY"]
CODES = {"healthy": 0, "finding": 1, "insufficient-evidence": 5, "invalid-test": 6}


def analyze(files, *words):
    with tempfile.TemporaryDirectory(prefix="mroce-doctor-") as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        result = subprocess.run([MROCE, "doctor", "analyze", folder, "--json", *words], capture_output=True, text=True,
                                timeout=60, check=False, stdin=subprocess.DEVNULL)
    try:
        diagnosis = json.loads(result.stdout)
    except json.JSONDecodeError as error:
        raise AssertionError(f"no JSON, exit {result.returncode}: {result.stderr}") from error
    if CODES[diagnosis["verdict"]["outcome"]] != result.returncode:
        raise AssertionError(f"exit {result.returncode} for {diagnosis['verdict']}")
    return diagnosis


def fired(diagnosis):
    return {finding["rule"]: finding for finding in diagnosis["findings"]}


class Rules(unittest.TestCase):
    def test_every_rule_has_a_positive_and_a_negative_case(self):
        rules = tomllib.loads((ROOT / "doctor/data/rules.toml").read_text())["rule"]
        self.assertEqual(sorted(rule["id"] for rule in rules), sorted(rule_cases.RULES))
        for name, pair in rule_cases.RULES.items():
            self.assertEqual(len(pair), 2, name)

    def test_every_rule_fires_on_its_positive_case_with_evidence(self):
        for name, (positive, _) in rule_cases.RULES.items():
            with self.subTest(name):
                findings = fired(analyze(positive))
                self.assertIn(name, findings)
                self.assertTrue(findings[name]["evidence"], "no evidence")
                self.assertNotIn("?", findings[name]["sentence"].replace("Socket?", ""))
                self.assertTrue(any(proof["file"] and proof["line"] for proof in findings[name]["evidence"])
                                or name in ("separate-runs",), findings[name]["evidence"])

    def test_no_rule_fires_on_its_negative_case(self):
        for name, (_, negative) in rule_cases.RULES.items():
            with self.subTest(name):
                self.assertNotIn(name, fired(analyze(negative)))


class Cases(unittest.TestCase):
    def test_public_cases_get_their_true_verdict(self):
        for folder in sorted((ROOT / "tests/doctor/cases").iterdir()):
            with self.subTest(folder.name):
                expected = json.loads((folder / "expect.json").read_text())
                files = {str(path.relative_to(folder / "files")): path.read_bytes() for path in (folder / "files").rglob("*") if path.is_file()}
                self.check(analyze(files), expected)

    def check(self, diagnosis, expected):
        verdict = diagnosis["verdict"]
        self.assertIn(verdict["rule"], expected["rules"], verdict)
        self.assertIn(verdict["confidence"], expected["confidence"], diagnosis)

    def test_the_folders_are_what_the_descriptions_say(self):
        for name, case in cases.CASES.items():
            for file, text in case["make"](Change()).items():
                self.assertEqual((ROOT / "tests/doctor/cases" / name / "files" / file).read_text(), text, f"{name}/{file}")

    def test_variants_of_a_case_never_get_another_verdict_with_high_confidence(self):
        for name, case in cases.CASES.items():
            for label, change in cases.variants(case):
                with self.subTest(f"{name} {label}"):
                    verdict = analyze(change.apply(case["make"](change)))["verdict"]
                    if verdict["rule"] not in case["rules"]:
                        self.assertNotEqual(verdict["confidence"], "high", verdict)


class FalseFriends(unittest.TestCase):
    def test_all_26_are_there_and_the_rules_that_they_must_not_become_exist(self):
        self.assertEqual(sorted(name[:2] for name in cases.FALSE_FRIENDS), [f"{n:02}" for n in range(1, 27)])
        book = tomllib.loads((ROOT / "doctor/data/rules.toml").read_text())
        rules = {rule["id"] for rule in book["rule"]} | {"healthy"}
        for name, (_, innocent) in cases.FALSE_FRIENDS.items():
            self.assertLessEqual(set(innocent), rules, name)

    def test_none_of_them_becomes_a_verdict(self):
        for name, (files, innocent) in cases.FALSE_FRIENDS.items():
            with self.subTest(name):
                diagnosis = analyze(files)
                verdict = diagnosis["verdict"]
                self.assertNotIn(verdict["rule"], innocent, verdict)
                for finding in diagnosis["findings"]:
                    if finding["rule"] in innocent and "outranked_by" not in finding:
                        self.assertEqual(finding["confidence"], "low", finding)


class Paths(unittest.TestCase):
    def test_a_path_that_came_back_is_less_sure_than_one_that_stayed_away(self):
        gone = rule_cases.STATS.format(7, 16777216, 50, 50, 2)
        for recoveries, confidence in ((0, "high"), (1, "high"), (2, "low")):
            text = gone.replace('"ce_marked": 0', f'"recoveries": {recoveries}, "ce_marked": 0')
            self.assertEqual(fired(analyze({"s.json": text}))["mroce-path"]["confidence"], confidence)


class Contradictions(unittest.TestCase):
    def test_they_lower_the_confidence_and_are_named(self):
        pause = {"rx_pause_us": 2_000_000, "rx_pause_frames": 40_000, "cnp_received": 8000}
        sure = fired(analyze(rule_cases.run(pause, {"ecn_marked": 9000, "cnp_sent": 8000})))["fabric-congestion"]
        unsure = fired(analyze(rule_cases.run(pause, {"ecn_marked": 0, "cnp_sent": 8000})))["fabric-congestion"]
        self.assertEqual((sure["confidence"], unsure["confidence"]), ("high", "low"))
        self.assertIn("ecn_marked", " ".join(unsure["lowered_because"]))


class CommandLine(unittest.TestCase):
    def run_doctor(self, *words, stdin=""):
        return subprocess.run([MROCE, "doctor", "analyze", *words], capture_output=True, text=True, timeout=60, check=False, input=stdin)

    def test_it_reads_standard_input(self):
        result = self.run_doctor(stdin=rule_cases.ibstat(400) + rule_cases.GREEN)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertTrue(result.stdout.startswith("HEALTHY"), result.stdout)

    def test_a_rule_is_explained_with_its_source(self):
        result = self.run_doctor("--explain", "fabric-congestion")
        self.assertEqual(result.returncode, 0)
        self.assertIn("rx_pause_seen", result.stdout)
        self.assertIn("source", result.stdout)
        self.assertEqual(self.run_doctor("--explain", "34").stdout, result.stdout)
        self.assertEqual(self.run_doctor("--explain", "no-such").returncode, 2)

    def test_problems_are_named_with_file_and_line(self):
        diagnosis = analyze({"a.txt": "NIC statistics:\n     rx_prio3_pau", "b.bin": bytes(range(256)), "c.txt": "", "d.json": '{"schema": "mroce.doctor.bundle/9"}'})
        reasons = {pathlib.Path(problem["file"]).name: (problem["line"], problem["reason"]) for problem in diagnosis["problems"]}
        self.assertEqual(sorted(reasons), ["a.txt", "b.bin", "c.txt", "d.json"])
        self.assertEqual(diagnosis["verdict"]["rule"], "insufficient-evidence")
        self.assertIn("empty", reasons["c.txt"][1])
        self.assertEqual(self.run_doctor("/nonexistent", "--json").returncode, 5)


if __name__ == "__main__":
    unittest.main()
