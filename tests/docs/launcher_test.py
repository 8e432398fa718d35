"""./mroce on a machine without the packages that it needs: it says what to type, or what is needed, and ends with 3."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
TOOLS = ("bash", "awk", "tr", "readlink", "dirname", "cat")


def build_packages():
    section, found = None, []
    for line in (ROOT / "tools" / "packages.txt").read_text().splitlines():
        if line.startswith("["):
            section = line.split()[0]
        elif section == "[build]" and line.strip() and not line.startswith("#"):
            found.append(line.split()[0])
    return found


class Launcher(unittest.TestCase):
    def setUp(self):
        # A copy of what is run, where every user may read it, and a PATH with nothing else in it.
        folder = tempfile.TemporaryDirectory(prefix="mroce-launcher-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "bin").mkdir()
        (self.root / "tools").mkdir()
        for name in ("mroce", "tools/install_packages.sh", "tools/packages.txt"):
            shutil.copy2(ROOT / name, self.root / name)
        for name in TOOLS:
            (self.root / "bin" / name).symlink_to(shutil.which(name))
        for path in (self.root, *self.root.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755)

    def program(self, name, text):
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def launch(self):
        prefix = NOBODY if os.geteuid() == 0 else []
        if prefix:
            prefix = [shutil.which("setpriv"), *prefix[1:]]
        return subprocess.run([*prefix, self.root / "mroce", "info"], capture_output=True, text=True, timeout=30, cwd="/",
                              env={"PATH": str(self.root / "bin")}, check=False)

    def lacking(self, *names):
        self.program("apt-get", "echo apt-get was called >&2; exit 1")
        cases = "".join(f"{name}) exit 1 ;; " for name in names)
        self.program("dpkg-query", f'for name; do :; done; case $name in {cases}esac; printf installed')

    def test_without_root_and_with_packages_missing_it_prints_the_line_to_type(self):
        known = build_packages()
        for missing in (known, [known[0], known[-1]]):
            self.lacking(*missing)
            done = self.launch()
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(done.stderr.splitlines(), [
                "mroce: packages are missing, and installing them needs root; type:",
                f"  sudo apt-get install --no-install-recommends {' '.join(missing)}"])
            self.assertEqual(done.stdout, "")

    def test_a_sudo_that_asks_for_a_password_is_not_used(self):
        self.lacking(build_packages()[1])
        self.program("sudo", "echo sudo: a password is required >&2; exit 1")
        done = self.launch()
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"  sudo apt-get install --no-install-recommends {build_packages()[1]}\n", done.stderr)
        self.assertNotIn("apt-get was called", done.stderr)

    def test_without_apt_it_names_the_packages_whose_equivalents_are_needed(self):
        done = self.launch()
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(" ".join(build_packages()), done.stderr)


if __name__ == "__main__":
    unittest.main()
