#!/bin/sh
# What perdura classify writes, and what it refuses, each with a sentence: PERDURA INCLUDE.
set -eu
perdura=$1
include=$2
work=$(mktemp -d)  # below no compilation database
trap 'rm -rf "$work"' EXIT
cd "$work"

expect() {  # STATUS TEXT COMMAND…
  status=$1 text=$2
  shift 2
  found=0
  output=$("$@" 2>&1) || found=$?
  case $output in *"$text"*) ;; *) echo "'$*' says '$output', not '$text'"; exit 1 ;; esac
  if [ "$found" != "$status" ]; then echo "'$*' ends with $found, not $status"; exit 1; fi
}

cat >seats.cc <<'END'
#include <perdura/objects.hpp>
int sold_at_all = 0;
struct Seats {
  int sold[64];
  void sell(int row, int count) noexcept { sold[row] += count; }
  void note(int row) noexcept {
    ++sold[row];
    ++sold_at_all;
  }
  int reserve(int row) noexcept { return sold[row]++; }
  int left(int row) const noexcept { return 100 - sold[row]; }
};
template <>
struct perdura::Methods<Seats>
    : perdura::MethodList<perdura::Deferrable<&Seats::sell>, perdura::Instant<&Seats::note>,
                          perdura::Instant<&Seats::reserve>> {};
END
flags="-std=c++20 -isystem $include"

# --- what it says
# shellcheck disable=SC2086 # several
classify() { "$perdura" classify "$@" -- $flags; }
expect 0 "deferrable  Seats::sell(int, int)" classify seats.cc
expect 0 "touches the variable sold_at_all, which is outside of the object" classify seats.cc
expect 0 "seats.cc:8:  ++sold_at_all;" classify seats.cc
expect 0 "4 methods: 1 deferrable, 3 instant, 1 of them reads" classify seats.cc
expect 0 "hand the value over as an argument" classify seats.cc --remedies
classify seats.cc --json out.json --sarif out.sarif --html out.html >/dev/null
python3 - <<'END'
import json
methods = {each["method"]: each for each in json.load(open("out.json"))["methods"]}
assert methods["sell"]["verdict"] == "deferrable" and methods["sell"]["said"] == "deferrable"
assert methods["left"]["verdict"] == "read" and methods["left"]["said"] is None
assert methods["note"]["reasons"][0]["at"]["line"] == 8
run = json.load(open("out.sarif"))["runs"][0]
rules = {each["id"] for each in run["tool"]["driver"]["rules"]}
assert run["results"] and all(each["ruleId"] in rules for each in run["results"])
places = [each["locations"][0]["physicalLocation"]["region"]["startLine"]
          for each in run["results"]]
assert 8 in places, places
END
grep -q '<b class="deferrable">deferrable</b>' out.html
classify seats.cc --json first.json >/dev/null
cmp first.json out.json

# --- what has changed
classify seats.cc --save verdicts >/dev/null
expect 0 "" classify seats.cc --expect verdicts
sed -i 's/sold\[row\] += count;/sold[row] += count; sold_at_all += count;/' seats.cc
sed 's/Deferrable<&Seats::sell>/Instant<\&Seats::sell>/' seats.cc >instants.cc
sed 's/seats.cc/instants.cc/' verdicts >verdicts_of_instants
expect 1 "Seats::sell(int, int) is instant now, and deferrable in 'verdicts'" \
  classify instants.cc --expect verdicts
printf 'deferrable Seats::refund(int)\n' >>verdicts
expect 1 "Seats::refund(int) is there no more" classify instants.cc --expect verdicts
expect 2 "verdicts_wrong:1: a line is" sh -c \
  "echo 'lazy Seats::sell' >verdicts_wrong; '$perdura' classify instants.cc --expect verdicts_wrong -- $flags"
expect 2 "'none' cannot be read: --save makes it" classify instants.cc --expect none

# --- what is said wrongly
expect 1 "Seats::sell(int, int) is said to be deferrable, and it touches the variable sold_at_all" \
  classify seats.cc
cat >marked.cc <<'END'
#include <perdura/compat/simpo.hpp>
static int counter;
class Marked : public POBase {
 public:
  Marked() : POBase(64) {}
#begin defer
  void first() { ++*static_cast<int*>(poroot); }
  void second() { ++counter; }
#end
  [[perdura::instant]] void third() { ++*static_cast<int*>(poroot); }
};
END
expect 1 "marked.cc:6:1: Marked::second() is said to be deferrable, and it touches the variable counter" \
  classify marked.cc
sed 's/void second() { ++counter; }//' marked.cc >right.cc
expect 0 "2 methods: 2 deferrable" classify right.cc
sed 's/^#end//' marked.cc >open.cc
expect 2 "open.cc:6: no '#end' follows: add one behind the declarations" classify open.cc
sed 's/^#begin defer//' marked.cc >ended.cc
expect 2 "ended.cc:9: '#end' without a '#begin' before it: remove it" classify ended.cc
sed 's/^#begin defer/#begin later/' marked.cc >unknown.cc
expect 2 "unknown.cc:6: a directive is '#begin defer' or '#begin inst'" classify unknown.cc

