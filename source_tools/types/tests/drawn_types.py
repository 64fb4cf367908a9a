#!/usr/bin/env python3
"""Goal: whatever types a program has and however it allocates their objects, the records that
perdura-clang makes name all their pointers, and the audit has nothing to tell. Method: programs are
drawn by a seed: structures in C and C++ with pointers, arrays, structures, unions, bit-fields,
flexible arrays, bases, virtual functions and the standard's containers, allocated in many ways. Each
builds a graph below a container's root and says its sum before a point, after it (objects have
moved), and, killed and started again, with the container at another address; then it changes the
graph, and says it once more. Each is compiled for audit besides.

    drawn_types.py PERDURA_CLANG WORK [--seconds N] [--programs N] [--seed S]
"""
import argparse
import pathlib
import random
import subprocess
import sys
import time

HEAD = """#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <perdura/compat/softpm.h>
#include <perdura/typed.h>
#define NEW(T) ((T*)malloc(sizeof(T)))
enum { kMost = 400 };
static unsigned state = 1;
static int next_id = 1;
static unsigned sum;
static char seen[100000];
static unsigned draw(unsigned below) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % below;
}
static void add(long value) { sum = sum * 31 + (unsigned)value; }
static int first_function(int x) { return x + 1; }
static int second_function(int x) { return x * 3; }
typedef int function(int);
PERDURA_ALLOCATOR static void* taken(size_t bytes) { return malloc(bytes); }
static const char* text_of(unsigned i) {
  static const char* const kTexts[] = {"", "a", "some text", "a text that is longer than the others"};
  return kTexts[i % 4];
}
"""
CPP_HEAD = """#include <map>
#include <memory>
#include <string>
#include <vector>
#include <perdura/container.hpp>
"""


class Member:
    """Its declaration; what fills, adds, changes it, where `o->` is before its name."""

    def __init__(self, declare, fill, add, change=""):
        self.declare, self.fill, self.add, self.change = declare, fill, add, change


