#!/usr/bin/env python3
"""Draws classes whose methods hand pointers around in all ways, and lets perdura classify judge
them. A method that it calls deferrable is run: it must do the same to the object whatever the
variables outside hold, and must leave these as they are. So a wrong verdict is found without
anybody having said what is right.

  drawn_methods.py PERDURA-SOURCE [--programs N] [--seconds N] [--seed S] [--work FOLDER]

Each program has 60 methods and follows from its seed. One that fails is left in the work folder.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import time

HEAD = """\
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

class POBase {
 public:
  explicit POBase(int size, int = 0) : poroot(std::calloc(1, static_cast<std::size_t>(size))) {}
  void* memory() const { return poroot; }
 protected:
  void* poroot;
};

struct Pair { int* at; int number; };
struct Chain { Pair* pair; int* at; Chain* next; };
union Mixed { int* at; std::uintptr_t number; };
struct State { int cells[16]; int more[16]; int* link; int (*hook)(int*, int); };

int outside[16];
int others[16];
int* alias = outside;
Pair pair_outside = {others, 2};
Mixed mixed_outside = {others};
const int kTable[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
int* const kAlias = others;
static int depth = 0;

template <class F>
void with(int* p, F f) { f(p); }
template <class T>
T& pass(T& value) { return value; }
void hand_out(int** slot) { *slot = outside; }
void hand_out_pair(Pair& pair) { pair.at = alias; }
void hand_out_pair_again(Pair& pair) { hand_out(&pair.at); }
void hand_out_chain(Chain& chain) { hand_out(&chain.next->next->pair->at); }
void use_chain(Chain& chain) { ++chain.next->pair->at[6]; }
struct Base {
  virtual ~Base() = default;
  virtual void change(int* p) { ++p[1]; }
};
struct Derived : Base {
  void change(int* p) override { p[2] += outside[2]; }
};
struct Guard {
  int* at;
  explicit Guard(int* p) : at(p) { ++at[3]; }
  ~Guard() { --at[4]; }
};
"""


class Body:
    """Statements over names that are known: numbers, and pointers to at least 16 numbers."""

    def __init__(self, draw, helpers, level, after=0):
        self.draw, self.helpers, self.level, self.after = draw, helpers, level, after
        self.numbers, self.pointers, self.pairs, self.slots, self.chains = ["3"], [], [], [], []
        self.lines, self.count = [], 0

    def name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def add(self, line):
        self.lines.append("    " + line)

    def number(self):
        draw = self.draw
        kind = draw.random()
        if kind < 0.4 or not self.pointers:
            return draw.choice(self.numbers)
        if kind < 0.7:
            return f"{self.pointer()}[{draw.randrange(16)}]"
        if kind < 0.8:
            return f"kTable[{draw.choice(self.numbers)} & 15]"
        if kind < 0.84:
            return f"{draw.choice(self.numbers)} * 3"
        if kind < 0.85:
            return f"static_cast<int>(reinterpret_cast<std::uintptr_t>({self.pointer()}) & 1)"
        return f"({draw.choice(self.numbers)} + {self.pointer()}[{draw.randrange(16)}])"

    def pointer(self):
        draw = self.draw
        kind = draw.random()
        if kind < self.level or not self.pointers:
            return draw.choice(["outside", "alias", "kAlias", "pair_outside.at", "others",
                                "pass(alias)", "mixed_outside.at"])
        if kind < 0.6:
            return draw.choice(self.pointers)
        if kind < 0.68 and self.pairs:
            return f"{draw.choice(self.pairs)}.at"
        if kind < 0.74 and self.slots:
            return f"(*{draw.choice(self.slots)})"
        if kind < 0.8 and self.chains:
            chain = draw.choice(self.chains)
            return draw.choice([f"{chain}.pair->at", f"{chain}.at", f"{chain}.next->at",
                                f"{chain}.next->pair->at", f"{chain}.next->next->pair->at"])
        if kind < 0.86:
            return f"(({self.number()}) & 1 ? {self.pointer()} : {self.pointer()})"
        if kind < 0.9:
            named = [each for each in self.pointers if each.isidentifier()]
            return f"pass({draw.choice(named)})" if named else draw.choice(self.pointers)
        # Those behind this one, so that it ends.
        answering = [each for each in self.helpers[self.after:] if each[1] == "int*"]
        if answering:
            name, _, kinds = draw.choice(answering)
            return f"{name}({self.arguments(kinds)})"
        return draw.choice(self.pointers)

    def arguments(self, kinds):
        given = []
        for kind in kinds:
            if kind == "int":
                given.append(self.number())
            elif kind == "int*":
                given.append(self.pointer())
            elif kind == "int**":
                given.append(self.slot())
            elif kind == "Pair&":
                given.append(self.pair())
            elif kind == "Chain&":
                given.append(self.chain())
            elif kind == "Pair":
                given.append(f"Pair{{{self.pointer()}, 1}}")
            elif kind == "call":
                given.append(self.draw.choice(["&add_first", "&add_table", "&add_outside"]
                                              if self.draw.random() < self.level * 2
                                              else ["&add_first", "&add_table"]))
        return ", ".join(given)

    def slot(self):
        if not self.slots or self.draw.random() < 0.3:
            pointer, slot = self.name("p"), self.name("s")
            self.add(f"int* {pointer} = {self.pointer()};")
            self.add(f"int** {slot} = &{pointer};")
            self.pointers.append(pointer)
            self.slots.append(slot)
        return self.draw.choice(self.slots)

    def pair(self):
        if not self.pairs or self.draw.random() < 0.3:
            pair = self.name("pair")
            self.add(f"Pair {pair}{{{self.pointer()}, {self.number()}}};")
            self.pairs.append(pair)
        return self.draw.choice(self.pairs)

    def chain(self):
        if not self.chains or self.draw.random() < 0.3:
            pair, chain, at = self.pair(), self.name("c"), self.pointer()
            self.add(f"Chain {chain}{{&{pair}, {at}, nullptr}};")
            self.add(f"{chain}.next = &{chain};")
            self.chains.append(chain)
        return self.draw.choice(self.chains)

    def kept(self):
        """A pointer that is stored somewhere: a helper's more often leads outside."""
        if self.after and self.draw.random() < 0.15:
            return self.draw.choice(["outside", "others", "alias"])
        return self.pointer()

    def statement(self):
        draw = self.draw
        kind = draw.randrange(29)
        if kind <= 3:
            self.add(f"{self.pointer()}[{draw.randrange(16)}] += {self.number()};")
        elif kind == 4:
            name, value = self.name("n"), self.number()
            self.add(f"int {name} = {value};")
            self.numbers.append(name)
        elif kind == 5:
            name, value = self.name("p"), self.pointer()
            self.add(f"int* {name} = {value};")
            self.pointers.append(name)
        elif kind == 6 and not self.after:  # a helper's would be gone when somebody follows it
            name = self.name("a")
            self.add(f"int {name}[16] = {{{self.number()}}};")
            self.pointers.append(name)
        elif kind == 7:
            slot, value = self.slot(), self.kept()
            self.add(f"*{slot} = {value};")
        elif kind == 8:
            pair, value = self.pair(), self.kept()
            self.add(f"{pair}.at = {value};")
        elif kind == 9 and self.helpers:
            name, _, kinds = draw.choice(self.helpers)
            arguments = self.arguments(kinds)
            self.add(f"if (depth < 4) {name}({arguments});")
        elif kind == 10:
            name, value = self.name("l"), self.pointer()
            self.add(f"auto {name} = [{draw.choice(['=', '&'])}](int i) mutable {{ "
                     f"{value if 'depth' not in value else 'others'}[i & 15] ^= i; }};")
            self.add(f"{name}({self.number()});")
        elif kind == 11:
            value = self.pointer()
            self.add(f"with({value}, [&](int* q) {{ q[2] = {draw.choice(self.numbers)}; }});")
        elif kind == 12:
            value = self.pointer()
            self.add(f"for (int i = 0; i < 4; ++i) {value}[i] += i;")
        elif kind == 13:
            to, value = self.pointer(), self.pointer()
            self.add(f"std::memmove({to}, {value}, 8 * sizeof(int));")
        elif kind == 14:
            self.chain()
        elif kind == 15 and self.chains:
            chain, value = draw.choice(self.chains), self.kept()
            self.add(draw.choice([f"{chain}.pair->at = {value};", f"{chain}.next->at = {value};",
                                  f"{chain}.next->next->pair->at = {value};"]))
        elif kind == 16 and len(self.chains) > 1:
            self.add(f"{draw.choice(self.chains)}.next = &{draw.choice(self.chains)};")
        elif kind == 17:
            row, first, second = self.name("row"), self.pointer(), self.pointer()
            self.add(f"int* {row}[2] = {{{first}, {second}}};")
            self.pointers.append(f"{row}[{draw.choice(self.numbers)} & 1]")
            self.slots.append(f"(&{row}[0])")
        elif kind == 18:
            guard, value = self.name("g"), self.pointer()
            self.add(f"const Guard {guard}({value});")
        elif kind == 19:
            name, value = self.name("r"), self.pointer()
            self.add(f"int& {name} = {value}[{draw.randrange(16)}];")
            self.add(f"{name} += 5;")
            self.numbers.append(name)
        elif kind == 20:
            name = self.name("f")
            call = draw.choice(["&add_first", "&add_table"] if draw.random() > self.level
                               else ["&add_outside"])
            self.add(f"int (*{name})(int*, int) = {call};")
            self.add(f"{name}({self.pointer()}, {self.number()});")
        elif kind == 21 and draw.random() < self.level * 3:
            mixed, value = self.name("m"), self.pointer()
            self.add(f"Mixed {mixed}{{{value}}};")
            if draw.random() < 0.5:
                self.add(f"{{ int* other = others; std::memcpy(&{mixed}.number, &other, 8); }}")
            self.pointers.append(f"{mixed}.at")
        elif kind == 22 and draw.random() < self.level * 3:
            name, value = self.name("p"), self.pointer()
            self.add(f"int* {name} = {value};")
            self.add(draw.choice([
                f"{{ int* other = others; std::memcpy(&{name}, &other, sizeof other); }}",
                f"{{ int* other = others; std::uintptr_t bits; std::memcpy(&bits, &other, 8); "
                f"std::memcpy(&{name}, &bits, 8); }}"]))
            self.pointers.append(name)
        elif kind == 23:
            to, value = self.pair(), self.pair()
            self.add(draw.choice([f"{to} = {value};", f"std::swap({to}, {value});"]))
        elif kind == 24:
            kind = draw.choice(["Base", "Derived"] if draw.random() < self.level else ["Base"])
            name, value = self.name("d"), self.pointer()
            self.add(f"{kind} {name};")
            self.add(f"{name}.change({value});")
        elif kind == 25:
            value = self.pointer()
            self.add(f"try {{ if ({value}[0] == 77) throw 1; ++{value}[5]; }} catch (...) {{ }}")
        elif kind == 27 and draw.random() < self.level * 4:
            self.add(draw.choice([f"hand_out({self.slot()});", f"hand_out_pair({self.pair()});",
                                  f"hand_out_pair_again({self.pair()});",
                                  f"hand_out_chain({self.chain()});"]))
        elif kind == 28:
            self.add(f"use_chain({self.chain()});")
        elif kind == 26:
            first, at = self.pair(), self.name("at")
            self.add(f"auto [{at}, number_of_{at}] = {first};")
            self.pointers.append(at)

    def fill(self, count):
        for _ in range(count):
            self.statement()
        return self.lines


def text_of(seed):
    draw = random.Random(seed)
    parts = [HEAD,
             "int add_first(int* p, int n) { p[0] += n; return p[0]; }",
             "int add_table(int* p, int n) { return p[1] += kTable[n & 15]; }",
             "int add_outside(int* p, int n) { p[2] += outside[n & 15]; return n; }"]
    helpers = []
    names = {"int": "n", "int*": "p", "int**": "s", "Pair&": "pair", "Pair": "copy", "call": "f",
             "Chain&": "chain"}
    for i in range(14):
        answer = draw.choice(["void", "int*", "int*"])
        kinds = ["int*"] + [draw.choice(list(names)) for _ in range(draw.randrange(3))]
        helpers.append((f"helper{i}", answer, kinds))
    for after, (name, answer, kinds) in enumerate(helpers, 1):
        body = Body(draw, helpers, 0.02, after)
        taken = []
        for j, kind in enumerate(kinds):
            own = f"{names[kind]}_{j}"
            taken.append(f"int (*{own})(int*, int)" if kind == "call" else f"{kind} {own}")
            if kind == "int":
                body.numbers.append(own)
            elif kind == "int*":
                body.pointers.append(own)
            elif kind == "int**":
                body.slots.append(own)
                body.pointers.append(f"(*{own})")
            elif kind == "Chain&":
                body.chains.append(own)
                body.pointers.append(f"{own}.next->pair->at")
            elif kind in ("Pair&", "Pair"):
                body.pairs.append(own)
                body.pointers.append(f"{own}.at")
        for j, kind in enumerate(kinds):
            if kind == "call":
                body.add(f"{names[kind]}_{j}({draw.choice(body.pointers)}, 2);")
        lines = body.fill(draw.randrange(1, 5))
        if answer == "int*":
            lines.append(f"    return {body.pointer()};")
        parts.append(f"{answer} {name}({', '.join(taken)});")
        parts.append(f"{answer} {name}({', '.join(taken)}) {{\n" + "\n".join(lines) + "\n}")
    # Helpers call each other, before they are defined.
    declarations = [each for each in parts[4:] if each.endswith(");")]
    definitions = [each for each in parts[4:] if not each.endswith(");")]
    parts = parts[:4] + declarations + definitions
    parts.append("class Drawn : public POBase {\n public:\n  Drawn() : POBase(sizeof(State)) {}")
    for i in range(60):
        body = Body(draw, helpers, draw.choice([0.0, 0.0, 0.01, 0.05]))
        body.numbers += ["a", "b"]
        body.pointers += ["cells()", "state()->more", "cells()"]
        if draw.random() < 0.06:
            body.pointers.append("state()->link")
        lines = body.fill(draw.randrange(2, 9))
        parts.append(f"  void method{i}(int a, int b) {{  // {i}\n" + "\n".join(lines) + "\n  }")
    parts.append(" private:\n  State* state() const { return static_cast<State*>(poroot); }\n"
                 "  int* cells() { return state()->cells; }\n};\n")
    return "\n".join(parts)


# `depth` is read by calls of helpers: it is a number of the program's, so that recursion ends. It
# is not of what is asked, so these lines are without it where the tool reads them.
MAIN = """
#include <cstdio>
static void fill(int from) {
  for (int i = 0; i < 16; ++i) {
    outside[i] = from * 7 + i;
    others[i] = from * 11 - i;
  }
}
static bool run(void (Drawn::*method)(int, int), const char* name) {
  for (int round = 0; round < 6; ++round) {
    Drawn first, second;
    State* const states[2] = {static_cast<State*>(first.memory()),
                              static_cast<State*>(second.memory())};
    for (int i = 0; i < 16; ++i)
      for (State* each : states) each->cells[i] = round * i, each->more[i] = round + i;
    for (State* each : states) each->link = outside, each->hook = &add_outside;
    for (int k = 0; k < 2; ++k) {
      fill(k * 100 + round);
      int before[2][16];
      std::memcpy(before[0], outside, sizeof outside);
      std::memcpy(before[1], others, sizeof others);
      int* const alias_before = alias;
      const Pair pair_before = pair_outside;
      ((k == 0 ? first : second).*method)(round, round * 3);
      if (std::memcmp(before[0], outside, sizeof outside) != 0 ||
          std::memcmp(before[1], others, sizeof others) != 0 || alias != alias_before ||
          pair_before.at != pair_outside.at || pair_before.number != pair_outside.number) {
        std::printf("%s changes what is outside\\n", name);
        return false;
      }
    }
    if (std::memcmp(first.memory(), second.memory(), sizeof(State)) != 0) {
      std::printf("%s depends on what is outside\\n", name);
      return false;
    }
  }
  return true;
}
"""


def check(tool, seed, work):
    """Counts of methods, and of deferrable ones; or what is wrong."""
    text = text_of(seed)
    source = work / f"drawn_{seed}.cc"
    # Only to end recursion; the limit is a parameter that the tool need not follow.
    source.write_text(text.replace("if (depth < 4) ", ""))
    done = subprocess.run([tool, "classify", str(source), "--json", "-", "--most", "1", "--",
                           "-std=c++20"], capture_output=True, text=True)
    if done.returncode != 0 or not done.stdout:
        return f"{source}: classify ends with {done.returncode}: {done.stderr[:2000]}"
    methods = json.loads(done.stdout)["methods"]
    deferrable = [each["method"] for each in methods if each["verdict"] == "deferrable"]
    calls = "".join(f'  good &= run(&Drawn::{each}, "{each}");\n' for each in deferrable)
    program = work / f"drawn_{seed}_run.cc"
    limited = text.replace("if (depth < 4) ", "if (struct Step { Step() { ++depth; } ~Step() { "
                           "--depth; } } step; depth < 4) ")
    program.write_text(limited + MAIN +
                       f"int main() {{\n  bool good = true;\n{calls}  return good ? 0 : 1;\n}}\n")
    binary = work / f"drawn_{seed}"
    compiled = subprocess.run(["g++", "-std=c++20", "-O1", "-w", "-o", str(binary), str(program)],
                              capture_output=True, text=True)
    if compiled.returncode != 0:
        return f"{program}: {compiled.stderr[:3000]}"
    try:
        ran = subprocess.run([str(binary)], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return f"{binary}: does not end"
    if ran.returncode != 0:
        return f"{program}: ends with {ran.returncode}: {ran.stdout[:2000]}"
    for each in (source, program, binary):
        each.unlink()
    return len(methods), len(deferrable)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--programs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0, help="as many as in this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("drawn_methods"))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    start, number = time.monotonic(), 0
    methods = deferrable = failed = 0
    while (time.monotonic() - start < arguments.seconds if arguments.seconds
           else number < arguments.programs):
        result = check(arguments.tool, arguments.seed + number, arguments.work)
        number += 1
        if isinstance(result, str):
            failed += 1
            print(f"seed {arguments.seed + number - 1}: {result}")
        else:
            methods += result[0]
            deferrable += result[1]
    print(f"{number} programs, {methods} methods, {deferrable} deferrable, {failed} programs fail")
    if methods and not 0.1 * methods < deferrable < 0.9 * methods:
        print("the programs say little: nearly all methods are of one kind")
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
