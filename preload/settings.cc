#include "preload/settings.hpp"

#include <unistd.h>

#include <bit>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/bits.hpp"
#include "format/format.hpp"

namespace perdura::preload {
namespace {

constexpr std::string_view kDefaultUri = "emu:/dev/shm/perdura-malloc-%p.pd";

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Failure invalid(const char* name, std::string_view value, const char* meaning) {
  return Failure{Code::kInvalidArgument,
                 std::string(name) + " is " + meaning + ", not '" + std::string(value) + "'"};
}

/// With every %p replaced by the process's id.
std::string with_pid(std::string_view pattern) {
  std::string text(pattern);
  const std::string pid = std::to_string(::getpid());
  for (size_t at = 0; (at = text.find("%p", at)) != text.npos; at += pid.size())
    text.replace(at, 2, pid);
  return text;
}

/// A number and the rest of the text.
struct Number {
  u64 value;
  std::string_view unit;
};
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number.value);
  if (parsed.ec != std::errc{}) return std::nullopt;
  number.unit = text.substr(static_cast<size_t>(parsed.ptr - text.data()));
  return number;
}

std::optional<u64> parse_bytes(std::string_view text) {
  const std::optional<Number> number = parse_number(text);
  if (!number || number->unit.size() > 1) return std::nullopt;
  constexpr std::string_view kUnits = "KMGT";
  u64 factor = 1;
  if (!number->unit.empty()) {
    const size_t power = kUnits.find(number->unit.front());
    if (power == kUnits.npos) return std::nullopt;
    factor = u64{1} << 10 * (power + 1);
  }
  if (number->value > ~u64{0} / factor) return std::nullopt;
  return number->value * factor;
}

// What the compiler reports is found as well. Of the page trackers only userfault finds what system
// calls store. The others make them fail, and programs take that for something else: fgets() for
// the end of the file.
Status check_tracking(std::string_view text) {
  if (text.empty() || text == "automatic" || text == "userfault" || text == "compiled") return {};
  if (text == "sigbus" || text == "protect")
    return Failure{Code::kUnsupported,
                   "PERDURA_TRACKING=" + std::string(text) +
                       " makes system calls fail that store into the heap, read() for one, and a "
                       "program that does not know may go wrong in silence; leave it out, for "
                       "userfault"};
  return invalid("PERDURA_TRACKING", text, "automatic, userfault or compiled");
}

}  // namespace

Result<Settings> Settings::from_environment() {
  Settings settings;
  const std::string_view store = variable("PERDURA_STORE");
  settings.is_default_uri = store.empty();
  settings.uri = with_pid(store.empty() ? kDefaultUri : store);
  settings.statistics_path = with_pid(variable("PERDURA_STATISTICS"));
  settings.sample_path = with_pid(variable("PERDURA_SAMPLE"));

  if (const std::string_view text = variable("PERDURA_CHECKPOINT_MS"); !text.empty()) {
    constexpr u64 kDayMs = 86'400'000;
    const std::optional<Number> number = parse_number(text);
    if (!number || !number->unit.empty() || number->value > kDayMs)
      return invalid("PERDURA_CHECKPOINT_MS", text,
                     "a number of milliseconds from 0 (no checkpoints) to 86400000");
    settings.checkpoint_interval = std::chrono::milliseconds(number->value);
  }
  const std::string_view named = variable("PERDURA_TRACKING");
  PERDURA_TRY(check_tracking(named));
  settings.by_reports = named == "compiled";
  settings.options.tracking = settings.by_reports ? Tracking::kCompiled : Tracking::kUserfault;
  // Trackers are compared on memory that is the same.
  settings.options.huge_pages = false;
  if (const std::string_view text = variable("PERDURA_ALIASES"); !text.empty()) {
    const std::optional<Number> number = parse_number(text);
    if (!number || !number->unit.empty() || number->value > format::kAliasesMax ||
        (number->value != 0 && !std::has_single_bit(number->value)))
      return invalid("PERDURA_ALIASES", text, "0 (none) or a power of two up to 256");
    settings.options.aliases = static_cast<u32>(number->value);
  }
  if (const std::string_view text = variable("PERDURA_COMPARE"); !text.empty()) {
    if (text != "0" && text != "1") return invalid("PERDURA_COMPARE", text, "0 or 1");
    settings.options.compare = text == "1";
  }
  if (const std::string_view text = variable("PERDURA_REGION_LIMIT"); !text.empty()) {
    const std::optional<u64> bytes = parse_bytes(text);
    if (!bytes || *bytes < kMiB || *bytes % kMiB != 0)
      return invalid("PERDURA_REGION_LIMIT", text,
                     "a number of bytes, a multiple of 1 MiB, such as 8G (K, M, G or T)");
    settings.options.region_limit_bytes = *bytes;
  }
  settings.options.verify_bytes_per_second = 0;  // nothing is there that could have rotted
  return settings;
}

}  // namespace perdura::preload
