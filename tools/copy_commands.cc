// The command lines of perdura copy, backup and restore.
#include <map>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "commands.hpp"

namespace perdura::tools {
namespace {

constexpr const char* kCopyFooter =
    "All regions, each in its newest version, verified as they are read. DST becomes a store with\n"
    "an identity of its own. A program may have SRC open and go on writing to it (not on "
    "servers).\n"
    "Until all is there DST has no version, and says so; the same command goes on where it was "
    "cut\n"
    "short. Exit codes: 0 it is done, 1 SRC is damaged, 2 wrong usage, or it cannot be done.";
constexpr const char* kBackupFooter =
    "DST keeps several versions of STORE, in chunks that they share: what it has already is\n"
    "compared, and not sent again. It is a store itself, that opens and is read as any other. A\n"
    "program may have STORE open and go on writing to it (not on servers). Until the version is\n"
    "there DST has the ones before it; the same command goes on where it was cut short. Exit "
    "codes:\n"
    "0 it is done, 1 STORE is damaged, 2 wrong usage, or it cannot be done.";
constexpr const char* kRestoreFooter =
    "STORE becomes the store that BACKUP was made of, as it was: its identity, the numbers of its\n"
    "versions, and how its regions are kept, but for --engine. Nothing may be there yet. Until "
    "all\n"
    "is there it has no version, and says so; the same command goes on where it was cut short. "
    "Exit\n"
    "codes: 0 it is done, 1 BACKUP is damaged, 2 wrong usage, or it cannot be done.";

const std::map<std::string, Engine> kEngines = {
    {"log", Engine::kRedoLog}, {"chunks", Engine::kRemap}, {"copies", Engine::kDualCopy}};

}  // namespace

const CLI::App* add_copy(CLI::App& app, CopyKind kind, CopyArguments& arguments) {
  const bool is_backup = kind == CopyKind::kBackup;
  struct Words {
    const char* name;
    const char* what;
    const char* footer;
    const char* from;
    const char* to;
  };
  const Words words =
      is_backup ? Words{"backup", "Add a version of a store to a backup of it.", kBackupFooter,
                        "STORE", "DST"}
      : kind == CopyKind::kCopy
          ? Words{"copy", "Copy a store from any medium to any other.", kCopyFooter, "SRC", "DST"}
          : Words{"restore", "Make a store anew from a backup of it.", kRestoreFooter, "BACKUP",
                  "STORE"};
  CLI::App* command = app.add_subcommand(words.name, words.what);
  command->footer(words.footer);
  command->add_option(words.from, arguments.from, "what is read: a path, or a URI")->required();
  command->add_option(words.to, arguments.to, "what is written: a path, or a URI")->required();
  command->add_option("--region", arguments.region, "this region alone");
  command
      ->add_option("--version", arguments.version,
                   "this version of it, as `perdura versions` lists it; otherwise the newest one")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--limit", arguments.bytes_per_second,
                   "read so much a second at most: bytes, or with a unit, as 200MB")
      ->check([](const std::string& text) {
        return text.starts_with('-') ? "cannot be negative" : std::string();
      })
      ->transform(CLI::AsSizeValue(true));
  if (is_backup) {
    command
        ->add_option("--keep", arguments.versions_kept,
                     "versions that a new backup keeps; otherwise 8")
        ->check(CLI::Range(1, 1024));
    command->add_flag("--adopt", arguments.adopts,
                      "go on also where DST has versions of another store, or of its own");
  } else {
    command
        ->add_option_function<std::string>(
            "--engine",
            [&arguments](const std::string& name) { arguments.engine = kEngines.at(name); },
            "how its regions are kept: log, chunks or copies; otherwise as in the original")
        ->check(CLI::IsMember(kEngines));
  }
  command->add_flag("--json", arguments.json, "print JSON");
  command->add_flag("--allow-network-filesystem", arguments.medium.allow_network_filesystem,
                    "use stores whose lock cannot be trusted");
  return command;
}

}  // namespace perdura::tools
