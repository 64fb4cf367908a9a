"""Goal: files are written all or none: where one cannot be, all are as they were, the error names it,
and nothing is left beside them. Files with CR LF keep them. Method: perdura-source refactor
--in-place of two files, one of which is longer than a process may write, or whose folder may not be
written; classify --write of a file with CR LF, and of one of which two units see different lines;
refactor of a template that two units call of other classes; of threads in a unit that includes
nothing of the library; and patches of a file with a space in its name, and of a large one.

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


def check_two_units(tool, root, folder):
    """A template that one unit calls with a class of the library, and another one with none."""
    folder.mkdir()
    (folder / "both.hpp").write_text(SMALL + "template <class T> void set(T& t) { t.set(1); }\n")
    units = [folder / "one.cc", folder / "other.cc"]
    units[0].write_text('#include "both.hpp"\nvoid one(Small& a) { set(a); }\n')
    units[1].write_text('#include "both.hpp"\nstruct B { void set(int) {} };\n'
                        "void other(B& b) { set(b); }\n")
    for each in (units, units[::-1]):
        done = run(tool, root, "refactor", "--callers", *each)
        sentence = "both.hpp:8:39: set is called here in a template, of objects of other classes"
        if done.returncode != 1 or sentence not in done.stderr:
            return [f"two units: {done.returncode}: {done.stderr}"]
    return []


THREAD = """static void* work(void*) { return nullptr; }
int start() {
  pthread_t thread;
  return pthread_create(&thread, nullptr, work, nullptr);
}
"""
# What stands before and behind the #include that is added.
HEADS = [("#include <pthread.h>\n", "#ifdef _WIN32\n#include <windows.h>\n#endif\n"),
         ("// Of threads.\n#include <pthread.h>\n", "/* as in\n#include <no.h>\n*/\n"),
         ("#ifndef GUARD\n#define GUARD\n#include <pthread.h>\n", "namespace a {}\n"),
         ("#include <pthread.h>\n", "namespace a {\n#include \"none.inc\"\n}\n"),
         ("\ufeff", "extern \"C\" {\n#include <pthread.h>\n}\n"),
         ("\ufeff/* Of\n * threads. */\n", "\n// What works.\n#if 1\n#include <pthread.h>\n#endif\n")]


def check_includes(tool, root, folder):
    folder.mkdir()
    (folder / "none.inc").write_text("")
    (folder / "small.cc").write_text(SMALL.replace("#pragma once", ""))
    wrong = []
    for before, behind in HEADS:
        unit = folder / "thread.cc"
        unit.write_text(before + behind + THREAD + ("#endif\n" if "GUARD" in before else ""))
        done = run(tool, root, "refactor", "--callers", "--output", folder / "done", unit,
                   folder / "small.cc")
        text = (folder / "done" / "thread.cc").read_text() if done.returncode == 0 else done.stderr
        added = "#include <perdura/compat/simpo.hpp>\n"
        if text.replace("\n", "").find((before + added + behind).replace("\n", "")) != 0:
            wrong.append(f"#include: {text}")
    return wrong


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


def check_patches(tool, root, folder):
    """--diff is what --in-place does, of a path with a space and of 18,000 lines."""
    folder.mkdir()
    file = folder / "large.hpp"
    lines = "".join(f"inline int f{i}() {{ return {i}; }}\n" for i in range(18000))
    file.write_text(SMALL + lines + SMALL.replace("#pragma once", "").replace("Small", "Last"))
    done = run(tool, root, "refactor", "--diff", file, preexec_fn=limit_memory)
    if done.returncode != 0:
        return [f"--diff ends with {done.returncode}: {done.stderr}"]
    copy = folder / "copy"
    (copy / str(folder)[1:]).mkdir(parents=True)
    (copy / str(file)[1:]).write_text(file.read_text())
    applied = subprocess.run(["patch", "-p1", "-s", "-d", str(copy)], input=done.stdout,
                             capture_output=True, text=True)
    run(tool, root, "refactor", "--in-place", file)
    if applied.returncode != 0 or (copy / str(file)[1:]).read_text() != file.read_text():
        return [f"the patch does something else: {applied.stdout}{applied.stderr}{done.stdout[:3000]}"]
    return []


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
        wrong += check_two_units(tool, root, work / "units")
        wrong += check_includes(tool, root, work / "includes")
        wrong += check_patches(tool, root, work / "with a space")
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
