#include "crash_state.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/assert.hpp"
#include "base/checksum.hpp"

namespace perdura::testing {
namespace {

using Kind = media::RecordedCall::Kind;

constexpr u64 kStoreBytes = 8;  ///< what the processor stores at once
constexpr u64 kCombinationsMax = 16;

u64 next_state_id() {
  static std::atomic<u64> next{1};
  return next++;
}

// Sums of these are compared: so contents that two places exchange must not give the same one.
u64 hash_of(u64 place, const std::byte* bytes, u64 length) {
  u64 hash = checksum(bytes, length) * 0x9e3779b97f4a7c15 + (place + 1) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
  return hash ^ hash >> 31;
}

}  // namespace

u64 atom_bytes(Tearing tearing) {
  switch (tearing) {
    case Tearing::kWords:
      return kStoreBytes;
    case Tearing::kLinePrefixes:
      return kLineBytes;
    case Tearing::kSectors512:
      return 512;
    case Tearing::kSectors4096:
      return 4096;
  }
  assertion_failed("a kind of tearing", __FILE__, __LINE__);
}

// --- states ------------------------------------------------------------------------------------

/// Collects the contents that atoms may have; later writes come after earlier ones.
class CrashState::Builder {
 public:
  explicit Builder(CrashState& state) : state_(state) {}

  /// A write that is durable.
  void certain(u64 offset, Bytes data) {
    std::memcpy(at(offset, data.size()), data.data(), data.size());
    const u64 first = round_down(offset, state_.atom_bytes_);
    for (u64 atom = first; atom < offset + data.size(); atom += state_.atom_bytes_)
      options_.erase(atom);
  }

  /// A write that may have happened, in part.
  void possible(size_t call, u64 offset, Bytes data) {
    at(offset, data.size());
    const u64 step = state_.atom_bytes_;
    for (u64 atom = round_down(offset, step); atom < offset + data.size(); atom += step) {
      const u64 begin = std::max(atom, offset);
      const u64 end = std::min(atom + step, offset + data.size());
      std::vector<std::byte> content = newest(atom);
      const u64 piece = state_.tearing_ == Tearing::kLinePrefixes ? kStoreBytes : step;
      for (u64 from = begin; from < end; from += piece) {
        const u64 length = std::min(piece, end - from);
        std::memcpy(content.data() + (from - atom), data.data() + (from - offset), length);
        add(atom, call, content);
      }
    }
  }

  void add(u64 atom, size_t call, const std::vector<std::byte>& content) {
    std::vector<Possible>& options = options_[atom];
    if (options.empty()) options.push_back({0, old(atom)});
    options.push_back({call, content});
  }

  void finish() {
    for (const auto& [offset, options] : options_) {
      // In the order of the writes; a content may come again later.
      const auto first = static_cast<u32>(state_.options_.size());
      u32 distinct = 0;
      for (size_t i = 0; i < options.size(); ++i) {
        if (i != 0 && options[i].bytes == options[i - 1].bytes) continue;
        const auto same = [&](const Possible& other) { return other.bytes == options[i].bytes; };
        distinct +=
            std::none_of(options.begin(), options.begin() + static_cast<std::ptrdiff_t>(i), same);
        state_.options_.push_back({options[i].call, state_.arena_.size()});
        state_.arena_.insert(state_.arena_.end(), options[i].bytes.begin(), options[i].bytes.end());
      }
      const auto count = static_cast<u32>(state_.options_.size()) - first;
      if (count > 1) state_.atoms_.push_back({offset, first, count, distinct});
      else state_.options_.resize(first);
    }
    state_.size_ = state_.image_.size();
  }

 private:
  struct Possible {
    size_t call;
    std::vector<std::byte> bytes;
  };

  std::byte* at(u64 offset, u64 length) {
    if (state_.image_.size() < offset + length) state_.image_.resize(offset + length);
    return state_.image_.data() + offset;
  }
  std::vector<std::byte> old(u64 atom) {
    const std::byte* bytes = at(atom, state_.atom_bytes_);
    return {bytes, bytes + state_.atom_bytes_};
  }
  std::vector<std::byte> newest(u64 atom) {
    const auto found = options_.find(atom);
    return found == options_.end() ? old(atom) : found->second.back().bytes;
  }

