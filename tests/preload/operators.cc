// A program with operators new and delete of its own, which are ready in main: before that they
// have nothing to give, and what they are given back must be theirs. Then it fills a container and
// prints what is in it.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <string>

static unsigned long given = 0;
static bool is_ready = false;

/// Before each block, so that a foreign one is recognized.
struct Head {
  unsigned long magic;
  unsigned long size;
};
constexpr unsigned long kMagic = 0x6f70657261746f72;

void* operator new(std::size_t size) {
  auto* head = is_ready ? static_cast<Head*>(std::malloc(sizeof(Head) + size)) : nullptr;
  if (head == nullptr) throw std::bad_alloc();
  *head = {kMagic, size};
  given += size;
  return head + 1;
}
void operator delete(void* block) noexcept {
  if (block == nullptr) return;
  auto* head = static_cast<Head*>(block) - 1;
  if (head->magic != kMagic) std::abort();
  given -= head->size;
  std::free(head);
}
void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

int main() {
  is_ready = true;
  std::map<int, std::string> map;
  for (int i = 0; i < 200000; ++i) map[i * 7919 % 200003] = std::string(40, static_cast<char>(i));
  unsigned long sum = 0;
  for (const auto& [key, value] : map) sum = sum * 31 + static_cast<unsigned char>(value[0]) + key;
  map.clear();
  std::printf("%lu %lu\n", sum, given);
}
