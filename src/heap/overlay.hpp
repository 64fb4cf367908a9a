// The heap's structures as the last version has them, while the program has changed them since:
// memory, but for the lines that were reported in this epoch, of which the tracker kept what they
// held (track::Scatter). What is set here goes to copies of lines and leaves memory alone.
#pragma once

#include <algorithm>
#include <cstring>

#include "region/region.hpp"
#include "track/scatter.hpp"

namespace perdura::heap {

class Overlay {
 public:
  using Images = track::Scatter::Images;

  Overlay(const region::Region& region, const Images& images)
      : base_(region.base()), images_(images) {}

  template <class T>
  T get(const T& place) const {
    T value;
    read(&place, &value, sizeof value);
    return value;
  }
  void read(const void* place, void* into, u64 length) const {
    for_each_piece(place, length, [&](u64 line, u64 at, u64 count, u64 done) {
      std::memcpy(static_cast<std::byte*>(into) + done, bytes(line) + at, count);
    });
  }
  template <class T>
  void set(const T& place, const T& value) {
    write(&place, &value, sizeof value);
  }
  void write(const void* place, const void* from, u64 length) {
    for_each_piece(place, length, [&](u64 line, u64 at, u64 count, u64 done) {
      auto found = changed_.find(line);
      if (found == changed_.end()) {
        found = changed_.try_emplace(line).first;
        std::memcpy(found->second.data(), base_bytes(line), kLineBytes);
      }
      std::memcpy(found->second.data() + at, static_cast<const std::byte*>(from) + done, count);
    });
  }

  Images& changed() { return changed_; }

 private:
  const std::byte* base_bytes(u64 line) const {
    const auto found = images_.find(line);
    return found != images_.end() ? found->second.data() : base_ + line * kLineBytes;
  }
  const std::byte* bytes(u64 line) const {
    const auto found = changed_.find(line);
    return found != changed_.end() ? found->second.data() : base_bytes(line);
  }
  template <class Visit>
  void for_each_piece(const void* place, u64 length, Visit&& visit) const {
    auto offset = static_cast<u64>(static_cast<const std::byte*>(place) - base_);
    for (u64 done = 0; done < length;) {
      const u64 at = offset % kLineBytes;
      const u64 count = std::min(kLineBytes - at, length - done);
      visit(offset / kLineBytes, at, count, done);
      offset += count;
      done += count;
    }
  }

  const std::byte* const base_;
  const Images& images_;
  Images changed_;
};

}  // namespace perdura::heap
