"""Goal: whatever a class looks like, refactor refuses it with places and remedies, or makes a class of
it that two compilers take without a warning, that has all comments and line ends of what it was, and
that a second time leaves as it is. Method: classes are drawn by a seed: overloads, defaults, templates,
namespaces, classes in classes, bases, macros, names that collide, comments between any two tokens, CR
LF. POBase is a stand-in of a few lines, so that many can be compiled.

    drawn_shapes.py PERDURA_SOURCE COMPILER... [--seconds N] [--shapes N] [--seed S]
"""
import argparse
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

STAND_IN = """#pragma once
constexpr int ALL = -1;
class POBase {
 public:
  explicit POBase(int, int = 0) : poroot(memory_) {}
  virtual ~POBase() = default;
  POBase(const POBase&) = delete;
  void sync() {}
 protected:
  void* poroot;
  template <auto F, class C> void defer(const C& context, int = ALL) { F(poroot, context); }
  template <auto F, class C> auto inst(const C& context, int = ALL) { return F(poroot, context); }
 private:
  char memory_[400] = {};
};
"""
HEAD = """#include <perdura/compat/simpo.hpp>

#define CHECK(what) (static_cast<void>(what))
#define TWICE(x) (2 * (x))
#define NOTHING
struct Row {
  int x = 1;
  int y = 2;
};
enum class Color : char { kRed, kGreen };
using Word = unsigned long;
inline constexpr int kLimit = 7;
inline int plus(int a, int b) { return a + b; }
"""
COLLIDING = ["struct AddContext { int v = 1; };\ninline int of_context() { return AddContext().v; }",
             "inline int set_int(int x) { return x; }", "#define StepContext2 1",
             "struct StepContext {};", "inline int get_none() { return 1; }",
             "namespace other { struct FContext {}; inline int add_2() { return 2; } }"]
# Of each type a value, and an int made of one.
TYPES = {"int": ("3", "{}"), "long": ("4L", "static_cast<int>({})"),
         "unsigned": ("5U", "static_cast<int>({})"), "double": ("2.5", "static_cast<int>({})"),
         "short": ("short{6}", "int{{{}}}"), "bool": ("true", "({} ? 1 : 0)"),
         "Row": ("Row{1, 2}", "{}.x"), "Color": ("Color::kGreen", "static_cast<int>({})"),
         "Word": ("Word{7}", "static_cast<int>({})"),
         "unsigned long int": ("8UL", "static_cast<int>({})"),
         "struct Row": ("Row{3, 4}", "{}.y"), "decltype(0)": ("9", "{}"),
         "Inner": ("Inner{3}", "{}.v"), "const int": ("1", "{}"), "T": ("T(2)", "static_cast<int>({})")}
NAMES = ["add", "set", "get", "step", "f", "g", "row_inc"]
ARGUMENTS = ["x", "y", "n", "value", "by", "i_", "context", "dhint", "argument1", "call", "add", "g",
             "AddContext", "Shaped", "words", "simpo", "kLimit"]


