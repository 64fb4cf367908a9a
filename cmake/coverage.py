#!/usr/bin/env python3
"""Branch coverage from `llvm-cov export`: a table by part, and the branches never taken.

usage: coverage.py EXPORT.json SOURCE_ROOT [--json FILE] [--at-least PERCENT]

A branch is one outcome of a condition in the source; a macro that returns has its condition where
it is used. Of a template, and of a header, the branches taken by any instance count. Outcomes of
assertions are left out, and those of NOT_COUNTED. With --at-least, fails when less of a part of
LISTED is taken.
"""
import argparse
import collections
import json
import pathlib
import re
import sys

# Where recovery is, whatever part it belongs to.
RECOVERY = ["src/region/volume.cc", "src/store/recovery.cc", "src/store/patch.cc",
            "src/commit/log_reader.cc", "src/commit/replay.cc"]
PARTS = {
    **{part: [part] for part in
       ["src/media", "src/format", "src/commit", "src/region", "src/store"]},
    "recovery": RECOVERY,
}
LISTED = ["src/media", "src/format", "src/commit", "recovery"]

# (file, pattern of the source line, reason): what no test of this program can take.
NOT_COUNTED = []

EXPANSION, BRANCH = 1, 4  # kinds of regions


def collect(export, root):
    """{file: {(line, column, line of the macro or 0, outcome): count}}"""
    files = collections.defaultdict(collections.Counter)
    for function in export["data"][0]["functions"]:
        used_at = {region[6]: (region[5], region[0], region[1])
                   for region in function["regions"] if region[7] == EXPANSION}
        for branch in function.get("branches", []):
            line, column, _, _, taken, not_taken, file_id, _, kind = branch[:9]
            if kind != BRANCH:
                continue
            macro_line = line if file_id in used_at else 0
            while file_id in used_at:
                file_id, line, column = used_at[file_id]
            path = pathlib.Path(function["filenames"][file_id])
            if not path.is_relative_to(root):
                continue
            counts = files[str(path.relative_to(root))]
            counts[line, column, macro_line, True] += taken
            counts[line, column, macro_line, False] += not_taken
    return files


def assertion_lines(lines):
    inside, found = False, set()
    for number, line in enumerate(lines, 1):
        inside = inside or "PERDURA_ASSERT(" in line
        if inside:
            found.add(number)
        inside = inside and not line.rstrip().endswith(";")
    return found


def reason_not_to_count(path, line):
    return next((reason for file, pattern, reason in NOT_COUNTED
                 if file == path and re.search(pattern, line)), None)


def inside(path, places):
    return any(path == place or path.startswith(place + "/") for place in places)


def percent(part):
    return 100 * part["taken"] / part["branches"] if part["branches"] else 100


def describe(each):
    return (f"{each['file']}:{each['line']}:{each['column']} "
            f"{'true' if each['outcome'] else 'false'}: {each['source']}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("export", type=pathlib.Path)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--at-least", type=float, metavar="PERCENT")
    arguments = parser.parse_args()

    parts = {name: {"branches": 0, "taken": 0} for name in PARTS}
    missing, not_counted = [], []
    files = collect(json.loads(arguments.export.read_text()), arguments.root)
    for path, counts in sorted(files.items()):
        lines = (arguments.root / path).read_text().splitlines()
        assertions = assertion_lines(lines)
        for (line, column, _, outcome), count in sorted(counts.items()):
            if line in assertions:
                continue
            source = lines[line - 1].strip()
            each = {"file": path, "line": line, "column": column, "outcome": outcome,
                    "source": source}
            reason = reason_not_to_count(path, source)
            if reason and count == 0:
                not_counted.append({**each, "reason": reason})
                continue
            for name, places in PARTS.items():
                if inside(path, places):
                    parts[name]["branches"] += 1
                    parts[name]["taken"] += count > 0
            if count == 0 and any(inside(path, PARTS[name]) for name in LISTED):
                missing.append(each)

    print(f"{'part':<12} {'branches':>9} {'taken':>7} {'%':>7}")
    for name, part in parts.items():
        shown = f"{percent(part):.1f}" if part["branches"] else "-"
        print(f"{name:<12} {part['branches']:>9} {part['taken']:>7} {shown:>7}")
    print(f"\nnot counted: {len(not_counted)}")
    for each in not_counted:
        print(f"{describe(each)}  ({each['reason']})")
    print(f"\nnever taken: {len(missing)}")
    for each in missing:
        print(describe(each))
    if arguments.json:
        arguments.json.write_text(json.dumps(
            {"parts": parts, "missing": missing, "not_counted": not_counted}, indent=2) + "\n")

    short = [name for name in LISTED
             if arguments.at_least is not None and percent(parts[name]) < arguments.at_least]
    for name in short:
        print(f"{name}: {percent(parts[name]):.1f} % of the branches are taken, "
              f"{arguments.at_least:g} % must be", file=sys.stderr)
    return 1 if short else 0


sys.exit(main())
