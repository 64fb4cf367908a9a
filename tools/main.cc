// perdura COMMAND STORE: looks into a store, also beside a program that has it open.
// perdura advise -- PROGRAM: says how a program's memory is best made durable.
// perdura classify, perdura refactor: see source_tools.cc.
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <exception>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "format/format.hpp"

#ifndef PERDURA_VERSION
#error "tools/CMakeLists.txt defines PERDURA_VERSION"
#endif

namespace perdura::tools {
namespace {

constexpr const char* kStoreHelp =
    "a path, or a URI as the program uses it: file:PATH, dax:PATH, emu:PATH, "
    "memcached://HOST:PORT/NAME, rados://POOL/NAME, s3://BUCKET/PREFIX";
constexpr const char* kRollbackFooter =
    "Makes a new version with the content of the older one, after verifying that. The versions in\n"
    "between are kept as others are, so going back can itself be undone. Who reads the store goes "
    "on\n"
    "with the version that he has; nobody may have it open to write. Exit codes: 0 it is done, 1 "
    "the\n"
    "version is damaged, 2 wrong usage or no store.";
constexpr const char* kRemoveFooter =
    "A region goes with its versions, an object whose calls are logged with its log and archive;\n"
    "their space is free for others. Nobody may have the store open to write, nor the region to\n"
    "read. An object that is in an overflow store goes with its copy there; the region of an\n"
    "overflow store is removed there, when nothing is to come home from it. Exit codes: 0 it is "
    "done, 1 the store is damaged, 2 wrong usage, or there is none.";
constexpr const char* kDumpFooter =
    "Pointers are followed where type records say that they are pointers; other bytes are printed\n"
    "as they are. An object is printed where it is met first, and as \"@ADDRESS\" elsewhere. What\n"
    "transactions have done since the newest version is not shown. Pages that do not fit their\n"
    "checksums are named, and objects in them are not printed. Nothing is written to the store,\n"
    "and a program may have it open. Exit codes: 0 all is well, 1 the store is damaged, 2 wrong\n"
    "usage, or nothing to look at.";
constexpr const char* kCompactFooter =
    "The log of a region that was closed in order goes; the file is cut off behind what the store\n"
    "needs, and what is free before that takes no space. The next opening takes log anew. What is\n"
    "free inside a heap stays. Nobody may have the store open, but with --dry-run. A crash leaves\n"
    "the store as it was, with more or less of its space. Exit codes: 0 it is done, 1 the store\n"
    "is damaged, 2 wrong usage, no store, or one that is open.";
constexpr const char* kIdentityFooter =
    "A copy of a store's file says that it is the same store. --new makes it another one: of a\n"
    "store that nobody has open, and that was closed in order. It stays at its address, where its\n"
    "pointers hold. One with untyped blocks is not open beside the other one in a process; one\n"
    "whose blocks are all typed moves when it is opened there. Exit codes: 0 it is done, 1 the\n"
    "store is damaged, 2 wrong usage, no store, or one that is open.";
constexpr const char* kGeneralFooter =
    "info, check, dump, stats and versions write nothing to the store, which need not be writable. "
    "rollback,\n"
    "remove, compact and identity --new write to it, and nobody may have it open to write "
    "meanwhile.\n"
    "copy, backup and restore read one store and write another.\n"
    "advise runs the program that it is given, and writes where --dir says. classify and refactor\n"
    "read sources. `perdura COMMAND --help` says more.";
constexpr const char* kFooter =
    "Nothing is written to the store, which need not be writable. Others may look at it as well, "
    "and\n"
    "a program may have it open and write to it (not on memcached): it is looked at as it was at "
    "one\n"
    "moment, and the program keeps that until the command ends.\n"
    "Exit codes: 0 all is well, 1 the store is damaged, or a copy that was not completed, 2 wrong\n"
    "usage, no store to look at, or output that cannot be written.";

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description,
                      Arguments& arguments) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer(kFooter);
  command->add_option("STORE", arguments.store, kStoreHelp)->required();
  command->add_flag("--json", arguments.json, "print JSON");
  command->add_flag("--allow-network-filesystem", arguments.medium.allow_network_filesystem,
                    "look at a store whose lock cannot be trusted");
  return command;
}

constexpr const char* kStatsFooter =
    "Of a store that a process of this machine has open to write: its counters, which that "
    "process\n"
    "publishes in memory a few times a second; it is not stopped or asked, and nothing is read of\n"
    "the medium but who has it. Who may debug that process may see them: its user, and root. With\n"
    "--watch rates are shown until Ctrl-C, or until the store is closed. Exit codes: 0 all is "
    "well,\n"
    "2 wrong usage, nobody has the store open, or its process may not be looked at.";