class Method:
    def __init__(self, draw, shape):
        self.draw, self.shape = draw, shape
        self.name = draw.choice(NAMES)
        self.result = draw.choice(["void", "void", "int", "long", "Row", "bool"])
        self.arguments = []  # (type, name, default)
        names = draw.sample(ARGUMENTS, 3)
        kinds = list(TYPES)
        if not shape.is_template:
            kinds.remove("T")
        has_default = False
        for i in range(draw.choice([0, 1, 1, 2, 2, 3])):
            kind = draw.choice(kinds)
            name = names[i] if draw.random() < 0.85 and names[i] != self.name else ""
            if kind in ("Row", "Color") and draw.random() < 0.1 and i == 0:
                name = kind
            has_default |= draw.random() < 0.15
            self.arguments.append((kind, name, TYPES[kind][0] if has_default else ""))
        self.is_const = draw.random() < 0.25
        self.is_static = draw.random() < 0.06
        self.is_virtual = not self.is_static and draw.random() < 0.06
        self.noexcept = draw.choice([""] * 6 + [" noexcept", " noexcept(true)", " noexcept(false)",
                                                " noexcept(sizeof(unsigned int) == 4)"])
        self.is_far = draw.random() < 0.3
        self.is_private = draw.random() < 0.2
        self.trailing = draw.random() < 0.08
        self.before = draw.choice([""] * 9 + ["inline ", "[[nodiscard]] ", "[[maybe_unused]] ",
                                              "[[perdura::instant]] "])
        if self.result == "void" and "nodiscard" in self.before:
            self.before = ""
        self.odd = draw.random() < 0.04

    def key(self):
        return self.name, tuple(re.sub("struct |const ", "", each[0]).replace("decltype(0)", "int")
                                .replace("Word", "unsigned long int") for each in self.arguments)

    def head(self, owner, in_class):
        arguments = ", ".join(
            f"{kind}{' ' if name else ''}{name}" + (f" = {other}" if other and in_class else "")
            for kind, name, other in self.arguments)
        before = self.before if in_class or "inline" in self.before else ""
        if in_class:
            before += "static " if self.is_static else "virtual " if self.is_virtual else ""
        elif not self.shape.is_template and "inline" not in before:
            before += "inline "
        result = f"auto {owner}{self.name}({arguments})" if self.trailing else \
            f"{self.result} {owner}{self.name}({arguments})"
        tail = (" const" if self.is_const and not self.is_static else "") + self.noexcept
        return before + result + tail + (f" -> {self.result}" if self.trailing else "")

    def number(self):
        """An int."""
        draw = self.draw
        usable = [each for each in self.arguments if each[1]]
        choice = draw.random()
        if usable and choice < 0.4:
            kind, name, _ = draw.choice(usable)
            return TYPES[kind][1].format(name)
        if choice < 0.55 and not self.is_static:
            return draw.choice(["words()[1]", "this->words()[2]", "(*this).words()[0]",
                                "static_cast<const int*>(poroot)[3]",
                                "static_cast<int*>(this->poroot)[3]", "words()[words()[0] & 3]"])
        if choice < 0.65 and not self.is_static:
            return self.call(True)
        return draw.choice(["1", "plus(1, 2)", "TWICE(3)", "kOwn", "twice(4)", "sizeof(int) > 2",
                            "::kLimit", "Inner{4}.v", "[] { return 2; }()", "'a'", '"text"[1]',
                            'R"(raw /* no comment */)"[2]'])

    def call(self, answers):
        known = [each for each in self.shape.methods
                 if not each.is_virtual and (each.result == "int") >= answers and not each.is_const]
        hiding = {each[1] for each in self.arguments}
        if not known or self.is_const:
            return "1"
        of = self.draw.choice(known)
        given = ", ".join(TYPES[each[0]][0] if self.draw.random() < 0.6 else
                          f"static_cast<{re.sub('const ', '', each[0])}>({TYPES[each[0]][0]})"
                          for each in of.arguments)
        who = self.draw.choice(["", "", "this->", "(*this).", f"{self.shape.name}::"])
        if of.name in hiding and not who or who.startswith("Shaped") and "Shaped" in hiding:
            who = "this->"
        return f"{who}{of.name}({given})"

    def statement(self, number):
        draw = self.draw
        changed = [each[1] for each in self.arguments if each[1] and each[0] in ("int", "long")]
        plain = ["static_cast<void>(N);", "if (N > 2) { static_cast<void>(N); }",
                 f"for (int k{number} = 0; k{number} < 2; ++k{number}) static_cast<void>(N);",
                 f"int local{number} = N; ++local{number}; static_cast<void>(local{number});", "CHECK(N);", "{ NOTHING; }",
                 f"const auto lambda{number} = [&](int k) {{ return k + N; }}; "
                 f"static_cast<void>(lambda{number}(1));",
                 f"const auto lambda{number} = [&](auto k) {{ return k + N; }}; "
                 f"static_cast<void>(lambda{number}(1));",
                 f"struct Local{number} {{ int v; int get() const {{ return v; }} }}; "
                 f"static_cast<void>(Local{number}{{N}}.get());",
                 f"if (N == 12) goto label{number};\n  label{number}:\n    static_cast<void>(N);",
                 f"auto [a{number}, b{number}] = Row{{}}; static_cast<void>(a{number} + b{number});",
                 "switch (N) { case 1: break; default: static_cast<void>(N); }",
                 "static_assert(noexcept(1 + 1));", "static_cast<void>(sizeof(N));",
                 "do { static_cast<void>(N); } while (false);"]
        if not self.is_static:
            plain += ["static_cast<int*>(poroot)[1] = N;"]
            if not self.is_const:
                plain += ["words()[N & 3] += N;", "static_cast<void>(" + self.call(False) + ");"]
                called = self.call(True)
                name = re.sub(r".*?(\w+)\(.*", r"\1", called)
                if name in NAMES and name not in {each[1] for each in self.arguments}:
                    plain += [f"{{ int {name} = 2; static_cast<void>({name} + this->"
                              f"{called[called.index(name + '('):]}); }}"]
        if changed:
            name = draw.choice(changed)
            plain += [f"++{name};", f"{name} += 2;",
                      f"[{name}]() mutable {{ static_cast<void>(++{name}); }}();",
                      f"[&{name}] {{ ++{name}; }}();", f"auto& r{number} = {name}; ++r{number};"]
        if self.odd:
            plain = ["static_cast<void>(this);", "sync();", "throw 1;", "static_cast<void>(__func__);",
                     "static_cast<void>(__PRETTY_FUNCTION__);", "static_cast<void>(sizeof(*this));",
                     f"int poroot{number} = 0; int poroot = poroot{number}; static_cast<void>(poroot);"]
        return re.sub(r"\bN\b", lambda _: f"({self.number()})", draw.choice(plain))

    def body(self):
        lines = [self.statement(i) for i in range(self.draw.randrange(4))]
        lines += [f"static_cast<void>({name});" for _, name, _ in self.arguments if name]
        value = {"Row": "Row{}", "void": "", "bool": "true", "long": "1L"}.get(self.result)
        lines.append(f"return {self.number() if value is None else value};")
        return "{\n    " + "\n    ".join(lines) + "\n  }"


