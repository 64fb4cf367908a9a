// The program's own store beside the other one, by FGCK's calls.
#include <perdura/compat/fgck.h>
#include <perdura/perdura.h>

#include "live.hpp"

namespace perdura::model {
namespace {

struct Own {
  u64 steps;
  u64 words[30];
};

void require_done(int code, const char* what) {
  require(code == 0, std::string(what) + ": " + perdura_last_error());
}

Own* find_own() {
  auto* const own = static_cast<Own*>(nv_find("own"));
  require(own != nullptr || perdura_last_code() == PERDURA_NOT_FOUND,
          std::string("FGCK's store: ") + perdura_last_error());
  return own;
}

void step(Journal& journal, u64 number) {
  Own* own = find_own();
  const u64 steps = ++journal.done_of(Part::kOwn);
  if (own != nullptr && number % 8 == 0) {  // made anew
    require_done(nv_free(own), "nv_free");
    own = nullptr;
  }
  if (own == nullptr) own = static_cast<Own*>(nv_malloc(sizeof(Own), "own"));
  require(own != nullptr, std::string("nv_malloc: ") + perdura_last_error());
  own->steps = steps;
  for (u64 i = 0; i < std::size(own->words); ++i) own->words[i] = word_of(steps, i);
  if (number % 3 == 0) return;
  // The last checkpoint may have another object of this name.
  int code = number % 3 == 1 ? nv_ckone("own") : nv_ckall();
  if (code == -PERDURA_MISUSE) code = nv_ckall();
  require_done(code, "nv_ckone or nv_ckall");
  raise(journal.acknowledged_of(Part::kOwn), steps);
}

const ActionRegistration kOwn({
    .name = "fgck",
    .weight = 2.5,
    .by_one_thread = true,
    .possible = [](const Program& program, const Session&) { return program.own; },
    .run =
        [](Live& live, LaneRun&, const Action& action) {
          live.journal.use(Feature::kFgck);
          step(live.journal, action.number);
        },
});

}  // namespace

// Before the other one: where its objects are they must always be.
void open_own(Journal& journal) {
  const Own* const own = find_own();
  require_reached(journal, Part::kOwn, own == nullptr ? 0 : own->steps, "FGCK's object");
  if (own == nullptr) return;
  for (u64 i = 0; i < std::size(own->words); ++i)
    require(own->words[i] == word_of(own->steps, i), "FGCK's object is not of one step");
}

}  // namespace perdura::model
