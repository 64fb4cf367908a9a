#!/usr/bin/env python3
"""What perdura classify says of the methods in a folder of sources, against what the comments
beside their lines say:

  void pop() {      // expect: instant
    ++counter;      // because: pop global

`expect` is on the line of a method's definition: deferrable, read or instant. `because` names a
method and the kind of a reason, which is on that line; several are separated by semicolons. Of a
method all reasons are given; * stands for all that a call of a library has within.

  corpus.py PERDURA-SOURCE INCLUDE-FOLDER FOLDER [--files PATTERN] [--json FILE]
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys


def expected_of(path):
    """Verdicts by the line of the method, and reasons by the method's name."""
    verdicts, reasons = {}, {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        comment = line.partition("//")[2]
        found = re.search(r"expect: (\w+)", comment)
        if found:
            verdicts[number] = found[1]
        for part in comment.split("because:")[1:]:
            for each in part.split("expect:")[0].split(";"):
                if each.strip():
                    method, kind = each.split()[:2]
                    reasons.setdefault(method, set()).add((path.name, number, kind))
    return verdicts, reasons


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("include")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--files", default="*", help="without .cc")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    groups = {}
    for path in sorted(arguments.folder.glob(arguments.files + ".cc")):
        groups.setdefault(re.sub(r"_\d+$", "", path.stem), []).append(path)
    methods = right = wrongly_deferrable = 0
    for paths in groups.values():
        has_state = any("struct Refuted" in path.read_text() for path in paths)
        command = [arguments.tool, "classify", *map(str, paths), *(["--class", "Refuted"] if has_state else []),
                   "--json", "-", "--", "-std=c++20", "-isystem", arguments.include]
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.stdout:
            sys.exit(f"{' '.join(command)} ends with {done.returncode}: {done.stderr}")
        expected = {path.resolve(): expected_of(path) for path in paths}
        because = {}
        for _, reasons in expected.values():
            for method, lines in reasons.items():
                because.setdefault(method, set()).update(lines)
        met = set()
        for method in json.loads(done.stdout)["methods"]:
            place = method["at"]
            path = pathlib.Path(place["file"])
            where = f"{path.name}:{place['line']}: {method['method']}"
            methods += 1
            met.add((path, place["line"]))
            verdict = expected.get(path, ({}, {}))[0].get(place["line"])
            reasons = {(pathlib.Path(each["at"]["file"]).name, each["at"]["line"], each["kind"])
                       for each in method["reasons"]}
            wanted = because.pop(method["method"], set())
            for each in [each for each in wanted if each[2] == "*"]:
                within = {reason for reason in reasons if reason[:2] == each[:2]}
                wanted = wanted - {each} | (within or {each})
            if verdict == "read":
                wanted = wanted | {(path.name, place["line"], "returns")}
            if verdict is None:
                print(f"{where}: no comment says what it is; it is found {method['verdict']}")
            elif verdict != method["verdict"]:
                print(f"{where}: {method['verdict']} in place of {verdict}")
                if method["verdict"] == "deferrable":
                    wrongly_deferrable += 1
            elif reasons == wanted:
                right += 1
                continue
            for file, line, kind in sorted(reasons - wanted):
                print(f"  {file}:{line}: {kind}, of {method['method']}, is found besides")
            for file, line, kind in sorted(wanted - reasons):
                print(f"  {file}:{line}: {kind}, of {method['method']}, is not found")
        for path, (verdicts, _) in expected.items():
            for line in verdicts:
                if (path, line) not in met:
                    methods += 1
                    print(f"{path.name}:{line}: a method is expected, and none is found")
        for method in because:
            print(f"{paths[0].name}: reasons are given of {method}, which is no method")
    print(f"{right} of {methods} methods are right, {wrongly_deferrable} wrongly deferrable")
    if arguments.json:
        arguments.json.write_text(json.dumps(
            {"methods": methods, "right": right, "wrongly_deferrable": wrongly_deferrable}))
    return 0 if methods > 0 and right == methods else 1


if __name__ == "__main__":
    sys.exit(main())