# A directive may have a comment behind it, and is none in a comment or a text.
sed 's,^#begin defer,#begin defer  // all of them,; s,^#end,#end /* of these */,' right.cc >commented.cc
expect 0 "2 methods: 2 deferrable" classify commented.cc
cat >texts.cc <<'END'
#include <perdura/compat/simpo.hpp>
static int counter;
inline constexpr char kHelp[] = R"(
#begin defer
#end)";
/* As in
#begin defer
*/
class Texts : public POBase {
 public:
  Texts() : POBase(64) {}
  void set() { if constexpr (kHelp[1] == '#') ++counter; }
};
END
expect 0 "1 methods: 0 deferrable" classify texts.cc

# --- wrong use
expect 2 "there is no compilation database" "$perdura" classify seats.cc
expect 2 "there is no compilation database in 'nowhere'" "$perdura" classify seats.cc -p nowhere
expect 2 "there is no file 'missing.cc'" classify missing.cc
expect 2 "name sources, or a build folder with -p" "$perdura" classify
echo 'int f( { }' >wrong.cc
expect 2 "wrong.cc:1:11: expected ')'" classify wrong.cc
expect 2 "does not compile with Clang 19: correct it, or the flags" classify wrong.cc
echo 'struct Plain { void f() {} };' >plain.cc
expect 0 "There is no method to classify" classify plain.cc
expect 0 "deferrable  Plain::f()" classify plain.cc --class Plain
expect 2 "there is no class 'Plane' with methods in these sources" classify plain.cc --class Plane
expect 2 "cannot be read" classify plain.cc --class Plain --expect "$work"
expect 2 "cannot be written" classify plain.cc --class Plain --json /nowhere/out.json

# --- a compilation database
cat >compile_commands.json <<END
[{"directory": "$work", "file": "right.cc",
  "command": "g++ -std=c++20 -isystem $include -fpch-preprocess -Werror -o right.o -c right.cc"}]
END
expect 0 "2 methods: 2 deferrable" "$perdura" classify right.cc
expect 0 "2 methods: 2 deferrable" "$perdura" classify -p .
expect 2 "the compilation database has no command for 'seats.cc'" "$perdura" classify seats.cc -p .
echo '[{' >compile_commands.json
expect 2 "compile_commands.json' is damaged: let the build write it again" "$perdura" classify -p .
mkdir 'a folder&more'
echo 'struct Plain { int f() { return 1; } };' >'a folder&more/plain.cc'
expect 0 "a%20folder%26more/plain.cc" classify 'a folder&more/plain.cc' --class Plain --sarif -

# --- one class is one argument; columns are UTF-16's; what differs in & and && alone
cat >told.cc <<'END'
int counter;
struct Told {
  int n;
  void set() & { n = 1; }
  void set() && { ++counter; }
  void plain() { /* @@ */ ++counter; }
};
END
python3 - <<'END'
text = open("told.cc").read().replace("@@", "\u00e4\U0001f600")
open("told.cc", "w", encoding="utf-8").write(text)
END
expect 0 "Told::set() &&" classify --class Told told.cc
classify told.cc --class Told --save told_verdicts >/dev/null
expect 0 "" classify told.cc --class Told --expect told_verdicts
classify told.cc --class Told --sarif told.sarif >/dev/null
python3 - <<'END'
import json
run = json.load(open("told.sarif"))["runs"][0]
assert run["columnKind"] == "utf16CodeUnits"
columns = {each["locations"][0]["physicalLocation"]["region"]["startColumn"]
           for each in run["results"] if "plain" in each["message"]["text"]}
line = open("told.cc", encoding="utf-8").read().split("\n")[5]
before = line[:line.index("++counter")]
units = len(before.encode("utf-16-le")) // 2 + 1
assert any(units <= each <= units + 2 for each in columns), (columns, units)
END

# --- how many reasons are wanted changes no verdict
cat >most.cc <<'END'
int counter;
struct Most {
  int x;
  int of_both() const { return x + counter; }
  int of_object() const { return x; }
};
END
expect 0 "read        Most::of_object() const" classify most.cc --class Most --most 1
expect 0 "instant     Most::of_both() const" classify most.cc --class Most --most 1

# --- C: sizes that a declaration computes, constants of one name, parts of what is no variable
cat >sizes.c <<'END'
#include <stdarg.h>
#include <stdint.h>
struct state { int x; uint64_t u; };
int counter;
void of_parameter(struct state* s, int n, int (*p)[++counter]) { s->x = n; }
void of_static(struct state* s) { static int (*p)[++counter]; s->x = 1; }
static void take(int n, ...) {
  va_list list;
  va_start(list, n);
  (void)va_arg(list, int (*)[++counter]);
  va_end(list);
}
void of_argument(struct state* s) { take(1, (int(*)[1])0); s->x = 1; }
#define BOTH \
  void of_text(struct state* s, int i) { static const char* const k = "ab"; s->x = k[i & 1]; } \
  void of_counter(struct state* s) { static int* const k = &counter; s->x = *k; }
