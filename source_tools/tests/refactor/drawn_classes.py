"""Goal: a class that refactor has made durable does what the class did as it was written, and goes
on after it was killed as if it had not been. Method: classes are drawn by a seed, with a state at
poroot, methods of 0 to 4 arguments that call each other, and loops. A program calls all of them in
a sequence that is drawn as well: once as it is written, with a stand-in for POBase in ordinary
memory, and once as perdura refactor --callers made it, with the library, killed with SIGKILL at
random moments and started again. All answers and the states in the end are the same.

    drawn_classes.py PERDURA_SOURCE SOURCE_FOLDER LIBRARY COMPILER [--classes N] [--seed S]
        [--kills K] [--calls C] [--store emu|file]
"""
import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

BATCH = 30  # classes in a program

STAND_IN = """#pragma once
#include <cstdlib>
class POBase {
 public:
  explicit POBase(int size, int = 0) : poroot(std::calloc(1, static_cast<unsigned long>(size))) {}
  virtual ~POBase() = default;
 protected:
  void* poroot;
};
inline long long porecorded(int, int) { return 0; }
"""

HEAD = """#pragma once

#include <perdura/compat/simpo.hpp>

using Word = unsigned long;
struct Pair {
  int x;
  short y;
};
enum class Color : unsigned char { kRed, kGreen, kBlue };

"""

TYPES = ["int", "long", "unsigned", "short", "bool", "double", "char", "Pair", "Color", "Word"]


def word_of(kind, name):
    """An expression of type Word that is defined for every value."""
    if kind == "Pair":
        return f"(static_cast<Word>({name}.x) * 31 + static_cast<Word>({name}.y))"
    if kind == "double":
        return f"static_cast<Word>(static_cast<long>({name} * 4))"
    return f"static_cast<Word>({name})"


def value_of(kind, word):
    """Of a type, made of a word: as small as all conversions are defined."""
    if kind == "Pair":
        return f"Pair{{static_cast<int>({word} % 1000), static_cast<short>({word} % 77)}}"
    if kind == "double":
        return f"static_cast<double>({word} % 1000) / 4"
    if kind == "bool":
        return f"({word} % 2 == 1)"
    if kind == "Color":
        return f"static_cast<Color>({word} % 3)"
    if kind == "char":
        return f"static_cast<char>({word} % 100)"
    return f"static_cast<{kind}>({word} % 10000)"


