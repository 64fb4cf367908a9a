// C++ that GCC compiles with -fgnu-tm, for itm_test.cc.
#include <stdexcept>

#include "transactions.h"

namespace {

[[gnu::transaction_pure, gnu::noinline]] void in_body() {
  if (itm_in_body != nullptr) itm_in_body();
}

/// When it goes, while an exception passes.
struct Guard {
  [[gnu::transaction_safe]] ~Guard() {
    const uint64_t before = word;
    in_body();
    word = before + 1;
  }
  uint64_t& word;
};

struct First {
  uint64_t one;
};
struct Second {
  uint64_t two;
};
struct Both : First, Second {};

[[gnu::transaction_safe, gnu::noinline]] void throw_past_guard(uint64_t* word) {
  const Guard guard{word[8]};
  throw 7;
}

[[gnu::transaction_safe, gnu::noinline]] void throw_again_past_guards(uint64_t* word) {
  const Guard guard{word[8]};
  try {
    throw 7;
  } catch (int) {
    const Guard inside{word[16]};
    throw;
  }
}

}  // namespace

node* itm_new(node** head) {
  node* made;
  __transaction_atomic {
    made = new node{*head, 5, {}};
    *head = made;
  }
  return made;
}

void itm_delete(node** head) {
  __transaction_atomic {
    node* const first = *head;
    *head = first->next;
    delete first;
  }
}

// Of a size that is known: else GCC calls what refuses too large ones, and refuses that.
void itm_new_array(uint64_t** array) {
  __transaction_atomic {
    *array = new uint64_t[kItmArray];
    for (uint64_t i = 0; i < kItmArray; ++i) (*array)[i] = i;
  }
}

void itm_delete_array(uint64_t** array) {
  __transaction_atomic {
    delete[] *array;
    *array = nullptr;
  }
}

void itm_throw(uint64_t* word, int value) {
  __transaction_atomic {
    *word += 1;
    itm_count += 1;
    throw value;
  }
}

int itm_catch(uint64_t* word, int value) {
  int caught = 0;
  __transaction_atomic {
    try {
      *word += 1;
      throw value;
    } catch (int thrown) {
      caught = thrown;
      *word += 10;
    }
  }
  return caught;
}

size_t itm_catch_standard(uint64_t* word) {
  size_t length = 0;
  __transaction_atomic {
    try {
      throw std::runtime_error("a sentence that is too long to be kept in a small string");
    } catch (std::runtime_error& error) {
      *word += 1;
      length = 1;
    }
  }
  return length;
}

void itm_throw_standard(uint64_t* word) {
  __transaction_atomic {
    *word += 1;
    throw std::runtime_error("a sentence that is too long to be kept in a small string");
  }
}

void itm_cancel_in_handler_of_pointer(uint64_t* word) {
  __transaction_atomic {
    try {
      *word += 1;
      throw "a pointer";
    } catch (const char*) {
      *word += 1;
      __transaction_cancel;
    }
  }
}

void itm_cancel_in_handler_of_base(uint64_t* word) {
  __transaction_atomic {
    try {
      *word += 1;
      throw Both{};
    } catch (Second&) {
      *word += 1;
      __transaction_cancel;
    }
  }
}

void itm_cancel_in_handler(uint64_t* word) {
  __transaction_atomic {
    try {
      *word += 1;
      throw 3;
    } catch (int) {
      *word += 1;
      __transaction_cancel;
    }
  }
}

int itm_begin_again_in_handler(uint64_t* word) {
  int runs = 0;
  __transaction_atomic {
    const uint64_t before = *word;
    try {
      throw 3;
    } catch (int thrown) {
      in_body();
      *word = before + static_cast<uint64_t>(thrown);
      runs = thrown;
    }
  }
  return runs;
}

int itm_begin_again_in_destructor(uint64_t* word) {
  int caught = 0;
  __transaction_atomic {
    *word += 1;
    try {
      throw_past_guard(word);
    } catch (int thrown) {
      caught = thrown;
    }
  }
  return caught;
}

int itm_throw_again(uint64_t* word) {
  int caught = 0;
  __transaction_atomic {
    *word += 1;
    try {
      throw_again_past_guards(word);
    } catch (int thrown) {
      caught = thrown;
    }
  }
  return caught;
}

void itm_throw_again_out(uint64_t* word) {
  __transaction_atomic {
    const uint64_t before = word[8];
    in_body();
    *word += before + 1;
    throw;
  }
}
