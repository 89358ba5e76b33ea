"""Coverage-guided fuzzing of every target in this folder: `python -m tests.fuzz.run_atheris`.

A target is a function `fuzz_<parser>(data: bytes)` of a `test_*.py` beside this file; what it must
not do is raise. The module's `SEEDS`, if it has any, are where the fuzzer starts. Each target runs
in a process of its own, since atheris does not return.

    --seconds N    how long each target runs (default 5)
    --jobs N       how many run at the same time (default: one a core)
    --target NAME  only this one; may be repeated
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MAX_LENGTH = 4_096
MAX_MEMORY_MIB = 1_024
SLOWEST_INPUT_S = 10

ONE = """
import atheris, sys
with atheris.instrument_imports(include=["warp", "instant_connect", "voice_backend"]):
    import tests.fuzz.{module} as module
for number, seed in enumerate(getattr(module, "SEEDS", ())):
    with open(f"{{sys.argv[1]}}/{{number}}", "wb") as file:
        file.write(seed.encode() if isinstance(seed, str) else seed)
atheris.Setup(sys.argv, module.{target})
atheris.Fuzz()
"""


def targets() -> list[tuple[str, str]]:
    """Return (module, function) of every target."""
    return [
        (path.stem, node.name)
        for path in sorted(HERE.glob("test_*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("fuzz_")
    ]


def run_one(module: str, target: str, seconds: int) -> tuple[bool, str]:
    """Fuzz one target; returns whether it survived, and what there is to say."""
    with tempfile.TemporaryDirectory() as corpus:
        command = [
            sys.executable, "-c", ONE.format(module=module, target=target), corpus,
            f"-max_total_time={seconds}", f"-max_len={MAX_LENGTH}", f"-timeout={SLOWEST_INPUT_S}",
            f"-rss_limit_mb={MAX_MEMORY_MIB}", f"-artifact_prefix={corpus}/",
        ]  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    runs = next((line for line in reversed(lines) if line.startswith("Done ")), "no runs")
    said = f"{'ok  ' if done.returncode == 0 else 'FAIL'} {module}.{target}: {runs}"
    if done.returncode:
        # the exception is on stdout, libFuzzer's progress on stderr
        said = "\n".join([said, *done.stdout.splitlines()[-60:], *lines[-5:]])
    return done.returncode == 0, said


def main() -> int:
    """Run the chosen targets; returns 0 when all survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--target", action="append", default=[])
    chosen = parser.parse_args()
    known = targets()
    unknown = set(chosen.target) - {name for _, name in known}
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    wanted = [one for one in known if not chosen.target or one[1] in chosen.target]
    failed = 0
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for survived, said in pool.map(lambda one: run_one(*one, chosen.seconds), wanted):
            print(said, flush=True)
            failed += not survived
    print(f"{failed} targets failed" if failed else "all targets survived")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