  CrashState& state_;
  std::map<u64, std::vector<Possible>> options_;
};

CrashState::CrashState(const media::History& history, size_t end, Tearing tearing,
                       const Mutation* mutation)
    : atom_bytes_(testing::atom_bytes(tearing)), tearing_(tearing), image_(history.grown(end)) {
  const auto site = [&](Mutation::Kind kind) {
    return mutation != nullptr && mutation->kind == kind ? mutation->site : nullptr;
  };
  const std::vector<bool> durable =
      history.durable_writes(end, site(Mutation::Kind::kBarrier), site(Mutation::Kind::kWrite));
  Builder builder(*this);
  for (size_t i = 0; i < end; ++i) {
    const media::RecordedCall& call = history.calls()[i];
    if (call.kind != Kind::kWrite && call.kind != Kind::kSubmit) continue;
    if (durable[i]) builder.certain(call.offset, call.bytes);
    else builder.possible(i + 1, call.offset, call.bytes);
  }
  builder.finish();
  // A file's size becomes durable with the flush; a mapped medium flushes it as it grows.
  const bool block = tearing == Tearing::kSectors512 || tearing == Tearing::kSectors4096;
  size_min_ = block ? history.covered_size(end) : image_.size();
}

double CrashState::log10_states() const {
  double sum = 0;
  for (const Atom& atom : atoms_) sum += std::log10(static_cast<double>(atom.distinct));
  return sum + (size_min_ != size_ ? std::log10(2.0) : 0);
}

// --- choices -----------------------------------------------------------------------------------

bool Choices::advance() {
  choices_.resize(next_);
  while (!choices_.empty() && choices_.back().taken + 1 == choices_.back().alternatives)
    choices_.pop_back();
  if (choices_.empty()) return false;
  ++choices_.back().taken;
  differs_from_ = choices_.size();
  return true;
}

std::vector<u32> Choices::taken() const {
  std::vector<u32> taken;
  for (size_t i = 0; i < next_; ++i) taken.push_back(choices_[i].taken);
  return taken;
}

void Choices::set(std::span<const u32> taken) {
  choices_.clear();
  // Alternatives are learnt again when they are asked for.
  for (const u32 each : taken) choices_.push_back({each, each + 1});
  next_ = 0;
}

// --- executions --------------------------------------------------------------------------------

void Execution::UndoLog::undo(std::vector<std::byte>& image) {
  for (auto each = entries.rbegin(); each != entries.rend(); ++each)
    std::memcpy(image.data() + each->offset, bytes.data() + each->place, each->length);
  entries.clear();
  bytes.clear();
}

Execution::Execution(const CrashState& state, CrashState* lender, media::Geometry geometry,
                     Choices& choices, const Mutation* mutation, AtBarrier at_barrier,
                     Passed* passed)
    : state_id_(next_state_id()),
      state_(state),
      lender_(lender),
      geometry_(geometry),
      choices_(choices),
      mutation_(mutation),
      at_barrier_(std::move(at_barrier)),
      passed_(passed),
      image_(lender != nullptr ? std::exchange(lender->image_, {}) : state.image()),
      untouched_(state.size() / kPageBytes + 1, 1),
      undecided_in_page_(state.size() / kPageBytes + 1),
      statuses_(state.size() / state.atom_bytes_ + 1, kCertain),
      torn_(state.torn_) {
  PERDURA_ASSERT(image_.size() == state.size());
  for (size_t i = 0; i < state.atoms_.size(); ++i)
    mark(state.atoms_[i].offset / state.atom_bytes_, static_cast<u32>(i));
  for (size_t i = 0; i < untouched_.size(); ++i) untouched_[i] = undecided_in_page_[i] == 0;
  decided_ = untouched_;
  leave_unflushed();
}

void Execution::leave_unflushed() {
  unflushed_.clear();
  if (!state_.killed_) return;
  for (size_t i = 0; i < state_.atoms_.size(); ++i) {
    const CrashState::Atom& atom = state_.atoms_[i];
    unflushed_.push_back({atom.offset, static_cast<u32>(i)});
    set_status(atom.offset, kCertain);
    store(atom.offset, state_.option(atom, atom.count - 1), state_.atom_bytes_);
  }
}

void Execution::flush(u64 offset, u64 length) {
  std::erase_if(unflushed_, [&](const Shadowed& atom) {
    return offset < atom.offset + state_.atom_bytes_ && atom.offset < offset + length;
  });
}

void Execution::mark(size_t atom, u32 status) {
  u32& count = undecided_in_page_[atom * state_.atom_bytes_ / kPageBytes];
  count += (status != kCertain) - (statuses_[atom] != kCertain);
  statuses_[atom] = status;
}

Execution::~Execution() {
  if (lender_ == nullptr) return;
  restore_image();
  if (!outgrown_.empty()) {
    std::copy(image_.begin(), image_.end(), outgrown_.begin());
    image_.swap(outgrown_);
  }
  lender_->image_ = std::move(image_);
}

void Execution::restore_image() {
  undo_.undo(image_);
  image_.resize(state_.size());
}

void Execution::grow(u64 size, std::byte content) {
  if (size > image_.capacity() && lender_ != nullptr && outgrown_.empty()) {
    std::vector<std::byte> larger;
    larger.reserve(size);
    larger = image_;
    outgrown_ = std::exchange(image_, std::move(larger));
  }
  image_.resize(size, content);
}

void Execution::reset() {
  for (const Undo& undo : undo_.entries)
    for (u64 page = undo.offset / kPageBytes; page * kPageBytes < undo.offset + undo.length; ++page)
      if (page < decided_.size()) untouched_[page] = decided_[page];
  restore_image();
  for (auto undo = status_undo_.rbegin(); undo != status_undo_.rend(); ++undo)
    mark(undo->atom, undo->status);
  statuses_.resize(state_.size() / state_.atom_bytes_ + 1);
  undecided_in_page_.resize(state_.size() / kPageBytes + 1);
  untouched_.resize(state_.size() / kPageBytes + 1);
  status_undo_.clear();
  pending_.clear();
  pending_bytes_.clear();
  shadowed_.clear();
  torn_ = state_.torn_;
  size_.reset();
  digest_ = 0;
  choices_.rewind();
  leave_unflushed();
}

void Execution::set_status(u64 offset, u32 status) {
  const size_t atom = offset / state_.atom_bytes_;
  status_undo_.push_back({atom, statuses_[atom]});
  digest_ += (atom + 1) * 0x94d049bb133111eb;
  mark(atom, status);
}

// Atom by atom, so that the digest does not depend on how bytes were grouped.
void Execution::store(u64 offset, const std::byte* from, u64 length) {
  const u64 step = state_.atom_bytes_;
  undo_.keep(offset, image_.data() + offset, length);
  for (u64 page = offset / kPageBytes; page * kPageBytes < offset + length; ++page)
    untouched_[page] = 0;
  for (u64 done = 0; done < length;) {
    const u64 at = offset + done;
    const u64 piece = std::min(round_down(at, step) + step - at, length - done);
    std::byte* const to = image_.data() + at;
    if (std::memcmp(to, from + done, piece) != 0) {
      digest_ -= hash_of(at, to, piece);
      std::memcpy(to, from + done, piece);
      digest_ += hash_of(at, to, piece);
    }
    done += piece;
  }
}

void Execution::write(u64 offset, Bytes data, const Site& site) {
  PERDURA_ASSERT(offset + data.size() <= size());
  if (passed_ != nullptr) passed_->note(Mutation::Kind::kWrite, site);
  const u64 step = state_.atom_bytes_;
  pending_.push_back({offset, data.size(), pending_bytes_.size(), undo_.bytes.size(),
                      mutation_ == nullptr || !mutation_->is(Mutation::Kind::kWrite, &site)});
  pending_bytes_.insert(pending_bytes_.end(), data.begin(), data.end());
  for (u64 atom = round_down(offset, step); atom < offset + data.size(); atom += step) {
    const u32 status = status_at(atom);
    if (status == kCertain) continue;
    shadowed_.push_back({atom, status});
    set_status(atom, kCertain);
  }
  store(offset, data.data(), data.size());
}

void Execution::barrier(const Site& site) {
  if (passed_ != nullptr) passed_->note(Mutation::Kind::kBarrier, site);
  if (at_barrier_) at_barrier_(*this);
  if (mutation_ != nullptr && mutation_->is(Mutation::Kind::kBarrier, &site)) return;
  // What no barrier covers stays possible for ever, unless it is overwritten.
  std::vector<Pending> left;
  const auto overlap = [](const Pending& each, u64 offset, u64 length) {
    return offset < each.offset + each.length && each.offset < offset + length;
  };
  for (const Pending& each : pending_) {
    if (!each.covered) {
      left.push_back(each);
      continue;
    }
    std::erase_if(left,
                  [&](const Pending& other) { return overlap(each, other.offset, other.length); });
    std::erase_if(shadowed_, [&](const Shadowed& atom) {
      return overlap(each, atom.offset, state_.atom_bytes_);
    });
    flush(each.offset, each.length);
  }
  pending_ = std::move(left);
}

u64 Execution::size() {
  if (!size_) {
    const bool grown = state_.size_min_ == state_.size() || choices_.choose(2) == 0;
    size_ = grown ? state_.size() : state_.size_min_;
  }
  return *size_;
}

bool Execution::any_undecided(u64 offset, u64 length) const {
  const u64 step = state_.atom_bytes_;
  const u64 end = offset + length;
  for (u64 at = round_down(offset, step); at < end;) {
    if (undecided_in_page_[at / kPageBytes] == 0) {
      at = round_down(at, kPageBytes) + kPageBytes;
    } else if (status_at(at) != kCertain) {
      return true;
    } else {
      at += step;
    }
  }
  return false;
}

u64 Execution::undecided_in(u64 offset, u64 length) const {
  u64 count = 0;
  for (u64 at = round_down(offset, state_.atom_bytes_); at < offset + length;
       at += state_.atom_bytes_)
    count += status_at(at) != kCertain;
  return count;
}

void Execution::decide_each(u64 offset, u64 length) {
  const u64 step = state_.atom_bytes_;
  for (u64 at = round_down(offset, step); at < offset + length; at += step) {
    const u32 status = status_at(at);
    if (status == kCertain) continue;
    const CrashState::Atom& atom = state_.atoms_[status];
    const u32 chosen = choices_.choose(atom.count);
    set_status(at, kCertain);
    store(at, state_.option(atom, chosen), step);
  }
}

// What the undecided atoms of a range may add to it. An option counts once for its bytes inside.
void Execution::look_at(u64 offset, u64 length) {
  const u64 step = state_.atom_bytes_;
  looked_at_.clear();
  for (u64 at = round_down(offset, step); at < offset + length; at += step) {
    if (undecided_in_page_[at / kPageBytes] == 0) {
      at = round_up(at + 1, kPageBytes) - step;
      continue;
    }
    if (status_at(at) == kCertain) continue;
    const CrashState::Atom& atom = state_.atoms_[status_at(at)];
    Look look{
        .atom = &atom, .begin = std::max(at, offset), .end = std::min(at + step, offset + length)};
    for (u32 i = 0; i < atom.count; ++i) {
      const auto same = [&](u32 other) {
        return std::memcmp(state_.option(atom, i) + (look.begin - at),
                           state_.option(atom, other) + (look.begin - at),
                           look.end - look.begin) == 0;
      };
      const auto known = std::find_if(look.options.begin(), look.options.end(), same);
      look.representative.push_back(known == look.options.end() ? i : *known);
      if (known == look.options.end()) look.options.push_back(i);
    }
    if (look.options.size() > 1) looked_at_.push_back(std::move(look));
  }
}

// Contents that the range may have: all of them when they are few. Else those that it had after a
// whole write: a checksum fits what was once written and, but for a chance of 2^-64, nothing else.
bool Execution::contents(std::vector<Content>& found) const {
  found.clear();
  u64 combinations = 1;
  for (const Look& look : looked_at_)
    combinations = std::min<u64>(combinations * look.options.size(), kCombinationsMax + 1);
  if (combinations <= kCombinationsMax) {
    for (u64 number = 0; number < combinations; ++number) {
      Content content;
      u64 rest = number;
      for (const Look& look : looked_at_) {
        content.push_back(look.options[rest % look.options.size()]);
        rest /= look.options.size();
      }
      found.push_back(std::move(content));
    }
    return true;
  }
  std::vector<size_t> calls{0};
  for (const Look& look : looked_at_)
    for (u32 i = 0; i < look.atom->count; ++i)
      calls.push_back(state_.options_[look.atom->first + i].call);
  std::sort(calls.begin(), calls.end());
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  for (const size_t call : calls) {
    Content content;
    for (const Look& look : looked_at_) {
      u32 newest = 0;
      for (u32 i = 0; i < look.atom->count; ++i)
        if (state_.options_[look.atom->first + i].call <= call) newest = i;
      content.push_back(look.representative[newest]);
    }
    if (std::find(found.begin(), found.end(), content) == found.end())
      found.push_back(std::move(content));
  }
  return false;
}

bool Execution::decide(u64 offset, std::byte* bytes, u64 length, const Site& site,
                       const media::Medium::Fits& fits) {
  if (passed_ != nullptr) passed_->note(Mutation::Kind::kWhole, site);
  const bool in_place = bytes >= image_.data() && bytes < image_.data() + image_.size();
  const bool believed = mutation_ != nullptr && mutation_->is(Mutation::Kind::kWhole, &site);
  if (any_undecided(offset, length)) look_at(offset, length);
  else looked_at_.clear();
  if (looked_at_.empty()) {
    if (!in_place) std::memcpy(bytes, image_.data() + offset, length);
    if (!fits(bytes)) return believed;
    flush(offset, length);
    return true;
  }

  const auto torn = std::find_if(torn_.begin(), torn_.end(), [&](const Torn& each) {
    return each.offset == offset && each.length == length;
  });
  if (scratch_.size() < length) scratch_ = AlignedBuffer(round_up(length, kPageBytes));
  const bool all = contents(contents_);
  const size_t possible = contents_.size();
  std::erase_if(contents_, [&](const Content& content) {
    if (torn != torn_.end() &&
        std::find(torn->contents.begin(), torn->contents.end(), content) != torn->contents.end())
      return true;
    std::memcpy(scratch_.data(), image_.data() + offset, length);
    for (size_t i = 0; i < content.size(); ++i) {
      const Look& look = looked_at_[i];
      std::memcpy(scratch_.data() + (look.begin - offset),
                  state_.option(*look.atom, content[i]) + (look.begin - look.atom->offset),
                  look.end - look.begin);
    }
    return !fits(scratch_.data());
  });
  const bool may_be_torn = !all || contents_.size() < possible;
  const u32 chosen = choices_.choose(static_cast<u32>(contents_.size()) + may_be_torn);
  if (chosen < contents_.size()) {
    settle(contents_[chosen]);
    if (!in_place) std::memcpy(bytes, image_.data() + offset, length);
    return true;
  }
  if (believed) {
    // Torn in the middle, one way or the other, and nobody notices.
    const bool newest_first = choices_.choose(2) != 0;
    Content half;
    for (size_t i = 0; i < looked_at_.size(); ++i)
      half.push_back((i < looked_at_.size() / 2) == newest_first ? looked_at_[i].options.back()
                                                                 : looked_at_[i].options.front());
    settle(half);
    if (!in_place) std::memcpy(bytes, image_.data() + offset, length);
    return true;
  }
  if (torn != torn_.end()) {
    torn->contents.insert(torn->contents.end(), contents_.begin(), contents_.end());
  } else {
    torn_.push_back({offset, length, undecided_in(offset, length), contents_});
  }
  return false;
}

// What was looked at has this content. Where other bytes of an atom are still open, they are
// chosen.
void Execution::settle(const Content& content) {
  for (size_t i = 0; i < content.size(); ++i) {
    const Look& look = looked_at_[i];
    const CrashState::Atom& atom = *look.atom;
    std::vector<u32> fitting;
    for (u32 option = 0; option < atom.count; ++option)
      if (std::memcmp(state_.option(atom, option) + (look.begin - atom.offset),
                      state_.option(atom, content[i]) + (look.begin - atom.offset),
                      look.end - look.begin) == 0)
        fitting.push_back(option);
    const u32 chosen = fitting[choices_.choose(static_cast<u32>(fitting.size()))];
    set_status(atom.offset, kCertain);
    store(atom.offset, state_.option(atom, chosen), state_.atom_bytes_);
  }
}

bool Execution::surely_equals(u64 offset, Bytes expected) const {
  if (!any_undecided(offset, expected.size()))
    return std::memcmp(image_.data() + offset, expected.data(), expected.size()) == 0;
  const u64 step = state_.atom_bytes_;
  const u64 end = offset + expected.size();
  for (u64 at = round_down(offset, step); at < end; at += step) {
    const u64 from = std::max(at, offset);
    const u64 length = std::min(at + step, end) - from;
    const std::byte* const wanted = expected.data() + (from - offset);
    const u32 status = status_at(at);
    if (status == kCertain) {
      if (std::memcmp(image_.data() + from, wanted, length) != 0) return false;
      continue;
    }
    const CrashState::Atom& atom = state_.atoms_[status];
    for (u32 i = 0; i < atom.count; ++i)
      if (std::memcmp(state_.option(atom, i) + (from - at), wanted, length) != 0) return false;
  }
  return true;
}

bool Execution::page_surely_equals(u64 offset, const std::byte* expected, u64 patched) const {
  if (patched == 0) return surely_equals(offset, {expected, kPageBytes});
  for (u64 line = 0; line < kLinesPerPage; ++line)
    if ((patched >> line & 1) == 0 &&
        !surely_equals(offset + line * kLineBytes, {expected + line * kLineBytes, kLineBytes}))
      return false;
  return true;
}

bool Execution::changed_since(size_t stores, u64 from) const {
  return std::any_of(undo_.entries.begin() + static_cast<std::ptrdiff_t>(stores),
                     undo_.entries.end(), [&](const Undo& undo) {
                       return undo.offset >= from &&
                              std::memcmp(image_.data() + undo.offset,
                                          undo_.bytes.data() + undo.place, undo.length) != 0;
                     });
}

bool Execution::stored_since(size_t stores, u64 offset, u64 length) const {
  return std::any_of(undo_.entries.begin() + static_cast<std::ptrdiff_t>(stores),
                     undo_.entries.end(), [&](const Undo& undo) {
                       return undo.offset < offset + length && offset < undo.offset + undo.length;
                     });
}

u64 Execution::digest() const {
  u64 sum = digest_;
  for (const Pending& each : pending_)
    sum = sum * 31 + hash_of(each.offset, pending_bytes_.data() + each.place, each.length) +
          hash_of(each.offset, undo_.bytes.data() + each.old, each.length);
  for (const Torn& each : torn_)
    for (const Content& content : each.contents)
      sum += hash_of(each.offset, reinterpret_cast<const std::byte*>(content.data()),
                     content.size() * sizeof content.front());
  for (const Shadowed& each : shadowed_) sum += hash_of(each.offset, nullptr, 0);
  for (const Shadowed& each : unflushed_) sum += hash_of(each.offset + 1, nullptr, 0);
  return sum;
}

CrashState Execution::crash_state() const { return left_by_failure(image_, nullptr); }

void Execution::with_crash_state(const std::function<void(CrashState&)>& use) {
  UndoLog undo;
  CrashState state = left_by_failure(std::exchange(image_, {}), &undo);
  const auto take_back = [&] {
    image_ = std::move(state.image_);
    undo.undo(image_);
  };
  try {
    use(state);
  } catch (...) {
    take_back();
    throw;
  }
  take_back();
}

CrashState Execution::left_by_failure(std::vector<std::byte> image, UndoLog* undo) const {
  CrashState state;
  state.atom_bytes_ = state_.atom_bytes_;
  state.tearing_ = state_.tearing_;
  state.image_ = std::move(image);
  const auto overwrite = [&](u64 offset, const std::byte* bytes, u64 length) {
    std::byte* const at = state.image_.data() + offset;
    if (undo != nullptr) undo->keep(offset, at, length);
    std::memcpy(at, bytes, length);
  };
  for (auto each = pending_.rbegin(); each != pending_.rend(); ++each)
    overwrite(each->offset, undo_.bytes.data() + each->old, each->length);
  state.size_min_ = size_ ? state.image_.size() : state_.size_min_;
  CrashState::Builder builder(state);
  const auto add_options = [&](u64 offset, u32 status) {
    const CrashState::Atom& atom = state_.atoms_[status];
    overwrite(offset, state_.option(atom, 0), state.atom_bytes_);
    for (u32 i = 1; i < atom.count; ++i) {
      const std::byte* bytes = state_.option(atom, i);
      builder.add(offset, state_.options_[atom.first + i].call, {bytes, bytes + state.atom_bytes_});
    }
  };
  size_t last_call = 0;
  for (const CrashState::Option& option : state_.options_)
    last_call = std::max(last_call, option.call);
  for (const CrashState::Atom& atom : state_.atoms_)
    if (const u32 status = status_at(atom.offset); status != kCertain)
      add_options(atom.offset, status);
  for (const Shadowed& each : shadowed_) add_options(each.offset, each.status);
  for (const Shadowed& each : unflushed_) add_options(each.offset, each.status);
  for (const Pending& each : pending_)
    builder.possible(++last_call, each.offset, {pending_bytes_.data() + each.place, each.length});
  builder.finish();
  for (const Torn& each : torn_)
    if (undecided_in(each.offset, each.length) == each.undecided) state.torn_.push_back(each);
  return state;
}

// --- the medium --------------------------------------------------------------------------------

class ExecutedMedium final : public media::LinearMedium {
 public:
  explicit ExecutedMedium(Execution& execution) : LinearMedium(true), execution_(execution) {}

