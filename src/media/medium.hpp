// The medium: the only way to durable bytes. Two interfaces, since servers are no disks:
//
//   Medium          objects, each put, read and erased as a whole, and told apart by a number, its
//     |             place; the record that says which of them are a version. All that a store in
//     |             chunks needs: files, NVM and servers have it.
//   LinearMedium    besides, places are the offsets of bytes, any of which can be read and
//                   overwritten, mapped or loaded from: home images and logs. Files and NVM.
//
// Rules that make crashes provable:
//  1. Nothing outside src/media writes durable bytes, and recovery reads through this interface.
//  2. Every write and barrier carries a static Site, so that a test can switch one off.
//  3. Writes are unordered until the next barrier: a crash keeps any subset of the sectors
//     (block media), of the 8-byte words (non-temporal NVM writes), or of the objects (servers)
//     written since.
//  4. Recovery believes no byte before the record it belongs to was found whole, and asks that
//     here, so that a test can decide what a crash left by what recovery looks at. What was found
//     whole is durable with this session's first barrier at the latest, and before anything else on
//     NVM: a process that was killed may have left it in the caches alone.
//  5. barrier() returns when everything written before it is durable. A failed barrier means that
//     nothing since the last one may be acknowledged, ever: the medium refuses further barriers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/bits.hpp"
#include "base/result.hpp"

namespace perdura::media {

class FileLock;

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

/// Where in the source a durable write or barrier is made. Static; compared by address.
struct Site {
  const char* file;
  int line;
  const char* what;
};
#define PERDURA_SITE(what)                                                  \
  ([]() -> const ::perdura::media::Site& {                                  \
    static constexpr ::perdura::media::Site site{__FILE__, __LINE__, what}; \
    return site;                                                            \
  }())

/// Where lines are that are to lie one behind the other: a page, or at most kLinesMax places.
/// Meanwhile the lines of the next one can be fetched.
struct Gather {
  static constexpr size_t kLinesMax = kLinesPerPage;
  const std::byte* page = nullptr;  ///< or nullptr
  const std::byte* page_ahead = nullptr;
  std::span<const std::byte* const> lines{};  ///< where `page` is nullptr
  std::span<const std::byte* const> ahead{};

  size_t bytes() const { return page != nullptr ? kPageBytes : lines.size() * kLineBytes; }
};

struct Geometry {
  u64 size = 0;                   ///< bytes
  u64 atomic_bytes = 8;           ///< what a crash never tears: 8 on NVM, a sector on block media
  u64 write_bytes = 64;           ///< writes start, end, and lie in memory at multiples of it
  bool byte_addressable = false;  ///< direct() works
  bool reads_in_handlers = true;  ///< signal handlers may call read
  /// What is written at a place is an object. It is read and written as a whole from its beginning
  /// on, nothing is there before it is written, and nothing says how large one is. What is no chunk
  /// is in objects of a page each.
  bool objects = false;
};

/// Writes in flight of one thread, each of one object. Data passed to submit must stay until drain
/// returns, or the queue is destroyed, which drains it.
class WriteQueue {
 public:
  virtual ~WriteQueue() = default;
  virtual Status submit(u64 offset, Bytes data, const Site& site) = 0;
  /// Nothing that is durable, or ever will be, refers to the object at `place` of `length` bytes.
  /// It goes before this queue writes there again. Where it cannot, or a crash comes first, it
  /// stays until it is overwritten. Linear media keep the space.
  virtual void erase(u64 place, u64 length) noexcept { (void)place, (void)length; }
  /// NVM: write lines gathered from where they are, which other threads may be storing to, and
  /// return the checksum of exactly the bytes written.
  virtual Result<u64> submit_gathered(u64 offset, const Gather& gather, const Site& site);
  /// Wait until all but the `pending_max` youngest writes are done; the first failure of any is
  /// returned once. After drain() a barrier of any thread covers this queue's writes.
  virtual Status drain(size_t pending_max) = 0;
  Status drain() { return drain(0); }
};

struct ReadRequest {
  u64 offset;
  MutableBytes into;  ///< page-aligned for direct I/O
};

class LinearMedium;

/// Thread-safe. Offsets and lengths of writes are multiples of geometry().write_bytes.
class Medium {
 public:
  virtual ~Medium() = default;

  virtual const std::string& name() const = 0;  ///< the path or address, for messages
  virtual Geometry geometry() const = 0;

