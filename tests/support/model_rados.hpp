// What RADOS promises, and no more, behind librados' functions: for exploring what a store on it
// makes of that.
//
//  - An operation is done as a whole or not at all. What was acknowledged stays.
//  - Asynchronous operations of a client on one object are done in their order, others in any.
//  - Those of a client that died may still be done, at any time.
//  - An OSD refuses who is on the blocklist once it has that map: that is, once somebody who has it
//    has asked the OSD for something. Here each object has an OSD of its own.
#pragma once

#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "media/rados_api.hpp"
#include "support/paused_client.hpp"

namespace perdura::test {

class ModelRados {
 public:
  explicit ModelRados(u64 seed) : random_(seed), api_(functions()) {}

  /// Where the store "store" is for `client`, which outlives it, as this does.
  media::RadosClient::Wanted wanted(PausedClient& client) {
    media::RadosClient::Wanted wanted;
    wanted.medium = "rados://tests/store";
    wanted.pool = "tests";
    wanted.name = "store";
    // The only text that a client passes on before anything else.
    wanted.user = fmt::format("{} {}", reinterpret_cast<std::uintptr_t>(this),
                              reinterpret_cast<std::uintptr_t>(&client));
    wanted.api = &api_;
    return wanted;
  }

  /// What clients had under way when they died: as much of it as `keep` says is done now, or else
  /// never.
  template <class Keep>
  void deliver_late(Keep&& keep) {
    const std::lock_guard lock(mutex_);
    for (Pending& each : std::exchange(late_, {}))
      if (keep()) (void)admitted(*each.client, each.object, each.work);
  }

 private:
  struct Object {
    std::string content;
    std::map<std::string, std::string> attributes;
  };
  struct Lock {
    std::string client, cookie, address;
  };
  struct Client;
  struct Completion;
  using Work = std::function<int(ModelRados&)>;
  struct Pending {
    std::shared_ptr<Client> client;
    std::string object;
    Work work;
    Completion* completion = nullptr;
    bool is_write = true;
  };
  struct Client : std::enable_shared_from_this<Client> {
    ModelRados* model = nullptr;
    PausedClient* program = nullptr;
    std::string address;
    u64 map = 0;
    std::vector<Pending> pending;
  };
  struct Completion {
    std::shared_ptr<Client> client;
    bool done = false;
    int answer = 0;
  };
  struct Handle {
    std::shared_ptr<Client> client;
  };
  struct WriteSteps {
    std::vector<std::function<int(ModelRados&, const std::string&)>> steps;
  };
  struct ReadSteps {
    std::vector<std::function<int(ModelRados&, const std::string&)>> steps;
  };
  struct Listing {
    std::vector<std::string> names;
    size_t at = 0;
  };

  static Client& of(void* handle) { return *static_cast<Handle*>(handle)->client; }

  /// With the mutex: the work, unless the object's OSD refuses the client.
  int admitted(Client& client, const std::string& object, const Work& work) {
    u64& seen = seen_[object];
    const auto blocked = blocklist_.find(client.address);
    if (blocked != blocklist_.end() && seen >= blocked->second) return -ESHUTDOWN;
    seen = std::max(seen, client.map);
    return work(*this);
  }
  /// A request that is waited for at once.
  static int ask(Client& client, const std::string& object, const Work& work) {
    if (!client.program->may_ask()) {
      client.model->leave(client);
      return -ETIMEDOUT;
    }
    const std::lock_guard lock(client.model->mutex_);
    return client.model->admitted(client, object, work);
  }
  static int start(void* io, rados_completion_t completion, const char* object, Work work,
                   bool is_write = true) {
    Client& client = of(io);
    auto* const waits = static_cast<Completion*>(completion);
    waits->client = client.shared_from_this();
    const std::lock_guard lock(client.model->mutex_);
    client.pending.push_back({client.shared_from_this(), object, std::move(work), waits, is_write});
    return 0;
  }
  /// Whatever is under way may be done without its client.
  void leave(Client& client) {
    const std::lock_guard lock(mutex_);
    for (Pending& each : std::exchange(client.pending, {})) {
      if (each.completion != nullptr) {
        each.completion->done = true;
        each.completion->answer = -ETIMEDOUT;
        each.completion = nullptr;
      }
      if (each.is_write) late_.push_back(std::move(each));
    }
  }
  static int wait(rados_completion_t completion) {
    auto* const waits = static_cast<Completion*>(completion);
    while (!waits->done) {
      Client& client = *waits->client;
      ModelRados& model = *client.model;
      if (!client.program->may_ask()) {
        model.leave(client);
        continue;
      }
      const std::lock_guard lock(model.mutex_);
      if (client.pending.empty()) continue;
      // Any one of which no earlier one is of the same object.
      size_t chosen = model.random_() % client.pending.size();
      for (size_t i = 0; i < chosen; ++i)
        if (client.pending[i].object == client.pending[chosen].object) chosen = i;
      Pending next = std::move(client.pending[chosen]);
      client.pending.erase(client.pending.begin() + static_cast<long>(chosen));
      next.completion->answer = model.admitted(client, next.object, next.work);
      next.completion->done = true;
    }
    return 0;
  }

