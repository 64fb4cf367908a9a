#include "media/file_space.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/mapping.hpp"
#include "base/mutant.hpp"
#include "format/format.hpp"

namespace perdura::media {
namespace {

constexpr u64 kNetworkFilesystems[] = {NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC, SMB2_SUPER_MAGIC,
                                       CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC, V9FS_MAGIC};

Status refuse_network_filesystem(int fd, const std::string& path) {
  struct statfs info{};
  if (::fstatfs(fd, &info) != 0)
    return system_failure(errno, "cannot inspect the file system of '" + path + "'");
  if (std::ranges::count(kNetworkFilesystems, static_cast<u64>(info.f_type)) == 0) return {};
  return Failure{Code::kUnsupported,
                 "'" + path +
                     "' is on a network file system, where locks and flushes cannot be trusted; "
                     "use a local disk, or set allow_network_filesystem"};
}

// Of the directory that holds the file: the path may be a link to another one.
Status flush_directory_of(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(path, error);
  if (error) return system_failure(error.value(), "cannot find the directory of '" + path + "'");
  UniqueFd fd(::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0)
    return system_failure(errno, "cannot flush the directory of '" + path + "'");
  return {};
}

// A store ends at a page boundary. What does not is foreign; or nothing but zeros, an empty file of
// a kind; or a store that was truncated, or to which something was appended: of that the superblock
// will say whether its whole pages are enough. Returns the size to go on with.
Result<u64> size_of_ragged(const OpenedFile& opened, const std::string& path, u64 size) {
  const int fd = opened.file.get();
  std::vector<char> head(std::min(size, format::kDataBegin));
  if (::pread(fd, head.data(), head.size(), 0) != static_cast<ssize_t>(head.size()))
    return system_failure(errno, "cannot read '" + path + "'");
  const auto holds_superblock = [&](u64 offset) {
    return head.size() >= offset + sizeof format::kMagic &&
           std::memcmp(head.data() + offset, format::kMagic, sizeof format::kMagic) == 0;
  };
  const bool is_store = holds_superblock(format::kSuperblockOffset[0]) ||
                        holds_superblock(format::kSuperblockOffset[1]);
  if (is_store && size >= format::kSuperblockBytes) return round_down(size, kPageBytes);
  if (is_store)
    return Failure{Code::kCorrupt, "'" + path + "' is truncated to " + std::to_string(size) +
                                       " bytes; restore it from a copy"};
  if (size > format::kDataBegin || !is_zero(head.data(), head.size()))
    return Failure{Code::kForeign, "'" + path +
                                       "' is not a Perdura store (its first bytes are not a "
                                       "superblock's); choose another path, or move it away"};
  if (!opened.writable) return round_down(size, kPageBytes);
  const u64 whole = round_up(size, kPageBytes);
  if (::ftruncate(fd, static_cast<off_t>(whole)) != 0)
    return system_failure(errno, "cannot extend '" + path + "'");
  return whole;
}

// Also of a path that ends with a slash, which a file's does not.
Failure directory_named(const std::string& path) {
  const std::string file = path + (path.ends_with('/') ? "" : "/") + "state.pd";
  return {Code::kInvalidArgument, "'" + path +
                                      "' names a directory, and a store is a file; name one in "
                                      "it, as in '" +
                                      file + "'"};
}

}  // namespace

Result<OpenedFile> open_store_file(const std::string& path, const MediumOptions& options) {
  if (path.empty())
    return Failure{Code::kInvalidArgument, "a store needs a path, as in 'file:state.pd'"};
  const int create = options.create && !options.read_only ? O_CREAT : 0;
  OpenedFile opened;
  opened.writable = !options.read_only;
  opened.file = UniqueFd(::open(path.c_str(), opened.access() | O_CLOEXEC | create, 0644));
  const int fd = opened.file.get();
  if (!opened.file) {
    const int error_number = errno;
    if (error_number == EISDIR) return directory_named(path);
    Failure failure = system_failure(error_number, "cannot open the store '" + path + "'");
    if (error_number == ENOENT && options.create) failure.message += "; create its directory first";
    return failure;
  }
  struct stat info{};
  if (::fstat(fd, &info) != 0) return system_failure(errno, "cannot inspect '" + path + "'");
  if (S_ISDIR(info.st_mode)) return directory_named(path);
  if (!S_ISREG(info.st_mode))
    return Failure{Code::kInvalidArgument,
                   "'" + path + "' is not a regular file; choose another path for the store"};
  if (!options.allow_network_filesystem) PERDURA_TRY(refuse_network_filesystem(fd, path));
  // A new file survives a power failure only with its name. One that is no longer than the head of
  // a store may be nothing but zeros, and new as well.
  if (static_cast<u64>(info.st_size) <= format::kDataBegin && !options.read_only &&
      info.st_nlink != 0)
    PERDURA_TRY(flush_directory_of(path));
  opened.size = static_cast<u64>(info.st_size);
  if (!is_aligned(opened.size, kPageBytes)) {
    PERDURA_ASSIGN(opened.size, size_of_ragged(opened, path, opened.size));
  }
  return opened;
}

NamedFile::NamedFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {
  struct stat info{};
  nameless_ = ::fstat(fd_.get(), &info) == 0 && info.st_nlink == 0;
}

Result<u64> NamedFile::size() const {
  struct stat info{};
  if (::fstat(fd(), &info) != 0) return system_failure(errno, "cannot inspect '" + path_ + "'");
  return round_down(static_cast<u64>(info.st_size), kPageBytes);
}

// What cannot be inspected may be there all the same.
// Of the links alone: since Linux 6.13 a file whose times were asked for gets finer ones at its
// next write (multigrain timestamps), and to note these in its inode takes half as long as the
// flush.
Status NamedFile::check_named() const {
  struct statx info{};
  if (nameless_ || ::statx(fd(), "", AT_EMPTY_PATH, STATX_NLINK, &info) != 0 ||
      info.stx_nlink != 0 || is_mutant("deleted_file"))
    return {};
  return Failure{Code::kIo, "'" + path_ +
                                "' was deleted or replaced while it is open, and what is written "
                                "to it would be lost when this process ends; until then, copy what "
                                "is durable with cp /proc/" +
                                std::to_string(::getpid()) + "/fd/" + std::to_string(fd()) +
                                " to a new file"};
}

Status NamedFile::give_up_name() {
  nameless_ = true;
  if (::unlink(path_.c_str()) == 0) return {};
  return system_failure(errno, "cannot take '" + path_ + "' its name");
}

Status extend_file(int fd, const std::string& path, u64 from, u64 to) {
  const auto offset = static_cast<off_t>(from);
  const auto length = static_cast<off_t>(to - from);
  // Behind the end that the medium knows is what an earlier try left, or what was appended.
  struct stat info{};
  if (::fstat(fd, &info) != 0) return system_failure(errno, "cannot inspect '" + path + "'");
  if (info.st_size > offset && ::ftruncate(fd, offset) != 0)
    return system_failure(errno,
                          "cannot cut '" + path + "' back to " + std::to_string(from) + " bytes");
  int error_number = ::fallocate(fd, 0, offset, length) == 0 ? 0 : errno;
  if (error_number == EOPNOTSUPP) error_number = ::posix_fallocate(fd, offset, length);
  if (error_number == 0) return {};
  // A partial allocation may have moved the end; nothing is mapped beyond `from`.
  Failure failure =
      system_failure(error_number, "cannot extend '" + path + "' from " + std::to_string(from) +
                                       " to " + std::to_string(to) + " bytes");
  if (::ftruncate(fd, offset) != 0) failure.message += " (nor cut it back)";
  return failure;
}

Status cut_file(int fd, const std::string& path, u64 size) {
  if (::ftruncate(fd, static_cast<off_t>(size)) == 0) return {};
  return system_failure(errno, "cannot cut '" + path + "' to " + std::to_string(size) + " bytes");
}

Status make_hole(int fd, const std::string& path, u64 offset, u64 length) {
  if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(length)) == 0)
    return {};
  if (errno == EOPNOTSUPP)
    return Failure{Code::kUnsupported, "the file system of '" + path + "' has no holes in files"};
  return system_failure(errno, "cannot give back " + std::to_string(length) + " bytes at offset " +
                                   std::to_string(offset) + " of '" + path + "'");
}

Status fill_hole(int fd, const std::string& path, u64 offset, u64 length) {
  const auto begin = static_cast<off_t>(offset);
  const auto bytes = static_cast<off_t>(length);
  int error_number = ::fallocate(fd, FALLOC_FL_KEEP_SIZE, begin, bytes) == 0 ? 0 : errno;
  // What cannot allocate ahead made no hole either.
  if (error_number == 0 || error_number == EOPNOTSUPP) return {};
  return system_failure(error_number, "cannot get " + std::to_string(length) + " bytes at offset " +
                                          std::to_string(offset) + " of '" + path + "' back");
}

u64 occupied_bytes(int fd, u64 size) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 ? static_cast<u64>(info.st_blocks) * 512 : size;
}

Status map_private(int fd, const std::string& path, void* address, u64 offset, u64 length) {
  // A child must not see pages whose home changes under it (docs/guarantees.md, "fork").
  if (map_without_children(address, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd,
                           static_cast<off_t>(offset)) == MAP_FAILED)
    return system_failure(errno, "cannot map " + std::to_string(length) + " bytes of '" + path +
                                     "' at offset " + std::to_string(offset));
  return {};
}

}  // namespace perdura::media