class Shape:
    def __init__(self, draw):
        self.draw, self.name = draw, "Shaped"
        self.is_template = draw.random() < 0.2
        self.methods = []
        keys = set()
        for _ in range(draw.randrange(1, 6)):
            method = Method(draw, self)
            if method.key() not in keys:
                keys.add(method.key())
                self.methods.append(method)
        self.text = self.drawn()

    def class_text(self):
        draw = self.draw
        final = " final" if draw.random() < 0.1 else ""
        open_ = "template <class T, int kSize>\n" if self.is_template else ""
        lines = [f"{open_}class {self.name}{final} : public POBase {{", " public:",
                 f"  explicit {self.name}(int poid = 0) : POBase(400, poid) {{", ]
        if draw.random() < 0.3:
            void = [each for each in self.methods if not each.arguments and not each.is_static]
            lines += [f"    static_cast<void>({each.name}());" for each in void[:1]]
        lines += ["  }", "  struct Inner { int v; };", "  static constexpr int kOwn = 5;",
                  "  static int twice(int v) { return 2 * v; }"]
        outside = []
        owner = f"{self.name}<T, kSize>::" if self.is_template else f"{self.name}::"
        is_private = False
        for each in self.methods:
            if each.is_private != is_private:
                is_private = each.is_private
                lines.append(" private:" if is_private else " public:")
            if each.is_far and not each.trailing:
                lines.append(f"  {each.head('', True)};")
                outside.append(("template <class T, int kSize>\n" if self.is_template else "") +
                               f"{each.head(owner, False)} {each.body()}")
            else:
                lines.append(f"  {each.head('', True)} {each.body()}" + draw.choice(["", "", ";"]))
        lines += [draw.choice([" private:", " protected:"]),
                  "  int* words() { return static_cast<int*>(poroot); }",
                  "  const int* words() const { return static_cast<const int*>(poroot); }", "};"]
        return "\n".join(lines + outside) + "\n"

    def callers(self):
        draw = self.draw
        kind = f"{self.name}<int, 3>" if self.is_template else self.name
        text = f"template class {kind};\n" if self.is_template else ""
        usable = [each for each in self.methods if not each.is_private and not each.is_static]
        calls, through = [], []
        for i, each in enumerate(usable):
            given = ", ".join(re.sub(r"\bInner\b", f"{kind}::Inner", re.sub(r"\bT\b", "int", TYPES[a[0]][0]))
                              for a in each.arguments)
            calls.append(draw.choice([
                "static_cast<void>(object.M);", "static_cast<void>((&object)->M);",
                "static_cast<void>([&](auto& of) { return of.M; }(object));",
                "static_cast<void>(sizeof(decltype(object.M)*));", "static_cast<void>(by(object));",
                "static_assert(requires { object.M; });"]).replace("M", f"{each.name}({given})"))
            through.append(f"  of.{each.name}({given});")
        text += "template <class O>\nint by(O& of) {\n" + "\n".join(
            each.replace("  of.", "  static_cast<void>(of.").replace(");", "));") for each in through[:2]
        ) + "\n  static_cast<void>(of);\n  return 1;\n}\n"
        return text + f"inline void use({kind}& object) {{\n  static_cast<void>(object);\n  " + \
            "\n  ".join(calls) + "\n}\n"

    def derived(self):
        if self.is_template or "final :" in self.text or self.draw.random() < 0.8:
            return ""
        inner = [f"    static_cast<void>({each.name}({', '.join(TYPES[a[0]][0] for a in each.arguments)}));"
                 for each in self.methods if not each.is_private and not each.is_virtual]
        return (f"class Derived : public {self.name} {{\n public:\n  void own(int v) {{\n" +
                "\n".join(inner) + "\n    static_cast<int*>(poroot)[5] = v;\n  }\n};\n"
                "inline void use(Derived& object) { object.own(1); }\n")

    def drawn(self):
        draw = self.draw
        self.text = self.class_text()
        self.text += self.derived() + self.callers()
        if draw.random() < 0.3:
            self.text = f"namespace {draw.choice(['a', 'a::b', 'Row_'])} {{\n{self.text}}}\n"
        if draw.random() < 0.3:
            self.text = with_comments(draw, self.text)
        head = HEAD + "".join(each + "\n" for each in COLLIDING if draw.random() < 0.15)
        return head + self.text


