// Objects move from a heap of volatile ones into a durable heap when they become reachable from it
// (SoftPM §3.2).
//
//   changed pages of the durable heap ── words that lead to a volatile object ──▶ it moves, and
//   what it leads to, and so on; each word that led to it is changed to its new address
//
// A moved object leaves its new address behind, under a type of its own, until all references are
// fixed: those in the durable heap when they are visited, and then, in one pass, those in objects
// that stay volatile. Nothing recurs: objects whose words are still to be visited wait in a list.
//
// Most changed pages lead nowhere but into their own heap. Where there are many, several threads
// look for those that do not (Sieve), and only these are visited.
//
// Mutators of both heaps stand still. Stores to the durable heap's objects are not reported: a page
// tracker finds them.
#pragma once

#include <vector>

#include "heap/tag_map.hpp"
#include "heap/typed_words.hpp"

namespace perdura::heap {

class Closure {
 public:
  /// Decides, and is told, of single words and objects.
  class Observer {
   public:
    virtual ~Observer() = default;
    /// A word leads to the volatile object at `object`: may it be followed?
    virtual bool follows(const u64* word, const void* object) = 0;
    /// The object at `from` is at `to` now.
    virtual void moved(const void* from, void* to, u64 bytes) = 0;
    /// A word leads to a volatile object that stays where it is.
    virtual void stays(const u64* word) = 0;
    /// A word that is not null leads to neither heap. `maybe`: it may be no pointer at all.
    virtual void elsewhere(const u64* word, bool maybe) = 0;
  };

  struct Side {
    Heap& heap;
    detail::Mutator& mutator;
  };
  Closure(Side durable, Side is_volatile, Observer& observer);

  /// Visit the words of these pages of the durable heap. When memory or space end, nothing moves
  /// any more, and words that lead to what has moved are fixed all the same: status() says so.
  void visit(const track::DirtyMap& pages);
  /// The same of a word that may be in another durable heap, whose mutators stand still as well.
  void visit(u64* word, bool maybe);
  bool is_volatile(u64 value) const { return value - volatile_begin_ < volatile_bytes_; }
  const Status& status() const { return status_; }
  bool any_moved() const { return moved_objects_ != 0; }

  /// Fix what leads to moved objects: in pages of another heap, in the objects that stay, in a
  /// word that the program registered.
  void fix(Heap& other, const track::DirtyMap& pages);
  void fix_rest();
  void fix(u64* word) const;
  /// Give back the space that moved objects had. Last.
  void release();

  u64 moved_objects() const { return moved_objects_; }
  u64 moved_bytes() const { return moved_bytes_; }
  u64 visited_words() const { return visited_words_; }

 private:
  /// Of a volatile block: it has moved, and begins with its new address.
  static constexpr u16 kMoved = 1;

  class Sieve;
  struct Waiting {
    std::byte* place;
    u64 bytes;
    u16 volatile_tag;
  };

  void visit_word(u64* word, bool maybe);
  bool leads_out(u64 value) const { return value - durable_begin_ >= durable_bytes_ && value != 0; }
  void follow(u64* word, bool maybe);
  Status move(const Block& block, std::byte* place);
  static void redirect(u64* word, const std::byte* moved);
  void drain();

  const Side durable_;
  const Side volatile_;
  Observer& observer_;
  const u64 durable_begin_;
  const u64 durable_bytes_;
  const u64 volatile_begin_;
  const u64 volatile_bytes_;
  TypedWords durable_words_;
  TypedWords volatile_words_;
  const Layouts layouts_;  ///< of volatile blocks
  TagMap tags_;
  std::vector<Waiting> waiting_;
  Status status_;
  u64 moved_objects_ = 0;
  u64 moved_bytes_ = 0;
  u64 visited_words_ = 0;
};

}  // namespace perdura::heap
