// What a store holds beside what the model says.
#include <algorithm>
#include <optional>

#include "live.hpp"

namespace perdura::model {
namespace {

std::string root_name(u64 lane, u64 root) {
  return "lane " + std::to_string(lane) + " root " + std::to_string(root);
}

/// "" when the block is what it should be.
std::string wrong_with(const Store& store, const Block* block, const Value& value) {
  if (!value.is_block()) return block == nullptr ? "" : "it has a block, and should have none";
  if (block == nullptr) return "its block is lost";
  if (!store.contains(block)) return "it leads out of the store";
  if (block->id != value.id || block->words != value.words)
    return "its block says it is of action " + std::to_string(block->id) + " with " +
           std::to_string(block->words) + " words, and should be of " + std::to_string(value.id) +
           " with " + std::to_string(value.words);
  if (block->self != (value.form == Form::kBare ? nullptr : block))
    return "its block has a wrong pointer to itself";
  for (u64 i = 0; i < value.words; ++i)
    if (block->data[i] != word_of(value.id, i))
      return "word " + std::to_string(i) + " of " + std::to_string(value.words) +
             " of its block is wrong";
  if (store.usable_size(block) < sizeof(Block) + value.words * sizeof(u64))
    return "its block is too small";
  return {};
}

std::string wrong_number(u64 found, u64 expected) {
  if (found == expected) return {};
  return "it is " + std::to_string(found) + ", and should be " + std::to_string(expected);
}

std::string expected_text(const Value& value) {
  return std::string(value.words, static_cast<char>('a' + value.id % 26));
}

std::string wrong_with(const Text* text, const Value& value) {
  if ((text != nullptr) != value.is_block()) return "it is there, or not, wrongly";
  if (text == nullptr) return {};
  if (text->id != value.id) return "it is another one";
  if (std::string_view(text->string) != expected_text(value)) return "its string differs";
  const std::vector<u64> expected(value.words, value.id);
  if (!std::equal(expected.begin(), expected.end(), text->vector.begin(), text->vector.end()))
    return "its vector differs";
  return {};
}

/// Of a standard container's element.
std::string compare_standard(const Standard& standard, const LaneModel& model) {
  u64 keys = 0;
  for (u64 key = 0; key < kKeys; ++key) {
    const Value& value = model.cells[cells::kKey + key];
    const auto found = standard.map.find(key);
    if ((found != standard.map.end()) != value.is_block())
      return "key " + std::to_string(key) + " of the map is there, or not, wrongly";
    if (!value.is_block()) continue;
    ++keys;
    if (std::string_view(found->second) != expected_text(value))
      return "key " + std::to_string(key) + " of the map has another value";
  }
  if (standard.map.size() != keys) return "the map has another size";
  const auto& list = model.cells[cells::kVector].list;
  if (!std::equal(list.begin(), list.end(), standard.vector.begin(), standard.vector.end()))
    return "the vector differs";
  if (std::string_view(standard.string) != expected_text(model.cells[cells::kString]))
    return "the string differs";
  return {};
}

/// Blocks of a lane that are allocated.
u64 blocks_of(const Lane& lane, const LaneModel& model) {
  u64 blocks = 1;
  for (const Value& value : model.cells)
    if (value.is_block()) ++blocks;  // of a map's key: its node
  for (const Text* text : lane.texts)
    if (text != nullptr)
      blocks += (text->string.capacity() > 15 ? 1 : 0) + (text->vector.capacity() != 0 ? 1 : 0);
  if (lane.standard == nullptr) return blocks;
  const auto of = [](const perdura::string& text) { return text.capacity() > 15 ? 1 : 0; };
  ++blocks;
  for (const auto& [key, text] : lane.standard->map) blocks += static_cast<u64>(of(text));
  if (lane.standard->vector.capacity() != 0) ++blocks;
  return blocks + static_cast<u64>(of(lane.standard->string));
}

}  // namespace

std::string compare(const Live& live, const LaneModel& model, u64 number) {
  const Lane& lane = *live.world->lanes[number];
  const auto name = [&](const char* what, u64 index) {
    return "lane " + std::to_string(number) + ", " + what + " " + std::to_string(index) + ": ";
  };
  for (u64 i = 0; i < kSlots; ++i)
    if (auto what = wrong_with(*live.store, lane.slots[i], model.cells[cells::kSlot + i]);
        !what.empty())
      return name("slot", i) + what;
  for (u64 i = 0; i < 2 * kOf; ++i)
    if (auto what = wrong_number(lane.words[i], model.cells[cells::kWord + i].id); !what.empty())
      return name("word", i) + what;
  for (u64 i = 0; i < kOf; ++i) {
    const Halves& halves = lane.halves[i];
    if (auto what = wrong_number(halves.of_operations, model.cells[cells::kHalf + i].id);
        !what.empty())
      return name("half of operations", i) + what;
    if (auto what = wrong_number(halves.of_transactions, model.cells[cells::kHalf + kOf + i].id);
        !what.empty())
      return name("half of transactions", i) + what;
  }
  for (u64 i = 0; i < kRoots; ++i) {
    const auto* block = static_cast<Block*>(live.store->get_root(root_name(number, i)));
    if (auto what = wrong_with(*live.store, block, model.cells[cells::kRoot + i]); !what.empty())
      return name("root", i) + what;
  }
  if (lane.operation != model.operation || lane.transaction != model.transaction)
    return name("last actions", lane.operation) + "wrong";
  for (u64 i = 0; i < kOffers; ++i)
    if (auto what = wrong_with(*live.store, lane.offers[i], model.cells[cells::kOffer + i]);
        !what.empty())
      return name("offer", i) + what;
  for (u64 i = 0; i < kDistances; ++i)
    if (auto what = wrong_with(*live.store, block_at(lane, lane.distances[i]),
                               model.cells[cells::kDistance + i]);
        !what.empty())
      return name("distance", i) + what;
  for (u64 i = 0; i < kTexts; ++i)
    if (auto what = wrong_with(lane.texts[i], model.cells[cells::kText + i]); !what.empty())
      return name("text", i) + what;
  if (lane.standard == nullptr) return {};
  const std::string what = compare_standard(*lane.standard, model);
  return what.empty() ? "" : "lane " + std::to_string(number) + ": " + what;
}

std::string compare_all(Live& live) {
  u64 blocks = 1;
  std::array<std::int64_t, 2 * kOf> accounts{};
  for (const LaneRun& run : live.lanes) {
    if (auto what = compare(live, run.model, run.number); !what.empty()) return what;
    blocks += blocks_of(*live.world->lanes[run.number], run.model);
    for (u64 i = 0; i < 2 * kOf; ++i)
      accounts[i] += static_cast<std::int64_t>(run.model.cells[cells::kAccount + i].id);
  }
  for (u64 i = 0; i < 2 * kOf; ++i)
    if (live.world->accounts[i] != accounts[i])
      return "account " + std::to_string(i) + " is " + std::to_string(live.world->accounts[i]) +
             ", and should be " + std::to_string(accounts[i]);
  if (auto what = check_parts(live, blocks); !what.empty()) return what;
  const HeapAudit audit = live.store->audit();
  if (!audit.clean) return "the heap is damaged: " + audit.problem;
  // Transactions keep a block of their own as soon as there were some.
  const u64 found = audit.live_blocks - audit.roots - audit.types;
  if (found < blocks || found > blocks + (live.program.transactions() ? 1 : 0))
    return "the heap holds " + std::to_string(found) + " blocks, " + std::to_string(blocks) +
           " are in use";
  return {};
}

}  // namespace perdura::model
