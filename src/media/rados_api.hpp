// librados' C interface, loaded when the first store on a cluster is opened, and what it needs
// around it in C++.
#pragma once

#include <rados/librados.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"
#include "media/medium.hpp"

namespace perdura::media {

#define PERDURA_RADOS_FUNCTIONS(X) \
  X(create)                        \
  X(conf_read_file)                \
  X(conf_set)                      \
  X(connect)                       \
  X(shutdown)                      \
  X(ioctx_create)                  \
  X(ioctx_destroy)                 \
  X(ioctx_set_namespace)           \
  X(blocklist_add)                 \
  X(wait_for_latest_osdmap)        \
  X(read)                          \
  X(write_full)                    \
  X(remove)                        \
  X(getxattr)                      \
  X(setxattr)                      \
  X(nobjects_list_open)            \
  X(nobjects_list_next)            \
  X(nobjects_list_close)           \
  X(aio_create_completion2)        \
  X(aio_wait_for_complete_and_cb)  \
  X(aio_get_return_value)          \
  X(aio_release)                   \
  X(aio_remove)                    \
  X(aio_write_op_operate)          \
  X(aio_read_op_operate)           \
  X(create_write_op)               \
  X(release_write_op)              \
  X(write_op_cmpxattr)             \
  X(write_op_setxattr)             \
  X(write_op_rmxattr)              \
  X(write_op_write_full)           \
  X(write_op_append)               \
  X(write_op_operate)              \
  X(create_read_op)                \
  X(release_read_op)               \
  X(read_op_cmpxattr)              \
  X(read_op_read)                  \
  X(read_op_stat)                  \
  X(read_op_operate)               \
  X(lock_exclusive)                \
  X(unlock)                        \
  X(list_lockers)                  \
  X(break_lock)

/// Functions that librados calls rados_…, by their names there.
struct RadosApi {
#define PERDURA_RADOS_MEMBER(name) decltype(::rados_##name)* name = nullptr;
  PERDURA_RADOS_FUNCTIONS(PERDURA_RADOS_MEMBER)
#undef PERDURA_RADOS_MEMBER

  /// kUnsupported where it is not installed. Thread-safe.
  static Result<const RadosApi*> get();
};

/// Where objects of one store are: a pool of a cluster, and the store's namespace in it. A client
/// of its own, so that it alone is on the blocklist when somebody takes over.
class RadosClient {
 public:
  struct Wanted {
    std::string medium;  ///< for messages
    std::string pool;
    std::string name;
    std::string conf;
    std::string user;
    u64 timeout_ms = 0;
    const RadosApi* api = nullptr;  ///< not librados: for tests
  };
  static Result<std::unique_ptr<RadosClient>> connect(const Wanted& wanted);
  ~RadosClient();
  RadosClient(const RadosClient&) = delete;

  const RadosApi& api() const { return api_; }
  const Wanted& wanted() const { return wanted_; }
  rados_t cluster() const { return cluster_; }
  rados_ioctx_t pool() const { return pool_; }

  // --- as librados has them: negative on failure

  int read(const std::string& object, std::string& content) const;  ///< the beginning, to 64 KiB
  int get_attribute(const std::string& object, const char* name, std::string& value) const;

 private:
  RadosClient(const RadosApi& api, Wanted wanted) : api_(api), wanted_(std::move(wanted)) {}

  const RadosApi& api_;
  const Wanted wanted_;
  rados_t cluster_ = nullptr;
  rados_ioctx_t pool_ = nullptr;
};

/// Operations that are done as one.
class RadosWrite {
 public:
  explicit RadosWrite(const RadosApi& api) : api_(api), operation_(api.create_write_op()) {}
  ~RadosWrite() { api_.release_write_op(operation_); }
  RadosWrite(const RadosWrite&) = delete;

  void assert_attribute(const char* name, std::string_view value) {
    api_.write_op_cmpxattr(operation_, name, LIBRADOS_CMPXATTR_OP_EQ, value.data(), value.size());
  }
  void set_attribute(const char* name, std::string_view value) {
    api_.write_op_setxattr(operation_, name, value.data(), value.size());
  }
  void remove_attribute(const char* name) { api_.write_op_rmxattr(operation_, name); }
  /// Copied.
  void write_full(std::string_view content) {
    api_.write_op_write_full(operation_, content.data(), content.size());
  }
  void append(std::string_view content) {
    api_.write_op_append(operation_, content.data(), content.size());
  }
  int operate(rados_ioctx_t pool, const std::string& object) {
    return api_.write_op_operate(operation_, pool, object.c_str(), nullptr, kFullTry);
  }
  int start(rados_ioctx_t pool, const std::string& object, rados_completion_t completion) {
    return api_.aio_write_op_operate(operation_, pool, completion, object.c_str(), nullptr,
                                     kFullTry);
  }

 private:
  // A full pool is a failure, and nothing to wait for.
  static constexpr int kFullTry = LIBRADOS_OPERATION_FULL_TRY;

  const RadosApi& api_;
  rados_write_op_t operation_;
};

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// `error`: negative. Of a client on the blocklist kLocked.
Failure rados_failure(int error, std::string what);

}  // namespace perdura::media
