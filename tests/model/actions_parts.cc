// Parts of a store beside the lanes: an object that becomes durable alone, and a region that is
// used through the C API. Each counts its steps, and its content follows from the count.
#include <sys/resource.h>

#include <perdura/perdura.h>

#include "live.hpp"

namespace perdura::model {

/// An object with a version of its own.
struct Alone {
  u64 steps;
  u64 words;
  Alone* self;
  u64 data[];
};

namespace {

constexpr const char* kAlone = "alone";

// --- alone --------------------------------------------------------------------------------------

void fill(Alone* alone, u64 steps, u64 words) {
  alone->steps = steps;
  alone->words = words;
  alone->self = alone;
  for (u64 i = 0; i < words; ++i) alone->data[i] = word_of(steps, i);
}

constexpr perdura_slot kAloneSlots[] = {
    {"self", PERDURA_SLOT_POINTER, offsetof(Alone, self), sizeof(Alone*), nullptr, 0, 0, 0}};
constexpr perdura_type kAloneType = {"model::Alone", kLineBytes, kLineBytes, 1, kAloneSlots};

/// Of few sizes, among them blocks of units of their own: others then begin where it began.
u64 drawn_words(u64 number) {
  constexpr u64 kWords[] = {6, 30, 200, 6000, 12000, 20000};
  return kWords[number % std::size(kWords)];
}

/// It has lines that no other object has a part in.
Alone* make_alone(Live& live, const Operation& operation, u64 steps, u64 words) {
  auto* const alone = static_cast<Alone*>(
      live.store->allocate_flexible(kAloneType, std::max(kLineBytes, sizeof(Alone) + words * 8)));
  fill(alone, steps, words);
  try {
    live.store->set_root(kAlone, alone);
  } catch (const Error&) {
    operation.deallocate(alone);
    throw;
  }
  return alone;
}

bool has_alone(const Program& program, const Session&) {
  return program.options.aliases != 0 && program.options.engine != Engine::kRemap &&
         program.options.region_limit_bytes != kSmallRegion;
}

const ActionRegistration kCheckpointRoot({
    .name = "checkpoint_root",
    .weight = 4,
    .by_one_thread = true,
    .possible = has_alone,
    .run =
        [](Live& live, LaneRun&, const Action& action) {
          Journal& journal = live.journal;
          journal.use(Feature::kCheckpointRoot);
          auto* alone = static_cast<Alone*>(live.store->get_root(kAlone));
          const u64 steps = journal.done_of(Part::kAlone) + 1;
          const bool is_new =
              action.number % 4 < 2 && live.session.fault_at == 0 && !live.session.full_disk;
          const u64 drawn = is_new ? drawn_words(action.number / 4) : 0;
          {
            const auto operation = live.store->operation();
            if (alone == nullptr) {
              make_alone(live, operation, steps, 6 + drawn);
            } else if (drawn != 0) {  // of another size, perhaps in the same place
              operation.deallocate(alone);
              make_alone(live, operation, steps, drawn);
            } else {
              fill(alone, steps, alone->words);
            }
            journal.done_of(Part::kAlone) = steps;
          }
          if (action.number % 3 == 0) return;
          try {
            live.store->checkpoint_root(kAlone);
          } catch (const Error& error) {
            // The last version has another object there, or what it holds is not known since there
            // was no memory for that.
            if (error.code() != Code::kMisuse &&
                (error.code() != Code::kNoMemory || !live.was_starved))
              throw;
            const Done done = live.done();
            live.store->checkpoint();
            live.acknowledge(done);
            return;
          }
          live.acknowledge(Part::kAlone, steps);
        },
});

// --- another region, from C ---------------------------------------------------------------------

struct PlainRoot {
  u64 steps;
  u64 words[7];
};

void require_c(int code, const char* what) {
  if (code != 0)
    throw Error(static_cast<Code>(-code), std::string(what) + ": " + perdura_last_error());
}

struct Closing {
  void operator()(perdura_store* store) const { perdura_close(store); }
};

/// Also where a step fails: a store does not close inside an operation.
struct Ending {
  void operator()(perdura_store* store) const { perdura_operation_end(store); }
};

/// A new root, in an operation.
void step_plain(Live& live, perdura_store* store) {
  Journal& journal = live.journal;
  if (journal.done_of(Part::kPlain) % 3 == 1) {
    journal.use(Feature::kMisuse);
    perdura_operation_end(store);
    require(perdura_last_code() == PERDURA_MISUSE, "an end of an operation too many was accepted");
  }
  require_c(live.library([&] { return perdura_operation_begin(store); }),
            "perdura_operation_begin");
  const std::unique_ptr<perdura_store, Ending> operation(store);
  auto* root = static_cast<PlainRoot*>(perdura_root_get(store, "plain"));
  require_reached(journal, Part::kPlain, root == nullptr ? 0 : root->steps, "the region from C");
  if (root != nullptr)
    for (u64 i = 0; i < std::size(root->words); ++i)
      require(root->words[i] == word_of(root->steps, i), "the region from C is wrong");
  auto* const made = static_cast<PlainRoot*>(
      live.library([&] { return perdura_alloc(store, sizeof(PlainRoot)); }));
  if (made == nullptr) require_c(-perdura_last_code(), "perdura_alloc");
  made->steps = journal.done_of(Part::kPlain) + 1;
  for (u64 i = 0; i < std::size(made->words); ++i) made->words[i] = word_of(made->steps, i);
  const int code = live.library([&] { return perdura_root_set(store, "plain", made); });
  if (code != 0) {
    perdura_free(store, made);
    require_c(code, "perdura_root_set");
  }
  require_c(perdura_free(store, root), "perdura_free");
}

const ActionRegistration kPlain({
    .name = "region_from_c",
    .weight = 0.7,
    .by_one_thread = true,
    .possible = has_regions,
    .run =
        [](Live& live, LaneRun&, const Action& action) {
          Journal& journal = live.journal;
          journal.use(Feature::kCApi);
          journal.use(Feature::kRegion);
          perdura_options options{};
          options.region = "plain";
          options.region_limit_bytes = 16 * kMiB;
          options.engine = static_cast<perdura_engine>(live.program.options.engine);
          perdura_store* store = nullptr;
          const int opened =
              live.library([&] { return perdura_open(live.uri.c_str(), &options, &store); });
          // Not while what is opened before it has its place.
          if (opened == -PERDURA_ADDRESS_TAKEN && live.program.own) return;
          require_c(opened, "perdura_open");
          std::unique_ptr<perdura_store, Closing> closing(store);
          step_plain(live, store);
          const u64 steps = ++journal.done_of(Part::kPlain);
          if (action.number % 2 == 0)
            require_c(live.library([&] { return perdura_checkpoint(store, nullptr); }),
                      "perdura_checkpoint");
          require_c(live.library([&] { return perdura_close(closing.release()); }),
                    "perdura_close");
          live.acknowledge(Part::kPlain, steps);
        },
});

// --- limits -------------------------------------------------------------------------------------

/// No file can be opened; the store goes on, and another one opens when that is over.
const ActionRegistration kNoDescriptors({
    .name = "checkpoint_without_descriptors",
    .weight = 0.5,
    .possible = [](const Program&, const Session& session) { return !session.parallel; },
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          rlimit before{};
          ::getrlimit(RLIMIT_NOFILE, &before);
          // Those of every process stay; of more than the limit none are waited for.
          const rlimit none{.rlim_cur = 3, .rlim_max = before.rlim_max};
          ::setrlimit(RLIMIT_NOFILE, &none);
          perdura_options options{};
          options.region = "none";
          perdura_store* store = nullptr;
          const int opened = perdura_open((live.uri + ".none").c_str(), &options, &store);
          std::exception_ptr thrown;
          try {
            action_kind("checkpoint").run(live, run, action);
          } catch (...) {
            thrown = std::current_exception();
          }
          ::setrlimit(RLIMIT_NOFILE, &before);
          live.journal.use(Feature::kNoDescriptors);
          require(opened != 0, "a store was opened without a descriptor");
          // Each queue to a server has a connection of its own.
          if (thrown && live.program.medium == "memcached")
            return action_kind("checkpoint").run(live, run, action);
          if (thrown) std::rethrow_exception(thrown);
        },
    .covers = true,
});

}  // namespace

