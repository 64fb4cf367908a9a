#!/usr/bin/env python3
"""Puts mended faults back, one at a time, and says which of them drawn programs find.

usage: mutants.py PROGRAM SOURCES [--seconds N] [--seed N] [--json FILE] [NAME...]

PROGRAM is perdura-model of a build with PERDURA_MUTANTS (preset mutants), SOURCES the folder in
which each fault stands beside is_mutant("its name"). Without a fault the same programs must find
nothing. Of a few faults the moment comes too rarely for minutes of drawn programs (BY_TEST): a test
brings it about, and must fail with the fault and pass without. They are not part of the share."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile


# The program of tests, beside PROGRAM's folder, and the test in it.
BY_TEST = {
    # A library is loaded where the region was, as the kernel's random addresses have it.
    "container_late_word": ("modules_test", "ModulesOfContainers.ALibraryIsLoadedWhereTheRegionWas"),
    # A child is forked, and touches a part, in the milliseconds in which its parent fills it.
    "child_fills_parent": ("faults_test", "ClosedPartsTest.AForkedChildFillsNothingOfItsParent"),
    # A fault opens neighbours of its page in the milliseconds before these are filled.
    "opens_unfilled_parts": ("faults_test", "ClosedPartsTest.AStoreOpensNothingThatIsNotFilled"),
    # A bit of the home image has rotted, which drawn programs do not bring about.
    "unguarded_versions": ("home_guard_test",
                           "Ways/HomeGuardTest.ACrashHealsNothing/file_reported"),
    # A torn beginning of a segment has a later session number a use like one of a dead session.
    "session_of_segment": ("transaction_log_test", "TransactionLog.RecordsOfADeadSessionStayDead"),
    # A replay that began before a checkpoint failed in the same milliseconds as the checkpoint.
    "earlier_replay_counts": (
        "checkpointer_test",
        "Configs/CheckpointerTest.AReplayThatFailsMeanwhileIsTriedAgain/file_reported"),
    # Of a group of processes, which drawn programs are not.
    "group_agrees_alone": ("group_crashes_test",
                           "Settings/Crashes.NoRankShowsAVersionThatAnotherLacks/log_nvm_2"),
    "group_one_era": ("group_crashes_test",
                      "Settings/Crashes.NoRankShowsAVersionThatAnotherLacks/log_nvm_2"),
    "group_stays_ahead": ("group_crashes_test",
                          "Settings/Crashes.NoRankShowsAVersionThatAnotherLacks/log_nvm_2"),
    # A crash comes where the medium has no room left, and what transactions logged fills it.
    "recovery_at_once": ("transaction_log_test",
                         "TransactionLog/FullDisk.HasRoomForLargeTransactions/1"),
    "recovery_needs_space": ("full_disk_test",
                             "Ways/FullDisk.TakesNoTransactionThatItCannotRepeat/emu_reported"),
}


def found_by_test(tests, name):
    """Whether its test passes without the fault, and fails with it, the first time or a later one:
    the moment of some hangs on what threads do meanwhile."""
    program, test = BY_TEST[name]

    def passes(mutant, repeats):
        said = subprocess.run(
            [tests / program, "--gtest_filter=" + test, f"--gtest_repeat={repeats}",
             "--gtest_fail_fast"], env=dict(os.environ, PERDURA_MUTANT=mutant), timeout=120,
            capture_output=True, text=True).stdout
        return "[  PASSED  ] 1 test." in said and "[  FAILED  ]" not in said

    return passes("", 1) and not passes(name, 10)


def run(program, seconds, seed, name):
    """The seconds after which a program failed, None when none did, and what it said."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, PERDURA_MUTANT=name)
        ended = subprocess.run(
            [program, "--seconds", str(seconds), "--seed", str(seed), "--failures", "1",
             "--shrink", "0", "--findings", folder, "--json", folder + "/model.json"],
            env=environment, capture_output=True, text=True)
        if ended.returncode not in (0, 1):
            sys.exit(f"{program} ended with {ended.returncode}: {ended.stderr}")
        with open(folder + "/model.json") as file:
            figures = json.load(file)
    said = re.search(r"^PROBLEM.*$", ended.stdout, re.M)
    if figures["model_failures"] == 0:
        return None, ""
    return figures["first_failure_s"], said.group(0) if said else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("sources", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="only these faults")
    parser.add_argument("--seconds", type=float, default=600, help="for each fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    names = arguments.names or sorted({
        name for file in arguments.sources.rglob("*.[ch][cp]*") if file.stem != "mutant"
        for name in re.findall(r'is_mutant\("([a-z_0-9]+)"\)', file.read_text())})
    without, said = run(arguments.program, min(arguments.seconds, 60), arguments.seed, "")
    if without is not None:
        sys.exit(f"without a fault: {said}")
    found = {}
    by_test = {name: found_by_test(pathlib.Path(arguments.program).parents[1], name)
               for name in names if name in BY_TEST}
    for name, is_found in by_test.items():
        print(f"{name:32}  {'by' if is_found else 'NOT FOUND by'} {BY_TEST[name][1]}", flush=True)
    for name in names:
        if name in BY_TEST:
            continue
        found[name], said = run(arguments.program, arguments.seconds, arguments.seed, name)
        print(f"{name:32}" + (f"{found[name]:7.1f} s  {said}" if said else "  NOT FOUND"),
              flush=True)
    share = sum(seconds is not None for seconds in found.values()) / max(len(found), 1)
    print(f"model_mutants {share:.3f} of {len(found)}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(
            {"campaign": "model_mutants", "model_mutants": share, "seconds": found,
             "by_test": by_test}, indent=1))
    sys.exit(0 if None not in found.values() and all(by_test.values()) else 1)


if __name__ == "__main__":
    main()
