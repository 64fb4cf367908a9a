// Damage to a store at rest: every bit flipped, sectors lost, exchanged, old, records forged.
#pragma once

#include "jobs.hpp"
#include "oracle.hpp"

namespace perdura::proof {

/// An image that is damaged: of a store closed in order, or as a power failure left it.
struct Victim {
  std::string name;
  MediumKind medium;
  bool closed;
  bool reopened = false;      ///< before the last versions
  bool chunks = false;        ///< the region is in chunks, and its map has nodes
  bool transactions = false;  ///< behind the last version
  bool objects = false;       ///< whose calls are logged, and nothing else
  bool overflow = false;      ///< they are in two stores
  bool copies = false;        ///< the region is in two copies
};
std::vector<Victim> victims();

/// What came of damaged images, by case.
struct Damage {
  u64 cases = 0;
  u64 refused = 0;         ///< recovery says what is wrong, and where
  u64 unharmed = 0;        ///< all is as before
  u64 found = 0;           ///< the sums of home pages, or of chunks, show it
  u64 taken_for_torn = 0;  ///< the last versions or transactions, hit, count as cut short
  u64 half_replayed = 0;   ///< in a page whose sum recovery has to make anew
  u64 forged = 0;  ///< a record with a fitting checksum says something else, and is believed
  u64 silent = 0;
  std::vector<std::string> problems;

  void add(const Damage& other);
  Json json() const;
  static Damage of(const Json& json);
};

struct Flips {
  u64 part = 0;  ///< of so many parts of the image
  u64 parts = 1;
  u64 every = 1;  ///< one bit of so many, from `first` on
  u64 first = 0;
  const testing::Mutation* mutation = nullptr;  ///< leaves out a check
  u64 enough = ~u64{0};                         ///< silent cases that end it
  std::string findings = "";                    ///< a folder for images of silent cases, or none
};
Damage flip_bits(const Victim& victim, const Flips& flips);
/// `cases` kinds of damage to whole sectors and records, drawn from the seed.
Damage damage_sectors(const Victim& victim, u64 cases, u64 seed, const std::string& findings,
                      const testing::Mutation* mutation = nullptr);

}  // namespace perdura::proof
