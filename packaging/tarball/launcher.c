// This launcher starts the program with the loader and the libraries of the tarball, so that those of the machine do not
// matter: bin/quire -> lib/quire/ld.so --library-path lib/quire lib/quire/quire ARGUMENTS. It is linked statically.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length < 0) {
    fprintf(stderr, "quire: /proc/self/exe: %s\n", strerror(errno));
    return 1;
  }
  path[length] = '\0';
  for (int i = 0; i < 2; ++i) {  // from bin/quire to the folder that holds bin
    char* const slash = strrchr(path, '/');
    if (slash != NULL) *slash = '\0';
  }
  char loader[PATH_MAX + 32], libraries[PATH_MAX + 32], program[PATH_MAX + 32];
  snprintf(loader, sizeof loader, "%s/lib/quire/ld.so", path);
  snprintf(libraries, sizeof libraries, "%s/lib/quire", path);
  snprintf(program, sizeof program, "%s/lib/quire/quire", path);
  char** const arguments = calloc((size_t)argc + 7, sizeof *arguments);
  if (arguments == NULL) return 1;
  int count = 0;
  arguments[count++] = loader;
  arguments[count++] = "--library-path";
  arguments[count++] = libraries;
  arguments[count++] = "--argv0";
  arguments[count++] = argc > 0 ? argv[0] : program;
  arguments[count++] = program;
  for (int i = 1; i < argc; ++i) arguments[count++] = argv[i];
  execv(loader, arguments);
  fprintf(stderr, "quire: %s: %s\n", loader, strerror(errno));
  return 1;
}