  const std::string& name() const override {
    static const std::string name = "a crash state";
    return name;
  }
  media::Geometry geometry() const override {
    media::Geometry geometry = execution_.geometry_;
    geometry.size = execution_.size();
    return geometry;
  }
  Status grow(u64 size, bool prewrite) override {
    if (size > execution_.image_.size()) {
      const bool unwritten = !prewrite && execution_.geometry_.objects;
      execution_.grow(size, unwritten ? media::kUnwritten : std::byte{0});
      execution_.statuses_.resize(size / execution_.state_.atom_bytes_ + 1, Execution::kCertain);
      execution_.undecided_in_page_.resize(size / kPageBytes + 1);
      execution_.untouched_.resize(size / kPageBytes + 1);
    }
    execution_.size_ = std::max(execution_.size(), size);
    return {};
  }
  Status write(u64 offset, Bytes data, const Site& site) override {
    execution_.write(offset, data, site);
    return {};
  }
  std::unique_ptr<media::WriteQueue> queue() override { return std::make_unique<Queue>(*this); }
  Status barrier(const Site& site) override {
    execution_.barrier(site);
    return {};
  }
  Status read(u64 offset, MutableBytes into) override {
    PERDURA_TRY(check(offset, into.size()));
    execution_.decide_each(offset, into.size());
    std::memcpy(into.data(), execution_.image_.data() + offset, into.size());
    return {};
  }
  const std::byte* direct(u64 offset, u64 length) override {
    if (!execution_.geometry_.byte_addressable) return nullptr;
    execution_.decide_each(offset, length);
    return execution_.image_.data() + offset;
  }
  Status load(std::span<const media::ReadRequest> requests) override {
    for (const media::ReadRequest& request : requests) {
      PERDURA_TRY(check(request.offset, request.into.size()));
      std::memcpy(request.into.data(), execution_.image_.data() + request.offset,
                  request.into.size());
    }
    return {};
  }
  const std::byte* view(u64 offset) override {
    return execution_.geometry_.byte_addressable ? execution_.image_.data() + offset : nullptr;
  }
  bool decide(u64 offset, const std::byte* bytes, u64 length, const Site& site,
              Fits fits) override {
    return execution_.decide(offset, const_cast<std::byte*>(bytes), length, site, fits);
  }
  Status map_home(void*, u64, u64) override {
    return Failure{Code::kUnsupported, "a crash state cannot be mapped"};
  }

 private:
  class Queue final : public media::WriteQueue {
   public:
    explicit Queue(ExecutedMedium& medium) : medium_(medium) {}
    Status submit(u64 offset, Bytes data, const Site& site) override {
      return medium_.write(offset, data, site);
    }
    void erase(u64 place, u64 length) noexcept override {
      if (!medium_.execution_.geometry_.objects) return;
      const std::vector<std::byte> gone(length, media::kUnwritten);
      medium_.execution_.write(place, gone, PERDURA_SITE("erased object"));
    }
    Status drain(size_t) override { return {}; }

   private:
    ExecutedMedium& medium_;
  };

  Status check(u64 offset, u64 length) const {
    if (offset + length <= execution_.size()) return {};
    return Failure{Code::kCorrupt, "a crash state ends before offset " +
                                       std::to_string(offset + length) + ": truncated"};
  }

  Execution& execution_;
};

std::unique_ptr<media::Medium> Execution::medium() {
  return std::make_unique<ExecutedMedium>(*this);
}

}  // namespace perdura::testing
