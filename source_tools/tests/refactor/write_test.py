"""Goal: files are written all or none: where one cannot be, all are as they were, the error names it,
and nothing is left beside them. Files with CR LF keep them. Method: perdura-source refactor
--in-place of two files, one of which is longer than a process may write, or whose folder may not be
written; classify --write of a file with CR LF, and of one of which two units see different lines.

    write_test.py PERDURA_SOURCE SOURCE_FOLDER
"""
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile

SMALL = """#pragma once
#include <perdura/compat/simpo.hpp>
class Small : public POBase {
 public:
  Small() : POBase(80, 1) {}
  void set(int x) { static_cast<int*>(poroot)[0] = x; }
};
"""
LARGE_BYTES = 1 << 16


def run(tool, root, *arguments, **more):
    return subprocess.run([tool, *map(str, arguments), "--", "-std=c++20", "-w",
                           f"-I{root / 'include'}"], capture_output=True, text=True, **more)


def limit_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE_BYTES // 2, LARGE_BYTES // 2))


def check_failing(tool, root, folder, name, sentence, **more):
    """`folder` has one file that cannot be written, `name`."""
    before = {each: each.read_bytes() for each in folder.parent.rglob("*") if each.is_file()}
    done = run(tool, root, "refactor", "--in-place", folder.parent / "unit.cc", **more)
    wrong = []
    if done.returncode != 2 or f"'{folder / name}' cannot be written: {sentence}" not in done.stderr:
        wrong.append(f"{sentence}: ends with {done.returncode}: {done.stderr}")
    after = {each: each.read_bytes() for each in folder.parent.rglob("*") if each.is_file()}
    if after != before:
        wrong.append(f"{sentence}: files are others: {sorted(map(str, after))}")
    return wrong


def make(folder):
    """Two classes in two folders."""
    (folder / "large").mkdir(parents=True)
    (folder / "small.hpp").write_text(SMALL)
    large = SMALL.replace("Small", "Large") + "// " + "x" * LARGE_BYTES + "\n"
    (folder / "large" / "large.hpp").write_text(large)
    (folder / "unit.cc").write_text('#include "small.hpp"\n#include "large/large.hpp"\n')


def check_crlf(tool, root, folder):
    wrong = []
    for directives in ([], ["--directives"]):
        texts = {}
        for end in ("\n", "\r\n"):
            file = folder / "ends.hpp"
            file.write_bytes(SMALL.replace("\n", end).encode())
            done = run(tool, root, "classify", "--write", *directives, file)
            if done.returncode != 0:
                wrong.append(done.stderr)
            texts[end] = file.read_bytes()
        if texts["\n"].replace(b"\n", b"\r\n") != texts["\r\n"] or b"defer" not in texts["\n"]:
            wrong.append(f"with CR LF {directives}: {texts}")
    return wrong


def check_two_sides(tool, root, folder):
    """Of a method that two units see at different lines both are marked, by the verdict of both."""
    wrong = []
    file = folder / "sides.hpp"
    units = [folder / "one.cc", folder / "other.cc"]
    units[0].write_text('#define FAST\n#include "sides.hpp"\n')
    units[1].write_text('#include "sides.hpp"\n')
    set_ = "  void set(int x) { static_cast<int*>(poroot)[0] = x; }\n"
    for other, mark in (set_.replace("= x", "= x + 1"), "deferrable"), \
                       (set_.replace("x;", "x; static int n; ++n;"), "instant"):
        file.write_text(SMALL.replace(set_, f"#ifdef FAST\n{set_}#else\n{other}#endif\n"))
        for _ in range(2):
            done = run(tool, root, "classify", "--write", *units)
            if done.returncode != 0 or file.read_text().count(f"[[perdura::{mark}]] void set(") != 2:
                wrong.append(f"two sides: {done.stderr}{file.read_text()}")
    return wrong


def main():
    tool, root = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        work.chmod(0o755)
        make(work / "long")
        wrong = check_failing(tool, root, work / "long" / "large", "large.hpp", "File too large",
                              preexec_fn=limit_files, restore_signals=False)
        make(work / "closed")
        user = {}
        if os.geteuid() == 0:  # who may write anywhere
            user = {"user": 65534, "group": 65534}
            for each in (work / "closed", work / "closed" / "small.hpp"):
                os.chown(each, 65534, 65534)
        closed = work / "closed" / "large"
        closed.chmod(0o555)
        wrong += check_failing(tool, root, closed, "large.hpp", "Permission denied", **user)
        closed.chmod(0o755)
        done = run(tool, root, "refactor", "--in-place", work / "closed" / "unit.cc")
        if done.returncode != 0 or "simpo_set" not in (closed / "large.hpp").read_text():
            wrong.append(f"is not written: {done.stderr}")
        wrong += check_crlf(tool, root, work)
        wrong += check_two_sides(tool, root, work)
        real, link = work / "real.cc", work / "link.cc"
        real.write_text(SMALL.replace("#pragma once", ""))
        link.symlink_to(real)
        done = run(tool, root, "refactor", "--in-place", link)
        if done.returncode != 0 or not link.is_symlink() or "simpo_set" not in real.read_text():
            wrong.append(f"what a link leads to is not written: {done.stderr}")
    print("\n".join(wrong) if wrong else "all or none are written")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