const CLI::App* add_stats(CLI::App& app, StatsArguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "stats", "Say what a store's process is doing: checkpoints, stops, waits, log.");
  command->footer(kStatsFooter);
  command->add_option("STORE", arguments.store, kStoreHelp)->required();
  command->add_option("--region", arguments.region, "of this region alone");
  CLI::Option* const json = command->add_flag("--json", arguments.json, "print JSON");
  CLI::Option* const prometheus = command->add_flag(
      "--prometheus", arguments.prometheus, "print the text format that Prometheus scrapes");
  prometheus->excludes(json);
  CLI::Option* const watch =
      command->add_flag("--watch", arguments.watch, "go on, with rates; as JSON a line each time");
  watch->excludes(prometheus);
  command->add_option("--interval", arguments.interval_ms, "milliseconds between two looks")
      ->check(CLI::Range(u64{10}, u64{3'600'000}))
      ->capture_default_str()
      ->needs(watch);
  command->add_flag("--allow-network-filesystem", arguments.medium.allow_network_filesystem,
                    "look at a store whose lock cannot be trusted");
  return command;
}

constexpr const char* kAdviseFooter =
    "The program runs as it would without; its arguments come last, behind --. Predictions are\n"
    "for checkpoints during which it waits. Exit codes: 0 all is well, 2 nothing was measured.";

const CLI::App* add_advise(CLI::App& app, AdviseArguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "advise", "Run a program once; say what would be copied and how slow it would be.");
  command->footer(kAdviseFooter);
  command
      ->add_option("--medium", arguments.medium,
                   "for which medium: file, dax, emu, as emu?write_ns=600 with parameters")
      ->capture_default_str();
  command->add_option("--dir", arguments.folder,
                      "a folder on it; otherwise TMPDIR, /var/tmp, or /dev/shm for emu");
  command->add_option("--library", arguments.library, "libperdura_malloc.so");
  command->add_option("--json", arguments.json, "write the figures to this file");
  command->add_option("--html", arguments.html, "write a page with plots to this file");
  CLI::Option* const ranks =
      command
          ->add_option("--ranks", arguments.ranks,
                       "for a job of so many processes like it: how often it should take points")
          ->check(CLI::Range(u64{1}, u64{100'000'000}));
  CLI::Option* const mtbf =
      command
          ->add_option("--mtbf", arguments.mtbf_hours,
                       "hours between two failures of one of its ranks, with its machine")
          ->check(CLI::Range(1e-3, 1e9));
  ranks->needs(mtbf);
  mtbf->needs(ranks);
  command
      ->add_option("--restart", arguments.restart_s,
                   "seconds from a failure to where the version was")
      ->needs(ranks)
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("PROGRAM", arguments.command, "the program and its arguments")->required();
  return command;
}

u64 parse_version(const std::string& text) {
  u64 version = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, version);
  if (parsed.ec != std::errc{} || parsed.ptr != end || version == 0)
    throw CLI::ValidationError("VERSION", fmt::format("'{}' is no number of a version", text));
  return version;
}

// The library would only say that one is required.
void require_command(const CLI::App& app, const std::string& name) {
  std::string known;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_name() == name) return;
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  if (!name.starts_with('-'))
    throw std::invalid_argument(
        fmt::format("'{}' is no command; there are {}. `perdura --help` says more", name, known));
}