  Object* find(const std::string& name) {
    const auto found = objects_.find(name);
    return found == objects_.end() ? nullptr : &found->second;
  }
  static int remove(ModelRados& model, const std::string& name) {
    return model.objects_.erase(name) == 0 ? -ENOENT : 0;
  }
  static int compare(ModelRados& model, const std::string& name, const std::string& attribute,
                     const std::string& value) {
    const Object* const object = model.find(name);
    if (object == nullptr) return -ENOENT;
    const auto found = object->attributes.find(attribute);
    const std::string is = found == object->attributes.end() ? "" : found->second;
    return is == value ? 0 : -ECANCELED;
  }
  /// All steps on a copy, which replaces the object where none fails.
  static int apply(ModelRados& model, const std::string& name, const WriteSteps& steps) {
    const auto before = model.objects_;
    for (const auto& each : steps.steps)
      if (const int done = each(model, name); done < 0) {
        model.objects_ = before;
        return done;
      }
    return 0;
  }

  static media::RadosApi functions() {
    media::RadosApi api;
    api.create = [](rados_t* cluster, const char* const user) {
      auto client = std::make_shared<Client>();
      const std::string text = user;
      const size_t space = text.find(' ');
      client->model = reinterpret_cast<ModelRados*>(std::stoull(text.substr(0, space)));
      client->program = reinterpret_cast<PausedClient*>(std::stoull(text.substr(space)));
      ModelRados& model = *client->model;
      const std::lock_guard lock(model.mutex_);
      client->address = fmt::format("10.0.0.1:0/{}", ++model.clients_);
      client->map = model.map_;
      *cluster = new Handle{std::move(client)};
      return 0;
    };
    api.conf_read_file = [](rados_t, const char*) { return 0; };
    api.conf_set = [](rados_t, const char*, const char*) { return 0; };
    api.connect = [](rados_t) { return 0; };
    api.ioctx_create = [](rados_t cluster, const char*, rados_ioctx_t* io) {
      *io = new Handle{static_cast<Handle*>(cluster)->client};
      return 0;
    };
    api.ioctx_set_namespace = [](rados_ioctx_t, const char*) {};
    api.ioctx_destroy = [](rados_ioctx_t io) { delete static_cast<Handle*>(io); };
    api.shutdown = [](rados_t cluster) { delete static_cast<Handle*>(cluster); };
    api.blocklist_add = [](rados_t cluster, char* address, uint32_t) {
      Client& client = of(cluster);
      return ask(client, "the monitor", [address](ModelRados& model) {
        model.blocklist_[address] = ++model.map_;
        return 0;
      });
    };
    api.wait_for_latest_osdmap = [](rados_t cluster) {
      Client& client = of(cluster);
      return ask(client, "the monitor", [&client](ModelRados& model) {
        client.map = model.map_;
        return 0;
      });
    };
    api.read = [](rados_ioctx_t io, const char* name, char* into, size_t length, uint64_t) {
      return ask(of(io), name, [&](ModelRados& model) {
        const Object* const object = model.find(name);
        if (object == nullptr) return -ENOENT;
        const size_t count = std::min(length, object->content.size());
        std::memcpy(into, object->content.data(), count);
        return static_cast<int>(count);
      });
    };
    api.write_full = [](rados_ioctx_t io, const char* name, const char* bytes, size_t length) {
      return ask(of(io), name, [&](ModelRados& model) {
        model.objects_[name].content.assign(bytes, length);
        return 0;
      });
    };
    api.remove = [](rados_ioctx_t io, const char* name) {
      return ask(of(io), name, [&](ModelRados& model) { return remove(model, name); });
    };
    api.getxattr = [](rados_ioctx_t io, const char* name, const char* attribute, char* into,
                      size_t length) {
      return ask(of(io), name, [&](ModelRados& model) {
        const Object* const object = model.find(name);
        if (object == nullptr) return -ENOENT;
        const auto found = object->attributes.find(attribute);
        if (found == object->attributes.end()) return -ENODATA;
        const size_t count = std::min(length, found->second.size());
        std::memcpy(into, found->second.data(), count);
        return static_cast<int>(count);
      });
    };
    api.setxattr = [](rados_ioctx_t io, const char* name, const char* attribute, const char* value,
                      size_t length) {
      return ask(of(io), name, [&](ModelRados& model) {
        model.objects_[name].attributes[attribute].assign(value, length);
        return 0;
      });
    };
    api.aio_create_completion2 = [](void*, rados_callback_t, rados_completion_t* completion) {
      *completion = new Completion;
      return 0;
    };
    api.aio_wait_for_complete_and_cb = wait;
    api.aio_get_return_value = [](rados_completion_t completion) {
      return static_cast<Completion*>(completion)->answer;
    };
    api.aio_release = [](rados_completion_t completion) {
      delete static_cast<Completion*>(completion);
    };
    api.aio_remove = [](rados_ioctx_t io, const char* name, rados_completion_t completion) {
      return start(io, completion, name,
                   [name = std::string(name)](ModelRados& model) { return remove(model, name); });
    };
    api.nobjects_list_open = [](rados_ioctx_t io, rados_list_ctx_t* listing) {
      Client& client = of(io);
      auto names = std::make_unique<Listing>();
      const int done = ask(client, "list", [&](ModelRados& model) {
        for (const auto& each : model.objects_) names->names.push_back(each.first);
        return 0;
      });
      if (done >= 0) *listing = names.release();
      return done;
    };
    api.nobjects_list_next = [](rados_list_ctx_t listing, const char** name, const char**,
                                const char**) {
      auto& names = *static_cast<Listing*>(listing);
      if (names.at == names.names.size()) return -ENOENT;
      *name = names.names[names.at++].c_str();
      return 0;
    };
    api.nobjects_list_close = [](rados_list_ctx_t listing) {
      delete static_cast<Listing*>(listing);
    };
    api.create_write_op = [] { return static_cast<rados_write_op_t>(new WriteSteps); };
    api.release_write_op = [](rados_write_op_t steps) { delete static_cast<WriteSteps*>(steps); };
    api.write_op_cmpxattr = [](rados_write_op_t steps, const char* attribute, uint8_t,
                               const char* value, size_t length) {
      static_cast<WriteSteps*>(steps)->steps.push_back(
          [attribute = std::string(attribute), value = std::string(value, length)](
              ModelRados& model, const std::string& name) {
            return compare(model, name, attribute, value);
          });
    };
    api.write_op_setxattr = [](rados_write_op_t steps, const char* attribute, const char* value,
                               size_t length) {
      static_cast<WriteSteps*>(steps)->steps.push_back(
          [attribute = std::string(attribute), value = std::string(value, length)](
              ModelRados& model, const std::string& name) {
            model.objects_[name].attributes[attribute] = value;
            return 0;
          });
    };
    api.write_op_rmxattr = [](rados_write_op_t steps, const char* attribute) {
      static_cast<WriteSteps*>(steps)->steps.push_back(
          [attribute = std::string(attribute)](ModelRados& model, const std::string& name) {
            model.objects_[name].attributes.erase(attribute);
            return 0;
          });
    };
    api.write_op_write_full = [](rados_write_op_t steps, const char* bytes, size_t length) {
      static_cast<WriteSteps*>(steps)->steps.push_back(
          [content = std::string(bytes, length)](ModelRados& model, const std::string& name) {
            model.objects_[name].content = content;
            return 0;
          });
    };
    api.write_op_append = [](rados_write_op_t steps, const char* bytes, size_t length) {
      static_cast<WriteSteps*>(steps)->steps.push_back(
          [content = std::string(bytes, length)](ModelRados& model, const std::string& name) {
            model.objects_[name].content += content;
            return 0;
          });
    };
    api.write_op_operate = [](rados_write_op_t steps, rados_ioctx_t io, const char* name, time_t*,
                              int) {
      return ask(of(io), name, [&](ModelRados& model) {
        return apply(model, name, *static_cast<WriteSteps*>(steps));
      });
    };
    api.aio_write_op_operate = [](rados_write_op_t steps, rados_ioctx_t io,
                                  rados_completion_t completion, const char* name, time_t*, int) {
      return start(io, completion, name,
                   [name = std::string(name), copy = *static_cast<WriteSteps*>(steps)](
                       ModelRados& model) { return apply(model, name, copy); });
    };
    api.create_read_op = [] { return static_cast<rados_read_op_t>(new ReadSteps); };
    api.release_read_op = [](rados_read_op_t steps) { delete static_cast<ReadSteps*>(steps); };
    api.read_op_cmpxattr = [](rados_read_op_t steps, const char* attribute, uint8_t,
                              const char* value, size_t length) {
      static_cast<ReadSteps*>(steps)->steps.push_back(
          [attribute = std::string(attribute), value = std::string(value, length)](
              ModelRados& model, const std::string& name) {
            return compare(model, name, attribute, value);
          });
    };
    api.read_op_stat = [](rados_read_op_t steps, uint64_t* size, time_t*, int* answer) {
      static_cast<ReadSteps*>(steps)->steps.push_back(
          [size, answer](ModelRados& model, const std::string& name) {
            const Object* const object = model.find(name);
            *answer = object == nullptr ? -ENOENT : 0;
            if (object != nullptr) *size = object->content.size();
            return *answer;
          });
    };
    api.read_op_read = [](rados_read_op_t steps, uint64_t, size_t length, char* into, size_t* got,
                          int* answer) {
      static_cast<ReadSteps*>(steps)->steps.push_back(
          [=](ModelRados& model, const std::string& name) {
            const Object* const object = model.find(name);
            *answer = object == nullptr ? -ENOENT : 0;
            if (object == nullptr) return *answer;
            *got = std::min(length, object->content.size());
            std::memcpy(into, object->content.data(), *got);
            return 0;
          });
    };
    api.read_op_operate = [](rados_read_op_t steps, rados_ioctx_t io, const char* name, int) {
      return ask(of(io), name, [&](ModelRados& model) {
        for (const auto& each : static_cast<ReadSteps*>(steps)->steps)
          if (const int done = each(model, name); done < 0) return done;
        return 0;
      });
    };
    api.aio_read_op_operate = [](rados_read_op_t steps, rados_ioctx_t io,
                                 rados_completion_t completion, const char* name, int) {
      return start(
          io, completion, name,
          [name = std::string(name), copy = *static_cast<ReadSteps*>(steps)](ModelRados& model) {
            for (const auto& each : copy.steps)
              if (const int done = each(model, name); done < 0) return done;
            return 0;
          },
          false);
    };
    api.lock_exclusive = [](rados_ioctx_t io, const char* name, const char*, const char* cookie,
                            const char*, timeval*, uint8_t flags) {
      Client& client = of(io);
      return ask(client, name, [&](ModelRados& model) {
        if (!model.lock_.cookie.empty()) {
          const bool is_own = model.lock_.cookie == cookie;
          return is_own && (flags & LIBRADOS_LOCK_FLAG_RENEW) != 0 ? 0 : is_own ? -EEXIST : -EBUSY;
        }
        (void)model.objects_[name];
        model.lock_ = {"client." + client.address, cookie, client.address};
        return 0;
      });
    };
    api.unlock = [](rados_ioctx_t io, const char* name, const char*, const char* cookie) {
      return ask(of(io), name, [&](ModelRados& model) {
        if (model.lock_.cookie != cookie) return -ENOENT;
        model.lock_ = {};
        return 0;
      });
    };
    api.break_lock = [](rados_ioctx_t io, const char* name, const char*, const char*,
                        const char* cookie) {
      return ask(of(io), name, [&](ModelRados& model) {
        if (model.lock_.cookie != cookie) return -ENOENT;
        model.lock_ = {};
        return 0;
      });
    };
    api.list_lockers = [](rados_ioctx_t io, const char* name, const char*, int* exclusive, char*,
                          size_t*, char* clients, size_t*, char* cookies, size_t*, char* addresses,
                          size_t*) -> ssize_t {
      return ask(of(io), name, [&](ModelRados& model) {
        *exclusive = 1;
        if (model.lock_.cookie.empty()) return 0;
        std::strcpy(clients, model.lock_.client.c_str());
        std::strcpy(cookies, model.lock_.cookie.c_str());
        std::strcpy(addresses, model.lock_.address.c_str());
        return 1;
      });
    };
    return api;
  }

  std::mutex mutex_;
  std::mt19937_64 random_;
  const media::RadosApi api_;
  u64 clients_ = 0;
  u64 map_ = 0;
  std::map<std::string, u64> blocklist_;  ///< since which map
  std::map<std::string, u64> seen_;       ///< which map the OSD of an object has
  std::map<std::string, Object> objects_;
  Lock lock_;
  std::vector<Pending> late_;
};

}  // namespace perdura::test
