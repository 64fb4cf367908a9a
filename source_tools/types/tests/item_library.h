#pragma once

struct item {
  struct item* next;
  char* text;
};
struct item* make_item(const char* text);
