#!/usr/bin/env python3
"""Which test refutes the opposite of each promise in the documents.

usage: promises.py ROOT [--documents FOLDER] [--list] [--json FILE]

A mark, a comment that nobody sees who reads the rendered page, names the tests that fail where
what stands before it is not so, back to the mark before or to the beginning of the paragraph, list
item or table row:

    A crash leaks nothing. <!-- test: Transactional.OperationsBesideTransactionsAreKilled -->
    <!-- test 3: Suite.Name fault/SCENARIO -->    of three sentences
    <!-- no promise -->                           an explanation, an example, a figure
    <!-- no promise 5 -->                         after a table: of its rows that have no mark

So nothing stands there without one, and a sentence that somebody adds changes the count that the
mark has. Code and headings promise nothing.

A test is one of GoogleTest's (Suite.Name), a function of a C test (c_api.misuse), a scenario of
fault_test (fault/NAME), a workload of the crash explorer (proof/NAME), a configuration of the power
cuts (powercut/NAME), a fuzz target (fuzz/NAME), or a test of CTest's by its name (examples). Those
that are not there are said, since tests get other names.
"""
import argparse
import pathlib
import re
import sys

DOCUMENTS = ["guarantees", "transactions", "itm", "containers", "tracking", "api", "objects", "compiler",
             "structures", "operations", "choosing", "evolution", "types", "backup", "mpi", "cluster", "scale"]

MARK = re.compile(r"<!--\s*(?:(test)\s*(\d*):\s*(.*?)|(no promise)\s*(\d*))\s*-->")
SENTENCE_END = re.compile(r"(?<=[.?!])[)\"]*\s+(?=[A-Z0-9`*\[(\"~])|(?<=[.?!])\)\s+")