class DrawnClass:
    def __init__(self, draw, number):
        self.draw = draw
        self.name = f"Drawn{number}"
        self.methods = []  # (name, result, [(type, name, default)], text)
        for i in range(draw.randint(3, 8)):
            self.add_method(i)

    def expression(self, arguments, depth=2):
        draw = self.draw
        choice = draw.random()
        if depth == 0 or choice < 0.2:
            return f"Word{{{draw.randint(0, 1000)}}}"
        if choice < 0.5 and arguments:
            kind, name, _ = draw.choice(arguments)
            return word_of(kind, name)
        if choice < 0.7:
            base = "this->state()" if draw.random() < 0.15 else "state()"
            return f"{base}->words[{self.expression(arguments, depth - 1)} % 8]"
        if choice < 0.78:
            return f"mixed({self.expression(arguments, depth - 1)})"
        left, right = (self.expression(arguments, depth - 1) for _ in range(2))
        return f"({left} {draw.choice('+*^')} {right})"

    def call(self, arguments, depth, answers):
        known = [each for each in self.methods if (each[1] != "void") == answers and not each[4]]
        if not known:
            return ""
        name, result, parameters, _, _ = self.draw.choice(known)
        given = []
        for kind, _, otherwise in parameters:
            if otherwise and self.draw.random() < 0.5:
                break
            word = self.expression(arguments, min(depth, 1))
            # Conversions that braces would refuse.
            converts = kind in ("int", "short", "unsigned") and self.draw.random() < 0.3
            given.append(f"{word} % 500" if converts else value_of(kind, word))
        call = f"{name}({', '.join(given)})"
        return word_of(result, call) if answers and result != "Pair" else (
            "" if answers else call)

    def statement(self, arguments, depth=2):
        draw = self.draw
        choice = draw.random()
        place = f"state()->words[{draw.randint(0, 7)}]"
        if choice < 0.15:
            # A call alone: the order of operands and arguments is another one with each compiler.
            called = self.call(arguments, 1, True)
            if called:
                return f"{place} {draw.choice(['=', '+='])} {called};"
        if choice < 0.45 or depth == 0:
            return f"{place} {draw.choice(['=', '+=', '^='])} {self.expression(arguments)};"
        if choice < 0.6:
            return (f"for (int i = 0; i < {draw.randint(1, 6)}; ++i)\n"
                    f"state()->words[i] += {self.expression(arguments)};")
        if choice < 0.72:
            return (f"if ({self.expression(arguments)} % 3 != 0) {{\n"
                    f"{self.statement(arguments, depth - 1)}  // now and then\n}}")
        if choice < 0.82:
            called = self.call(arguments, 1, False)
            if called:
                return f"{called};"
        if choice < 0.92:
            changed = [each for each in arguments if each[0] in ("int", "long", "unsigned", "Word")]
            if changed:
                name = draw.choice(changed)[1]
                return f"for ({name} = {name} % 7; {name} > 0; --{name}) ++{place};"
        return ("{\nconst auto add = [&](int at) { state()->words[at] += "
                f"{self.expression(arguments, 1)}; }};\nadd({draw.randint(0, 7)});\n}}")

    def add_method(self, number):
        draw = self.draw
        name = draw.choice(["addAll", "set_row", "step", "turn", "at_once"]) + str(number)
        overloaded = self.methods and draw.random() < 0.15
        if overloaded:
            name = draw.choice(self.methods)[0]
        arguments = [(draw.choice(TYPES), draw.choice(["row", "by", "context", "to"]) + str(i), "")
                     for i in range(draw.randint(0, 4))]
        if overloaded and any(each[0] == name for each in self.methods):
            same = [each for each in self.methods if each[0] == name]
            arguments = [("Color", "color", ""), ("Pair", "pair", "")]
            kinds = [kind for kind, _, _ in same[0][2]]
            if len(same) > 1 or kinds == ["Color", "Pair"]:
                return
        if arguments and arguments[-1][0] == "int" and not overloaded and draw.random() < 0.4:
            arguments[-1] = ("int", arguments[-1][1], str(draw.randint(0, 9)))
        result = draw.choice(["void", "void", "Word", "int", "Pair", "bool"])
        body = [self.statement(arguments) for _ in range(draw.randint(1, 4))]
        if result != "void":
            body.append(f"return {value_of(result, self.expression(arguments))};")
        declared = ", ".join(f"{kind} {name}" + (f" = {otherwise}" if otherwise else "")
                             for kind, name, otherwise in arguments)
        text = f"/// Number {number}.\n{result} {name}({declared}) {{\n" + "\n".join(body) + "\n}"
        if overloaded:
            self.methods = [each[:4] + (True,) if each[0] == name else each
                            for each in self.methods]
        self.methods.append((name, result, arguments, text, bool(overloaded)))

    def text(self):
        inner = "\n".join(each[3] for each in self.methods)
        return f"""class {self.name} : public POBase {{
 public:
  explicit {self.name}(int poid) : POBase(sizeof(State), poid) {{}}
{inner}
  Word digest() const {{
    Word all = 0;
    for (const Word each : state()->words) all = mixed(all ^ each);
    return all;
  }}

 private:
  struct State {{
    Word words[8];
  }};
  State* state() const {{ return static_cast<State*>(poroot); }}
  Word mixed(Word value) const {{ return (value ^ value >> 29) * 0xbf58476d1ce4e5b9; }}
}};

"""

    def driver(self, number):
        cases = []
        for i, (name, result, arguments, _, _) in enumerate(self.methods):
            given = ", ".join(value_of(kind, f"mixed(word + {j})")
                              for j, (kind, _, _) in enumerate(arguments))
            call = f"object.{name}({given})"
            if result == "void":
                cases.append(f"case {i}: {call}; break;")
            elif result == "Pair":
                cases.append(f"case {i}: {{ const Pair pair = {call}; "
                             f"say({number}, call, {word_of('Pair', 'pair')}); break; }}")
            else:
                cases.append(f"case {i}: say({number}, call, static_cast<Word>({call})); break;")
        return f"""static void call_{number}({self.name}& object, long long call, Word seed) {{
  const Word word = mixed(seed ^ {number * 1000003} ^ static_cast<Word>(call));
  switch (word % {len(self.methods)}) {{
    {chr(10).join(cases)}
  }}
}}
"""


DRIVER = """#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "classes.hpp"

static int output;
static void say(int object, long long call, Word answer) {
  char line[96];
  const int size = std::snprintf(line, sizeof line, "%d %lld %lx\\n", object, call, answer);
  if (::write(output, line, static_cast<size_t>(size)) != size) std::abort();
}
static Word mixed(Word value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}
"""