TOKENS = re.compile(r'R"\(.*?\)"|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\w[\w.]*|::|->|\+\+|--|'
                    r'\+=|==|&&|\|\||\[\[|\]\]|>=|\s+|.', re.S)


def with_comments(draw, text):
    """Between any two tokens, with numbers."""
    result, number = "", 0
    for token in TOKENS.findall(text):
        result += token
        if draw.random() < 0.02:
            number += 1
            result += f"/* c{number}. */" if draw.random() < 0.7 else f" // c{number}.\n"
    return result


def run(command, **more):
    return subprocess.run([str(each) for each in command], capture_output=True, text=True,
                          timeout=60, **more)


class Checker:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        (folder / "perdura" / "compat").mkdir(parents=True)
        (folder / "perdura" / "compat" / "simpo.hpp").write_text(STAND_IN)
        (folder / ".clang-format").write_text("BasedOnStyle: Google\n")
        self.flags = ["-std=c++20", f"-I{folder}"]

    def refactor(self, source, to):
        return run([self.options.tool, "refactor", "--callers", "--output", to, source, "--",
                    *self.flags])

    def compiles(self, source):
        """What the compilers say."""
        done = [run([each, *self.flags, "-Wall", "-Wextra", "-Werror", "-Wno-attributes",
                     "-Wno-infinite-recursion",
                     "-fsyntax-only", "-x", "c++", source]) for each in self.options.compilers]
        return "".join(each.stderr for each in done if each.returncode != 0)

    def check(self, source):
        """(what came of it, what is wrong)"""
        made = self.folder / "made"
        done = self.refactor(source, made)
        if done.returncode == 2 and "does not compile" in done.stderr:
            return "invalid", ""
        if done.returncode == 1:
            lines = done.stderr.strip().split("\n")
            bad = [each for each in lines
                   if not re.match(rf"perdura: {re.escape(str(source))}:\d+:\d+: .+[:,] .+", each)]
            return "refused", "\n".join(bad)
        if done.returncode != 0:
            return "failed", f"ends with {done.returncode}: {done.stderr}"
        if done.stderr or not (made / source.name).exists():
            return "unchanged", done.stderr
        wrong = self.check_result(source, made / source.name)
        return ("invalid", "") if wrong is None else ("done", wrong)

    def check_result(self, source, result):
        """What is wrong; None: what it was does not compile either."""
        before, after = source.read_bytes(), result.read_bytes()
        if b"\r\n" in before and re.search(rb"(?<!\r)\n|\r\r", after):
            return "line ends are mixed"
        lost = set(re.findall(rb" c\d+\.", before)) - set(re.findall(rb" c\d+\.", after))
        if lost:
            return f"comments are lost: {sorted(lost)}"
        said = self.compiles(result)
        if said:
            return None if self.compiles(source) else said
        again = self.refactor(result, self.folder / "again")
        if again.returncode != 0 or list((self.folder / "again").glob("*")):
            return f"is changed again: {again.stderr}"
        return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("compilers", nargs="+")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--shapes", type=int, default=1 << 62, help="at most so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="store_true", help="this seed, and print what comes of it")
    options = parser.parse_args()
    start, seed, counts, failed = time.monotonic(), options.seed, {}, 0
    last = seed + options.shapes
    while seed < last and time.monotonic() - start < options.seconds:
        with tempfile.TemporaryDirectory() as name:
            checker = Checker(options, pathlib.Path(name))
            draw = random.Random(seed)
            text = Shape(draw).text
            source = checker.folder / "shaped.hpp"
            end = "\r\n" if draw.random() < 0.2 else "\n"
            source.write_bytes(text.replace("\n", end).encode())
            try:
                outcome, wrong = checker.check(source)
            except subprocess.TimeoutExpired:
                outcome, wrong = "failed", "takes longer than a minute"
            counts[outcome] = counts.get(outcome, 0) + 1
            if wrong or options.only:
                failed += bool(wrong)
                made = checker.folder / "made" / source.name
                print(f"--seed {seed}: {outcome}: {wrong}")
                if options.only:
                    print(text, made.read_text() if made.exists() else
                          checker.refactor(source, made).stderr)
                    break
        seed += 1
    print(f"{sum(counts.values())} shapes: {counts}; {failed} fail")
    return 1 if failed or counts.get("done", 0) * 3 < sum(counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
