#include "heap/closure.hpp"

#include <atomic>
#include <cstring>

#include "base/threads.hpp"

namespace perdura::heap {

Closure::Closure(Side durable, Side is_volatile, Observer& observer)
    : durable_(durable),
      volatile_(is_volatile),
      observer_(observer),
      durable_begin_(reinterpret_cast<std::uintptr_t>(durable.heap.blocks().region().base())),
      durable_bytes_(durable.heap.blocks().region().limit()),
      volatile_begin_(reinterpret_cast<std::uintptr_t>(is_volatile.heap.blocks().region().base())),
      volatile_bytes_(is_volatile.heap.blocks().region().limit()),
      durable_words_(durable.heap),
      volatile_words_(is_volatile.heap),
      layouts_(is_volatile.heap.types().layouts()),
      tags_(is_volatile.heap, durable.heap, durable.mutator) {
  status_ = guarded([this] { return durable_.heap.load_typed(); });
}

/// Finds the groups of changed pages with a word that leads out of the heap. Only reads.
class Closure::Sieve {
 public:
  Sieve(const Closure& closure, const track::DirtyMap& pages) : closure_(closure), pages_(pages) {
    for (u64 group = 0; group < pages.groups(); ++group)
      if (pages.has_group(group)) groups_.push_back({group, true});
  }

  // Of a few groups it would only make two visits of one.
  void run() {
    const u64 threads = groups_.size() / kGroupsPerThread;
    if (threads > 1) share_among_threads(threads, [this] { sift(); });
  }

  u64 words_left_out() const { return words_.load(); }
  template <class Visit>
  void for_each_group(Visit&& visit) const {
    for (const Group& group : groups_)
      if (group.leads_out) visit(group.number);
  }

 private:
  static constexpr u64 kGroupsPerThread = 32;  ///< a millisecond; a thread may start in half of it
  static constexpr u64 kLeadOutMax = 8;

  struct Group {
    u64 number;
    bool leads_out;  ///< also when nobody has looked
  };

  // Ends early where most groups are to be visited in any case.
  void sift() noexcept {
    u64 words = 0;
    for (;;) {
      const u64 i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= groups_.size() || leading_out_.load(std::memory_order_relaxed) > i / 8 + kLeadOutMax)
        break;
      u64 in_group = 0;
      bool leads_out = false;
      closure_.durable_words_.for_each_in(pages_, groups_[i].number, [&](const u64* word, bool) {
        ++in_group;
        leads_out |= closure_.leads_out(*word);
      });
      groups_[i].leads_out = leads_out;
      if (leads_out) leading_out_.fetch_add(1, std::memory_order_relaxed);
      else words += in_group;
    }
    words_.fetch_add(words);
  }

  const Closure& closure_;
  const track::DirtyMap& pages_;
  std::vector<Group> groups_;
  std::atomic<u64> next_{0};
  std::atomic<u64> leading_out_{0};
  std::atomic<u64> words_{0};
};

void Closure::visit(const track::DirtyMap& pages) {
  Sieve sieve(*this, pages);
  sieve.run();
  visited_words_ += sieve.words_left_out();
  sieve.for_each_group([&](u64 group) {
    durable_words_.for_each_in(pages, group,
                               [this](u64* word, bool maybe) { visit_word(word, maybe); });
  });
  drain();
}

void Closure::visit(u64* word, bool maybe) {
  visit_word(word, maybe);
  drain();
}

// What is visited may add to the list.
void Closure::drain() {
  while (!waiting_.empty()) {
    const Waiting next = waiting_.back();
    waiting_.pop_back();
    layouts_.of(next.volatile_tag)
        ->for_each_pointer(next.place, next.bytes, (next.volatile_tag & 1) != 0,
                           [this](u64* word, bool maybe) { visit_word(word, maybe); });
  }
}

inline void Closure::visit_word(u64* word, bool maybe) {
  const u64 value = *word;
  ++visited_words_;
  if (!leads_out(value)) return;
  if (is_volatile(value)) follow(word, maybe);
  else observer_.elsewhere(word, maybe);
}

void Closure::follow(u64* word, bool maybe) {
  const Block block = volatile_words_.find(reinterpret_cast<const void*>(*word));
  const u16 tag = block.entry.units != 0 ? block.tag() : 0;
  if (tag == 0) {
    observer_.elsewhere(word, maybe);
    return;
  }
  std::byte* const place = volatile_words_.place_of(block);
  const bool follows = tag != kMoved && status_ && observer_.follows(word, place);
  if (follows) status_ = guarded([&] { return move(block, place); });
  if (tag == kMoved || (follows && status_)) redirect(word, place);
  else observer_.stays(word);
}

// To where the object in this place is now.
void Closure::redirect(u64* word, const std::byte* moved) {
  u64 now = 0;
  std::memcpy(&now, moved, sizeof now);
  *word += now - reinterpret_cast<std::uintptr_t>(moved);
}

Status Closure::move(const Block& block, std::byte* place) {
  u16& tag = volatile_.heap.blocks().tag_place(block);
  const Layout& layout = *layouts_.of(tag);
  PERDURA_ASSIGN(const u16 new_tag, tags_.of(tag));
  if (waiting_.size() == waiting_.capacity()) waiting_.reserve(2 * waiting_.size() + 64);
  const u64 bytes = block.bytes();
  PERDURA_ASSIGN(void* const made,
                 durable_.heap.place_tagged(durable_.mutator, new_tag, bytes, layout.alignment));
  auto* const to = static_cast<std::byte*>(made);
  std::memcpy(to, place, bytes);
  observer_.moved(place, to, bytes);
  if (layout.has_pointers()) waiting_.push_back({to, bytes, tag});
  tag = kMoved;
  const u64 now = reinterpret_cast<std::uintptr_t>(made);
  std::memcpy(place, &now, sizeof now);
  ++moved_objects_;
  moved_bytes_ += bytes;
  return {};
}

void Closure::fix(u64* word) const {
  if (!is_volatile(*word)) return;
  const Block block = volatile_words_.find(reinterpret_cast<const void*>(*word));
  if (block.entry.units != 0 && block.tag() == kMoved)
    redirect(word, volatile_words_.place_of(block));
}

void Closure::fix(Heap& other, const track::DirtyMap& pages) {
  TypedWords(other).for_each_in(pages, [this](u64* word, bool) { fix(word); });
}

void Closure::fix_rest() {
  volatile_.heap.blocks().for_each_block([this](std::byte* place, u64 bytes, u16 tag) {
    if (const Layout* const layout = layouts_.of(tag))
      layout->for_each_pointer(place, bytes, (tag & 1) != 0,
                               [this](u64* word, bool) { fix(word); });
  });
}

void Closure::release() { volatile_.heap.deallocate_all(volatile_.mutator, kMoved); }

}  // namespace perdura::heap
