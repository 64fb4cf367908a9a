#include "media/rados_api.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "media/loaded_library.hpp"

namespace perdura::media {
namespace {

Status load_rados(RadosApi& api) {
  PERDURA_ASSIGN(const LoadedLibrary library,
                 LoadedLibrary::load("librados.so.2", "the package librados2"));
#define PERDURA_RADOS_FIND(name) PERDURA_TRY(library.find("rados_" #name, api.name));
  PERDURA_RADOS_FUNCTIONS(PERDURA_RADOS_FIND)
#undef PERDURA_RADOS_FIND
  return {};
}

}  // namespace

Result<const RadosApi*> RadosApi::get() { return loaded_once<load_rados, RadosApi>(); }

Result<std::unique_ptr<RadosClient>> RadosClient::connect(const Wanted& wanted) {
  const RadosApi* api = wanted.api;
  if (api == nullptr) {
    PERDURA_ASSIGN(api, RadosApi::get());
  }
  std::unique_ptr<RadosClient> client(new RadosClient(*api, wanted));
  const std::string& medium = wanted.medium;
  const char* const user = wanted.user.empty() ? "admin" : wanted.user.c_str();
  int done = api->create(&client->cluster_, user);
  if (done < 0) return rados_failure(done, "cannot begin to use RADOS for '" + medium + "'");
  const char* const conf = wanted.conf.empty() ? nullptr : wanted.conf.c_str();
  done = api->conf_read_file(client->cluster_, conf);
  if (done < 0)
    return rados_failure(done, "cannot read the configuration of Ceph" +
                                   (conf != nullptr ? " '" + wanted.conf + "'" : std::string()) +
                                   " for '" + medium +
                                   "'; name it, as in rados://pool/name?conf=/etc/ceph/ceph.conf");
  const std::string patience = std::to_string(std::max<u64>(1, wanted.timeout_ms / 1000));
  (void)api->conf_set(client->cluster_, "client_mount_timeout", patience.c_str());
  done = api->connect(client->cluster_);
  if (done < 0) {
    const bool is_refused = done == -EACCES || done == -EPERM || done == -ENOENT || done == -EINVAL;
    const std::string remedy =
        is_refused
            ? "see whether the cluster knows the user, and whether its key is where the "
              "configuration says (?conf=FILE&user=NAME)"
            : "see whether its monitors run, and whether the configuration names them (?conf=FILE)";
    return Failure{Code::kIo, fmt::format("cannot {} the cluster of '{}' as client.{}{}: {}; {}",
                                          is_refused ? "use" : "reach", medium, user,
                                          is_refused ? "" : " within " + patience + " s",
                                          std::strerror(-done), remedy)};
  }
  done = api->ioctx_create(client->cluster_, wanted.pool.c_str(), &client->pool_);
  if (done == -ENOENT)
    return Failure{Code::kNotFound, "cannot open '" + medium + "': the cluster has no pool '" +
                                        wanted.pool + "'; 'ceph osd pool create " + wanted.pool +
                                        "' makes one"};
  if (done < 0) return rados_failure(done, "cannot use the pool of '" + medium + "'");
  api->ioctx_set_namespace(client->pool_, ("perdura." + wanted.name).c_str());
  return client;
}

RadosClient::~RadosClient() {
  if (pool_ != nullptr) api_.ioctx_destroy(pool_);
  if (cluster_ != nullptr) api_.shutdown(cluster_);
}

int RadosClient::read(const std::string& object, std::string& content) const {
  content.resize(64 * kKiB);
  const int got = api_.read(pool_, object.c_str(), content.data(), content.size(), 0);
  content.resize(static_cast<size_t>(std::max(got, 0)));
  return got;
}

int RadosClient::get_attribute(const std::string& object, const char* name,
                               std::string& value) const {
  value.resize(64 * kKiB);
  const int got = api_.getxattr(pool_, object.c_str(), name, value.data(), value.size());
  value.resize(static_cast<size_t>(std::max(got, 0)));
  return got;
}

Failure rados_failure(int error, std::string what) {
  if (error == -ESHUTDOWN)
    return {Code::kLocked, std::move(what) + ": another opening has taken the store over"};
  if (error == -ENOSPC || error == -EDQUOT)
    return {Code::kNoSpace, std::move(what) + ": the cluster, or its pool's quota, is full"};
  return system_failure(-error, std::move(what));
}

}  // namespace perdura::media