class Program:
    def __init__(self, draw, cpp):
        self.draw, self.cpp = draw, cpp
        self.count = draw.randrange(3, 8)
        self.flexible = set()
        self.virtual = set()
        self.bases = {}
        self.text = (CPP_HEAD if cpp else "") + HEAD
        self.types = [self.members(i) for i in range(self.count)]
        self.write()

    def name(self, i):
        return f"S{i}" if self.cpp else f"struct S{i}"

    def number(self, m):
        kind = self.draw.choice(["int", "long", "short", "char", "double", "uint8_t", "long double",
                                 "float", "int64_t", "bool" if self.cpp else "_Bool"])
        most = 2 if kind.lower().endswith("bool") else 100
        return Member(f"{kind} {m};", f"o->{m} = draw({most});", f"add((long)o->{m});", f"o->{m} = draw({most});")

    def bits(self, m):
        return Member(f"unsigned {m} : {self.draw.choice([1, 3, 7])}; unsigned {m}_ : 5;",
                      f"o->{m} = draw(2); o->{m}_ = draw(32);", f"add(o->{m} * 64 + o->{m}_);")

    def characters(self, m):
        return Member(f"char {m}[{self.draw.choice([3, 8, 40])}];", f"memcpy(o->{m}, \"xy\", 3);",
                      f"add(o->{m}[1]);")

    def pointer(self, m):
        t = self.draw.randrange(self.count)
        const = self.draw.choice(["", "const "])
        return Member(f"{const}{self.name(t)}* {m};", f"o->{m} = some{t}(depth);", f"follow{t}(o->{m});",
                      f"if (draw(3) == 0) o->{m} = some{t}(1);")

    def pointers(self, m):
        t, n = self.draw.randrange(self.count), self.draw.randrange(1, 4)
        loop = f"for (int i = 0; i < {n}; ++i) "
        return Member(f"{self.name(t)}* {m}[{n}];", f"{loop}o->{m}[i] = some{t}(depth);",
                      f"{loop}follow{t}(o->{m}[i]);")

    def anything(self, m):
        t = self.draw.randrange(self.count)
        kind, cast = self.draw.choice([("void*", "(void*)"), ("uintptr_t", "(uintptr_t)"),
                                       ("intptr_t", "(intptr_t)")])
        return Member(f"{kind} {m};", f"o->{m} = {cast}some{t}(depth);",
                      f"follow{t}(({self.name(t)}*)o->{m});")

    def inner(self, m, i):
        able = [t for t in range(i) if t not in self.flexible]
        if not able:
            return self.number(m)
        t, n = self.draw.choice(able), self.draw.choice([0, 0, 2, 3])
        if n == 0:
            return Member(f"{self.name(t)} {m};", f"fill{t}(&o->{m}, depth);", f"add{t}(&o->{m});",
                          f"change{t}(&o->{m});")
        loop = f"for (int i = 0; i < {n}; ++i) "
        return Member(f"{self.name(t)} {m}[{n}];", f"{loop}fill{t}(&o->{m}[i], depth);",
                      f"{loop}add{t}(&o->{m}[i]);")

    def words(self, m):
        cast = "(char*)" if self.cpp else ""
        fresh = self.draw.choice([
            f"o->{m} = strdup(text_of(draw(4)));",
            f"{{ unsigned t = draw(4); o->{m} = {cast}malloc(strlen(text_of(t)) + 1); strcpy(o->{m}, text_of(t)); }}"])
        return Member(f"char* {m};", fresh, f"add(o->{m}[0]); add((long)strlen(o->{m}));",
                      f"free(o->{m}); {fresh}")

    def numbers(self, m):
        kind = self.draw.choice(["int", "double", "short"])
        make = self.draw.choice([f"({kind}*)malloc(o->{m}_count * sizeof({kind}))",
                                 f"({kind}*)calloc(o->{m}_count, sizeof(*o->{m}))"] +
                                ([f"new {kind}[o->{m}_count]"] if self.cpp else []))
        loop = f"for (int i = 0; i < o->{m}_count; ++i) "
        return Member(f"{kind}* {m}; int {m}_count;",
                      f"o->{m}_count = 1 + draw(9); o->{m} = {make}; {loop}o->{m}[i] = draw(50);",
                      f"{loop}add((long)o->{m}[i]);")

    def pointer_array(self, m):
        t = self.draw.randrange(self.count)
        name = self.name(t)
        make = self.draw.choice([f"({name}**)malloc(o->{m}_count * sizeof({name}*))",
                                 f"({name}**)calloc(o->{m}_count, sizeof *o->{m})"])
        loop = f"for (int i = 0; i < o->{m}_count; ++i) "
        grow = (f"o->{m} = ({name}**)realloc(o->{m}, (o->{m}_count + 3) * sizeof *o->{m}); "
                f"for (int i = 0; i < 3; ++i) o->{m}[o->{m}_count++] = some{t}(1);")
        return Member(f"{name}** {m}; int {m}_count;",
                      f"o->{m}_count = 1 + draw(4); o->{m} = {make}; {loop}o->{m}[i] = some{t}(depth);",
                      f"{loop}follow{t}(o->{m}[i]);", grow)

    def object_array(self, m, i):
        able = [t for t in range(i) if t not in self.flexible]
        if not able:
            return self.pointer(m)
        t = self.draw.choice(able)
        name = self.name(t)
        if self.cpp:
            make = f"new {name}[o->{m}_count]{self.draw.choice(['', '()'])}"
        else:
            make = self.draw.choice([f"calloc(o->{m}_count, sizeof({name}))",
                                     f"({name}*)malloc(sizeof({name}) * o->{m}_count)"])
        loop = f"for (int i = 0; i < o->{m}_count; ++i) "
        return Member(f"{name}* {m}; int {m}_count;",
                      f"o->{m}_count = 1 + draw(3); o->{m} = {make}; {loop}fill{t}(&o->{m}[i], depth);",
                      f"{loop}add{t}(&o->{m}[i]);")

    def function(self, m):
        return Member(f"function* {m};", f"o->{m} = draw(2) ? first_function : second_function;",
                      f"add(o->{m}(5));")

    def union(self, m):
        t = self.draw.randrange(self.count)
        says = self.draw.choice(["", f" PERDURA_COUNTS_WHEN({m}_tag, 1)"])
        inside = f"{self.name(t)}* at{says}; long number; char bytes[8];"
        named = self.draw.random() < 0.6
        path = f"o->{m}.{{}}" if named else f"o->{m}_{{}}"
        inside = inside if named else inside.replace(" at", f" {m}_at").replace(
            " number", f" {m}_number").replace(" bytes", f" {m}_bytes")
        at, number = path.format("at"), path.format("number")
        return Member(f"int {m}_tag; union {{ {inside} }}{' ' + m if named else ''};",
                      f"o->{m}_tag = draw(2); if (o->{m}_tag) {at} = some{t}(depth); else {number} = draw(90);",
                      f"if (o->{m}_tag) follow{t}({at}); else add({number});")

    def standard(self, m):
        t = self.draw.randrange(self.count)
        name = self.name(t)
        return self.draw.choice([
            Member(f"std::string {m};", f"o->{m} = text_of(draw(4));",
                   f"add((long)o->{m}.size()); for (char c : o->{m}) add(c);", f"o->{m} += \"more and more\";"),
            Member(f"std::vector<{name}*> {m};", f"for (int i = draw(4); i-- > 0;) o->{m}.push_back(some{t}(depth));",
                   f"for (auto* each : o->{m}) follow{t}(each);", f"o->{m}.push_back(some{t}(1));"),
            Member(f"std::vector<int> {m};", f"o->{m}.assign(draw(5), draw(9));", f"for (int each : o->{m}) add(each);",
                   f"o->{m}.resize(7);"),
            Member(f"std::map<int, {name}*> {m};", f"for (int i = draw(3); i-- > 0;) o->{m}[i * 3] = some{t}(depth);",
                   f"for (auto& [key, at] : o->{m}) add(key), follow{t}(at);", f"o->{m}[draw(9)] = some{t}(1);"),
            Member(f"std::unique_ptr<int> {m};", f"o->{m} = std::make_unique<int>(draw(9));", f"add(*o->{m});")])

    def members(self, i):
        kinds = [self.number, self.number, self.bits, self.characters, self.pointer, self.pointer, self.pointers,
                 self.anything, self.words, self.numbers, self.pointer_array, self.function, self.union,
                 lambda m: self.inner(m, i), lambda m: self.inner(m, i), lambda m: self.object_array(m, i)]
        if self.cpp:
            kinds += [self.standard] * 4
            if self.draw.random() < 0.4:
                self.virtual.add(i)
            able = [t for t in range(i) if t not in self.flexible]
            if able and self.draw.random() < 0.4:
                self.bases[i] = self.draw.choice(able)
        found = [self.draw.choice(kinds)(f"m{i}_{k}") for k in range(self.draw.randrange(1, 7))]
        if not self.cpp and self.draw.random() < 0.25:
            self.flexible.add(i)
            t, m = self.draw.randrange(self.count), f"m{i}_rest"
            loop = "for (int i = 0; i < o->rest_count; ++i) "
            found.append(Member(f"int rest_count; {self.name(t)}* {m}[];", f"{loop}o->{m}[i] = some{t}(depth);",
                                f"{loop}follow{t}(o->{m}[i]);"))
        return found

    def make(self, i):
        """What allocates one, as an expression of its type or of void*, with `n` behind it."""
        name = self.name(i)
        if self.cpp:
            return self.draw.choice([f"new {name}", f"new {name}()", f"new {name}{{}}",
                                     f"std::make_unique<{name}>().release()"])
        size = self.draw.choice([f"sizeof({name})", "sizeof *o"])
        if i in self.flexible:
            size += self.draw.choice([f" + n * sizeof(void*)", f" + n * sizeof o->m{i}_rest[0]"])
            return self.draw.choice([f"({name}*)malloc({size})", f"malloc({size})", f"calloc(1, {size})"])
        return self.draw.choice([f"malloc({size})", f"({name}*)malloc({size})", f"calloc(1, {size})", f"NEW({name})",
                                 f"realloc(NULL, {size})", f"taken({size})", f"({name}*)taken({size})",
                                 f"calloc({size}, 1)"])

    def write(self):
        out = []
        for i in range(self.count):
            out.append(f"{self.name(i)};" if not self.cpp else f"struct S{i};")
            out.append(f"static {self.name(i)}* some{i}(int depth);")
            out.append(f"static void follow{i}(const {self.name(i)}* o);")
        for i, members in enumerate(self.types):
            base = f" : S{self.bases[i]}" if i in self.bases else ""
            declared = [m.declare for m in members]
            own = f"int id{i};"
            if i in self.flexible:
                declared.insert(0, own)
            else:
                declared.insert(self.draw.randrange(len(declared) + 1), own)
            if i in self.virtual:
                declared.append(f"virtual int kind() const {{ return {i}; }}\n  virtual ~S{i}() = default;")
            out.append(f"struct S{i}{base} {{\n  " + "\n  ".join(declared) + "\n};")
        for i, members in enumerate(self.types):
            name = self.name(i)
            base = self.bases.get(i)
            out.append(f"static void fill{i}({name}* o, int depth) {{\n  (void)depth;\n  o->id{i} = next_id++;")
            if base is not None:
                out.append(f"  fill{base}(o, depth);")
            out += ["  " + m.fill for m in members] + ["}"]
            out.append(f"static void add{i}(const {name}* o) {{\n  add(o->id{i});")
            if base is not None:
                out.append(f"  add{base}(o);")
            if i in self.virtual:
                out.append("  add(o->kind());")
            out += ["  " + m.add for m in members] + ["}"]
            out.append(f"static void follow{i}(const {name}* o) {{\n  if (o == NULL) {{ add(7); return; }}\n"
                       f"  if (seen[o->id{i}]) {{ add(o->id{i}); return; }}\n  seen[o->id{i}] = 1;\n  add{i}(o);\n}}")
            out.append(f"static void change{i}({name}* o) {{\n  (void)o;")
            if base is not None:
                out.append(f"  change{base}(o);")
            out += ["  " + m.change for m in members if m.change] + ["}"]
        for i in range(self.count):
            name = self.name(i)
            out.append(f"static {name}* known{i}[kMost];\nstatic int count{i};")
            out.append(f"static {name}* some{i}(int depth) {{\n  const unsigned which = draw(8);\n"
                       f"  if (which == 0 || depth == 0 || count{i} == kMost) return NULL;\n"
                       f"  if (which < 3 && count{i} > 0) return known{i}[draw(count{i})];\n"
                       f"  const int n = draw(5);\n  (void)n;\n  {name}* o = {self.make(i)};")
            if i in self.flexible:
                out.append("  o->rest_count = n;")
            out.append(f"  known{i}[count{i}++] = o;\n  fill{i}(o, depth - 1);\n  return o;\n}}")
        roots = " ".join(f"{self.name(i)}* r{i};" for i in range(self.count))
        out.append(f"struct root {{ {roots} int version; int next; }};")
        each = range(self.count)
        out.append("static unsigned sum_of(const struct root* root) {\n  sum = 1;\n  memset(seen, 0, sizeof seen);")
        out += [f"  follow{i}(root->r{i});" for i in each]
        out.append("  return sum;\n}")
        out.append("static void forget(void) {")
        out += [f"  count{i} = 0;" for i in each]
        out.append("}")
        out.append("static void change(struct root* root) {\n  forget();\n  next_id = root->next;")
        out += [f"  if (root->r{i} != NULL) change{i}(root->r{i});\n"
                f"  {self.name(i)}* old{i} = root->r{i};\n  for (int k = 0; old{i} == NULL && k < 9; ++k)"
                f" old{i} = some{i}(3);\n  root->r{i} = old{i};" for i in each]
        out.append("  root->next = next_id;\n  ++root->version;\n}")
        out.append(self.main())
        self.text += "\n".join(out) + "\n"

    def main(self):
        opens = ("""  perdura::Options options;
  if (argc > 2) options.region_address = uintptr_t{0x2a} << 40;
  auto container = perdura::Container::open(argv[1], options);
  root* const root = static_cast<struct root*>(container.root(*PERDURA_RECORD(struct root)));
""", "  container.point(); container.sync();\n") if self.cpp else ("""  (void)argv;
  struct root* root = NULL;
  if (argc > 2 && mmap((void*)strtoull(argv[2], NULL, 0), 4096, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED) return 4;
  const int id = pCOpen(1, sizeof *root, (void**)&root);
  if (id < 0) return 5;
""", "  pPoint(id); pSync(id);\n")
        return """int main(int argc, char** argv) {
""" + opens[0] + """  state = 77 + root->version;
  if (root->version == 0) root->next = 1;
  printf("opened %u %d\\n", sum_of(root), root->version);
  for (int i = 0; i < 2; ++i) {
    change(root);
    const unsigned before = sum_of(root);
""" + opens[1] + """    if (sum_of(root) != before) { puts("another sum after the point"); return 3; }
  }
  printf("left %u %d %p %llu\\n", sum_of(root), root->version,
         (void*)((uintptr_t)root & ~(uintptr_t)0xfffffff), (unsigned long long)perdura_untyped_allocations());
  fflush(stdout);
  raise(SIGKILL);
}
"""


