#include "heap/known_types.hpp"

#include <mutex>

#include "base/process.hpp"

namespace perdura {
namespace {

// Before any constructor of a static object runs, and after all destructors.
constinit detail::KnownType* first = nullptr;

}  // namespace

namespace detail {

KnownType::KnownType(const perdura_type& type, Describe members, bool is_former) noexcept
    : type_(type), members_(members), is_former_(is_former) {
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

detail::Describe heap::members_of(const perdura_type& type) {
  std::lock_guard lock(process_mutex(ProcessMutex::kKnownTypes));
  for (const detail::KnownType* each = first; each != nullptr; each = each->next())
    if (&each->type() == &type && each->members() != nullptr) return each->members();
  return nullptr;
}

void heap::for_each_known_type(const std::function<void(const perdura_type&)>& visit) {
  {
    std::lock_guard lock(process_mutex(ProcessMutex::kKnownTypes));
    for (const detail::KnownType* each = first; each != nullptr; each = each->next())
      if (!each->is_former()) visit(each->type());
  }
  for_each_typed_type(visit);
}

}  // namespace perdura
