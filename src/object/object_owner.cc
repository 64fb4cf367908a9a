#include "object/object_owner.hpp"

#include <algorithm>
#include <cstring>

#include "base/checksum.hpp"
#include "media/lock.hpp"

namespace perdura::object {

using format::ObjectHead;
using format::ObjectOwner;

namespace {

u64 owner_checksum(const ObjectOwner& owner) {
  return checksum(&owner.sequence, sizeof owner - sizeof owner.checksum);
}

// The digits of a UUID as the system writes it, two a byte; dashes are left out.
void copy_uuid(const char* text, u8 (&into)[16]) {
  size_t digits = 0;
  for (; *text != '\0' && digits < 2 * sizeof into; ++text) {
    const char letter = static_cast<char>(*text | ' ');
    const bool is_letter = letter >= 'a' && letter <= 'f';
    if (!is_letter && (*text < '0' || *text > '9')) continue;
    const int value = is_letter ? letter - 'a' + 10 : *text - '0';
    u8& byte = into[digits++ / 2];
    byte = static_cast<u8>(byte << 4 | value);
  }
}

}  // namespace

ObjectOwner owner_of(const ObjectHead& head) {
  ObjectOwner owner{};
  if (head.log_lines == 0) return owner;
  format::OwnerRecord self;
  std::memcpy(&self, media::describe_owner().bytes, sizeof self);
  owner.sequence = head.sequence;
  owner.pid = self.pid;
  owner.start_time = self.start_time;
  copy_uuid(self.boot_id, owner.boot_id);
  owner.checksum = owner_checksum(owner);
  return owner;
}

ObjectOwner owner_found(const ObjectHead& head, const ObjectOwner& behind) {
  const bool is_of_head = head.log_lines != 0 && behind.sequence == head.sequence &&
                          behind.checksum == owner_checksum(behind);
  return is_of_head ? behind : ObjectOwner{};
}

bool is_running(const ObjectOwner& owner) {
  if (owner.pid == 0) return false;
  format::OwnerRecord self;
  std::memcpy(&self, media::describe_owner().bytes, sizeof self);
  u8 boot_id[sizeof owner.boot_id] = {};
  copy_uuid(self.boot_id, boot_id);
  return std::ranges::equal(boot_id, owner.boot_id) &&
         media::is_running(owner.pid, owner.start_time);
}

}  // namespace perdura::object
