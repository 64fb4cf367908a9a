#include "heap/known_types.hpp"

#include <mutex>

#include "base/process.hpp"

namespace perdura {
namespace {

// Before any constructor of a static object runs, and after all destructors.
constinit detail::KnownType* first = nullptr;

}  // namespace

namespace detail {

KnownType::KnownType(const perdura_type& type) noexcept : type_(type) {
  std::lock_guard lock(process_mutex(ProcessMutex::kKnownTypes));
  next_ = first;
  if (first != nullptr) first->before_ = this;
  first = this;
}

KnownType::~KnownType() {
  std::lock_guard lock(process_mutex(ProcessMutex::kKnownTypes));
  (before_ != nullptr ? before_->next_ : first) = next_;
  if (next_ != nullptr) next_->before_ = before_;
}

}  // namespace detail

void heap::for_each_known_type(const std::function<void(const perdura_type&)>& visit) {
  std::lock_guard lock(process_mutex(ProcessMutex::kKnownTypes));
  for (const detail::KnownType* each = first; each != nullptr; each = each->next())
    visit(each->type());
}

}  // namespace perdura
