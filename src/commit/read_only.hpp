// The engine of a store that is open to be read: it makes no versions.
#pragma once

#include <string>

#include "base/assert.hpp"
#include "commit/engine.hpp"

namespace perdura::commit {

class ReadOnly final : public Engine {
 public:
  explicit ReadOnly(std::string why) : why_(std::move(why)) {}

  bool has_room() const override { return false; }
  Result<bool> make_room() override { return Failure{Code::kUnsupported, why_}; }
  Status finish(bool) override { return {}; }
  void add_to(Statistics&) const override {}
  void reset_statistics() override {}
  Findings findings() const override { return {}; }
  Written written() const override { return {}; }

  // make_room() fails, so none of these is ever called.
  u64 unit_bytes() const override { return kPageBytes; }
  void begin(u64) override { PERDURA_ASSERT(false); }
  Status capture_stopped(const track::DirtyMap&) override { return never(); }
  Status capture(const track::DirtyMap&, Snapshot&) override { return never(); }
  Status capture_selection(const Selection::Lines&) override { return never(); }
  Status prepare() override { return never(); }
  void publish() noexcept override { PERDURA_ASSERT(false); }
  void discard() override { PERDURA_ASSERT(false); }
  void keep_from(u64) override {}
  Status confirm() override { return {}; }

 private:
  static Status never() {
    PERDURA_ASSERT(false);
    return {};
  }
  const std::string why_;
};

}  // namespace perdura::commit