int run(int argc, char** argv) {
  CLI::App app("Looks into the stores of Perdura, a library that makes a program's memory durable.",
               "perdura");
  app.footer(kGeneralFooter);
  app.set_version_flag("--version", fmt::format("perdura {}, store format version {}",
                                                PERDURA_VERSION, format::kFormatVersion));
  app.require_subcommand(1);
  Arguments arguments;
  CLI::App* info_command = add_command(
      app, "info", "Say what a store holds: versions, sizes, regions, roots, heap.", arguments);
  info_command->add_flag("--usage", arguments.usage,
                         "say what takes the space as well: of the medium, which adds up to its "
                         "size, and of each heap, by type and by root");
  CLI::App* dump_command =
      add_command(app, "dump", "Print the objects of a store, as JSON.", arguments);
  dump_command->footer(kDumpFooter);
  dump_command->add_option("ROOT", arguments.root, "what can be reached from this root alone");
  dump_command->add_option("--region", arguments.region, "of this region alone");
  dump_command
      ->add_option("--depth", arguments.depth, "follow so many pointers, one behind the other")
      ->default_val(16)
      ->check(CLI::Range(0, 1000));
  dump_command
      ->add_option("--limit", arguments.limit,
                   "print so many bytes of an array, and of what holds no pointers; 0: all")
      ->default_val(1024);
  dump_command->add_flag("--flat", arguments.flat,
                         "list the objects one by one, instead of nesting them");
  CLI::App* check_command = add_command(
      app, "check", "Verify every checksum of a store, and the metadata of its heap.", arguments);
  check_command->add_option("--overflow", arguments.overflow,
                            "verify objects that are away as well, in this overflow store");
  CLI::App* versions_command =
      add_command(app, "versions", "List the versions that a store keeps.", arguments);
  versions_command->add_option("--region", arguments.region, "of this region alone");
  CLI::App* rollback_command =
      add_command(app, "rollback", "Go back to a version that a store keeps.", arguments);
  rollback_command->footer(kRollbackFooter);
  // Not by the library's conversion, which takes "010" for 8 and the largest number for a larger
  // one.
  rollback_command
      ->add_option_function<std::string>(
          "VERSION",
          [&arguments](const std::string& text) { arguments.version = parse_version(text); },
          "as `perdura versions` lists it")
      ->required();
  rollback_command->add_option("--region", arguments.region, "which one; the first one otherwise");
  CLI::App* remove_command = add_command(
      app, "remove", "Remove a region of a store, with all it holds, or an object.", arguments);
  remove_command->footer(kRemoveFooter);
  CLI::Option* const removed_region = remove_command->add_option(
      "REGION", arguments.region,
      "its name, as `perdura info` says it; of an object it need not be said where one has it");
  remove_command->add_option("--object", arguments.object,
                             "this object of it alone, not all of the region");
  remove_command->add_option("--overflow", arguments.overflow,
                             "the overflow store, where the object's copy may be");
  remove_command->add_flag("--overflow-lost", arguments.overflow_lost,
                           "that store is lost: remove what lies there all the same");
  CLI::App* compact_command =
      add_command(app, "compact", "Give back space that a store does not need.", arguments);
  compact_command->footer(kCompactFooter);
  compact_command->add_flag("--dry-run", arguments.dry_run,
                            "say what would be given back, and write nothing");
  CLI::App* identity_command =
      add_command(app, "identity", "Say which store it is, or make a copy another one.", arguments);
  identity_command->footer(kIdentityFooter);
  identity_command->add_flag("--new", arguments.renew, "draw a new identity");
  StatsArguments stats_arguments;
  const CLI::App* stats_command = add_stats(app, stats_arguments);
  CopyArguments copy_arguments;
  const CLI::App* copy_command = add_copy(app, CopyKind::kCopy, copy_arguments);
  const CLI::App* backup_command = add_copy(app, CopyKind::kBackup, copy_arguments);
  const CLI::App* restore_command = add_copy(app, CopyKind::kRestore, copy_arguments);
  AdviseArguments advise_arguments;
  const CLI::App* advise_command = add_advise(app, advise_arguments);
  for (const auto& [name, what] :
       {std::pair("classify", "Say which methods of objects may be deferred, and why not."),
        std::pair("refactor", "Make a class one whose calls are logged.")}) {
    app.add_subcommand(name, what);
    if (argc > 1 && std::string_view(argv[1]) == name) return source_tools(argv);
  }
  if (argc > 1) require_command(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kGood : kFailed;
  }
  if (remove_command->parsed() && removed_region->empty() && arguments.object.empty())
    throw std::invalid_argument("remove: say which REGION, or which --object");
  if (arguments.object.empty() && remove_command->parsed() &&
      (!arguments.overflow.empty() || arguments.overflow_lost))
    throw std::invalid_argument(
        "remove: --overflow is for an --object; remove the region of the overflow store there");
  if (copy_command->parsed()) return copy(copy_arguments);
  if (backup_command->parsed()) return backup(copy_arguments);
  if (restore_command->parsed()) return restore(copy_arguments);
  if (stats_command->parsed()) return stats(stats_arguments);
  if (advise_command->parsed()) return advise(advise_arguments);
  if (versions_command->parsed()) return versions(arguments);
  if (rollback_command->parsed()) return rollback(arguments);
  if (remove_command->parsed()) return remove(arguments);
  if (compact_command->parsed()) return compact(arguments);
  if (identity_command->parsed()) return identity(arguments);
  if (dump_command->parsed()) return dump_objects(arguments);
  return info_command->parsed() ? info(arguments) : check(arguments);
}

}  // namespace

int complain(const Failure& failure) {
  fmt::print(stderr, "perdura: {}\n", failure.message);
  return failure.code == Code::kCorrupt ? kDamaged : kFailed;
}

}  // namespace perdura::tools

int main(int argc, char** argv) {
  try {
    const int code = perdura::tools::run(argc, argv);
    // What nobody could read was not said.
    const int error_number = std::fflush(stdout) == 0 ? EIO : errno;
    if (std::ferror(stdout) == 0) return code;
    return perdura::tools::complain(
        perdura::system_failure(error_number, "cannot write the output"));
  } catch (const std::exception& error) {
    fmt::print(stderr, "perdura: {}\n", error.what());
    return perdura::tools::kFailed;
  }
}