  /// The same medium, if it has bytes rather than objects; else nullptr.
  virtual LinearMedium* linear() noexcept { return nullptr; }

  /// Make the medium `size` bytes long; new space reads as zeros and cannot run out later.
  /// `prewrite` also writes it, so that later overwrites change no file-system metadata. Of objects
  /// both are true only of what was prewritten, in objects of a page.
  virtual Status grow(u64 size, bool prewrite) = 0;

  // --- giving space back: what nothing refers to that is durable, while nobody else has it open

  /// The medium ends at `size`, sooner or later: a crash may leave it as long as it was, with
  /// anything behind.
  virtual Status shrink(u64 size) {
    (void)size;
    return keeps_its_space();
  }
  /// What was in [offset, offset + length) is gone, sooner or later: a crash may leave any of it.
  /// It reads as zeros, and takes no space before have_space().
  virtual Status give_back(u64 offset, u64 length) {
    (void)offset, (void)length;
    return keeps_its_space();
  }
  /// What give_back() got there, if it did, is there again: writes cannot run out of it.
  virtual Status have_space(u64 offset, u64 length) {
    (void)offset, (void)length;
    return {};
  }
  /// What it takes up on its device, as far as that says so.
  virtual u64 occupied_bytes() const { return geometry().size; }

  virtual Status write(u64 offset, Bytes data, const Site& site) = 0;
  virtual std::unique_ptr<WriteQueue> queue() = 0;
  virtual Status barrier(const Site& site) = 0;
  /// Write a record of a page, of which all else follows, unless another process has written it
  /// since this one did: kLocked. Where the medium's lock lets no other write, that cannot be.
  virtual Status write_record(u64 place, Bytes record, const Site& site) {
    return write(place, record, site);
  }
  /// The same at several places, in any order: copies of one record.
  virtual Status write_record_copies(std::span<const u64> places, Bytes record, const Site& site) {
    for (const u64 place : places) PERDURA_TRY(write_record(place, record, site));
    return {};
  }

  /// Whether a name leads to it still. Of a file that was deleted, or that another one replaced,
  /// nothing is left when this process ends. Barriers of block media ask by themselves; those of
  /// NVM are too fast for it, so whoever makes a version durable does.
  virtual Status check_named() const { return {}; }
  /// Take the name away on purpose: nothing shall be left when this process ends.
  virtual Status give_up_name() {
    return Failure{Code::kUnsupported, "'" + name() + "' is no file that could be without a name"};
  }

  /// Any bytes, or an object from its beginning on.
  virtual Status read(u64 offset, MutableBytes into) = 0;
  /// Several reads at once, in any order; the first failure of any.
  virtual Status read_all(std::span<const ReadRequest> requests);

  // --- readers beside a writer. What cannot have both lets nobody read while one writes, so that
  // these have nothing to do.

  /// Who reads: from now on, until its next pin of the region, what this version of the region
  /// consists of stays on the medium as it is, if the writer had not given it up before: look then.
  /// One thread at a time.
  virtual Status pin(u32 region, u64 version) {
    (void)region, (void)version;
    return {};
  }
  /// Who writes: the lowest version of the region from `from` on that anybody has pinned; `from`
  /// where the system does not say. Whoever pins one later finds all that was durable before this
  /// was asked.
  virtual u64 lowest_pin(u32 region, u64 from) const noexcept {
    (void)region, (void)from;
    return kNoPin;
  }
  static constexpr u64 kNoPin = ~u64{0};
  /// Who reads: whether anybody writes now.
  virtual bool has_writer() const noexcept { return false; }
  /// Who writes: whether anybody reads now.
  virtual bool has_readers() const noexcept { return false; }
  /// What the medium has grown by, made longer by another process, can be read from now on.
  virtual Status look_again() { return {}; }

  /// Who shares it with other processes (MediumOptions::shares): the lock that tells them apart;
  /// else nullptr.
  virtual FileLock* sharing() noexcept { return nullptr; }

  // --- records that a crash may have torn