BOTH
struct where { int* sum; int* all[2]; };
static struct where where(void) { struct where w = {&counter, {&counter, &counter}}; return w; }
void of_result(struct state* s, int k) { *where().sum += k; s->x = k; }
void of_array_of_result(struct state* s) { s->x = *where().all[1]; }
static struct where inside(struct state* s) { struct where w = {&s->x, {&s->x, &s->x}}; return w; }
void of_own_result(struct state* s, int k) { *inside(s).all[0] += k; }
union two { void* p; uint64_t n; };
static union two made(void* p) { union two q = {.p = p}; return q; }
void by_result(struct state* s) { s->u = made(s).n; }
void by_cast(struct state* s) { s->u = ((union two)(void*)s).n; }
void by_array(struct state* s, int n) { int all[n + 1]; all[n] = 2; s->x = all[n]; }
END
"$perdura" classify sizes.c --functions --save sizes -- -std=gnu11
for each in of_parameter of_static of_argument of_counter by_result by_cast of_result \
  of_array_of_result; do
  grep -q "^instant $each(" sizes || { echo "$each is not instant"; cat sizes; exit 1; }
done
for each in by_array of_text of_own_result; do
  grep -q "^deferrable $each(" sizes || { echo "$each is not deferrable"; exit 1; }
done

# --- units that see other lines of one file: the order in which they are given says nothing
cat >view.hpp <<'END'
struct View { unsigned long u; void a() noexcept; void b() noexcept; };
static inline void fix(View* s) {
  const void* p = s;
  const void* q = &p;
  s->u = static_cast<const VIEW*>(q)[1];
}
END
echo '#define VIEW unsigned short
#include "view.hpp"
void View::a() noexcept { fix(this); }' >view_1.cc
echo '#define VIEW unsigned char
#include "view.hpp"
void View::b() noexcept { fix(this); }' >view_2.cc
classify view_1.cc view_2.cc --class View --save views >/dev/null
classify view_2.cc view_1.cc --class View --save views_back >/dev/null
cmp views views_back
# Units are parsed side by side: what they share is there before.
for _ in $(seq 60); do
  classify view_1.cc view_2.cc --class View --save views_again >/dev/null
  cmp views views_again
done

# --- functions that end a program, where a source has others of their names
cat >ends.cc <<'END'
#include <cstdlib>
struct Ends {
  int n;
  void set(int k) { if (k) std::abort(); n = k; }
};
END
cat >own_end.cc <<'END'
int failures;
extern "C" void abort() { for (;;) ++failures; }
END
expect 0 "1 methods: 1 deferrable" classify ends.cc --class Ends
expect 0 "touches the variable failures" classify ends.cc own_end.cc --class Ends

# --- digits in groups begin no character
cat >groups.cc <<'END'
const char* help() { int k = 1'000; return k ? R"(
#begin inst
)" : ""; }
struct Groups { int n; void set() { n = 1'000; } };
END
expect 0 "1 methods: 1 deferrable" classify groups.cc --class Groups

# --- what is said at a declaration; what is said at the body counts more, in either order
cat >said.hpp <<'END'
#pragma once
struct Said { int n; [[perdura::instant]] void set(); };
END
cat >uses_said.cc <<'END'
#include "said.hpp"
void use(Said& said) { said.set(); }
END
cat >has_said.cc <<'END'
#include "said.hpp"
int counter;
[[perdura::deferrable]] void Said::set() { ++counter; }
END
expect 1 "Said::set() is said to be deferrable" classify uses_said.cc has_said.cc --class Said
expect 1 "Said::set() is said to be deferrable" classify has_said.cc uses_said.cc --class Said
cat >declared.cc <<'END'
int counter;
struct Declared {
  int v;
#begin	defer
  void set();
#end
};
void Declared::set() { v = counter; }
END
expect 1 "declared.cc:4:1: Declared::set() is said to be deferrable, and it touches the variable" \
  classify declared.cc --class Declared

# --- marks: behind comments that go on, and not of two methods at once
cat >comments.cc <<'END'
struct Comments {
  int v;
  void first() { ++v; } /* a comment
     of two lines */
  void second() { v = 2; } // one \
     goes on
  void third() { v = 3; }
};
END
for _ in 1 2; do
  expect 0 "" classify comments.cc --class Comments --write --directives
  expect 0 "3 methods: 3 deferrable" classify comments.cc --class Comments
done
cat >together.cc <<'END'
int counter;
struct Together {
  int v;
  void first(), second();
};
void Together::first() { ++v; }
void Together::second() { ++counter; }
END
cp together.cc together.before
expect 2 "another method is declared in the same declaration" \
  classify together.cc --class Together --write
cmp together.cc together.before
expect 2 "--write and --diff go without --json" \
  classify together.cc --class Together --write --save together
echo "all as expected"