def driver_text(classes):
    text = DRIVER + "\n".join(each.driver(i) for i, each in enumerate(classes))
    text += ("int main(int, char** arguments) {\n"
             "output = ::open(arguments[1], O_WRONLY | O_APPEND | O_CREAT, 0644);\n"
             "const long long calls = std::atoll(arguments[2]);\n"
             "const Word seed = std::strtoul(arguments[3], nullptr, 10);\n")
    for i, each in enumerate(classes):
        text += f"{each.name} object_{i}({i + 1});\nlong long at_{i} = porecorded({i + 1}, 0);\n"
    text += "for (bool more = true; more;) {\nmore = false;\n"
    for i in range(len(classes)):
        text += (f"if (at_{i} < calls) {{ call_{i}(object_{i}, at_{i}++, seed); more = true; }}\n")
    text += "}\n"
    for i in range(len(classes)):
        text += f"say({i}, -1, object_{i}.digest());\n"
    return text + "::_exit(0);\n}\n"


def run(command, **more):
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done


def answers(path):
    found = {}
    for line in path.read_text().split("\n"):
        words = line.split()
        if len(words) == 3:
            key = (int(words[0]), int(words[1]))
            if found.setdefault(key, words[2]) != words[2]:
                return found, f"call {key} answered {found[key]}, and {words[2]} after a kill"
    return found, ""


def check(options, folder, seed, count):
    draw = random.Random(seed)
    classes = [DrawnClass(draw, i) for i in range(count)]
    written = folder / "written"
    made = folder / "made"
    stand_in = folder / "stand_in" / "perdura" / "compat"
    for each in (written, made, stand_in):
        each.mkdir(parents=True)
    (stand_in / "simpo.hpp").write_text(STAND_IN)
    (written / "classes.hpp").write_text(HEAD + "".join(each.text() for each in classes))
    (written / "driver.cc").write_text(driver_text(classes))
    include = pathlib.Path(options.root) / "include"
    run([options.tool, "refactor", "--callers", "--output", made, written / "driver.cc", "--",
         "-std=c++20", f"-I{include}"])
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror"]
    run([options.compiler, "-std=c++20", "-O1", f"-I{stand_in.parent.parent}", written / "driver.cc", "-o",
         folder / "native"])
    run([options.compiler, *flags, f"-I{include}", made / "driver.cc", options.library, "-luring",
         "-lxxhash", "-lzstd", "-pthread", "-o", folder / "durable"])
    calls = str(options.calls)
    run([folder / "native", folder / "expected", calls, str(seed)])
    environment = dict(os.environ, PERDURA_STORE=f"{options.store}:{folder / 'store.pd'}")
    command = [str(folder / "durable"), str(folder / "found"), calls, str(seed)]
    kills = 0
    longest = 0.05
    while True:
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        ends = False
        try:
            process.wait(draw.uniform(0, longest) if kills < options.kills else 120)
            ends = True
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        error = process.stderr.read()
        process.wait()
        if ends and process.returncode == 0:
            break
        if ends or kills >= options.kills:
            raise SystemExit(f"seed {seed}: the program ended with {process.returncode}: {error}")
        kills += 1
        longest *= 1.3
    expected, _ = answers(folder / "expected")
    found, wrong = answers(folder / "found")
    if wrong:
        raise SystemExit(f"seed {seed}: {wrong}")
    lacks = [key for key in expected if key not in found]
    # Each kill may come between a call that is durable and its line.
    if len(lacks) > kills or any(key[1] < 0 for key in lacks):
        raise SystemExit(f"seed {seed}: {len(lacks)} answers are lost with {kills} kills: "
                         f"{lacks[:5]}")
    for key, answer in found.items():
        if expected.get(key) != answer:
            raise SystemExit(f"seed {seed}: {classes[key[0]].name}, call {key[1]}: {answer}, and "
                             f"{expected.get(key)} as it was written")
    return len(expected), kills


def main():
    parser = argparse.ArgumentParser()
    for name in ("tool", "root", "library", "compiler"):
        parser.add_argument(name)
    parser.add_argument("--classes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--store", default="emu")
    parser.add_argument("--keep", help="a folder that is left")
    options = parser.parse_args()
    began = time.time()
    done = 0
    compared = 0
    killed = 0
    for first in range(0, options.classes, BATCH):
        place = "/dev/shm" if options.store == "emu" else None
        with tempfile.TemporaryDirectory(dir=place) as name:
            folder = pathlib.Path(options.keep or name)
            folder.mkdir(exist_ok=True)
            (folder / ".clang-format").write_text(
                (pathlib.Path(options.root) / ".clang-format").read_text())
            count = min(BATCH, options.classes - first)
            answered, kills = check(options, folder, options.seed + first, count)
            done += count
            compared += answered
            killed += kills
    print(f"{done} classes answer as they were written: {compared} answers and states, "
          f"{killed} kills, {time.time() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