class Checker:
    def __init__(self, driver, folder):
        self.driver, self.folder = driver, folder

    def run(self, command):
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=self.folder,
                                  env={"PERDURA_STORE": f"file:{self.folder}/store", "PATH": "/usr/bin:/bin",
                                       "PERDURA_AUDIT_EXIT": "9"})
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", "takes longer than two minutes")

    def check(self, draw, cpp):
        source = self.folder / ("drawn.cc" if cpp else "drawn.c")
        source.write_text(Program(draw, cpp).text)
        driver = self.driver + ("++" if cpp else "")
        level = draw.choice(["-O1", "-O2", "-Os"] if cpp else ["-O0", "-O1", "-O2"])
        flags = ["-std=c++20" if cpp else "-std=gnu11", level, "-w", "-rdynamic", str(source)]
        for audit in [[], ["--perdura-audit"]]:
            for old in self.folder.glob("store*"):
                old.unlink()
            built = self.run([driver, "--perdura-types", *audit, *flags, "-o", str(self.folder / "drawn")])
            if built.returncode != 0 or "have no type" in built.stderr:
                return f"does not compile, or has allocations without a type: {built.stderr[:1000]}"
            said = self.sessions(cpp)
            if said:
                return f"{' '.join(audit)} {level}: {said}"
        return ""

    def sessions(self, cpp):
        left, address = "opened 1 0", None
        for session in range(3):
            elsewhere = [address] if session == 2 else []
            done = self.run([str(self.folder / "drawn"), f"file:{self.folder}/store", *elsewhere])
            lines = done.stdout.splitlines()
            if done.returncode != -9 or len(lines) != 2 or "perdura:" in done.stderr:
                return f"session {session} ends with {done.returncode}: {done.stdout}{done.stderr[-2000:]}"
            if session > 0 and lines[0] != left:
                return f"session {session} has '{lines[0]}' for '{left}'"
            _, total, version, address, untyped = lines[1].split()
            left = f"opened {total} {version}"
            if untyped != "0":
                return f"{untyped} allocations had no type"
        return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("driver")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--programs", type=int, default=1 << 62)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    checker = Checker(options.driver, options.work.resolve())
    start, seed, failed = time.monotonic(), options.seed, 0
    while seed < options.seed + options.programs and time.monotonic() - start < options.seconds:
        said = checker.check(random.Random(seed), cpp=seed % 2 == 0)
        if said:
            failed += 1
            print(f"--seed {seed}: {said}", flush=True)
        seed += 1
    print(f"{seed - options.seed} programs; {failed} fail")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
