#!/usr/bin/env python3
"""Branch coverage from `llvm-cov export`: a table by part, and the branches never taken.

usage: coverage.py EXPORT.json SOURCE_ROOT [--json FILE]

A branch is one outcome of a condition in the source. Of a template, and of a header, the branches
taken by any instance count. Outcomes that only an assertion's failure has are left out.
"""
import argparse
import collections
import json
import pathlib

PARTS = ["src/media", "src/format", "src/commit", "src/region", "src/store"]
# Where recovery is, besides the parts that are listed as wholes.
RECOVERY = ["src/region/volume.cc", "src/store/runtime.cc", "src/store/patch.cc"]
LISTED = ["src/media", "src/format", "src/commit", *RECOVERY]


def collect(export, root):
    """{file: {(line, column, outcome): count}}"""
    files = collections.defaultdict(collections.Counter)
    for function in export["data"][0]["functions"]:
        for branch in function.get("branches", []):
            line, column, _, _, taken, not_taken, file_id, _, kind = branch[:9]
            if kind != 4:
                continue
            path = pathlib.Path(function["filenames"][file_id])
            if not path.is_relative_to(root):
                continue
            counts = files[str(path.relative_to(root))]
            counts[line, column, True] += taken
            counts[line, column, False] += not_taken
    return files


def without_assertions(root, path, counts):
    lines = (root / path).read_text().splitlines()
    return {key: count for key, count in counts.items()
            if "PERDURA_ASSERT" not in lines[key[0] - 1]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("export", type=pathlib.Path)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    files = collect(json.loads(arguments.export.read_text()), arguments.root)
    files = {path: without_assertions(arguments.root, path, counts)
             for path, counts in sorted(files.items())}

    def inside(path, place):
        return path == place or path.startswith(place + "/")

    parts = {}
    for name, places in [*((part, [part]) for part in PARTS), ("recovery", RECOVERY)]:
        counts = [count for path, outcomes in files.items()
                  if any(inside(path, place) for place in places) for count in outcomes.values()]
        parts[name] = {"branches": len(counts), "taken": sum(count > 0 for count in counts)}
    missing = [{"file": path, "line": line, "column": column, "outcome": outcome}
               for path, outcomes in files.items() if any(inside(path, p) for p in LISTED)
               for (line, column, outcome), count in sorted(outcomes.items()) if count == 0]

    print(f"{'part':<12} {'branches':>9} {'taken':>7} {'%':>7}")
    for name, part in parts.items():
        percent = f"{100 * part['taken'] / part['branches']:.1f}" if part["branches"] else "-"
        print(f"{name:<12} {part['branches']:>9} {part['taken']:>7} {percent:>7}")
    print("\nnever taken:")
    for each in missing:
        source = (arguments.root / each["file"]).read_text().splitlines()[each["line"] - 1].strip()
        print(f"{each['file']}:{each['line']}:{each['column']} "
              f"{'true' if each['outcome'] else 'false'}: {source}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"parts": parts, "missing": missing}, indent=2) + "\n")


main()
