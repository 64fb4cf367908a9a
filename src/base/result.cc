#include "base/result.hpp"

#include <cerrno>
#include <system_error>

namespace perdura {

Failure system_failure(int error_number, const std::string& what) {
  Code code = Code::kIo;
  const char* remedy = "";
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      code = Code::kNoSpace;
      remedy = "; free space on the file system and try again";
      break;
    case EFBIG:
      code = Code::kNoSpace;
      remedy = "; raise the limit of a file's size (ulimit -f)";
      break;
    case ENOMEM:
      code = Code::kNoMemory;
      remedy =
          "; the system refused memory or address space: see ulimit -v, the memory of the control "
          "group, and vm.max_map_count";
      break;
    case EMFILE:
      remedy = "; raise the limit of open files (ulimit -n), or close some";
      break;
    case ENFILE:
      remedy = "; raise the system's limit of open files (fs.file-max)";
      break;
    case ENOENT:
      code = Code::kNotFound;
      break;
    case EACCES:
    case EPERM:
      code = Code::kInvalidArgument;
      remedy = "; check the permissions of the file and its directory";
      break;
    case EROFS:
      code = Code::kInvalidArgument;
      remedy =
          "; remount the file system to be written, or open a store that is there with "
          "Options::read_only";
      break;
    case EOPNOTSUPP:
    case ENOSYS:
      code = Code::kUnsupported;
      break;
    default:
      break;
  }
  return Failure{code, what + ": " + std::generic_category().message(error_number) + remedy};
}

// The messages need no memory of their own.
Failure failure_of_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Failure{Code::kNoMemory, "out of memory"};
  } catch (const std::system_error&) {
    return Failure{Code::kNoMemory,
                   "no new thread; raise the limit of threads (ulimit -u, or pids.max of the "
                   "control group)"};
  } catch (const Error& error) {
    return copy_of(Failure{error.code(), error.what()});
  }
}

}  // namespace perdura
