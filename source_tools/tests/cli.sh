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
echo "all as expected"