  /// The same as read_all for bytes that nobody believes before whole() said so.
  virtual Status load(std::span<const ReadRequest> requests) { return read_all(requests); }
  /// load() and write() of what is in pages one behind the other.
  Status load_pages(u64 offset, MutableBytes into);
  Status write_pages(u64 offset, Bytes pages, const Site& site);
  /// Whether the `length` bytes at `offset`, which are at `bytes` by load() or view(), are a whole
  /// record: `fits(bytes)`, which looks at these bytes and at nothing else of the medium.
  template <class Fits>
  bool whole(u64 offset, const std::byte* bytes, u64 length, const Site& site, Fits&& fits) {
    if (!decides_) [[likely]]
      return fits(bytes);
    return decide(
        offset, bytes, length, site,
        {&fits, [](void* object, const std::byte* at) {
           return static_cast<bool>((*static_cast<std::remove_reference_t<Fits>*>(object))(at));
         }});
  }
  /// Load a record in pages that `checksum` fits: true when it is whole.
  Result<bool> verified_read(u64 offset, MutableBytes into, u64 checksum, const Site& site);

  /// It has a say in what whole() finds, or something to do when it is found.
  bool decides() const { return decides_; }

  struct Fits {
    void* object;
    bool (*call)(void* object, const std::byte* bytes);
    bool operator()(const std::byte* bytes) const { return call(object, bytes); }
  };
  /// What whole() is on such a medium; it may rewrite `bytes`.
  virtual bool decide(u64 offset, const std::byte* bytes, u64 length, const Site& site, Fits fits);

 protected:
  explicit Medium(bool decides = false) : decides_(decides) {}
  Failure keeps_its_space() const {
    return {Code::kUnsupported, "'" + name() + "' is on a medium that gives no space back"};
  }

 private:
  const bool decides_;
};

/// A medium of bytes. (What wraps another medium is one as well, and has objects where that has.)
class LinearMedium : public Medium {
 public:
  LinearMedium* linear() noexcept final { return geometry().objects ? nullptr : this; }

  /// The medium's own memory, of which [offset, offset + length) is loaded from; nullptr on block
  /// media.
  virtual const std::byte* direct(u64 offset, u64 length) = 0;
  /// The same for bytes that nobody believes before whole() said so.
  virtual const std::byte* view(u64 offset) { return direct(offset, 0); }
  /// Map [offset, offset + length) at exactly `address` as a private, lazily loaded view that
  /// replaces whatever is mapped there.
  virtual Status map_home(void* address, u64 offset, u64 length) = 0;

 protected:
  using Medium::Medium;
};

/// How a store takes NVM writes to durability.
enum class Flush { kNonTemporal, kClwb, kClflushopt, kClflush };

struct MediumOptions {
  bool create = true;
  bool read_only = false;  ///< nothing is ever written, and needs no permission to; one process may
                           ///< write meanwhile, but not to a server's medium
  bool shares = false;     ///< other processes that share it may write as well: only files, and
                           ///< sharing()->stay() comes when this one may be met
  bool allow_network_filesystem = false;
  Flush flush = Flush::kNonTemporal;
  u64 write_ns = 0;      ///< emulated latency a line
  u64 bandwidth_mb = 0;  ///< emulated write bandwidth, MB/s; 0: unlimited
  bool use_io_uring = true;
  u64 timeout_ms = 10'000;  ///< of a server, to connect and to answer; of a dead opener's writes
  bool takeover = false;    ///< the owner on another machine is dead, says who opens
  u64 lease_s = 15;         ///< of an owner on RADOS, who renews it
  std::string conf{};       ///< Ceph's configuration; "": where it usually is
  std::string user{};       ///< Ceph's, without "client."; "": admin
  std::string endpoint{};   ///< of an S3 service, "https://…"; "": as the environment says
  std::string region{};     ///< of it; "": as the environment says
};

struct OpenedMedium {
  std::unique_ptr<Medium> medium;
  bool created = false;  ///< the medium was empty
};

/// Open what a URI names: a plain path, file:, emu:, dax:, memcached:, rados:, s3:. Parameters of
/// the URI override `options`. Takes the writer's lock, or a reader's, which die with the process;
/// kLocked names the owner.
Result<OpenedMedium> open_medium(std::string_view uri, MediumOptions options);
/// What a URI names, however it is written: of two places it is not the same.
std::string place_of(std::string_view uri);
/// Which file is there now; "": none, or it is no file.
std::string occupant_of(std::string_view uri);
/// Delete what a URI names, whatever it holds. kLocked where it is open, also to be read.
Status remove_medium(std::string_view uri);
/// A URI like this one, with `suffix` at the end of its path or name.
std::string uri_beside(std::string_view uri, std::string_view suffix);

}  // namespace perdura::media
