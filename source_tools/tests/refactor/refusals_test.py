"""Goal: what cannot be a logged call is refused, with the line and what to write instead, and
nothing is written. Method: perdura-source refactor --in-place --callers on each of refusals.txt.

    refusals_test.py PERDURA_SOURCE SOURCE_FOLDER
"""
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile

HEAD = "#include <perdura/compat/simpo.hpp>\n"


def cases(path):
    for part in path.read_text().split("\n=== ")[1:]:
        name, *lines = part.split("\n")
        expected = [line[2:].split(" ", 1) for line in lines if line.startswith("! ")]
        yield name.strip(), expected, "\n".join(line for line in lines if line[:2] != "! ")


def check(tool, root, folder, case):
    name, expected, text = case
    file = folder / f"{name}.hpp"
    file.write_text(HEAD + text)
    done = subprocess.run([tool, "refactor", "--in-place", "--callers", str(file), "--",
                           "-std=c++20", f"-I{root / 'include'}"], capture_output=True, text=True)
    wrong = []
    if done.returncode != 1:
        wrong.append(f"{name}: exit code {done.returncode}")
    if file.read_text() != HEAD + text:
        wrong.append(f"{name}: was written")
    for line, sentence in expected:
        place = f"{file}:{int(line) + HEAD.count(chr(10))}:"
        if not any(place in each and sentence in each for each in done.stderr.split("\n")):
            wrong.append(f"{name}: nothing says '{sentence}' of line {line}")
    return wrong + [done.stdout + done.stderr] if wrong else []


def main():
    tool, root = sys.argv[1:]
    all_cases = list(cases(pathlib.Path(__file__).parent / "refusals.txt"))
    with tempfile.TemporaryDirectory() as name:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = pool.map(lambda case: check(tool, pathlib.Path(root), pathlib.Path(name), case),
                             all_cases)
        wrong = [each for part in found for each in part]
    print("\n".join(wrong) if wrong else f"{len(all_cases)} are refused")
    return 1 if wrong or len(all_cases) < 25 else 0


if __name__ == "__main__":
    sys.exit(main())
