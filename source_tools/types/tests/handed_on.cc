// The same in C++ (handed_on.c): pointers to methods, functions as values, casts to references,
// storage of several dimensions or aligned by its type; what all files of a program have.
#include <csignal>
#include <cstddef>
#include <cstring>
#include <functional>
#include <new>

#include <perdura/compat/softpm.h>
#include <perdura/typed.h>

#include "expect.h"
#include "handed_on.hpp"

struct Filler {
  void fill(char* to) { *reinterpret_cast<Node**>(to + 8) = new Node{nullptr, 2}; }
};
struct Two {
  Node* at;
  long number;
};
template <class T, int N>
struct Pool {
  int used = 0;
  alignas(T) unsigned char cells[N][sizeof(T)];
  T* get() { return new (cells[used++]) T(); }
};
struct Holder {
  Node* at;
};
struct alignas(8) Aligned {
  unsigned char data[32];
};
using AlignedBytes [[gnu::aligned(8)]] = char[32];
struct Stored {
  long tag;
  Aligned aligned;
  AlignedBytes bytes;
};

struct Root {
  char* by_value;
  char* by_method;
  char* by_reference;
  char* by_other_reference;
  Pool<Holder, 4>* pool;
  Stored* stored;
  char* of_variable;
  char* of_function;
  char* of_template;
};

static void fill(char* to) { *reinterpret_cast<Node**>(to + 8) = new Node{nullptr, 1}; }
static long value_at(const void* bytes) {
  Node* node;
  std::memcpy(&node, bytes, sizeof node);
  return node->value;
}

static void make(Root& root) {
  root.by_value = new char[64];
  const std::function<void(char*)> function = fill;
  function(root.by_value);
  root.by_method = new char[64];
  void (Filler::* const method)(char*) = &Filler::fill;
  Filler filler;
  (filler.*method)(root.by_method);
  root.by_reference = new char[64];
  reinterpret_cast<Node*&>(root.by_reference[8]) = new Node{nullptr, 3};
  root.by_other_reference = new char[64];
  reinterpret_cast<Two&>(root.by_other_reference[16]).at = new Node{nullptr, 4};
  root.pool = new Pool<Holder, 4>();
  root.pool->get()->at = new Node{nullptr, 5};
  root.stored = new Stored();
  *reinterpret_cast<Node**>(root.stored->aligned.data + 8) = new Node{nullptr, 6};
  *reinterpret_cast<Node**>(root.stored->bytes) = new Node{nullptr, 7};
  touch();  // makes them in the other file
  *reinterpret_cast<Node**>(of_variable + 8) = new Node{nullptr, 8};
  *reinterpret_cast<Node**>(of_function() + 8) = new Node{nullptr, 9};
  *reinterpret_cast<Node**>(OfTemplate<int>::bytes + 8) = new Node{nullptr, 10};
  root.of_variable = of_variable;
  root.of_function = of_function();
  root.of_template = OfTemplate<int>::bytes;
}

static void check(const Root& root) {
  EXPECT(value_at(root.by_value + 8) == 1);
  EXPECT(value_at(root.by_method + 8) == 2);
  EXPECT(value_at(root.by_reference + 8) == 3);
  EXPECT(value_at(root.by_other_reference + 16) == 4);
  EXPECT(value_at(root.pool->cells) == 5);
  EXPECT(value_at(root.stored->aligned.data + 8) == 6 && value_at(root.stored->bytes) == 7);
  EXPECT(value_at(root.of_variable + 8) == 8);
  EXPECT(value_at(root.of_function + 8) == 9);
  EXPECT(value_at(root.of_template + 8) == 10);
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  Root* root = nullptr;
  const int id = pCOpen(1, sizeof *root, reinterpret_cast<void**>(&root));
  EXPECT(id >= 0);
  if (std::strcmp(argv[1], "make") == 0) make(*root);
  check(*root);
  pPoint(id);
  EXPECT(pSync(id) == 0);
  check(*root);
  std::raise(SIGKILL);
}
