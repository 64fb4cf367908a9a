#!/usr/bin/env python3
"""Draws programs, compiles them with perdura-clang and without the pass, and runs both.

What a program stores to lies in a store whose changes are compared with what was reported: no line
of it may be missing, and the results are those of the program without the pass. Programs follow
from their seeds; several are compiled together, in one language and with one choice of flags, which
follow from the first seed of these. A program that fails is left in the work folder, without the
statements that it fails without as well.
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import struct
import subprocess
import sys

from drawn_programs import Program, unit

LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os", "-Oz", "-O2 -mavx2", "-O3 -mavx2 -mcx16",
          "-O3 -march=native", "-O2 -fno-strict-aliasing -fno-inline", "-O3 -mavx2 -funroll-loops",
          "-O1 -fPIC -D_FORTIFY_SOURCE=2", "-O2 -g -fstack-protector-all",
          "-O2 -ftrivial-auto-var-init=pattern", "-O2 -mllvm -perdura-out-of-line",
          "-O2 -mavx2 -mllvm -perdura-no-ranges", "-O3 -mllvm -perdura-no-merging"]
STANDARDS = {"c": "-std=gnu17", "c++": "-std=gnu++20"}
TRIES = 60  # programs made smaller
BLIND = "what this assembler stores to cannot be seen"


def run(command, seconds=300):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as stopped:
        return subprocess.CompletedProcess(command, -1, stopped.stdout or "", "takes too long")


def said(result):
    """All that a command said, at most a screen of it."""
    return "\n".join((result.stdout + result.stderr).splitlines()[-40:])


class Tools:
    def __init__(self, driver, work):
        self.here = pathlib.Path(__file__).parent
        self.work = pathlib.Path(work)
        self.work.mkdir(parents=True, exist_ok=True)
        self.driver = driver
        self.clang = os.environ.get("PERDURA_CLANG", "clang-19")
        self.main = self.work / "main.o"
        compiled = run([driver + "++", "-std=c++20", "-O1", "-c", str(self.here / "drawn_main.cc"),
                        "-o", str(self.main)])
        if compiled.returncode != 0:
            sys.exit(compiled.stderr)

    def compiler(self, language, with_pass):
        name = self.driver if with_pass else self.clang
        if language == "c":
            return [name]
        return [name + "++"] if with_pass else [name.replace("clang", "clang++")]

    def build(self, source, language, level, with_pass):
        """An object of it, and a program; what the compiler said."""
        flags = level.split()
        if not with_pass:
            flags = [each for each in flags if each != "-mllvm" and "perdura" not in each]
        end = "" if with_pass else "_plain"
        target = str(source.with_suffix("")) + end
        includes = ["-I", str(self.here), "-isystem", str(self.here.parents[1] / "include")]
        compiled = run([*self.compiler(language, with_pass), STANDARDS[language], *flags, "-w",
                        *(["-Rpass-missed=perdura"] if with_pass else []), *includes, "-c",
                        str(source), "-o", target + ".o"])
        if compiled.returncode != 0:
            return None, compiled
        linked = run([self.driver + "++", target + ".o", str(self.main), "-pthread", "-latomic",
                      "-o", target])
        return (target if linked.returncode == 0 else None), \
            compiled if linked.returncode == 0 else linked


def results_of(output):
    """By seed, what a program printed."""
    results = {}
    for line in output.splitlines():
        if line.startswith("seed "):
            seed = int(line.split()[1])
            results[seed] = []
        else:
            results[seed].append(line)
    return results


class Unit:
    """Programs that are compiled together. Files are named after the first one's seed."""

    def __init__(self, tools, programs, language, level, name):
        self.tools, self.programs, self.language, self.level = tools, programs, language, level
        self.source = tools.work / f"{name}.{'c' if language == 'c' else 'cc'}"

    def fails(self, left_out=()):
        """Why, and the seeds of those that do; empty where none does."""
        self.source.write_text(unit(self.programs, self.language, left_out))
        seeds = [each.seed for each in self.programs]
        without, compiled = self.tools.build(self.source, self.language, self.level, False)
        if without is None:
            sys.exit(f"{self.source} is no program\n{compiled.stderr}")
        inside, compiled = self.tools.build(self.source, self.language, self.level, True)
        if inside is None:
            return said(compiled), seeds
        outcome = run([without, "outside"])
        expected = results_of(outcome.stdout)
        if outcome.returncode != 0:
            sys.exit(f"{without} ends with {outcome.returncode}\n{said(outcome)}")
        found = run([inside, "inside"])
        results = results_of(found.stdout)
        wrong = [each for each in seeds if results.get(each) != expected[each]]
        unseen = self.unseen(pathlib.Path(inside + ".o"), compiled.stderr)
        if unseen:
            return f"lines of assembler without a remark: {unseen}", seeds
        if found.returncode == 0 and not wrong:
            return "", []
        return f"ends with {found.returncode}\n{said(found)}", wrong or seeds

    def unseen(self, made, remarks):
        """Lines with assembler that is in the object and of which the pass says nothing."""
        numbers = made.with_suffix(".blind")
        numbers.unlink(missing_ok=True)
        run(["objcopy", "-O", "binary", "--only-section=.drawn_blind", str(made), str(numbers)])
        emitted = {each for each, in struct.iter_unpack("<Q", numbers.read_bytes())}
        remarked = {int(each) for each in re.findall(rf":(\d+):\d+: remark: {BLIND}", remarks)}
        lines = enumerate(self.source.read_text().splitlines(), 1)
        return [number for number, line in lines if number not in remarked and
                any(int(each) in emitted for each in re.findall(r"BLIND (\d+)", line))]

    def remove(self):
        for each in self.source.parent.glob(self.source.stem + "*"):
            if each.stem in (self.source.stem, self.source.stem + "_plain"):
                each.unlink()


