// perdura COMMAND STORE: looks into a store that no program has open.
#include <cstdio>
#include <exception>

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
    "a path, or a URI as the program uses it: file:PATH, dax:PATH, emu:PATH";
constexpr const char* kFooter =
    "Nothing is written to the store, and it must not be open elsewhere.\n"
    "Exit codes: 0 all is well, 1 the store is damaged, 2 wrong usage or no store to look at.";

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description,
                      Arguments& arguments) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer(kFooter);
  command->add_option("STORE", arguments.store, kStoreHelp)->required();
  command->add_flag("--json", arguments.json, "print JSON");
  command->add_flag("--allow-network-filesystem", arguments.allow_network_filesystem,
                    "look at a store whose lock cannot be trusted");
  return command;
}

int run(int argc, char** argv) {
  CLI::App app("Looks into the stores of Perdura, a library that makes a program's memory durable.",
               "perdura");
  app.footer(kFooter);
  app.set_version_flag("--version", fmt::format("perdura {}, store format version {}",
                                                PERDURA_VERSION, format::kFormatVersion));
  app.require_subcommand(1);
  Arguments arguments;
  const CLI::App* info_command = add_command(
      app, "info", "Say what a store holds: versions, sizes, regions, roots, heap.", arguments);
  add_command(app, "check", "Verify every checksum of a store, and the metadata of its heap.",
              arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kGood : kFailed;
  }
  return info_command->parsed() ? info(arguments) : check(arguments);
}

}  // namespace

void complain(const Failure& failure) { fmt::print(stderr, "perdura: {}\n", failure.message); }

}  // namespace perdura::tools

int main(int argc, char** argv) {
  try {
    return perdura::tools::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "perdura: {}\n", error.what());
    return perdura::tools::kFailed;
  }
}