void require_reached(Journal& journal, Part part, u64 found, const char* what) {
  const u64 acknowledged = journal.acknowledged_of(part);
  require(acknowledged <= found && found <= journal.done_of(part),
          std::string(what) + " has come to step " + std::to_string(found) + ", acknowledged is " +
              std::to_string(acknowledged) + ", done were " +
              std::to_string(journal.done_of(part)));
  journal.done_of(part) = found;
}

bool has_regions(const Program& program, const Session&) {
  return program.options.region_limit_bytes != kSmallRegion;
}

void find_parts(Live& live) {
  const auto* const alone = static_cast<const Alone*>(live.store->get_root(kAlone));
  require_reached(live.journal, Part::kAlone, alone == nullptr ? 0 : alone->steps,
                  "the object alone");
}

std::string check_parts(Live& live, u64& blocks) {
  if (live.store->get_root("twice") != nullptr) ++blocks;
  const auto* const alone = static_cast<const Alone*>(live.store->get_root(kAlone));
  if (alone == nullptr) return {};
  ++blocks;
  if (alone->self != alone) return "the object alone has a wrong pointer to itself";
  if (live.store->usable_size(alone) < sizeof(Alone) + alone->words * sizeof(u64))
    return "the block of the object alone is too small";
  for (u64 i = 0; i < alone->words; ++i)
    if (alone->data[i] != word_of(alone->steps, i)) return "the object alone is not of one version";
  return {};
}

}  // namespace perdura::model
