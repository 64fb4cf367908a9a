// Commands as redis' clients send them (RESP2, https://redis.io/docs/latest/develop/reference/
// protocol-spec/), and the answers.
#pragma once

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

enum class Parsed { kCommand, kIncomplete, kWrong };

/// The first command of `input`, which is cut off from it: "*2\r\n$3\r\nGET\r\n$1\r\na\r\n".
inline Parsed parse(std::string_view& input, std::vector<std::string_view>& words) {
  std::string_view rest = input;
  Parsed state = Parsed::kCommand;
  const auto number = [&](char kind) -> std::size_t {
    const std::size_t end = rest.find("\r\n");
    if (end == rest.npos) {
      state = rest.size() > 32 ? Parsed::kWrong : Parsed::kIncomplete;
      return 0;
    }
    std::size_t value = 0;
    if (rest[0] != kind) {
      state = Parsed::kWrong;
      return 0;
    }
    const auto [last, error] = std::from_chars(rest.data() + 1, rest.data() + end, value);
    if (error != std::errc() || last != rest.data() + end || value > (std::size_t{512} << 20))
      state = Parsed::kWrong;
    rest.remove_prefix(end + 2);
    return value;
  };
  words.clear();
  for (std::size_t left = number('*'); left != 0 && state == Parsed::kCommand; --left) {
    const std::size_t length = number('$');
    if (state != Parsed::kCommand) break;
    if (rest.size() < length + 2) return Parsed::kIncomplete;
    if (rest.substr(length, 2) != "\r\n") return Parsed::kWrong;
    words.push_back(rest.substr(0, length));
    rest.remove_prefix(length + 2);
  }
  if (state == Parsed::kCommand) input = rest;
  return state;
}

inline void answer_text(std::string& out, std::string_view text) {
  out.append("$").append(std::to_string(text.size())).append("\r\n").append(text).append("\r\n");
}
inline void answer_number(std::string& out, long long number) {
  out.append(":").append(std::to_string(number)).append("\r\n");
}

}  // namespace kv
