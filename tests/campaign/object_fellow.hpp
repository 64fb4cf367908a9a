// A second process that shares objects with a test, and makes the calls of them that it is told to.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>

#include "logged_objects.hpp"
#include "support/process.hpp"

namespace perdura::proof {

class ObjectFellow {
 public:
  /// While this process has one thread.
  explicit ObjectFellow(const std::string& uri)
      : board_(new(::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Board),
        process_([&](test::ToldProcess::Ends ends) { return live(ends, uri); }) {}
  ~ObjectFellow() { ::munmap(board_, sizeof *board_); }
  ObjectFellow(const ObjectFellow&) = delete;

  // --- these throw what is thrown there
  void open_store() { (void)ask(Order::kOpen); }
  void object(const std::string& name, ObjectState state, const ObjectOptions& options) {
    board_->state = state;
    board_->options = options;
    (void)ask(Order::kObject, name);
    chosen_.emplace(name, options);
  }
  u64 call(const std::string& name, const LoggedObject::Made& made) {
    board_->made = made;
    return ask(Order::kCall, name);
  }
  void close() {
    (void)ask(Order::kClose);
    chosen_.clear();
  }
  /// The options of one that it has open; nullptr: it has not.
  const ObjectOptions* chosen(const std::string& name) const {
    const auto found = chosen_.find(name);
    return found == chosen_.end() ? nullptr : &found->second;
  }
  /// What was wrong before, or "".
  [[nodiscard]] std::string kill() { return process_.kill(); }

 private:
  enum class Order : u64 { kOpen, kObject, kCall, kClose };
  struct Board {
    char name[16];
    ObjectState state;
    ObjectOptions options;
    LoggedObject::Made made;
    u64 answer;
    Code code;
    char why[500];
  };

  u64 ask(Order order, const std::string& name = "") {
    std::snprintf(board_->name, sizeof board_->name, "%s", name.c_str());
    process_.order(static_cast<u64>(order));
    u64 obeyed = 0;
    if (!process_.get(obeyed)) throw std::runtime_error("the other process has died");
    if (board_->code != Code::kOk) throw Error(board_->code, board_->why);
    return board_->answer;
  }

  // In the other process.
  std::string live(test::ToldProcess::Ends ends, const std::string& uri) {
    std::unique_ptr<detail::ObjectsRuntime> runtime;
    std::map<std::string, std::shared_ptr<detail::OpenObject>> open;
    for (u64 order = 0; ::read(ends.orders, &order, sizeof order) == sizeof order;) {
      board_->code = Code::kOk;
      try {
        switch (static_cast<Order>(order)) {
          case Order::kOpen:
            runtime = value_or_throw(detail::ObjectsRuntime::open(uri, {.shared = true}));
            break;
          case Order::kObject:
            open[board_->name] = value_or_throw(
                runtime->object(board_->name, type_of(board_->state), board_->options));
            break;
          case Order::kCall:
            board_->answer = make_call(*open.at(board_->name), board_->made);
            break;
          case Order::kClose:
            open.clear();
            value_or_throw(runtime->close());
            runtime.reset();
            break;
        }
      } catch (const Error& error) {
        board_->code = error.code();
        std::snprintf(board_->why, sizeof board_->why, "%s", error.what());
      }
      if (::write(ends.replies, &order, sizeof order) != sizeof order) return "nobody listens";
    }
    return "";
  }

  Board* const board_;
  test::ToldProcess process_;
  std::map<std::string, ObjectOptions> chosen_;
};

}  // namespace perdura::proof
