/*
 * Every flush of the process takes SLOW_FLUSH_MICROS more, as on a disk that is farther away. Loaded before libc
 * (LD_PRELOAD), so that it stands in the place of fsync and fdatasync and calls the real ones.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef int (*flush)(int);

static void wait_longer(void) {
  static long micros = -1;
  if (micros < 0) {
    const char *given = getenv("SLOW_FLUSH_MICROS");
    micros = given ? atol(given) : 0;
  }
  if (micros > 0) {
    struct timespec more = {micros / 1000000, (micros % 1000000) * 1000};
    nanosleep(&more, 0);
  }
}

int fsync(int file) {
  static flush real;
  if (!real) real = (flush)dlsym(RTLD_NEXT, "fsync");
  wait_longer();
  return real(file);
}

int fdatasync(int file) {
  static flush real;
  if (!real) real = (flush)dlsym(RTLD_NEXT, "fdatasync");
  wait_longer();
  return real(file);
}
