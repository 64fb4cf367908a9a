// Writes the golden images of this build's formats: make_images FOLDER. A new version of a format
// gets a folder beside the older ones (tests/unit/golden_test.cc opens all of them).
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "golden.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_images FOLDER\n");
    return 2;
  }
  for (const perdura::golden::Image& image : perdura::golden::images()) {
    const std::string path = std::string(argv[1]) + "/" + image.name + ".pd";
    const pid_t child = ::fork();
    if (child == 0) {
      image.make(path);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    const std::string made = path + (::access((path + ".overflow").c_str(), F_OK) == 0 ? "*" : "");
    if (status != 0 || std::system(("gzip -9nf " + made).c_str()) != 0) {
      std::fprintf(stderr, "make_images: %s was not made\n", path.c_str());
      return 1;
    }
  }
  return 0;
}
