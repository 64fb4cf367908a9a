"""Goal: classes of odd shapes become classes whose calls are logged: their text has what shapes.txt
says, two compilers take it without a warning, a second time changes nothing, and the result is the
same each time. Method: perdura-source refactor on each of them.

    shapes_test.py PERDURA_SOURCE SOURCE_FOLDER COMPILER...
"""
import pathlib
import subprocess
import sys
import tempfile

FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Werror"]


def cases(path):
    """(name, expected, forbidden, text) of each."""
    for part in path.read_text().split("\n=== ")[1:]:
        name, *lines = part.split("\n")
        expected = [line[2:] for line in lines if line.startswith("+ ")]
        forbidden = [line[2:] for line in lines if line.startswith("- ")]
        text = [line for line in lines if line[:2] not in ("+ ", "- ")]
        yield name.strip(), expected, forbidden, "\n".join(text)


def squeezed(text):
    return " ".join(text.split())


def refactor(tool, unit, include, to):
    return subprocess.run([tool, "refactor", "--callers", "--output", str(to), str(unit), "--", "-std=c++20",
                           f"-I{include}"], capture_output=True, text=True)


def check_text(case, text):
    name, expected, forbidden, _ = case
    said = squeezed(text)
    wrong = [f"{name}: lacks '{each}'" for each in expected if squeezed(each) not in said]
    wrong += [f"{name}: has '{each}'" for each in forbidden if squeezed(each) in said]
    return wrong + [text] if wrong else []


def check_line_ends(tool, root, folder, all_cases):
    """With CR LF the result is the same, with CR LF."""
    ends = folder / "crlf"
    ends.mkdir()
    for each in [folder / ".clang-format", *folder.glob("*.*")]:
        (ends / each.name).write_bytes(each.read_bytes().replace(b"\n", b"\r\n"))
    done = refactor(tool, ends / "unit.cc", root / "include", ends / "done")
    if done.returncode != 0:
        return [f"with CR LF: {done.stderr}"]
    return [f"{name}: is another one with CR LF" for name, _, _, _ in all_cases
            if (folder / "first" / f"{name}.hpp").read_bytes().replace(b"\n", b"\r\n") !=
            (ends / "done" / f"{name}.hpp").read_bytes()]


def check(tool, root, compilers, folder, all_cases):
    for name, _, _, text in all_cases:
        (folder / f"{name}.hpp").write_text(
            "#pragma once\n\n#include <perdura/compat/simpo.hpp>\n\n" + text)
    unit = folder / "unit.cc"
    unit.write_text("".join(f'#include "{each[0]}.hpp"\n' for each in all_cases) +
                    "int main() {}\n")
    first = refactor(tool, unit, root / "include", folder / "first")
    second = refactor(tool, unit, root / "include", folder / "second")
    if first.returncode != 0 or first.stderr or second.returncode != 0:
        return [f"exit code {first.returncode}: {first.stderr}{second.stderr}"]
    wrong = check_line_ends(tool, root, folder, all_cases)
    for case in all_cases:
        text = (folder / "first" / f"{case[0]}.hpp").read_text()
        if (folder / "second" / f"{case[0]}.hpp").read_text() != text:
            wrong.append(f"{case[0]}: another result the second time")
        (folder / f"{case[0]}.hpp").write_text(text)
        wrong += check_text(case, text)
    again = refactor(tool, unit, root / "include", folder / "third")
    changed = list((folder / "third").glob("*"))
    if again.returncode != 0 or again.stderr or changed:
        wrong.append(f"is changed again: {again.stderr}{changed}")
    for compiler in compilers:
        compiled = subprocess.run([compiler, *FLAGS, f"-I{root / 'include'}", "-fsyntax-only",
                                   str(unit)], capture_output=True, text=True)
        if compiled.returncode != 0:
            wrong.append(f"{compiler}: {compiled.stderr}")
    return wrong


def main():
    tool, root, *compilers = sys.argv[1:]
    root = pathlib.Path(root)
    all_cases = list(cases(pathlib.Path(__file__).parent / "shapes.txt"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / ".clang-format").write_text((root / ".clang-format").read_text())
        wrong = check(tool, root, compilers, folder, all_cases)
    print("\n".join(wrong) if wrong else f"{len(all_cases)} shapes are as they should be")
    return 1 if wrong or len(all_cases) < 25 else 0


if __name__ == "__main__":
    sys.exit(main())