def known_tests(root):
    def names(pattern, glob):
        for path in sorted(root.glob(glob)):
            for match in re.finditer(pattern, path.read_text(), re.M):
                yield path.stem, match

    known = set()
    for _, match in names(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", "tests/**/*.cc"):
        known.add(f"{match[1]}.{match[2]}")
    for stem, match in names(r"^static [\w *]+?\b(\w+)\(\w[^;]*\) \{$", "tests/c/*.c"):
        known |= {f"c_{stem}", f"c_{stem}.{match[1]}"}
    for _, match in names(r'^      \{"(\w+)", "(?:file|emu|memcached)",',
                          "tests/campaign/fault_scenarios.cc"):
        known.add(f"fault/{match[1]}")
    for _, match in names(r'Registration \w+\(\s*\{\s*"([\w-]+)"', "tests/proof/workloads/*.cc"):
        known.add(f"proof/{match[1]}")
    for _, match in names(r'\bConfig\("([\w-]+)"', "tests/powercut/powercut.py"):
        known.add(f"powercut/{match[1]}")
    known |= {f"powercut/{medium}-{files}"
              for medium in ("file", "dax") for files in ("ext4", "xfs")}
    for path in (root / "fuzz" / "corpus").iterdir():
        known.add(f"fuzz/{path.name}")
    for _, match in names(r"add_test\(NAME ([a-z_]+)\b", "tests/**/CMakeLists.txt"):
        known.add(match[1])
    for _, match in names(r"add_(?:compiled_)?test\((?:NAME )?(compiled_[a-z]+)",
                          "compiler/tests/CMakeLists.txt"):
        known.add(match[1])
    for _, match in names(r"(?:perdura_add_types_test\(|add_test\(NAME )(types_[a-z]+)\b",
                          "source_tools/types/tests/CMakeLists.txt"):
        known.add(match[1])
    return known


def blocks_of(text):
    """Paragraphs, list items, and tables as lists of rows, each with the number of its line."""
    blocks, current, code = [], None, False
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("```"):
            code = not code
            current = None
        elif code or bare.startswith("#") or re.fullmatch(r"!\[.*\]\(.*\)", bare):
            current = None
        elif not bare:
            current = None
        elif bare.startswith("|"):
            if current is None or "rows" not in current:
                current = {"line": number, "rows": [], "text": ""}
                blocks.append(current)
            current["rows"].append((number, bare))
        elif re.match(r"([-*]|\d+\.)\s", bare) or current is None:
            current = {"line": number, "text": re.sub(r"^([-*]|\d+\.)\s", "", bare)}
            blocks.append(current)
        else:
            current["text"] += " " + bare
    return blocks


def sentences_of(text):
    return [each for each in (part.strip() for part in SENTENCE_END.split(text))
            if re.search(r"\w", each)]


class Document:
    """Of each sentence its tests: a list, empty where it promises nothing, None without a mark."""

    def __init__(self, path):
        self.path = path
        self.found = []  # (line, sentence, tests)
        self.errors = []  # (line, text)
        for block in blocks_of(path.read_text()):
            if "rows" in block:
                self.read_table(block)
            else:
                self.read_text(block["line"], block["text"], sentences_of)

    def read_table(self, block):
        unmarked = []
        for line, row in block["rows"][2:]:  # behind the heading
            if "<!--" in row:
                self.read_text(line, row.strip("| "), lambda text: [text] if text else [])
            else:
                unmarked.append((line, row))
        if block["text"]:
            self.read_text(block["line"], " ".join(row for _, row in unmarked) + block["text"],
                           lambda text: [row for _, row in unmarked] if text else [])
        else:
            self.found += [(line, row, None) for line, row in unmarked]

    def read_text(self, line, text, split):
        at = 0
        for mark in MARK.finditer(text):
            sentences = split(text[at:mark.start()].strip())
            at = mark.end()
            tests = mark[3].replace(",", " ").split() if mark[1] else []
            if mark[1] and not tests:
                self.errors.append((line, "a mark names no test"))
            count = int(mark[2] or mark[5] or 1)
            if count > len(sentences):
                self.errors.append(
                    (line, f"a mark is of {count} sentences, before it are {len(sentences)}"))
            self.found += [(line, each, tests) for each in sentences[:count]]
            self.found += [(line, each, None) for each in sentences[count:]]
        rest = text[at:]
        if "<!--" in rest:
            self.errors.append((line, "no mark: " + rest[rest.index("<!--"):][:60]))
            rest = re.sub(r"<!--.*?-->", "", rest)
        self.found += [(line, each, None) for each in split(rest.strip())]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--documents", type=pathlib.Path, help="ROOT/docs otherwise")
    parser.add_argument("--list", action="store_true", help="show each sentence with its tests")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    known = known_tests(arguments.root)
    promises = 0
    named = set()
    untested = []
    problems = []
    for name in DOCUMENTS:
        path = (arguments.documents or arguments.root / "docs") / f"{name}.md"
        where = f"docs/{name}.md"
        document = Document(path)
        problems += [f"{where}:{line}: {text}" for line, text in document.errors]
        for line, sentence, tests in document.found:
            if arguments.list:
                said = "NONE" if tests is None else " ".join(tests) or "-"
                print(f"{where}:{line}: {sentence}\n    {said}")
            if tests == []:
                continue
            promises += 1
            missing = [test for test in tests or [] if test not in known]
            problems += [f"{where}:{line}: there is no test {test}" for test in missing]
            named.update(tests or [])
            if tests is None or missing:
                untested.append(f"{where}:{line}: {sentence[:100]}")
    for each in untested:
        print(f"{each}\n    has no test", file=sys.stderr)
    for each in dict.fromkeys(problems):
        print(each, file=sys.stderr)
    print(f"{promises} promises, {len(untested)} of them without a test; "
          f"{len(named)} tests named")
    if arguments.json:
        # By hand, since the smallest Python has no json.
        pathlib.Path(arguments.json).write_text(
            f'{{"promises": {promises}, "promises_untested": {len(untested)}, '
            f'"promises_tests": {len(named)}}}\n')
    return 1 if untested or problems else 0


if __name__ == "__main__":
    sys.exit(main())
