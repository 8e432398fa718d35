"""The verbs of the command line that measure: what they promise about their output."""

import json
import subprocess
import unittest

import support
from support import MROCE, environment


def json_of(*words):
    result = subprocess.run([MROCE, *words], capture_output=True, text=True, timeout=200, env=environment(), check=False)
    if result.returncode != 0:
        raise AssertionError(f"{words} ended with {result.returncode}: {result.stderr}{result.stdout[-2000:]}")
    return json.loads(result.stdout)


class Info(unittest.TestCase):
    def test_every_setting_has_value_origin_and_sentence(self):
        result = subprocess.run([MROCE, "info", "--json"], capture_output=True, text=True, timeout=60, check=True,
                                env=environment(MROCE_PATHS="7"))
        settings = json.loads(result.stdout)["settings"]
        self.assertEqual(settings["paths"]["value"], "7")
        self.assertEqual(settings["paths"]["origin"], "environment MROCE_PATHS")
        for name, setting in settings.items():
            self.assertTrue(setting["sentence"], name)
            if name != "paths":
                self.assertEqual(setting["origin"], "default", name)

    def test_the_setting_security_is_shown(self):
        result = subprocess.run([MROCE, "info"], capture_output=True, text=True, timeout=60, check=True,
                                env=environment(MROCE_SECURITY="require", MROCE_KEY_FILE="/etc/mroce.key"))
        self.assertRegex(result.stdout, r"security +require +environment MROCE_SECURITY")
        self.assertRegex(result.stdout, r"key_file +/etc/mroce.key")

    def test_a_bad_setting_is_a_usage_error(self):
        result = subprocess.run([MROCE, "info"], capture_output=True, text=True, timeout=60, check=False,
                                env=environment(MROCE_PATHS="99"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("MROCE_PATHS=99", result.stderr)


class Bench(unittest.TestCase):
    def test_the_rows_have_their_names_and_figures_above_zero(self):
        rows = {row["name"]: row for row in json_of("bench", "endpoint", "--quick", "--runs", "1", "--json")["rows"]}
        self.assertEqual(list(rows), ["write_1m", "write_64k", "write_4k", "write_64b", "write_1m_loss1",
                                      "write_1m_loss10", "tcp_256k", "lat_8b", "tcp_lat_8b", "cpu_s_per_gb",
                                      "tcp_cpu_s_per_gb", "idle_connection_bytes"])
        for name, row in rows.items():
            self.assertGreater(row["value"], 0, name)
            self.assertEqual("ratio_to_no_loss" in row, "loss" in name, name)
            self.assertEqual(row["ratio_to_tcp"] is None, name.startswith("tcp_") or name == "idle_connection_bytes", name)


    def test_with_encryption_there_are_rows_beside_those_without(self):
        rows = {row["name"]: row for row in
                json_of("bench", "endpoint", "--quick", "--runs", "1", "--security", "--json")["rows"]}
        for name in ("write_1m_gcm", "write_64k_gcm", "cpu_s_per_gb_gcm"):
            self.assertGreater(rows[name]["ratio_to_mode_0"], 0, name)
        self.assertNotIn("ratio_to_mode_0", rows["write_1m"])


class Demo(unittest.TestCase):
    def test_a_copy_that_lacks_a_part_says_so_before_the_first_one(self):
        with support.scratch_folder() as folder:
            mroce = support.install_copy(folder)  # without verbs_check
            result = subprocess.run([mroce, "demo", "--short"], capture_output=True, text=True, timeout=60, check=False,
                                    env=environment())
            self.assertEqual((result.returncode, result.stdout), (3, ""))
            self.assertRegex(result.stderr, "^mroce: verbs_check is not beside the libraries in .*\n$")
            result = subprocess.run([mroce, "demo", "--short"], capture_output=True, text=True, timeout=60, check=False,
                                    env=environment(PATH="/nonexistent"))
            self.assertEqual((result.returncode, result.stdout), (3, ""))
            self.assertEqual(result.stderr, "mroce: ib_write_bw is not in PATH; install the package perftest\n")

    def test_the_short_demo_finds_nothing_amiss(self):
        demo = json_of("demo", "--short", "--json")
        self.assertEqual(demo["findings"], [])
        losses = [result["loss_percent"] for result in demo["programs"]["rows"][0]["results"]]
        self.assertEqual(losses, [0, 0.1, 1, 10])
        self.assertTrue(all(case["passed"] for case in demo["verified_data"]["cases"]))
        self.assertGreater(len(demo["path_failure"]["samples"]), 50)


if __name__ == "__main__":
    unittest.main()