def minimise(one):
    """Leaves out statements without which the program still fails."""
    statements = one.programs[0].statements()
    left_out, tries = [], 0
    share = max(len(statements) // 2, 1)
    while True:
        kept = [each for each in statements if each not in left_out]
        groups = [kept[i:i + share] for i in range(0, len(kept), share)]
        for group in groups:
            if tries == TRIES:
                return left_out
            tries += 1
            if one.fails(left_out + group)[0]:
                left_out += group
        if share == 1:
            return left_out
        share = max(share // 2, 1)


def try_unit(tools, seeds):
    """What is said of it: nothing, where all is well."""
    draw = random.Random(seeds[0])
    language, level = draw.choice(list(STANDARDS)), draw.choice(LEVELS)
    programs = [Program(seed, language) for seed in seeds]
    together = Unit(tools, programs, language, level, f"drawn_{seeds[0]}")
    why, failing = together.fails()
    if not why:
        together.remove()
        return ""
    text = f"seeds {seeds[0]} to {seeds[-1]}, {language} {level}: {why}\n"
    for program in programs:
        if program.seed not in failing:
            continue
        one = Unit(tools, [program], language, level, f"failed_{program.seed}")
        if not one.fails()[0]:
            one.remove()
            continue
        one.fails(minimise(one))
        return text + f"seed {program.seed} alone fails as well: {one.source}\n"
    return text + f"none fails alone: {together.source}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--together", type=int, default=20, help="in a compilation unit")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--driver", required=True, help="perdura-clang")
    parser.add_argument("--work", required=True, help="a folder for what is made")
    arguments = parser.parse_args()
    tools = Tools(arguments.driver, arguments.work)
    end = arguments.seed + arguments.programs
    units = [range(first, min(first + arguments.together, end))
             for first in range(arguments.seed, end, arguments.together)]
    failed = done = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for seeds, text in zip(units, pool.map(lambda each: try_unit(tools, each), units)):
            done += len(seeds)
            if text:
                failed += 1
                print(text, flush=True)
    print(f"{done} programs from seed {arguments.seed} on, {failed} compilation units failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
